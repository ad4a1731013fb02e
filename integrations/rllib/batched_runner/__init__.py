"""Chooses the env runner of an RLlib config: RLlib's own, or one that collects the steps of all lanes as arrays."""

from __future__ import annotations

from typing import Any

from envoi import EnvoiError

from ..settings import Runner, check_runner
from .batched_env_runner import BatchedEnvRunner, BatchedMultiAgentEnvRunner

__all__ = ["BatchedEnvRunner", "BatchedMultiAgentEnvRunner", "use_runner", "why_not"]


def use_runner(config: Any, runner: Runner = "auto") -> None:
    """Sets the env runner of a config, for one agent or for several.

    An env runner class that the user has set stays; it is an error if `runner` is "batched".
    """
    check_runner(runner)
    ours = BatchedMultiAgentEnvRunner if config.is_multi_agent else BatchedEnvRunner
    if runner == "sync":
        if config.env_runner_cls is ours:
            config.env_runners(env_runner_cls=None)
    elif (obstacle := _obstacle(config, ours)) is None:
        config.env_runners(env_runner_cls=config.env_runner_cls or ours)
    elif runner == "batched":
        raise EnvoiError(f"runner: 'batched' cannot be used, because {obstacle}; use 'auto' or 'sync'")


def why_not(config: Any) -> str | None:
    """Returns why a config's env runners fall back to RLlib's, or None if the config shows no reason.

    Some reasons, such as connectors, show only in an env runner: read `config.env_runner_cls(config=config).reason` or
    `algorithm.env_runner.reason`. An env runner also logs its reason, once per process.
    """
    cls = config.env_runner_cls
    if hasattr(cls, "obstacle_in"):  # of envoi's runners, for one agent or several
        return cls.obstacle_in(config)
    return _obstacle(config) or "the config has RLlib's runner; `use_runner(config)` sets the batched one"


def _obstacle(config: Any, ours: Any = None) -> str | None:
    """Returns why a config cannot use the batched runner's class, or None if it can."""
    if config.output:
        return "the config records its episodes (`output`), for which RLlib has a runner of its own"
    cls = config.env_runner_cls
    return None if cls is None or (ours and issubclass(cls, ours)) else f"the config has the env runner {cls.__name__}"
