"""The plan of a kernel: its text, and the arrays and numbers that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .compilation import compiled_functions, is_compiling, is_on_disk, kernel_digest
from .expressions import CONVERSIONS
from .kernel_text import Action, Output
from .layout import Layout
from .ufunc_loops import loop_address


@dataclass
class Plan:
    """A kernel that can be compiled.

    Attributes:
        title: The model's name.
        text: The text of the kernel.
        layout: The records of states.
        actions: The leaves of the action.
        outputs: The arrays that it fills.
        observation: The structure of an observation, with a zero array of one lane for each leaf.
        info: The same of an info.
        context: The records of contexts.
        begins: True if the kernel begins episodes itself; False if `initial` is called for them in Python.
        generates: True if the kernel generates all random numbers itself.
        transition_calls: The calls for random numbers of `transition`.
        observe_calls: Those of `observe`.
        initial_calls: Those of `initial`.
        tables: Arrays that lanes index.
        loops: Ufuncs that are called by their address.
        names: More globals of the text.
        sources: Everything else that the code depends on, as text.
        python_division: True if a division by zero raises an error as in Python.
    """

    title: str
    text: str
    layout: Layout
    actions: Sequence[Action]
    outputs: Sequence[Output]
    observation: Any
    info: Any
    context: Layout
    begins: bool = False
    generates: bool = False
    transition_calls: Sequence[Any] = ()
    observe_calls: Sequence[Any] = ()
    initial_calls: Sequence[Any] = ()
    tables: Sequence[np.ndarray[Any, Any]] = ()
    loops: Sequence[tuple[str, str]] = ()
    names: Callable[[], Mapping[str, Any]] = dict
    sources: str = ""
    python_division: bool = False
    _fixed: dict[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def asks_at_restarts(self) -> bool:
        """True if states in which lanes begin, or random numbers for them, are made outside of the kernel."""
        return not self.begins or (bool(self.initial_calls) and not self.generates)

    @cached_property
    def takes_numbers(self) -> bool:
        """True if random numbers are generated outside of the kernel at each step."""
        return bool(self.transition_calls or self.observe_calls) and not self.generates

    @property
    def holds_observations(self) -> bool:
        """True if the caller must keep the observations of lanes that pause."""
        return bool(self.observe_calls)

    @cached_property
    def digest(self) -> str:
        """The name of the kernel; equal for kernels that compile to the same code."""
        return kernel_digest(self.text, self.sources)

    @property
    def is_on_disk(self) -> bool:
        """True if its machine code is on disk."""
        return is_on_disk(self.digest)

    @property
    def is_being_compiled(self) -> bool:
        """True if another process seems to compile it."""
        return is_compiling(self.digest)

    @cached_property
    def addresses(self) -> np.ndarray[Any, Any]:
        """The addresses of the loops of ufuncs and of their data, int64."""
        found = [address for name, types in self.loops for address in loop_address(getattr(np, name), types)]
        return np.array(found or [0], np.int64)

    def new_outputs(self, n: int) -> list[np.ndarray[Any, Any]]:
        """Returns new arrays of n lanes for the outputs."""
        return [np.empty((n, *output.shape), output.dtype) for output in self.outputs]

    def compile(self, examples: Sequence[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Compiles the kernel, or loads it from disk.

        Args:
            examples: The arguments before the actions that are the model's own.

        Returns:
            The functions `kernel` and `check` of the text.

        Raises:
            NotCompilable: numba cannot compile it.
        """
        n = 2
        records, bools = self.layout.empty(n), np.zeros(n, bool)
        common = [records, records, bools, bools, bools, np.zeros((2, n), bool), *examples]
        actions = [np.zeros((n, *action.shape), action.dtype) for action in self.actions]
        names = {**CONVERSIONS, **_kernel_names(), **self.names()}
        arguments = {
            "check": [bools, bools, bools, *actions],
            "kernel": [*common, *actions, *self.new_outputs(n)],
        }
        made = compiled_functions(self.text, names, arguments, self.title, self.sources, self.python_division)
        return made["kernel"], made["check"]


def _kernel_names() -> dict[str, Any]:
    from numba import njit  # imported here, because only compiling needs it

    from .kernel_functions import NAMES

    return {
        **NAMES,
        **{f"to_{char}": np.dtype(char).type for char in "?bBhHiIlLqQfd"},
        "inlined": njit(inline="always"),
    }
