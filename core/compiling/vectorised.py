"""The kernel of a `BatchModel`, made of its traced functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..authoring.model import Model
from .block_stages import Stages
from .errors import NotCompilable
from .expression_text import exact_functions
from .expressions import Node
from .kernel_text import Output, actions_of
from .lane_arrays import LaneArray
from .lane_blocks import blocks_text
from .layout import Held, Leaves, Records, Rows
from .plan import Plan
from .tracing import LANES, Part, RandomCall, Tracer


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
    """Returns the nodes of each leaf of a result.

    Args:
        name: The beginning of the leaves' names.
        part: The result of a function.
    """
    found: dict[str, list[Node]] = {}
    start = 0
    for k, leaf in _leaves(part.result):
        stop = start + np.size(leaf)
        found[f"{name}{k}"], start = part.nodes[start:stop], stop
    return found


def _generators() -> Mapping[str, Any]:
    from .random_functions import NAMES  # imported here, because it needs numba

    return NAMES
