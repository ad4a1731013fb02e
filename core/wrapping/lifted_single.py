"""A change lifted onto an environment of one agent, or a batch of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from .. import tree
from ..errors import EpisodeError, SpecError
from ..lane_values import put, take
from ..protocol.batch_env import as_mask
from ..protocol.env import Reset, Step, full_step, make_step, quickest_step
from ..protocol.episode import ENDED_LANES, OVER
from ..protocol.infos import Infos
from ..protocol.process import Info
from ..spec import Spec, SpecTree
from .change import SPECS, Specs
from .changing import Changing
from .wrapper import Wrapper


class LiftedEnv(Changing, Wrapper):
    """A lifted wrapper over an environment of one agent, or a batch of them."""

    memory = ("_memory", "_cut")

    _memory: Any = None
    _cut: Any = None
    _short: list[Any] | None = None  # the plan of `_without_memory`, changed in place because others hold that step

    def _plan(self) -> None:
        env = self.env
        specs = Specs(env.observation_spec, env.action_spec, env.reward_spec, env.discount_spec, env.batch_size)
        self._change = change = self._checked_change(specs)
        for name in SPECS:
            if getattr(change, name) is not None:
                setattr(self, name, getattr(change, name))
        self._has_lanes = env.batch_size is not None
        self._inner_step = quickest_step(env)
        self._act, self._end = change.action, change.truncated
        self._begin, self._remember, self._note = change.begin, change.remember, change.note
        self._see, self._pay, self._tell = change.with_memory()
        if self._cut is None:
            self._cut = False if env.batch_size is None else np.zeros(env.batch_size, bool)
        kind = type(self)
        is_plain = (kind.step, kind.raw_step) == (LiftedEnv.step, LiftedEnv.raw_step)
        if is_plain and not self._has_lanes and self._begin is None:
            short = [self._inner_step, change.action, change.observation, change.reward, change.info]
            if self._short is None:
                self._short = short
                self.raw_step = _without_memory(short)  # which has less to ask at every step
            self._short[:] = short
        elif self._short is not None:
            self._short[:] = [partial(kind.raw_step, self), None, None, None, None]

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        observation, info = super().reset(seed=seed, options=options, mask=mask)
        if mask is not None and np.all(mask):
            mask = None
        memory = self._memory
        if self._begin is not None:
            fresh = self._begin(observation)
            fresh = fresh if self._note is None else self._note(fresh, info)
            memory = fresh if mask is None or fresh is None else self._merged(memory, fresh, np.asarray(mask))
        seen = self._seen(observation, memory)
        if self._tell is not None:
            info = cast("Any", info)
            told = self._tell(memory)
            info = info.adding(told, mask) if self.batch_size else {**info, **told}
        self._memory = memory
        self._cut = self._cut & (False if mask is None else ~np.asarray(mask))
        return Reset(seen, info)

    def step(self, action: Any, restart: Any = None) -> Step:
        if self.batch_size is None:
            if restart is not None:
                raise SpecError("restart: expected None, because there are no lanes; start an episode by reset()")
            return full_step(self.raw_step(action))
        return self._step_lanes(action, as_mask(restart, self.batch_size, "restart"))

    def raw_step(self, action: Any, restart: Any = None) -> tuple[Any, Any, bool, bool, Any, Info]:
        if self._has_lanes:
            return self.step(action, restart)
        if self._cut:
            raise EpisodeError(f"step: {OVER}")
        observation, reward, terminated, truncated, discount, info = self._inner_step(
            action if self._act is None else self._act(action)
        )
        memory = self._memory
        if self._remember is not None:
            memory = self._remember(memory, action, observation, reward)
        if self._note is not None:
            memory = self._note(memory, info)
        self._memory = memory
        if self._see is not None:
            observation = self._see(observation, memory)
        if self._pay is not None:
            reward = self._pay(reward, memory)
        if self._end is not None:
            self._cut = truncated = bool(self._end(truncated, memory))
        if self._tell is not None:
            info = {**info, **self._tell(memory)}
        return (observation, reward, terminated, truncated, discount, info)

    def step_lanes(self, action: Any, lanes: Any) -> Step:
        return self._step_lanes(action, None, as_mask(lanes, self.batch_size, "lanes"))

    def _step_lanes(self, action: Any, restart: Any, lanes: Any = None) -> Step:
        if np.count_nonzero(self._cut):  # a wrapper may cut lanes off in a `step` of its own, too
            over = self._cut if restart is None else self._cut & ~restart
            if lanes is not None:
                over = over & lanes
            if over.any():
                raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        if restart is not None:
            if np.count_nonzero(restart):
                self.beginning(restart)
            else:
                restart = None
        idle = restart if lanes is None else ~lanes
        if idle is not None and (self._act is not None or self._remember is not None):
            action = zeroed(action, idle, self.action_spec)  # lanes that do not act may hold anything
        inner_action = action if self._act is None else self._act(action)
        env: Any = self.env
        if lanes is None:
            values = env.step(inner_action) if restart is None else env.step(inner_action, restart)
        else:
            values = env.step_lanes(inner_action, lanes)
        observation, reward, terminated, truncated, discount, info = values
        before = memory = self._memory
        if self._remember is not None:
            memory = self._remember(before, action, observation, reward)
        if memory is not None and self._begin is not None and restart is not None:
            memory = self._merged(memory, self._begin(observation), restart)
        if self._note is not None:
            memory = self._note(memory, info)
        if lanes is not None and memory is not before:
            memory = self._merged(memory, before, ~lanes)
        seen = self._seen(observation, memory)
        if self._pay is not None:
            reward = self._pay(reward, memory)
            reward = reward if idle is None else zeroed(reward, idle, self.reward_spec, zero=0)
        if self._end is not None:
            truncated = self._end(truncated, memory)
            truncated = truncated if idle is None else truncated & ~idle
            self._cut = truncated if lanes is None else np.where(lanes, truncated, self._cut)
        if self._tell is not None:
            info = cast("Infos", info).adding(self._tell(memory), lanes)
        self._memory = memory
        return make_step((seen, reward, terminated, truncated, discount, cast("Any", info)))

    def _seen(self, observation: Any, memory: Any) -> Any:
        return observation if self._see is None else self._see(observation, memory)

    def _merged(self, memory: Any, other: Any, lanes: Any) -> Any:
        """Returns a memory of all lanes, with another one at some of them."""
        index = lanes.nonzero()[0]
        return put(memory, index, take(other, index))

    @property
    def observation(self) -> Any:
        """The latest observation, made from the inner one at each reading."""
        return self._seen(self.env.observation, self._memory)


def _without_memory(plan: list[Any]) -> Callable[..., Any]:
    """Returns the `raw_step` of a change without a memory.

    Args:
        plan: The step inside, and the functions of the action, the observation, the reward and the info, or None; read
            at every step.
    """

    def raw_step(action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        inner_step, act, see, pay, tell = plan
        observation, reward, terminated, truncated, discount, info = inner_step(action if act is None else act(action))
        if see is not None:
            observation = see(observation)
        if pay is not None:
            reward = pay(reward)
        if tell is not None:
            info = {**info, **tell()}
        return (observation, reward, terminated, truncated, discount, info)

    return raw_step


def zeroed(values: Any, lanes: Any, spec: SpecTree, zero: Any = None) -> Any:
    """Returns values of all lanes, with zeros at some of them.

    Args:
        values: Leaves of shape (n, …).
        lanes: The mask of the lanes to be zeroed, shape (n,).
        spec: The spec of one lane's value.
        zero: The zero of each leaf; None for the value nearest to zero that the spec allows.
    """

    def some(leaf: Spec, all_lanes: Any) -> Any:
        nothing = leaf.zeros() if zero is None else zero
        if isinstance(all_lanes, tuple):  # of values that no array holds
            values = cast("tuple[Any, ...]", all_lanes)
            return tuple(nothing if idle else own for idle, own in zip(lanes.tolist(), values, strict=True))
        result = np.array(all_lanes)
        result[lanes] = nothing
        return result

    return tree.map_leaves(some, spec, values)
