"""The kernel of a scalar `Model` before it is compiled: its functions, its layout, and what it was made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import getsource
from textwrap import dedent
from typing import Any

import numpy as np

from .. import tree
from ..authoring.model import Model
from ..errors import NotCompilable
from ..spec import SpecTree
from ..spec.arrays import ARRAYS, bounds_or_inf
from .compilation import is_on_disk, kernel_digest, kernel_of
from .functions import Functions
from .layout import Leaves, Records


@dataclass(frozen=True)
class Action:
    """One leaf of an action, as kernels read it."""

    path: str  # for messages
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bounds: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None  # of each element, if these are integers


def _actions(spec: SpecTree) -> list[Action]:
    found: list[Action] = []
    for path, leaf in tree.leaves(spec, "action"):
        low, high = bounds_or_inf(leaf) if leaf.dtype.kind in "iu" else (None, None)
        bounds = None
        if low is not None and high is not None:
            bounds = np.broadcast_to(low, leaf.shape), np.broadcast_to(high, leaf.shape)
        found.append(Action(path, leaf.shape, leaf.dtype, bounds))
    return found


@dataclass
class Plan:
    """Everything needed to compile the kernel of a scalar `Model`."""

    title: str
    functions: Functions
    methods: Sequence[str]  # without `initial` if that is called in Python
    states: Leaves
    actions: Sequence[Action]
    has_one_action: bool  # True if the action is an array, False if it is a tuple of arrays
    seen: Leaves  # an observation of zeros
    reward: np.dtype[Any]
    discount: np.dtype[Any] | None  # None if the kernel has no discounts to compute
    context: Records
    own: Records  # the model's numeric attributes that the kernel reads
    draws: frozenset[str]  # the functions of the kernel that take random numbers: initial, transition, observe
    frees_gil: bool = False  # True to let other threads run meanwhile, which takes as long as ten lanes

    @property
    def begins(self) -> bool:
        """True if the kernel calls `initial` itself; False if Python calls it."""
        return "initial" in self.methods

    @cached_property
    def digest(self) -> str:
        """The name of the kernel; equal for kernels that compile to the same code and take the same arguments."""
        actions = [(one.shape, one.dtype, one.bounds and [bound.tolist() for bound in one.bounds])
                   for one in self.actions]  # fmt: skip
        layouts = [(one.shapes, one.dtypes) for one in (self.states, self.seen)]
        kinds = (self.reward, self.discount, self.context.dtype, self.own.dtype)
        flags = (self.methods, self.has_one_action, [*self.functions.observed], sorted(self.draws), self.frees_gil)
        state = type(self.states.example)
        names = (state.__module__, state.__qualname__, getattr(state, "_fields", ()))
        return kernel_digest(repr((self.functions.sources, actions, layouts, kinds, flags, names)))

    @property
    def source(self) -> str:
        """The source of the kernel, which calls the model's functions by their names."""
        from .kernel import make_kernel  # imported here, because it needs numba

        text = getsource(make_kernel)
        return dedent(text[text.index("    def act(") : text.rindex("    return kernel")]).strip() + "\n"

    def compile(self) -> Callable[..., int]:
        """Compiles the kernel, or loads it from disk. Call the result with exactly the arrays of its signature."""
        options = {"error_model": "python", "boundscheck": True, "nogil": self.frees_gil, "no_cfunc_wrapper": True}
        return kernel_of(self.digest, self.title, self._kernel, options)

    def _kernel(self) -> tuple[Any, list[Any]]:
        from .kernel import make_kernel  # imported here, because only compiling needs numba

        kernel: Any = make_kernel(self, self.functions.compiled(self.methods, self.own.dtype))
        kernel.__qualname__ = f"kernel_{self.digest}"  # by which LLVM tells kernels apart
        kernel.__module__ = __name__  # which numba imports to load a kernel; its own would import much more
        arrays = [tuple(part[None] for part in one) if isinstance(one, tuple) else one if one is None else one[None]
                  for one in self.examples()]  # fmt: skip
        return kernel, [np.zeros(1, np.int64), 0, np.zeros(1, bool), *arrays]

    def examples(self) -> list[Any]:
        """Returns an action, an observation, a reward and a discount of one lane; None if there are no discounts."""
        actions = tuple(np.zeros(one.shape, one.dtype) for one in self.actions)
        seen = tuple(row[0] for row in self.seen.zeros(1))
        return [
            actions[0] if self.has_one_action else actions,
            seen if tree.is_branch(self.seen.example) else seen[0],
            np.zeros((), self.reward),
            None if self.discount is None else np.zeros((), self.discount),
        ]


