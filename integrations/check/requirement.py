"""Requirements on environments, and the outcome and result of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from .drivers import Kind

if TYPE_CHECKING:
    from .env_under_test import EnvUnderTest, Rollout

Status = Literal["passed", "failed", "remark", "refused", "narrowed", "not installed", "skipped"]
"""The status of a check:

`passed`; `failed`, a fault of the environment; `remark`, worth knowing but no fault; `refused` and `narrowed`, values
that a framework cannot express, or expresses less precisely; `not installed`; `skipped`, as the check does not apply or
cannot be decided.
"""

RAN: tuple[Status, ...] = ("passed", "failed", "remark", "narrowed")
"""The statuses of checks that were run to a result."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check: a status, possibly a reason in one sentence, and the warnings of a test suite."""

    status: Status = "passed"
    reason: str = ""
    notes: tuple[str, ...] = ()


PASSED = Outcome()
failed = partial(Outcome, "failed")
"""The environment breaks the requirement."""
remark = partial(Outcome, "remark")
"""A finding that is worth knowing but no fault."""
skipped = partial(Outcome, "skipped")
"""The check does not apply, or cannot be decided."""


def failed_if(difference: str | None, what: str) -> Outcome:
    """Returns "failed" with the difference as reason, or "passed" if there is none."""
    return PASSED if difference is None else failed(f"{what}: {difference}")


@dataclass(frozen=True)
class Requirement:
    """One requirement on an environment.

    Attributes:
        key: Its short name, which stays the same from version to version.
        sentence: The requirement as a sentence.
        contract: Row numbers of envoi's fidelity contract that it covers.
        check: Decides whether an environment, or a form of it, meets it.
        kinds: The kinds of environments that it applies to.
        needs: Keys of requirements that must be met before this one can be checked.
        unless: Keys of requirements whose failure this one would only repeat.
        on_forms: True if a form could break it although the environment meets it.
    """

    key: str
    sentence: str
    contract: tuple[int, ...]
    check: Callable[[Any], Outcome]
    kinds: tuple[Kind, ...] = ("single", "multi", "batch")
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    on_forms: bool = False


def requirement(key: str, *contract: int, **settings: Any) -> Callable[[Callable[[Any], Outcome]], Requirement]:
    """Makes a requirement of a function that checks it. The first line of its docstring becomes the sentence."""
    return lambda check: Requirement(key, (check.__doc__ or "").partition("\n")[0], contract, check, **settings)


def observed(
    key: str, sentence: str, *contract: int, no_case: Callable[[Rollout], str] = lambda rollout: "", **settings: Any
) -> Requirement:
    """Makes a requirement that observers check. `no_case` returns why a rollout cannot decide it, or an empty text."""

    def check(env: EnvUnderTest) -> Outcome:
        rollout = env.rollout
        if key in rollout.violations:
            return failed(rollout.violations[key])
        reason = no_case(rollout) or ("" if rollout.calls else "no call succeeded")
        return skipped(reason) if reason else PASSED

    return Requirement(key, sentence, contract, check, on_forms=True, **settings)


@dataclass(frozen=True)
class Result:
    """The result of one requirement on one subject.

    Attributes:
        subject: `"env"`, or the name of the framework.
        key: Key of the requirement.
        status: Status of the outcome.
        reason: Reason for the outcome, in one sentence.
        sentence: The requirement as a sentence.
        contract: Row numbers of envoi's fidelity contract that it covers.
        notes: Warnings of a suite.
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
