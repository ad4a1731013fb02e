"""Evaluates a trained policy: whole episodes, one at a time, each from a seed of its own.

Episodes that run side by side and are counted as they end would favour the short ones.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np

import envoi
from envoi.adapters import load, to_gymnasium, to_rllib
from envoi.adapters.shared.agent_count import one_agent
from envoi.atomic_write import write_atomically
from envoi.protocol.process import Process
from envoi.wrapping.delegate import Around

from .errors import one_line
from .first_lane import FirstLane
from .rllib import RunFolder, Settings, load_policy
from .rllib.multi_agent.joint_policy import JointPolicy
from .rllib.multi_agent.league_files import LeagueFiles
from .rllib.multi_agent.matches import Match, matches
from .rllib.multi_agent.play import play
from .rllib.policy_values import PolicyValues, array_bytes
from .rllib.run_folder import best_trial

Form = Literal["core", "gymnasium"]


@dataclass(frozen=True)
class Episode:
    """One episode.

    Args:
        seed: Seed of the reset.
        episode_return: Sum of the rewards, not discounted.
        length: Steps.
        trace: SHA-256 of all observations in their canonical form.
        context_id: Id of the episode's context; None where the env has no contexts.
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
        contexts: Mean return in each context by its id; None where the episodes share one context.
        agents: Mean return of each agent, by its name; None for one agent.
        policies: Mean return of an agent that each policy played; None for one agent.
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


class _EvaluatedEnv(Protocol):
    """An env in any form, reduced to the calls that an episode needs."""

    def begin(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]: ...

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]: ...

    def close(self) -> None: ...


