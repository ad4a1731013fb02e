"""envoi's callbacks in RLlib's algorithms and env runners."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AsyncVectorEnv
from ray.rllib.callbacks.callbacks import RLlibCallback

from envoi.adapters.rllib import bind_worker

from .env_options import EnvOptions
from .faults.driver_watch import DriverWatch
from .faults.env_guard import BatchGuard
from .faults.guarded_envs import GuardedVectorEnv, guards_of
from .faults.losses import check_losses
from .faults.runner_process import RunnerProcess
from .multi_agent import self_play
from .multi_agent.returns import log_returns
from .registration import env_of_config

RETURNS = "episode_returns"
"""Key of a result, under `env_runners`, for the returns of the episodes that ended in its iteration."""


class EnvoiCallbacks(RLlibCallback):
    """The callbacks that `configure` adds to those of the user.

    RLlib makes an instance in each env runner, where it gives the envs their places, and one in the algorithm, which it
    stops when an env has failed.
    """

    _runner: RunnerProcess | None = None
    _watch: DriverWatch | None = None

    def on_environment_created(self, *, env_runner: Any, env: Any, env_context: Any, **_: Any) -> None:
        """Gives the envs of a runner their worker, lane and evaluation flag, and their guards the runner.

        Args:
            env_runner: The env runner.
            env: Its vector env.
            env_context: RLlib's `EnvContext`.
            **_: Arguments of RLlib that are not used.
        """
        bind_worker(env_runner=env_runner, env=env, env_context=env_context)
        if self._runner is None:
            self._runner = RunnerProcess(env_runner)
        if isinstance(env, AsyncVectorEnv) and (known := env_of_config(env_runner.config)) is not None:
            # The guards of the lanes are in other processes, without Ray; this one reports what they raise.
            guard = BatchGuard(known.name, known.options, None, known.failure, env.num_envs)
            env_runner.env = GuardedVectorEnv(env_runner.env, guard)
        for guard, lane in guards_of(env_runner.env):
            guard.bind(self._runner, lane)

    def on_algorithm_init(self, *, algorithm: Any, **_: Any) -> None:
        """Watches the env runners of an algorithm, and begins the league of self-play.

        Args:
            algorithm: The algorithm.
            **_: Arguments of RLlib that are not used.
        """
        known = env_of_config(algorithm.config)
        options = EnvOptions() if known is None else known.options
        self._watch = DriverWatch(algorithm, options.max_env_restarts)
        self_play.begin(algorithm)

    def on_train_result(self, *, algorithm: Any, metrics_logger: Any, result: dict[str, Any], **_: Any) -> None:
        """Stops the algorithm if an env has failed, or a loss is not finite, and advances the league of self-play.

        Args:
            algorithm: The algorithm.
            metrics_logger: Its logger.
            result: The result of the iteration.
            **_: Arguments of RLlib that are not used.
        """
        if self._watch is not None:
            self._watch.poll()
            self._watch.check()
        check_losses(result)
        self_play.advance(algorithm, metrics_logger, result)

    def on_episode_end(
        self, *, episode: Any, prev_episode_chunks: Any, metrics_logger: Any, env_runner: Any = None, **_: Any
    ) -> None:
        """Logs the return of a whole episode, and of each agent and policy if there are several.

        Args:
            episode: The last chunk of the episode.
            prev_episode_chunks: Its earlier chunks.
            metrics_logger: The logger of the env runner.
            env_runner: The env runner.
            **_: Arguments of RLlib that are not used.
        """
        total = episode.get_return() + sum(chunk.get_return() for chunk in prev_episode_chunks)
        metrics_logger.log_value(RETURNS, float(total), reduce="item_series")
        if hasattr(episode, "agent_episodes"):
            log_returns(episode, prev_episode_chunks, metrics_logger)
            self_play.log_score(episode, prev_episode_chunks, metrics_logger, env_runner)
