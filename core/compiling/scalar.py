"""The kernel of a scalar `Model`, made of its functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import tree
from ..authoring.model import Model
from ..errors import NotCompilable
from ..spec.arrays import ARRAYS
from .functions import Functions
from .layout import Held, Records, Rows, Stream
from .plan import Action, Output, Plan, actions_of, all_held, head_lines, indented


@dataclass
class Sections:
    """The lines of a lane in a kernel. Next states are left in `z0, …`."""

    act: list[str]  # lines of a lane that acts: set all `z`, and write the reward
    begin: list[str]  # lines of a lane that begins an episode: set all `z`
    observe: list[str]  # lines that write the observation of `z`
    end: list[str]  # lines of a lane that acted: set `terminated` and `truncated`, and write the discount
    held: list[Held] = field(default_factory=list[Held])  # besides the common ones


def loop_text(
    title: str, states: Rows, actions: Sequence[Action], outputs: Sequence[Output], sections: Sections
) -> str:
    """Returns the text of a kernel."""
    held = all_held(states, sections.held)
    names = [output.name for output in outputs]
    idle = ["reward[i] = 0"]
    one = ["discount[i] = 1"] if "discount" in names else []
    lines = [
        f"# {title}",
        *head_lines(actions, outputs, held),
        "    begun = 0",
        "    ended = 0",
        "    for i in range(n):",
        "        progress[0] = i",
        "        saved[i, 10] = saved[i, 11] = 0",
        "        place_after[i] = place_before[i]",
        "        elapsed_after[i] = elapsed_before[i]",
        "        acts = False",
        "        if hold[i]:",
        *indented([f"z{k} = {old}" for k, old in enumerate(states.scalars("before", "i"))] + idle, 12),
        "        elif restart[i]:",
        "            row = coming[i] if first < 0 else coming[first + begun]",
        *indented(sections.begin + idle, 12),
        "            place_after[i] = row",
        "            elapsed_after[i] = 0",
        "            begun += 1",
        "        else:",
        "            acts = True",
        "            elapsed_after[i] += 1",
        *indented(sections.act, 12),
        *indented([f"{new} = z{k}" for k, new in enumerate(states.scalars("after", "i"))], 8),
        *indented(sections.observe, 8),
        "        terminated = False",
        "        truncated = False",
        "        if acts:",
        *indented(sections.end, 12),
        "            truncated = truncated or elapsed_before[i] >= last",
        "            if terminated or truncated:",
        "                ended += 1",
        "        else:",
        *indented(one or ["pass"], 12),
        "        ends[0, i] = terminated",
        "        ends[1, i] = truncated",
        "        ends[2, i] = terminated or truncated",
        "        over_after[i] = over_before[i] if hold[i] else terminated or truncated",
        "    progress[1] = begun",
        "    return ended",
    ]
    return "\n".join(lines) + "\n"


def plan_of_model(model: Any, begins: bool = True) -> Plan:
    """Returns what is needed to compile a scalar `Model`; `begins` is False if its `initial` is called in Python."""
    title = type(model).__name__
    if type(model).info is not Model.info:
        raise NotCompilable(f"{title}.info: dicts of single lanes cannot be compiled; leave info out")
    state = _example_state(model)
    states = Rows(state)
    actions, outputs = actions_of(model.action_spec), _outputs(model)
    if tree.is_branch(model.action_spec) and type(model.action_spec) is not tuple:
        raise NotCompilable(f"{title}: actions are compiled as one array or a tuple of arrays, not as a dict or list")
    observed = model.observation_spec
    keys = tuple(observed) if type(observed) is dict else ()
    if tree.is_branch(observed) and any(tree.is_branch(part) for _, _, part in tree.children(observed)):
        raise NotCompilable(f"{title}.observe: nested observations cannot be compiled")
    dtype = None if tree.is_branch(observed) else outputs[0].dtype
    methods = ["transition", "observe", "reward", "terminal"]
    methods += [name for name in ("truncated", "discount") if getattr(type(model), name) is not getattr(Model, name)]
    functions = Functions(model, [*methods, "initial"], state, keys, dtype)
    features = _features(model)
    context = _context_records(features)
    own = Records(functions.numbers)
    methods += ["initial"] * begins
    sections = _sections(model, states, actions, outputs, methods)
    draws = frozenset(
        name for name in ("initial", "transition", "observe") if name in methods and functions.draws(name)
    )
    for name, lines, line in _saved_streams(sections):
        if name in draws:
            lines.insert(0, line)
    sections.held = [
        Held("settings", (None,), own.dtype),
        Held("bits", (None, 12), np.dtype(np.int64)),
        *([] if begins else states.held("fresh")),
    ]
    plan = Plan(
        title=title,
        text=loop_text(title, states, actions, outputs, sections),
        states=states,
        actions=actions,
        outputs=outputs,
        observation=tree.map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), observed),
        context=context,
        own=own,
        held=sections.held,
        begins=begins,
        names=lambda: _names(functions, methods, own, state),
        sources="\n".join([*functions.sources, str((own.dtype, context.dtype, actions, outputs))]),
        draws=draws,
        is_current=functions.is_current,
        is_unchanged=functions.is_unchanged,
    )
    if begins and not plan.is_on_disk and not functions.can_begin(own.dtype, context.dtype):
        return plan_of_model(model, begins=False)
    return plan


def _names(functions: Functions, methods: Sequence[str], own: Records, state: Any) -> dict[str, Any]:
    """Returns the globals of a kernel's text."""
    made = functions.compiled(methods, own.dtype)
    kinds = {np.asarray(leaf).dtype.name for _, leaf in tree.leaves(state)}
    return {
        **{f"model_{name}": function for name, function in made.items()},
        **{f"kind_{kind}": np.dtype(kind).type for kind in kinds},
        "empty": np.empty, "State": type(state), "Stream": Stream,
    }  # fmt: skip


