"""The league of self-play, with the games and ratings of past versions; and returns by agent and policy.

The frozen policies are a fixed number of modules, whose weights are replaced. They are thus in every checkpoint, and a
restarted env runner receives them as any other module. The league itself is an item of the algorithm's metrics, which
a checkpoint has as well: the result of an iteration shows the league as of the iteration before it, restored or not.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

AGENT_RETURNS, POLICY_RETURNS = "agent_returns", "policy_returns"
"""Keys of a result, under `env_runners`: returns of the episodes that ended in its iteration, by agent or policy."""
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
SLOTS = 6
"""Frozen opponents of self-play."""
MIRROR = 0.3
"""Share of the episodes of self-play in which the learning policy plays both sides."""

# Who plays.

LEARNER = "main"
"""The policy that learns in self-play."""
SEATS = "envoi_seats"
"""Key of an episode's custom data for the policy of each agent; RLlib keeps these data when it cuts an episode."""


def opponents(count: int) -> tuple[str, ...]:
    """Returns the names of the frozen policies of self-play, one for each of `count` slots."""
    return tuple(f"opponent_{slot}" for slot in range(count))


class SelfPlayMapping:
    """Assigns the learning policy and an opponent to the agents of each episode, on random sides.

    The opponent is the learning policy itself in a share of the episodes, and otherwise one of the frozen policies,
    each equally likely. The random numbers are those of numpy's global generator, which RLlib seeds in each process.
    """

    def __init__(self, agents: Sequence[Any], slots: int = SLOTS, mirror: float = MIRROR) -> None:
        self.agents, self.slots, self.mirror = tuple(agents), slots, mirror

    def __call__(self, agent_id: Any, episode: Any = None, **_: Any) -> str:
        """Returns the policy that plays an agent in an episode."""
        # The constructor of a cut episode asks before it has custom data, and does not use the answer.
        data: dict[str, Any] | None = getattr(episode, "custom_data", None)
        if data is None:
            return LEARNER
        if SEATS not in data:
            data[SEATS] = self._sample()
        return data[SEATS][agent_id]

    def _sample(self) -> dict[Any, str]:
        seats = dict.fromkeys(self.agents, LEARNER)
        share, slot, side = np.random.random(3)  # noqa: NPY002 - the generator that RLlib seeds
        if share >= self.mirror:
            seats[self.agents[int(side * len(self.agents))]] = opponents(self.slots)[int(slot * self.slots)]
        return seats


# The members and their ratings.


@dataclass
class Member:
    """A version of the learning policy, frozen when it became a member."""

    iteration: int = 0
    env_steps: int = 0


