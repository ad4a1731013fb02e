"""Core environments in dm_env's form. The table of what becomes what is in `envoi.adapters.dm_env`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from sys import getrefcount
from typing import Any, cast

import dm_env
import numpy as np
from dm_env import TimeStep
from numpy import ndarray

from envoi import Array, Discrete, Env, Reset, SpecError, Step
from envoi.protocol.env import beside_step, full_step, quickest_step
from envoi.seeding import check_seed
from envoi.spec import SpecTree
from envoi.tree import leaves, map_leaves

from ..shared.agent_count import validated
from ..shared.array_specs import decoder, encoder
from ..shared.arrival import ALONE, incoming
from ..shared.exported import AnyForm
from .specs import to_spec

FIRST, MID, LAST = dm_env.StepType.FIRST, dm_env.StepType.MID, dm_env.StepType.LAST

new = tuple.__new__  # `new(TimeStep, values)` costs a third of the named tuple's own constructor


def is_zero(discount: Any) -> bool:
    """Whether all of a discount is 0."""
    if isinstance(discount, float):  # np.float64 too
        return not discount
    return not any(np.any(leaf) for _, leaf in leaves(discount))


def _filled(spec: SpecTree, value: int) -> Any:
    """`value` in every number of a (possibly nested) array spec."""
    return map_leaves(lambda leaf: np.full(leaf.shape, value, leaf.dtype)[()], spec)


def _number(spec: SpecTree) -> tuple[type, Callable[[Any], Any]]:
    """The type of a reward or discount that is right as it is, and what makes any other one right.

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
        if type(value) is int and -exact < value < exact:  # the quick way for what many environments reward with
            return kind(value)
        value = take(value)
        return value[()] if type(value) is ndarray and value.shape == () else value

    return (float if spec.dtype == np.float64 else kind), convert


