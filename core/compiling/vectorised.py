"""The kernel of a `BatchModel`, made of its traced functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..authoring.model import Model
from .errors import NotCompilable
from .expressions import Node, Writer, exact_functions, read_inputs
from .kernel_text import Held, Output, Sections, actions_of, kernel_text, scalars
from .lane_arrays import LaneArray
from .layout import Layout
from .plan import Plan
from .tracing import LANES, Part, RandomCall, Tracer

_INTEGER = np.dtype(np.int64)


def plan_of_batch_model(model: Any, columns: Mapping[str, Any]) -> Plan:
    """Returns what is needed to compile a `BatchModel`.

    Args:
        model: The model.
        columns: Its contexts, an array for each feature.

    Raises:
        NotCompilable: A function does something that cannot be compiled.
    """
    return _Program(model, columns).plan()


class _Program:
    """The traced functions of a model."""

    def __init__(self, model: Any, columns: Mapping[str, Any]) -> None:
        self.model, self.title = model, type(model).__name__
        self.columns = {name: column[:1] for name, column in columns.items() if np.asarray(column).dtype.kind in "biuf"}
        wide = {name: np.repeat(np.asarray(column)[:1], LANES) for name, column in columns.items()}
        try:
            state = model.initial(np.random.default_rng(0), wide, LANES)
        except Exception as error:
            raise NotCompilable(f"{self.title}.initial: {type(error).__name__}: {error}") from error
        self.layout = Layout(tree.map_leaves(self._one_lane, state))
        self.actions = actions_of(model.action_spec)
        self.tracer = tracer = Tracer(model)
        self.before = tracer.inputs("s", self.layout.example)
        self.after = tracer.inputs("z", self.layout.example)
        self.action = tracer.inputs(
            "a", tree.map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), model.action_spec)
        )

    def _one_lane(self, leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray) or leaf.shape[:1] != (LANES,) or leaf.dtype.kind not in "biuf":
            raise NotCompilable(
                f"{self.title}.initial: expected a state of arrays of numbers with a leading lane axis, got {leaf!r}"
            )
        return np.zeros(leaf.shape[1:], leaf.dtype)

    def plan(self) -> Plan:
        calls: list[RandomCall] = []
        moved = self._part("transition", self.before, self.action, calls=calls, stream="d")
        self._check_state("transition", moved)
        reward = self._reward()
        seen = self._part("observe", self.after, calls=(noise := list[RandomCall]()), stream="o")
        ends = [self._flag(name) for name in ("terminal", "truncated")]
        discount, info = self._discount(), self._info()
        begun, first = self._initial()
        outputs = [
            Output(f"observation{k}", np.shape(leaf), np.asarray(leaf).dtype) for k, leaf in _leaves(seen.result)
        ]
        outputs.append(Output("reward", reward.result.shape, reward.result.dtype))
        if discount is not None:
            outputs.append(Output("discount", discount.result.shape, discount.result.dtype))
        outputs += [Output(f"info{k}", leaf.shape, leaf.dtype) for k, leaf in _leaves(info.result)]

        exact, recorder = exact_functions(), self.tracer.recorder
        act, observe = Writer(recorder, exact, "v"), Writer(recorder, exact, "w")
        self._bind(act, [*moved.nodes, *reward.nodes], calls)
        names = act.write(moved.nodes)
        act.lines += [f"z{k} = {name}" for k, name in enumerate(names)]
        kept = frozenset(k for k, name in enumerate(names) if name == f"s{k}")
        self._store(act, outputs, "reward", reward)
        self._bind(observe, [*seen.nodes, *info.nodes, *(node for part in ends for node in part.nodes)], noise)
        for k, leaf in _leaves(seen.result):
            self._store(observe, outputs, f"observation{k}", _share(seen, k, leaf))
        for k, leaf in _leaves(info.result):
            self._store(observe, outputs, f"info{k}", _share(info, k, leaf))
        end = Writer(recorder, exact, "y")
        self._bind(end, [node for part in (*ends, discount) if part is not None for node in part.nodes], [])
        flags = end.write([part.nodes[0] for part in ends])
        end.lines += [f"terminated = {flags[0]}", f"truncated = {flags[1]}"]
        if discount is not None:
            self._store(end, outputs, "discount", discount)
        begin = Writer(recorder, exact, "x")
        if begun is not None:
            self._bind(begin, begun.nodes, first)
            begin.lines += [f"z{k} = {name}" for k, name in enumerate(begin.write(begun.nodes))]
        else:
            begin.lines += [f"z{k} = fresh[begun].{name}" for k, (name, _) in enumerate(self.layout.fields)]
        sections = Sections(act.lines, begin.lines, observe.lines, end.lines, kept=kept)
        # A kernel of traced functions raises an error only where it indexes a table.
        sections.in_place = not recorder.tables
        own = all(call.in_kernel for call in (*calls, *noise, *first)) and (calls or noise or first)
        if own:
            sections.setup = self._numbers(calls, noise, first)
        context = Layout({name: column[0] for name, column in self.columns.items()}, "c")
        tables = [np.ascontiguousarray(table).copy() for table in recorder.tables]
        sections.held = [Held("loops", (2 * len(recorder.loops),), _INTEGER)] if recorder.loops else []
        sections.held.append(
            Held("fresh", (None,), self.layout.dtype) if begun is None else Held("contexts", (None,), context.dtype)
        )
        sections.held += [Held(f"table{k}", table.shape, table.dtype) for k, table in enumerate(tables)]
        drawn = [(f"{stream}{k}", call) for stream, some in (("d", calls), ("o", noise), ("k", first))
                 for k, call in enumerate(some)]  # fmt: skip
        if own:
            rng = np.random.default_rng(0)
            sections.held.append(Held("bits", (8,), _INTEGER))
            sections.held += [Held(name, call.size, call(rng, 1).dtype) for name, call in drawn]
        else:
            sections.arguments = [name for name, _ in drawn]
        text = kernel_text(self.title, self.layout, self.actions, outputs, sections)
        text = "\n".join([*self._loop_functions(), text])
        return Plan(
            title=self.title,
            text=text,
            layout=self.layout,
            actions=self.actions,
            outputs=outputs,
            observation=seen.result,
            info=info.result,
            context=context,
            held=sections.held,
            in_place=sections.in_place,
            begins=begun is not None,
            generates=bool(own),
            names=_generators if own else dict,
            transition_calls=calls,
            observe_calls=noise,
            initial_calls=first,
            tables=tables,
            loops=recorder.loops,
        )

    def _numbers(
        self, calls: Sequence[RandomCall], noise: Sequence[RandomCall], first: Sequence[RandomCall]
    ) -> list[str]:
        """Returns the lines that generate all random numbers, in the order in which the functions ask for them."""
        dynamics = "(bits[0], bits[1], bits[2], bits[3])"
        lines = [f"    {line}" for k, call in enumerate(calls) for line in call.lines(f"d{k}", "n", dynamics)]
        lines = ["if not quiet[0]:", *lines] if lines else []
        if first:
            lines += ["new = 0", "for i in range(n):", "    if restart[i]:", "        new += 1"]
        for k, call in enumerate(first):
            lines += call.lines(f"k{k}", "new", dynamics)
        for k, call in enumerate(noise):
            lines += call.lines(f"o{k}", "n", "(bits[4], bits[5], bits[6], bits[7])")
        return lines

    def _part(self, name: str, *arguments: Any, calls: list[RandomCall] | None = None, stream: str = "") -> Part:
        calls = [] if calls is None else calls
        extra = [] if calls is None else [self.tracer.generator(stream, calls)]
        return self.tracer.part(name, self.tracer.run(name, *arguments, *extra), calls)

    def _check_state(self, name: str, part: Part) -> None:
        found = Layout(part.result)
        for path, old, new in zip(self.layout.paths, self._kinds(self.layout), self._kinds(found), strict=False):
            if old != new:
                raise NotCompilable(
                    f"{self.title}.{name}: expected state{path} of shape {old[0]} and dtype {old[1]} as at first, got "
                    f"shape {new[0]} and dtype {new[1]}"
                )
        if found.paths != self.layout.paths:
            raise NotCompilable(f"{self.title}.{name}: it returns a state of another structure than `initial`")

    def _kinds(self, layout: Layout) -> list[Any]:
        return list(zip(layout.shapes, layout.dtypes, strict=True))

    def _reward(self) -> Part:
        result = self.tracer.run("reward", self.before, self.action, self.after)
        if isinstance(result, (bool, int, float, np.generic)):
            result = np.full(LANES, result)
        if not isinstance(result, (np.ndarray, LaneArray)):
            raise NotCompilable(f"{self.title}.reward: it returns {type(result).__name__}, not an array")
        return self.tracer.part("reward", result)

    def _flag(self, name: str) -> Part:
        result = self.tracer.run(name, self.after)
        if isinstance(result, (bool, np.bool_)):
            result = np.full(LANES, bool(result))
        part = self.tracer.part(name, result)
        if part.result.shape or part.result.dtype != bool:
            raise NotCompilable(f"{self.title}.{name}: expected a bool for each lane, got dtype {part.result.dtype}")
        return part

    def _discount(self) -> Part | None:
        if type(self.model).discount is Model.discount:
            return None
        result = self.tracer.run("discount", self.after)
        if result is None:
            return None
        if isinstance(result, (int, float)):
            result = np.full(LANES, float(result))
        return self.tracer.part("discount", result)

    def _info(self) -> Part:
        result = self.tracer.run("info", self.after)
        if type(result) is not dict:
            raise NotCompilable(f"{self.title}.info: it returns {type(result).__name__}, not a dict of arrays")
        return self.tracer.part("info", result)

    def _initial(self) -> tuple[Part | None, list[RandomCall]]:
        """Returns the operations of `initial`; None where it is called in Python, for the lanes that begin."""
        calls: list[RandomCall] = []
        inputs = self.tracer.inputs("c", {name: column[0] for name, column in self.columns.items()})
        try:
            result = self.tracer.run("initial", self.tracer.generator("k", calls), inputs, LANES)
            part = self.tracer.part("initial", result, calls)
            self._check_state("initial", part)
        except NotCompilable:
            return None, []
        return part, calls

    # Names of the inputs.

    def _bind(self, writer: Writer, nodes: Sequence[Node], calls: Sequence[RandomCall]) -> None:
        """Writes the lines that read the inputs of some nodes, and binds these to the names."""
        elements = [element for k, action in enumerate(self.actions) for element in scalars(f"action{k}", action.shape)]
        dtypes = [action.dtype for action in self.actions for _ in scalars("", action.shape)]
        for node in read_inputs(nodes):
            kind, _, *place = node.arguments
            if kind == "s":
                writer.lines.append(f"s{place[0]} = b.{self.layout.fields[place[0]][0]}")
                writer.bind(node, f"s{place[0]}")
            elif kind == "a":
                text = elements[place[0]]
                writer.lines.append(
                    f"a{place[0]} = {text} != 0" if dtypes[place[0]].kind == "b" else f"a{place[0]} = {text}"
                )
                writer.bind(node, f"a{place[0]}")
            elif kind == "c":
                writer.lines.append(f"c{place[0]} = contexts[i].c{place[0]}")
                writer.bind(node, f"c{place[0]}")
            elif kind in ("d", "o", "k"):
                number, *rest = place
                axis = calls[number].size.index(None)
                rest.insert(axis, "begun" if kind == "k" else "i")
                name = f"{kind}{number}_{'_'.join(map(str, place[1:]))}"
                writer.lines.append(f"{name} = {kind}{number}[{', '.join(map(str, rest))}]")
                writer.bind(node, name)
            else:
                writer.bind(node, f"z{place[0]}")

    def _store(self, writer: Writer, outputs: Sequence[Output], name: str, part: Part) -> None:
        output = next(one for one in outputs if one.name == name)
        values = writer.write(part.nodes)
        writer.lines += [
            f"{element} = {value}" for element, value in zip(scalars(name, output.shape), values, strict=True)
        ]

    def _loop_functions(self) -> list[str]:
        """Returns the lines of functions that call numpy's own loops."""
        lines: list[str] = []
        for number, (_, types) in enumerate(self.tracer.recorder.loops):
            names = ", ".join(f"x{k}" for k in range(len(types) - 1))
            converted = ", ".join(f"to_{one}(x{k})" for k, one in enumerate(types[:-1]))
            lines.append(f"@inlined\ndef loop{number}(loops, {names}):")
            lines.append(
                f"    return call_loop(loops[{2 * number}], loops[{2 * number + 1}], to_{types[-1]}(0), ({converted},))"
            )
        return lines


def _leaves(structure: Any) -> list[tuple[int, Any]]:
    return list(enumerate(leaf for _, leaf in tree.leaves(structure)))


def _share(part: Part, number: int, leaf: Any) -> Part:
    """Returns the operations of one leaf."""
    sizes = [np.size(one) for _, one in tree.leaves(part.result)]
    start = sum(sizes[:number])
    return Part(part.nodes[start : start + np.size(leaf)], leaf)


def _generators() -> Mapping[str, Any]:
    from .random_functions import NAMES  # imported here, because it needs numba

    return NAMES
