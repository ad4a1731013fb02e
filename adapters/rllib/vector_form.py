"""Batches as the vector environments that RLlib's env runners step; see `envoi.adapters.rllib`.

Of infos RLlib takes names alone: an entry whose key is not a string stays in `last.info`, and one whose name begins
with an underscore it drops itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envoi import BatchEnv, SpecError
from envoi.batching.values import stack

from ..gymnasium.specs import decoder, like_source
from ..gymnasium_vector.form import ToGymnasiumVector
from .codec import Codec
from .form_base import Masks, RLlibForm, WorkerSeeds


class RLlibVectorEnv(RLlibForm, ToGymnasiumVector):
    """A core batch in RLlib's canonical form, for `gym_env_vectorize_mode="vector_entry_point"`.

    A lane that has ended begins anew in the following step: it is the only mode that RLlib records rightly.

    Args:
        core: The batch.
        worker: The index of the env runner.
        in_evaluation: Whether it evaluates; then an equal seed replays, in training it goes on.
        validate: Check every value against its spec.
        canonical: Give spaces that RLlib's networks train on; otherwise gymnasium's.
        action_masks: Put each observation beside the mask of its actions.

    Attributes:
        core: The core batch.
        codec: The maps between its values and RLlib's; None where the form is not canonical.
        seeds: What becomes of RLlib's seeds; `bind_worker` sets worker and evaluation.
        last: What the core's last reset or step gave.
    """

    codec: Codec | None
    spec: Any = None  # which gymnasium's `make_vec` may set; the core's would make a form with other spaces

    def __init__(
        self,
        core: BatchEnv,
        worker: int = 0,
        in_evaluation: bool = False,
        validate: bool = False,
        canonical: bool = True,
        action_masks: bool = False,
    ) -> None:
        self._canonical, self._action_masks = canonical, action_masks
        super().__init__(core, AutoresetMode.NEXT_STEP, validate)
        self.seeds = WorkerSeeds(worker, in_evaluation)
        if self.codec is not None:
            done = batch_space(self.single_action_space, self.num_envs)
            self.action_space = like_source(done, core, "action", lanes=True)

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        codec, masks = self.codec, self._masks
        if codec is None:
            seen, done = super()._spaces()
        else:
            seen = like_source(codec.observation_space, self.core, "observation")
            done = like_source(codec.action_space, self.core, "action")
        return (seen if masks is None else masks.space(seen)), done

    def _plan(self) -> None:
        super()._plan()
        self.codec = Codec(self.core) if self._canonical else None
        self._decode_array, self._decode_one = self._decode, decoder(self.core.action_spec)
        if self.codec is not None:
            self._encode = self.codec.encode_batch
        self._decode, self._flat_shape = self._decode_lanes, None  # RLlib's arrays are its own, whatever their shape
        self._masks = Masks(self.core.action_spec) if self._action_masks else None

    @property
    def unwrapped(self) -> VectorEnv[Any, Any, Any]:
        """This form, of which RLlib reads the spaces."""
        return self

    def _decode_lanes(self, actions: Any) -> Any:
        """RLlib's actions, of all lanes at once or a list of one a lane, as the core takes them."""
        if self.codec is not None:
            first = actions[0] if isinstance(actions, tuple) else actions
            if len(cast("Any", first)) != self.num_envs:
                raise SpecError(f"actions: expected one for each of {self.num_envs} lanes, got {len(first)}")
            return self.codec.decode_batch(actions)
        if isinstance(actions, list) and len(cast("list[Any]", actions)) == self.num_envs:
            each = actions if self._decode_one is None else [self._decode_one(action) for action in actions]
            return stack(self.core.action_spec, cast("list[Any]", each))
        return self._decode_array(actions)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[Any, Any]]:
        """Begins an episode. The core's seed follows from RLlib's, the worker and whether it evaluates."""
        if isinstance(seed, (Sequence, np.ndarray)):
            seed = [None if one is None else self.seeds.core_seed(one) for one in seed]
        elif seed is not None:
            seed = self.seeds.at_reset(seed)
        observation, said = super().reset(seed=seed, options=options)
        return self._beside(observation), _named(said)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[Any, Any]]:
        """Acts once in every lane, but for those that have ended, which begin a new episode."""
        observation, reward, terminated, truncated, said = super().step(actions)
        return self._beside(observation), reward, terminated, truncated, _named(said)

    def _beside(self, observation: Any) -> Any:
        return observation if self._masks is None else self._masks.beside_all(observation, self.infos)

    def content(self) -> Any:
        """What a snapshot of an environment that this form is a part of holds of it."""
        return super().content(), deepcopy(self.seeds)

    def put_back(self, content: Any) -> None:
        """Puts back what `content` gave."""
        held, seeds = content
        super().put_back(held)
        self.seeds = deepcopy(seeds)

    def __getstate__(self) -> dict[str, Any]:
        planned = ("codec", "_masks", "_decode_array", "_decode_one")
        return {name: value for name, value in super().__getstate__().items() if name not in planned}

    def __repr__(self) -> str:
        return f"to_rllib({self.core!r})"

    __str__ = __repr__


def _named(said: dict[Any, Any]) -> dict[Any, Any]:
    """Infos without the keys that RLlib could not read."""
    if all(isinstance(key, str) for key in said):
        return said
    masks = {f"_{key}" for key in said if not isinstance(key, str)}
    return {key: value for key, value in said.items() if isinstance(key, str) and key not in masks}
