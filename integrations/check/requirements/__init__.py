"""The requirements on an environment and on its forms, by theme, in the order of a report."""

from __future__ import annotations

from collections.abc import Mapping

from ..requirement import Requirement
from .forms import FORM_REQUIREMENTS, SUITES
from .lifecycle import COPIES, EPISODES, INTERFACE, LANE_REQUIREMENTS
from .randomness import RANDOMNESS
from .values import AGENTS, VALUES

REQUIREMENTS_OF: Mapping[str, tuple[Requirement, ...]] = {
    "Values": VALUES,
    "Several agents": AGENTS,
    "Random numbers": RANDOMNESS,
    "Episodes": EPISODES,
    "Interface": INTERFACE,
    "Copies and snapshots": COPIES,
    "Lanes": LANE_REQUIREMENTS,
}
"""The requirements on every environment by the title of their theme."""

ON_FORMS = {
    "Conversion": FORM_REQUIREMENTS,
    "Suites of the frameworks": tuple(suite for suites in SUITES.values() for suite in suites),
}
THEMES = {title: tuple(one.key for one in found) for title, found in {**REQUIREMENTS_OF, **ON_FORMS}.items()}
"""The keys of all requirements by the title of their theme."""
