"""Wrappers written once: a change for one agent, lifted onto one agent, several, and batches.

    class NoisyReward(envoi.Lifted): ...        # says `change(specs)`

    NoisyReward(env)          an `Env` over an `Env`, a batch over a `BatchEnv`, a `MultiEnv` over a `MultiEnv`

Everything that differs between these three kinds is here; a wrapper says what changes, see `Change`. One that has more
to do overrides `reset(**arguments)` and `step(actions, *restart)`, which all three kinds have, and calls `super()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from . import tree
from .around import Around
from .batch import as_mask
from .change import Change, Specs, over_lanes
from .env import ENDED, ENDED_LANES, Env, Reset, Step, full_step, make_step, quickest_step
from .errors import EpisodeError, SpecError
from .lanes import Infos, put, take
from .multi import (
    MultiEnv,
    MultiReset,
    MultiStep,
    RawMultiStep,
    check_actions,
    full_multi_step,
    make_multi_step,
    quickest_multi_step,
)
from .multiwrapper import MultiWrapper
from .process import Info
from .rewarder import Rewarder, RewardFunction, spec_range
from .spec import Spec, SpecTree, zeros
from .wrapper import Wrapper

if TYPE_CHECKING:
    # What a type checker may take it for; over several agents it is a `MultiWrapper`.
    _Base = Wrapper
else:
    _Base = Around


SPECS = ("observation_spec", "action_spec", "reward_spec", "discount_spec")
"""What a change may change of an environment."""


class Lifted(_Base):
    """A wrapper that says its change for one agent, and holds for one, for several, and for batches.

    A subclass sets its own attributes, then calls `super().__init__(env)`, and defines `change`.

    Args:
        env: What to wrap: an `Env`, a `BatchEnv` or a `MultiEnv`; the wrapper then is one too.
    """

    # What it is over one agent or a batch, and over several, where it needs more than `change` can say.
    _one: ClassVar[type[OverOne] | None] = None
    _several: ClassVar[type[OverSeveral] | None] = None

    _planned = (
        *("_change", "_changes", "_shared", "_inner_step", "raw_step"),
        *("_act", "_see", "_pay", "_begin", "_remember", "_note", "_end", "_tell", "_short"),
    )

    if not TYPE_CHECKING:  # which take the arguments from `__init__`

        def __new__(cls, env: Any = None, *args: Any, **kwargs: Any) -> Self:
            return Around.__new__(_lifted(cls._written(), isinstance(env, MultiEnv)), env, *args, **kwargs)

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._plan()

    def change(self, specs: Specs) -> Change:
        """What changes for one agent; called once for each, and again where what it follows from has changed."""
        return Change()

    def beginning(self, restart: Any) -> None:
        """Told before lanes begin anew within a step of a batch, and not by `reset`.

        Args:
            restart: Shape (n,), which lanes.
        """

    if TYPE_CHECKING:

        def _plan(self) -> None:
            """Decides all that a step need not: asks for the change, and sets the specs."""

    @classmethod
    def _written(cls) -> type[Lifted]:
        """The class that somebody wrote, of which this may be the one over an `Env` or a `MultiEnv`."""
        return next(kind for kind in cls.__mro__ if "_lifts" not in kind.__dict__)

    @property
    def _kind(self) -> type:
        return self._written()

    @property
    def rewarder(self) -> Rewarder:
        """The inner environment's rewarder; settable there through here."""
        return self.env.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.env.rewarder = rewarder
        self._plan()  # its spec follows

    @property
    def reward_range(self) -> tuple[float, float]:
        """The (lowest, highest) reward: the rewarder's, unless this wrapper changes rewards."""
        changed = self.reward_spec is not self.env.reward_spec
        return spec_range(self.reward_spec) if changed else self.env.reward_range

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (self._written(), isinstance(self, MultiEnv)), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()


@cache
def _lifted(written: type[Lifted], several: bool) -> type[Lifted]:
    """The class of a wrapper over one kind of environment."""
    base = (written._several or OverSeveral) if several else (written._one or OverOne)  # pyright: ignore[reportPrivateUsage]
    own = {"__module__": written.__module__, "__qualname__": written.__qualname__, "__doc__": written.__doc__}
    return cast("type[Lifted]", type(written.__name__, (written, base), {**own, "_lifts": True}))


