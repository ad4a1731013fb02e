"""Wrappers written once: a change for one agent, lifted onto one agent, several agents, and batches.

class Sticky(envoi.Lifted): ...         # defines `change(specs)`

Sticky(env)       around an `Env` or a batch: an instance of `Env`
Sticky(multi)     around a `MultiEnv`: an instance of `MultiEnv`
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import EpisodeError, SpecError
from ..protocol.batch_env import as_lanes_step
from ..protocol.env import Env, Reset, as_step, refuse_masks
from ..protocol.fast_steps import record_of
from ..protocol.infos import Infos
from ..protocol.multi_env import MultiEnv, MultiReset, MultiStep, as_multi_step
from ..protocol.roster import check_actions
from ..rewards.rewarder import Rewarder, RewardFunction, spec_range
from ..spec.base import shown
from ..steps.flat import flat_step
from ..steps.lanes import merged
from ..steps.program import Program
from ..steps.record import ENDED_LANES, OVER, Record
from .change import SPECS, Change, Specs
from .delegate import Around, Inner
from .lifting import entries_for, over_agents, over_lanes
from .stages import ChangeStages
from .wrapper import Wrapper

if TYPE_CHECKING:
    _Base = Wrapper  # a type checker takes it for one around an `Env`
else:
    _Base = Around


class MultiWrapper(Around[MultiEnv], MultiEnv):
    """A multi-agent environment that behaves like `env`. Subclass it and override the differences.

    Args:
        env: The environment inside.
    """

    possible_agents: Any = Inner()
    agents: Any = Inner()
    turn: Any = Inner()

    def __init__(self, env: MultiEnv) -> None:
        super().__init__(env)
        if not isinstance(cast("object", env), MultiEnv):
            raise SpecError(
                f"env: expected an environment of several agents, got {shown(env)} of one; "
                "make the wrapper a Lifted or a Wrapper, or give it as_multi(env)"
            )

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Mapping[Any, Any], restart: Any = None, hold: Any = None) -> MultiStep:
        if restart is not None or hold is not None:
            refuse_masks(restart, hold)
        return self.env.step(actions)

    step_program = Around[Any].program_inside  # beside `step`, see `program_of`

    @property
    def step_record(self) -> Record:
        return record_of(self.env) if type(self).step is MultiWrapper.step else self.outer_record

    def observation(self, agent: Any) -> Any:
        return self.env.observation(agent)


class _Begun:
    """The memory before the first reset of the wrapper: None, or begun now if the inner episode is already running."""

    def __get__(self, layer: Any, owner: type) -> Any:
        if layer is None or (begin := layer.planned_change.begin) is None:
            return None
        try:
            observation: Any = {} if layer.is_several else layer.env.observation
        except EpisodeError:  # no episode
            return None
        layer._memory = begin(observation)
        return layer._memory


class Lifted(_Base):
    """Base class of wrappers that define a change for one agent, and work for an `Env`, a `MultiEnv` or a batch.

    A subclass sets its own attributes, then calls `super().__init__(env)`, and defines `change`. To do more, it
    overrides `reset(**arguments)` and `step(action, restart=None, hold=None)`, whose signatures are the same for all
    kinds, and calls `super()`. To distinguish kinds, check `isinstance(self, MultiEnv)`, or for an `Env` whether
    `batch_size` is None.

    Args:
        env: The inner environment: an `Env`, a batch or a `MultiEnv`. The wrapper is of the same kind.
    """

    memory = ("_memory", "_cut", "_halt")

    # Derived from the change. Copies and pickles omit these, because functions cannot be pickled.
    _planned: tuple[str, ...] = (
        *("planned_change", "planned_limit", "has_lanes", "is_several"),
        *("_memories", "_see", "_tell", "_reset_can_fail", "_written_step", "_record_inside", "_own_record"),
    )

    batch_size: Any = Inner()
    restarts: Any = Inner()
    lanes_can_wait: Any = Inner()
    possible_agents: Any = Inner()

    cached: str = ""  # the attribute that each step sets to None
    planned_limit: int | None = None
    _memory: Any = _Begun()
    _cut: Any = None  # in a batch, a private mask of the truncated lanes; with several agents, a bool
    _written_step: Any  # the function that `step` calls; None before the first step
    _record_inside: Any = None  # the record that written steps rely on

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._plan()

    def change(self, specs: Specs) -> Change:
        """Returns the change for one agent.

        It is called once per agent at construction, and again when inner specs have changed.
        """
        return Change()

    def beginning(self, restart: Any) -> Any:
        """Prepares a step of the inner environment that auto-resets lanes; `reset` does not call it.

        Returns:
            An object with two methods: `stepped()` is called after the inner step, and `__exit__` after all layers have
            stepped, or with a layer's error, to undo the preparation.
        """
        raise NotImplementedError

    @cached_property
    def is_several(self) -> bool:
        """True if the inner environment is a `MultiEnv`. Steps read this, because `isinstance` is ten times slower."""
        return isinstance(getattr(self, "_env_inside", self._given), MultiEnv)

    @property
    def stands_for(self) -> tuple[type, ...]:
        """The classes that `isinstance` accepts for this wrapper, because of its inner environment."""
        return (MultiEnv, MultiWrapper) if self.is_several else (Env, Wrapper)

    def _plan(self) -> None:
        """Calls `change`, sets the specs, and prepares everything that steps need."""
        self.is_several = is_several = isinstance(self.env, MultiEnv)
        env = self._env_inside
        n: Any = None if is_several else env.batch_size
        self.has_lanes = has_lanes = n is not None
        specs: dict[str, Any] = {name: getattr(env, name) for name in SPECS}
        each = {None: Specs._make([*specs.values(), n, None])}
        if is_several:
            each = {a: Specs._make([*[spec[a] for spec in specs.values()], None, a]) for a in env.possible_agents}
        given = {agent: self._given_change(own) for agent, own in each.items()}
        self.planned_limit = next(iter(given.values()), Change()).limit
        functions = [part for one in given.values() for part in (one.begin, one.observation, one.info)]
        self._reset_can_fail = any(part is not None for part in functions)
        changes = {agent: over_lanes(one.counting(n), each[agent], type(self)) for agent, one in given.items()}
        for name, inner in specs.items():
            own = {agent: spec for agent, change in changes.items() if (spec := getattr(change, name)) is not None}
            if own:
                setattr(self, name, {**inner, **own} if is_several else own[None])
        if is_several:
            self.planned_change, self._memories = over_agents(env, changes, self.action_spec, type(self))
        else:
            self.planned_change = changes[None]
        self._see, _, self._tell = self.planned_change.with_memory()
        if self._cut is None and (has_lanes or is_several):
            self._cut = np.zeros(n, bool) if has_lanes else False
        inside = record_of(env)
        for record in (self._record_inside, self.step_record, inside):
            if record is not None:
                record.stale()
        self._record_inside, self._written_step, self._own_record = inside, None, self.step_record

    def _given_change(self, specs: Specs) -> Change:
        """Returns the result of `change`, after checking its type."""
        change = self.change(specs)
        if not isinstance(cast("object", change), Change):
            raise SpecError(f"change: expected an envoi.Change, got {shown(change)}; return one from `change`")
        return change

    # Episodes.

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        arguments = {} if mask is None else {"mask": mask}
        change = self.planned_change
        take_back = self.env.hold_episode() if self._reset_can_fail else None
        observation, info = self._env_inside.reset(seed=seed, options=options, **arguments)
        lanes = None if mask is None or np.count_nonzero(mask) == len(mask) else np.asarray(mask)
        try:
            memory = None if change.begin is None else change.begin(observation)
            memory = memory if change.note is None else change.note(memory, info)
            if lanes is not None and memory is not None:
                memory = merged(self._memory, memory, lanes)
            seen = observation if self._see is None else self._see(observation, memory)
            if self._tell is not None:
                info = self._told(info, memory, lanes)
        except BaseException:
            if take_back is not None:
                take_back()
            raise
        self._memory, self._own_record.halt = memory, None
        if self.has_lanes:
            self._cut = self._cut & (False if lanes is None else ~lanes)
        elif self.is_several:
            self._cut = False
        return (MultiReset if self.is_several else Reset)(seen, info)

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Any:
        if self._written_step is None:
            finish = as_multi_step if self.is_several else as_lanes_step if self.has_lanes else as_step
            self._written_step = flat_step(Lifted.step_program, finish, self)
        if self.has_lanes:
            return self._written_step(self, action, restart, hold)
        refuse_masks(restart, hold)
        return self._written_step(self, action)

    def step_program(self) -> Program:
        """Returns the stages of a step: the inner environment's stages, and the change."""
        self._own_record = self.step_record  # of an inner `step` that was patched after this object was made
        return ChangeStages(self).program()

    @property
    def step_record(self) -> Record:
        return self.outer_record if self.has_own_step else record_of(self.env)

    @property
    def has_own_step(self) -> bool:
        """True if a subclass overrides `step`."""
        return type(self).step is not Lifted.step

    @property
    def sees_beginnings(self) -> bool:
        """True if the wrapper prepares lanes that begin an episode during a step; see `beginning`."""
        return type(self).beginning is not Lifted.beginning

    def _seen(self, observation: Any, memory: Any) -> Any:
        return observation if self._see is None else self._see(observation, memory)

    def _told(self, info: Any, memory: Any, mask: Any) -> Any:
        if self.is_several:
            return cast("Any", self.planned_change.info)(info, memory)
        entries = entries_for(cast("Any", self._tell)(memory), type(self))
        return info.adding(entries, mask) if self.has_lanes else {**info, **entries}

    @property
    def observation(self) -> Any:
        """The latest observation, computed at each access. In a `MultiEnv`, a method that takes an agent."""
        return self._look if self.is_several else self._seen(self.env.observation, self._memory)

    # Several agents.

    @property
    def agents(self) -> tuple[Any, ...]:
        """See `envoi.MultiEnv.agents`."""
        playing = self._env_inside.agents
        return () if self._cut else playing

    @property
    def turn(self) -> tuple[Any, ...] | None:
        """See `envoi.MultiEnv.turn`."""
        turn = self._env_inside.turn
        return None if self._cut else turn

    acting = MultiEnv.acting
    sample_action, sample_actions = Wrapper.sample_action, MultiEnv.sample_actions

    def _look(self, agent: Any) -> Any:
        value = self._env_inside.observation(agent)
        memory = self._memory
        if self.planned_change.begin is not None and not self.planned_change.shared and agent not in memory.fresh:
            memory = self._memories.recall(memory, {agent: value})  # a temporary memory, as if the agent observed now
        return self._seen({agent: value}, memory)[agent]

    def check_agents(self, actions: Any) -> None:
        """Raises an error unless actions are given for exactly the acting agents."""
        if self._cut:
            check_actions(actions, (), OVER)
        acting = self.acting
        if not acting:
            self.env.step(actions)  # which raises the reason
        check_actions(actions, acting)

    # Batches.

    def _infos_with(self, info: Infos, memory: Any, hold: Any) -> Infos:
        """Adds the entries of the change to the infos of lanes."""
        return self._told(info, memory, None if hold is None else ~np.asarray(hold))

    def check_cut(self, idle: Any) -> None:
        """Raises an error if a lane acts after this wrapper has truncated it."""
        if np.count_nonzero(self._cut):
            over = self._cut if idle is None else np.greater(self._cut, idle)
            if np.count_nonzero(over):
                raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")

    # The rest of an environment.

    @property
    def rewarder(self) -> Rewarder:
        """The inner environment's rewarder; settable."""
        return self.env.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.env.rewarder = rewarder
        self._plan()  # its spec follows

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and highest reward: the rewarder's range, unless this wrapper changes rewards."""
        changed = self.reward_spec is not self.env.reward_spec
        return spec_range(self.reward_spec) if changed else self.env.reward_range

    def _put_back(self, held: Mapping[str, Any]) -> None:
        super()._put_back(held)
        if self._memory is None:  # of before the first reset
            vars(self).pop("_memory", None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()
