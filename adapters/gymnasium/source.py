"""Imports environments of gymnasium. The table of conversions is in `envoi.adapters.gymnasium`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper

from envoi import Array, Streams
from envoi.protocol.process import Info
from envoi.steps.record import OVER

from ..shared.arrival import arrival, incoming, is_number, owned
from ..shared.contexts import TakesContext
from ..shared.imported import CoreHolder, takes_options
from .specs import NAME, encoder, from_space

NATIVE_REWARD = Array((), "float64", name="reward")


class FromGymnasium(TakesContext):
    """A gymnasium environment as a core environment.

    A step calls the source's step, casts the observation if its dtype differs from the space's, copies it if the source
    still holds it, and reads a discount from `info["discount"]`.

    Args:
        source: The gymnasium environment, possibly wrapped.
        copy: Which observations to copy, see `from_gymnasium`.
    """

    _framework = NAME
    _planned = ("_incoming", "_encode")

    def _describe(self) -> None:
        source, core = self.source, self.core_inside
        self.observation_spec = from_space(source.observation_space, "observation_space")
        self.action_spec = from_space(source.action_space, "action_space")
        # MO-gymnasium's convention for rewards that are not one number.
        rewards = getattr(self.unwrapped, "reward_space", None)
        self.reward_spec = NATIVE_REWARD if rewards is None else from_space(rewards, "reward_space")
        if core is not None:
            self.discount_spec = core.discount_spec
            if source is self.form_inside:  # no wrapper around it changes rewards
                self.reward_spec = core.reward_spec
        self.has_place = takes_options(source.reset)
        self.metadata = deepcopy(dict(source.metadata or {}))
        self.render_mode = source.render_mode

    def _plan(self) -> None:
        spec = self.observation_spec
        self._incoming = incoming(spec, self._copy)
        # A copy, because the source may keep an action, or change it in place.
        self._encode = encoder(self.action_spec, fresh=True, path="action")
        super()._plan()

    def seed_source(self, seed: int) -> None:
        replay_seeds(self.unwrapped)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        if self._context is not None:
            self._take_context()
        observation, info = self._reset_source(seed, options)
        return self._incoming(observation), dict(info)

    def _lines_of_step(self) -> tuple[str, dict[str, Any]]:
        take, names = arrival(self.observation_spec, self._copy, self._incoming)
        sent = "action" if self._encode is None else "encode_action(action)"
        lines = f"""\
observation, reward, terminated, truncated, info = env.source.step({sent})
{take}
env._observation = observation
if terminated or truncated or not isinstance(reward, float) or (info and "discount" in info):
    reward, terminated, truncated, discount, info = env._complete(reward, terminated, truncated, info)
else:
    terminated = truncated = False
    discount = None
    info = {{**info}} if info else {{}}"""
        return lines, {**names, "encode_action": self._encode}

    def _complete(self, reward: Any, terminated: Any, truncated: Any, info: Info) -> tuple[Any, bool, bool, Any, Info]:
        """Returns the values of a step that ends the episode, or whose reward or info needs a conversion."""
        if terminated or truncated:
            self._halt = OVER
        discount, info = None, {**info} if info else {}
        if "discount" in info and is_number(info["discount"]):
            discount = info.pop("discount")
        return owned(reward), bool(terminated), bool(truncated), discount, info

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
        return layers_and_spaces(self.source, "observation_space", "action_space")

    def native_space(self, what: str, agent: Any = None) -> spaces.Space[Any]:
        """Returns a space of the source.

        Args:
            what: `"observation"` or `"action"`.
            agent: None, because there is only one agent.
        """
        return getattr(self.source, f"{what}_space")

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        return bare(self.source)


def bare(source: Any) -> Any:
    """Returns the native environment inside gymnasium's wrappers. A form of envoi counts as native."""
    layer = source
    while isinstance(layer, (gymnasium.Wrapper, VectorWrapper)):
        layer = layer.env
    return layer if isinstance(layer, CoreHolder) else source.unwrapped


def layers_and_spaces(source: Any, *names: str) -> list[Any]:
    """Returns the layers of a source, and the spaces in their attributes `names`, each space once."""
    layers = [source]
    while isinstance(layers[-1], (gymnasium.Wrapper, VectorWrapper)):
        layers.append(layers[-1].env)
    each = {id(space): space for layer in layers for space in (getattr(layer, name) for name in names)}
    return [*layers, *each.values()]


def replay_seeds(native: Any) -> None:
    """Makes a form for RLlib treat the next seed as new, because in training it ignores a repeated seed."""
    forget_seeds = getattr(native, "forget_seeds", None)
    if forget_seeds is not None:
        forget_seeds()
