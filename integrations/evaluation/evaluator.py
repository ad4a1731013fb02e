"""Plays the episodes of an evaluation: one agent in a form of the env, several agents in RLlib's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

import envoi
from envoi.adapters import load, to_gymnasium, to_rllib
from envoi.adapters.shared.agent_count import one_agent
from envoi.protocol.process import Process
from envoi.wrapping.delegate import Around

from ..errors import one_line
from ..first_lane import FirstLane
from ..rllib import RunFolder, load_policy
from ..rllib.multi_agent.joint_policy import JointPolicy, play
from ..rllib.multi_agent.league import LeagueFile, matches
from ..rllib.policy_values import PolicyValues, array_bytes
from ..rllib.run_folder import best_trial
from .results import Episode, Evaluation, Form, by_agent, by_context, by_policy, estimate, trained_on, write_evaluation


def play_episodes(
    env: Any,
    values: PolicyValues,
    policy: Any,
    seeds: Sequence[int],
    contexts: Sequence[Any],
    max_steps: int,
) -> Iterator[Episode]:
    """Plays an episode of one agent from each seed."""
    for index, seed in enumerate(seeds):
        policy.reset(seed)
        with one_line():
            options = {"context_id": contexts[index % len(contexts)]} if contexts else None
            first, info = env.reset(seed=seed, options=options)
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
                observed, reward, terminated, truncated, *_, last_info = env.step(values.decode(action))
                rewards.append(float(reward))
                over = bool(terminated or truncated)
            observation = values.encode(observed, last_info)
            trace.update(b"".join(array_bytes(observation)))
        yield Episode(seed, sum(rewards), len(rewards), trace.hexdigest(), info.get("context_id"))


def play_joint_episodes(env: Any, policy: JointPolicy, seeds: Sequence[int], max_steps: int) -> Iterator[Episode]:
    """Plays an episode of several agents from each seed, in RLlib's form."""
    contexts = context_ids(env.core)
    for index, seed in enumerate(seeds):
        options = {"context_id": contexts[index % len(contexts)]} if contexts else None
        played = play(env, policy, seed, policy.seats_of_episode(index), options, max_steps)
        returns = {str(agent): value for agent, value in played.returns.items()}
        seats = {str(agent): policy_id for agent, policy_id in policy.seats.items()}
        yield Episode(
            seed, sum(played.returns.values()), played.length, played.trace, played.context_id, returns, seats
        )


def context_ids(env: Any) -> Sequence[Any]:
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
    name = trained_on(run, settings) if env is None else env
    if isinstance(policy, JointPolicy):
        return _of_several_agents(run, name, policy, seeds, forms, max_steps, observe, seed)
    found: dict[Form, tuple[Episode, ...]] = {}
    for form in forms:
        with one_line():
            core = one_agent(load(name), "envoi evaluate")
        if core.batch_size is not None:
            core = FirstLane(cast("envoi.BatchEnv", core))
        played: Any = core if form == "core" else to_gymnasium(core)
        try:
            values = PolicyValues(name, core, policy)
            found[form] = _observed(play_episodes(played, values, policy, seeds, context_ids(core), max_steps), observe)
        finally:
            played.close()
    first, *others = found.values()
    for form, other in zip(forms[1:], others, strict=True):
        compare(first, other, forms[0], form)
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
        episodes = _observed(play_joint_episodes(env, policy, seeds, max_steps), observe)
    finally:
        env.close()
    return _written(run, name, "rllib", None, policy.explore, seed, episodes)


def _observed(episodes: Iterable[Episode], observe: Callable[[Episode], None] | None) -> tuple[Episode, ...]:
    """Plays all episodes, and calls `observe` after each."""
    played: list[Episode] = []
    for episode in episodes:
        played.append(episode)
        if observe is not None:
            observe(episode)
    return tuple(played)


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
        contexts=by_context(episodes),
        agents=by_agent(episodes),
        policies=by_policy(episodes),
        matches=matches(games, _league(run)) or None,
    )
    write_evaluation(run, evaluation)
    return evaluation


def _league(run: RunFolder) -> Mapping[str, Any] | None:
    """Returns the league of the best trial, as `League.describe` gives it; None if there is none."""
    best = best_trial(run.read_state(run.read_settings())) or 0
    return LeagueFile(run.path).read().get(str(best))


def compare(one_form: Sequence[Episode], other_form: Sequence[Episode], name: Form, other_name: Form) -> None:
    """Compares the episodes of two forms.

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
