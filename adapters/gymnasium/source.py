"""Environments of gymnasium as core ones. The table of conversions is in `envoi.adapters.gymnasium`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NoReturn, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper

from envoi import Array, EpisodeError, Step, Streams
from envoi.protocol.env import ENDED, full_step
from envoi.protocol.fast_steps import SIX_VALUES, VALUES, Part, assemble
from envoi.protocol.process import Info
from envoi.rewards.rewarder import reward_step

from ..shared.arrival import ARRIVAL_NAMES, ARRIVES, ARRIVES_ALONE, incoming, own_size
from ..shared.contexts import TakesContext
from ..shared.copying import fresh, owned
from ..shared.core_holder import CoreHolder
from ..shared.discounts import is_number
from .specs import NAME, encoder, from_space

NATIVE_REWARD = Array((), "float64", name="reward")


class FromGymnasium(TakesContext):
    """A gymnasium environment as a core one.

    A step calls the source's step, casts the observation where the source was careless, copies it where the
    source still holds it, and reads a discount from `info["discount"]`.

    Args:
        source: The gymnasium environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The gymnasium environment.
    """

    _framework = NAME
    _planned = ("_incoming", "_encode", "_dtype", "_size", "_shape", "_six_values")

    def _describe(self) -> None:
        source, core = self.source, self.core_inside
        self.observation_spec = from_space(source.observation_space, "observation_space")
        self.action_spec = from_space(source.action_space, "action_space")
        # MO-gymnasium's convention for rewards that are not one number.
        rewards = getattr(self.unwrapped, "reward_space", None)
        self.reward_spec = NATIVE_REWARD if rewards is None else from_space(rewards, "reward_space")
        if core is not None:
            self.discount_spec = core.discount_spec
            if source is self.form_inside:  # no wrapper changes its rewards
                self.reward_spec = core.reward_spec
        self.metadata = deepcopy(dict(source.metadata or {}))
        self.render_mode = source.render_mode

    def _plan(self) -> None:
        spec = self.observation_spec
        self._incoming = incoming(spec, self._copy)
        # The dtype of arrays that need a look only: numpy's own object, to which those of most arrays are identical.
        is_array = self._copy == "auto" and isinstance(spec, Array)
        self._dtype, self._size = (np.dtype(spec.dtype.type), own_size(spec)) if is_array else (None, 0)
        self._shape = getattr(spec, "shape", ())
        # The source may keep an action, or change it.
        self._encode = encoder(self.action_spec, fresh=True)
        self._six_values = assemble([*FromGymnasium.step_parts(self), SIX_VALUES], unbound=self)

    def _seed_source(self, seed: int) -> None:
        replay_seeds(self.unwrapped)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        if self._context is not None:
            self._take_context()
        observation, info = self.source.reset(seed=seed, options=None if options is None else fresh(options))
        if getattr(observation, "shape", ()) != self._shape:
            self._dtype = None  # look longer, for `own_size` tells nothing of arrays of another shape than declared
        return self._incoming(observation), dict(info)

    def step(self, action: Any) -> Step:
        return full_step(self._six_values(self, action))

    def step_parts(self) -> tuple[Part, ...]:
        """Returns `step` as a part of an assembled one."""
        sent = "action" if self._encode is None else "$encode(action)"
        outward = [
            "if $env._over is not None:",
            "    $env._refuse()",
            "$before = None if $env._rewarder is None else ($env.state,)",
            f"{', '.join(name for name in VALUES if name != 'discount')} = $env.source.step({sent})",
            ARRIVES if self._dtype is None else ARRIVES_ALONE,
            "$env._observation = observation",
        ]
        unless = (
            "terminated or truncated or $before is not None or not isinstance(reward, float)"
            " or (info and 'discount' in info)"
        )
        rarely = [
            "$values = $env._complete(observation, reward, terminated, truncated, info, $before, action)",
            f"{', '.join(VALUES)} = $values",
        ]
        otherwise = [
            "terminated = truncated = False",
            "discount = None",
            "info = {**info} if info else {}",
        ]
        return (
            Part(
                "FromGymnasium: a step of the source",
                outward="\n".join(outward),
                unless=unless,
                rarely="\n".join(rarely),
                otherwise="\n".join(otherwise),
                names={**ARRIVAL_NAMES, "env": self, "encode": self._encode},
            ),
        )

    def _refuse(self) -> NoReturn:
        raise EpisodeError(f"step: {self._over}")

    def _complete(
        self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Info, before: Any, action: Any
    ) -> tuple[Any, Any, bool, bool, Any, Info]:
        """Returns the six values of a step with more to it than an observation and a reward."""
        reward = owned(reward)
        if before is not None:
            reward = reward_step(cast("Any", self._rewarder), reward, before[0], action, self.state)
        if terminated or truncated:
            self._over = ENDED
        discount, info = None, {**info} if info else {}
        if "discount" in info and is_number(info["discount"]):
            discount = info.pop("discount")
        return observation, reward, bool(terminated), bool(truncated), discount, info

    def _source_state(self) -> Any:
        """Returns a copy of the source's own `state` (or `s`, in the toy-text envs), else the observation."""
        native = self.unwrapped
        for name in ("state", "s"):
            state = getattr(native, name, None)
            if state is not None and not callable(state):
                return deepcopy(state)
        return self._observation

    @property
    def rng(self) -> np.random.Generator:
        """The source's `np_random`; settable."""
        return self.unwrapped.np_random

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        self.unwrapped.np_random = generator

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

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        return bare(self.source)


def bare(source: Any) -> Any:
    """Returns the native environment under gymnasium's wrappers, or the form of envoi there, which speaks for its own.

    Args:
        source: An environment or a vector environment of gymnasium.
    """
    layer = source
    while isinstance(layer, (gymnasium.Wrapper, VectorWrapper)):
        layer = layer.env
    return layer if isinstance(layer, CoreHolder) else source.unwrapped


def replay_seeds(native: Any) -> None:
    """Makes an equal seed replay in a form for RLlib, which continues in training where it comes again.

    Args:
        native: The native environment under all wrappers.
    """
    forget_seeds = getattr(native, "forget_seeds", None)
    if forget_seeds is not None:
        forget_seeds()
