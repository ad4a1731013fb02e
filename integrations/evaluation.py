"""Evaluate a trained policy: whole episodes, one at a time, each from a seed of its own.

Episodes that are run side by side and counted as they end favour the short ones; these are not.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np

import envoi
from envoi.adapters import load, to_gymnasium
from envoi.adapters.rllib import Codec
from envoi.adapters.shared.agent_count import one_agent
from envoi.protocol.process import Process
from envoi.wrapping.delegate import Around

from .errors import one_line
from .first_lane import FirstLane
from .rllib import RunFolder, load_policy
from .rllib.folder import write_atomically

Form = Literal["core", "gymnasium"]


@dataclass(frozen=True)
class Episode:
    """One episode.

    Args:
        seed: What the env was reset with.
        episode_return: Sum of the rewards, not discounted.
        length: Steps.
        trace: SHA-256 of all observations in their canonical form.
        context_id: The context that it had, where the env has contexts.
    """

    seed: int
    episode_return: float
    length: int
    trace: str
    context_id: Any = None


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
    """What an evaluation found.

    Args:
        env: Name of the env that the episodes are from.
        algo: Name of the algorithm.
        checkpoint: The checkpoint, relative to the folder.
        form: The form of the env that the episodes are from.
        forms_agree: Whether the other form gave the same episodes; None if it was not run.
        explore: Whether actions were sampled.
        seed: What the episodes' seeds are made from.
        episode_return: The return.
        length: The length.
        episodes: The episodes.
        contexts: The return in each context, by id, where the env has several; else None.
    """

    env: str
    algo: str
    checkpoint: str
    form: Form
    forms_agree: bool | None
    explore: bool
    seed: int
    episode_return: Estimate
    length: Estimate
    episodes: tuple[Episode, ...]
    contexts: dict[Any, Estimate] | None = None


class _Played(Protocol):
    """An env in some form, reduced to what an episode needs."""

    def begin(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]: ...

    def step(self, action: Any) -> tuple[Any, float, bool]: ...

    def close(self) -> None: ...


class _Core:
    def __init__(self, env: envoi.Env) -> None:
        self._env = env

    def begin(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool]:
        step = self._env.step(action)
        return step.observation, float(step.reward), bool(step.terminated or step.truncated)

    def close(self) -> None:
        self._env.close()


class _Gymnasium:
    def __init__(self, env: envoi.Env) -> None:
        self._env = to_gymnasium(env)

    def begin(self, seed: int, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool]:
        observation, reward, terminated, truncated, _ = self._env.step(action)
        return observation, float(reward), bool(terminated or truncated)

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
    """Run the policy that a job trained, and write `evaluation.json` into its folder.

    An env that goes through a set of contexts (`envoi.Contextual`, inside whatever wraps it) is begun in each of them
    in turn. The file has the return in each context by its id, written as `context_labels` does. Of a batch, the first
    lane is played.

    Args:
        folder: The job's output folder.
        env: The name of another env of the same observations and actions, such as one with other contexts; None for
            the one that the policy was trained on.
        episodes: How many episodes.
        seed: What their seeds are made from; the same seed gives the same episodes.
        explore: Sample the actions as in training, rather than take the best.
        forms: Forms of the env to run, each for all episodes; of two it is checked that they agree.
        max_steps: An episode longer than this is an error.
        observe: Called after each episode.

    Returns:
        What was found.

    Raises:
        envoi.EnvoiError: The folder holds no trained policy, an episode did not end, the forms differ, the env raised
            an error of its own, or it has other observations or actions than the policy.
    """
    if episodes < 1:
        raise envoi.EnvoiError(f"episodes must be at least 1, got {episodes}")
    run = RunFolder(folder)
    settings = run.read_settings()
    policy = load_policy(folder, explore=explore)
    seeds = [int(s) >> 1 for s in np.random.SeedSequence(seed).generate_state(episodes)]
    found: dict[Form, tuple[Episode, ...]] = {}
    name = settings.env if env is None else env
    for form in forms:
        with one_line():
            core = one_agent(load(name), "envoi evaluate")
        if core.batch_size is not None:
            core = FirstLane(cast("envoi.BatchEnv", core))
        played: _Played = _Core(core) if form == "core" else _Gymnasium(core)
        try:
            codec = Codec(core)
            _check_fits(name, codec, policy)
            found[form] = tuple(_episodes(played, codec, policy, seeds, _rounds(core), max_steps, observe))
        finally:
            played.close()
    first, *others = found.values()
    for form, other in zip(forms[1:], others, strict=True):
        _compare(first, other, forms[0], form)
    evaluation = Evaluation(
        env=name,
        algo=settings.algo,
        checkpoint=run.checkpoint.readlink().as_posix() if run.checkpoint.is_symlink() else "checkpoint",
        form=forms[0],
        forms_agree=True if others else None,
        explore=explore,
        seed=seed,
        episode_return=estimate([e.episode_return for e in first]),
        length=estimate([float(e.length) for e in first]),
        episodes=first,
        contexts=_by_context(first),
    )
    document = asdict(evaluation) | {"interval": "95 %, Student's t with n - 1 degrees of freedom"}
    if evaluation.contexts is not None:
        found_in = map(asdict, evaluation.contexts.values())
        document["contexts"] = dict(zip(context_labels(evaluation.contexts), found_in, strict=True))
    write_atomically(evaluation_file(run, name), json.dumps(document, indent=1, default=_plain))
    return evaluation


def evaluation_file(run: RunFolder, env: str | None) -> Path:
    """Where an evaluation is written: one on another env than the run's own has a file of its own."""
    if env is None or env == run.read_settings().env:
        return run.evaluation
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in env)
    return run.evaluation.with_name(f"{run.evaluation.stem}-{name}{run.evaluation.suffix}")


