"""Prioritized level replay, over a set or over new samples of a space; with mutation it is ACCEL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..context.sets import Context
from ..context.space import ContextSpace
from ..errors import ContextError
from .curriculum import Curriculum, Episode, check_choice, check_number, inverse, normalised

OF_EPISODES = ("learnability", "return_error", "max_return_gap", "slope")
OF_A_CRITIC = ("value_l1", "positive_value_loss", "max_mc")
RECENT = 20
"""The number of recent episodes of a context that determine its score."""


@dataclass
class Level:
    """The part of a context's history that scores need."""

    average: float | None = None  # of returns, exponential
    highest: float = -math.inf
    recent: list[tuple[int, float, float]] = field(default_factory=list[Any])  # (episodes before, return, success)


class PrioritizedLevelReplay(Curriculum):
    """Replays contexts with high scores more often (Jiang et al., 2021, arXiv:2010.03934).

    A context has the probability (1 - staleness) · P + staleness · Q. P is proportional to h^(1 / temperature), where h
    is its score or 1 / the rank of its score, and Q to the number of choices since it was last chosen, both among
    contexts with a score. Among equal scores, the later context's ranks higher. A new score replaces the last one.
    Contexts without a score are chosen first, uniformly.

    With `space`, contexts are new samples from it, with ids 0, 1, 2, …. A buffer keeps those with high scores. Once it
    is full, a fraction `replay` of choices replays them, and a new one enters if its score is at least the score of the
    kept one with the lowest probability. Policies learn from new contexts too, which robust PLR (Jiang et al., 2021,
    arXiv:2110.02439) does not allow: a selector cannot withhold gradients.

    With `mutate`, each episode of a replayed context makes a mutated copy. The next lane that begins gets it, and it
    enters the buffer like a new one: ACCEL (Parker-Holder et al., 2022, arXiv:2203.01302).

    Args:
        score: A score over a context's last 20 episodes: `"learnability"`, p (1 - p) of its success rate;
            `"return_error"`, |return - its exponential average| (at first, the average over all contexts);
            `"max_return_gap"`, its highest return - their mean; `"slope"`, |slope of its returns|. Or a critic's score,
            passed to `tell` as `score`: `"value_l1"`, `"positive_value_loss"`, `"max_mc"`, see `critic_score`.
        transform: `"rank"` or `"proportional"`.
        temperature: Lower values prefer the highest scores more strongly.
        staleness: The weight of Q.
        space: The features to sample, as for `Sampled`, or None to replay a fixed set of contexts.
        buffer: The number of contexts to keep, with `space`; None for 1,000.
        mutate: `(context, rng) -> context`, or None for no mutation.
        replay: The fraction of choices that replay, with `space`; None for 0.5, or 0.8 with `mutate`.
        seed: See `Curriculum`.

    Raises:
        ContextError: An argument is invalid. `tell` raises it if an episode lacks the success or score that `score`
            needs.
    """

    learned = ("_levels", "_scores", "_average", "_ended")

    def __init__(
        self,
        score: str = "return_error",
        *,
        transform: str = "rank",
        temperature: float = 0.1,
        staleness: float = 0.1,
        space: Any = None,
        buffer: int | None = None,
        mutate: Callable[[dict[str, Any], np.random.Generator], Mapping[str, Any]] | None = None,
        replay: float | None = None,
        seed: int = 0,
    ) -> None:
        check_choice("score", score, (*OF_EPISODES, *OF_A_CRITIC))
        check_choice("transform", transform, ("rank", "proportional"))
        check_number("temperature", temperature, 1e-6)
        check_number("staleness", staleness, 0, 1)
        self._makes_contexts = space is not None or mutate is not None
        if buffer is not None:
            check_number("buffer", buffer, 1, integer=True)
            if not self._makes_contexts:
                raise ContextError("buffer: expected None, because the set is replayed; give space or mutate")
        if mutate is not None and not callable(mutate):
            raise ContextError(f"mutate: expected a function (context, rng) -> context, got {mutate!r}")
        self.score, self.transform, self.temperature, self.staleness = score, transform, temperature, staleness
        self.space = None if space is None else ContextSpace.of(space)
        self.mutate, self.buffer = mutate, buffer or 1000
        self.replay = 1.0 if space is None else (0.5 if mutate is None else 0.8) if replay is None else replay
        check_number("replay", self.replay, 0, 1)
        self._instead_of_success = "use another score" if score == "learnability" else ""
        self._of_rank: NDArray[np.float64] = np.zeros(0)  # the priority of each rank
        super().__init__(seed=seed)

    def _fit(self) -> None:
        if self.space is not None:
            self._fit_features(self.space.features.values())
            self._fitted = ContextSpace(self._reach)

    def restart(self) -> None:
        if self._makes_contexts:
            self.contexts = {} if self.space is not None else dict(self._begun)
            self.contexts_keys = list(self.contexts)
            self._place = {key: place for place, key in enumerate(self.contexts_keys)}
        super().restart()
        n = len(self.contexts_keys)
        self._levels = [Level() for _ in range(n)]
        self._scores = np.full(n, np.nan)  # NaN before the first episode of a context has ended
        self._average: float | None = None  # of all returns
        self._ended = 0
        self.position = {**self.position, "idle": np.zeros(n), "new": n, "children": ()}

    # Episodes.

    def _place_of(self, key: Any) -> int:
        return self._place.get(key, -1) if self._makes_contexts else super()._place_of(key)

    def check(self, episodes: list[Episode]) -> list[Episode]:
        for key, context, _, _, _, score in super().check(episodes):
            if self.score in OF_A_CRITIC and score is None:
                raise ContextError(
                    f"tell: context {key!r}: {self.score} is a critic's score, and this episode has none; give the "
                    f"rows a 'score', or choose one of {list(OF_EPISODES)}"
                )
            if self._makes_contexts and not context:
                raise ContextError(f"tell: context {key!r}: expected its values as 'context', got none")
        return episodes

    def learn(self, episode: Episode, place: int) -> bool:
        level = self._levels[place] if place >= 0 else Level()
        score = self._score(level, episode)
        level.average = _moved(level.average, episode.total)
        self._average = _moved(self._average, episode.total)
        self._ended += 1
        if place < 0:
            self._enter(level, score, episode)
            return True
        is_replay = not math.isnan(self._scores.item(place))
        self._scores[place] = score
        if is_replay and self.mutate is not None:
            self._breed(self.contexts[episode.context_id])
        return True

    def _score(self, level: Level, episode: Episode) -> float:
        """Records an episode of a level, and returns the level's new score."""
        level.highest = max(level.highest, episode.total)
        level.recent.append((self._ended, episode.total, episode.success or 0.0))
        del level.recent[:-RECENT]
        if self.score in OF_A_CRITIC:
            return cast("float", episode.score)
        if self.score == "return_error":
            expected = self._average if level.average is None else level.average
            return 0.0 if expected is None else abs(episode.total - expected)
        time, mean, rate = (sum(column) / len(column) for column in zip(*level.recent, strict=True))
        if self.score == "learnability":
            return rate * (1 - rate)
        if self.score == "max_return_gap":
            return level.highest - mean
        spread = sum((one - time) ** 2 for one, _, _ in level.recent)
        return abs(sum((one - time) * (total - mean) for one, total, _ in level.recent) / (spread or 1))

    def _enter(self, level: Level, score: float, episode: Episode) -> None:
        """Adds a level to a full buffer only if it scores as high as the least likely level, which it replaces."""
        key, idle, place = episode.context_id, self.position["idle"].copy(), len(self.contexts_keys)
        contexts = cast("dict[Any, Context]", self.contexts)
        if place == self.buffer:
            place = int(np.argmin(self.weigh()))
            if score < self._scores[place]:
                return
            old = self.contexts_keys[place]
            del contexts[old], self._place[old]
        else:
            for column in (self.contexts_keys, self._levels, self._sums):
                column.append(cast("Any", None))
            self._scores, idle = np.append(self._scores, score), np.append(idle, 0.0)
        contexts[key], self._place[key], self.contexts_keys[place] = dict(episode.context), place, key
        self._levels[place], self._sums[place], self._scores[place], idle[place] = level, episode.sums, score, 0.0
        self.position = {**self.position, "idle": idle}

    def _breed(self, parent: Context) -> None:
        """Queues a mutated copy of a context."""
        number, position = self.position["new"], self.position
        while number in self._begun and self.space is None:
            number += 1
        made: Any = cast("Any", self.mutate)(dict(parent), np.random.default_rng((self.seed, number)))
        if not isinstance(made, Mapping) or set(cast("Any", made)) != set(parent):
            raise ContextError(f"mutate: expected a context of the features {list(parent)}, got {made!r}")
        child = dict(cast("Context", made))
        for space in (self._space, None if self.space is None else self._fitted):
            if space is not None:
                space.verify({name: child[name] for name in space.features if name in child}, "mutate: context")
        self.position = {**position, "new": number + 1, "children": (*position["children"], (number, child))}

    # Choices.

    def weigh(self) -> NDArray[np.float64]:
        """Returns the probability that each context is replayed next."""
        idle = np.where(np.isnan(self._scores), 0, self.position["idle"])
        return _mix(self._prioritised(), idle, self.staleness)

    def _prioritised(self) -> NDArray[np.float64]:
        """Returns P (see the class), which changes only with new scores."""
        there = ~np.isnan(self._scores)
        scores = self._scores[there]
        if self.transform == "rank":
            if len(self._of_rank) != len(scores):
                self._of_rank = normalised(np.arange(1.0, len(scores) + 1) ** (-1 / self.temperature))
            ranked = np.empty(len(scores))
            ranked[scores.argsort(kind="stable")[::-1]] = self._of_rank
        else:
            # As in the authors' code, a score of 0 is never replayed, unless nothing else keeps it in use.
            scores = np.maximum(scores, 0) + (0 if self.staleness else 1e-3)
            ranked = normalised((scores / (scores.max(initial=0) or 1)) ** (1 / self.temperature))
        weights = np.zeros(len(there))
        weights[there] = ranked
        return weights

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        self._check_begun()
        position = self.position
        idle, children, new = position["idle"], position["children"], position["new"]
        if children:
            self.position = {**position, "idle": idle + 1, "children": children[1:]}
            return children[0]
        number = self._numbers(position["n_calls"], 1)[0]
        if self.space is not None and (len(self._levels) < self.buffer or number >= self.replay):
            self.position = {**position, "idle": idle + 1, "new": new + 1}
            sample = self._fitted.sample(seed=np.random.default_rng((self.seed, new)))
            return new, {**next(iter(self._begun.values())), **sample}
        key = self.contexts_keys[self._take(1)[0]]
        return key, self.contexts[key]

    def _take(self, n: int) -> NDArray[np.intp]:
        unscored, idle, places = np.isnan(self._scores), self.position["idle"].copy(), list[int]()
        weights, share = (unscored.astype(np.float64), 0) if unscored.any() else (self._prioritised(), self.staleness)
        for number in (self._numbers(self.n_calls, n) / self.replay).tolist():
            place = int(inverse(_mix(weights, idle, share).cumsum(), number))
            idle += 1
            idle[place] = 0
            places.append(place)
        self.position = {**self.position, "idle": idle}
        return np.array(places, np.intp)

    def choose(self, rng: np.random.Generator) -> Any:
        return self._next(rng)[0]


