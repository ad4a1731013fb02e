"""A change lifted onto an environment of one agent, or a batch of them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .. import tree
from ..errors import EpisodeError, SpecError
from ..lane_values import put, take
from ..protocol.batch_env import either, full_lanes_step, step_masks
from ..protocol.env import Env, Reset, Step, as_step
from ..protocol.fast_steps import counted_step, fast_step, program_of
from ..protocol.infos import Infos
from ..protocol.process import Snapshot
from ..spec import Spec, SpecTree
from ..spec.base import shown
from ..steps.flat import flat_step
from ..steps.program import Program, Stage, library_name
from ..steps.record import ENDED_LANES, Record
from .change import SPECS, ElapsedSteps, Specs
from .changing import Changing
from .wrapper import Wrapper


class LiftedEnv(Changing[Env], Wrapper):
    """A lifted wrapper over an environment of one agent, or a batch of them."""

    memory = ("_memory", "_cut", "_halt")

    _memory: Any = None
    _cut: Any = None  # of a batch: the truncated lanes, in an array that callers do not get
    _inner_step: Any = None  # of a batch: the fast step of the environment inside
    _no_flags: Any = None  # of a batch: a mask of no lane, never changed
    _ignores_beginnings: bool  # of a batch: True if nothing depends on which lanes are auto-reset
    _written_step: Any  # of one lane: the step by the program below; None before the first one
    _record_inside: Any = None  # the record that written steps rely on

    def _plan(self) -> None:
        env = self.env
        specs = Specs(env.observation_spec, env.action_spec, env.reward_spec, env.discount_spec, env.batch_size)
        self._change = change = self._checked_change(specs)
        for name in SPECS:
            if getattr(change, name) is not None:
                setattr(self, name, getattr(change, name))
        self._has_lanes, self._shared = env.batch_size is not None, change.shared
        if env.batch_size is not None:  # with more attributes, CPython would read all of them more slowly
            self._inner_step = fast_step(env)
            self._no_flags = np.zeros(env.batch_size, bool)
            self._ignores_beginnings = type(self).beginning is cast("Any", Changing).beginning
        self._act, self._end = change.action, change.truncated
        self._begin, self._remember, self._note = change.begin, change.remember, change.note
        self._see, self._pay, self._tell = change.with_memory()
        self._end_count()  # for the limit may be another one
        if self._cut is None and env.batch_size is not None:
            self._cut = np.zeros(env.batch_size, bool)
        for record in (self._record_inside, self.step_record, env.step_record):
            if record is not None:
                record.stale()
        self._record_inside, self._written_step = env.step_record, None
        others = (self._act, self._see, self._pay, self._tell)  # which no kernel applies
        counts = self._has_lanes and self._step_limit is not None and others == (None,) * 4
        self._step_counted = counted_step(env) if counts and self._ignores_beginnings else None
        self._highest = min(self._step_limit or 0, 2**62)

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        observation, info = super().reset(seed=seed, options=options, mask=mask)
        if mask is not None and np.all(mask):
            mask = None
        memory = self._memory
        if mask is not None and isinstance(memory, ElapsedSteps) and memory.runs_with(self._cut):
            memory.begin(np.asarray(mask))
            return Reset(observation, info)  # where a kernel counts, the change is the limit alone
        if self._begin is not None:
            fresh = self._begin(observation)
            fresh = fresh if self._note is None else self._note(fresh, info)
            memory = fresh if mask is None or fresh is None else self._merged(memory, fresh, np.asarray(mask))
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
        if self._has_lanes:
            values = LiftedEnv.step_values(self, action, restart, hold)
            return full_lanes_step(values, self.discount_spec, cast("int", self.batch_size))
        if restart is not None or hold is not None:
            name = "hold" if restart is None else "restart"
            raise SpecError(f"{name}: expected None, because there are no lanes; start an episode by reset()")
        if self._written_step is None:
            self._written_step = flat_step(LiftedEnv.step_program, as_step, self)
        return self._written_step(self, action)

    def step_values(self, action: Any, restart: Any = None, hold: Any = None) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Steps a batch. Flags and discounts are None for the defaults; see `full_lanes_step`."""
        return self.ended_step(action, restart, hold)[:6]  # pyright: ignore[reportReturnType]

    def ended_step(self, action: Any, restart: Any = None, hold: Any = None) -> tuple[Any, ...]:
        """Returns the values of a batch's `step_values`, and the mask of the lanes that have ended, or None."""
        counted, memory = self._step_counted, self._memory
        if counted is not None and memory is not None:  # the batch inside counts, if it can
            count = memory.count if memory.runs_with(self._cut) else self._start_count(memory)
            values = None if count is None else counted(action, restart, hold, count)
            if values is not None:
                return values
        return (*self._step_batch(action, *step_masks(self, restart, hold)), None)

    def _start_count(self, memory: ElapsedSteps) -> Any:
        """Returns a count that the batch inside advances from here on; None where it cannot."""
        if not cast("Any", self.env).counts_steps:
            return None
        self._memory = running = memory.running(self._cut, self._highest)
        self._cut, _ = count = cast("Any", running.count)
        return count

    def _end_count(self) -> None:
        """Keeps later steps from changing the memory in place, because a snapshot or a copy is about to hold it."""
        if isinstance(self._memory, ElapsedSteps):
            self._memory = self._memory.resting()

    def snapshot(self) -> Snapshot:
        self._end_count()
        return super().snapshot()

    def __getstate__(self) -> dict[str, Any]:
        self._end_count()
        return super().__getstate__()

    def step_program(self) -> Program:
        """Returns the stages of a step: those of the environment inside, and the change."""
        inside, change, k = program_of(self.env), self._change, self._depth
        memory, elapsed = f"memory{k}", self._step_limit is not None
        changed = [name for name in ("action", "observation", "reward", "truncated", "info") if getattr(change, name)]
        title = f"{library_name(self._kind, 'a wrapper')}: changes {', '.join(changed) or 'specs'}"
        names: dict[str, Any] = {f"{name}{k}": getattr(change, name) for name in changed}

        def stage(name: str, lines: str, when: Any = "always", **others: Any) -> Stage:
            return Stage(title, lines, (name,), when, {**names, **others})

        inward: list[Stage] = []
        outward: list[Stage] = []
        if self.step_record is not inside.record:  # a step of its own may end episodes, or go on after their end
            check = f"if outer{k}.halt:\n    outer{k}.refuse()"
            inward.append(Stage(title, check, (), "act", {f"outer{k}": self.step_record}))
        if change.remember is not None and not elapsed:
            inward.append(stage(f"own_action{k}", f"own_action{k} = action", "act"))
        if change.action is not None:
            inward.append(stage("action", f"action = action{k}(action)", "act"))
        given = "" if change.begin is None else f", {memory}"
        if elapsed:
            outward.append(stage(memory, f"{memory} = {memory} + 1", "act"))
        elif change.remember is not None:
            values = f"{memory}, own_action{k}, observation, reward"
            remember = {f"remember{k}": change.remember}
            outward.append(stage(memory, f"{memory} = remember{k}({values})", "act", **remember))
        if change.note is not None:
            outward.append(stage(memory, f"{memory} = note{k}({memory}, info)", **{f"note{k}": change.note}))
        lines: tuple[str, dict[str, Any]] | None = getattr(change.observation, "step_lines", None)
        if lines is not None:
            outward.append(stage("observation", lines[0].replace("$", f"_{k}_"), **_own(lines[1], k)))
        elif change.observation is not None:
            outward.append(stage("observation", f"observation = observation{k}(observation{given})"))
        if change.reward is not None:
            outward.append(stage("reward", f"reward = reward{k}(reward{given})", "act"))
        if elapsed:
            limit = {f"limit{k}": self._step_limit}
            outward.append(stage("truncated", f"truncated = truncated or {memory} >= limit{k}", "act", **limit))
        elif change.truncated is not None:
            cut = f"truncated = True if truncated{k}(truncated, {memory}) else False"
            outward.append(stage("truncated", cut, "act"))
        if self.truncates and getattr(self.env, "reports_ends", False):
            report = f"if truncated:\n    inside{k}.ended_outside()"
            outward.append(Stage(title, "", (), "act", {f"inside{k}": self.env}, commit=report))
        if change.info is not None:
            outward.append(stage("info", f"info = {{**info, **info{k}({given[2:]})}}"))
        if change.watch is not None:
            seen, watch = f"seen{k} = reward, terminated, truncated, info", {f"watch{k}": change.watch}
            outward.append(Stage(title, seen, (f"seen{k}",), "act", watch, commit=f"watch{k}(*seen{k})"))
        kept = {memory: f"layer{k}._memory"} if given else {}
        return inside.around(
            inward, outward, kept, (f"own_action{k}", f"seen{k}"), {f"layer{k}": self} if given else {}
        )

    @property
    def step_record(self) -> Record:
        if type(self).step is LiftedEnv.step:
            return self.env.step_record
        return super().step_record

    @property
    def _halt(self) -> Any:
        return self.step_record.halt

    @_halt.setter
    def _halt(self, halt: Any) -> None:
        self.step_record.halt = halt

    @property
    def truncates(self) -> bool:
        """True if the change of this wrapper may truncate episodes."""
        return self._end is not None

    def _step_batch(self, action: Any, restart: Any, hold: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
        none, idle = self._no_flags, either(restart, hold)
        # A wrapper may cut lanes off in a `step` of its own, too.
        if self._cut is not none and np.count_nonzero(self._cut):
            over = self._cut if idle is None else np.greater(self._cut, idle)
            if np.count_nonzero(over):
                raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        if idle is not None and (self._act is not None or (self._remember is not None and not self._shared)):
            action = zeroed(action, idle, self.action_spec)  # lanes that do not act may hold anything
        inner_action = action if self._act is None else self._act(action)
        masks = (restart,) if hold is None else (restart, hold)
        if restart is None or self._ignores_beginnings:
            values = self._inner_step(inner_action, *masks)
        else:
            with self.beginning(restart):
                values = self._inner_step(inner_action, *masks)
        observation, reward, terminated, truncated, discount, info = values
        before = memory = self._memory
        if self._remember is not None:
            memory = self._remember(before, action, observation, reward)
        if memory is not None and self._begin is not None and restart is not None:
            memory = self._merged(memory, self._begin(observation), restart)
        if self._note is not None:
            memory = self._note(memory, info)
        if hold is not None and memory is not before:
            memory = self._merged(memory, before, hold)
        seen = self._seen(observation, memory)
        if self._pay is not None:
            reward = self._pay(reward, memory)
            reward = reward if idle is None else zeroed(reward, idle, self.reward_spec, zero=0)
        if self._end is not None:
            flags = none if terminated is None else truncated
            cut = self._end(flags, memory)
            if cut is not flags:
                truncated = cut if idle is None else np.greater(cut, idle)
                if terminated is None:
                    terminated, truncated = (none.copy(), truncated) if np.count_nonzero(truncated) else (None, None)
            cut = none if truncated is None else truncated.copy()
            if cut is not none:
                super().ended_outside(cut)
            self._cut = cut if hold is None else np.where(hold, self._cut, cut)
        if self._tell is not None:
            info = cast("Infos", info).adding(self._tell(memory), None if hold is None else ~hold)
        self._memory = memory
        if self._change.watch is not None:
            self._change.watch(reward, terminated, truncated, info, restart, hold)
        return seen, reward, terminated, truncated, discount, info

    def _seen(self, observation: Any, memory: Any) -> Any:
        return observation if self._see is None else self._see(observation, memory)

    def _merged(self, memory: Any, other: Any, lanes: Any) -> Any:
        """Returns a memory of all lanes, with another one at some of them."""
        index = lanes.nonzero()[0]
        if isinstance(memory, ElapsedSteps):
            return memory.merged(other, index)
        return put(memory, index, take(other, index))

    @property
    def observation(self) -> Any:
        """The latest observation, made from the inner one at each reading."""
        return self._seen(self.env.observation, self._memory)


def _own(names: Any, depth: int) -> dict[str, Any]:
    return {f"_{depth}_{name}": value for name, value in names.items()}


def zeroed(values: Any, lanes: Any, spec: SpecTree, zero: Any = None) -> Any:
    """Returns values of all lanes, with zeros at some of them."""

    def some(leaf: Spec, all_lanes: Any) -> Any:
        nothing = leaf.zeros() if zero is None else zero
        if isinstance(all_lanes, tuple):  # of values that no array holds
            values = cast("tuple[Any, ...]", all_lanes)
            return tuple(nothing if idle else own for idle, own in zip(lanes.tolist(), values, strict=True))
        result = np.array(all_lanes)
        if result.shape[:1] != lanes.shape:
            raise SpecError(f"expected a value for each of {len(lanes)} lanes, got {shown(all_lanes)}")
        result[lanes] = nothing
        return result

    return tree.map_leaves(some, spec, values)
