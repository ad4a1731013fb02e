"""The requirements on an environment and on its forms, by theme, in the order of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..requirement import Requirement
from ..suites import SUITES
from .copies import COPIES, LANE_REQUIREMENTS
from .episodes import EPISODES, INTERFACE
from .forms import FORM_REQUIREMENTS
from .randomness import RANDOMNESS
from .values import AGENTS, VALUES


class Theme(NamedTuple):
    """Requirements of one theme: its title, what its checks are about, and the keys of its requirements in order."""

    title: str
    sentence: str
    keys: tuple[str, ...]


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

_SENTENCES = {
    "Values": "Observations, rewards and infos are of their specs, and stay as they were returned.",
    "Several agents": "Agents join, act, end and are left out as their API says.",
    "Random numbers": "A seed fixes everything, and nothing else has an influence.",
    "Episodes": "Episodes begin, end and are truncated as their API says.",
    "Interface": "Spaces, metadata, closing and rendering behave as a training loop expects.",
    "Copies and snapshots": "A copy or a snapshot continues exactly as the environment does.",
    "Lanes": "An environment of a batch plays as it does alone.",
    "Conversion": "The environment in each framework's form is the same environment.",
    "Suites of the frameworks": "The conformance checks that the frameworks ship accept the form.",
}
_KEYS = {title: tuple(one.key for one in requirements) for title, requirements in REQUIREMENTS_OF.items()}
_KEYS |= {"Conversion": tuple(FORM_REQUIREMENTS), "Suites of the frameworks": tuple(suite.key for suite in SUITES)}
THEMES = tuple(Theme(title, sentence, _KEYS[title]) for title, sentence in _SENTENCES.items())
