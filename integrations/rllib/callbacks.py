"""envoi's callbacks in RLlib's algorithms and env runners."""

from __future__ import annotations

from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback

from envoi.adapters.rllib import bind_worker

from .multi_agent import self_play
from .multi_agent.returns import log_returns

RETURNS = "episode_returns"
"""Key of a result, under `env_runners`, for the returns of the episodes that ended in its iteration."""


class EnvoiCallbacks(RLlibCallback):
    """The callbacks that `configure` adds to those of the user; RLlib makes an instance in each env runner."""

    def on_environment_created(self, **kwargs: Any) -> None:
        """Gives the envs of a runner their worker, lane and evaluation flag; see `bind_worker`."""
        bind_worker(**kwargs)

    def on_algorithm_init(self, *, algorithm: Any, **_: Any) -> None:
        """Begins the league of self-play.

        Args:
            algorithm: The algorithm.
            **_: Arguments of RLlib that are not used.
        """
        self_play.begin(algorithm)

    def on_train_result(self, *, algorithm: Any, metrics_logger: Any, result: dict[str, Any], **_: Any) -> None:
        """Advances the league of self-play.

        Args:
            algorithm: The algorithm.
            metrics_logger: Its logger.
            result: The result of the iteration.
            **_: Arguments of RLlib that are not used.
        """
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
