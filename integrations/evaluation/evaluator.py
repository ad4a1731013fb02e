"""Plays the episodes of an evaluation: one agent in a form of the env, several agents in RLlib's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

import envoi
from envoi import tree
from envoi.adapters import load, to_gymnasium, to_rllib
from envoi.adapters.conversion import one_agent

from ..env_contexts import contextual_of
from ..errors import one_line
from ..first_lane import FirstLane
from ..rllib import RunFolder, load_policy
from ..rllib.multi_agent.joint_policy import JointPolicy
from ..rllib.multi_agent.league import LeagueFile, matches
from ..rllib.policy import PolicyValues
from ..rllib.run_folder import best_trial
from .results import (
    EnvOfRun,
    Episode,
    Evaluation,
    Form,
    by_agent,
    by_context,
    by_policy,
    estimate,
    evaluation_file,
    write_evaluation,
)


def play_episodes(
    name: str, env: Any, policy: Any, seeds: Sequence[int], max_steps: int, form: Form = "core", in_turn: bool = True
) -> Iterator[Episode]:
    """Plays an episode from each seed: of one agent in a form of the env, of several agents in RLlib's.

    Episodes take a set of contexts `in_turn`, or as the env chooses them.
    """
    if isinstance(policy, JointPolicy):
        with one_line():
            played: Any = to_rllib(lambda: env, canonical="structured", action_masks=policy.sees_masks)({})
        policy.check_fits(name, played)
        play_one: Any = partial(play_joint_episode, played, policy)
    else:
        env = one_agent(env, "a policy of one agent")
        if env.batch_size is not None:
            env = FirstLane(cast("envoi.BatchEnv", env))
        values = PolicyValues(name, env, policy)
        play_one = partial(_play_episode, env if form == "core" else to_gymnasium(env), values, policy)
    contexts = context_ids(env) if in_turn else ()
    for index, seed in enumerate(seeds):
        options = {"context_id": contexts[index % len(contexts)]} if contexts else None
        yield play_one(index, seed, options, max_steps)


def _play_episode(
    env: Any, values: PolicyValues, policy: Any, index: int, seed: int, options: Any, max_steps: int
) -> Episode:
    policy.reset(seed)
    with one_line():
        first, info = env.reset(seed=seed, options=options)
    observation = values.encode(first, info)
    trace = hashlib.sha256(_bytes_of(observation))
    rewards: list[float] = []
    over = False
    while not over:
        _check_length(len(rewards), seed, max_steps)
        action = policy(observation, rewards[-1] if rewards else 0.0)
        with one_line():
            observed, reward, terminated, truncated, *_, last_info = env.step(values.decode(action))
            rewards.append(float(reward))
            over = bool(terminated or truncated)
        observation = values.encode(observed, last_info)
        trace.update(_bytes_of(observation))
    return Episode(seed, sum(rewards), len(rewards), trace.hexdigest(), info.get("context_id"))


def play_joint_episode(env: Any, policy: JointPolicy, index: int, seed: int, options: Any, max_steps: int) -> Episode:
    """Plays an episode of several agents in RLlib's form."""
    policy.reset(seed, policy.seats_of_episode(index))
    with one_line():
        env.forget_seeds()
        observations, infos = env.reset(seed=seed, options=options)
    trace = hashlib.sha256(_bytes_of_agents(observations))
    returns = dict.fromkeys(env.possible_agents, 0.0)
    rewards, ended = dict[Any, float](), dict[Any, bool]()
    length, over = 0, False
    while not over:
        _check_length(length, seed, max_steps)
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


def _check_length(length: int, seed: int, max_steps: int) -> None:
    if length == max_steps:
        raise envoi.EnvoiError(f"max_steps: the episode of seed {seed} did not end within {max_steps} steps")


def _bytes_of(observation: Any) -> bytes:
    """Returns the bytes of all arrays in nested dicts of arrays, in order."""
    return b"".join(np.ascontiguousarray(leaf).tobytes() for _, leaf in tree.leaves(observation))


def _bytes_of_agents(observations: Mapping[Any, Any]) -> bytes:
    return b"".join(str(agent).encode() + _bytes_of(value) for agent, value in observations.items())


def context_ids(env: Any) -> Sequence[Any]:
    """Returns the ids of the set of contexts of the outermost `Contextual`; empty where there is no such set."""
    contextual = contextual_of(env)
    return list(contextual.contexts) if contextual is not None and len(contextual.contexts) > 1 else ()


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
    if episodes < 1:
        raise envoi.EnvoiError(f"episodes: expected at least 1, got {episodes}")
    run = RunFolder(folder)
    settings = run.read_settings()
    policy = load_policy(folder, explore=explore)
    seeds = [int(s) >> 1 for s in np.random.SeedSequence(seed).generate_state(episodes)]
    own_env = EnvOfRun.read(run)
    name = own_env.name if env is None else env
    if isinstance(policy, JointPolicy) and tuple(forms) != ("core",):
        raise envoi.EnvoiError("form: several agents are evaluated in RLlib's form alone; leave it out")
    found: list[tuple[Episode, ...]] = []
    for form in forms:
        with one_line():
            made = own_env() if env is None else load(name)
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
    league = LeagueFile(run.path).read().get(str(best_trial(run.read_state(settings)) or 0))
    evaluation = Evaluation(
        env=name,
        algo=settings.algo,
        checkpoint=run.checkpoint.readlink().as_posix() if run.checkpoint.is_symlink() else "checkpoint",
        form="rllib" if isinstance(policy, JointPolicy) else forms[0],
        forms_agree=True if others else None,
        explore=explore,
        seed=seed,
        episode_return=estimate([e.episode_return for e in first]),
        length=estimate([float(e.length) for e in first]),
        episodes=first,
        contexts=by_context(first),
        agents=by_agent(first),
        policies=by_policy(first),
        matches=matches(games, league) or None,
    )
    write_evaluation(evaluation_file(run, env), evaluation)
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
