"""Registers envs with Ray Tune by name, so that RLlib makes them in all of its processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import envoi
from envoi.adapters import to_rllib

try:
    import gymnasium
    from gymnasium.vector import VectorEnv, VectorWrapper
except ImportError as error:
    raise envoi.MissingBackend("gymnasium is not installed; pip install 'envoi[rllib]'") from error

from .failure_file import write_failure

RLlibForm = Any
"""A gymnasium env, a `MultiAgentEnv` (which is one too) or a gymnasium `VectorEnv`."""

Creator = Callable[..., RLlibForm]


def register(name: str, env: Any, *, check_specs: bool = False, failure: Path | None = None) -> Creator:
    """Registers an env with Ray Tune, so that `AlgorithmConfig.environment(name)` finds it.

    Set `config.callbacks(on_environment_created=bind_worker)` as well: the callback gives each env its worker and lane,
    which RLlib does not pass to a creator; see `envoi.adapters.rllib.bind_worker`. Without it evaluations do not
    replay, and sets of contexts that RLlib would merge are not refused.

    Args:
        name: The name to register it under.
        env: Name of an env as in `envoi.adapters.load`, an env class, a factory that takes no argument, or an env; of
            one agent, of several, or a batch.
        check_specs: Check each observation against the spec.
        failure: A file that the env writes its error to, in any process; None for no such file.

    Returns:
        The env creator that was registered.

    Raises:
        envoi.MissingBackend: Ray is not installed. An unknown env is an error when RLlib first makes one; see
            `preflight`.
    """
    try:
        from ray.tune import register_env
    except ImportError as error:
        raise envoi.MissingBackend("ray is not installed; pip install 'envoi[rllib]'") from error

    creator: Creator = to_rllib(env, validate=check_specs)
    if failure is not None:
        creator = _FailureRecordingCreator(creator, failure)
    register_env(name, creator)
    return creator


class _FailureRecordingCreator:
    """An env creator whose envs write their errors to a file. A class, so that it can be pickled."""

    def __init__(self, creator: Creator, failure: Path) -> None:
        self._creator, self._failure = creator, failure

    def __call__(self, env_context: Mapping[str, Any]) -> RLlibForm:
        try:
            made = self._creator(env_context)
            if isinstance(made, VectorEnv):
                return _FailureRecordingVectorEnv(made, self._failure)
            return _FailureRecordingEnv(made, self._failure)
        except Exception as error:
            write_failure(self._failure, error)
            raise


class _FailureRecording:
    """Writes the error that ends an env to a file; a base of both kinds of wrapper."""

    env: Any

    def __init__(self, env: Any, failure: Path) -> None:
        super().__init__(env)  # pyright: ignore[reportCallIssue]
        self._failure = failure

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:
            write_failure(self._failure, error)
            raise

    def step(self, action: Any) -> Any:
        try:
            return self.env.step(action)
        except Exception as error:
            write_failure(self._failure, error)
            raise


class _FailureRecordingEnv(_FailureRecording, gymnasium.Wrapper[Any, Any, Any, Any]):
    """An env that writes the error that ends it to a file."""


class _FailureRecordingVectorEnv(_FailureRecording, VectorWrapper):
    """A vector env that writes the error that ends it to a file."""
