"""Environments of dm_env as core ones. The table of conversions is in `envoi.adapters.dm_env`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NoReturn, cast
from warnings import warn

import dm_env
import numpy as np
from numpy import ndarray

from envoi import (
    Array,
    Discrete,
    Env,
    EpisodeError,
    MultiBinary,
    MultiDiscrete,
    Reset,
    Snapshot,
    SpecError,
    Step,
    Streams,
)
from envoi.protocol.env import ENDED, NOT_RESET, full_step
from envoi.protocol.fast_steps import SIX_VALUES, VALUES, Part, assemble
from envoi.protocol.process import Info
from envoi.rewards.rewarder import reward_step
from envoi.seeding import check_seed
from envoi.spec import SpecTree
from envoi.tree import leaves

from ..shared.array_specs import Choices, encoder
from ..shared.arrival import ARRIVAL_NAMES, ARRIVES, ARRIVES_ALONE, Copy, incoming, own_size
from ..shared.contexts import TakesContext
from ..shared.copying import owned
from ..shared.discounts import is_default_discount
from ..shared.introspection import Content, Generators, layers, physics, seed_hook
from ..shared.loss import UnseededWarning
from ..shared.reset_options import NoResetOptions
from .form import FIRST, LAST, MID, ToDmEnv, is_zero
from .specs import from_spec
from .string_arrays import Strings


class FromDmEnv(NoResetOptions, TakesContext, Env):
    """A dm_env environment as a core one.

    Args:
        source: The dm_env environment, wrappers and all.
        seed: How to seed the source, see `from_dm_env`.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.
        factory: Makes the source anew for every seed.

    Attributes:
        source: The dm_env environment.
    """

    def __init__(
        self,
        source: dm_env.Environment,
        seed: Callable[[int], Any] | None = None,
        copy: Copy = "auto",
        factory: Callable[..., dm_env.Environment] | None = None,
    ) -> None:
        self.source = source
        self.observation_spec = from_spec(source.observation_spec(), "observation_spec")
        self.action_spec = from_spec(source.action_spec(), "action_spec", action=True)
        self.reward_spec = from_spec(source.reward_spec(), "reward_spec")
        self.discount_spec = from_spec(source.discount_spec(), "discount_spec")
        self.metadata, self.render_mode = self._picture()
        self._seeder, self._factory = seed, factory
        self._copy: Copy = copy
        self._warned = False
        self._rewarder = None  # read in every step, and an instance's own attribute is read faster than its class's
        self._over: str | None = NOT_RESET
        self._closed = False
        self._observation: Any = None
        self._plan()

    def _plan(self) -> None:
        self._form = self.source if isinstance(self.source, ToDmEnv) else None
        self._incoming = _incoming(self.observation_spec, self._copy)
        # The source may keep an action, or change it.
        self._encode = encoder(self.action_spec, fresh=True)
        self._choices: dict[Any, Any] | None = None
        if isinstance(self.action_spec, Discrete):
            known = Choices(self.action_spec)
            self._choices = {**known} if len(known) == self.action_spec.n else known  # a bare dict is quicker
        # The dtype of arrays that need a look only: one object for each kind.
        spec = self.observation_spec
        is_array = self._copy == "auto" and isinstance(spec, (Array, MultiDiscrete, MultiBinary))
        self._dtype, self._size = (np.dtype(spec.dtype.str), own_size(spec)) if is_array else (None, 0)
        self._shape = getattr(spec, "shape", ())
        self._six_values = assemble([*FromDmEnv.step_parts(self), SIX_VALUES], unbound=self)

    def _picture(self) -> tuple[dict[str, Any], str | None]:
        native, simulation = self.unwrapped, physics(self.source, dm_env.Environment)
        if isinstance(native, ToDmEnv):
            return deepcopy(native.metadata), native.render_mode
        if simulation is None:
            return {"render_modes": []}, None
        return {"render_modes": ["rgb_array"], "render_fps": 1 / native.control_timestep()}, "rgb_array"

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        seed = check_seed(seed)
        self._give_options(options)
        if seed is not None:
            self._seed_source(seed)
            self._streams = Streams(seed)
        if self._context is not None:
            self._take_context()
        _, _, _, observation = self.source.reset()
        if getattr(observation, "shape", ()) != self._shape:
            self._dtype = None  # look longer, for `own_size` tells nothing of arrays of another shape than declared
        if self._form is None or self._form.last is None:
            observation, info = self._incoming(observation), {}
        else:
            observation, info = self._form.last.observation, {**self._form.last.info}
        self._observation, self._over = observation, None
        return Reset(observation, info)

    def step(self, action: Any) -> Step:
        return full_step(self._six_values(self, action))

    def step_parts(self) -> tuple[Part, ...]:
        """Returns `step` as a part of an assembled one."""
        values = ", ".join(VALUES)
        if self._form is not None:
            lines = [f"{values} = $env._step_of_ours(action)"]
            return (Part("FromDmEnv: all that a form of envoi has", outward="\n".join(lines), names={"env": self}),)
        if self._choices is not None:
            sent = ["try:", "    $sent = $choices[action]", "except (KeyError, TypeError):"]
            sent.append("    $sent = $env._choice(action)")
        else:
            sent = ["$sent = action" if self._encode is None else "$sent = $encode(action)"]
        lines = [
            "if $env._over is not None:",
            "    $env._refuse()",
            "$before = None if $env._rewarder is None else ($env.state,)",
            *sent,
            "$step_type, reward, discount, observation = $env.source.step($sent)",
            ARRIVES if self._dtype is None else ARRIVES_ALONE,
            "if $step_type is $MID and $before is None and isinstance(discount, float) and isinstance(reward, float):",
            "    $env._observation = observation",
            "    terminated = truncated = False",
            "    if discount == 1.0:",
            "        discount = None",
            "    info = {}",
            "else:",
            "    $values = $env._complete($step_type, reward, discount, observation, $before, action)",
            f"    {values} = $values",
        ]
        names = {**ARRIVAL_NAMES, "env": self, "encode": self._encode, "choices": self._choices, "MID": MID}
        return (Part("FromDmEnv: a step of the source", outward="\n".join(lines), names=names),)

    def _refuse(self) -> NoReturn:
        raise EpisodeError(f"step: {self._over}")

    def _choice(self, action: Any) -> Any:
        """A choice that is none of the known ones, or comes as an array."""
        if type(action) is not ndarray:
            hash(action)  # a list is no choice
        return cast("Any", self._encode)(action)

    def _complete(
        self, step_type: dm_env.StepType, reward: Any, discount: Any, observation: Any, before: Any, action: Any
    ) -> tuple[Any, Any, bool, bool, Any, Info]:
        """Returns the six values of a step that is an end or holds more than a plain reward and discount."""
        if step_type not in (MID, LAST) or reward is None or discount is None:
            raise self._refusal(step_type)
        self._observation = observation
        if self._copy is not False:
            reward, discount = owned(reward), owned(discount)
        if before is not None:
            reward = reward_step(cast("Any", self._rewarder), reward, before[0], action, self.state)
        is_last = bool(step_type == LAST)
        if is_last:
            self._over = ENDED
        terminated = is_last and is_zero(discount)
        if is_default_discount(discount, terminated):
            discount = None
        return observation, reward, terminated, is_last and not terminated, discount, {}

    def _step_of_ours(self, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        if self._over is not None:
            self._refuse()
        before = None if self._rewarder is None else self.state
        self.source.step(action if self._encode is None else self._encode(action))
        return self._kept(before, action)

    def _kept(self, before: Any, action: Any) -> Any:
        """The step that our own form has just made, with all that a dm_env step cannot hold."""
        observation, reward, terminated, truncated, discount, info = cast("Step", self._form and self._form.last)
        self._observation = observation
        if self._rewarder is not None:
            reward = reward_step(self._rewarder, reward, before, action, self.state)
        if terminated or truncated:
            self._over = ENDED
        return (observation, reward, terminated, truncated, discount, {**info})

    def _refusal(self, step_type: dm_env.StepType) -> Exception:
        self._over = ENDED
        if step_type == FIRST:
            return EpisodeError(f"step: {self.source} began another episode by itself; call reset() first")
        return SpecError(
            f"reward, discount: expected None in the first step of an episode only, got it later from {self.source}"
        )

    # Seeds and generators.

    def _generators(self) -> Generators:
        return Generators(self.source, dm_env.Environment)

    @property
    def unseeded(self) -> bool:
        """Whether there is no known way to seed the source; then a seed reaches only the sampled actions."""
        known = self._seeder or self._factory or seed_hook(self.source, dm_env.Environment)
        return not (known or self._generators())

    def _seed_source(self, seed: int) -> None:
        hook = self._seeder or seed_hook(self.source, dm_env.Environment)
        if self._factory is not None:
            self.source.close()
            self.source = self._factory(seed=seed)
            self._plan()
        elif hook is not None:
            hook(seed)
        elif generators := self._generators():
            generators.seed(seed)
        elif not self._warned:
            self._warned = True
            warn(
                f"seed: nothing is known that seeds {self.source}; pass from_dm_env(env, seed=function of an integer)",
                UnseededWarning,
                stacklevel=3,
            )

    @property
    def rng(self) -> np.random.Generator:
        """The source's generator where it has one, and a `RandomState` is none; settable.

        A source's `RandomState` takes over the state of an `MT19937` generator, and is seeded from any other.
        """
        if isinstance(self.unwrapped, ToDmEnv):
            return self.unwrapped.core.rng
        generators = self._generators()
        return generators.first() or self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        if isinstance(self.unwrapped, ToDmEnv):
            self.unwrapped.core.rng = generator
        elif self._seeder is None and self._factory is None and (generators := self._generators()):
            generators.replace(generator)
        else:
            self._seed_source(int(deepcopy(generator).integers(2**32)))

    # The episode.

    @property
    def state(self) -> Any:
        """The state of the physics in a source of dm_control, else the observation."""
        if self._over == NOT_RESET:
            raise EpisodeError(f"state: {NOT_RESET}")
        if isinstance(self.unwrapped, ToDmEnv):
            return self.unwrapped.core.state
        simulation = physics(self.source, dm_env.Environment)
        return self._observation if simulation is None else simulation.get_state()

    @property
    def observation(self) -> Any:
        if self._over == NOT_RESET:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation

    def snapshot(self) -> Snapshot:
        streams = None if self._streams is None else self._streams.copy()
        held = Content(layers(self.source, dm_env.Environment))
        return Snapshot(type(self), (held, self._over, deepcopy(self._observation), streams, self._contexts_held))

    def restore(self, snapshot: Snapshot) -> None:
        held, over, observation, streams, contexts = self._content(snapshot)
        self._expect_contexts(contexts)
        held.put_back(layers(self.source, dm_env.Environment))
        self._contexts_held = contexts
        self._over, self._observation = over, deepcopy(observation)
        self._streams = None if streams is None else streams.copy()

    def render(self) -> Any:
        if callable(getattr(self.source, "render", None)):
            return cast("Any", self.source).render()
        if isinstance(self.unwrapped, ToDmEnv):
            return self.unwrapped.render()
        simulation = physics(self.source, dm_env.Environment)
        return None if simulation is None else simulation.render()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> Any:
        return layers(self.source, dm_env.Environment)[-1]

    def __getstate__(self) -> dict[str, Any]:
        planned = ("_form", "_incoming", "_encode", "_choices", "_dtype", "_six_values")
        return {name: value for name, value in vars(self).items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()
        self._keep_context()

    def __repr__(self) -> str:
        return f"from_dm_env({self.source!r})"


def _incoming(spec: SpecTree, copy: Copy) -> Callable[[Any], Any]:
    take = incoming(spec, copy)
    if copy is False or not any(isinstance(leaf, Strings) for _, leaf in leaves(spec)):
        return take
    return lambda value: take(deepcopy(value))  # who holds an array of objects is not counted
