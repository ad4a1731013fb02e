"""The stages that a wrapper's change contributes to a step, for one lane and for many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..protocol.fast_steps import program_of
from ..steps.lanes import cut_off, merged, zeroed
from ..steps.program import Program, Stage, library_name

if TYPE_CHECKING:
    from .lifted import Lifted


class ChangeStages:
    """Writes the stages of one wrapper; its registers and objects are numbered by its depth."""

    def __init__(self, layer: Lifted) -> None:
        self.layer, self.change, self.depth = layer, layer.planned_change, layer.wrapper_depth
        self.inside = program_of(layer.env)
        self.has_lanes, self.is_several = layer.has_lanes, layer.is_several
        self.memory = f"memory{self.depth}"
        self.given = "" if self.change.begin is None else f", {self.memory}"
        kinds = ("action", "observation", "reward", "truncated", "info")
        changed = [name for name in kinds if getattr(self.change, name) is not None]
        self.title = f"{library_name(layer.construction[0], 'a wrapper')}: changes {', '.join(changed) or 'specs'}"
        self.names: dict[str, Any] = {f"{name}{self.depth}": getattr(self.change, name) for name in changed}
        self.names[f"layer{self.depth}"] = layer
        self.none = {"none#": np.zeros(layer.batch_size if self.has_lanes else 0, bool)}

    def stage(self, lines: str, *writes: str, names: dict[str, Any] | None = None, **others: Any) -> Stage:
        """Returns a stage; `#` in its text is the depth."""
        k = str(self.depth)
        options: dict[str, Any] = {
            name: one.replace("#", k) if isinstance(one, str) else one for name, one in others.items()
        }
        lines = lines.replace("#", k)
        used = {name: value for name, value in self.names.items() if name in f"{lines} {options}"}
        used |= {name.replace("#", k): value for name, value in (names or {}).items()}
        return Stage(self.title, lines, tuple(name.replace("#", k) for name in writes), names=used, **options)

    def program(self) -> Program:
        """Returns the program inside with the stages of the wrapper around it."""
        counted = self.counted() if self.has_lanes else None
        if counted is not None:
            return counted
        inside, inward = self.inside, [*self.checks(), *self.actions(), *self.beginnings()]
        outward = [*self.stepped(), *self.memories(), *self.truncations(), *self.observations(), *self.rewards()]
        outward += [*self.reports(), *self.infos(), *self.stored(), *self.watches()]
        kept: dict[str, str] = {}
        local = ["own_action", "begun", "ends", "seen"]
        if self.is_several:
            local += ["memory", "cut"]
        elif self.change.begin is not None:
            kept[self.memory] = f"layer{self.depth}._memory"
        if self.has_lanes and self.change.truncated is not None:
            kept[f"cut{self.depth}"] = f"layer{self.depth}._cut"
        holders = {f"layer{self.depth}": self.layer} if kept else {}
        return inside.around(inward, outward, kept, (f"{name}{self.depth}" for name in local), holders)

    # On the way in.

    def checks(self) -> Iterator[Stage]:
        """Refuses steps of lanes that this wrapper has ended."""
        own_step = self.layer.has_own_step  # which may end episodes, or go on after their end
        if self.is_several:
            if self.change.action is not None:
                yield self.stage("layer#.check_agents(action)")
            elif self.change.truncated is not None or own_step:
                yield self.stage("if layer#._cut:\n    layer#.check_agents(action)")
        elif self.has_lanes and (self.change.truncated is not None or own_step):
            yield self.stage("if layer#._cut is not none#:\n    layer#.check_cut(idle)", names=self.none)
        elif own_step:
            yield self.stage("if outer#.halt:\n    outer#.refuse()", names={"outer#": self.layer.step_record})

    def actions(self) -> Iterator[Stage]:
        change = self.change
        remembers = change.remember is not None and not self.is_limit
        if self.has_lanes and (change.action is not None or (remembers and not change.shared)):
            # Lanes that do not act may hold anything.
            names = {"action_spec#": self.layer.action_spec, "zeroed": zeroed}
            yield self.stage(
                "action = action if idle is None else zeroed(action, idle, action_spec#)", "action", names=names
            )
        if remembers:
            yield self.stage("own_action# = action", "own_action#")
        if change.action is not None:
            yield self.stage("action = action#(action)", "action")

    @property
    def is_limit(self) -> bool:
        return self.layer.planned_limit is not None

    def beginnings(self) -> Iterator[Stage]:
        """Prepares lanes that begin an episode, as with their contexts."""
        if self.has_lanes and self.layer.sees_beginnings:
            yield self.stage(
                "begun# = None if restart is None else layer#.beginning(restart)",
                "begun#",
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
            yield self.stage(f"{memory} = layer#._memory", memory)
        named = {f"{name}#": getattr(change, name) for name in ("remember", "begin", "note") if getattr(change, name)}
        lines: list[str] = []
        if self.is_limit and not self.has_lanes:
            lines.append(f"{memory} = {memory} + 1")
        elif change.remember is not None:
            own = "None" if self.is_limit else "own_action#"
            lines.append(f"{memory} = remember#({memory}, {own}, observation, reward)")
        if self.has_lanes:
            lines += ["if restart is not None:", f"    {memory} = merged({memory}, begin#(observation), restart)"]
        if change.note is not None:
            lines.append(f"{memory} = note#({memory}, info)")
        if self.has_lanes:
            lines += ["if hold is not None:", f"    {memory} = merged({memory}, layer#._memory, hold)"]
            named["merged"] = merged
        if lines:
            yield self.stage("\n".join(lines), memory, names=named)

    def observations(self) -> Iterator[Stage]:
        see: Any = self.change.observation
        written: tuple[str, dict[str, Any]] | None = None if self.has_lanes else getattr(see, "step_lines", None)
        if written is not None:
            lines, names = written
            own = {f"_#_{name}": value for name, value in names.items()}
            yield self.stage(lines.replace("$", "_#_"), "observation", names=own)
        elif see is not None:
            yield self.stage(f"observation = observation#(observation{self.given})", "observation")

    def rewards(self) -> Iterator[Stage]:
        if self.change.reward is None:
            return
        pay = f"reward = reward#(reward{self.given})"
        if not self.has_lanes:
            yield self.stage(pay, "reward")
            return
        names = {"reward_spec#": self.layer.reward_spec, "zeroed": zeroed}
        idle = "if idle is not None:\n    reward = zeroed(reward, idle, reward_spec#, 0)"
        yield self.stage(f"{pay}\n{idle}", "reward", names=names)

    def truncations(self) -> Iterator[Stage]:
        if self.change.truncated is None:
            return
        if self.has_lanes:
            end = f"""\