def _example_state(model: Any) -> Any:
    try:
        state = model.initial(np.random.default_rng(0), model.context)
    except Exception as error:
        raise NotCompilable(f"{type(model).__name__}.initial: {type(error).__name__}: {error}") from error
    leaves = [leaf for _, leaf in tree.leaves(state)]
    plain = not isinstance(state, (dict, list)) and not any(
        tree.is_branch(part) for part in (state if isinstance(state, tuple) else ())
    )
    if not plain or not leaves:
        raise NotCompilable(
            f"{type(model).__name__}.initial: expected a state of numbers or arrays of numbers in a (named) tuple, "
            f"got {type(state).__name__}"
        )
    for path, leaf in tree.leaves(state, "state"):
        dtypes = ("float64", "int64", "bool", *["float32"] * isinstance(leaf, np.ndarray))
        if not isinstance(leaf, (bool, int, float, np.number, np.bool_, np.ndarray)) or (
            np.asarray(leaf).dtype not in dtypes
        ):
            shown = getattr(leaf, "dtype", type(leaf).__name__)
            raise NotCompilable(
                f"{type(model).__name__}.initial: {path} is of {shown}; numbers of a compiled state are float64, int64 "
                "or bool, and arrays may be float32"
            )
    return state


def _outputs(model: Any) -> list[Output]:
    outputs: list[Output] = []
    for number, (path, leaf) in enumerate(tree.leaves(model.observation_spec, "observation")):
        if not isinstance(leaf, ARRAYS):
            raise NotCompilable(f"{path}: a {type(leaf).__name__} is no array of numbers")
        outputs.append(Output(f"observation{number}", leaf.shape, leaf.dtype))
    for name, spec in (("reward", model.reward_spec), ("discount", model.discount_spec)):
        if not isinstance(spec, ARRAYS) or spec.shape:
            raise NotCompilable(f"{type(model).__name__}.{name}_spec: expected one number a step, got {spec}")
        if name == "reward" or type(model).discount is not Model.discount:
            outputs.append(Output(name, (), spec.dtype))
    return outputs


def _features(model: Any) -> dict[str, Any]:
    """Returns the features of the context that are numbers, with their values."""
    return {name: value for name, value in model.context.items() if isinstance(value, (bool, int, float, np.number))}


def _context_records(features: dict[str, Any]) -> Records:
    numbers = {name: np.float64(value) if isinstance(value, float) else value for name, value in features.items()}
    return Records(numbers)