def _episodes(
    env: _Played,
    codec: Codec,
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
        observation = codec.encode(first)
        trace = hashlib.sha256(np.ascontiguousarray(observation).tobytes())
        rewards: list[float] = []
        over = False
        while not over:
            if len(rewards) == max_steps:
                raise envoi.EnvoiError(
                    f"the episode of seed {seed} did not end within {max_steps} steps; raise --max-steps"
                )
            action = policy(observation, rewards[-1] if rewards else 0.0)
            with one_line():
                observed, reward, over = env.step(codec.decode(action))
            observation = codec.encode(observed)
            trace.update(np.ascontiguousarray(observation).tobytes())
            rewards.append(reward)
        episode = Episode(seed, sum(rewards), len(rewards), trace.hexdigest(), info.get("context_id"))
        if observe is not None:
            observe(episode)
        yield episode


def _rounds(env: Any) -> Sequence[Any]:
    """The ids of a set of contexts, which seeds alone would not go through; empty where there is no such set."""
    contextual = _contextual(env)
    return list(contextual.contexts) if contextual is not None and len(contextual.contexts) > 1 else ()


def _contextual(env: Any) -> Any:
    """The outermost `Contextual`, through wrappers, embeddings and forms inside other frameworks' wrappers, or None."""
    while not isinstance(env, envoi.Contextual):
        if isinstance(env, Around):
            env = env.env
            continue
        native = env.unwrapped
        inner = getattr(native, "core", None)  # each of our forms has one
        if native is env or not isinstance(inner, Process):
            return None
        env = inner
    return env


def _by_context(episodes: Sequence[Episode]) -> dict[Any, Estimate] | None:
    returns: dict[Any, list[float]] = {}
    for episode in episodes:
        returns.setdefault(episode.context_id, []).append(episode.episode_return)
    return {key: estimate(values) for key, values in returns.items()} if len(returns) > 1 else None


def context_labels(ids: Iterable[Any]) -> list[str]:
    """Returns a text for each context id, all different: `str(id)`, and `repr(id)` where ids share that.

    Args:
        ids: The ids, such as 1 and "1", which become `1` and `'1'`.
    """
    known = list(ids)
    texts = Counter(map(str, known))
    labels: list[str] = []
    for one in known:
        label = written = str(one) if texts[str(one)] == 1 else repr(one)
        number = itertools.count(2)
        while label in labels:  # objects that are written alike
            label = f"{written} ({next(number)})"
        labels.append(label)
    return labels


def _plain(value: Any) -> Any:
    """A value that JSON does not know, such as a context's id: a number of numpy's as a number, all else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _check_fits(name: str, codec: Codec, policy: Any) -> None:
    for what in ("observation_space", "action_space"):
        has, wants = getattr(codec, what), getattr(policy, what)
        if has.shape != wants.shape or has.dtype != wants.dtype or getattr(has, "n", None) != getattr(wants, "n", None):
            raise envoi.EnvoiError(f"{name}: the policy was trained with the {what} {wants}, and this env has {has}")


def _compare(ours: Sequence[Episode], theirs: Sequence[Episode], our_form: Form, their_form: Form) -> None:
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            raise envoi.EnvoiError(
                f"the {our_form} and the {their_form} form differ in episode {index} (seed {one.seed}): "
                f"return {one.episode_return:g} against {other.episode_return:g}, "
                f"length {one.length} against {other.length}"
            )


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of a sample and its 95 % confidence interval by Student's t.

    Args:
        values: The sample, not empty.
    """
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean, None, None, None)
    from scipy.stats import t

    std = statistics.stdev(values)
    half = float(t.ppf(0.975, len(values) - 1)) * std / len(values) ** 0.5
    return Estimate(mean, std, mean - half, mean + half)
