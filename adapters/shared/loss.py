"""Losses of a conversion, as data, and warnings about features that do not work in a framework."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from envoi import Env, LossyConversion, MultiEnv


class NarrowingWarning(UserWarning):
    """A conversion to a framework reduces the precision of numbers; `losses` lists which."""


class UnseededWarning(UserWarning):
    """A seed was given to an environment whose source cannot be seeded."""


class DroppedOptionsWarning(UserWarning):
    """A reset was given options in a framework whose `reset` takes none; they have no effect."""


_WORDS = {"precision": "narrowed", "shape": "flattened"}
"""The word for a loss that is not refused, by its field."""


@dataclass(frozen=True)
class Loss:
    """A part of an environment that a framework cannot express.

    Attributes:
        path: The path of the leaf, such as `observation['image']`.
        field: The field that is lost, such as `dtype`.
        source: The field's value in the core environment.
        target: The framework.
        refused: True if the conversion raises `LossyConversion`; False if it continues, with less precision or without
            that part.
        hint: The consequence, or a remedy.
    """

    path: str
    field: str
    source: str
    target: str
    refused: bool
    hint: str = ""

    @classmethod
    def of(cls, error: LossyConversion) -> Loss:
        """Makes a `Loss` from the error that refuses a conversion."""
        return cls(error.path, error.field, error.source, error.target, True, error.hint)

    def __str__(self) -> str:
        word = "refused" if self.refused else _WORDS.get(self.field, "lost")
        return f"{self.path}: {self.field} {word} ({self.source}){'; ' + self.hint if self.hint else ''}"


def warn_user(message: str, category: type[UserWarning]) -> None:
    """Issues a warning that points at the line outside envoi from which envoi was called."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "envoi":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_narrowed(losses: Iterable[Loss]) -> None:
    """Warns of all precision that a conversion loses, in one message."""
    narrowed = [str(loss) for loss in losses if not loss.refused and loss.field == "precision"]
    if narrowed:
        warn_user("; ".join(narrowed), NarrowingWarning)


def options_lost(env: Env | MultiEnv) -> list[Loss]:
    """Returns a list with the loss of reset options if an environment's source takes none, otherwise an empty list."""
    if env.takes_options:
        return []
    hint = "options of a reset change nothing there; a warning says so once, and validate=True makes it an error"
    native = type(env.unwrapped)
    return [Loss("options", "reach", f"{native.__module__}.{native.__qualname__}", "the core", False, hint)]
