"""The stages that a wrapper's change contributes to a step, for one lane and for many."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..protocol.batch_env import as_mask
from ..protocol.env import state_if_begun
from ..protocol.fast_steps import program_of, program_that_calls
from ..steps.lanes import cut_off, merged, terminate, zeroed
from ..steps.program import Program, Stage, library_name
from .delegate import Around
from .lifting import end_all

if TYPE_CHECKING:
    from .lifted import Lifted

_CALLED: Any = (cut_off, end_all, merged, np.greater, np.where, state_if_begun, terminate, zeroed)
_FUNCTIONS: dict[str, Any] = {function.__name__: function for function in _CALLED}


class ChangeStages:
    """Writes the stages of one wrapper. Registers and objects have the wrapper's depth in their names."""

    def __init__(self, layer: Lifted) -> None:
        self.layer, self.change, self.depth = layer, layer.planned_change, layer.wrapper_depth
        self.has_lanes, self.is_several = layer.has_lanes, layer.is_several
        self.is_limit = layer.planned_limit is not None
        ends = {"ends#": self.change.truncated, "ended#": self.change.terminated}
        self.own_ends = [name for name, function in ends.items() if function is not None]
        # A layer that overrides `state` must store it first, so that `inside.state` is the state after the step.
        is_called = self.change.terminated is not None and _has_own_state(layer.env)
        self.inside = (program_that_calls if is_called else program_of)(layer.env)
        self.memory = f"memory{self.depth}"
        self.given = "" if self.change.begin is None else f", {self.memory}"
        kinds = ("action", "observation", "reward", "truncated", "terminated", "info")
        changed = [name for name in kinds if getattr(self.change, name) is not None]
        self.title = f"{library_name(layer.construction[0], 'a wrapper')}: changes {', '.join(changed) or 'specs'}"
        kinds = (*kinds, "remember", "begin", "note", "watch")
        own: dict[str, Any] = {name: given for name in kinds if (given := getattr(self.change, name)) is not None}
        own |= {"layer": layer, "inside": layer.env, "outer": layer.step_record, "limit": layer.planned_limit}
        own |= {"action_spec": layer.action_spec, "reward_spec": layer.reward_spec}
        own["none"] = np.zeros(layer.batch_size if self.has_lanes else 0, bool)
        if self.has_lanes and not self.is_limit:
            flags, where = ("truncated", "terminated"), type(layer).__name__
            own |= {n: partial(_flags, own[n], layer.batch_size, f"{where}: {n}") for n in flags if n in own}
        self.names = {**_FUNCTIONS, **{f"{name}{self.depth}": value for name, value in own.items()}}

    def stage(self, lines: str, **options: Any) -> Stage:
        """Returns a stage; replaces `#` in its text by the depth."""
        k = str(self.depth)
        options = {name: one.replace("#", k) if isinstance(one, str) else one for name, one in options.items()}
        lines, names = lines.replace("#", k), options.pop("names", {})
        used = {*re.findall(r"\w+", f"{lines} {options}")}
        names = {name: value for name, value in {**self.names, **names}.items() if name in used}
        return Stage(self.title, lines, names=names, **options)

    def program(self) -> Program:
        """Returns the inner program with this wrapper's stages around it."""
        counted = self.counted() if self.has_lanes else None
        if counted is not None:
            return counted
        inside, inward = self.inside, [*self.checks(), *self.actions(), *self.beginnings()]
        outward = [*self.stepped(), *self.memories(), *self.truncations(), *self.terminations(), *self.cuts()]
        outward += [*self.observations(), *self.rewards(), *self.reports(), *self.infos(), *self.stored()]
        outward += self.watches()
        kept: dict[str, str] = {}
        if not self.is_several and self.change.begin is not None:
            kept[self.memory] = f"layer{self.depth}._memory"
        if self.has_lanes and self.own_ends:
            kept[f"cut{self.depth}"] = f"layer{self.depth}._cut"
        holders = {f"layer{self.depth}": self.layer} if kept else {}
        stages = (*inward, *inside.stages, *outward)
        return replace(inside, stages=stages, kept={**inside.kept, **kept}, holders={**inside.holders, **holders})

    # On the way in.

    def checks(self) -> Iterator[Stage]:
        """Refuses steps of lanes that this wrapper has ended, and clears what it caches."""
        own_step = self.layer.has_own_step  # which may end episodes, or go on after their end
        if self.is_several:
            if self.change.action is not None:
                yield self.stage("layer#.check_agents(action)")
            elif self.own_ends or own_step:
                yield self.stage("if layer#._cut:\n    layer#.check_agents(action)")
        elif self.has_lanes and (self.own_ends or own_step):
            yield self.stage("if layer#._cut is not none#:\n    layer#.check_cut(idle)")
        elif own_step:
            yield self.stage("if outer#.halt:\n    outer#.refuse()")

        if self.layer.cached:
            clear = f"layer#.{self.layer.cached} = None"  # also first, in case the step fails
            yield self.stage(clear, guarded=True, safe=True, commit=clear)

    def actions(self) -> Iterator[Stage]:
        change = self.change
        remembers = change.remember is not None
        if self.has_lanes and (change.action is not None or (remembers and not change.shared)):
            # Lanes that do not act may hold anything.
            yield self.stage("action = action if idle is None else zeroed(action, idle, action_spec#)")
        if change.terminated is not None:
            yield self.stage("before# = state_if_begun(inside#)")
        if remembers or change.terminated is not None:
            yield self.stage("own_action# = action")
        if change.action is not None:
            yield self.stage("action = action#(action)")

    def beginnings(self) -> Iterator[Stage]:
        """Prepares lanes that begin an episode, for example by setting their contexts."""
        if self.has_lanes and self.layer.sees_beginnings:
            yield self.stage(
                "begun# = None if restart is None else layer#.beginning(restart)",
                guarded=True,
                safe=True,
                undo="if begun# is not None:\n    begun#.__exit__(type(error), error, None)",
                commit="if begun# is not None:\n    begun#.__exit__(None, None, None)",
            )

    # On the way out.

    def stepped(self) -> Iterator[Stage]:
        if self.has_lanes and self.layer.sees_beginnings:
            yield self.stage("if begun# is not None:\n    begun#.stepped()", guarded=True, safe=True)

    def memories(self) -> Iterator[Stage]:
        change, memory = self.change, self.memory
        if change.begin is None:
            return
        if self.is_several:
            yield self.stage(f"{memory} = layer#._memory")
        lines: list[str] = []
        if self.is_limit:
            lines.append(f"{memory} = {memory} + 1")
        elif change.remember is not None:
            lines.append(f"{memory} = remember#({memory}, own_action#, observation, reward)")
        if self.has_lanes:
            lines += ["if restart is not None:", f"    {memory} = merged({memory}, begin#(observation), restart)"]
        if change.note is not None:
            lines.append(f"{memory} = note#({memory}, info)")
        if self.has_lanes:
            lines += ["if hold is not None:", f"    {memory} = merged({memory}, layer#._memory, hold)"]
        if lines:
            yield self.stage("\n".join(lines), safe=self.is_limit)

    def observations(self) -> Iterator[Stage]:
        if self.change.observation is not None:
            yield self.stage(f"observation = observation#(observation{self.given})")

    def rewards(self) -> Iterator[Stage]:
        if self.change.reward is None:
            return
        pay = f"reward = reward#(reward{self.given})"
        if not self.has_lanes:
            yield self.stage(pay)
            return
        idle = "if idle is not None:\n    reward = zeroed(reward, idle, reward_spec#, 0)"
        yield self.stage(f"{pay}\n{idle}")

    def truncations(self) -> Iterator[Stage]:
        if self.change.truncated is None:
            return
        if self.has_lanes:
            end = f"""\
terminated, truncated = cut_off(truncated#, terminated, truncated, {self.memory}, idle, none#)
over = None"""
            yield self.stage(end)
        elif self.is_several:
            ends = f"{self.memory} >= limit#" if self.is_limit else f"truncated#(False, {self.memory})"
            yield self.ends_of_agents("ends#", ends, "False")
        elif self.is_limit:
            yield self.stage(f"truncated = truncated or {self.memory} >= limit#", safe=True)
        else:
            cut = f"truncated = True if truncated#(truncated, {self.memory}) else False"
            yield self.stage(cut)

    def terminations(self) -> Iterator[Stage]:
        if self.change.terminated is None:
            return
        verdict = f"terminated#(before#, own_action#, {self.inside.state or 'inside#.state'})"
        if self.has_lanes:
            end = f"""\
ended# = {verdict}
if ended# is not None and idle is not None:
    ended# = greater(ended#, idle)
if ended# is not None:
    terminated, truncated, discount = terminate(ended#, terminated, truncated, discount)
    over = None"""
            yield self.stage(end)
        elif self.is_several:
            yield self.ends_of_agents("ended#", verdict, "True")
        else:
            has_discount = self.inside.writes("discount")
            zero = "    discount = None if discount is None else 0.0 * discount" if has_discount else ""
            end = f"ended# = True if {verdict} else False\nif ended#:\n    terminated = True\n{zero}"
            yield self.stage(end)

    def ends_of_agents(self, name: str, verdict: str, terminates: str) -> Stage:
        """Ends the episode of all agents together."""
        values = "observation, reward, terminated, truncated, discount"
        lines = f"""\
{name} = True if {verdict} else False
if {name}:
    {values} = end_all(inside#.observation, ({values}), {terminates})"""
        return self.stage(lines, guarded=True)

    def cuts(self) -> Iterator[Stage]:
        """Stores which lanes this wrapper has ended, or whether it has ended all agents."""
        if self.is_several and self.own_ends:
            yield self.stage(f"cut# = {' or '.join(self.own_ends)}")
        elif self.has_lanes and self.own_ends:
            # Not the lanes that have ended inside, which a new state may continue; and not arrays that callers get.
            of = {
                "ends#": "none# if truncated is None else truncated.copy()",
                "ended#": "none# if ended# is None else ended#",
            }
            own = " | ".join(f"({of[name]})" for name in self.own_ends)
            yield self.stage(f"cut# = {own}\nif hold is not None:\n    cut# = where(hold, layer#._cut, cut#)")

    def stored(self) -> Iterator[Stage]:
        """Stores several agents' memories early, because outer layers may ask for a waiting agent's observation."""
        kept = {self.memory: "_memory"} if self.change.begin is not None else {}
        if self.own_ends:
            kept["cut#"] = "_cut"
        if self.is_several and kept:
            holders = ", ".join(f"layer#.{name}" for name in kept.values())
            yield self.stage(f"{holders} = {', '.join(kept)}", save=f"_held# = {holders}", undo=f"{holders} = _held#")

    def reports(self) -> Iterator[Stage]:
        """Notifies inner wrappers of episodes that this wrapper ends."""
        if not self.layer.env.reports_ends:
            return
        for name in self.own_ends:
            test, lanes = (f"{name} is not None", name) if self.has_lanes else (name, None)
            report = f"if {test}:\n    inside#.ended_outside({lanes}, {name == 'ended#'})"
            sets = "ends# = truncated" if name == "ends#" and not self.is_several else ""
            yield self.stage(sets, commit=report)

    def infos(self) -> Iterator[Stage]:
        if self.change.info is None:
            return
        if self.has_lanes:
            # The infos of a wrapper of contexts cannot fail.
            tell = f"info = layer#._infos_with(info, {self.given[2:] or None}, hold)"
            is_safe = self.layer.sees_beginnings
            yield self.stage(tell, guarded=is_safe, safe=is_safe)
        elif self.is_several:
            yield self.stage(f"info = info#(info{self.given})")
        else:
            yield self.stage(f"info = {{**info, **info#({self.given[2:]})}}")

    def watches(self) -> Iterator[Stage]:
        if self.change.watch is not None:
            masks = ", restart, hold" if self.has_lanes else ""
            seen = f"seen# = reward, terminated, truncated, info{masks}"
            yield self.stage(seen, commit="watch#(*seen#)")

    # A time limit that the lanes count.

    def counted(self) -> Program | None:
        """Returns the inner program with a time limit that the lanes count, or None if they cannot count it."""
        change, stages = self.change, self.inside.stages
        base = next((i for i, one in enumerate(stages) if "limit" in one.names), None)
        only_limit = (change.action, change.observation, change.reward, change.info) == (None,) * 4
        if base is None or not self.is_limit or not only_limit or self.layer.sees_beginnings:
            return None
        if stages[base].names["limit"] or sum("truncated" in one.writes for one in stages) > 1:
            return None
        names = {**stages[base].names, "limit": min(self.layer.planned_limit or 0, 2**62)}
        counting = replace(stages[base], names=names, title=f"{self.title}, counted by the lanes; {stages[base].title}")
        return replace(self.inside, stages=(*stages[:base], counting, *stages[base + 1 :]))


def _flags(function: Callable[..., Any], n: int, where: str, *values: Any) -> Any:
    """Returns what a function of a change returns, after checking that it is a mask of lanes."""
    return as_mask(function(*values), n, where)


def _has_own_state(env: Any) -> bool:
    """Returns True if a layer overrides `state` in a subclass of the class that writes its step."""
    is_around = isinstance(env, Around)
    base: Any = next((kind for kind in env.__class__.__mro__ if "step_program" in vars(kind)), env.__class__)
    if env.__class__.state is not (Around[Any] if is_around else base).state:
        return True
    return is_around and _has_own_state(cast("Any", env).env)
