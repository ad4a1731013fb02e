"""RLlib's modules with action masks: they never choose an action that the mask of its observation forbids.

Observations are dicts of `"action_mask"` and `"observations"`, as envoi's forms with `action_masks=True` give them. A
mask has an element for each logit: n for `Discrete(n)`, the sum of `nvec` for `MultiDiscrete`; it may be of any dtype,
and everything but 0 is legal. Networks, the value function included, see only the observations. Where a mask forbids
all actions, as the zeros do with which RLlib pads sequences, all are equally likely.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.bc.torch.default_bc_torch_rl_module import DefaultBCTorchRLModule
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.sac_learner import (
    ACTION_LOG_PROBS,
    ACTION_LOG_PROBS_NEXT,
    ACTION_PROBS,
    ACTION_PROBS_NEXT,
    QF_TARGET_NEXT,
    QF_TWIN_PREDS,
)
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS

from envoi.protocol.multi_env import MASK

_LOWEST = -1e30
"""The logit of an illegal action. Its probability is 0, and the sum over the dimensions of an action stays finite: rows
that pad sequences hold actions that their masks forbid, and losses multiply their log-probabilities by 0."""


def _masked(outputs: dict[str, Any], column: str, batch: dict[str, Any]) -> dict[str, Any]:
    """Replaces the logits of illegal actions, so that these actions have the probability 0."""
    mask = _mask(batch)
    if mask is not None:
        logits = outputs[column]
        outputs[column] = torch.where(mask, logits, torch.full_like(logits, _LOWEST))
    return outputs


def _mask(batch: dict[str, Any]) -> torch.Tensor | None:
    """Returns the masks as booleans, or None for agents without masks, which may share a policy with masked agents."""
    observation = batch[Columns.OBS]
    return observation[MASK].bool() if isinstance(observation, dict) and MASK in observation else None


class MaskedPPOModule(DefaultPPOTorchRLModule):
    """Module for PPO, IMPALA and MARWIL with action masks."""

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return _masked(super()._forward(batch, **kwargs), Columns.ACTION_DIST_INPUTS, batch)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return _masked(super()._forward_train(batch, **kwargs), Columns.ACTION_DIST_INPUTS, batch)


class MaskedAPPOModule(MaskedPPOModule, DefaultAPPOTorchRLModule):
    """Module for APPO with action masks."""

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns the logits of the target network, masked."""
        return _masked(super().forward_target(batch), TARGET_NETWORK_ACTION_DIST_INPUTS, batch)


class MaskedBCModule(DefaultBCTorchRLModule):
    """Module for BC with action masks."""

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return _masked(super()._forward(batch, **kwargs), Columns.ACTION_DIST_INPUTS, batch)


class MaskedDQNModule(DefaultDQNTorchRLModule):
    """Module for DQN with action masks, which also apply to random actions and to both networks' targets."""

    def _qf_forward_helper(self, batch: dict[str, Any], encoder: Any, head: Any) -> dict[str, Any]:
        outputs: dict[str, Any] = super()._qf_forward_helper(batch, encoder, head)
        legal = _legal(batch)
        if legal is not None:
            values = outputs[QF_PREDS]
            outputs[QF_PREDS] = torch.where(legal, values, torch.full_like(values, -torch.inf))
        return outputs

    def _forward_exploration(self, batch: dict[str, Any], t: int) -> dict[str, Any]:
        legal = _legal(batch)
        if legal is None:
            return super()._forward_exploration(batch, t)
        outputs: dict[str, Any] = self._forward_inference(batch)
        best = outputs[Columns.ACTIONS]
        self.epsilon_schedule.update(t)
        # RLlib samples among the actions with a value other than 0, and fails where there is none.
        chosen = torch.multinomial(legal.reshape(-1, legal.shape[-1]).float(), 1).reshape(best.shape)
        explores = torch.rand(best.shape, device=best.device) < self.epsilon_schedule.get_current_value()
        return {**outputs, Columns.ACTIONS: torch.where(explores, chosen, best)}


def _legal(batch: dict[str, Any]) -> torch.Tensor | None:
    """Returns the masks as booleans, or None without masks. A mask that forbids all actions becomes all True."""
    mask = _mask(batch)
    return None if mask is None else mask | ~mask.any(-1, keepdim=True)


class MaskedSACModule(DefaultSACTorchRLModule):
    """Module for SAC with action masks, for `Discrete` actions."""

    def _forward_inference(self, batch: dict[str, Any]) -> dict[str, Any]:
        return _masked(super()._forward_inference(batch), Columns.ACTION_DIST_INPUTS, batch)

    def _forward_train_discrete(self, batch: dict[str, Any]) -> dict[str, Any]:
        # RLlib's own takes the logarithm of probabilities, which is infinite for those of 0.
        now, then = ({Columns.OBS: batch[column]} for column in (Columns.OBS, Columns.NEXT_OBS))
        values = partial(self._qf_forward_train_helper, now, squeeze=False)
        outputs: dict[str, Any] = {QF_PREDS: values(self.qf_encoder, self.qf)}
        outputs[QF_TARGET_NEXT] = self.forward_target(then, squeeze=False)
        if self.twin_q:
            outputs[QF_TWIN_PREDS] = values(self.qf_twin_encoder, self.qf_twin)
        outputs[ACTION_PROBS], outputs[ACTION_LOG_PROBS] = self._probabilities(now)
        outputs[ACTION_PROBS_NEXT], outputs[ACTION_LOG_PROBS_NEXT] = self._probabilities(then)
        return outputs

    def _probabilities(self, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the probabilities of actions and their logarithms; the logarithm of a probability 0 is set to 0."""
        logarithms = torch.log_softmax(self._forward_inference(batch)[Columns.ACTION_DIST_INPUTS], -1)
        probabilities = logarithms.exp()
        return probabilities, torch.where(probabilities > 0, logarithms, 0.0)
