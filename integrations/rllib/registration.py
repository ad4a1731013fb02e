"""Envs as RLlib sees them: registered by name, tried out beforehand, and their errors brought home.

RLlib hides an exception of an env that runs in another process: the runner logs it there and dies, and what
reaches the driver is an `ActorDiedError` or a result without episodes. So the env that a job trains on writes
its own error to a file in the output folder, where the driver looks.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

import envoi
from envoi.adapters import to_rllib
from envoi.protocol.multi_env import MASK

from ..errors import describe, one_line

try:
    import gymnasium
    from gymnasium.vector import VectorEnv, VectorWrapper
except ImportError as error:
    raise envoi.MissingBackend("gymnasium is not installed; pip install 'envoi[rllib]'") from error

from .damaged_files import reading
from .run_folder import write_atomically

RLlibForm = Any
"""A gymnasium env, a `MultiAgentEnv` (which is one too) or a gymnasium `VectorEnv`."""

Creator = Callable[..., RLlibForm]


def register(name: str, env: Any, *, check_specs: bool = False, failure: Path | None = None) -> Creator:
    """Register an env with Ray Tune, so that `AlgorithmConfig.environment(name)` finds it.

    A callback completes what RLlib does not tell a creator, `config.callbacks(on_environment_created=bind_worker)`; see
    `envoi.adapters.rllib.bind_worker`. Without it an evaluation does not replay, nor are sets of contexts refused that
    RLlib would merge.

    Args:
        name: The name to register it under.
        env: Name of an env as in `envoi.adapters.load`, an env class, a factory that takes no argument, or an env; of
            one agent, of several, or a batch.
        check_specs: Whether each observation is checked against the spec.
        failure: A file where an error of the env is written down, whatever process it happens in.

    Returns:
        The env creator that was registered.

    Raises:
        envoi.MissingBackend: Ray is not installed. An unknown env is told when RLlib first makes one; see `preflight`.
    """
    try:
        from ray.tune import register_env
    except ImportError as error:
        raise envoi.MissingBackend("ray is not installed; pip install 'envoi[rllib]'") from error

    creator: Creator = to_rllib(env, validate=check_specs)
    if failure is not None:
        creator = _Reported(creator, failure)
    register_env(name, creator)
    return creator


class _Reported:
    """An env creator whose envs write down their errors. A class, so that it can be pickled."""

    def __init__(self, creator: Creator, failure: Path) -> None:
        self._creator, self._failure = creator, failure

    def __call__(self, env_context: Mapping[str, Any]) -> RLlibForm:
        try:
            made = self._creator(env_context)
            if isinstance(made, VectorEnv):
                return _ReportedVectorEnv(made, self._failure)
            return _ReportedEnv(made, self._failure)
        except Exception as error:
            write_failure(self._failure, error)
            raise


class _ReportedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An env that writes down the error that ends it."""

    def __init__(self, env: gymnasium.Env[Any, Any], failure: Path) -> None:
        super().__init__(env)
        self._failure = failure

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
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


class _ReportedVectorEnv(VectorWrapper):
    """The same for a vector env."""

    def __init__(self, env: VectorEnv[Any, Any, Any], failure: Path) -> None:
        super().__init__(env)
        self._failure = failure

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:
            write_failure(self._failure, error)
            raise

    def step(self, actions: Any) -> Any:
        try:
            return self.env.step(actions)
        except Exception as error:
            write_failure(self._failure, error)
            raise


def write_failure(path: Path, error: BaseException) -> None:
    """Write an env's error to a file."""
    trace = "".join(traceback.format_exception(error))
    write_atomically(path, json.dumps({"message": describe(error), "traceback": trace}, indent=1))


def read_failure(path: Path) -> str | None:
    """The one line of an error that `write_failure` wrote; None if there was none."""
    if not path.exists():
        return None
    with reading(path):
        return json.loads(path.read_text(encoding="utf-8"))["message"]


def preflight(
    env: Any,
    *,
    check_specs: bool = True,
    steps: int = 1000,
    seconds: float = 5.0,
    seed: int = 0,
    num_envs: int | None = None,
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Play random actions on this machine, before a job is started.

    Args:
        env: As in `register`.
        check_specs: Check every value against its spec.
        steps: Stop after so many steps, over as many episodes as it takes, …
        seconds: … or after so much time.
        seed: Seed of the env and of the actions.
        num_envs: How many envs a runner is asked to step together; None where that is left open.

    Returns:
        The observation space and the action space that RLlib will see: of several agents as a `Dict`, of a batch those
        of one lane.

    Raises:
        envoi.EnvoiError: The env breaks its spec, raised an error of its own, or is a batch of other than `num_envs`
            lanes.
    """
    with one_line():
        tried = cast("Any", to_rllib(env, validate=check_specs)({}))
        is_batch = isinstance(tried, VectorEnv)
        play: Any = _play_lanes if is_batch else _play_agents if hasattr(tried, "action_spaces") else _play
        try:
            if is_batch:
                check_lanes(tried, num_envs)
            play(tried, steps, time.monotonic() + seconds, seed)
        except envoi.SpecError as error:
            hint = "; --no-check-specs trains all the same" if check_specs else ""
            raise envoi.SpecError(f"{error}{hint}") from error
        finally:
            tried.close()
    if is_batch:
        return tried.single_observation_space, tried.single_action_space
    return tried.observation_space, tried.action_space


def check_lanes(batch: VectorEnv[Any, Any, Any], num_envs: int | None) -> int:
    """Returns how many lanes a batch has.

    Args:
        batch: The batch in RLlib's form.
        num_envs: How many envs a runner is asked to step together; None where that is left open.

    Raises:
        envoi.EnvoiError: They are not as many.
    """
    if num_envs not in (None, batch.num_envs):
        raise envoi.EnvoiError(
            f"num_envs: expected {batch.num_envs}, the lanes of the batch, got {num_envs} envs per runner; "
            "leave it out, or make a batch of as many lanes"
        )
    return batch.num_envs


def _play(env: gymnasium.Env[Any, Any], steps: int, deadline: float, seed: int) -> None:
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
        if time.monotonic() > deadline:
            return


def _play_lanes(env: VectorEnv[Any, Any, Any], steps: int, deadline: float, seed: int) -> None:
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for _ in range(-(-steps // env.num_envs)):  # ended lanes begin anew by themselves
        env.step(env.action_space.sample())
        if time.monotonic() > deadline:
            return


def _play_agents(env: Any, steps: int, deadline: float, seed: int) -> None:
    for index, space in enumerate(env.action_spaces.values()):
        space.seed(seed + index)
    observations, infos = env.reset(seed=seed)
    acting = list(observations)
    for _ in range(steps):
        said = env.step({agent: _legal(env.action_spaces[agent], infos.get(agent, {})) for agent in acting})
        observations, _, terminateds, truncateds, infos = said
        if terminateds["__all__"] or truncateds["__all__"]:
            observations, infos = env.reset()
            acting = list(observations)
        else:
            acting = [agent for agent in observations if not (terminateds.get(agent) or truncateds.get(agent))]
        if time.monotonic() > deadline:
            return


def _legal(space: gymnasium.Space[Any], info: Mapping[Any, Any]) -> Any:
    """A random action, of those that a mask allows where there is one."""
    mask = info.get(MASK)
    if mask is None or not isinstance(space, gymnasium.spaces.Discrete):
        return space.sample()
    return space.sample(mask=np.asarray(mask, np.int8))