def _blank(written: type[Lifted], several: bool) -> Lifted:
    return object.__new__(_lifted(written, several))


class OverOne(Wrapper):
    """Over an environment of one agent, or a batch of them."""

    memory = ("_memory", "_cut")

    _memory: Any = None
    _cut: Any = None
    _short: list[Any] | None = None  # what `_without_memory` steps by; changed in place, for others hold that step

    def _plan(self) -> None:
        env = self.env
        specs = Specs(env.observation_spec, env.action_spec, env.reward_spec, env.discount_spec, env.batch_size)
        self._change = change = over_lanes(cast("Any", self).change(specs), specs)
        for name in SPECS:
            if getattr(change, name) is not None:
                setattr(self, name, getattr(change, name))
        self._has_lanes = env.batch_size is not None
        self._inner_step = quickest_step(env)
        self._act = change.action
        self._see, self._pay = cast("Any", change.observation), cast("Any", change.reward)
        self._begin, self._remember, self._note = change.begin, change.remember, change.note
        self._end, self._tell = change.truncated, change.info
        if self._cut is None:
            self._cut = False if env.batch_size is None else np.zeros(env.batch_size, bool)
        kind = type(self)
        is_plain = (kind.step, kind.raw_step) == (OverOne.step, OverOne.raw_step)
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
            told = self._told(memory)
            info = info.adding(told, mask) if self.batch_size else {**info, **told}
        self._memory = memory
        self._cut = self._cut & (False if mask is None else ~np.asarray(mask))
        return Reset(seen, info)

    def step(self, action: Any, restart: Any = None) -> Step:
        if self.batch_size is None:
            if restart is not None:
                raise SpecError("restart: expected None, for this environment has no lanes; begin anew by reset()")
            return full_step(self.raw_step(action))
        return self._step_lanes(action, as_mask(restart, self.batch_size, "restart"))

    def raw_step(self, action: Any, restart: Any = None) -> tuple[Any, Any, bool, bool, Any, Info]:
        if self._has_lanes:
            return self.step(action, restart)
        if self._cut:
            raise EpisodeError(f"step: {ENDED}")
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
            info = {**info, **self._told(memory)}
        return (observation, reward, terminated, truncated, discount, info)

    def step_lanes(self, action: Any, lanes: Any) -> Step:
        return self._step_lanes(action, None, as_mask(lanes, cast("int", self.batch_size), "lanes"))

    def _step_lanes(self, action: Any, restart: Any, lanes: Any = None) -> Step:
        if np.count_nonzero(self._cut):  # a wrapper may cut lanes off in a `step` of its own, too
            over = self._cut if restart is None else self._cut & ~restart
            if lanes is not None:
                over = over & lanes
            if over.any():
                raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        if restart is not None:
            if np.count_nonzero(restart):
                cast("Any", self).beginning(restart)
            else:
                restart = None
        idle = restart if lanes is None else ~lanes
        if idle is not None and (self._act is not None or self._remember is not None):
            action = zeroed(action, idle, self.action_spec)  # lanes that do not act may hold anything
        inner_action = action if self._act is None else self._act(action)
        env = cast("Any", self.env)
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
            reward = self._pay(reward) if self._begin is None else self._pay(reward, memory)
            reward = reward if idle is None else zeroed(reward, idle, self.reward_spec, zero=0)
        if self._end is not None:
            truncated = self._end(truncated, memory)
            truncated = truncated if idle is None else truncated & ~idle
            self._cut = truncated if lanes is None else np.where(lanes, truncated, self._cut)
        if self._tell is not None:
            info = cast("Infos", info).adding(self._told(memory), lanes)
        self._memory = memory
        return make_step((seen, reward, terminated, truncated, discount, cast("Any", info)))

    def _seen(self, observation: Any, memory: Any) -> Any:
        if self._see is None:
            return observation
        return self._see(observation) if self._begin is None else self._see(observation, memory)

    def _told(self, memory: Any) -> Mapping[str, Any]:
        tell = cast("Any", self._tell)
        return tell() if self._begin is None else tell(memory)

    def _merged(self, memory: Any, other: Any, lanes: Any) -> Any:
        """A memory of all lanes, with another one at some of them."""
        index = lanes.nonzero()[0]
        return put(memory, index, take(other, index))

    @property
    def observation(self) -> Any:
        """The last observation, made anew of the inner one."""
        return self._seen(self.env.observation, self._memory)


