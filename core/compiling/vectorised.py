"""The text of a kernel of traced functions: loops over blocks of lanes, of packed instructions where possible.

    for each block of up to 64 lanes:
        act        the next states and rewards of all its lanes, kept where a lane acts
        begin      the states of lanes that begin an episode, one by one
        observe    the observations and infos of all
        end        the flags and discounts, kept where a lane acts
        copies     to the rows of states, and to the arrays that the step returns

A loop that calls C functions is not vectorised. So the operations of each stage are two loops: the calls with all that
they depend on, and the rest, which LLVM turns into packed instructions. What a loop computes goes to rows on the
stack and is copied at the end, for LLVM knows that nothing else refers to these, and needs no checks of overlaps when
it packs. Only the arrays that the step returns, of which each loop fills few, are written at once.

Each operation is the same as in a loop over lanes, and rounds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import tree
from ..authoring.model import Model
from ..errors import NotCompilable
from .expressions import SHORT, Node, Recorder, Writer, exact_functions, is_call, literal, ordered, read_inputs
from .lane_arrays import LANES, LaneArray, RandomCall
from .layout import Held, Leaves, Records, Rows
from .plan import (
    FLAGS,
    Action,
    Output,
    Plan,
    actions_of,
    all_held,
    check_lines,
    head_lines,
    indented,
    last_lines,
    last_lines_of_all,
    scalars,
)
from .tracing import Part, Tracer

BLOCK = 64
"""The most lanes in a block."""

STACK = 65_536
"""The bytes on the stack that a block takes at most, unless one lane takes more."""


def blocks_text(
    title: str, states: Rows, actions: Sequence[Action], outputs: Sequence[Output], recorder: Recorder,
    exact: frozenset[str], stages: Stages,
) -> str:  # fmt: skip
    """Returns the text of a kernel."""
    block = Block(states, actions, outputs, recorder, exact, stages)
    body = [
        *each_lane([f"{block.row('acts', np.dtype(bool))} = not ({block.common('restart')} | {block.common('hold')})"]),
        *block.act(),
        *block.begin(),
        *block.observe(),
        *block.end(),
        *block.copies(),
        *(block.last() if stages.in_place else []),
    ]
    if recorder.loops:  # found by writing the lines
        stages.held.append(Held("loops", (2 * len(recorder.loops),), np.dtype(np.int64)))
    held = all_held(states, stages.held)
    size = max(1, min(BLOCK, STACK // sum(dtype.itemsize for dtype in block.rows.values())))
    lines = [
        f"# {title}",
        *check_lines(actions, held),
        *head_lines(actions, outputs, held, stages.arguments),
        "    new = 0",
        "    for i in range(n):",
        "        new += restart[i]",
        *indented(stages.setup, 4),
        "    begun = 0",
        "    ended = 0",
        *(f"    {name} = row({size}, {SHORT[dtype.name]})" for name, dtype in block.rows.items()),
        f"    for start in range(0, n, {size}):",
        f"        count = min({size}, n - start)",
        *(f"        {name} = {view}" for name, view in block.views.items()),
        *indented(body, 8),
        *([] if stages.in_place else last_lines_of_all()),
        "    return ended",
    ]
    return "\n".join(lines) + "\n"


@dataclass
class Stages:
    """The nodes of a kernel. Inputs are named by `kind, lane, *place`, see `Block.bind`."""

    moved: Sequence[Node]  # the next states of a lane that acts, scalar by scalar
    begun: Sequence[Node] | None  # the states of a lane that begins an episode; None if they are made in Python
    reward: Sequence[Node]  # the elements of the reward
    seen: Mapping[str, Sequence[Node]]  # those of the arrays that hold observations and infos, by name
    ends: Sequence[Node]  # the flags `terminated` and `truncated`
    discount: Sequence[Node] | None  # the elements of the discount; None for the default
    sizes: Mapping[str, tuple[int | None, ...]]  # the shapes of random arrays by name, with None for the lane axis
    in_place: bool  # True if no line raises an error, so that next states can replace those before
    # Before the blocks; they know `new`, the number of lanes that begin an episode.
    setup: list[str] = field(default_factory=list[str])
    held: list[Held] = field(default_factory=list[Held])  # besides the common ones
    arguments: list[str] = field(default_factory=list[str])  # names of the arrays that differ from step to step


def each_lane(lines: Sequence[str]) -> list[str]:
    """Returns a loop over the lanes of a block; none of no lines."""
    return ["for j in range(count):", *indented(lines, 4)] if lines else []


class Block:
    """The lines of a block."""

    def __init__(
        self, states: Rows, actions: Sequence[Action], outputs: Sequence[Output], recorder: Recorder,
        exact: frozenset[str], stages: Stages,
    ) -> None:  # fmt: skip
        self.rows: dict[str, np.dtype[np.generic]] = {}  # the rows on the stack, with their dtypes
        self.views: dict[str, str] = {}  # the parts of arrays that belong to the lanes of the block
        self._shapes = {output.name: output.shape for output in outputs}
        self._states, self._stages, self._recorder, self._exact = states, stages, recorder, exact
        self._actions = [
            (f"action{k}", place, action.dtype)
            for k, action in enumerate(actions)
            for place in np.ndindex(action.shape)
        ]
        inputs = [node.arguments[::2] if node.kind == "input" else () for node in stages.moved]
        self._kept = {k for k, place in enumerate(inputs) if stages.in_place and place == ("s", k)}

    def row(self, name: str, dtype: np.dtype[np.generic]) -> str:
        """Returns the element of a row on the stack, for the lane j of the block."""
        self.rows[name] = dtype
        return f"{name}[j]"

    def common(self, name: str) -> str:
        """Returns the element of an array of shape (n,) for the lane j of the block."""
        self._view(f"{name}_", name)
        return f"{name}_[j]"

    def _view(self, name: str, array: str, *place: int) -> None:
        """Names the part of an array that belongs to the lanes of the block."""
        self.views[name] = f"block({array}, ({''.join(f'{index}, ' for index in place)}), start, count)"

    def _state(self, k: int, name: str = "before") -> str:
        view = f"{name}_{k}"
        leaf, row = self._states.places[k]
        self._view(view, f"{name}{leaf}", row)
        return f"{view}[j]"

    def _next(self, k: int) -> str:
        return self._state(k) if k in self._kept else f"z{k}[j]"

    def bind(self, writer: Writer, nodes: Sequence[Node]) -> None:
        """Binds the inputs of nodes, as far as they are not bound yet, to the elements of the lane j."""
        for node in read_inputs(nodes, writer.known):
            kind, _, number, *rest = node.arguments
            if kind == "s":
                text = self._state(number)
            elif kind == "z":
                text = self._next(number)
            elif kind == "a":
                name, place, dtype = self._actions[number]
                self._view(f"{name}_", name)
                text = f"{name}_[{', '.join(map(str, ('j', *place)))}]"
                text = f"({text} != 0)" if dtype.kind == "b" else text
            elif kind == "c":
                text = f"contexts[start + j].c{number}"
            else:
                name, places = f"{kind}{number}", [str(place) for place in rest]
                axis = self._stages.sizes[name].index(None)
                places.insert(axis, "begun" if kind == "k" else "start:start + count")
                text = f"{name}[{', '.join(places)}]"
                if kind != "k":
                    view = "_".join([name, *map(str, rest), ""])
                    self.views[view], text = text, f"{view}[j]"
            writer.bind(node, text)

    def _loops(
        self, prefix: str, nodes: Sequence[Node], store: Callable[[list[str]], list[str]], guard: bool = False
    ) -> list[str]:
        """Returns the loops that compute some nodes: one of the calls and what they depend on, and one of the rest."""
        lines: list[str] = []
        late = Writer(self._recorder, self._exact, prefix)
        calls = [node for node in ordered(nodes) if is_call(node, self._exact)]
        if calls:
            early = Writer(self._recorder, self._exact, f"{prefix}_")
            first = {id(node) for node in ordered(calls)}
            rest = ordered(nodes, first)
            read = {id(part) for node in rest for part in node.arguments} | {id(node) for node in nodes}
            crossing = [node for node in ordered(calls) if id(node) in read and node.kind not in ("const", "input")]
            self.bind(early, crossing)
            names = early.write(crossing)
            zeros: list[str] = []  # since LLVM may take a branch on a value that was never set for impossible
            for number, (node, name) in enumerate(zip(crossing, names, strict=True)):
                element = self.row(f"{prefix}_row{number}", node.dtype)
                early.lines.append(f"{element} = {name}")
                zeros.append(f"{element} = {literal(node.dtype.type(0))}")
                late.bind(node, element)
            guarded = ["if acts[j]:", *indented(early.lines, 4), "else:", *indented(zeros, 4)]
            lines += each_lane(guarded if guard else early.lines)
        self.bind(late, nodes)
        stored = store(late.write(nodes))
        return lines + each_lane([*late.lines, *stored])

    # The stages.

    def act(self) -> list[str]:
        """Returns the loops that compute the next states and the rewards of lanes that act."""
        moved, reward = self._stages.moved, self._stages.reward

        def store(names: list[str]) -> list[str]:
            return [
                f"{self.row(f'z{k}', self._states.kinds[k])} = {name} if acts[j] else {self._state(k)}"
                for k, name in enumerate(names)
                if k not in self._kept
            ]

        lines = self._loops("v", moved, store, guard=True)
        # A loop of its own, since it may read next states.
        return lines + self._loops("r", reward, lambda names: self._chosen("reward", reward, names, 0), guard=True)

    def _chosen(self, name: str, nodes: Sequence[Node], names: Sequence[str], otherwise: int) -> list[str]:
        """Returns the lines that store the values of lanes that act, and a constant for the others."""
        return [
            f"{element} = {value} if acts[j] else {literal(node.dtype.type(otherwise))}"
            for element, node, value in zip(self._elements(name), nodes, names, strict=True)
        ]

    def _elements(self, name: str) -> list[str]:
        """Returns the elements of an output for the lane j of the block."""
        self._view(f"{name}_", name)
        return scalars(f"{name}_", self._shapes[name], "j")

    def begin(self) -> list[str]:
        """Returns the loops that compute the states of lanes that begin an episode."""
        count = range(len(self._stages.moved))
        writer = Writer(self._recorder, self._exact, "x")
        if self._stages.begun is None:
            values = self._states.scalars("fresh", "begun")
        else:
            self.bind(writer, self._stages.begun)
            values = writer.write(self._stages.begun)
        own = [*writer.lines, *(f"{self._next(k)} = {values[k]}" for k in count)]
        begins = [f"if {self.common('restart')}:", *indented([*own, "begun += 1"], 4)]
        return ["if begun < new:", *indented(each_lane(begins), 4)]

    def observe(self) -> list[str]:
        """Returns the loops that compute the observations and infos."""
        seen = self._stages.seen
        elements = [element for name in seen for element in self._elements(name)]

        def store(names: list[str]) -> list[str]:
            return [f"{element} = {name}" for element, name in zip(elements, names, strict=True)]

        return self._loops("w", [node for nodes in seen.values() for node in nodes], store)

    def end(self) -> list[str]:
        """Returns the loops that compute the flags and discounts."""
        discount = self._stages.discount or ()

        def store(names: list[str]) -> list[str]:
            terminated, truncated, *rest = names
            return [
                f"terminated = acts[j] and {terminated}",
                f"truncated = acts[j] and {truncated}",
                f"cut_off = acts[j] and (truncated or {self.common('elapsed')} >= last)",
                "ended_now = terminated or cut_off",
                *(f"{self.row(f'{name}_row', np.dtype(bool))} = {name}" for name in FLAGS),
                "ended += ended_now",
                *(self._chosen("discount", discount, rest, 1) if discount else []),
            ]

        return self._loops("y", [*self._stages.ends, *discount], store, guard=True)

    def copies(self) -> list[str]:
        """Returns the loops that copy rows of the stack to the arrays that outlive the step."""
        name = "before" if self._stages.in_place else "after"
        loops = [
            [f"{self._state(k, name)} = {self._next(k)}"]
            for k in range(len(self._states.places))
            if k not in self._kept
        ]
        for number, flag in enumerate(FLAGS):
            self._view(f"{flag}_", "ends", number)
            loops.append([f"{flag}_[j] = {flag}_row[j]"])
        return [line for loop in loops for line in each_lane(loop)]

    def last(self) -> list[str]:
        """Returns the loops of `last_lines`."""
        return last_lines(
            "for j in range(count):", lambda name: f"{name}_row[j]" if name in FLAGS else self.common(name)
        )


def plan_of_batch_model(model: Any, columns: Mapping[str, Any]) -> Plan:
    """Returns what is needed to compile a `BatchModel`."""
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
        self.states = Rows(tree.map_leaves(self._one_lane, state))
        self.actions = actions_of(model.action_spec)
        self.tracer = tracer = Tracer(model)
        self.before = tracer.inputs("s", self.states.example)
        self.after = tracer.inputs("z", self.states.example)
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

        recorder = self.tracer.recorder
        tables = [np.ascontiguousarray(table).copy() for table in recorder.tables]
        random = {f"{stream}{k}": call for stream, some in (("d", calls), ("o", noise), ("k", first))
                  for k, call in enumerate(some)}  # fmt: skip
        generates = bool(random) and all(call.in_kernel for call in random.values())
        stages = Stages(
            moved=moved.nodes,
            begun=None if begun is None else begun.nodes,
            reward=reward.nodes,
            seen={**_by_leaf("observation", seen), **_by_leaf("info", info)},
            ends=[part.nodes[0] for part in ends],
            discount=None if discount is None else discount.nodes,
            sizes={name: call.size for name, call in random.items()},
            in_place=not recorder.tables,  # traced functions raise an error only where they index a table
        )
        context = {name: column[0] for name, column in self.columns.items()}
        size = sum(np.size(value) for value in context.values())
        contexts = Records(context, [f"c{k}" for k in range(size)])
        stages.held += self.states.held("fresh") if begun is None else [Held("contexts", (None,), contexts.dtype)]
        stages.held += [Held(f"table{k}", table.shape, table.dtype) for k, table in enumerate(tables)]
        if generates:
            rng = np.random.default_rng(0)
            stages.held.append(Held("bits", (8,), np.dtype(np.int64)))
            stages.held += [Held(name, call.size, call(rng, 1).dtype) for name, call in random.items()]
            stages.setup = self._numbers(calls, noise, first)
        else:
            stages.arguments = list(random)
        text = blocks_text(self.title, self.states, self.actions, outputs, recorder, exact_functions(), stages)
        text = "\n".join([*self._loop_functions(), text])
        return Plan(
            title=self.title,
            text=text,
            states=self.states,
            actions=self.actions,
            outputs=outputs,
            observation=seen.result,
            info=info.result,
            context=contexts,
            held=stages.held,
            in_place=stages.in_place,
            begins=begun is not None,
            generates=generates,
            names=_generators if generates else dict,
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
        found = Leaves(part.result)
        for path, old, new in zip(self.states.paths, self._kinds(self.states), self._kinds(found), strict=False):
            if old != new:
                raise NotCompilable(
                    f"{self.title}.{name}: expected state{path} of shape {old[0]} and dtype {old[1]} as at first, got "
                    f"shape {new[0]} and dtype {new[1]}"
                )
        if found.paths != self.states.paths:
            raise NotCompilable(f"{self.title}.{name}: it returns a state of another structure than `initial`")

    def _kinds(self, leaves: Leaves) -> list[Any]:
        return list(zip(leaves.shapes, leaves.dtypes, strict=True))

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


def _by_leaf(name: str, part: Part) -> dict[str, list[Node]]:
    """Returns the nodes of each leaf of a result."""
    found: dict[str, list[Node]] = {}
    start = 0
    for k, leaf in _leaves(part.result):
        stop = start + np.size(leaf)
        found[f"{name}{k}"], start = part.nodes[start:stop], stop
    return found


def _generators() -> Mapping[str, Any]:
    from .random_functions import NAMES  # imported here, because it needs numba

    return NAMES
