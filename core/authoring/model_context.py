"""The context of a model: the values of the features that its author declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..context import ContextSpace


class HasContext:
    """Base of models of one agent and of several.

    Attributes:
        context_space: The features of this model's contexts, with defaults and bounds; None if it has none.
    """

    context_space: ContextSpace | None = None

    _context: Mapping[str, Any] = {}

    @property
    def context(self) -> dict[str, Any]:
        """The context of the coming episodes, with defaults filled in; can be set, and is checked by `context_space`.

        Raises:
            ContextError: It is set to a value that its feature does not allow, or has a feature that does not exist.
        """
        return {**(self.context_space.defaults if self.context_space else {}), **self._context}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        if self.context_space is not None:
            self.context_space.verify(context)
        self._context = dict(context)
