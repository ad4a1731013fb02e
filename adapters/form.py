"""What the forms of all frameworks share, and what importers make of a form that they find in their source."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self


class AnyForm:
    """A form of a core environment. A copy of it has a core of its own, for a shallow one would share the episode."""

    core: Any

    def assign_lane(self, number: int) -> None:
        """See `envoi.Process.assign_lane`."""
        self.core.assign_lane(number)

    def __copy__(self) -> Self:
        return deepcopy(self)


class MayHoldForm:
    """An imported environment whose source may be a form of ours, inside the wrappers of another framework."""

    unwrapped: Any

    def assign_lane(self, number: int) -> None:
        """See `envoi.Process.assign_lane`."""
        if isinstance(self.unwrapped, AnyForm):
            self.unwrapped.assign_lane(number)
