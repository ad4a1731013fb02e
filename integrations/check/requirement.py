"""What is required of an environment, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .drivers.core import Kind

if TYPE_CHECKING:
    from .env_under_test import Subject

Status = Literal["passed", "failed", "remark", "refused", "narrowed", "not installed", "skipped"]
"""What became of a check:

`passed`; `failed`, which is the environment's fault; `remark`, worth knowing and no fault; `refused` and `narrowed`,
what a framework cannot express, or less precisely; `not installed`; `skipped`, as it does not apply, or cannot be told.
"""

RAN: tuple[Status, ...] = ("passed", "failed", "remark", "narrowed")
"""Those that were checks of something."""


@dataclass(frozen=True)
class Found:
    """What a check found.

    Attributes:
        status: What became of it.
        reason: Why, in one sentence; empty where there is nothing to say.
    """

    status: Status = "passed"
    reason: str = ""


PASSED = Found()


def failed(reason: str) -> Found:
    """The environment breaks the requirement."""
    return Found("failed", reason)


def remark(reason: str) -> Found:
    """Worth knowing, and no fault."""
    return Found("remark", reason)


def skipped(reason: str) -> Found:
    """It does not apply, or cannot be told."""
    return Found("skipped", reason)


def failed_if(reason: str | None) -> Found:
    """Failed where there is a reason."""
    return PASSED if reason is None else failed(reason)


Check: TypeAlias = "Callable[[Subject], Found]"


@dataclass(frozen=True)
class Requirement:
    """One thing that is required.

    Attributes:
        key: Its short name, which stays the same from version to version.
        sentence: What is required.
        contract: The numbers of the rows of envoi's fidelity contract that it is about.
        check: Looks whether a subject keeps it.
        kinds: The kinds of environments that it is about.
        needs: Requirements without which this one cannot be told.
        unless: Requirements whose failure this one would only repeat.
        on_forms: Whether a form could break it though the environment keeps it.
    """

    key: str
    sentence: str
    contract: tuple[int, ...]
    check: Check
    kinds: tuple[Kind, ...] = ("one", "several", "lanes")
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    on_forms: bool = False


@dataclass(frozen=True)
class Result:
    """What was found about one requirement on one subject.

    Attributes:
        subject: `"env"`, or the name of the framework.
        key: Of the requirement.
        status: What became of it.
        reason: Why, in one sentence.
        sentence: What was required.
        contract: The numbers of the rows of envoi's fidelity contract that it is about.
        notes: What a suite warned of.
    """

    subject: str
    key: str
    status: Status
    reason: str
    sentence: str
    contract: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.subject}  {self.key}: {self.reason or self.status}"
