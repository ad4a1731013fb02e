"""The stages of a kernel of traced functions, as loops over the lanes of one block; see `lane_blocks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .expression_text import Writer, is_call, literal
from .expressions import Node, Recorder, ordered, read_inputs
from .kernel_text import FLAGS, Action, Output, indented, last_lines, scalars
from .layout import Held, Rows


@dataclass
class Stages:
    """The nodes of a kernel. Inputs are named by `kind, lane, *place`, see `Block.bind`.

    Attributes:
        moved: The next states of a lane that acts, scalar by scalar.
        begun: The states of a lane that begins an episode; None if they are made in Python.
        reward: The elements of the reward.
        seen: Those of the arrays that hold observations and infos, by name.
        ends: The flags `terminated` and `truncated`.
        discount: The elements of the discount; None for the default.
        sizes: The shapes of random arrays by name, with None for the lane axis.
        in_place: True if no line raises an error, so that next states can replace those before.
        setup: Lines before the blocks, which know `new`, the number of lanes that begin an episode.
        held: The arrays besides the common ones that the kernel is given by their addresses.
        arguments: Names of the arrays that differ from step to step.
    """

    moved: Sequence[Node]
    begun: Sequence[Node] | None
    reward: Sequence[Node]
    seen: Mapping[str, Sequence[Node]]
    ends: Sequence[Node]
    discount: Sequence[Node] | None
    sizes: Mapping[str, tuple[int | None, ...]]
    in_place: bool
    setup: list[str] = field(default_factory=list[str])
    held: list[Held] = field(default_factory=list[Held])
    arguments: list[str] = field(default_factory=list[str])


def each_lane(lines: Sequence[str]) -> list[str]:
    """Returns a loop over the lanes of a block; none of no lines."""
    return ["for j in range(count):", *indented(lines, 4)] if lines else []


class Block:
    """The lines of a block.

    Args:
        states: The rows of states.
        actions: The leaves of the action.
        outputs: The arrays that the kernel fills.
        recorder: The recorder of the nodes.
        exact: The result of `exact_functions`.
        stages: The nodes.

    Attributes:
        rows: The rows on the stack, with their dtypes.
        views: The parts of arrays that belong to the lanes of the block.
    """

    def __init__(
        self, states: Rows, actions: Sequence[Action], outputs: Sequence[Output], recorder: Recorder,
        exact: frozenset[str], stages: Stages,
    ) -> None:  # fmt: skip
        self.rows: dict[str, np.dtype[np.generic]] = {}
        self.views: dict[str, str] = {}
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
        """Returns the element of a row on the stack, for the lane j of the block.

        Args:
            name: The name of the row.
            dtype: Its dtype.
        """
        self.rows[name] = dtype
        return f"{name}[j]"

    def common(self, name: str) -> str:
        """Returns the element of an array of shape (n,) for the lane j of the block."""
        self._view(f"{name}_", name)
        return f"{name}_[j]"

    def _view(self, name: str, array: str, *place: int) -> None:
        """Names the part of an array that belongs to the lanes of the block.

        Args:
            name: The name.
            array: The array.
            *place: The indices before the axis of lanes.
        """
        self.views[name] = f"block({array}, ({''.join(f'{index}, ' for index in place)}), start, count)"

    def _state(self, k: int, name: str = "before") -> str:
        view = f"{name}_{k}"
        leaf, row = self._states.places[k]
        self._view(view, f"{name}{leaf}", row)
        return f"{view}[j]"

    def _next(self, k: int) -> str:
        return self._state(k) if k in self._kept else f"z{k}[j]"

    def bind(self, writer: Writer, nodes: Sequence[Node]) -> None:
        """Binds the inputs of nodes, as far as they are not bound yet, to the elements of the lane j.

        Args:
            writer: The writer of the nodes.
            nodes: The nodes. Inputs are `s`, `z`: a scalar of the state before and after; `a`: of the action; `c`: of
                the context; `d`, `o`, `k`: a random number of `transition`, `observe` and `initial`.
        """
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
        """Returns the loops that compute some nodes: one of the calls and what they depend on, and one of the rest.

        Args:
            prefix: A letter for the names of local variables.
            nodes: The nodes.
            store: Returns the lines that store their values, given their names.
            guard: If True, calls are made only in lanes that act.
        """
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
        """Returns the lines that store the values of lanes that act, and a constant for the others.

        Args:
            name: The output.
            nodes: Its elements.
            names: The names of their values.
            otherwise: The constant.
        """
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