@dataclass
class League:
    """The members of a league, numbered from 0 (the untrained policy); the learning policy has the next free number.

    A version of the learning policy plays against the members that are in the slots. Once it wins enough, it becomes a
    member itself, and the learning policy is the next version from then on.
    """

    slots: list[int]
    members: list[Member] = field(default_factory=lambda: [Member()])
    games: dict[str, int] = field(default_factory=dict[str, int])
    points: dict[str, float] = field(default_factory=dict[str, float])

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
        """Adds games of the learning policy."""
        for slot, points in scores.items():
            pair = f"{self.version}-{self.slots[slot]}"
            self.games[pair] = self.games.get(pair, 0) + len(points)
            self.points[pair] = self.points.get(pair, 0.0) + float(sum(points))

    def _share(self, member: int) -> float | None:
        """Returns the learning policy's share of the points against a member, or None before their first game."""
        pair = f"{self.version}-{member}"
        return self.points[pair] / self.games[pair] if self.games.get(pair) else None

    @property
    def score(self) -> float | None:
        """The learning policy's mean share of the points against the members in the slots; None until each was met."""
        shares = [self._share(member) for member in set(self.slots)]
        return None if None in shares else float(np.mean(np.array(shares, float)))

    @property
    def is_due(self) -> bool:
        """True if the learning policy has won enough games to become a member."""
        played = sum(self.games.get(f"{self.version}-{member}", 0) for member in set(self.slots))
        score = self.score
        return played >= GAMES and score is not None and score >= SCORE

    def admit(self, iteration: int, env_steps: int) -> int:
        """Makes the learning policy a member, in the slot of the member that it beats most often; returns the slot."""
        easiness: list[tuple[bool, float, int]] = []
        for member in self.slots:
            share = self._share(member)
            easiness.append((self.slots.count(member) > 1, 0.5 if share is None else share, -member))
        slot = easiness.index(max(easiness))
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

    def describe(self) -> dict[str, Any]:
        """Returns the league as plain values for a file: versions with their ratings, and games and points by pair."""
        games, points = self.table()
        versions = [
            {
                "version": number,
                "name": "learning" if number == self.version else "version" if number else "untrained",
                "env_steps": None if number == self.version else self.members[number].env_steps,
                "elo": round(float(elo), 1),
                "games": int(games[number].sum()),
                "score": round(float(points[number].sum() / games[number].sum()), 4) if games[number].any() else None,
                "slots": [slot for slot, held in enumerate(self.slots) if held == number],
            }
            for number, elo in enumerate(elo_ratings(games, points))
        ]
        return {"versions": versions, "games": games.astype(int).tolist(), "points": points.tolist()}


