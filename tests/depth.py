"""How many examples a property is tried on."""

from typing import Any

from hypothesis import settings


def examples(count: int, **others: Any) -> settings:
    """Returns the settings of a property that needs `count` examples at full depth.

    In the quick profile it gets a tenth of them, but at least 20 (or all, if it needs fewer) and at most 100.

    Args:
        count: The examples of the profile `full`.
        **others: Further settings, the same in both profiles.
    """
    if settings.get_current_profile_name() != "full":
        count = min(count, max(20, count // 10), 100)
    return settings(max_examples=count, **others)