def _without_memory(plan: list[Any]) -> Callable[..., Any]:
    """The `raw_step` of a change that remembers nothing.

    Args:
        plan: The step inside, and what is made of the action, the observation and the reward and added to the info, or
            None; read at every step.
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


class OverSeveral(MultiWrapper):
    """Over an environment of several agents."""

    memory = ("_memories", "_common", "_acted", "_paid", "_fresh", "_cut")

    _memories: Any = None
    _acted: dict[Any, Any]
    _paid: dict[Any, Any]
    _fresh: frozenset[Any]
    _common: Any = None
    _cut: bool = False

    def _plan(self) -> None:
        env = self.env
        changes: dict[Any, Change] = {}
        for agent in env.possible_agents:
            each = (env.observation_spec[agent], env.action_spec[agent], env.reward_spec[agent])
            specs = Specs(*each, env.discount_spec[agent], None, agent)
            changes[agent] = over_lanes(cast("Any", self).change(specs), specs)
        self._changes = changes
        for name in SPECS:
            own = {agent: getattr(change, name) for agent, change in changes.items()}
            if any(spec is not None for spec in own.values()):
                inner = getattr(env, name)
                setattr(self, name, {a: inner[a] if spec is None else spec for a, spec in own.items()})
        self._inner_step = quickest_multi_step(env)
        some = next(iter(changes.values()), Change())
        self._shared = some if some.shared else None
        if any(change.truncated is not None and not change.shared for change in changes.values()):
            raise SpecError("change: expected a shared memory to truncate by, for several agents end together")
        self._end = some.truncated
        self._act, self._see, self._pay, self._tell = (
            {agent: getattr(change, name) for agent, change in changes.items() if getattr(change, name) is not None}
            for name in ("action", "observation", "reward", "info")
        )
        self._begin = {agent: c.begin for agent, c in changes.items() if c.begin is not None and not c.shared}
        self._remember = {agent: c.remember for agent, c in changes.items() if c.remember is not None and not c.shared}
        self._note = {agent: c.note for agent, c in changes.items() if c.note is not None and not c.shared}
        if self._memories is None:
            self._memories, self._acted, self._paid, self._fresh = {}, {}, {}, frozenset()

    @property
    def agents(self) -> tuple[Any, ...]:
        return () if self._cut else self.env.agents

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return None if self._cut else self.env.turn

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observations, infos = self.env.reset(seed=seed, options=options)
        self._common = self._shared.begin(None) if self._shared and self._shared.begin else None
        self._memories, self._acted, self._paid, self._cut = {}, {}, {}, False
        self._fresh = frozenset()
        self._recall(observations, infos)
        return MultiReset(self._seen(observations), self._told(infos))

    def step(self, actions: Mapping[Any, Any], restart: None = None) -> MultiStep:
        """See `MultiEnv.step`; `restart` is there for wrappers that are written once, and always None."""
        return full_multi_step(self.raw_step(actions))

    def raw_step(self, actions: Mapping[Any, Any]) -> RawMultiStep:
        if self._cut:
            check_actions(actions, (), ENDED)
        inner = actions
        if self._act:
            acting = self.acting
            if len(actions) != len(acting) or any(agent not in actions for agent in acting):
                if not acting:
                    self._inner_step(actions)  # which says why nobody can act
                check_actions(actions, acting)
            inner = {a: self._act[a](action) if a in self._act else action for a, action in actions.items()}
        values = self._inner_step(inner)
        observations, rewards, terminated, truncated, discounts, infos = values
        if self._shared is not None and self._shared.remember is not None:
            self._common = self._shared.remember(self._common, None, None, None)
        if self._end is not None and self._end(False, self._common):
            observations, rewards, terminated, _, discounts, infos = full_multi_step(values)
            truncated, self._cut = dict.fromkeys(rewards, True), True
            observations = {a: observations[a] if a in observations else self.env.observation(a) for a in rewards}
        if self._begin:
            self._acted = {**self._acted, **actions}
            self._paid = {**self._paid, **{a: self._with_earlier(a, own) for a, own in rewards.items()}}
            # Who has ended is spoken of no more: what it remembers holds what it saw last.
            self._fresh = self._fresh.difference(rewards)
            self._recall(observations, infos)
        seen = self._seen(observations)
        if self._pay:
            rewards = {
                a: self._with_memory(a, self._pay[a], own) if a in self._pay else own for a, own in rewards.items()
            }
        return make_multi_step((seen, rewards, terminated, truncated, discounts, self._told(infos)))

    def _with_earlier(self, agent: Any, reward: Any) -> Any:
        """What an agent is paid, with what it was paid while it waited."""
        if agent not in self._paid:
            return reward

        def added(leaf: Spec, one: Any, other: Any) -> Any:
            return one + other

        return tree.map_leaves(added, self.env.reward_spec[agent], self._paid[agent], reward)

    def _recall(self, observations: Mapping[Any, Any], infos: Mapping[Any, Info]) -> None:
        """What the agents that see something now remember of it."""
        if not self._begin:
            return
        self._memories = {**self._memories, **{a: self._memory_of(a, seen) for a, seen in observations.items()}}
        self._acted = {agent: action for agent, action in self._acted.items() if agent not in observations}
        self._paid = {agent: reward for agent, reward in self._paid.items() if agent not in observations}
        self._fresh = self._fresh.union(observations)
        told = {a: n(self._memories[a], infos[a]) for a, n in self._note.items() if a in infos and a in self._memories}
        self._memories = {**self._memories, **told}

    def _memory_of(self, agent: Any, observation: Any) -> Any:
        if agent not in self._begin:
            return None
        if agent not in self._memories:
            return self._begin[agent](observation)
        memory = self._memories[agent]
        if agent not in self._remember:
            return memory
        action = self._acted[agent] if agent in self._acted else zeros(self.action_spec[agent])
        return self._remember[agent](memory, action, observation, self._paid.get(agent, 0.0))

    def _memory(self, agent: Any) -> Any:
        """What an agent remembers; one that has not seen anything yet begins with what it would see."""
        if self._shared is not None:
            return self._common
        return self._memories[agent] if agent in self._memories else self._begin[agent](self.env.observation(agent))

    def _with_memory(self, agent: Any, function: Any, value: Any) -> Any:
        has_memory = agent in self._begin if self._shared is None else self._shared.begin is not None
        return function(value, self._memory(agent)) if has_memory else function(value)

    def _seen(self, observations: dict[Any, Any]) -> dict[Any, Any]:
        if not self._see:
            return observations
        return {
            agent: self._with_memory(agent, self._see[agent], value) if agent in self._see else value
            for agent, value in observations.items()
        }

    def _told(self, infos: dict[Any, Info]) -> dict[Any, Info]:
        if not self._tell:
            return infos
        return {a: {**info, **self._entries(a)} if a in self._tell else info for a, info in infos.items()}

    def _entries(self, agent: Any) -> Mapping[str, Any]:
        has_memory = agent in self._begin if self._shared is None else self._shared.begin is not None
        return self._tell[agent](self._memory(agent)) if has_memory else self._tell[agent]()

    def observation(self, agent: Any) -> Any:
        value = self.env.observation(agent)
        if agent not in self._see:
            return value
        if agent in self._fresh or agent not in self._begin:
            return self._with_memory(agent, self._see[agent], value)
        return self._see[agent](value, self._memory_of(agent, value))  # as if it saw it now, and leaves no trace


def zeroed(values: Any, lanes: Any, spec: SpecTree, zero: Any = None) -> Any:
    """Values of all lanes, with zeros at some of them: `zero`, or the nearest to it that the spec allows."""

    def some(leaf: Spec, all_lanes: Any) -> Any:
        nothing = leaf.zeros() if zero is None else zero
        if isinstance(all_lanes, tuple):  # what no array holds
            values = cast("tuple[Any, ...]", all_lanes)
            return tuple(nothing if idle else own for idle, own in zip(lanes.tolist(), values, strict=True))
        result = np.array(all_lanes)
        result[lanes] = nothing
        return result

    return tree.map_leaves(some, spec, values)


def ended(env: Env | MultiEnv, step: Any) -> Any:
    """Whether a step has ended the episode: a bool, or for a batch one a lane."""
    if isinstance(env, MultiEnv):
        return not env.agents
    return step.terminated or step.truncated if env.batch_size is None else step.terminated | step.truncated
