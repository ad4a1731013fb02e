"""Registers envs with Ray Tune by name, so that RLlib can make them in all of its processes; tries them out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Literal, cast

import envoi
from envoi.adapters import to_rllib
from envoi.adapters.rllib.creator import OPTIONS, keep_worker_index, make_core

from ..errors import missing_rllib, one_line

try:
    import gymnasium
    from gymnasium.vector import VectorEnv
except ImportError as error:
    raise envoi.MissingBackend("gymnasium is not installed; pip install 'envoi[rllib]'") from error

from ..env_contexts import FirstLane
from .curriculum import CHOSEN, ChosenContexts, make_in_contexts
from .random_play import play_at_random
from .settings import EnvOptions

RLlibForm = Any
"""A gymnasium env, a `MultiAgentEnv` (which is one too) or a gymnasium `VectorEnv`."""


CARRIED = "env"
"""The entry of a config's options that holds its `CarriedEnv`."""


@dataclass(frozen=True)
class RegisteredEnv:
    """An env creator as `register` gives it to Tune, which can be pickled if `env` can."""

    name: str
    env: Any
    options: EnvOptions = field(default_factory=EnvOptions)
    chosen: ChosenContexts | None = None
    _creators: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_creators": {}}  # of other configs, whose contexts are none of this one's

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        keep_worker_index()

    def __call__(self, env_context: Mapping[str, Any] | None = None) -> RLlibForm:
        """Makes the env, in RLlib's form and guarded, for one lane or, if RLlib asks for `num_envs`, for many."""
        from .env_guard import EnvGuard, GuardedEnv, GuardedVectorEnv, note_start

        note_start()
        own = self.with_config(env_context)
        maker = EnvGuard(own.name, own.options, None, env_context)
        made = maker.make(lambda: own.make(env_context))
        lanes = made.num_envs if isinstance(made, VectorEnv) else None
        guard = EnvGuard(own.name, own.options, made, env_context, lanes)
        return GuardedEnv(made, guard) if lanes is None else GuardedVectorEnv(made, guard)

    def make(self, env_context: Mapping[str, Any] | None = None) -> RLlibForm:
        """Makes the env in RLlib's form, without anything that watches it."""
        masks = self.options.action_masks is True  # "auto" is decided by `configure`, which also sets the module
        validate = self.options.check_specs is True
        key = self.chosen, validate, masks
        if key not in self._creators:  # one for all lanes, which it numbers
            env = self.env if self.chosen is None else partial(make_in_contexts, self.env, self.chosen)
            self._creators[key] = to_rllib(env, validate=validate, action_masks=masks)
        return self._creators[key](env_context)

    def with_config(self, env_config: Mapping[str, Any] | None) -> RegisteredEnv:
        """Returns the env with the options from an `env_config`, if it has any, instead of its own options."""
        given = dict((env_config or {}).get(OPTIONS) or {})
        given.pop(CARRIED, None)
        chosen = given.pop(CHOSEN, self.chosen)
        return replace(self, options=replace(self.options, **given), chosen=chosen)


def register(
    name: str,
    env: Any,
    *,
    action_masks: bool | Literal["auto"] = "auto",
    vectorize: bool | Literal["auto"] = "auto",
    check_specs: bool | Literal["sample"] = "sample",
    on_env_error: Literal["stop", "restart"] = "stop",
    max_env_restarts: int = 3,
    step_timeout: float = 60.0,
) -> RegisteredEnv:
    """Registers an env with Ray Tune, so that `AlgorithmConfig.environment(name)` finds it.

    `configure(config, name)` then sets up a config for these options. Without `configure`, call
    `config.callbacks(on_environment_created=bind_worker)`, see `envoi.adapters.rllib.bind_worker`: it lets evaluations
    replay, and refuses sets of contexts that RLlib would merge.

    Args:
        name: The name to register it under.
        env: Name of an env as in `envoi.adapters.load`, an env class, a factory that takes no argument, or an env;
            single-agent, multi-agent or a batch.
        action_masks: See `EnvOptions`; "auto" is False until `configure` decides.
        vectorize: See `EnvOptions`; `configure` decides.
        check_specs: See `EnvOptions`.
        on_env_error: See `EnvOptions`.
        max_env_restarts: See `EnvOptions`.
        step_timeout: See `EnvOptions`.

    Returns:
        The env creator that was registered.

    Raises:
        envoi.EnvoiError: An option has a value that it does not allow.
        envoi.MissingBackend: Ray is not installed. An unknown env raises an error only when RLlib first makes it; see
            `preflight`.
    """
    creator = RegisteredEnv(name, env, EnvOptions.of(locals()))
    _register_with_tune(name, creator)
    return creator


def registered(name: str) -> RegisteredEnv | None:
    """Returns the env that is registered with Tune under a name, or None if there is none.

    One that was registered by `ray.tune.register_env`, rather than by `register`, is returned with default options.
    """
    creator = _creator(name)
    if creator is None or isinstance(creator, RegisteredEnv):
        return creator
    return RegisteredEnv(name, partial(_make_of_config, creator))


def env_of_config(config: Any) -> RegisteredEnv | None:
    """Returns the env of an RLlib config with the config's options, or None if the env is not registered."""
    known = registered(config.env) if isinstance(config.env, str) else None
    return None if known is None else known.with_config(config.env_config)


