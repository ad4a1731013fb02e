"""Options of a reset, on their way to a source: whether they reach it, and the warning where they do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from envoi import Env, MultiEnv

from .copying import fresh
from .core_holder import CoreHolder
from .loss import DroppedOptionsWarning, Loss, warn_user


class ResetOptions:
    """Answers for an importer whether options of a reset reach its source.

    A form of envoi takes them in any framework, and so its core answers, through whatever wraps it.

    Attributes:
        has_place: Whether resets of the framework take options. Where they take none, options go to a form of envoi
            inside, or are dropped.
    """

    has_place: ClassVar[bool] = True
    unwrapped: Any

    _warned_of_options: bool = False

    @property
    def form_inside(self) -> CoreHolder | None:
        """The form of envoi that the source is, or that lies inside its wrappers; None where there is none."""
        native = self.unwrapped
        return native if isinstance(native, CoreHolder) else None

    def assign_lane(self, number: int) -> None:
        """See `envoi.Process.assign_lane`."""
        form: Any = self.form_inside
        if form is not None:
            form.assign_lane(number)

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

    def _give_options(self, options: Mapping[str, Any] | None) -> None:
        """Prepares the reset that comes, where resets take no options: call it before the source is asked for anything.

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
            warn_user(
                f"options: a reset of {native.__module__}.{native.__qualname__} takes no options, so "
                f"{', '.join(map(repr, options))} changed nothing, nor will others; validate=True makes them an error",
                DroppedOptionsWarning,
            )
            self._warned_of_options = True


def options_lost(env: Env | MultiEnv) -> list[Loss]:
    """Returns the loss of an environment whose source has no place for the options of a reset."""
    if env.takes_options:
        return []
    hint = "options of a reset change nothing there; a warning says so once, and validate=True makes it an error"
    native = type(env.unwrapped)
    return [Loss("options", "reach", f"{native.__module__}.{native.__qualname__}", "the core", False, hint)]
