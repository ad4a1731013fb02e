"""What a conversion would lose, as data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from envoi import LossyConversion


class NarrowingWarning(UserWarning):
    """Numbers lose precision on their way to a framework; `losses` lists which."""


class UnseededWarning(UserWarning):
    """A seed was given to an environment whose source nothing can seed."""


class DroppedOptionsWarning(UserWarning):
    """A reset was given options that the environment's framework has no place for; they change nothing."""


@dataclass(frozen=True)
class Loss:
    """One thing that does not survive the way to a framework and back.

    Attributes:
        path: The leaf, such as `observation['image']`.
        field: What of it, such as `dtype`.
        source: What it is in the core.
        target: The framework.
        refused: The conversion raises `LossyConversion`; otherwise it goes on, less precisely.
        hint: What becomes of it, or what to do.
    """

    path: str
    field: str
    source: str
    target: str
    refused: bool
    hint: str = ""

    @classmethod
    def of(cls, error: LossyConversion) -> Loss:
        """The loss for which a conversion is refused."""
        return cls(error.path, error.field, error.source, error.target, True, error.hint)

    def __str__(self) -> str:
        word = "refused" if self.refused else "narrowed" if self.field == "precision" else "lost"
        return f"{self.path}: {self.field} {word} ({self.source}){'; ' + self.hint if self.hint else ''}"


def warn_narrowed(losses: Iterable[Loss]) -> None:
    """Warns, in one sentence, of the precision that a conversion which goes on will lose."""
    narrowed = [str(loss) for loss in losses if not loss.refused and loss.field == "precision"]
    if narrowed:
        warnings.warn("; ".join(narrowed), NarrowingWarning, stacklevel=4)