def register_for(env: Any) -> RegisteredEnv:
    """Registers a config's env, or finds its registration."""
    if isinstance(env, str):
        creator = _creator(env)
        if isinstance(creator, RegisteredEnv):
            return creator
        # Of a creator of the user's under another name, because RLlib would call that creator itself.
        return register(f"envoi-{env}", env if creator is None else partial(_make_of_config, creator))
    kind = getattr(env, "__qualname__", type(env).__qualname__)
    names = (f"envoi-{kind}" if number == 1 else f"envoi-{kind}-{number}" for number in count(1))
    name = next(name for name in names if _NAMED.setdefault(name, env) is env)
    return register(name, env)


class CarriedEnv:
    """A registered env inside a config: registers itself in every process that loads the config or a checkpoint."""

    def __init__(self, known: RegisteredEnv) -> None:
        self._known = known

    def __repr__(self) -> str:
        return f"CarriedEnv({self._known.name!r})"

    def __deepcopy__(self, _: dict[int, Any]) -> CarriedEnv:
        return self  # RLlib copies configs often, and envs may be large

    def __reduce__(self) -> tuple[Any, ...]:
        from ray import cloudpickle

        pickled = cloudpickle.dumps(self._known)  # pyright: ignore[reportPrivateImportUsage]
        return _carry, (self._known.name, pickled)


def _carry(name: str, pickled: bytes) -> CarriedEnv:
    from ray import cloudpickle

    if (known := registered(name)) is None:
        try:
            known = cast("RegisteredEnv", cloudpickle.loads(pickled))
        except Exception as error:  # such as of a module that is not there
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            known = RegisteredEnv(name, partial(_refuse, name, reason))
        _register_with_tune(name, known)
    return CarriedEnv(known)


def _refuse(name: str, reason: str, **_: Any) -> Any:
    """Raises the error for an env that could not be loaded with its config."""
    raise envoi.EnvoiError(
        f"env {name!r}: it could not be loaded with the config ({reason}); before the algorithm is loaded, call "
        f"envoi.integrations.rllib.register({name!r}, env)"
    )


def register_first_lane(batch: RegisteredEnv) -> RegisteredEnv:
    """Registers the first lane of a batch as an env of one lane, for evaluations."""
    lane = replace(batch, name=f"{batch.name}-first-lane", env=partial(_make_first_lane, batch.env))
    _register_with_tune(lane.name, lane)
    return lane


def _make_first_lane(env: Any, **env_config: Any) -> Any:
    return FirstLane(cast("envoi.BatchEnv", make_core(env, env_config)))


_NAMED: dict[str, Any] = {}
"""The envs without a name of their own, by that which `register_for` gave them; Tune's registry only has copies."""


def _make_of_config(creator: Callable[[dict[str, Any]], Any], **env_config: Any) -> Any:
    """Makes an env by a user's creator function, which takes RLlib's `env_config`."""
    return creator(env_config)


def _creator(name: str) -> Any:
    """Returns the env creator that is registered with Tune under a name, or None."""
    from ray.tune.registry import ENV_CREATOR, _global_registry

    return _global_registry.get(ENV_CREATOR, name) if _global_registry.contains(ENV_CREATOR, name) else None


def _register_with_tune(name: str, creator: RegisteredEnv) -> None:
    try:
        from ray.tune import register_env
    except ImportError as error:
        raise missing_rllib(error) from error
    register_env(name, creator)


# Before a job starts.


def preflight(
    env: Any,
    *,
    check_specs: bool = True,
    steps: int = 1000,
    seconds: float = 5.0,
    seed: int = 0,
    num_envs: int | None = None,
    action_masks: bool | Literal["auto"] = "auto",
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Plays random actions on this machine, before a job starts.

    Args:
        env: As in `register`.
        check_specs: Check every value against its spec.
        steps: Stop after this many steps, in any number of episodes.
        seconds: Stop after this many seconds.
        seed: Seed of the env and of the actions.
        num_envs: How many envs a runner should step together; None for no preference.
        action_masks: As in `register`.

    Returns:
        The observation space and the action space that RLlib will see. For a multi-agent env each is a `Dict` by agent;
        for a batch, they are of one lane. Action masks are left out unless `action_masks` is True.

    Raises:
        envoi.EnvoiError: The env breaks its spec, raised an error of its own, is a batch without exactly `num_envs`
            lanes, or has no action that can be masked.
    """
    with one_line():
        masks = action_masks is True
        form: Any = to_rllib(env, validate=check_specs, canonical="structured", action_masks=masks)({})
        is_batch = isinstance(form, VectorEnv)
        try:
            if is_batch:
                check_lanes(form, num_envs)
            play_at_random(form, steps, time.monotonic() + seconds, seed)
        except envoi.SpecError as error:
            hint = "; --check-specs off trains all the same" if check_specs else ""
            raise envoi.SpecError(f"{error}{hint}") from error
        finally:
            form.close()
    if is_batch:
        return form.single_observation_space, form.single_action_space
    return form.observation_space, form.action_space


def check_lanes(batch: VectorEnv[Any, Any, Any], num_envs: int | None) -> int:
    """Returns the number of lanes of a batch; raises an error if it differs from `num_envs`."""
    if num_envs not in (None, batch.num_envs):
        raise envoi.EnvoiError(
            f"num_envs: expected {batch.num_envs}, the lanes of the batch, got {num_envs} envs per runner; "
            "leave it out, or make a batch of as many lanes"
        )
    return batch.num_envs