METHODS = ("transition", "observe", "reward", "terminal", "truncated", "discount", "initial")
"""The functions of a model that kernels call."""


def plan_of_model(model: Any, begins: bool = True) -> Plan:
    """Returns the plan for compiling a scalar `Model`; `begins` is False if Python calls its `initial`."""
    kind, title = type(model), type(model).__name__
    if kind.info is not Model.info:
        raise NotCompilable(f"{title}.info: dicts of single lanes cannot be compiled; leave info out")
    observed = model.observation_spec
    for path, leaf in (*tree.leaves(model.action_spec, "action"), *tree.leaves(observed, "observation")):
        if not isinstance(leaf, ARRAYS):
            raise NotCompilable(f"{path}: a {type(leaf).__name__} is no array of numbers")
    if tree.is_branch(model.action_spec) and type(model.action_spec) is not tuple:
        raise NotCompilable(f"{title}: actions are compiled as one array or a tuple of arrays, not as a dict or list")
    if tree.is_branch(observed) and any(tree.is_branch(part) for _, _, part in tree.children(observed)):
        raise NotCompilable(f"{title}.observe: nested observations cannot be compiled")
    for name, spec in (("reward", model.reward_spec), ("discount", model.discount_spec)):
        if not isinstance(spec, ARRAYS) or spec.shape:
            raise NotCompilable(f"{title}.{name}_spec: expected one number a step, got {spec}")
    optional = [name for name in ("truncated", "discount") if getattr(kind, name) is not getattr(Model, name)]
    methods = [name for name in METHODS if name not in ("truncated", "discount") or name in optional]
    state = _example_state(model)
    parts = observed if type(observed) is dict else {None: observed}
    functions = Functions(model, methods, state, {key: getattr(one, "dtype", None) for key, one in parts.items()})
    methods = methods if begins else methods[:-1]
    features = {
        name: np.float64(value) if isinstance(value, float) else value
        for name, value in model.context.items()
        if isinstance(value, (bool, int, float, np.number))
    }
    plan = Plan(
        title=title,
        functions=functions,
        methods=methods,
        states=Leaves(state),
        actions=_actions(model.action_spec),
        has_one_action=not tree.is_branch(model.action_spec),
        seen=Leaves(tree.map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), observed)),
        reward=model.reward_spec.dtype,
        discount=model.discount_spec.dtype if "discount" in methods else None,
        context=Records(features),
        own=Records(functions.numbers),
        draws=frozenset(
            name for name in ("initial", "transition", "observe") if name in methods and functions.draws(name)
        ),
    )
    if begins and not is_on_disk(plan.digest) and not functions.can_begin(plan.own.dtype, plan.context.dtype):
        return plan_of_model(model, begins=False)
    return plan


def _example_state(model: Any) -> Any:
    """Returns an initial state, after checking that it consists of numbers or arrays of numbers."""
    title = f"{type(model).__name__}.initial"
    try:
        state = model.initial(np.random.default_rng(0), model.context)
    except Exception as error:
        raise NotCompilable(f"{title}: {type(error).__name__}: {error}") from error
    parts = state if isinstance(state, tuple) else (state,)
    if not parts or any(map(tree.is_branch, parts)):
        raise NotCompilable(
            f"{title}: expected numbers or arrays, alone or in one flat (named) tuple, got {type(state).__name__}"
        )
    for path, leaf in tree.leaves(state, "state"):
        dtypes = ("float64", "int64", "bool", *["float32"] * isinstance(leaf, np.ndarray))
        if not isinstance(leaf, (bool, int, float, np.number, np.bool_, np.ndarray)) or (
            np.asarray(leaf).dtype not in dtypes
        ):
            shown = getattr(leaf, "dtype", type(leaf).__name__)
            raise NotCompilable(
                f"{title}: {path} is of {shown}; numbers of a compiled state are float64, int64 or bool, and arrays "
                "may be float32"
            )
    return state
