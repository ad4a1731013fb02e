"""envoi's callbacks in RLlib's algorithms and env runners."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AsyncVectorEnv
from ray.rllib.callbacks.callbacks import RLlibCallback

from envoi.adapters.rllib import bind_worker

from . import curriculum
from .env_options import EnvOptions
from .faults.driver_watch import DriverWatch
from .faults.guard import EnvGuard, GuardedVectorEnv, Runner, guards_of
from .faults.results import check_losses, name_unwritable
from .multi_agent import league
from .registration import env_of_config

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
            guard = EnvGuard(known.name, known.options, None, known.failure, num_envs=env.num_envs)
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
