"""Evaluates the policy of a run: plays its episodes, estimates returns, and writes `evaluation.json`.

A single agent plays in a form of the env, several agents play in RLlib's form.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

import envoi
from envoi import adapters, tree
from envoi.atomic_write import write_atomically
from envoi.context.features import plain

from ..env_contexts import contextual_of
from ..errors import check_number, one_line
from ..rllib import RunFolder
from ..rllib.multi_agent.league import Match, matches
from .episodes import Lane, Task, one_lane
from .policies import EnvOfRun, OfRLlib

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


# Playing.


def play_episodes(
    name: str, env: Any, policy: Any, seeds: Sequence[int], max_steps: int, form: Form = "core", in_turn: bool = True
) -> Iterator[Episode]:
    """Plays an episode from each seed: a single agent in a form of the env, several agents in RLlib's form.

    If `in_turn`, episodes take the contexts of a set one after the other; otherwise the env chooses them.
    """
    if hasattr(policy, "grouping"):  # the policies of several agents
        with one_line():
            played: Any = adapters.to_rllib(lambda: env, canonical="structured", action_masks=policy.sees_masks)({})
        policy.check_fits(name, played)
        play_one: Any = partial(_play_joint_episode, played, policy, max_steps)
    else:
        env, acting = one_lane(env, "a policy of one agent"), OfRLlib(policy, None, name)
        played = acting.form(env) if form == "core" else adapters.to_gymnasium(acting.form(env))
        play_one = partial(_play_episode, Lane(played, acting, max_steps), acting)
    contextual = contextual_of(env) if in_turn else None
    ids = [] if contextual is None or len(contextual.contexts) < 2 else list(contextual.contexts)
    for index, seed in enumerate(seeds):
        yield play_one(index, seed, {"context_id": ids[index % len(ids)]} if ids else None)


def _play_episode(lane: Lane, acting: OfRLlib, index: int, seed: int, options: Any) -> Episode:
    lane.begin(Task(index, {"seed": seed, **(options or {})}, options))
    trace, row, context_id = hashlib.sha256(_bytes_of(acting.encode(lane))), None, lane.info.get("context_id")
    while row is None:
        row = lane.step(*acting.act([lane]))
        trace.update(_bytes_of(acting.encode(lane)))
    return Episode(seed, row["return"], row["length"], trace.hexdigest(), context_id)


def _play_joint_episode(env: Any, policy: Any, max_steps: int, index: int, seed: int, options: Any) -> Episode:
    """Plays a multi-agent episode in RLlib's form."""
    policy.reset(seed, policy.seats_of_episode(index))
    with one_line():
        env.forget_seeds()
        observations, infos = env.reset(seed=seed, options=options)
    trace = hashlib.sha256(_bytes_of_agents(observations))
    returns = dict.fromkeys(env.possible_agents, 0.0)
    rewards, ended = dict[Any, float](), dict[Any, bool]()
    length, over = 0, False
    while not over:
        if length == max_steps:
            raise envoi.EnvoiError(f"max_steps: the episode of seed {seed} did not end within {max_steps} steps")
        actions = policy(observations, rewards, ended)
        with one_line():
            observations, rewards, terminateds, truncateds, _ = env.step(actions)
        for agent, reward in rewards.items():
            returns[agent] += float(reward)
        ended = {agent: bool(terminateds.get(agent) or truncateds.get(agent)) for agent in observations}
        over = terminateds["__all__"] or truncateds["__all__"]
        length += 1
        trace.update(_bytes_of_agents(observations))
    context_id = next((info["context_id"] for info in infos.values() if "context_id" in info), None)
    agents = {str(agent): value for agent, value in returns.items()}
    seats = {str(agent): policy_id for agent, policy_id in policy.seats.items()}
    return Episode(seed, sum(returns.values()), length, trace.hexdigest(), context_id, agents, seats)


def _bytes_of(observation: Any) -> bytes:
    """Returns the bytes of all arrays in nested dicts of arrays, in order."""
    return b"".join(np.ascontiguousarray(leaf).tobytes() for _, leaf in tree.leaves(observation))


def _bytes_of_agents(observations: Mapping[Any, Any]) -> bytes:
    return b"".join(str(agent).encode() + _bytes_of(value) for agent, value in observations.items())


