"""Requirements on an environment, and the results of checking them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .drivers.base import Kind
from .outcome import PASSED, Outcome, Status, failed, skipped

if TYPE_CHECKING:
    from .env_under_test import EnvUnderTest
    from .rollout import Rollout

Check: TypeAlias = "Callable[[EnvUnderTest], Outcome]"
RolloutCheck: TypeAlias = "Callable[[Rollout], Outcome]"


@dataclass(frozen=True)
class Requirement:
    """One requirement on an environment.

    Attributes:
        key: Its short name, which stays the same from version to version.
        sentence: The requirement as a sentence.
        contract: Numbers of the rows of envoi's fidelity contract that it covers.
        check: Decides whether an environment meets it.
        kinds: The kinds of environments that it applies to.
        needs: Keys of requirements that must be met before this one can be checked.
        unless: Keys of requirements whose failure this one would only repeat.
        on_forms: True if a form could break it although the environment meets it.
    """

    key: str
    sentence: str
    contract: tuple[int, ...]
    check: Check
    kinds: tuple[Kind, ...] = ("single", "multi", "batch")
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    on_forms: bool = False


def of_rollout(check: RolloutCheck) -> Check:
    """Makes a check of an environment from a pure function of its observed rollout."""
    return lambda env: check(env.rollout)


def no_violation(key: str, inapplicable: Callable[[Rollout], str] = lambda rollout: "") -> Check:
    """Makes a check that fails if an observer found a violation of a requirement during the rollout.

    Args:
        key: Key of the requirement.
        inapplicable: Returns the reason why the requirement does not apply to a rollout; empty where it does.
    """

    def check(rollout: Rollout) -> Outcome:
        if key in rollout.violations:
            return failed(rollout.violations[key])
        reason = inapplicable(rollout) or ("" if rollout.calls else "no call succeeded")
        return skipped(reason) if reason else PASSED

    return of_rollout(check)


@dataclass(frozen=True)
class Result:
    """The result of one requirement on one subject.

    Attributes:
        subject: `"env"`, or the name of the framework.
        key: Key of the requirement.
        status: Status of the outcome.
        reason: Reason of the outcome, in one sentence.
        sentence: The requirement as a sentence.
        contract: Numbers of the rows of envoi's fidelity contract that it covers.
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
