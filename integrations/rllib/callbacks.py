"""envoi's callbacks in RLlib's algorithms and env runners, which also check losses and name unwritable files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gymnasium.vector import AsyncVectorEnv
from ray.rllib.callbacks.callbacks import RLlibCallback

from envoi.adapters.rllib import bind_worker

from ..errors import EnvFailure, writing
from . import curriculum
from .env_failures import DriverWatch
from .env_guard import EnvGuard, GuardedVectorEnv, Runner, guards_of
from .multi_agent import league
from .registration import env_of_config
from .settings import EnvOptions

RETURNS = "episode_returns"
"""Key of a result, under `env_runners`, for the returns of the episodes that ended in its iteration."""


class EnvoiCallbacks(RLlibCallback):
    """The callbacks that `configure` adds to the user's.

    RLlib makes an instance in each env runner, where it tells the envs their lanes, and one in the algorithm, which it
    stops when an env has failed.
    """

    _runner: Runner | None = None
    _watch: DriverWatch | None = None

    def on_environment_created(self, *, env_runner: Any, env: Any, env_context: Any, **_: Any) -> None:
        """Gives the envs of a runner their worker, lane and evaluation flag, and their guards the runner."""
        bind_worker(env_runner=env_runner, env=env, env_context=env_context)
        curriculum.share_selector(env_runner, env)
        if self._runner is None:
            self._runner = Runner(env_runner)
        if isinstance(env, AsyncVectorEnv) and (known := env_of_config(env_runner.config)) is not None:
            # The guards of the lanes are in other processes, without Ray; this one reports what they raise.
            guard = EnvGuard(known.name, known.options, num_envs=env.num_envs)
            env_runner.env = GuardedVectorEnv(env_runner.env, guard)
        for guard, lane in guards_of(env_runner.env):
            guard.runner, guard.lane = self._runner, lane

    def on_algorithm_init(self, *, algorithm: Any, **_: Any) -> None:
        """Watches the env runners of an algorithm and its checkpoints, and begins its curriculum and its league."""
        known = env_of_config(algorithm.config)
        options = EnvOptions() if known is None else known.options
        self._watch = DriverWatch(algorithm, options.max_env_restarts)
        name_unwritable(algorithm)
        league.begin(algorithm)
        curriculum.begin(algorithm)

    def on_env_runners_recreated(
        self, *, algorithm: Any, env_runner_indices: list[int], is_evaluation: bool, **_: Any
    ) -> None:
        """Gives restarted env runners their contexts again."""
        chooser = curriculum.chooser_of(algorithm)
        if chooser is not None and not is_evaluation:
            chooser.put_again(env_runner_indices)

    def on_train_result(self, *, algorithm: Any, metrics_logger: Any, result: dict[str, Any], **_: Any) -> None:
        """Stops the algorithm if an env has failed or a loss is not finite; advances its curriculum and its league."""
        if self._watch is not None:
            self._watch.poll()
            self._watch.check()
        check_losses(result)
        if (chooser := curriculum.chooser_of(algorithm)) is not None:
            chooser.advance(result)
        league.advance(algorithm, metrics_logger, result)

    def on_episode_end(
        self, *, episode: Any, prev_episode_chunks: Any, metrics_logger: Any, env_runner: Any = None, **_: Any
    ) -> None:
        """Logs the return of a whole episode, and of each agent and policy if there are several."""
        total = episode.get_return() + sum(chunk.get_return() for chunk in prev_episode_chunks)
        metrics_logger.log_value(RETURNS, float(total), reduce="item_series")
        if hasattr(episode, "agent_episodes"):
            league.log_returns(episode, prev_episode_chunks, metrics_logger, env_runner)


# Losses that are not finite, no learning, and a full disk.


def learned_policies(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns the numbers among the metrics of each policy that was updated in an iteration; others' losses are NaN."""
    found: dict[str, dict[str, float]] = {}
    for policy, metrics in (result.get("learners") or {}).items():
        if policy == "__all_modules__" or not isinstance(metrics, Mapping):
            continue
        found[policy] = numbers = {}
        for name, value in metrics.items():
            with suppress(TypeError, ValueError):
                numbers[name] = float(value)
    return {policy: numbers for policy, numbers in found.items() if numbers.get("num_module_steps_trained", 0) > 0}


def check_losses(result: Mapping[str, Any]) -> None:
    """Checks the losses of each policy that has learned in an iteration.

    An infinite KL divergence between old and new policy, and a total loss that contains it, are not errors: a
    policy that has become certain rounds the probability of the other actions to 0, and the gradients stay finite.
    """
    for policy, metrics in learned_policies(result).items():
        wrong = [name for name, value in metrics.items() if "loss" in name and not math.isfinite(value)]
        infinite = {name for name in wrong if math.isinf(metrics[name])}
        norms = [value for name, value in metrics.items() if name.startswith("gradients_")]
        is_of_kl = any("kl" in name for name in infinite) and all("kl" in n or n == "total_loss" for n in infinite)
        harmless = infinite if is_of_kl and all(map(math.isfinite, norms)) else set[str]()
        for name in wrong:
            if name not in harmless:
                raise EnvFailure(
                    f"policy {policy!r}: {name} is {metrics[name]} in iteration "
                    f"{result.get('training_iteration', '?')}, so its weights are of no use; continue from an earlier "
                    "checkpoint, with a lower learning rate, clipped gradients (grad_clip) or smaller rewards"
                )


ADVICE = "make room, then continue from the last checkpoint"


def name_unwritable(algorithm: Any) -> None:
    """Makes errors of writing an algorithm's checkpoints, and Ray Tune's copies of them, name the file."""
    algorithm.save_to_path = partial(_save, algorithm.save_to_path)
    copy = algorithm._report_class_trainable_checkpoint
    algorithm._report_class_trainable_checkpoint = partial(_copy, algorithm._storage, copy)


def _save(save: Any, path: Any = None, **options: Any) -> str:
    with writing(Path(str(path or "the checkpoint")), ADVICE):
        return save(path, **options)


def _copy(storage: Any, copy: Any, *arguments: Any) -> Any:
    """Copies a checkpoint from a temporary folder to a trial's storage, which is None outside of Tune."""
    if storage is None:
        return copy(*arguments)
    with writing(Path(storage.trial_fs_path), ADVICE):
        return copy(*arguments)
