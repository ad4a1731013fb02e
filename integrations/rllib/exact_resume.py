"""Checkpoints from which training continues bit for bit as if it had not stopped.

RLlib's own checkpoints hold weights, optimizers and connectors. A resumed run therefore starts new episodes with new
random numbers, and coefficients that RLlib adapts, such as PPO's KL coefficient, start again from their settings. An
exact checkpoint holds the rest too: a snapshot of every env, the episodes under way, the connectors of each env runner,
the replay buffer, adapted coefficients, and all random streams.
"""

from __future__ import annotations

import logging
import pickle
import random
import sys
from collections import defaultdict
from functools import partial
from numbers import Number
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow.fs
import torch
from ray import cloudpickle
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils import force_list
from ray.rllib.utils.schedules.scheduler import Scheduler

import envoi
from envoi.adapters.shared.introspection import Content

from ..errors import writing
from .algorithms import check_exact
from .callbacks import ADVICE, EnvoiCallbacks

HASH_SEED = "PYTHONHASHSEED"
"""The variable of the environment that fixes the order of sets of strings, in which RLlib goes through agents."""
FILE = "exact_state.pkl"
"""The file of a checkpoint that holds its exact state, or the reason why it has none."""
SAMPLING = (
    "num_env_steps_sampled_lifetime", "_cached_to_module", "_done_episodes_for_metrics", "_needs_initial_reset",
    "_ongoing_episodes", "_ongoing_episodes_for_metrics", "_shared_data", "_weights_seq_no",
)  # fmt: skip
"""Attributes of RLlib's env runners that change while they sample; runners with more list them in `sampling_state`."""
_UNORDERED = (
    f"RLlib goes through agents in the order of sets, which differs between processes; set {HASH_SEED}=0 in the "
    "environment before Ray starts"
)

_ray: Any = cloudpickle  # type checkers do not see its functions
_log = logging.getLogger(__name__)


def save_exactly(config: AlgorithmConfig) -> None:
    """Makes the checkpoints of an algorithm exact."""
    check_exact(*(base.__name__ for base in getattr(config.algo_class, "__mro__", ())))
    config.callbacks_class = [ExactCallbacks, *force_list(config.callbacks_class)]


class ExactCallbacks(EnvoiCallbacks):
    """envoi's callbacks for an algorithm whose checkpoints are exact.

    The algorithm object's `save_to_path` and `restore_from_path`, which Tune, `save`, `restore` and `from_checkpoint`
    all call, are replaced by ones that also write and read `FILE`. If the exact state cannot be read or set, they log a
    warning with the reason and use only RLlib's checkpoint.
    """

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Replaces the algorithm's `save_to_path` and `restore_from_path`, and seeds its replay buffer."""
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
            out.write(_ray.dumps(held))
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
        data = stream.read()
    try:
        held = pickle.loads(data)  # noqa: S301 - of a checkpoint, which RLlib unpickles too
    except (ImportError, AttributeError) as error:
        held = f"another version of envoi saved it ({error})"
    reason = held if isinstance(held, str) else _set_algorithm_state(algorithm, held)
    if reason:
        _log.warning("the run starts new episodes, because its state cannot be restored exactly: %s", reason)


def _file(path: Any, filesystem: Any) -> tuple[Any, str]:
    """Returns the file system of a checkpoint folder, and the path of the exact state in that file system."""
    if filesystem is None:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(str(path))
    return filesystem, (PurePath(path) / FILE).as_posix()


def _algorithm_state(algorithm: Any) -> dict[str, Any] | str:
    """Returns the state that RLlib's checkpoint of an algorithm leaves out, or the reason why it cannot be read."""
    runners: dict[str, dict[int, Any]] = {}
    weights: dict[bytes, bytes] = {}
    for name, group in _groups(algorithm).items():
        runners[name] = dict(group.foreach_env_runner(_runner_state))
        for index, held in runners[name].items():
            if isinstance(held, str):
                return f"env runner {index}: {held}"
            if held is not None:
                runners[name][index] = weights.setdefault(held[0], held[0]), held[1]  # equal ones are pickled once
    return {
        "runners": runners,
        "learners": [result.get() for result in algorithm.learner_group.foreach_learner(_learner_state)],
        "buffer": algorithm.local_replay_buffer,  # whole, because its `get_state` leaves out its generator
        "streams": _random_streams(),
    }


