"""The league of self-play: past versions of the learning policy, their games, and their ratings; imports no Ray."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAGUE = "league"
"""Key of a result for the league, as text."""
SCORES = "league_scores"
"""Key of a result, under `env_runners`, for the points of the learning policy in each game, by its opponent."""


RIVAL_RETURNS = "league_returns"
"""Key of a result, under `env_runners`, for the returns of the learning policy in the same games."""

GAMES = 300
"""Fewest games of a version before it can become a member."""
SCORE = 0.6
"""The least share of points against the members by which a version becomes one."""


@dataclass
class Member:
    """A version of the learning policy, frozen when it became a member.

    Args:
        iteration: Iterations of RLlib that it had learned from.
        env_steps: Env steps that it had learned from.
    """

    iteration: int = 0
    env_steps: int = 0


@dataclass
class League:
    """The members of a league, numbered from 0, the untrained policy; the learning policy has the next number.

    A version of the learning policy plays against the members that are in the slots. Once it wins enough, it becomes a
    member itself, and the learning policy is the next version from then on.

    Args:
        slots: The member in each slot.
        members: All members so far, also those that are in no slot any more.
        games: Games of version i against member j, by "i-j".
        points: Points of version i in these games: 1 for a win, 0.5 for a tie.
    """

    slots: list[int]
    members: list[Member] = field(default_factory=lambda: [Member()])
    games: dict[str, int] = field(default_factory=dict[str, int])
    points: dict[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def new(cls, slots: int) -> League:
        """Returns the league of an untrained policy, which is in all slots."""
        return cls([0] * slots)

    @classmethod
    def from_json(cls, text: str) -> League:
        """Returns the league that `to_json` has written."""
        values = json.loads(text)
        return cls(**{**values, "members": [Member(**member) for member in values["members"]]})

    def to_json(self) -> str:
        """Returns the league as text."""
        return json.dumps(asdict(self))

    @property
    def version(self) -> int:
        """The number of the learning policy."""
        return len(self.members)

    def record(self, scores: Mapping[int, Sequence[float]]) -> None:
        """Adds games of the learning policy.

        Args:
            scores: The points of the learning policy in each game, by the slot of its opponent.
        """
        for slot, points in scores.items():
            pair = f"{self.version}-{self.slots[slot]}"
            self.games[pair] = self.games.get(pair, 0) + len(points)
            self.points[pair] = self.points.get(pair, 0.0) + float(sum(points))

    @property
    def score(self) -> float | None:
        """The share of points of the learning policy against the members in the slots; None before a game of each."""
        members = set(self.slots)
        shares = [self._share(member) for member in members if self._share(member) is not None]
        return float(np.mean(np.array(shares, float))) if len(shares) == len(members) else None

    def _share(self, member: int) -> float | None:
        pair = f"{self.version}-{member}"
        return self.points[pair] / self.games[pair] if self.games.get(pair) else None

    @property
    def is_due(self) -> bool:
        """True if the learning policy has won enough games to become a member."""
        played = sum(self.games.get(f"{self.version}-{member}", 0) for member in set(self.slots))
        score = self.score
        return played >= GAMES and score is not None and score >= SCORE

    def admit(self, iteration: int, env_steps: int) -> int:
        """Makes the learning policy a member.

        Args:
            iteration: Iterations that it has learned from.
            env_steps: Env steps that it has learned from.

        Returns:
            The slot that its weights belong in: one of a member that is in two of them, or else that of the member
            whom it beats most often, from whom there is least to learn.
        """

        def easiness(slot: int) -> tuple[bool, float, int]:
            member = self.slots[slot]
            share = self._share(member)
            return self.slots.count(member) > 1, 0.5 if share is None else share, -member

        slot = max(range(len(self.slots)), key=easiness)
        self.slots[slot] = self.version
        self.members.append(Member(iteration, env_steps))
        return slot

    def table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns games and points of version i against version j, two arrays of shape (versions, versions)."""
        games = np.zeros((self.version + 1, self.version + 1))
        points = np.zeros_like(games)
        for pair, count in self.games.items():
            one, other = map(int, pair.split("-"))
            games[one, other] += count
            games[other, one] += count
            points[one, other] += self.points[pair]
            points[other, one] += count - self.points[pair]
        return games, points

    def ratings(self) -> NDArray[np.float64]:
        """Returns the Elo rating of each version, the learning policy last; that of the untrained policy is 0."""
        return elo_ratings(*self.table())

    def describe(self) -> dict[str, Any]:
        """Returns the league as plain values for a file: versions with their ratings, and games and points by pair."""
        games, points = self.table()
        ratings = elo_ratings(games, points)
        versions: list[dict[str, Any]] = []
        for number, elo in enumerate(ratings):
            member = self.members[number] if number < len(self.members) else None
            total = float(games[number].sum())
            versions.append(
                {
                    "version": number,
                    "name": "untrained" if number == 0 else "learning" if member is None else "version",
                    "env_steps": None if member is None else member.env_steps,
                    "elo": round(float(elo), 1),
                    "games": int(total),
                    "score": round(float(points[number].sum()) / total, 4) if total else None,
                    "slots": [slot for slot, held in enumerate(self.slots) if held == number],
                }
            )
        return {"versions": versions, "games": games.astype(int).tolist(), "points": points.tolist()}


def elo_ratings(games: NDArray[np.float64], points: NDArray[np.float64], rounds: int = 500) -> NDArray[np.float64]:
    """Estimates Elo ratings from games, by maximum likelihood.

    The model is that of Bradley and Terry (1952), fitted by the algorithm of Hunter (2004), "MM algorithms for
    generalized Bradley-Terry models". Each pair that has met is given one tied game more, so that the rating of a
    player that wins all games stays finite. The order of the games makes no difference.

    Args:
        games: Games of player i against player j, shape (n, n), symmetric.
        points: Points of player i against player j: 1 for a win, 0.5 for a tie.
        rounds: Steps of the algorithm.

    Returns:
        The ratings, shape (n,), that of the first player 0. A player without a game has that of the player before it.
    """
    met = games > 0
    played, won = games + met, (points + 0.5 * met).sum(axis=1)
    active: NDArray[np.bool_] = np.asarray(met.any(axis=1))
    strength = np.ones(len(games))
    for _ in range(rounds):
        expected = (played / (strength[:, None] + strength[None, :])).sum(axis=1)
        strength = np.where(active, won / np.where(active, expected, 1.0), strength)
        strength /= np.exp(np.mean(np.log(strength)))
    ratings = 400.0 * np.log10(strength)
    for player in range(1, len(ratings)):
        if not active[player]:
            ratings[player] = ratings[player - 1]
    return ratings - ratings[0]
