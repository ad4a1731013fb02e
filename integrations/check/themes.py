"""The requirements by theme, each theme with a sentence on what its checks are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .requirement import Requirement
from .requirements.agents import AGENTS
from .requirements.copies import COPIES
from .requirements.episodes import EPISODES
from .requirements.forms import FORM_REQUIREMENTS
from .requirements.interface import INTERFACE, RENDERING
from .requirements.lanes import LANE_REQUIREMENTS
from .requirements.randomness import RANDOMNESS
from .requirements.values import VALUES
from .suites import SUITES


@dataclass(frozen=True)
class Theme:
    """Requirements of one theme.

    Attributes:
        title: Its title.
        sentence: What its checks are about.
        keys: The keys of its requirements, in their order.
    """

    title: str
    sentence: str
    keys: tuple[str, ...]


REQUIREMENTS_OF: Mapping[str, tuple[Requirement, ...]] = {
    "Values": (*VALUES,),
    "Several agents": (*AGENTS,),
    "Random numbers": (*RANDOMNESS,),
    "Episodes": (*EPISODES,),
    "Interface": (*INTERFACE, *RENDERING),
    "Copies and snapshots": (*COPIES,),
    "Lanes": (*LANE_REQUIREMENTS,),
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
}
THEMES = (
    *(
        Theme(title, _SENTENCES[title], tuple(one.key for one in requirements))
        for title, requirements in REQUIREMENTS_OF.items()
    ),
    Theme("Conversion", "The environment in each framework's form is the same environment.", (*FORM_REQUIREMENTS,)),
    Theme(
        "Suites of the frameworks",
        "The conformance checks that the frameworks ship accept the form.",
        tuple(suite.key for suite in SUITES),
    ),
)
"""All themes, in the order of a report."""
