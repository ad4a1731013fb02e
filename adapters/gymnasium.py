"""gymnasium, both ways.

| core | gymnasium |
|---|---|
| `Array`, bounds or none | `Box`; "no bound" is ±inf for each element, or the ends of an unsigned dtype |
| `Discrete`, `MultiDiscrete`, `MultiBinary` | the same |
| `Text`, `Sequence`, `Graph`, `OneOf` | the same |
| dict; tuple, list, named tuple | `Dict` in insertion order; `Tuple` |
| `discount` that is not the default (0 if terminated, else 1) | `info["discount"]` |
| how the environment was made, and its wrappers | `spec`, see `envoi.adapters.gymnasium_spec` |

A space that comes from a spec remembers it, so names, kinds of branches and the difference between no bound and an
infinite one come back. Where the wrappers of a source leave one of its spaces as it is, the form has a copy of it, so
that it draws what the source's would.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| several agents | number | refused |

A batch is a vector env (`envoi.adapters.gymnasium_vector`). On the way here, spaces of kinds that only their authors
know, and stacked sequences of what no array holds, are refused.

At construction each form decides which values need another container or type. A step of `ToGymnasium` then only drops
the discount, or says it in `info`; a step of `FromGymnasium` looks whether the observation is as declared and nobody
else's, and converts or copies it where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from sys import getrefcount
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorWrapper
from numpy import ndarray

from envoi import (
    Array,
    Env,
    EpisodeError,
    LossyConversion,
    MissingBackend,
    MultiEnv,
    Reset,
    Snapshot,
    SpecError,
    Step,
    Streams,
    UnknownName,
    Validated,
)
from envoi.errors import nearest
from envoi.protocol.env import ENDED, NOT_RESET, five_step, full_step, quickest_step
from envoi.protocol.process import Info
from envoi.rewards.rewarder import reward_step
from envoi.seeding import check_seed
from envoi.tree import leaves

from .agents import one_agent
from .contexts import TakesContext
from .discounts import is_default_discount, is_number
from .form import AnyForm
from .layers import Content
from .losses import Loss
from .options import ResetOptions
from .registry import from_env, is_of, refuse_others
from .spaces import NAME, decoder, encoder, from_space, like_source, to_space
from .values import ALONE, HOLDERS, Copy, fresh, incoming, own_size, owned

__all__ = [
    "FromGymnasium",
    "ToGymnasium",
    "from_gymnasium",
    "from_space",
    "load",
    "losses",
    "recognises",
    "to_gymnasium",
    "to_space",
]

NATIVE_REWARD = Array((), "float64", name="reward")


class ToGymnasium(AnyForm, gymnasium.Env[Any, Any]):
    """A core environment as a gymnasium one.

    A step calls the core's step and returns five of its six values. Everything else (spaces, what needs another
    container) is decided here, once.

    Args:
        core: An environment of one lane.
        validate: Check every value against its spec.

    Attributes:
        core: The core environment.
    """

    def __init__(self, core: Env, validate: bool = False) -> None:
        if core.batch_size is not None:
            raise SpecError(f"to_gymnasium: expected one environment, got a batch of {core.batch_size} lanes")
        self.core = core
        self._env = Validated(core) if validate else core
        self.metadata = deepcopy(dict(core.metadata))
        self.render_mode = core.render_mode
        # "Unknown": otherwise gymnasium replaces the generator when somebody reads its seed.
        self._np_random_seed = -1
        self._closed = False
        self._plan()
        self.observation_space, self.action_space = self._spaces()

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        seen, done = to_space(self.core.observation_spec, "observation"), to_space(self.core.action_spec, "action")
        return like_source(seen, self.core, "observation"), like_source(done, self.core, "action")

    def _plan(self) -> None:
        self._encode = encoder(self.core.observation_spec)
        self._decode = decoder(self.core.action_spec, exact=self._env is not self.core)
        self._step = quickest_step(self._env)
        five = None if self._encode or self._decode else five_step(self._env)
        if five is not None and type(self).step is ToGymnasium.step:
            self.step = cast("Any", five)  # nothing is left to do

    @classmethod
    def _opens(cls, core: Any) -> bool:
        return not is_of(core.unwrapped, NAME)  # which is then the `unwrapped` of a form

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        """The native environment under all wrappers where it is one of gymnasium, else this form.

        Without one, the form has the public attributes of the model or of the source of another framework.
        """
        native = self.core.unwrapped
        return native.unwrapped if is_of(native, NAME) else self

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Begins an episode; see `gymnasium.Env.reset`."""
        observation, info = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        return (observation if self._encode is None else self._encode(observation)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """Acts once; see `gymnasium.Env.step`."""
        if self._decode is not None:
            action = self._decode(action)
        observation, reward, terminated, truncated, discount, info = self._step(action)
        if self._encode is not None:
            observation = self._encode(observation)
        if discount is not None and not is_default_discount(discount, terminated):
            info = {**info, "discount": discount}
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        """A picture, as `render_mode` says."""
        return self.core.render()

    def close(self) -> None:
        """Releases what the environment holds; may be called again."""
        if not self._closed:
            self._closed = True
            self.core.close()

    @property
    def spec(self) -> EnvSpec | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How `gymnasium.make` makes such an environment, see `envoi.adapters.gymnasium_spec`; None if unknown."""
        from .gymnasium_spec import spec_of

        return spec_of(self.core)

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        from .gymnasium_spec import assign

        assign(self.core, spec)

    @property
    def np_random_seed(self) -> int | None:
        """The seed of the generator, -1 where it is unknown; of a native environment of gymnasium, what it says."""
        native = self.unwrapped
        return self._np_random_seed if native is self else native.np_random_seed

    # gymnasium.Env's own `np_random` reads and writes this.
    @property
    def _np_random(self) -> np.random.Generator:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.core.rng

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator) -> None:
        self.core.rng = generator

    def content(self) -> Snapshot:
        """What a snapshot of an environment that this form is a part of holds of it."""
        return self._env.snapshot()

    def put_back(self, held: Snapshot) -> None:
        """Puts back what `content` gave."""
        self._env.restore(held)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("_encode", "_decode", "_step", "step")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._plan()

    def __repr__(self) -> str:
        return f"to_gymnasium({self.core!r})"

    __str__ = __repr__


class FromGymnasium(ResetOptions, TakesContext, Env):
    """A gymnasium environment as a core one.

    A step calls the source's step, casts the observation where the source was careless, copies it where the
    source still holds it, and reads a discount from `info["discount"]`.

    Args:
        source: The gymnasium environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The gymnasium environment.
    """

    def __init__(self, source: gymnasium.Env[Any, Any], copy: Copy = "auto") -> None:
        self.source = source
        self.observation_spec = from_space(source.observation_space, "observation_space")
        self.action_spec = from_space(source.action_space, "action_space")
        native = bare(source)
        # MO-gymnasium's convention for rewards that are not one number.
        rewards = getattr(native, "reward_space", None)
        self.reward_spec = NATIVE_REWARD if rewards is None else from_space(rewards, "reward_space")
        if isinstance(native, ToGymnasium):  # ours, inside wrappers of gymnasium
            self.discount_spec = native.core.discount_spec
        if isinstance(source, ToGymnasium):  # whose rewards no wrapper changes
            self.reward_spec = source.core.reward_spec
        self.metadata = deepcopy(dict(source.metadata or {}))
        self.render_mode = source.render_mode
        self._copy: Copy = copy
        self._over: str | None = NOT_RESET
        self._closed = False
        self._observation: Any = None
        self._rewarder = None
        self._plan()

    def _plan(self) -> None:
        spec = self.observation_spec
        self._incoming = incoming(spec, self._copy)
        # RLlib's form of ours takes an equal seed for one that comes again, which here always replays.
        self._forget_seeds = getattr(self.unwrapped, "forget_seeds", None)
        # The dtype of arrays that need a look only: numpy's own object, to which those of most arrays are identical.
        is_array = self._copy == "auto" and isinstance(spec, Array)
        self._dtype, self._size = (np.dtype(spec.dtype.type), own_size(spec)) if is_array else (None, 0)
        self._shape = getattr(spec, "shape", ())
        # The source may keep an action, or change it.
        self._encode = encoder(self.action_spec, fresh=True)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        seed = check_seed(seed)  # as a Python int, for gymnasium takes no other
        if seed is not None:
            self._streams = Streams(seed)
            if self._forget_seeds is not None:
                self._forget_seeds()
        if self._context is not None:
            self._take_context()
        observation, info = self.source.reset(seed=seed, options=None if options is None else fresh(options))
        if getattr(observation, "shape", ()) != self._shape:
            self._dtype = None  # look longer, for `own_size` tells nothing of arrays of another shape than declared
        self._observation = observation = self._incoming(observation)
        self._over = None
        return Reset(observation, dict(info))

    def step(self, action: Any) -> Step:
        return full_step(self.raw_step(action))

    def raw_step(self, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        if self._over is not None:
            raise EpisodeError(f"step: {self._over}")
        before = None if self._rewarder is None else (self.state,)
        observation, reward, terminated, truncated, info = self.source.step(
            action if self._encode is None else self._encode(action)
        )
        # The common case of `incoming`, for an array that nothing but this frame holds.
        if (
            type(observation) is not ndarray
            or observation.dtype is not self._dtype
            or getrefcount(observation) > ALONE
            or observation.__sizeof__() != self._size
        ):
            observation = self._incoming(observation)
        self._observation = observation
        rare = terminated or truncated or before is not None or type(reward) in HOLDERS
        if rare or (info and "discount" in info):
            return self.complete_five(observation, reward, terminated, truncated, info, before, action)
        return observation, reward, False, False, None, {**info} if info else {}

    def complete_five(
        self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Info, before: Any, action: Any
    ) -> tuple[Any, Any, bool, bool, Any, Info]:
        """`raw_step` of what its source has given, for steps with more to them than an observation and a reward.

        A form that takes the common step of the source itself, which saves a call and two tuples, calls it too.
        """
        reward = owned(reward)
        if before is not None:
            reward = reward_step(cast("Any", self._rewarder), reward, before[0], action, self.state)
        if terminated or truncated:
            self._over = ENDED
        discount, info = None, {**info} if info else {}
        if "discount" in info and is_number(info["discount"]):
            discount = info.pop("discount")
        return observation, reward, bool(terminated), bool(truncated), discount, info

    @property
    def state(self) -> Any:
        """The source's own `state` (or `s`, in the toy-text envs) where it has one, else the observation."""
        if self._over == NOT_RESET:
            raise EpisodeError(f"state: {NOT_RESET}")
        native = self.unwrapped
        if isinstance(native, ToGymnasium):
            return native.core.state
        for name in ("state", "s"):
            state = getattr(native, name, None)
            if state is not None and not callable(state):
                return deepcopy(state)
        return self._observation

    @property
    def observation(self) -> Any:
        if self._over == NOT_RESET:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation

    @property
    def rng(self) -> np.random.Generator:
        """The source's `np_random`; settable."""
        return self.unwrapped.np_random

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        self.unwrapped.np_random = generator

    def snapshot(self) -> Snapshot:
        held = Content(self._parts())
        streams = None if self._streams is None else self._streams.copy()
        return Snapshot(type(self), (held, self._over, deepcopy(self._observation), streams, self._contexts_held))

    def restore(self, snapshot: Snapshot) -> None:
        held, over, observation, streams, contexts = self._content(snapshot)
        self._expect_contexts(contexts)
        held.put_back(self._parts())
        self._contexts_held = contexts
        self._over, self._observation = over, deepcopy(observation)
        self._streams = None if streams is None else streams.copy()

    def _parts(self) -> list[Any]:
        """The source from its outermost wrapper to the bare environment, and their spaces: what stays itself."""
        layers = [self.source]
        while isinstance(layers[-1], gymnasium.Wrapper):
            layers.append(layers[-1].env)
        each = {id(space): space for layer in layers for space in (layer.observation_space, layer.action_space)}
        return [*layers, *each.values()]

    def native_space(self, what: str, agent: Any = None) -> spaces.Space[Any]:
        """The source's `"observation"` or `"action"` space."""
        return getattr(self.source, f"{what}_space")

    def render(self) -> Any:
        return self.source.render()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        return bare(self.source)

    def __getstate__(self) -> dict[str, Any]:
        planned = ("_incoming", "_encode", "_forget_seeds")
        return {name: value for name, value in vars(self).items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()
        self._keep_context()

    def __repr__(self) -> str:
        return f"from_gymnasium({self.source})"


def bare(source: Any) -> Any:
    """Returns the native environment under gymnasium's wrappers, or the form of envoi there, which speaks for its own.

    Args:
        source: An environment or a vector environment of gymnasium.
    """
    layer = source
    while isinstance(layer, (gymnasium.Wrapper, VectorWrapper)):
        layer = cast("Any", layer).env
    return layer if isinstance(layer, AnyForm) else source.unwrapped


def recognises(env: object) -> bool:
    """Whether `env` is an environment of this framework."""
    return isinstance(env, gymnasium.Env)


def to_gymnasium(env: Any, *, validate: bool = False) -> gymnasium.Env[Any, Any]:
    """Any environment as a gymnasium one.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises.
        validate: Check every value against its spec, with an error that names leaf, step and episode.

    Returns:
        A `gymnasium.Env` with `.core`; the very same object for what came from gymnasium.

    Raises:
        LossyConversion: gymnasium cannot express a part of it.
    """
    if is_of(env, NAME) and not validate:
        return env
    core = one_agent(from_env(env), NAME)
    if isinstance(core, FromGymnasium) and core._rewarder is None and core._context is None and not validate:
        return core.source
    return ToGymnasium(core, validate)


def from_gymnasium(env: gymnasium.Env[Any, Any], *, copy: Copy = "auto") -> Env:
    """A gymnasium environment as a core one.

    Args:
        env: The environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework, such as a `MultiAgentEnv` of RLlib.
        LossyConversion: A space is of a kind that nobody but its author knows.
    """
    if isinstance(env, ToGymnasium):
        return env.core
    refuse_others(env, NAME)
    if any(kind.__module__ == "qgym.templates.environment" for kind in type(bare(env)).__mro__):
        from .qgym import FromQgym

        return FromQgym(env, copy)
    return FromGymnasium(env, copy)


def losses(env: Env | MultiEnv) -> list[Loss]:
    """What of a core environment would not survive the way to gymnasium and back."""
    try:
        env = one_agent(env, NAME)
    except LossyConversion as error:
        return [Loss.of(error)]
    found: list[Loss] = []
    for what, spec in (("observation", env.observation_spec), ("action", env.action_spec)):
        for path, leaf in leaves(spec, what):
            try:
                to_space(leaf, path)
            except LossyConversion as error:
                found.append(Loss.of(error))
    return found


def load(scheme: str, name: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """An environment of gymnasium's registry, by its id.

    Args:
        scheme: `"gymnasium"`.
        name: The id, such as `"CartPole-v1"`.
        **arguments: For `gymnasium.make`.

    Raises:
        UnknownName: There is no such id; the message suggests near ones.
        MissingBackend: Something that the environment needs is not installed.
        SpecError: The environment does not take these arguments.
    """
    arguments = {"disable_env_checker": True, **arguments}
    try:
        return gymnasium.make(name, **arguments)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingBackend(f"{scheme}:{name}: {error}") from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        near = nearest(f"{scheme}:{name}", (f"{scheme}:{known}" for known in gymnasium.registry))
        why = str(error) if isinstance(error, gymnasium.error.NamespaceNotFound) else "no such environment"
        raise UnknownName(f"{scheme}:{name}: {why}; {near}") from error
    except ModuleNotFoundError as error:
        raise MissingBackend(f"{scheme}:{name}: {error}; install what it needs") from error
    except (TypeError, gymnasium.error.Error) as error:
        raise SpecError(f"{scheme}:{name}: {error}") from error