class ToDmEnv(AnyForm, dm_env.Environment):
    """A core environment as a dm_env one.

    A reset takes no arguments in dm_env: call `seed(s)` before it to seed it, and set `reset_options` to give it
    options.

    Args:
        core: An environment of one lane.
        validate: Check every value against its spec.

    Attributes:
        core: The core environment.
        reset_options: The options of the next reset only; None for none.
        metadata: The core's.
        render_mode: The core's.
    """

    def __init__(self, core: Env, validate: bool = False) -> None:
        if core.batch_size is not None:
            raise SpecError(f"to_dm_env: expected one environment, got a batch of {core.batch_size} lanes")
        self.core = core
        self._last: Any = None  # a `Reset`, what `raw_step` gave, or a `TimeStep` that says it all
        self.reset_options: Mapping[str, Any] | None = None
        self.metadata = deepcopy(dict(core.metadata))
        self.render_mode = core.render_mode
        self._env = validated(core) if validate else core
        self._seed: int | None = None
        self._restart = True
        self._closed = False
        self._observation_spec = to_spec(core.observation_spec, "observation")
        self._action_spec = to_spec(core.action_spec, "action")
        self._discount_spec = to_spec(core.discount_spec, "discount")
        self._plan()

    def _plan(self) -> None:
        core = self.core
        self._reward_spec, self._reward_of = to_spec(core.reward_spec, "reward"), core.reward_spec
        self._encode = encoder(core.observation_spec)
        self._decode = decoder(core.action_spec, exact=self._env is not core)
        # A choice needs no decoding unless it comes as an array.
        self._only_arrays = isinstance(core.action_spec, Discrete)
        self._reward_type, self._to_reward = _number(core.reward_spec)
        self._discount_type, self._to_discount = _number(core.discount_spec)
        self._one, self._zero = (x if self._discount_type is float else self._to_discount(x) for x in (1.0, 0.0))
        self._step = quickest_step(self._env)
        self._importer = self._env if self._is_plain() else None
        self._quick: Any = None if self._restart else self._importer  # the importer while an episode is going on

    def _is_plain(self) -> bool:
        """Whether a source gives five values, of which the common step converts none: at most an array of a choice."""
        if beside_step(self._env, "complete_five") is None or cast("Any", self._env)._encode is not None:
            return False
        kinds_agree = self._reward_type is self._discount_type is float
        return kinds_agree and self._encode is None and (self._decode is None or self._only_arrays)

    def seed(self, seed: int | None) -> None:
        """Gives the next reset a seed, which fixes everything random from then on.

        Raises:
            SpecError: It is not an integer of at least 0, or None.
        """
        self._seed = check_seed(seed)

    @property
    def last(self) -> Reset | Step | None:
        """What the core's last `reset` or `step` gave, all of it; None before."""
        last = self._last
        if type(last) is TimeStep:
            return Step(last.observation, last.reward, False, False, 1.0, {})
        return last if last is None or isinstance(last, Reset) else full_step(last)

    @property
    def info(self) -> dict[Any, Any]:
        """The info of the last reset or step; empty before."""
        return {} if self._last is None or type(self._last) is TimeStep else self._last[-1]

    def reset(self) -> TimeStep:
        """Begins an episode; see `dm_env.Environment.reset`."""
        if self.core.reward_spec is not self._reward_of:  # another rewarder was set
            self._plan()
        self._last = last = self._env.reset(seed=self._seed, options=self.reset_options)
        self._seed = self.reset_options = None
        self._restart, self._quick = False, self._importer
        observation = last.observation if self._encode is None else self._encode(last.observation)
        return new(TimeStep, (FIRST, None, None, observation))

    def step(self, action: Any) -> TimeStep:
        """Acts once, or begins an episode where none is going on; see `dm_env.Environment.step`."""
        core = self._quick
        if core is None or core._over is not None or core._rewarder is not None:
            if self._restart:
                return self.reset()
            if self._decode is not None and (not self._only_arrays or type(action) is ndarray):
                action = self._decode(action)
            values = self._step(action)
            observation, reward, terminated, truncated, discount, _ = values
            if discount is None and not terminated and not truncated and type(reward) is self._reward_type:
                self._last = values
                shown = observation if self._encode is None else self._encode(observation)
                return new(TimeStep, (MID, reward, self._one, shown))
            return self._say(values)
        # The step of an importer's source, taken right here: in the common case nothing of it needs a call.
        if type(action) is ndarray and self._decode is not None:
            action = self._decode(action)
        observation, reward, terminated, truncated, info = core.source.step(action)
        if (
            type(observation) is not ndarray
            or observation.dtype is not core._dtype
            or getrefcount(observation) > ALONE
            or observation.__sizeof__() != core._size
        ):
            observation = core._incoming(observation)
        core._observation = observation
        if terminated or truncated or info or not isinstance(reward, float):
            return self._say(core.complete_five(observation, reward, terminated, truncated, info, None, action))
        self._last = said = new(TimeStep, (MID, reward, 1.0, observation))
        return said

    def _say(self, values: Any) -> TimeStep:
        """The time step of what `raw_step` gave."""
        self._last = values
        observation, reward, terminated, truncated, discount, _ = values
        over = terminated or truncated
        if over:
            self._restart, self._quick = True, None
        if self._encode is not None:
            observation = self._encode(observation)
        if type(reward) is not self._reward_type:
            reward = self._to_reward(reward)
        if discount is None:
            discount = self._zero if terminated else self._one
        elif type(discount) is not self._discount_type:
            discount = self._to_discount(discount)
        if over and is_zero(discount) is not bool(terminated):
            discount = _filled(self.core.discount_spec, 0 if terminated else 1)
        return new(TimeStep, (LAST if over else MID, reward, discount, observation))

    def observation_spec(self) -> Any:
        """What observations are."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """What actions are."""
        return self._action_spec

    def reward_spec(self) -> Any:
        """What rewards are; follows the core's rewarder."""
        if self.core.reward_spec is not self._reward_of:
            self._plan()
        return self._reward_spec

    def discount_spec(self) -> Any:
        """What discounts are."""
        return self._discount_spec

    def render(self) -> Any:
        """A picture, as `render_mode` says."""
        return self.core.render()

    def close(self) -> None:
        """Releases what the environment holds; may be called again."""
        if not self._closed:
            self._closed = True
            self.core.close()

    def content(self) -> Any:
        """What the environment holds now, apart from the core as an object."""
        return self._env.snapshot(), self._last, self.reset_options, self._seed, self._restart

    def put_back(self, content: Any) -> None:
        """Makes the environment hold it again."""
        snapshot, self._last, self.reset_options, self._seed, self._restart = content
        self._quick = None if self._restart else self._importer
        self._env.restore(snapshot)

    def __getstate__(self) -> dict[str, Any]:
        planned = ("_encode", "_decode", "_to_reward", "_to_discount", "_step", "_importer", "_quick")
        return {name: value for name, value in vars(self).items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()

    def __repr__(self) -> str:
        return f"to_dm_env({self.core!r})"