def elo_ratings(games: NDArray[np.float64], points: NDArray[np.float64], rounds: int = 500) -> NDArray[np.float64]:
    """Estimates Elo ratings from games, by maximum likelihood.

    The model is that of Bradley and Terry (1952), fitted by the algorithm of Hunter (2004), "MM algorithms for
    generalized Bradley-Terry models". Each pair that has met gets an additional tied game, so that the rating of a
    player that wins all games stays finite. The order of the games makes no difference.
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


# Inside an algorithm: games are counted, and versions frozen, after each iteration.


def begin(algorithm: Any) -> None:
    """Puts the untrained policy into all slots of a new algorithm of self-play."""
    if isinstance(algorithm.config.policy_mapping_fn, SelfPlayMapping):
        _freeze(algorithm, opponents(algorithm.config.policy_mapping_fn.slots))


def advance(algorithm: Any, metrics_logger: Any, result: dict[str, Any]) -> None:
    """Counts the games of an iteration, and freezes the learning policy if it has become a member."""
    mapping = algorithm.config.policy_mapping_fn
    if not isinstance(mapping, SelfPlayMapping):
        return
    known = result.get(LEAGUE)
    league = League.from_json(known) if isinstance(known, str) else League([0] * mapping.slots)
    scores = result.get("env_runners", {}).get(SCORES, {})
    ended = {slot: scores.get(name) for slot, name in enumerate(opponents(mapping.slots))}
    league.record({slot: points for slot, points in ended.items() if isinstance(points, list)})  # a NaN if none ended
    if league.is_due:
        steps = int(result.get("num_env_steps_sampled_lifetime", 0))
        _freeze(algorithm, [f"opponent_{league.admit(int(result['training_iteration']), steps)}"])
    result[LEAGUE] = league.to_json()
    metrics_logger.log_value(LEAGUE, result[LEAGUE], reduce="item")


def _freeze(algorithm: Any, names: Sequence[str]) -> None:
    """Copies the weights of the learning policy to frozen policies, in learners and env runners."""
    group = algorithm.learner_group
    full = group.get_state(components=f"learner/rl_module/{LEARNER}")["learner"]["rl_module"][LEARNER]
    group.set_state({"learner": {"rl_module": dict.fromkeys(names, full)}})
    acting = group.get_state(components=f"learner/rl_module/{LEARNER}", inference_only=True)
    weights = dict.fromkeys(names, acting["learner"]["rl_module"][LEARNER])

    # Without a sequence number, which is that of the weights that the runners have, and which they would ignore.
    algorithm.env_runner_group.foreach_env_runner(partial(_set_weights, weights=weights))


def _set_weights(env_runner: Any, weights: Mapping[str, Any]) -> None:
    env_runner.set_state({"rl_module": weights})


# The episodes of an env runner.


def log_returns(episode: Any, earlier_chunks: Sequence[Any], metrics_logger: Any, env_runner: Any = None) -> None:
    """Logs the return of each agent and policy in a whole episode, and in self-play the points of the learning policy.

    The return of a policy is the mean over the agents that it played in the episode.
    """
    returns: dict[Any, float] = defaultdict(float)
    for chunk in (*earlier_chunks, episode):
        for agent, own in chunk.agent_episodes.items():
            returns[agent] += float(own.get_return())
    by_policy: dict[str, list[float]] = defaultdict(list)
    seats = {agent: episode.module_for(agent) for agent in returns}
    for agent, total in returns.items():
        by_policy[seats[agent]].append(total)
        metrics_logger.log_value((AGENT_RETURNS, str(agent)), total, reduce="item_series")
    for policy, totals in by_policy.items():
        metrics_logger.log_value((POLICY_RETURNS, policy), sum(totals) / len(totals), reduce="item_series")
    if isinstance(getattr(getattr(env_runner, "config", None), "policy_mapping_fn", None), SelfPlayMapping):
        for rival, points, own in _games([(seats, returns)]):
            metrics_logger.log_value((SCORES, rival), points, reduce="item_series")
            metrics_logger.log_value(RIVAL_RETURNS, own, reduce="item_series")


def ended_returns(result: Mapping[str, Any]) -> dict[str, list[float]]:
    """Reads the returns that an iteration has logged."""
    found: dict[str, list[float]] = {}
    for key, what in ((POLICY_RETURNS, "policy"), (AGENT_RETURNS, "agent")):
        for name, values in result.get("env_runners", {}).get(key, {}).items():
            if isinstance(values, list):  # a NaN if none ended
                found[f"{what}/{name}"] = [float(value) for value in values]
    return found


Game = tuple[Mapping[Any, str], Mapping[Any, float]]
"""The policy and the return of each agent."""


def _games(games: Iterable[Game]) -> Iterable[tuple[str, float, float]]:
    """Yields for each game against another policy the opponent, and the learning policy's points and return."""
    for seats, returns in games:
        totals = {seats[agent]: total for agent, total in returns.items()}
        rivals = totals.keys() - {LEARNER}
        if LEARNER in totals and len(rivals) == 1:
            (rival,) = rivals
            own, other = totals[LEARNER], totals[rival]
            yield rival, 0.5 + 0.5 * (own > other) - 0.5 * (own < other), own


# An evaluation.


@dataclass(frozen=True)
class Match:
    """The games of the learning policy against one past version."""

    opponent: str
    wins: int
    ties: int
    losses: int

    @property
    def points(self) -> float:
        """The share of the points, from 0 to 1; a tie is half a point."""
        return (self.wins + 0.5 * self.ties) / (self.wins + self.ties + self.losses)


def matches(games: Iterable[Game], league: Mapping[str, Any] | None) -> tuple[Match, ...]:
    """Counts the learning policy's games against each past version; names the versions if the league is known."""
    names: dict[str, str] = {}
    for version in (league or {}).get("versions", ()):
        number, steps = version["version"], version["env_steps"]
        name = f"version {number} ({f'frozen at {steps:,} steps' if steps else version['name']})"
        names |= {f"opponent_{slot}": name for slot in version["slots"]}
    found: dict[str, list[float]] = defaultdict(list)
    for rival, points, _ in _games(games):
        found[names.get(rival, rival)].append(points)
    made = [Match(rival, each.count(1.0), each.count(0.5), each.count(0.0)) for rival, each in found.items()]
    return tuple(sorted(made, key=lambda match: match.points))
