"""When a batch compiles: at once if it is asked to, else when that is worth the time.

With `"auto"`, lanes are interpreted until the steps have taken as long as compiling will take: several seconds, or a
moment if an earlier process left the kernel on disk. A short run therefore never waits for a compiler, and a long one
takes at most twice the time of the better choice. The values are the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import NotCompilable, SpecError
from .availability import EXPECTED, LOADING, numba_version

if TYPE_CHECKING:
    from .plan import Plan

Compiled: TypeAlias = bool | Literal["auto"]

WAITING = "lanes are interpreted until their steps have taken as long as compiling"


def check_compiled(compiled: Any, workers: int | None = None) -> None:
    """Refuses a value of the argument `compiled`.

    Args:
        compiled: The value.
        workers: The number of processes for the lanes, whose environments are not compiled.

    Raises:
        SpecError: It is none of True, False and "auto".
        NotCompilable: It is True, and numba is not installed.
    """
    if compiled not in (True, False, "auto"):
        raise SpecError(f"compiled: expected True, False or 'auto', got {compiled!r}")
    if compiled is True and workers is not None:
        raise NotCompilable("compiled=True: lanes in workers are not compiled; leave out workers")
    if compiled is True and numba_version() is None:
        raise NotCompilable("compiled=True: numba is not installed; pip install 'envoi[numba]'")


class Choice:
    """The state of that decision for one batch.

    Args:
        compiled: True or `"auto"`.

    Attributes:
        is_open: True while it may still compile.
        spent: Seconds that interpreted steps have taken.
        limit: Seconds of them after which `advance` should be called.
        reason: Why the steps are interpreted; empty if they are compiled.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.wanted: Compiled = compiled
        self.is_open = compiled is not False and numba_version() is not None
        self.spent, self.limit = 0.0, LOADING
        self.reason = WAITING if self.is_open else "compiled=False" if compiled is False else "numba is not installed"
        self._plan: Plan | None = None

    def advance(self, make_plan: Callable[[], Plan], start: Callable[[Plan], None]) -> None:
        """Compiles if that is worth its time by now.

        Args:
            make_plan: Makes the plan of the kernel.
            start: Compiles it and starts to use it.
        """
        try:
            if self._plan is None:
                self._plan = make_plan()
            if not self._plan.is_on_disk:
                if self.spent < EXPECTED:
                    self.limit = EXPECTED
                    return
                if self._plan.is_being_compiled:
                    self.limit = self.spent + 1.0  # another process does it
                    return
            start(self._plan)
            self.reason = ""
        except NotCompilable as error:
            self.reason = str(error)
        except Exception as error:  # interpreted steps go on, whatever numba or the author's code make of each other
            self.reason = f"{type(error).__name__}: {error}"
        self.is_open = False

    def compile(self, make_plan: Callable[[], Plan], start: Callable[[Plan], None]) -> None:
        """Compiles now.

        Args:
            make_plan: As for `advance`.
            start: As for `advance`.

        Raises:
            NotCompilable: The model cannot be compiled.
        """
        start(make_plan())
        self.reason, self.is_open = "", False
