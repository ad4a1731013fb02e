"""Loads a trained policy from a checkpoint, without starting Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymnasium import spaces

import envoi
from envoi.adapters.rllib import Codec
from envoi.adapters.rllib.masks import Masks, is_masked

from ..env_contexts import fits
from ..errors import missing_rllib
from .multi_agent.joint_policy import MODULES, JointPolicy, SeatedPolicy, TrainedModule
from .run_folder import RunFolder

try:
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.rl_module import RLModule
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
    from ray.rllib.utils.spaces.space_utils import unbatch
except ImportError as error:
    raise missing_rllib(error) from error


class Policy(TrainedModule):
    """A policy of RLlib's new API stack, with the connectors that it was trained with.

    It acts in one episode at a time and keeps that episode, as connectors and recurrent modules read past steps.
    Observations and actions have the canonical form of `envoi.adapters.rllib.Codec`.

    Args:
        checkpoint: The folder of an algorithm's checkpoint, as `algorithm.save_to_path()` returns it, or the `path` of
            one of Tune's. The env need not be registered.
        explore: Sample the actions as in training, rather than take the best.
        env_steps: Steps that the policy was trained for, on which the exploration of some algorithms depends.

    Raises:
        envoi.EnvoiError: The folder is not a readable checkpoint.
    """

    def __init__(self, checkpoint: str | Path, *, explore: bool = False, env_steps: int = 0) -> None:
        super().__init__(checkpoint, RLModule, DEFAULT_MODULE_ID, explore, env_steps)
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Starts an episode.

        Args:
            seed: Seed of the actions that `explore` samples; None to leave the generators as they are.
        """
        episode = SingleAgentEpisode(observation_space=self.observation_space, action_space=self.action_space)
        self._begin(episode, seed)

    def __call__(self, observation: Any, reward: float = 0.0) -> Any:
        """Chooses an action."""
        if self._pending is None:
            self._episode.add_env_reset(observation)
        else:
            action, extra = self._pending
            self._episode.add_env_step(observation, action, reward, extra_model_outputs=extra)
        output = self._outputs()
        # These two are batches, whose leaves have the batch axis; the other columns are lists.
        actions = output.pop(Columns.ACTIONS)
        chosen = unbatch(output.pop(Columns.ACTIONS_FOR_ENV, actions))[0]
        action = unbatch(actions)[0]
        self._pending = action, {name: values[0] for name, values in output.items()}
        return chosen


class PolicyValues:
    """Converts a core environment's observations for a policy, and the policy's actions for the environment.

    Attributes:
        decode: Converts an action of the policy to an action of the environment.
    """

    def __init__(self, name: str, core: envoi.Env, policy: Any) -> None:
        wanted: Any = policy.observation_space
        has_mask = is_masked(wanted)
        self._masks = Masks(core.action_spec) if has_mask else None
        codec = Codec(core, structured=True, masked=has_mask)
        if not fits(self._space(codec), wanted):
            codec = Codec(core, masked=has_mask)
        self._codec, self.decode = codec, codec.decode
        for what, has, wants in (
            ("observation_space", self._space(codec), wanted),
            ("action_space", codec.action_space, policy.action_space),
        ):
            if not fits(has, wants):
                raise envoi.EnvoiError(
                    f"{name}: the policy was trained with the {what} {wants}, and this env has {has}"
                )

    def _space(self, codec: Codec) -> spaces.Space[Any]:
        return codec.observation_space if self._masks is None else self._masks.space(codec.observation_space)

    def encode(self, observation: Any, info: Mapping[Any, Any]) -> Any:
        """Converts an observation for the policy; adds the action mask if the policy was trained with masks."""
        encoded = self._codec.encode(observation)
        return encoded if self._masks is None else self._masks.beside(encoded, info, observation)


def load_policy(
    folder: str | Path, *, explore: bool = False, env_steps: int | None = None, policy_id: str | None = None
) -> Any:
    """Loads the policy that a job or an RLlib algorithm has trained, without the env.

    Args:
        folder: The output folder of a job (its best trial, if it has several), or an algorithm's checkpoint, as for
            `Policy`.
        explore: Sample the actions as in training, rather than take the best.
        env_steps: Steps that the policy was trained for, on which the exploration of some algorithms depends; None for
            those of the job, or 0 for a checkpoint.
        policy_id: For a multi-agent env, the name of one of its policies; None for all of them.

    Returns:
        A `Policy` for a single-agent env; for a multi-agent one a `JointPolicy`, which acts for all agents, or the
        `SeatedPolicy` called `policy_id`, which acts for one.

    Raises:
        envoi.EnvoiError: The folder holds no run and no checkpoint, or a run without a checkpoint yet; a file is
            damaged; or there is no such policy.
    """
    checkpoint, policies = Path(folder), None
    if not (checkpoint / MODULES).is_dir():
        run = RunFolder(folder)
        settings, _, state = run.read_best()
        run.refuse_without_checkpoint()
        checkpoint, policies = run.checkpoint, settings.policies
        env_steps = state.env_steps if env_steps is None else env_steps
    options: dict[str, Any] = {"explore": explore, "env_steps": env_steps or 0}
    modules = [one.name for one in (checkpoint / MODULES).glob("*/")]
    if modules not in ([], [DEFAULT_MODULE_ID]):  # none if it is no checkpoint, as `Policy` says
        joint = JointPolicy(checkpoint, policies, **options)
        return joint if policy_id is None else SeatedPolicy(joint, policy_id)
    if policy_id is not None:
        raise envoi.EnvoiError(f"policy_id={policy_id!r} is for several agents; {checkpoint} trained one")
    return Policy(checkpoint, **options)