class _CoreForm:
    def __init__(self, env: envoi.Env) -> None:
        self._env = env

    def begin(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        step = self._env.step(action)
        return step.observation, float(step.reward), bool(step.terminated or step.truncated), step.info

    def close(self) -> None:
        self._env.close()


class _GymnasiumForm:
    def __init__(self, env: envoi.Env) -> None:
        self._env = to_gymnasium(env)

    def begin(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._env.step(action)
        return observation, float(reward), bool(terminated or truncated), info

    def close(self) -> None:
        self._env.close()


def evaluate(
    folder: str | Path,
    *,
    env: str | None = None,
    episodes: int = 20,
    seed: int = 0,
    explore: bool = False,
    forms: Sequence[Form] = ("core",),
    max_steps: int = 100_000,
    observe: Callable[[Episode], None] | None = None,
) -> Evaluation:
    """Runs the policy that a job trained, and writes `evaluation.json` into its folder.

    Where the env has a set of contexts (an `envoi.Contextual` at any depth of wrappers), episodes take them in turn.
    The file has the return in each context by its id, written as by `context_labels`. Of a batch, the first lane is
    evaluated. Several agents are played by all of their policies, in RLlib's form alone; after self-play the learning
    policy meets each of its past versions in turn, on both sides, and the wins against each are counted.

    Args:
        folder: The job's output folder.
        env: The name of another env of the same observations and actions, such as one with other contexts; None for
            the one that the policy was trained on.
        episodes: How many episodes.
        seed: Seed that the episodes' seeds are derived from; the same seed gives the same episodes.
        explore: Sample the actions as in training, rather than take the best.
        forms: Forms of the env to run, each for all episodes; two forms must give the same episodes.
        max_steps: An episode longer than this is an error.
        observe: Called after each episode.

    Returns:
        The evaluation, of the first form.

    Raises:
        envoi.EnvoiError: The folder holds no trained policy, an episode did not end, the forms differ, the env raised
            an error of its own, or the env's spaces differ from the policy's.
    """
    if episodes < 1:
        raise envoi.EnvoiError(f"episodes must be at least 1, got {episodes}")
    run = RunFolder(folder)
    settings = run.read_settings()
    policy = load_policy(folder, explore=explore)
    seeds = [int(s) >> 1 for s in np.random.SeedSequence(seed).generate_state(episodes)]
    name = _trained_on(run, settings) if env is None else env
    if isinstance(policy, JointPolicy):
        return _of_several_agents(run, name, policy, seeds, forms, max_steps, observe, seed)
    found: dict[Form, tuple[Episode, ...]] = {}
    for form in forms:
        with one_line():
            core = one_agent(load(name), "envoi evaluate")
        if core.batch_size is not None:
            core = FirstLane(cast("envoi.BatchEnv", core))
        played: _EvaluatedEnv = _CoreForm(core) if form == "core" else _GymnasiumForm(core)
        try:
            values = PolicyValues(name, core, policy)
            found[form] = tuple(_episodes(played, values, policy, seeds, _context_ids(core), max_steps, observe))
        finally:
            played.close()
    first, *others = found.values()
    for form, other in zip(forms[1:], others, strict=True):
        _compare(first, other, forms[0], form)
    return _written(run, name, forms[0], True if others else None, explore, seed, first)


def _of_several_agents(
    run: RunFolder,
    name: str,
    policy: JointPolicy,
    seeds: Sequence[int],
    forms: Sequence[Form],
    max_steps: int,
    observe: Callable[[Episode], None] | None,
    seed: int,
) -> Evaluation:
    if tuple(forms) != ("core",):
        raise envoi.EnvoiError("form: several agents are evaluated in RLlib's form alone; leave it out")
    with one_line():
        env: Any = to_rllib(name, canonical="structured", action_masks=policy.sees_masks)({})
    try:
        policy.check_fits(name, env)
        contexts = _context_ids(env.core)
        episodes: list[Episode] = []
        for index, own in enumerate(seeds):
            options = {"context_id": contexts[index % len(contexts)]} if contexts else None
            played = play(env, policy, own, policy.seats_of_episode(index), options, max_steps)
            total = sum(played.returns.values())
            agents = {str(agent): value for agent, value in played.returns.items()}
            seats = {str(agent): policy_id for agent, policy_id in policy.seats.items()}
            episodes.append(Episode(own, total, played.length, played.trace, played.context_id, agents, seats))
            if observe is not None:
                observe(episodes[-1])
    finally:
        env.close()
    return _written(run, name, "rllib", None, policy.explore, seed, tuple(episodes))


def _written(
    run: RunFolder,
    name: str,
    form: Form | Literal["rllib"],
    forms_agree: bool | None,
    explore: bool,
    seed: int,
    episodes: tuple[Episode, ...],
) -> Evaluation:
    """Writes an evaluation to its file, and returns it."""
    games = [(episode.seats, episode.agents) for episode in episodes if episode.seats and episode.agents]
    evaluation = Evaluation(
        env=name,
        algo=run.read_settings().algo,
        checkpoint=run.checkpoint.readlink().as_posix() if run.checkpoint.is_symlink() else "checkpoint",
        form=form,
        forms_agree=forms_agree,
        explore=explore,
        seed=seed,
        episode_return=estimate([e.episode_return for e in episodes]),
        length=estimate([float(e.length) for e in episodes]),
        episodes=episodes,
        contexts=_by_context(episodes),
        agents=_by_agent(episodes),
        policies=_by_policy(episodes),
        matches=matches(games, _league(run)) or None,
    )
    document = asdict(evaluation) | {"interval": "95 %, Student's t with n - 1 degrees of freedom"}
    if evaluation.contexts is not None:
        estimates = map(asdict, evaluation.contexts.values())
        document["contexts"] = dict(zip(context_labels(evaluation.contexts), estimates, strict=True))
    write_atomically(evaluation_file(run, name), json.dumps(document, indent=1, default=_plain))
    return evaluation


def _league(run: RunFolder) -> Mapping[str, Any] | None:
    """Returns the league of the best trial, as `League.describe` gives it; None if there is none."""
    best = best_trial(run.read_state(run.read_settings())) or 0
    return LeagueFiles(run.path).read().get(str(best))


def _trained_on(run: RunFolder, settings: Settings) -> str:
    """Returns the name of the env that the best trial was trained on, with the arguments that a sweep gave it."""
    best = best_trial(run.read_state(settings)) or 0
    return settings.env_of(settings.trials[best].overrides)


def evaluation_file(run: RunFolder, env: str | None) -> Path:
    """Returns the path of the file that an evaluation is written to.

    Args:
        run: The output folder of the job.
        env: Name of the evaluated env; None for the one that the policy was trained on. Each other env has a file of
            its own.
    """
    if env is None or env == _trained_on(run, run.read_settings()):
        return run.evaluation
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in env)
    return run.evaluation.with_name(f"{run.evaluation.stem}-{name}{run.evaluation.suffix}")


def _episodes(
    env: _EvaluatedEnv,
    values: PolicyValues,
    policy: Any,
    seeds: Sequence[int],
    contexts: Sequence[Any],
    max_steps: int,
    observe: Callable[[Episode], None] | None,
) -> Iterator[Episode]:
    for index, seed in enumerate(seeds):
        policy.reset(seed)
        with one_line():
            first, info = env.begin(seed, {"context_id": contexts[index % len(contexts)]} if contexts else None)
        observation = values.encode(first, info)
        trace = hashlib.sha256(b"".join(array_bytes(observation)))
        rewards: list[float] = []
        over = False
        while not over:
            if len(rewards) == max_steps:
                raise envoi.EnvoiError(
                    f"the episode of seed {seed} did not end within {max_steps} steps; raise --max-steps"
                )
            action = policy(observation, rewards[-1] if rewards else 0.0)
            with one_line():
                observed, reward, over, last_info = env.step(values.decode(action))
            observation = values.encode(observed, last_info)
            trace.update(b"".join(array_bytes(observation)))
            rewards.append(reward)
        episode = Episode(seed, sum(rewards), len(rewards), trace.hexdigest(), info.get("context_id"))
        if observe is not None:
            observe(episode)
        yield episode


def _context_ids(env: Any) -> Sequence[Any]:
    """Returns the ids of a set of contexts, to be taken in turn; empty where there is no such set."""
    contextual = _contextual(env)
    return list(contextual.contexts) if contextual is not None and len(contextual.contexts) > 1 else ()


def _contextual(env: Any) -> Any:
    """Returns the outermost `Contextual`, or None; looks through wrappers and through forms inside foreign wrappers."""
    while not isinstance(env, envoi.Contextual):
        if isinstance(env, Around):
            env = env.env
            continue
        native = env.unwrapped
        inner = getattr(native, "core", None)  # every form of envoi has one
        if native is env or not isinstance(inner, Process):
            return None
        env = inner
    return env


def _by_agent(episodes: Sequence[Episode]) -> dict[str, Estimate] | None:
    returns: dict[str, list[float]] = {}
    for episode in episodes:
        for agent, total in (episode.agents or {}).items():
            returns.setdefault(agent, []).append(total)
    return {agent: estimate(totals) for agent, totals in returns.items()} or None


def _by_policy(episodes: Sequence[Episode]) -> dict[str, Estimate] | None:
    """Returns the mean return of an agent that each policy played, in which each episode counts once."""
    returns: dict[str, list[float]] = {}
    for episode in episodes:
        own: dict[str, list[float]] = {}
        for agent, policy in (episode.seats or {}).items():
            own.setdefault(policy, []).append((episode.agents or {})[agent])
        for policy, totals in own.items():
            returns.setdefault(policy, []).append(statistics.fmean(totals))
    return {policy: estimate(totals) for policy, totals in sorted(returns.items())} or None


def _by_context(episodes: Sequence[Episode]) -> dict[Any, Estimate] | None:
    returns: dict[Any, list[float]] = {}
    for episode in episodes:
        returns.setdefault(episode.context_id, []).append(episode.episode_return)
    return {key: estimate(values) for key, values in returns.items()} if len(returns) > 1 else None


def context_labels(ids: Iterable[Any]) -> list[str]:
    """Returns a label for each context id, all different: `str(id)`, or `repr(id)` where two ids share that.

    Args:
        ids: The ids, such as 1 and "1", which become `1` and `'1'`.
    """
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


def _compare(one_form: Sequence[Episode], other_form: Sequence[Episode], name: Form, other_name: Form) -> None:
    for index, (one, other) in enumerate(zip(one_form, other_form, strict=True)):
        if one != other:
            raise envoi.EnvoiError(
                f"the {name} and the {other_name} form differ in episode {index} (seed {one.seed}): "
                f"return {one.episode_return:g} against {other.episode_return:g}, "
                f"length {one.length} against {other.length}"
            )


def estimate(values: Sequence[float]) -> Estimate:
    """Estimates the mean of a sample with its 95 % confidence interval by Student's t.

    Args:
        values: The sample, of at least one value.
    """
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean, None, None, None)
    from scipy.stats import t

    std = statistics.stdev(values)
    half = float(t.ppf(0.975, len(values) - 1)) * std / len(values) ** 0.5
    return Estimate(mean, std, mean - half, mean + half)
