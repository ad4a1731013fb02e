"""Reset options for sources: the way to those that take them, and a warning for those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .copying import fresh
from .core_holder import CoreHolder
from .loss import DroppedOptionsWarning, warn_user


class ResetOptions:
    """Passes reset options on to the source of an importer.

    A form of envoi takes options in any framework, even inside wrappers of that framework: then its core decides.

    Attributes:
        has_place: True if `reset` of the framework takes options. If not, options go to a form of envoi inside, or are
            dropped.
    """

    has_place: ClassVar[bool] = True
    unwrapped: Any

    _warned_of_options: bool = False

    @property
    def form_inside(self) -> CoreHolder | None:
        """The form of envoi that the source is or wraps, or None."""
        native = self.unwrapped
        return native if isinstance(native, CoreHolder) else None

    def assign_lane(self, number: int) -> None:
        """See `envoi.Process.assign_lane`."""
        form: Any = self.form_inside
        if form is not None:
            form.assign_lane(number)

    @property
    def takes_options(self) -> bool:
        """True if reset options reach the source."""
        form = self.form_inside
        return self.has_place if form is None else form.core.takes_options

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """See `envoi.Env.untaken`."""
        form = self.form_inside
        if form is None:
            return {} if self.has_place else dict(options)
        return form.core.untaken(options)

    def _give_options(self, options: Mapping[str, Any] | None) -> None:
        """Prepares the next reset of a source whose `reset` takes no options; called before the source is reset.

        Args:
            options: The options; None and an empty mapping mean none.
        """
        if not options:
            return
        form: Any = self.form_inside
        if form is not None:
            form.reset_options = fresh(options)
        elif not self._warned_of_options:
            native = type(self.unwrapped)
            # The same text for all lanes of a batch, so that Python shows it once.
            warn_user(
                f"options: a reset of {native.__module__}.{native.__qualname__} takes no options, so "
                f"{', '.join(map(repr, options))} changed nothing, nor will others; validate=True makes them an error",
                DroppedOptionsWarning,
            )
            self._warned_of_options = True
