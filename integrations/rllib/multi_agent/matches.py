"""Games of the learning policy of self-play against the past versions in its league, in an evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .mapping import LEARNER, opponent


@dataclass(frozen=True)
class Match:
    """The games of the learning policy against one past version.

    Args:
        opponent: The version: its number in the league and, if it has one, the step at which it was frozen; or the name
            of the frozen policy, if the league is not known.
        wins: Games in which the return of the learning policy was greater.
        ties: Games of equal returns.
        losses: Games in which it was less.
    """

    opponent: str
    wins: int
    ties: int
    losses: int

    @property
    def points(self) -> float:
        """The share of the points, from 0 to 1; a tie is half a point."""
        return (self.wins + 0.5 * self.ties) / (self.wins + self.ties + self.losses)


def points_of(own: float, other: float) -> float:
    """Returns the points of a game: 1 for a greater return, 0.5 for the same, 0 for a lesser one.

    Args:
        own: The return of the player.
        other: The return of its opponent.
    """
    return 0.5 + 0.5 * (own > other) - 0.5 * (own < other)


def matches(
    games: Iterable[tuple[Mapping[str, str], Mapping[str, float]]], league: Mapping[str, Any] | None
) -> tuple[Match, ...]:
    """Counts the games of the learning policy against each past version.

    Args:
        games: The policy of each agent, and its return, of each game; those of the learning policy alone do not count.
        league: The league, as `League.describe` gives it; None if it is not known.

    Returns:
        The matches, the strongest version first: that against which the share of points is least.
    """
    names = _names(league)
    found: dict[str, list[float]] = {}
    for seats, returns in games:
        totals = {policy: returns[agent] for agent, policy in seats.items()}
        rivals = totals.keys() - {LEARNER}
        if LEARNER in totals and len(rivals) == 1:
            (rival,) = rivals
            found.setdefault(names.get(rival, rival), []).append(points_of(totals[LEARNER], totals[rival]))
    made = [
        Match(opponent, points.count(1.0), points.count(0.5), points.count(0.0)) for opponent, points in found.items()
    ]
    return tuple(sorted(made, key=lambda match: match.points))


def _names(league: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns the version that each frozen policy has, in words."""
    names: dict[str, str] = {}
    for version in (league or {}).get("versions", ()):
        number, steps = version["version"], version["env_steps"]
        name = f"version {number} ({f'frozen at {steps:,} steps' if steps else version['name']})"
        names |= dict.fromkeys(map(opponent, version["slots"]), name)
    return names