def evaluate_run(
    folder: str | Path,
    *,
    env: str | None = None,
    episodes: int = 20,
    seed: int = 0,
    explore: bool = False,
    forms: Sequence[Form] = ("core",),
    max_steps: int = 100_000,
    observe: Callable[[Episode], object] | None = None,
) -> Evaluation:
    """Runs the policy that a job trained, and writes `evaluation.json` into its folder.

    If the run was trained in given contexts, or the env has a set of them (an `envoi.Contextual` at any depth of
    wrappers), episodes take them in turn. The file maps the label of each context (see `context_labels`) to its return.
    For a batch, only the first lane is evaluated. A multi-agent env is played by all of its policies, only in RLlib's
    form; after self-play, the learning policy plays each of its past versions in turn, on both sides, and the wins
    against each are counted.

    Args:
        folder: The job's output folder.
        env: The name of an env with the same observations and actions, for example with other contexts, whose file is
            `evaluation-ENV.json`; None for the one that the policy was trained on.
        episodes: How many episodes.
        seed: Seed that the episodes' seeds are derived from; the same seed gives the same episodes.
        explore: Sample the actions as in training, rather than take the best.
        forms: Forms of the env to run, each for all episodes; two forms must give the same episodes.
        max_steps: Raise an error for episodes longer than this.
        observe: Called after each episode.

    Returns:
        The evaluation, of the first form.

    Raises:
        envoi.EnvoiError: The folder holds no trained policy, an episode did not end, the forms differ, the env raised
            an error of its own, or the env's spaces differ from the policy's.
    """
    from ..rllib import load_policy  # which imports RLlib

    check_number("episodes", plain(episodes), 1)
    run = RunFolder(folder)
    settings, trial, _ = run.read_best()
    policy = load_policy(folder, explore=explore)
    has_several = hasattr(policy, "grouping")
    seeds = [int(s) >> 1 for s in np.random.SeedSequence(seed).generate_state(episodes)]
    own_env = EnvOfRun.read(run)
    name = own_env.name if env is None else env
    if has_several and tuple(forms) != ("core",):
        raise envoi.EnvoiError("form: several agents are evaluated in RLlib's form alone; leave it out")
    found: list[tuple[Episode, ...]] = []
    for form in forms:
        with one_line():
            made = own_env() if env is None else adapters.load(name)
        played: list[Episode] = []
        try:
            for episode in play_episodes(name, made, policy, seeds, max_steps, form):
                played.append(episode)
                if observe is not None:
                    observe(episode)
        finally:
            made.close()
        found.append(tuple(played))
    first, *others = found
    for form, other in zip(forms[1:], others, strict=True):
        compare(first, other, forms[0], form)
    games = [(episode.seats, episode.agents) for episode in first if episode.seats and episode.agents]
    league = run.read_leagues().get(str(trial.index))
    contexts = _estimates((episode.context_id, episode.episode_return) for episode in first)
    agents = _estimates(pair for episode in first for pair in (episode.agents or {}).items())
    evaluation = Evaluation(
        env=name,
        algo=settings.algo,
        checkpoint=run.checkpoint.readlink().as_posix() if run.checkpoint.is_symlink() else "checkpoint",
        form="rllib" if has_several else forms[0],
        forms_agree=True if others else None,
        explore=explore,
        seed=seed,
        episode_return=estimate([e.episode_return for e in first]),
        length=estimate([float(e.length) for e in first]),
        episodes=first,
        contexts=contexts if len(contexts) > 1 else None,
        agents=agents or None,
        policies=_by_policy(first) or None,
        matches=matches(games, league) or None,
    )
    document = asdict(evaluation) | {"interval": "95 %, Student's t with n - 1 degrees of freedom"}
    if evaluation.contexts is not None:
        estimates = map(asdict, evaluation.contexts.values())
        document["contexts"] = dict(zip(context_labels(evaluation.contexts), estimates, strict=True))
    write_atomically(evaluation_file(run, env), json.dumps(document, indent=1, default=_plain))
    return evaluation


def compare(one_form: Sequence[Episode], other_form: Sequence[Episode], name: Form, other_name: Form) -> None:
    """Raises an error if two forms gave different episodes.

    Args:
        one_form: Episodes of one form.
        other_form: Episodes of the other form, from the same seeds.
        name: Name of the first form.
        other_name: Name of the other.

    Raises:
        envoi.EnvoiError: An episode differs.
    """
    for index, (one, other) in enumerate(zip(one_form, other_form, strict=True)):
        if one != other:
            raise envoi.EnvoiError(
                f"the {name} and the {other_name} form differ in episode {index} (seed {one.seed}): "
                f"return {one.episode_return:g} against {other.episode_return:g}, "
                f"length {one.length} against {other.length}"
            )


# Estimates, and the file.


def _estimates(pairs: Iterable[tuple[Any, float]]) -> dict[Any, Estimate]:
    """Estimates the mean of the values of each key."""
    values: dict[Any, list[float]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: estimate(found) for key, found in values.items()}


def _by_policy(episodes: Sequence[Episode]) -> dict[str, Estimate]:
    """Estimates each policy's mean return. Averages over a policy's agents first, so that each episode counts once."""
    means: list[tuple[str, float]] = []
    for episode in episodes:
        own: dict[str, list[float]] = {}
        for agent, policy in (episode.seats or {}).items():
            own.setdefault(policy, []).append((episode.agents or {})[agent])
        means += [(policy, statistics.fmean(totals)) for policy, totals in own.items()]
    return _estimates(sorted(means, key=lambda pair: pair[0]))


def estimate(values: Sequence[float]) -> Estimate:
    """Estimates the mean of a non-empty sample, with its 95 % confidence interval by Student's t."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean, None, None, None)
    from scipy.stats import t

    std = statistics.stdev(values)
    half = float(t.ppf(0.975, len(values) - 1)) * std / len(values) ** 0.5
    return Estimate(mean, std, mean - half, mean + half)


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


def context_labels(ids: Iterable[Any]) -> list[str]:
    """Returns different labels for all context ids: `str(id)`, or `repr(id)` if two ids share that (1 and "1")."""
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
    """Converts a value that JSON lacks, such as a context id: numpy numbers to Python numbers, all others to text."""
    return value.item() if isinstance(value, np.generic) else str(value)
