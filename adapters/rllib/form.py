"""Environments of one agent in RLlib's form. Spaces, losses and seeds are in `envoi.adapters.rllib`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from envoi import Env, Reset, Step
from envoi.protocol.env import full_step

from ..gymnasium.form import ToGymnasium
from ..gymnasium.specs import like_source
from ..shared.discounts import is_default_discount
from .codec import Codec
from .form_base import Masks, RLlibForm, WorkerSeeds


class RLlibEnv(RLlibForm, ToGymnasium):
    """A core environment in RLlib's canonical form: a gymnasium env that an env runner steps.

    Args:
        core: The core environment.
        worker: The index of the env runner.
        in_evaluation: Whether it evaluates; then an equal seed replays, in training it goes on.
        validate: Check every value against its spec.
        canonical: Give spaces that RLlib's networks train on; otherwise gymnasium's.
        action_masks: Put each observation beside the mask of its actions.

    Attributes:
        core: The core environment.
        codec: The maps between its values and RLlib's; None where the form is not canonical.
        seeds: What becomes of RLlib's seeds.
    """

    codec: Codec | None
    spec: Any = None  # which gymnasium's `make` may set; the core's would make a form with other spaces
    _last: Any = None  # a `Reset`, or what `raw_step` gave

    def __init__(
        self,
        core: Env,
        worker: int = 0,
        in_evaluation: bool = False,
        validate: bool = False,
        canonical: bool = True,
        action_masks: bool = False,
    ) -> None:
        self._canonical, self._action_masks = canonical, action_masks
        super().__init__(core, validate)
        self.seeds = WorkerSeeds(worker, in_evaluation)

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        if self.codec is None:
            seen, done = super()._spaces()
        else:
            seen = like_source(self.codec.observation_space, self.core, "observation")
            done = like_source(self.codec.action_space, self.core, "action")
        return (seen if self._masks is None else self._masks.space(seen)), done

    def _plan(self) -> None:
        super()._plan()
        self.codec = None
        if self._canonical:
            self.codec = Codec(self.core)
            self._encode, self._decode = self.codec.encode, self.codec.decode
        self._masks = Masks(self.core.action_spec) if self._action_masks else None

    @classmethod
    def _opens(cls, core: Any) -> bool:
        return True

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        """This form, of which RLlib reads the spaces. It has the public attributes of what lies inside."""
        return self

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Begins an episode. The core's seed follows from RLlib's, the worker and whether it evaluates."""
        if seed is not None:
            seed = self.seeds.at_reset(seed)
        self._last = begun = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        observation, info = begun
        if self._encode is not None:
            observation = self._encode(observation)
        return (observation if self._masks is None else self._masks.beside(observation, info)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """Acts once; see `gymnasium.Env.step`."""
        if self._decode is not None:
            action = self._decode(action)
        self._last = step = self._step(action)
        observation, reward, terminated, truncated, discount, info = step
        if self._encode is not None:
            observation = self._encode(observation)
        if self._masks is not None:
            observation = self._masks.beside(observation, info)
        if discount is not None and not is_default_discount(discount, terminated):
            info = {**info, "discount": discount}
        return observation, reward, terminated, truncated, info

    @property
    def last(self) -> Reset | Step | None:
        """What the core's last reset or step gave; None before."""
        last = self._last
        return last if last is None or isinstance(last, Reset) else full_step(last)

    def content(self) -> Any:
        """What a snapshot of an environment that this form is a part of holds of it."""
        return super().content(), self._last, copy.deepcopy(self.seeds)

    def put_back(self, held: Any) -> None:
        """Puts back what `content` gave."""
        snapshot, self._last, seeds = held
        super().put_back(snapshot)
        self.seeds = copy.deepcopy(seeds)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in ("codec", "_masks")}

    def __repr__(self) -> str:
        return f"to_rllib({self.core!r})"

    __str__ = __repr__
