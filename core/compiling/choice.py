"""When a batch compiles: at once on request, otherwise as soon as it is worthwhile.

With `"auto"`, lanes are interpreted until the steps have taken as long as compiling will take: two seconds, or a
moment if an earlier process left the kernel on disk. A short run therefore never waits for a compiler, and a long one
takes at most twice the time of the better choice. The values are the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from .. import tree
from ..errors import EnvoiError, NotCompilable, SpecError

if TYPE_CHECKING:
    from .plan import Plan


def check_equal(title: str, interpreted: Any, compiled: Any) -> None:
    """Steps two batches side by side, and checks that their results are equal bit by bit."""
    with np.errstate(all="ignore"):
        for batch in (interpreted, compiled):
            batch.reset(seed=0)
        over = np.zeros(interpreted.batch_size, bool)
        for number in range(64):
            action = interpreted.sample_action()
            try:
                expected = interpreted.step(action, restart=over)
            except EnvoiError:
                raise
            except Exception:  # an error of the author's, which the kernel need not share
                return
            try:
                found = compiled.step(action, restart=over)
            except Exception as error:
                raise NotCompilable(f"{title}: after {number + 1} steps the kernel raises an error: {error}") from error
            _compare(title, number, ("observation", "reward", "terminated", "truncated", "discount"), expected, found)
            _compare(title, number, ("state",), (interpreted.state,), (compiled.state,))
            over = expected.terminated | expected.truncated


def _compare(title: str, number: int, names: tuple[str, ...], values: Any, found: Any) -> None:
    for name, one, other in zip(names, values, found, strict=False):
        for (path, own), (_, new) in zip(tree.leaves(one, name), tree.leaves(other, name), strict=True):
            held, came = np.asarray(own), np.asarray(new)
            same = held.shape == came.shape and held.dtype == came.dtype
            if not same or held.tobytes() != came.tobytes():
                if same and np.array_equal(held, came, equal_nan=held.dtype.kind == "f"):
                    continue  # nan of another sign, or zero
                shown, expected = (f"{array.ravel()[:4].tolist()} of dtype {array.dtype}" for array in (came, held))
                raise NotCompilable(
                    f"{title}: after {number + 1} steps the compiled {path} differs from the interpreted one "
                    f"({shown}, expected {expected}); convert numpy scalars of 32 bits by float() or int()"
                )


Compiled: TypeAlias = bool | Literal["auto"]

LOADING = 0.5
"""Seconds that importing numba and loading a kernel from disk take."""

EXPECTED = 2.0
"""Seconds that compiling takes on an ordinary machine, numba's import included."""


@cache
def has_numba() -> bool:
    """Returns True if numba is installed, without importing it."""
    return find_spec("numba") is not None


WAITING = "lanes are interpreted until their steps have taken as long as compiling"


def check_compiled(compiled: Any, workers: int | None = None) -> None:
    """Checks the argument `compiled`."""
    if compiled not in (True, False, "auto"):
        raise SpecError(f"compiled: expected True, False or 'auto', got {compiled!r}")
    if compiled is True and workers is not None:
        raise NotCompilable("compiled=True: lanes in workers are not compiled; leave out workers")
    if compiled is True and not has_numba():
        raise NotCompilable("compiled=True: numba is not installed; pip install 'envoi[numba]'")


class Choice:
    """Decides for one batch when to compile."""

    def __init__(self, compiled: Compiled) -> None:
        self.wanted: Compiled = compiled
        # While it may still compile. Interpreted steps add to `spent`; after `limit` seconds, `advance` is called.
        self.is_open = compiled is not False and has_numba()
        # Copies of a batch that was compiled on request have a kernel from their first step on.
        self.spent, self.limit = (EXPECTED, 0.0) if compiled is True else (0.0, LOADING)
        self.reason = WAITING if self.is_open else "compiled=False" if compiled is False else "numba is not installed"
        self._plan: Plan | None = None

    @property
    def is_due(self) -> bool:
        """True if interpreted steps have taken as long as compiling would."""
        return self.is_open and self.spent > self.limit

    def advance(self, make_plan: Callable[[], Plan], start: Callable[[Plan], None]) -> None:
        """Compiles if it is worthwhile by now."""
        from .compilation import is_on_disk  # imported here, so that `import envoi` stays fast

        try:
            self._plan = self._plan or make_plan()
            if self.spent < EXPECTED and not is_on_disk(self._plan.digest):
                self.limit = EXPECTED
                return
            start(self._plan)
            self.reason = ""
        except NotCompilable as error:
            self.reason = str(error)
        except Exception as error:  # numba may raise anything for the author's code; keep interpreting
            self.reason = f"{type(error).__name__}: {error}"
        self.is_open = False

    def compile(self, make_plan: Callable[[], Plan], start: Callable[[Plan], None]) -> None:
        start(make_plan())
        self.reason, self.is_open = "", False