def _sections(
    model: Any, states: Rows, actions: Sequence[Action], outputs: Sequence[Output], methods: Sequence[str]
) -> Sections:
    before, build_before = _construction(states, "s", states.scalars("before", "i"))
    after, build_after = _construction(states, "q", [f"z{k}" for k in range(len(states.places))])
    read = [f"action{k}[i]" for k in range(len(actions))]
    action = f"({', '.join(read)},)" if isinstance(model.action_spec, tuple) else read[0]
    own = ["own = settings[i]"]
    act = [
        *build_before,
        f"s = {before}",
        f"u = {action}",
        f"q = model_transition(own, s, u, {_generator(0)})",
        *_stored(states, "m"),
        "store(reward, i, model_reward(own, s, u, q))",
    ]
    if "initial" in methods:
        begin = [f"q = model_initial(own, {_generator(0)}, contexts[row])", *_stored(states, "n")]
    else:
        begin = [f"z{k} = {new}" for k, new in enumerate(states.scalars("fresh", "begun"))]
    observe = [*build_after, f"q = {after}", f"o = model_observe(own, q, {_generator(4)})"]
    leaves = [output.name for output in outputs if output.name.startswith("observation")]
    if tree.is_branch(model.observation_spec):
        observe += [f"store({name}, i, o[{number}])" for number, name in enumerate(leaves)]
    else:
        observe.append("store(observation0, i, o)")
    end = ["terminated = bool(model_terminal(own, q))"]
    if "truncated" in methods:
        end.append("truncated = bool(model_truncated(own, q))")
    if "discount" in methods:
        end.append("store(discount, i, model_discount(own, q))")
    return Sections(
        [*own, *_fresh_names(act, "q", "p")],
        [*own, *_fresh_names(begin, "q", "p")],
        ["if not hold[i]:", *(f"    {line}" for line in [*own, *observe])],
        end,
    )


def _saved_streams(sections: Sections) -> list[tuple[str, list[str], str]]:
    """Returns the lines of each function that may take numbers, and the one before them that saves the stream."""
    dynamics, observation = (f"keep_stream(saved, i, {k}, bits[i, {4 * k}], bits[i, {8 + k}])" for k in range(2))
    return [
        ("initial", sections.begin, dynamics),
        ("transition", sections.act, dynamics),
        ("observe", sections.observe, f"if not hold[i]:\n    {observation}"),
    ]


def _fresh_names(lines: list[str], old: str, new: str) -> list[str]:
    """Renames a local variable, so that numba need not find one type for the states of all branches."""
    import re

    return [re.sub(rf"\b{old}\b", new, line) for line in lines]


def _generator(first: int) -> str:
    return f"Stream({', '.join(f'bits[i, {k}]' for k in range(first, first + 4))})"


def _stored(states: Rows, prefix: str) -> list[str]:
    """Returns the lines that take the state `q` apart, after checking that it is like the first one."""
    state, lines, count = states.example, list[str](), 0
    leaves = list(state) if isinstance(state, tuple) else [state]
    names = [f"{prefix}{number}" for number in range(len(leaves))] if isinstance(state, tuple) else ["q"]
    if isinstance(state, tuple):
        lines.append(f"{', '.join(names)}, = q")
    for name, leaf in zip(names, leaves, strict=True):
        shape = np.shape(leaf)
        if shape:
            lines.append(f"check_shape({name}.shape, ({', '.join(map(str, shape))},))")
        for place in np.ndindex(shape):
            element = f"{name}[{', '.join(map(str, place))}]" if shape else name
            lines.append(f"z{count} = {element}")
            count += 1
    return lines


def _construction(states: Rows, name: str, scalars: list[str]) -> tuple[str, list[str]]:
    """Returns the expression that makes a state of scalars, and the lines that must run before it."""
    state, lines, arguments, position = states.example, list[str](), list[str](), 0
    parts = list(state) if isinstance(state, tuple) else [state]
    for number, part in enumerate(parts):
        if not np.ndim(part):
            arguments.append(scalars[position])
            position += 1
            continue
        shape, local = np.shape(part), f"{name}_{number}"
        size = f"({', '.join(map(str, shape))},)"
        lines.append(f"{local} = empty({size}, kind_{np.asarray(part).dtype.name})")
        for place in np.ndindex(shape):
            lines.append(f"{local}[{', '.join(map(str, place))}] = {scalars[position]}")
            position += 1
        arguments.append(local)
    if not isinstance(state, tuple):
        return arguments[0], lines
    joined = ", ".join(arguments)
    return (f"State({joined})" if hasattr(state, "_fields") else f"({joined},)"), lines
