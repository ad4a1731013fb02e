"""Exports single-agent environments and batches to RLlib; defines the base of all forms. See `envoi.adapters.rllib`.

RLlib accepts only strings as keys of a batch's infos: entries with other keys are only in `last.info`. It drops entries
whose name begins with an underscore itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envoi import Reset, SpecError, Step
from envoi.lane_values import stack
from envoi.protocol.batch_env import Seeds
from envoi.protocol.env import full_step
from envoi.protocol.fast_steps import fast_step
from envoi.seeding import check_seed

from ..gymnasium.form import ToGymnasium
from ..gymnasium.specs import decoder, like_source, to_space
from ..gymnasium_vector.form import ToGymnasiumVector
from ..shared.arrival import is_default_discount
from ..shared.exported import AnyForm
from .codec import Codec
from .masks import Masks

NAME = "rllib"

Canonical = bool | Literal["structured"]
"""The spaces of a form: True for those that RLlib's networks support, "structured" for those of networks that take
images beside other leaves, and False for gymnasium's."""

ActionMasks = bool | Literal["auto"]
"""True if observations have action masks; "auto" for True where the environment has them."""


class WorkerSeeds:
    """Computes the seeds of core environments from RLlib's seeds.

    Args:
        worker: The index of the env runner.
        in_evaluation: True if the env runner evaluates. Then a repeated seed restarts the random streams; in training
            it continues them.
    """

    def __init__(self, worker: int = 0, in_evaluation: bool = False) -> None:
        self.worker, self.in_evaluation = worker, in_evaluation
        self.last: int | None = None  # the last seed, which counts as repeated if it comes again

    def at_reset(self, seed: int) -> int | None:
        """Returns the core's seed for a reset with `seed`, or None to continue when training repeats a seed."""
        core_seed = self.core_seed(seed)
        repeated, self.last = seed == self.last, seed
        return None if repeated and not self.in_evaluation else core_seed

    def core_seed(self, seed: int) -> int:
        """Converts an RLlib seed to a 31-bit seed, which every framework accepts."""
        words = np.random.SeedSequence([check_seed(seed), self.worker, int(self.in_evaluation)])
        return int(words.generate_state(1)[0] >> 1)


@dataclass(frozen=True)
class Place:
    """The worker and lane in which RLlib steps an environment."""

    worker: int = 0
    lane: int = 0
    in_evaluation: bool = False


class RLlibForm(AnyForm):
    """Base of RLlib's forms, whose worker and lane RLlib makes known only after construction."""

    seeds: WorkerSeeds
    last: Any  # the result of the core's last reset or step; None before the first reset

    _framework = NAME
    _memory = ("seeds",)
    _lane: int = 0

    def __init__(
        self,
        core: Any,
        worker: int = 0,
        in_evaluation: bool = False,
        validate: bool = False,
        canonical: Canonical = True,
        action_masks: bool = False,
    ) -> None:
        self._canonical, self._action_masks = canonical, action_masks
        self.seeds = WorkerSeeds(worker, in_evaluation)
        super().__init__(core, validate=validate)

    def forget_seeds(self) -> None:
        """Forgets the last seed, for resets outside of RLlib: the same seed then restarts the random streams."""
        self.seeds.last = None

    @property
    def place(self) -> Place:
        """The worker and lane of the form; settable, also by `set_attr` of a gymnasium vector environment."""
        return Place(self.seeds.worker, self._lane, self.seeds.in_evaluation)

    @place.setter
    def place(self, place: Place) -> None:
        self._lane = place.lane
        self.seeds.worker, self.seeds.in_evaluation = place.worker, place.in_evaluation
        self.assign_lane(place.lane)


class CodedForm(RLlibForm):
    """Base of the single-agent forms, of one lane or many. One codec defines their spaces."""

    _planned = ("codec", "_masks")

    codec: Codec | None  # None if the form is not canonical
    spec: Any = None  # which gymnasium's `make` may set; the core's would make a form with other spaces

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        observations, actions = self._space("observation"), self._space("action")
        return (observations if self._masks is None else self._masks.space(observations)), actions

    def _space(self, what: str) -> spaces.Space[Any]:
        if self.codec is None:
            space = to_space(getattr(self.core, f"{what}_spec"), what)
        else:
            space = getattr(self.codec, f"{what}_space")
        return like_source(space, self.core, what)

    def _plan(self) -> None:
        super()._plan()
        self._masks = Masks(self.core.action_spec) if self._action_masks else None
        is_structured = self._canonical == "structured"
        self.codec = Codec(self.core, structured=is_structured, masked=self._action_masks) if self._canonical else None

    def _opens(self) -> bool:
        return True

    @property
    def unwrapped(self) -> Any:
        """This form itself, because RLlib reads its spaces."""
        return self


class RLlibEnv(CodedForm, ToGymnasium):
    """A core environment in RLlib's canonical form: a gymnasium env that an env runner steps. See `CodedForm`."""

    _memory = ("_last",)
    _planned = ("_step",)

    _last: Any = None  # a `Reset`, or the six values of a fast step

    def _plan(self) -> None:
        super()._plan()
        if self.codec is not None:
            self._encode, self._decode = self.codec.encode, self.codec.decode
        self._step = fast_step(self._env)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        if seed is not None:  # RLlib's
            seed = self.seeds.at_reset(seed)
        self._last = begun = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        observation, info = begun
        encoded = observation if self._encode is None else self._encode(observation)
        return (encoded if self._masks is None else self._masks.beside(encoded, info, observation)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """Runs one step; see `gymnasium.Env.step`. `info["discount"]` holds a discount other than the default."""
        if self._decode is not None:
            action = self._decode(action)
        self._last = step = self._step(action)
        observation, reward, terminated, truncated, discount, info = step
        encoded = observation if self._encode is None else self._encode(observation)
        if self._masks is not None:
            encoded = self._masks.beside(encoded, info, observation)
        if discount is not None and not is_default_discount(discount, terminated):
            info = {**info, "discount": discount}
        return encoded, reward, terminated, truncated, info

    @property
    def last(self) -> Reset | Step | None:
        """The result of the core's last reset or step, or None before the first reset."""
        last = self._last
        return last if last is None or isinstance(last, Reset) else full_step(last)


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

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        if isinstance(seed, (Sequence, np.ndarray)):
            seed = [None if one is None else self.seeds.core_seed(one) for one in seed]
        elif seed is not None:
            seed = self.seeds.at_reset(seed)
        observation, infos = super().reset(seed=seed, options=options)
        return self._beside(observation), _with_string_keys(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[Any, Any]]:
        """Runs one step in each lane; a lane that has ended begins a new episode instead."""
        observation, reward, terminated, truncated, infos = super().step(actions)
        return self._beside(observation), reward, terminated, truncated, _with_string_keys(infos)

    def _beside(self, observation: Any) -> Any:
        if self._masks is None:
            return observation
        return self._masks.beside_all(observation, self.infos, self._last[0])  # the core's own observations


def _with_string_keys(infos: dict[Any, Any]) -> dict[Any, Any]:
    """Removes keys that are not strings, which RLlib refuses, and the masks of these keys, from infos."""
    if all(isinstance(key, str) for key in infos):
        return infos
    masks = {f"_{key}" for key in infos if not isinstance(key, str)}
    return {key: value for key, value in infos.items() if isinstance(key, str) and key not in masks}
