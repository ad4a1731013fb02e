"""Adds the exact state to the checkpoints of an RLlib algorithm, and restores it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow.fs
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils import force_list

from ..callbacks import EnvoiCallbacks
from ..damaged_files import writing
from ..faults.checkpoint_writes import ADVICE
from .learner_state import learner_state, set_learner_state
from .limits import check_exact
from .pickles import pickled, unpickled
from .random_streams import random_streams, set_random_streams
from .runner_state import RunnerState, runner_state, set_runner_state

FILE = "exact_state.pkl"
"""The file of a checkpoint that holds its exact state, or the reason why it has none."""

_log = logging.getLogger(__name__)


def save_exactly(config: AlgorithmConfig) -> None:
    """Makes the checkpoints of an algorithm exact.

    Args:
        config: A config that has envoi's callbacks, which are replaced by `ExactCallbacks`.

    Raises:
        envoi.EnvoiError: The algorithm does not wait for its env runners.
    """
    check_exact(*(base.__name__ for base in getattr(config.algo_class, "__mro__", ())))
    config.callbacks_class = [ExactCallbacks, *force_list(config.callbacks_class)]


class ExactCallbacks(EnvoiCallbacks):
    """envoi's callbacks for an algorithm whose checkpoints are exact.

    The algorithm object's `save_to_path` and `restore_from_path`, which Tune, `save`, `restore` and `from_checkpoint`
    all call, are replaced by ones that also write and read `FILE`. Where the exact state cannot be had, they log a
    warning with the reason and leave it at RLlib's checkpoint.
    """

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Replaces the algorithm's `save_to_path` and `restore_from_path`, and seeds its replay buffer.

        Args:
            algorithm: The algorithm.
            **kwargs: Other arguments of RLlib.
        """
        super().on_algorithm_init(algorithm=algorithm, **kwargs)
        buffer, seed = algorithm.local_replay_buffer, algorithm.config.seed
        if seed is not None and hasattr(buffer, "rng"):
            buffer.rng = np.random.default_rng(seed)  # RLlib never seeds it
        algorithm.save_to_path = partial(_save, algorithm, algorithm.save_to_path)
        algorithm.restore_from_path = partial(_restore, algorithm, algorithm.restore_from_path)


def _save(
    algorithm: Any, save: Any, path: Any = None, *, state: Any = None, filesystem: Any = None, **options: Any
) -> str:
    saved: str = save(path, state=state, filesystem=filesystem, **options)
    if state is None:  # a state that the caller gives is not the algorithm's own
        held = _algorithm_state(algorithm)
        if isinstance(held, str):
            _log.warning("this checkpoint is not exact, and a run resumed from it starts new episodes: %s", held)
        where, file = _file(saved, filesystem)
        with writing(Path(file), ADVICE), where.open_output_stream(file) as out:
            out.write(pickled(held))
    return saved


def _restore(
    algorithm: Any, restore: Any, path: Any, *, component: Any = None, filesystem: Any = None, **options: Any
) -> None:
    restore(path, component=component, filesystem=filesystem, **options)
    if component is not None:
        return
    where, file = _file(path, filesystem)
    if where.get_file_info(file).type == pyarrow.fs.FileType.NotFound:
        _log.warning("%s was not saved with exact=True; the run starts new episodes", path)
        return
    with where.open_input_stream(file) as stream:
        held = unpickled(stream.read())
    reason = held if isinstance(held, str) else _set_algorithm_state(algorithm, held)
    if reason:
        _log.warning("the run starts new episodes, because its state cannot be restored exactly: %s", reason)


def _file(path: Any, filesystem: Any) -> tuple[Any, str]:
    """Returns the file system of a checkpoint folder, and the path of its exact state in that."""
    if filesystem is None:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(str(path))
    return filesystem, (PurePath(path) / FILE).as_posix()


def _algorithm_state(algorithm: Any) -> dict[str, Any] | str:
    """Returns what RLlib's checkpoint of an algorithm leaves out, or the reason why it cannot be had."""
    runners: dict[str, dict[int, RunnerState]] = {}
    weights: dict[bytes, bytes] = {}
    for name, group in _groups(algorithm):
        runners[name] = {}
        for state in group.foreach_env_runner(runner_state):
            if state.refusal:
                return f"env runner {state.index}: {state.refusal}"
            shared = weights.setdefault(state.weights, state.weights)  # equal ones are pickled once
            runners[name][state.index] = replace(state, weights=shared)
    return {
        "runners": runners,
        "learners": [result.get() for result in algorithm.learner_group.foreach_learner(learner_state)],
        "buffer": algorithm.local_replay_buffer,  # whole, because its `get_state` leaves out its generator
        "streams": random_streams(),
    }


def _set_algorithm_state(algorithm: Any, held: dict[str, Any]) -> str:
    """Restores what `_algorithm_state` returned.

    Returns:
        The reason why the run cannot continue exactly, in which case nothing was restored; empty if it does.
    """
    learners = algorithm.learner_group.foreach_learner(_index)
    ids = [result.actor_id for result in learners]
    if len(ids) != len(held["learners"]):
        return f"it has {len(held['learners'])} learners, and there are {len(ids)} now"
    groups = dict(_groups(algorithm))
    for name, states in held["runners"].items():
        present = set(groups[name].foreach_env_runner(_index)) if name in groups else set()
        if present != set(states):
            return f"it has {name} {sorted(states)}, and there are {sorted(present)} now"
    for name, states in held["runners"].items():
        for index, state in states.items():
            groups[name].foreach_env_runner(
                partial(set_runner_state, state=state),
                local_env_runner=index == 0,
                remote_worker_ids=[index] if index else [],
            )
    for actor_id, state in zip(ids, held["learners"], strict=True):
        chosen = {} if actor_id is None else {"remote_actor_ids": [actor_id]}
        algorithm.learner_group.foreach_learner(partial(set_learner_state, state=state), **chosen)
    if held["buffer"] is not None:
        algorithm.local_replay_buffer = held["buffer"]
    set_random_streams(held["streams"])
    return ""


def _groups(algorithm: Any) -> Iterator[tuple[str, Any]]:
    """Yields the groups of env runners that an algorithm has, by name."""
    for name in ("env_runner_group", "eval_env_runner_group"):
        group = getattr(algorithm, name)
        if group is not None:
            yield name, group


def _index(worker: Any) -> int:
    return getattr(worker, "worker_index", 0)
