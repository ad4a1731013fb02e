"""Exports core environments of one lane to TF-Agents, and the base for batches. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from envoi import Env, Reset, SpecError, Step
from envoi.seeding import check_seed

from ..shared.array_specs import decoder
from ..shared.exported import AnyForm
from ..shared.loss import warn_narrowed
from ..shared.spec_methods import SpecMethods
from .specs import (
    NAME,
    ArraySpec,
    PyEnvironment,
    StepType,
    TimeStep,
    array_encoder,
    constant,
    is_zero,
    losses,
    number_encoder,
    number_spec,
    to_number_spec,
    to_spec,
)

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST

make_time_step: Callable[[tuple[Any, Any, Any, Any]], TimeStep] = partial(tuple.__new__, TimeStep)
"""`TimeStep(*values)` for hot paths; TF-Agents' own `transition` takes hundreds of times as long."""


class ToTFAgents(SpecMethods, AnyForm, PyEnvironment):
    """A core environment as one of TF-Agents.

    In TF-Agents `reset` takes no arguments: call `seed(s)` before it to seed it, and set `reset_options` for options.

    Args:
        core: An environment of one lane.
        validate: If True, every value is checked against its spec.
        exact: If True, rewards and discounts keep the core's dtypes; otherwise they become float32.

    Attributes:
        core: The core environment.
        last: The whole result of the core's last `reset` or `step`; None before the first reset.
        reset_options: The options of the next reset only; None for none.
        metadata: The core's.
        render_mode: The core's.
    """

    _framework = NAME
    _planned = ("_encode", "_decode", "_to_reward", "_to_discount", "_no_reward", "_nothing", "_all")
    _memory = ("_current_time_step", "last", "reset_options", "_seed", "_over")

    def __init__(self, core: Env, validate: bool = False, exact: bool = False) -> None:
        self.last: Reset | Step | None = None
        self.reset_options: Mapping[str, Any] | None = None
        self._exact = exact
        self._seed: Any = None
        self._over: Any = None
        super().__init__(core, validate)
        warn_narrowed(losses(core, exact))

    def _describe(self) -> None:
        core = self.core
        self._observation_spec = to_spec(core.observation_spec, "observation")
        self._action_spec = to_spec(core.action_spec, "action")
        self._discount_spec = to_number_spec(core.discount_spec, "discount", self._exact)

    def _plan(self) -> None:
        core = self.core
        self._reward_of = core.reward_spec
        self._reward_spec = to_number_spec(core.reward_spec, "reward", self._exact)
        reward = number_spec(core.reward_spec, "reward", self._exact)
        discount = number_spec(core.discount_spec, "discount", self._exact)
        lanes = () if core.batch_size is None else (core.batch_size,)
        self._to_reward, self._to_discount = number_encoder(reward), number_encoder(discount)
        self._no_reward, self._nothing, self._all = (
            constant(reward, 0, lanes),
            constant(discount, 0, lanes),
            constant(discount, 1, lanes),
        )
        # If the reward is one number, as most are, `_step` makes the array inline.
        self._reward_dtype: Any = getattr(reward, "dtype", None)
        self._encode, self._decode = self._codecs()

    def _codecs(self) -> tuple[Any, Any]:
        exact = self._env is not self.core
        return array_encoder(self.core.observation_spec), decoder(self.core.action_spec, exact=exact)

    def seed(self, seed: int | Sequence[int | None] | None) -> None:
        """Seeds the next reset, so that all randomness from then on follows from the seed.

        Args:
            seed: An integer of at least 0, or None for no seed.

        Raises:
            SpecError: It is not an integer of at least 0, or None.
        """
        self._seed = check_seed(seed)

    def _begin(self) -> Any:
        """Resets the core; returns its first observation."""
        if self.core.reward_spec is not self._reward_of:  # another rewarder
            self._plan()
        self.last = last = self._env.reset(seed=self._seed, options=self.reset_options)
        self._seed = self.reset_options = None
        self._over = None
        observation = last.observation
        return observation if self._encode is None else self._encode(observation)

    def _reset(self) -> TimeStep:
        observation = self._begin()
        return make_time_step((FIRST, self._no_reward(), self._all(), observation))

    def _step(self, action: Any) -> TimeStep:
        if self._over:
            return self._reset()
        self.last = last = self._env.step(action if self._decode is None else self._decode(action))
        observation, reward, terminated, truncated, discount, _ = last
        if self._encode is not None:
            observation = self._encode(observation)
        kind = MID
        if terminated or truncated:
            self._over, kind = True, LAST
        if terminated:
            rest = self._nothing()
        elif type(discount) is float and discount == 1.0:
            rest = self._all()
        else:
            rest = self._to_discount(discount)
            if kind is LAST and is_zero(rest):
                rest = self._all()
        dtype = self._reward_dtype
        reward = np.array(reward, dtype) if dtype is not None else self._to_reward(reward)
        return make_time_step((kind, reward, rest, observation))

    def reward_spec(self) -> Any:
        """Returns the spec of rewards, that of the core's current rewarder."""
        if self.core.reward_spec is not self._reward_of:
            self._plan()
        return self._reward_spec

    def time_step_spec(self) -> TimeStep:
        """Returns a `TimeStep` of the specs of its four fields."""
        step_type = ArraySpec((), np.int32, "step_type")
        return TimeStep(step_type, self.reward_spec(), self._discount_spec, self._observation_spec)

    def get_info(self) -> Any:
        """Returns the info of the last reset or step; empty before the first reset."""
        return {} if self.last is None else self.last.info

    def get_state(self) -> Any:
        """Returns an opaque copy of everything: the core's snapshot, the current time step, the seed of the next reset.

        Raises:
            SnapshotUnsupported: A part of the core cannot be copied.
        """
        return self.content()

    def set_state(self, state: Any) -> None:
        """Restores what `get_state` returned.

        Args:
            state: The result of `get_state`, which may be restored any number of times.
        """
        self.put_back(state)

    def has_returned(self, time_step: Any) -> bool:
        """Returns True for the very time step that this form returned last, which no wrapper has replaced.

        Args:
            time_step: The time step, as it came through the wrappers around this form.
        """
        return self._current_time_step is time_step

    def render(self, mode: str = "rgb_array") -> Any:
        """Returns an image of the current state.

        Args:
            mode: The core's `render_mode`.

        Raises:
            NotImplementedError: The core was made without a `render_mode`.
            SpecError: The core has another mode.
        """
        if self.render_mode is None:
            raise NotImplementedError(f"render: {self.core!r} has no pictures")
        if mode != self.render_mode:
            raise SpecError(f"render: expected mode {self.render_mode!r}, as the environment was made, got {mode!r}")
        return self.core.render()

    @property
    def unwrapped(self) -> Any:
        """The model or source inside all wrappers of the core."""
        return self.core.unwrapped
