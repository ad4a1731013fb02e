"""Results of evaluations, and the files that hold them."""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from envoi.adapters import load
from envoi.atomic_write import write_atomically

from ..env_contexts import read_set, with_contexts
from ..rllib import RunFolder, Settings
from ..rllib.multi_agent.league import Match
from ..rllib.run_folder import best_trial

Form = Literal["core", "gymnasium"]


@dataclass(frozen=True)
class Episode:
    """One episode.

    Args:
        seed: Seed of the reset.
        episode_return: Sum of the rewards, not discounted.
        length: Steps.
        trace: SHA-256 of all observations in their canonical form.
        context_id: Id of the episode's context; None if the env has no contexts.
        agents: Return of each agent, by its name; None for one agent.
        seats: Policy of each agent, by its name; None for one agent.
    """

    seed: int
    episode_return: float
    length: int
    trace: str
    context_id: Any = None
    agents: dict[str, float] | None = None
    seats: dict[str, str] | None = None


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % confidence interval by Student's t.

    Args:
        mean: The mean.
        std: Standard deviation of the sample (n - 1); None for one value.
        low: Lower end of the interval; None for one value.
        high: Upper end.
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ± {self.high - self.mean:.2f}"


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Args:
        env: Name of the env that the episodes are from.
        algo: Name of the algorithm.
        checkpoint: The checkpoint, relative to the folder.
        form: The form of the env that the episodes are from.
        forms_agree: True if the other form gave the same episodes; None if it was not run.
        explore: True if actions were sampled, False if the best were taken.
        seed: Seed that the episodes' seeds are derived from.
        episode_return: Mean return of the episodes.
        length: Mean length of the episodes.
        episodes: The episodes.
        contexts: Mean return in each context by its id; None if all episodes share one context.
        agents: Mean return of each agent, by its name; None for one agent.
        policies: Mean return of the agents that each policy played; None for one agent.
        matches: After self-play, the games of the learning policy against each past version in the league; else None.
    """

    env: str
    algo: str
    checkpoint: str
    form: Form | Literal["rllib"]
    forms_agree: bool | None
    explore: bool
    seed: int
    episode_return: Estimate
    length: Estimate
    episodes: tuple[Episode, ...]
    contexts: dict[Any, Estimate] | None = None
    agents: dict[str, Estimate] | None = None
    policies: dict[str, Estimate] | None = None
    matches: tuple[Match, ...] | None = None


def by_agent(episodes: Sequence[Episode]) -> dict[str, Estimate] | None:
    """Returns the mean return of each agent; None for one agent."""
    return _estimates(pair for episode in episodes for pair in (episode.agents or {}).items()) or None


def by_policy(episodes: Sequence[Episode]) -> dict[str, Estimate] | None:
    """Returns the mean return of an agent of each policy, where episodes count once each; None for one agent."""
    means: list[tuple[str, float]] = []
    for episode in episodes:
        own: dict[str, list[float]] = {}
        for agent, policy in (episode.seats or {}).items():
            own.setdefault(policy, []).append((episode.agents or {})[agent])
        means += [(policy, statistics.fmean(totals)) for policy, totals in own.items()]
    return _estimates(sorted(means, key=lambda pair: pair[0])) or None


def by_context(episodes: Sequence[Episode]) -> dict[Any, Estimate] | None:
    """Returns the mean return in each context by its id; None where the episodes share one context."""
    found = _estimates((episode.context_id, episode.episode_return) for episode in episodes)
    return found if len(found) > 1 else None


def _estimates(pairs: Iterable[tuple[Any, float]]) -> dict[Any, Estimate]:
    """Estimates the mean of the values of each key."""
    values: dict[Any, list[float]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: estimate(found) for key, found in values.items()}


def estimate(values: Sequence[float]) -> Estimate:
    """Estimates the mean of a non-empty sample, with its 95 % confidence interval by Student's t."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean, None, None, None)
    from scipy.stats import t

    std = statistics.stdev(values)
    half = float(t.ppf(0.975, len(values) - 1)) * std / len(values) ** 0.5
    return Estimate(mean, std, mean - half, mean + half)


def trained_on(run: RunFolder, settings: Settings) -> str:
    """Returns the name of the env that the best trial was trained on, with the arguments that a sweep gave it."""
    best = best_trial(run.read_state(settings)) or 0
    return settings.env_of(settings.trials[best].overrides)


@dataclass(frozen=True)
class EnvOfRun:
    """Makes the env that the best trial of a run was trained on, with the contexts that it was trained in."""

    name: str
    contexts: str | None

    @classmethod
    def read(cls, run: RunFolder) -> EnvOfRun:
        settings = run.read_settings()
        return cls(trained_on(run, settings), settings.contexts)

    def __call__(self) -> Any:
        env = load(self.name)
        if self.contexts is None:
            return env
        return with_contexts(env, contexts=read_set(self.contexts, env), context_selector=None)


def evaluation_file(run: RunFolder, env: str | None) -> Path:
    """Returns the path of the file that an evaluation is written to.

    Args:
        run: The output folder of the job.
        env: Name of the evaluated env, which has a file of its own; None for the one that the policy was trained on.
    """
    if env is None:
        return run.evaluation
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in env)
    return run.evaluation.with_name(f"{run.evaluation.stem}-{name}{run.evaluation.suffix}")


def write_evaluation(path: Path, evaluation: Evaluation) -> None:
    """Writes an evaluation to a file, in which contexts are named as by `context_labels`."""
    document = asdict(evaluation) | {"interval": "95 %, Student's t with n - 1 degrees of freedom"}
    if evaluation.contexts is not None:
        estimates = map(asdict, evaluation.contexts.values())
        document["contexts"] = dict(zip(context_labels(evaluation.contexts), estimates, strict=True))
    write_atomically(path, json.dumps(document, indent=1, default=_plain))


def context_labels(ids: Iterable[Any]) -> list[str]:
    """Returns a label for each context id, all different: `str(id)`, or `repr(id)` where two share that (1 and "1")."""
    known = list(ids)
    texts = Counter(map(str, known))
    labels: list[str] = []
    for one in known:
        label = written = str(one) if texts[str(one)] == 1 else repr(one)
        number = itertools.count(2)
        while label in labels:  # objects of equal repr
            label = f"{written} ({next(number)})"
        labels.append(label)
    return labels


def _plain(value: Any) -> Any:
    """Converts a value that JSON cannot hold, such as a context id: numpy numbers to numbers, all else to text."""
    return value.item() if isinstance(value, np.generic) else str(value)
