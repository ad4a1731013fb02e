"""The description of an env's failure, which can be sent between processes as JSON."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass
from typing import Any, Self

import envoi

from ...errors import EnvFailure, describe


@dataclass(frozen=True)
class Failure:
    """A failure of an env.

    Args:
        message: One line: the error, and env, worker, lane and step.
        traceback: The traceback of the env's own code; empty if its process ended without an error of Python.
    """

    message: str
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException, where: str) -> Self:
        """Describes an error.

        Args:
            error: The error that the env raised.
            where: Env, worker, lane and step.
        """
        return cls(f"{describe(_without_step(error))}; {where}", "".join(traceback.format_exception(error)))

    def error(self) -> EnvFailure:
        """Returns the failure as an error."""
        text = self.traceback.rstrip()
        return EnvFailure(f"{self.message}\n\nTraceback of the env:\n{text}" if text else self.message)

    def to_dict(self) -> dict[str, Any]:
        """Returns the failure as plain values."""
        return asdict(self)


def _without_step(error: BaseException) -> BaseException:
    """Returns the error that `Validated` has added a step to, which `where` names with more."""
    cause = error.__cause__
    is_same = isinstance(cause, envoi.SpecError) and str(error).startswith(f"{cause} (at ")
    return cause if is_same and cause is not None else error
