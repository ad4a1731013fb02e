"""The state of an env runner in the middle of sampling: envs, episodes, connectors and random streams."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from ray import cloudpickle

import envoi
from envoi.adapters.shared.introspection import Content

from .limits import HASH_SEED
from .random_streams import random_streams, set_random_streams

SAMPLING = (
    "num_env_steps_sampled_lifetime",
    "_cached_to_module",
    "_done_episodes_for_metrics",
    "_needs_initial_reset",
    "_ongoing_episodes",
    "_ongoing_episodes_for_metrics",
    "_shared_data",
    "_weights_seq_no",
)
"""Attributes of RLlib's env runners that change while they sample; runners with more list them in `sampling_state`."""


@dataclass(frozen=True)
class RunnerState:
    """The state of an env runner.

    Args:
        index: The index of the env runner.
        weights: The pickled weights of its module, apart from the rest because those of all runners are mostly equal.
        rest: The rest, pickled; empty for a runner without envs.
        refusal: The reason why an env has no snapshot; empty if it has one.
    """

    index: int
    weights: bytes = b""
    rest: bytes = b""
    refusal: str = ""


_UNORDERED = (
    f"RLlib goes through agents in the order of sets, which differs between processes; set {HASH_SEED}=0 in the "
    "environment before Ray starts"
)


def runner_state(runner: Any) -> RunnerState:
    """Returns the state of an env runner.

    Args:
        runner: The env runner, in whose process this is called.
    """
    if runner.env is None:  # of a driver whose remote runners step the envs
        return RunnerState(runner.worker_index)
    if runner.config.is_multi_agent and sys.flags.hash_randomization:
        return RunnerState(runner.worker_index, refusal=_UNORDERED)
    try:
        envs = Content(_layers(runner.env))
        held = {name: getattr(runner, name) for name in _names(runner) if hasattr(runner, name)}
        connectors = runner._env_to_module.get_state(), runner._module_to_env.get_state()
        # One pickle, so that an episode that two attributes hold stays one.
        rest = cloudpickle.dumps((envs, held, connectors, runner.metrics.get_state(), random_streams()))
        return RunnerState(runner.worker_index, cloudpickle.dumps(runner.module.get_state()), rest)
    except (envoi.SnapshotUnsupported, TypeError, AttributeError, ValueError) as error:
        return RunnerState(runner.worker_index, refusal=f"{type(error).__name__}: {error}")


def set_runner_state(runner: Any, state: RunnerState) -> None:
    """Sets an env runner to what `runner_state` returned.

    Args:
        runner: The env runner, in whose process this is called.
        state: The state.

    Raises:
        envoi.SnapshotUnsupported: The runner's envs are of other classes, or of another number.
    """
    if not state.rest:
        return
    envs, held, (to_module, to_env), metrics, streams = cloudpickle.loads(state.rest)
    envs.put_back(_layers(runner.env))
    runner._env_to_module.set_state(to_module)
    runner._module_to_env.set_state(to_env)
    # RLlib passes weights on only if the runner's are older than the learner's.
    runner.module.set_state(cloudpickle.loads(state.weights))
    for name, value in held.items():
        setattr(runner, name, value)
    runner.metrics.set_state(metrics)
    set_random_streams(streams)


def _names(runner: Any) -> tuple[str, ...]:
    return (*SAMPLING, *getattr(runner, "sampling_state", ()))


def _layers(env: Any) -> list[Any]:
    """Returns a vector env, its wrappers, and the envs of its lanes with theirs; each form copies its own core.

    The functions that made the envs count as layers, which a snapshot leaves alone, because they cannot be copied.
    """
    found = [env]
    while found[-1] is not (inner := getattr(found[-1], "env", found[-1])):
        found.append(inner)
    lanes = getattr(found[-1], "envs", ())
    makers = [found[-1].env_fns] if hasattr(found[-1], "env_fns") else []
    return [*found, *makers, *(layer for lane in lanes for layer in _layers(lane))]
