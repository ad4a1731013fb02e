"""The outcome of a check: its status, and the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "remark", "refused", "narrowed", "not installed", "skipped"]
"""The status of a check:

`passed`; `failed`, a fault of the environment; `remark`, worth knowing but no fault; `refused` and `narrowed`, values
that a framework cannot express, or expresses less precisely; `not installed`; `skipped`, as the check does not apply or
cannot be decided.
"""

RAN: tuple[Status, ...] = ("passed", "failed", "remark", "narrowed")
"""The statuses of checks that were run to a result."""

LISTED: tuple[Status, ...] = ("failed", "remark", "refused", "narrowed", "not installed")
"""The statuses whose reasons are listed below a table."""

MARKS: dict[Status, str] = {
    "passed": "✓",
    "failed": "✗",
    "remark": "!",
    "refused": "refused",
    "narrowed": "narrowed",
    "not installed": "not installed",
    "skipped": "·",
}
"""The mark of each status in a table; a cell is empty where a requirement does not concern a framework's form."""

LEGEND = "✓ passed   ✗ failed   ! remark   · does not apply, or cannot be decided"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check.

    Attributes:
        status: The status.
        reason: The reason in one sentence; empty where there is none to give.
    """

    status: Status = "passed"
    reason: str = ""


PASSED = Outcome()


def failed(reason: str) -> Outcome:
    """Returns the outcome for an environment that breaks the requirement."""
    return Outcome("failed", reason)


def remark(reason: str) -> Outcome:
    """Returns the outcome for a finding that is worth knowing but no fault."""
    return Outcome("remark", reason)


def skipped(reason: str) -> Outcome:
    """Returns the outcome for a check that does not apply or cannot be decided."""
    return Outcome("skipped", reason)


def failed_if(reason: str | None) -> Outcome:
    """Returns a failure with this reason, or a pass where it is None."""
    return PASSED if reason is None else failed(reason)
