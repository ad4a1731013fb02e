"""Where an episode is, and why no step can be taken there."""

from __future__ import annotations

from enum import Enum, auto

NOT_RESET = "the episode has not begun; call reset() first"
ENDED = "the episode has ended; call reset() before the next step"
ENDED_LANES = "the episode has ended; reset them by reset(mask=…), or in the next step by step(actions, restart=…)"


class EpisodeState(Enum):
    """Where an episode is. As text, the reason why no step can be taken."""

    NOT_BEGUN = auto()
    RUNNING = auto()
    OVER = auto()

    def __str__(self) -> str:
        return _REASONS.get(self, "the episode is running")


NOT_BEGUN, RUNNING, OVER = EpisodeState.NOT_BEGUN, EpisodeState.RUNNING, EpisodeState.OVER
"""The states by names of a module, which steps look up faster than the attributes of an enum."""

_REASONS = {NOT_BEGUN: NOT_RESET, OVER: ENDED}