terminated, truncated = cut_off(truncated#, terminated, truncated, {self.memory}, idle, none#)
over = None
cut# = none# if truncated is None else truncated.copy()
if hold is not None:
    cut# = where(hold, layer#._cut, cut#)"""
            names = {"cut_off": cut_off, "where": np.where, **self.none}
            yield self.stage(end, "terminated", "truncated", "over", "cut#", names=names)
        elif self.is_several:
            yield self.agents_truncations()
        elif self.is_limit:
            limit = {"limit#": self.layer.planned_limit}
            yield self.stage(f"truncated = truncated or {self.memory} >= limit#", "truncated", names=limit)
        else:
            cut = f"truncated = True if truncated#(truncated, {self.memory}) else False"
            yield self.stage(cut, "truncated")

    def agents_truncations(self) -> Stage:
        """Ends the episode of all agents together."""
        ends = f"{self.memory} >= limit#" if self.is_limit else f"True if truncated#(False, {self.memory}) else False"
        lines = f"""\
cut# = {ends}
if cut#:
    _values = observation, reward, terminated, discount
    observation, terminated, truncated, discount = layer#.cut_all(_values)"""
        writes = ("cut#", "observation", "terminated", "truncated", "discount")
        return self.stage(
            lines, *writes, names={"limit#": self.layer.planned_limit} if self.is_limit else None, guarded=True
        )

    def stored(self) -> Iterator[Stage]:
        """Stores what lasts of several agents at once, for the layers outside may ask a waiting agent's observation."""
        kept = {self.memory: "_memory"} if self.is_several and self.change.begin is not None else {}
        if kept and self.change.truncated is not None:
            kept["cut#"] = "_cut"
        if kept:
            holders = ", ".join(f"layer#.{name}" for name in kept.values())
            yield self.stage(f"{holders} = {', '.join(kept)}", save=f"_held# = {holders}", undo=f"{holders} = _held#")

    def reports(self) -> Iterator[Stage]:
        """Informs wrappers inside of episodes that this one ends."""
        if self.change.truncated is None or not getattr(self.layer.env, "reports_ends", False):
            return
        names = {"inside#": self.layer.env}
        if self.has_lanes:
            report = "if ends# is not None:\n    inside#.ended_outside(ends#)"
            yield self.stage("ends# = truncated", "ends#", commit=report, names=names)
        else:
            ends = "cut#" if self.is_several else "truncated"
            yield self.stage("", commit=f"if {ends}:\n    inside#.ended_outside()", names=names)

    def infos(self) -> Iterator[Stage]:
        if self.change.info is None:
            return
        if self.has_lanes:
            # What a wrapper says of contexts cannot fail.
            tell = f"info = layer#._infos_with(info, {self.given[2:] or None}, hold)"
            is_safe = self.layer.sees_beginnings
            yield self.stage(tell, "info", guarded=is_safe, safe=is_safe)
        elif self.is_several:
            yield self.stage(f"info = info#(info{self.given})", "info")
        else:
            yield self.stage(f"info = {{**info, **info#({self.given[2:]})}}", "info")

    def watches(self) -> Iterator[Stage]:
        if self.change.watch is not None:
            masks = ", restart, hold" if self.has_lanes else ""
            seen = f"seen# = reward, terminated, truncated, info{masks}"
            yield self.stage(seen, "seen#", commit="watch#(*seen#)", names={"watch#": self.change.watch})

    # A limit that a batch counts.

    def counted(self) -> Program | None:
        """Returns the program inside with a limit that the lanes of its batch count; None where they cannot."""
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
