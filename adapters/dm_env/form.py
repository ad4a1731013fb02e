"""Exports core environments to dm_env. The table of conversions is in `envoi.adapters.dm_env`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dm_env
import numpy as np
from dm_env import TimeStep
from numpy import ndarray

from envoi import Array, Discrete, Env, Reset, Step
from envoi.protocol.env import full_step
from envoi.protocol.fast_steps import step_around
from envoi.seeding import check_seed
from envoi.spec import SpecTree
from envoi.steps.flat import Finish
from envoi.steps.program import VALUES
from envoi.tree import map_leaves

from ..shared.array_specs import decoder, encoder
from ..shared.arrival import incoming, is_zero
from ..shared.exported import OpenForm, SpecMethods
from .specs import NAME, to_spec

FIRST, MID, LAST = dm_env.StepType.FIRST, dm_env.StepType.MID, dm_env.StepType.LAST

new = tuple.__new__  # `new(TimeStep, values)` costs a third of the named tuple's own constructor


def _filled(spec: SpecTree, value: int) -> Any:
    """Returns a value of an array spec, possibly nested, in which every element is `value`."""
    return map_leaves(lambda leaf: np.full(leaf.shape, value, leaf.dtype)[()], spec)


def _number(spec: SpecTree) -> tuple[type, Callable[[Any], Any]]:
    """Returns the type of a reward or discount that needs no conversion, and the function that converts any other.

    dm_env validates dtypes, and a core reward may be a Python integer in a float64 spec.
    """
    take = incoming(spec, False)
    if not (isinstance(spec, Array) and spec.shape == ()):
        return type(None), take
    kind = spec.dtype.type
    exact = 2 ** (np.finfo(spec.dtype).nmant + 1) if spec.dtype.kind == "f" else 0

    def convert(value: Any) -> Any:
        if type(value) is kind:
            return value
        if type(value) is int and -exact < value < exact:  # fast, because many environments have integer rewards
            return kind(value)
        value = take(value)
        return value[()] if type(value) is ndarray and value.shape == () else value

    return (float if spec.dtype == np.float64 else kind), convert


class _Episode:
    """The episode of a form. It is a separate object, so that the generated step does not refer back to the form."""

    def __init__(self) -> None:
        self.seed: int | None = None  # of the next reset, as are the options
        self.options: Mapping[str, Any] | None = None
        self.restart = True  # the next step begins an episode
        self.last: Any = None  # a `Reset`, or six values of the core; None before the first reset

    def plan(self, core: Env, env: Env) -> None:
        """Decides which values need a conversion."""
        self.core, self.env = core, env
        self.encode = encoder(core.observation_spec)
        self.reward_of = core.reward_spec
        self.reward_type, self._to_reward = _number(core.reward_spec)
        self.discount_type, self._to_discount = _number(core.discount_spec)
        self.one, self._zero = (x if self.discount_type is float else self._to_discount(x) for x in (1.0, 0.0))

    def begin(self) -> TimeStep:
        """Resets the core; returns the first time step."""
        if self.core.reward_spec is not self.reward_of:  # another rewarder was set
            self.plan(self.core, self.env)
        self.last = last = self.env.reset(seed=self.seed, options=self.options)
        self.seed = self.options = None
        self.restart = False
        observation = last.observation if self.encode is None else self.encode(last.observation)
        return new(TimeStep, (FIRST, None, None, observation))

    def time_step(
        self, observation: Any, reward: Any, terminated: bool, truncated: bool, discount: Any, info: dict[Any, Any]
    ) -> TimeStep:
        """Returns the time step of six values of the core."""
        self.last = (observation, reward, terminated, truncated, discount, info)
        self.restart = over = terminated or truncated
        if self.encode is not None:
            observation = self.encode(observation)
        if type(reward) is not self.reward_type:
            reward = self._to_reward(reward)
        if discount is None:
            discount = self._zero if terminated else self.one
        elif type(discount) is not self.discount_type:
            discount = self._to_discount(discount)
        if over and is_zero(discount) is not bool(terminated):
            discount = _filled(self.core.discount_spec, 0 if terminated else 1)
        return new(TimeStep, (LAST if over else MID, reward, discount, observation))

    def __getstate__(self) -> tuple[Any, ...]:
        return self.seed, self.options, self.restart, self.last

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.seed, self.options, self.restart, self.last = state


class ToDmEnv(SpecMethods, OpenForm, dm_env.Environment):
    """A core environment as a dm_env environment.

    In dm_env, `reset` takes no arguments: before it, call `seed(s)` for a seed and set `reset_options` for options.

    Args:
        core: An environment of one lane.
        validate: If True, every value is checked against its spec.

    Attributes:
        core: The core environment.
        metadata: A copy of the core's metadata.
        render_mode: The core's render mode.
    """

    _framework = NAME
    _planned = ("_decode", "_time_step")
    _memory = ("_in_episode",)

    def __init__(self, core: Env, validate: bool = False) -> None:
        self._episode = _Episode()
        super().__init__(core, validate)

    def _describe(self) -> None:
        core = self.core
        self._observation_spec = to_spec(core.observation_spec, "observation")
        self._action_spec = to_spec(core.action_spec, "action")
        self._discount_spec = to_spec(core.discount_spec, "discount")
        self._reward_spec, self._reward_of = to_spec(core.reward_spec, "reward"), core.reward_spec

    def _plan(self) -> None:
        self._episode.plan(self.core, self._env)
        self._decode = decoder(self.core.action_spec, exact=self._env is not self.core)
        finish = self._finish()
        self._time_step = step_around(self._env, lambda program: finish)
        if (type(self).step, type(self).reset) == _WRITTEN:  # neither overridden nor patched
            self._step_by(self._time_step)

    def _finish(self) -> Finish:
        """Returns the code that the form adds at the beginning and the end of a step."""
        first = ["if episode.restart:", "    return episode.begin()"]
        if isinstance(self.core.action_spec, Discrete):  # only arrays need decoding
            first.append("if type(action) is ndarray:\n    action = from_dm_env(action)")
        elif self._decode is not None:
            first.append("action = from_dm_env(action)")
        values, episode, encode = ", ".join(VALUES), self._episode, self._episode.encode
        shown = "observation" if encode is None else "to_dm_env(observation)"
        last = [
            "if discount is None and not terminated and not truncated and type(reward) is episode.reward_type:",
            f"    episode.last = ({values})",
            f"    return new(TimeStep, (MID, reward, one, {shown}))",
            f"return episode.time_step({values})",
        ]
        names = {"episode": episode, "one": episode.one, "to_dm_env": encode, "from_dm_env": self._decode}
        names |= {"ndarray": ndarray, "new": new, "TimeStep": TimeStep, "MID": MID}
        return Finish("ToDmEnv: a time step", "\n".join(last), "\n".join(first), names)

    def seed(self, seed: int | None) -> None:
        """Seeds the next reset; the seed determines all later randomness.

        Args:
            seed: A non-negative integer, or None for no seed.

        Raises:
            SpecError: `seed` is neither None nor a non-negative integer.
        """
        self._episode.seed = check_seed(seed)

    @property
    def reset_options(self) -> Mapping[str, Any] | None:
        """Options for the next reset only, or None."""
        return self._episode.options

    @reset_options.setter
    def reset_options(self, options: Mapping[str, Any] | None) -> None:
        self._episode.options = options

    @property
    def last(self) -> Reset | Step | None:
        """The complete result of the core's last `reset` or `step`, or None before the first reset."""
        last = self._episode.last
        return last if last is None or isinstance(last, Reset) else full_step(last)

    @property
    def info(self) -> dict[Any, Any]:
        """The info of the last reset or step; empty before the first reset."""
        last = self._episode.last
        return {} if last is None else last[-1]

    def reset(self) -> TimeStep:
        """Starts a new episode and returns its first time step; see `dm_env.Environment.reset`."""
        return self._episode.begin()

    def step(self, action: Any) -> TimeStep:
        """Runs one step; starts a new episode instead if none is running. See `dm_env.Environment.step`."""
        if self._episode.restart:
            return self.reset()
        return self._time_step(action)

    def reward_spec(self) -> Any:
        """Returns the reward spec of the core's current rewarder."""
        if self.core.reward_spec is not self._reward_of:
            self._reward_spec, self._reward_of = to_spec(self.core.reward_spec, "reward"), self.core.reward_spec
            self._episode.plan(self.core, self._env)
        return self._reward_spec

    @property
    def _in_episode(self) -> tuple[Any, ...]:
        return self._episode.__getstate__()

    @_in_episode.setter
    def _in_episode(self, content: tuple[Any, ...]) -> None:
        self._episode.__setstate__(content)


_WRITTEN = ToDmEnv.step, ToDmEnv.reset
