"""Exports batches as vector environments for RLlib's env runners; see `envoi.adapters.rllib`.

RLlib accepts only strings as keys of infos: entries with other keys are only in `last.info`. It drops entries whose
name begins with an underscore itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envoi import SpecError
from envoi.lane_values import stack

from ..gymnasium.specs import decoder, like_source
from ..gymnasium_vector.form import ToGymnasiumVector
from .form import CodedForm


class RLlibVectorEnv(CodedForm, ToGymnasiumVector):
    """A core batch in RLlib's canonical form, for `gym_env_vectorize_mode="vector_entry_point"`. See `CodedForm`.

    A lane that has ended is reset in the following step, the only auto-reset mode that RLlib records correctly.
    """

    _planned = ("_decode_array", "_decode_one")

    def _batch_action_space(self) -> spaces.Space[Any]:
        if self.codec is None:
            return super()._batch_action_space()
        return like_source(batch_space(self.single_action_space, self.num_envs), self.core, "action", lanes=True)

    def _plan(self) -> None:
        super()._plan()
        self._decode_array, self._decode_one = self._decode, decoder(self.core.action_spec)
        if self.codec is not None:
            self._encode = self.codec.encode_batch
        self._decode, self._flat_shape = self._decode_lanes, None  # the shape of RLlib's arrays differs from the core's

    def _decode_lanes(self, actions: Any) -> Any:
        """Converts RLlib's actions for the core: arrays of shape (n, …), or a list of one action per lane."""
        if self.codec is not None:
            first = actions[0] if isinstance(actions, tuple) else actions
            if len(first) != self.num_envs:
                raise SpecError(f"actions: expected one for each of {self.num_envs} lanes, got {len(first)}")
            return self.codec.decode_batch(actions)
        if isinstance(actions, list) and len(actions) == self.num_envs:
            each = actions if self._decode_one is None else [self._decode_one(action) for action in actions]
            return stack(self.core.action_spec, each)
        return self._decode_array(actions)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[Any, Any]]:
        """Starts a new episode in all lanes; see `gymnasium.vector.VectorEnv.reset`."""
        if isinstance(seed, (Sequence, np.ndarray)):
            seed = [None if one is None else self.seeds.core_seed(one) for one in seed]
        elif seed is not None:
            seed = self.seeds.at_reset(seed)
        observation, infos = super().reset(seed=seed, options=options)
        return self._beside(observation), _with_string_keys(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[Any, Any]]:
        """Acts once in each lane; a lane that has ended begins a new episode instead."""
        observation, reward, terminated, truncated, infos = super().step(actions)
        return self._beside(observation), reward, terminated, truncated, _with_string_keys(infos)

    def _beside(self, observation: Any) -> Any:
        if self._masks is None:
            return observation
        return self._masks.beside_all(observation, self.infos, self._last[0])  # the core's own observations


def _with_string_keys(infos: dict[Any, Any]) -> dict[Any, Any]:
    """Returns infos without the keys that are not strings, which RLlib does not accept, and without their masks."""
    if all(isinstance(key, str) for key in infos):
        return infos
    masks = {f"_{key}" for key in infos if not isinstance(key, str)}
    return {key: value for key, value in infos.items() if isinstance(key, str) and key not in masks}
