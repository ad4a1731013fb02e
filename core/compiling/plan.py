"""The plan of a kernel: its text, and the arrays and numbers that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .compilation import compiled_functions, is_compiling, is_on_disk, kernel_digest
from .expression_text import CONVERSIONS
from .kernel_text import Action, Output, all_held
from .layout import Held, Records, Rows
from .ufunc_loops import loop_address


class Functions(NamedTuple):
    """The compiled functions of a kernel's text, which must be called with exactly the arrays of their signature.

    Attributes:
        kernel: Steps all lanes.
        check: Checks that all lanes can act.
    """

    kernel: Callable[..., Any]
    check: Callable[..., Any]


@dataclass
class Plan:
    """A kernel that can be compiled.

    Attributes:
        title: The model's name.
        text: The text of the kernel.
        states: The rows of states.
        actions: The leaves of the action.
        outputs: The arrays that it fills.
        observation: The structure of an observation, with a zero array of one lane for each leaf.
        info: The same of an info.
        context: The records of contexts.
        held: The arrays that the kernel is given by their addresses, besides the common ones.
        in_place: True if next states replace those before; else they are in other rows.
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
        frees_gil: True if other threads may run while the kernel does, which costs as much time as some ten lanes.
    """

    title: str
    text: str
    states: Rows
    actions: Sequence[Action]
    outputs: Sequence[Output]
    observation: Any
    info: Any
    context: Records
    held: Sequence[Held] = ()
    in_place: bool = False
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
    frees_gil: bool = False

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
        """The name of the kernel; equal for kernels that compile to the same code and take the same arguments."""
        arrays = [[(one.shape, one.dtype) for one in some] for some in (self.actions, self.outputs, self.all_held)]
        return kernel_digest(self.text, repr((self.sources, arrays, self.frees_gil)))

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

    @property
    def all_held(self) -> list[Held]:
        """All arrays that the kernel is given by their addresses, in the order of its table."""
        return all_held(self.states, self.held)

    def compile(self, changing: Sequence[Any]) -> Functions:
        """Compiles the kernel, or loads it from disk.

        Args:
            changing: Arrays of two lanes like those that differ from step to step.

        Raises:
            NotCompilable: numba cannot compile it.
        """
        n = 2
        table, mask = np.zeros(1, np.int64), np.zeros(n, bool)
        actions = [np.zeros((n, *action.shape), action.dtype) for action in self.actions]
        outputs = [np.empty((n, *output.shape), output.dtype) for output in self.outputs]
        kinds = {f"{held.name}_kind": held.dtype for held in self.all_held}
        names = {**CONVERSIONS, **_kernel_names(), **self.names(), **kinds}
        arguments = {
            "check": [table, mask, mask, *actions],
            "kernel": [table, mask, mask, np.zeros(n + 1, np.int64), *changing, *actions, *outputs],
        }
        python = self.python_division
        options = {"error_model": "python" if python else "numpy", "boundscheck": python, "nogil": self.frees_gil}
        made = compiled_functions(self.text, names, arguments, self.title, self.digest, options)
        return Functions(made["kernel"], made["check"])


def _kernel_names() -> dict[str, Any]:
    from numba import njit  # imported here, because only compiling needs it

    from .kernel_functions import NAMES

    return {
        **NAMES,
        **{f"to_{char}": np.dtype(char).type for char in "?bBhHiIlLqQfd"},
        "inlined": njit(inline="always"),
    }
