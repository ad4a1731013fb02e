"""A change lifted onto an environment of one agent, or a batch of them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ..errors import EpisodeError, SpecError
from ..protocol.batch_env import as_lanes_step
from ..protocol.env import Env, Reset, Step, as_step
from ..protocol.fast_steps import record_of
from ..protocol.infos import Infos
from ..steps.flat import flat_step
from ..steps.program import Program
from ..steps.record import ENDED_LANES, Record
from .change import SPECS, Specs
from .changing import Changing
from .stages import change_program, merged
from .wrapper import Wrapper


class LiftedEnv(Changing[Env], Wrapper):
    """A lifted wrapper over an environment of one agent, or a batch of them."""

    memory = ("_memory", "_cut", "_halt")

    _memory: Any = None
    _cut: Any = None  # of a batch: the truncated lanes, in an array that callers do not get
    _written_step: Any  # the function that `step` calls; None before the first step
    _record_inside: Any = None  # the record that written steps rely on

    def _plan(self) -> None:
        env = self.env
        specs = Specs(env.observation_spec, env.action_spec, env.reward_spec, env.discount_spec, env.batch_size)
        self.planned_change = change = self._checked_change(specs)
        for name in SPECS:
            if getattr(change, name) is not None:
                setattr(self, name, getattr(change, name))
        self._has_lanes = env.batch_size is not None
        self._see, _, self._tell = change.with_memory()
        if self._cut is None and env.batch_size is not None:
            self._cut = np.zeros(env.batch_size, bool)
        inside = record_of(env)
        for record in (self._record_inside, self.step_record, inside):
            if record is not None:
                record.stale()
        self._record_inside, self._written_step = inside, None

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        observation, info = super().reset(seed=seed, options=options, mask=mask)
        if mask is not None and np.all(mask):
            mask = None
        memory, change = self._memory, self.planned_change
        if change.begin is not None:
            fresh = change.begin(observation)
            fresh = fresh if change.note is None else change.note(fresh, info)
            memory = fresh if mask is None or fresh is None else merged(memory, fresh, np.asarray(mask))
        seen = self._seen(observation, memory)
        if self._tell is not None:
            info = cast("Any", info)
            told = self._tell(memory)
            info = info.adding(told, mask) if self.batch_size else {**info, **told}
        self._memory, self._halt = memory, None
        if self._has_lanes:
            self._cut = self._cut & (False if mask is None else ~np.asarray(mask))
        return Reset(seen, info)

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        if self._written_step is None:
            self._written_step = flat_step(LiftedEnv.step_program, as_lanes_step if self._has_lanes else as_step, self)
        if self._has_lanes:
            return self._written_step(self, action, restart, hold)
        if restart is not None or hold is not None:
            name = "hold" if restart is None else "restart"
            raise SpecError(f"{name}: expected None, because there are no lanes; start an episode by reset()")
        return self._written_step(self, action)

    def step_program(self) -> Program:
        """Returns the stages of a step: those of the environment inside, and the change."""
        return change_program(self)

    @property
    def step_record(self) -> Record:
        return self.outer_record if self.has_own_step else record_of(self.env)

    @property
    def has_own_step(self) -> bool:
        """True if a subclass has a step of its own."""
        return type(self).step is not LiftedEnv.step

    @property
    def _halt(self) -> Any:
        return self.step_record.halt

    @_halt.setter
    def _halt(self, halt: Any) -> None:
        self.step_record.halt = halt

    @property
    def truncates(self) -> bool:
        """True if the change of this wrapper may truncate episodes."""
        return self.planned_change.truncated is not None

    @property
    def sees_beginnings(self) -> bool:
        """True if the wrapper prepares lanes that begin an episode during a step, see `beginning`."""
        return type(self).beginning is not LiftedEnv.beginning

    def infos_with(self, info: Infos, memory: Any, hold: Any) -> Infos:
        """Returns the infos of lanes after a step, with the entries of the change."""
        return info.adding(cast("Any", self._tell)(memory), None if hold is None else ~np.asarray(hold))

    def check_cut(self, idle: Any) -> None:
        """Refuses a step in which lanes act that this wrapper has truncated."""
        if np.count_nonzero(self._cut):
            over = self._cut if idle is None else np.greater(self._cut, idle)
            if np.count_nonzero(over):
                raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")

    def _seen(self, observation: Any, memory: Any) -> Any:
        return observation if self._see is None else self._see(observation, memory)

    @property
    def observation(self) -> Any:
        """The latest observation, made from the inner one at each reading."""
        return self._seen(self.env.observation, self._memory)
