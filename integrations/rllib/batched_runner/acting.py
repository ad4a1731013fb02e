"""Computes the next actions of all lanes from their latest observations, with only the RLlib connectors that it needs.

Most of RLlib's default connectors collect single items from episodes, look up their episodes, or divide arrays into
items. Arrays of all lanes do not need that. The others run unchanged: they convert to tensors and back, and choose
actions. A single agent has one batch for all lanes; several agents have a batch per policy, a row per acting agent.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
import tree
from gymnasium import spaces
from ray.rllib.connectors import env_to_module, module_to_env
from ray.rllib.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from ray.rllib.connectors.common.module_to_agent_unmapping import ModuleToAgentUnmapping
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.metrics import RLMODULE_INFERENCE_TIMER
from ray.rllib.utils.spaces.space_utils import clip_action, unbatch, unsquash_action

TO_MODULE = (
    env_to_module.AddObservationsFromEpisodesToBatch,
    env_to_module.AddTimeDimToBatchAndZeroPad,
    env_to_module.AddStatesFromEpisodesToBatch,
    AgentToModuleMapping,
    env_to_module.BatchIndividualItems,
    env_to_module.NumpyToTensor,
)
"""RLlib's default connectors before a module, in their order."""
TO_ENV = (
    module_to_env.GetActions,
    module_to_env.TensorToNumpy,
    module_to_env.UnBatchToIndividualItems,
    ModuleToAgentUnmapping,
    module_to_env.RemoveSingleTsTimeRankFromBatch,
    module_to_env.NormalizeAndClipActions,
    module_to_env.ListifyDataForVectorEnv,
)
"""RLlib's default connectors after a module, in their order."""
_OF_SEVERAL_AGENTS = {AgentToModuleMapping, ModuleToAgentUnmapping}
_RUN = {env_to_module.NumpyToTensor, module_to_env.GetActions, module_to_env.TensorToNumpy}


def obstacle_in_connectors(to_module: Any, to_env: Any, has_agents: bool) -> str | None:
    """Returns why a connector needs an episode of each lane, or None if all connectors are RLlib's defaults."""
    for stage, pipeline, defaults in (("env-to-module", to_module, TO_MODULE), ("module-to-env", to_env, TO_ENV)):
        expected = [kind for kind in defaults if has_agents or kind not in _OF_SEVERAL_AGENTS]
        found = [type(connector) for connector in pipeline.connectors]
        if custom := [kind.__name__ for kind in found if kind not in expected]:
            return f"the {stage} connector {custom[0]} needs an episode of each lane"
        if found != expected:
            return f"RLlib's {stage} connectors are not all there in their order"
    return None


class Acting:
    """Runs an RLModule between those of RLlib's connectors that work on arrays. Use it in a `with` block."""

    def __init__(self, runner: Any, explore: bool) -> None:
        self._module, self._metrics, self._explore = runner.module, runner.metrics, explore
        self._arguments = {"rl_module": runner.module, "episodes": runner._ongoing_episodes, "explore": explore}
        self._to_tensors = next(one for one in runner._env_to_module.connectors if type(one) in _RUN)
        self._choose, self._to_arrays = (one for one in runner._module_to_env.connectors if type(one) in _RUN)
        self._forward = _forward_of(runner.module, "forward_exploration" if explore else "forward_inference")
        self._forwards, self._inference = 0, 0.0

    def __enter__(self) -> Self:
        modules = self._module.values() if isinstance(self._module, MultiRLModule) else [self._module]
        self._trained: list[Any] = [module for module in modules if getattr(module, "training", False)]
        for module in self._trained:
            module.eval()  # once; RLlib does and undoes it in each forward pass, a fifth of a step of 8 lanes
        return self

    def __exit__(self, *_: object) -> None:
        for module in self._trained:
            module.train()
        if self._forwards:
            self._metrics.log_value(RLMODULE_INFERENCE_TIMER, self._inference / self._forwards)

    def tensors(self, batch: dict[Any, Any]) -> dict[Any, Any]:
        """Converts the arrays of all observations for the module."""
        return self._to_tensors(batch=batch, **self._arguments)

    def outputs(self, batch: dict[Any, Any], t: int) -> dict[Any, Any]:
        """Returns the arrays that the module and RLlib's choice of actions compute from the observations."""
        begin = time.perf_counter()
        batch = self._forward(batch, t=t) if self._explore else self._forward(batch)
        self._inference += time.perf_counter() - begin
        self._forwards += 1
        if self._explore:
            _sample_categorical(self._module, batch)
        batch = self._choose(batch=batch, **self._arguments)
        return self._to_arrays(batch=batch, **self._arguments)


def _forward_of(module: Any, name: str) -> Any:
    """Returns a module's forward method, without the switch to evaluation and back if that is RLlib's."""
    is_rllibs = getattr(type(module), name) is getattr(TorchRLModule, name) and name not in vars(module)
    return getattr(module, f"_{name}" if is_rllibs else name)


def _sample_categorical(module: Any, outputs: dict[str, Any]) -> None:
    """Samples actions where RLlib would by a `TorchCategorical`, whose objects take longer than these operations."""
    logits = outputs.get(Columns.ACTION_DIST_INPUTS)
    if type(logits) is not torch.Tensor or logits.ndim != 2 or Columns.ACTIONS in outputs:
        return
    if module.get_exploration_action_dist_cls() is TorchCategorical:
        log_probabilities = logits - logits.logsumexp(-1, keepdim=True)
        choices = torch.multinomial(torch.softmax(log_probabilities, -1), 1, True)
        outputs[Columns.ACTIONS] = choices[:, 0]
        outputs.setdefault(Columns.ACTION_LOGP, log_probabilities.gather(-1, choices)[:, 0])


class Scaling:
    """Scales or clips the actions of all lanes together, not one by one as RLlib does. Only `Box` spaces need it."""

    def __init__(self, pipeline: Any) -> None:
        (connector,) = (one for one in pipeline.connectors if isinstance(one, module_to_env.NormalizeAndClipActions))
        self._scale = unsquash_action if connector.normalize_actions else clip_action
        self._spaces: Any = connector._action_space_struct
        self.is_asked = connector.normalize_actions or connector.clip_actions
        self.is_needed = self.is_asked and _has_box(self._spaces)

    def __call__(self, actions: Any, agents: Sequence[Any] | None = None) -> Any:
        """Scales the actions of all lanes, or of the agent of each row. Returns copies that environments may change."""
        if agents is None:
            copied = copy.deepcopy(actions)
            return self._scale(copied, self._spaces) if self.is_needed else copied
        items: list[Any] = [None] * len(agents)
        for agent in dict.fromkeys(agents):
            rows = [row for row, other in enumerate(agents) if other == agent]
            scaled = self._scale(tree.map_structure(lambda leaf, rows=rows: leaf[rows], actions), self._spaces[agent])
            for row, item in zip(rows, items_of(scaled), strict=True):
                items[row] = item
        return items


def _has_box(structure: Any) -> bool:
    if isinstance(structure, (dict, tuple)):  # whose keys need not sort, which `tree.flatten` asks for
        return any(map(_has_box, structure.values() if isinstance(structure, dict) else structure))
    return isinstance(structure, spaces.Box)


def items_of(values: Any) -> list[Any]:
    """Returns the rows of a nested array."""
    return list(values) if isinstance(values, (np.ndarray, list)) else unbatch(values)