def _set_algorithm_state(algorithm: Any, held: dict[str, Any]) -> str:
    """Restores what `_algorithm_state` returned. Returns the reason if the algorithm has other processes."""
    learners = algorithm.learner_group.foreach_learner(_index)
    ids = [result.actor_id for result in learners]
    if len(ids) != len(held["learners"]):
        return f"it has {len(held['learners'])} learners, and there are {len(ids)} now"
    groups = _groups(algorithm)
    for name, states in held["runners"].items():
        present = set(groups[name].foreach_env_runner(_index)) if name in groups else set()
        if present != set(states):
            return f"it has {name} {sorted(states)}, and there are {sorted(present)} now"
    for name, states in held["runners"].items():
        for index, state in states.items():
            which = {"local_env_runner": index == 0, "remote_worker_ids": [index] if index else []}
            groups[name].foreach_env_runner(partial(_set_runner_state, state=state), **which)
    for actor_id, state in zip(ids, held["learners"], strict=True):
        chosen = {} if actor_id is None else {"remote_actor_ids": [actor_id]}
        algorithm.learner_group.foreach_learner(partial(_set_learner_state, state=state), **chosen)
    if held["buffer"] is not None:
        algorithm.local_replay_buffer = held["buffer"]
    _set_random_streams(held["streams"])
    return ""


def _groups(algorithm: Any) -> dict[str, Any]:
    """Returns the env runner groups of an algorithm by name."""
    names = ("env_runner_group", "eval_env_runner_group")
    return {name: group for name in names if (group := getattr(algorithm, name)) is not None}


def _index(worker: Any) -> int:
    return getattr(worker, "worker_index", 0)


def _runner_state(runner: Any) -> tuple[int, tuple[bytes, bytes] | str | None]:
    """Returns an env runner's index, and its pickled weights and other state, None without envs, or why not."""
    if runner.env is None:  # of a driver whose remote runners step the envs
        return runner.worker_index, None
    if runner.config.is_multi_agent and sys.flags.hash_randomization:
        return runner.worker_index, _UNORDERED
    try:
        envs = Content(layers_of(runner.env))
        names = (*SAMPLING, *getattr(runner, "sampling_state", ()))
        held = {name: getattr(runner, name) for name in names if hasattr(runner, name)}
        connectors = runner._env_to_module.get_state(), runner._module_to_env.get_state()
        # One pickle, so that an episode that two attributes hold stays one.
        rest = _ray.dumps((envs, held, connectors, runner.metrics.get_state(), _random_streams()))
        return runner.worker_index, (_ray.dumps(runner.module.get_state()), rest)
    except (envoi.SnapshotUnsupported, TypeError, AttributeError, ValueError) as error:
        return runner.worker_index, f"{type(error).__name__}: {error}"


def _set_runner_state(runner: Any, state: tuple[bytes, bytes] | None) -> None:
    if state is None:
        return
    weights, (envs, held, (to_module, to_env), metrics, streams) = map(pickle.loads, state)
    envs.put_back(layers_of(runner.env))
    runner._env_to_module.set_state(to_module)
    runner._module_to_env.set_state(to_env)
    # RLlib passes weights on only if the runner's are older than the learner's.
    runner.module.set_state(weights)
    for name, value in held.items():
        setattr(runner, name, value)
    runner.metrics.set_state(metrics)
    _set_random_streams(streams)


def layers_of(env: Any) -> list[Any]:
    """Returns a vector env, its wrappers, and the envs of its lanes with their wrappers; forms copy their own cores.

    The functions that made the envs count as layers too, so that a snapshot does not copy them, which is impossible.
    """
    found = [env]
    while found[-1] is not (inner := getattr(found[-1], "env", found[-1])):
        found.append(inner)
    lanes = getattr(found[-1], "envs", ())
    makers = [found[-1].env_fns] if hasattr(found[-1], "env_fns") else []
    return [*found, *makers, *(layer for lane in lanes for layer in layers_of(lane))]


def _learner_state(learner: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Returns the numbers and tensors that a learner has adapted, by attribute and module, and the random streams."""
    adapted: dict[str, dict[Any, Any]] = {}
    for name, values in vars(learner).items():
        if isinstance(values, defaultdict):
            adapted[name] = own = {}
            for module, held in values.items():
                value = _current(held)
                if isinstance(value, torch.Tensor):
                    own[module] = value.detach().clone()
                elif isinstance(held, Number):  # the numbers of a schedule follow from the steps
                    own[module] = held
    return adapted, _random_streams()


def _set_learner_state(learner: Any, state: tuple[dict[str, Any], tuple[Any, ...]]) -> None:
    adapted, streams = state
    for name, values in adapted.items():
        for module, value in values.items():
            held = _current(getattr(learner, name)[module])
            if isinstance(held, torch.Tensor):
                held.data.copy_(value)  # in place, because optimizers hold the tensor too
            else:
                getattr(learner, name)[module] = value
    _set_random_streams(streams)


def _current(held: Any) -> Any:
    """Returns the current value of a schedule; returns any other object unchanged."""
    return held.get_current_value() if isinstance(held, Scheduler) else held


def _random_streams() -> tuple[Any, ...]:
    """Returns the states of the global generators of Python, numpy and torch."""
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), devices  # noqa: NPY002 - RLlib's stream


def _set_random_streams(states: tuple[Any, ...]) -> None:
    of_python, of_numpy, of_torch, devices = states
    random.setstate(of_python)
    np.random.set_state(of_numpy)  # noqa: NPY002 - RLlib's stream
    torch.set_rng_state(of_torch)
    if devices and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(devices)