def _mix(weights: NDArray[np.float64], idle: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Mixes staleness into the weights: the number of choices since each context was last chosen."""
    total = idle.sum()
    return (1 - share) * weights + share / total * idle if share and total else weights


def _moved(average: float | None, total: float) -> float:
    return total if average is None else average + 0.1 * (total - average)


def critic_score(
    score: str,
    rewards: Sequence[float],
    values: Sequence[float],
    *,
    last: float = 0.0,
    highest: float | None = None,
    discount: float = 0.999,
    trace: float = 0.95,
) -> float:
    """Scores an episode by a critic's value estimates.

    Args:
        score: `"value_l1"`, the mean absolute generalised advantage; `"positive_value_loss"`, the mean of their
            positive parts; or `"max_mc"`, the mean gap between the highest return and the values.
        rewards: The reward of each step.
        values: The value of the observation before each step.
        last: The value of the last observation; 0 if the episode has terminated.
        highest: The highest undiscounted return of the context so far, or None for the return of `rewards`.
        discount: The discount factor per step.
        trace: The parameter λ of generalised advantage estimation.
    """
    check_choice("score", score, OF_A_CRITIC)
    if score == "max_mc":
        return float((sum(rewards) if highest is None else highest) - np.mean(values))
    advantages, advantage, coming = list[float](), 0.0, last
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + discount * coming - value + discount * trace * advantage
        advantages.append(advantage)
        coming = value
    return float(np.mean(np.abs(advantages) if score == "value_l1" else np.maximum(advantages, 0)))
