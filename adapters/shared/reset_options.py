"""Options of a reset, on their way to a source: whether they reach it, and the warning where they do not."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from envoi import Env, MultiEnv

from .copying import fresh
from .exported import MayHoldForm
from .loss import DroppedOptionsWarning, Loss


class ResetOptions(MayHoldForm):
    """Answers for an importer whether options of a reset reach its source.

    A form of envoi takes them in any framework, and so its core answers, through whatever wraps it.

    Attributes:
        has_place: Whether resets of the framework take options.
    """

    has_place: ClassVar[bool] = True

    @property
    def takes_options(self) -> bool:
        """Whether options of a reset reach the source."""
        form = self.form_inside
        return self.has_place if form is None else form.core.takes_options

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """See `envoi.Env.untaken`."""
        form = self.form_inside
        if form is None:
            return {} if self.has_place else dict(options)
        return form.core.untaken(options)


class NoResetOptions(ResetOptions):
    """`ResetOptions` of an importer whose framework takes none: they go to a form of envoi inside, or are dropped."""

    has_place = False

    _warned_of_options: bool = False

    def _give_options(self, options: Mapping[str, Any] | None) -> None:
        """Prepares the reset that comes: call it before the source is asked for anything.

        Args:
            options: The options; None and an empty mapping are none.
        """
        if not options:
            return
        form: Any = self.form_inside
        if form is not None:
            form.reset_options = fresh(options)
        elif not self._warned_of_options:
            native = type(self.unwrapped)
            # In the same words for all lanes of a batch, so that Python shows them once.
            warnings.warn(
                f"options: a reset of {native.__module__}.{native.__qualname__} takes no options, so "
                f"{', '.join(map(repr, options))} changed nothing, nor will others; validate=True makes them an error",
                DroppedOptionsWarning,
                stacklevel=3,
            )
            self._warned_of_options = True


def options_lost(env: Env | MultiEnv) -> list[Loss]:
    """Returns the loss of an environment whose source has no place for the options of a reset."""
    if env.takes_options:
        return []
    hint = "options of a reset change nothing there; a warning says so once, and validate=True makes it an error"
    native = type(env.unwrapped)
    return [Loss("options", "reach", f"{native.__module__}.{native.__qualname__}", "the core", False, hint)]
