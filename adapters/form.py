"""What the forms of all frameworks share."""

from __future__ import annotations

from copy import deepcopy
from typing import Self


class AnyForm:
    """A form of a core environment. A copy of it has a core of its own, for a shallow one would share the episode."""

    def __copy__(self) -> Self:
        return deepcopy(self)
