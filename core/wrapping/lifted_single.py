"""A change lifted onto an environment of one agent, or a batch of them."""

from __future__ import annotations

from dataclasses import replace
from textwrap import indent
from typing import Any, cast

import numpy as np

from .. import tree
from ..errors import EpisodeError, SpecError
from ..lane_values import put, take
from ..protocol.batch_env import as_lanes_step
from ..protocol.env import Env, Reset, Step, as_step
from ..protocol.fast_steps import LANES_VALUES, counted_step, program_of
from ..protocol.infos import Infos
from ..protocol.process import Snapshot
from ..spec import Spec, SpecTree
from ..spec.base import shown
from ..steps.flat import flat_step
from ..steps.program import VALUES, Program, Stage, library_name
from ..steps.record import ENDED_LANES, Record
from .change import SPECS, ElapsedSteps, Specs
from .changing import Changing
from .wrapper import Wrapper


class LiftedEnv(Changing[Env], Wrapper):
    """A lifted wrapper over an environment of one agent, or a batch of them."""

    memory = ("_memory", "_cut", "_halt")

    _memory: Any = None
    _cut: Any = None  # of a batch: the truncated lanes, in an array that callers do not get
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
        self._see, _, self._tell = change.with_memory()
        self._end_count()  # for the limit may be another one
        if self._cut is None and env.batch_size is not None:
            self._cut = np.zeros(env.batch_size, bool)
        for record in (self._record_inside, self.step_record, env.step_record):
            if record is not None:
                record.stale()
        self._record_inside, self._written_step = env.step_record, None

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        observation, info = super().reset(seed=seed, options=options, mask=mask)
        if mask is not None and np.all(mask):
            mask = None
        memory = self._memory
        if mask is not None and isinstance(memory, ElapsedSteps) and memory.runs_with(self._cut):
            memory.begin(np.asarray(mask))
            return Reset(observation, info)  # where a kernel counts, the change is the limit alone
        change = self._change
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

    def _place_to_count(self, inside: Program) -> int | None:
        """Returns the place of the stage of a batch that can count the steps up to the limit of this wrapper."""
        change, base = self._change, [i for i, one in enumerate(inside.stages) if one.writes == (*VALUES, "over")]
        is_limit = (change.action, change.observation, change.reward, change.info) == (None,) * 4
        if self._step_limit is None or not is_limit or self._sees_beginnings or not base:
            return None
        others = [one for one in inside.stages if "truncated" in one.writes]
        batch: Any = inside.stages[base[0]].names["batch"]
        return base[0] if len(others) == 1 and counted_step(batch) is not None else None

    def counting(self, memory: ElapsedSteps | None) -> Any:
        """Returns a count of steps that the batch inside advances; None where it cannot."""
        if memory is None:
            return None
        inside: Any = self.env
        while isinstance(inside, Wrapper):
            inside = inside.env
        if not inside.counts_steps:
            return None
        self._memory = running = memory.running(self._cut, min(self._step_limit or 0, 2**62))
        self._cut, _ = count = cast("Any", running.count)
        return count

    def held_count(self) -> tuple[Any, ...]:
        """Returns a copy of the count, for `put_count_back`."""
        count = self._memory and self._memory.count
        return self._memory, self._cut, count and (count[0].copy(), count[1].copy())

    def put_count_back(self, held: tuple[Any, ...]) -> None:
        """Returns to a count, because a later layer has failed."""
        self._memory, self._cut, copies = held
        for own, copied in zip(self._memory.count, copies, strict=True) if copies else ():
            own[:] = copied

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
        if self._has_lanes:
            return self._program_of_lanes()
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
        return self._change.truncated is not None

    @property
    def _sees_beginnings(self) -> bool:
        """True if something depends on which lanes begin an episode in a step."""
        return type(self).beginning is not LiftedEnv.beginning

    def _program_of_lanes(self) -> Program:
        change, k, memory = self._change, self._depth, f"memory{self._depth}"
        changed = [name for name in ("action", "observation", "reward", "truncated", "info") if getattr(change, name)]
        title = f"{library_name(self._kind, 'a wrapper')}: changes {', '.join(changed) or 'specs'}"
        names: dict[str, Any] = {f"{name}{k}": getattr(change, name) for name in changed}

        def stage(
            lines: str, *writes: str, undo: str = "", commit: str = "", safe: bool = False, **others: Any
        ) -> Stage:
            return Stage(title, lines, writes, "always", {**names, **others}, safe, commit, undo)

        inside = program_of(self.env)
        inward: list[Stage] = []
        outward: list[Stage] = []
        reports: list[Stage] = []
        kept = {} if change.begin is None else {memory: f"layer{k}._memory"}
        given = "" if change.begin is None else f", {memory}"
        layer: dict[str, Any] = {f"layer{k}": self}
        none: dict[str, Any] = {f"none{k}": np.zeros(self.batch_size, bool)}
        if change.truncated is not None or type(self).step is not LiftedEnv.step:  # which may set `_cut`, too
            check = f"if layer{k}._cut is not none{k}:\n    layer{k}.check_cut(idle)"
            inward.append(stage(check, **none, **layer))
        if change.action is not None or (change.remember is not None and not change.shared):
            # lanes that do not act may hold anything
            action = f"action if idle is None else zeroed(action, idle, action_spec{k})"
            spec: dict[str, Any] = {f"action_spec{k}": self.action_spec, "zeroed": zeroed}
            inward.append(stage(f"action = {action}", "action", **spec))
        if change.remember is not None and self._step_limit is None:
            inward.append(stage(f"own_action{k} = action", f"own_action{k}"))
        if change.action is not None:
            inward.append(stage(f"action = action{k}(action)", "action"))
        if self._sees_beginnings:
            begun = f"begun{k}"
            inward.append(
                stage(
                    f"{begun} = None if restart is None else layer{k}.beginning(restart)",
                    begun,
                    undo=f"if {begun} is not None:\n    {begun}.__exit__(type(error), error, None)",
                    commit=f"if {begun} is not None:\n    {begun}.__exit__(None, None, None)",
                    safe=True,
                    **layer,
                )
            )
            outward.append(stage(f"if {begun} is not None:\n    {begun}.stepped()", safe=True))
        lines: list[str] = []
        if change.remember is not None:
            own = f"own_action{k}" if self._step_limit is None else "None"
            lines.append(f"{memory} = remember{k}({memory}, {own}, observation, reward)")
        if change.begin is not None:
            lines += ["if restart is not None:", f"    {memory} = merged({memory}, begin{k}(observation), restart)"]
        if change.note is not None:
            lines.append(f"{memory} = note{k}({memory}, info)")
        if lines:
            lines += ["if hold is not None:", f"    {memory} = merged({memory}, layer{k}._memory, hold)"]
            named: dict[str, Any] = {name: getattr(change, name) for name in ("remember", "begin", "note")}
            others = {f"{name}{k}": function for name, function in named.items() if function is not None}
            others |= {"merged": merged, **layer}
            outward.append(stage("\n".join(lines), memory, **others))
        if change.observation is not None:
            outward.append(stage(f"observation = observation{k}(observation{given})", "observation"))
        if change.reward is not None:
            spec = {f"reward_spec{k}": self.reward_spec, "zeroed": zeroed}
            pay = f"reward = reward{k}(reward{given})"
            idle = f"if idle is not None:\n    reward = zeroed(reward, idle, reward_spec{k}, 0)"
            outward.append(stage(f"{pay}\n{idle}", "reward", **spec))
        if change.truncated is not None:
            end = f"""\
terminated, truncated = cut_off(truncated{k}, terminated, truncated, {memory}, idle, none{k})
over = None
cut{k} = none{k} if truncated is None else truncated.copy()
if hold is not None:
    cut{k} = where(hold, layer{k}._cut, cut{k})"""
            functions: dict[str, Any] = {"cut_off": cut_off, "where": np.where, **none, **layer}
            outward.append(stage(end, "terminated", "truncated", "over", f"cut{k}", **functions))
            kept[f"cut{k}"] = f"layer{k}._cut"
            if getattr(self.env, "reports_ends", False):
                report = f"if ends{k} is not None:\n    inside{k}.ended_outside(ends{k})"
                env: dict[str, Any] = {f"inside{k}": self.env}
                reports.append(stage(f"ends{k} = truncated", f"ends{k}", commit=report, **env))
        place = self._place_to_count(inside)
        if place is not None:
            # The batch inside counts the steps, in its kernel, wherever it can.
            base = inside.stages[place]
            masks = inside.opening.lines if inside.opening else ""
            text = f"""\
_count = {memory} and {memory}.count
if _count is None or _count[0] is not layer{k}._cut:
    _count = layer{k}.counting({memory})
_values = None if _count is None else counted{k}(action, restart, hold, _count)
if _values is not None:
    {LANES_VALUES} = _values
    {memory}, cut{k} = layer{k}._memory, layer{k}._cut
else:
""" + indent("\n".join([masks, *(one.lines for one in (*inward, base, *outward))]), "    ")
            every = {name: value for one in (*inward, base, *outward) for name, value in one.names.items()}
            every[f"counted{k}"] = counted_step(every["batch"])
            writes = (*VALUES, "over", "restart", "hold", "idle", memory, f"cut{k}")
            undo, save = f"{base.undo}\nlayer{k}.put_count_back(_held{k})", f"_held{k} = layer{k}.held_count()"
            whole = Stage(f"{title}, and {base.title}", text, writes, "act", every, True, base.commit, undo, save)
            stages = (*inside.stages[:place], whole, *inside.stages[place + 1 :])
            kept = {**inside.kept, **kept}
            return replace(inside, stages=stages, kept=kept, holders={**inside.holders, **layer})
        if change.info is not None:
            tell = f"info = layer{k}.infos_with(info, {given[2:] or None}, hold)"
            # What `Contextual` has to say cannot fail.
            outward.append(stage(tell, "info", safe=self._sees_beginnings, **layer))
        if change.watch is not None:
            seen = f"seen{k} = reward, terminated, truncated, info, restart, hold"
            watch: dict[str, Any] = {f"watch{k}": change.watch}
            outward.append(stage(seen, f"seen{k}", commit=f"watch{k}(*seen{k})", **watch))
        local = (f"{name}{k}" for name in ("own_action", "begun", "ends", "seen"))
        return inside.around(inward, [*outward, *reports], kept, local, layer if kept else {})

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


def merged(memory: Any, other: Any, lanes: Any) -> Any:
    """Returns a memory of all lanes, with another one at some of them."""
    if memory is other or memory is None:
        return memory
    index = lanes.nonzero()[0]
    if isinstance(memory, ElapsedSteps):
        return memory.merged(other, index)
    return put(memory, index, take(other, index))


def cut_off(function: Any, terminated: Any, truncated: Any, memory: Any, idle: Any, none: Any) -> tuple[Any, Any]:
    """Returns the flags of lanes, with those that a wrapper truncates; None for none.

    Args:
        function: The function of the change, `(flags, memory) -> flags`.
        terminated: The lanes that have terminated, or None.
        truncated: The lanes that are truncated inside, or None.
        memory: The memory.
        idle: The lanes that do not act, or None.
        none: A mask of no lane.
    """
    flags = none if terminated is None else truncated
    cut = function(flags, memory)
    if cut is flags:
        return terminated, truncated
    truncated = cut if idle is None else np.greater(cut, idle)
    if terminated is not None:
        return terminated, truncated
    return (none.copy(), truncated) if np.count_nonzero(truncated) else (None, None)


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
