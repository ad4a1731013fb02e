"""Exports environments of one agent to RLlib, with the base of all of its forms. See `envoi.adapters.rllib`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from envoi import Reset, Step
from envoi.protocol.env import full_step
from envoi.protocol.fast_steps import fast_step
from envoi.seeding import check_seed

from ..gymnasium.form import ToGymnasium
from ..gymnasium.specs import like_source, to_space
from ..shared.discounts import is_default_discount
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
    """Computes the seeds of core environments from those of RLlib.

    Args:
        worker: The index of the env runner.
        in_evaluation: True if the env runner evaluates. Then a repeated seed restarts the random streams; in training
            it continues them.
    """

    def __init__(self, worker: int = 0, in_evaluation: bool = False) -> None:
        self.worker, self.in_evaluation = worker, in_evaluation
        self.last: int | None = None  # the last seed, which counts as repeated if it comes again

    def at_reset(self, seed: int) -> int | None:
        """Returns the core's seed for a reset with `seed`; None if the seed is repeated in training."""
        core_seed = self.core_seed(seed)
        repeated, self.last = seed == self.last, seed
        return None if repeated and not self.in_evaluation else core_seed

    def core_seed(self, seed: int) -> int:
        """Returns the core's seed for one of RLlib's: of 31 bits, which every framework accepts."""
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
        """Forgets the last seed, so that a repeated one restarts the random streams, for resets outside of RLlib."""
        self.seeds.last = None

    @property
    def place(self) -> Place:
        """The worker and lane of the form; settable, also by `set_attr` of gymnasium's vector environments."""
        return Place(self.seeds.worker, self._lane, self.seeds.in_evaluation)

    @place.setter
    def place(self, place: Place) -> None:
        self._lane = place.lane
        self.seeds.worker, self.seeds.in_evaluation = place.worker, place.in_evaluation
        self.assign_lane(place.lane)


class CodedForm(RLlibForm):
    """Base of the forms of one agent, of one lane or of many, whose spaces are those of one codec."""

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
        """This form, whose spaces RLlib reads."""
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
        """Starts a new episode; see `gymnasium.Env.reset`.

        Args:
            seed: RLlib's seed, from which the core's is computed, see `WorkerSeeds`; None for no seed.
            options: The options for the core.

        Returns:
            The observation and the info.
        """
        if seed is not None:
            seed = self.seeds.at_reset(seed)
        self._last = begun = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        observation, info = begun
        encoded = observation if self._encode is None else self._encode(observation)
        return (encoded if self._masks is None else self._masks.beside(encoded, info, observation)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """Acts once; see `gymnasium.Env.step`. A discount that is not the default is `info["discount"]`."""
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
        """The result of the core's last reset or step; None before."""
        last = self._last
        return last if last is None or isinstance(last, Reset) else full_step(last)
