"""Core environments in the form of gymnasium. The table of conversions is in `envoi.adapters.gymnasium`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from envoi import Env
from envoi.protocol.fast_steps import Part, step_around

from ..registry import is_of
from ..shared.discounts import is_default_discount
from ..shared.exported import AnyForm
from .specs import NAME, decoder, encoder, like_source, to_space


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

    _framework = NAME
    _planned = ("_encode", "_decode", "_five_values", "step")

    def __init__(self, core: Env, validate: bool = False) -> None:
        # "Unknown": otherwise gymnasium replaces the generator when somebody reads its seed.
        self._np_random_seed = -1
        super().__init__(core, validate)
        self.observation_space, self.action_space = self._spaces()

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        seen, done = to_space(self.core.observation_spec, "observation"), to_space(self.core.action_spec, "action")
        return like_source(seen, self.core, "observation"), like_source(done, self.core, "action")

    def _plan(self) -> None:
        self._encode = encoder(self.core.observation_spec)
        self._decode = decoder(self.core.action_spec, exact=self._env is not self.core)
        self._five_values = step_around(self._env, partial(_part, self._encode, self._decode))
        if type(self).step is ToGymnasium.step:
            self.step = self._five_values

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
        return self._five_values(action)

    @property
    def spec(self) -> EnvSpec | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How `gymnasium.make` makes such an environment, see `envoi.adapters.gymnasium.env_spec`; None if unknown."""
        from .env_spec import spec_of

        return spec_of(self.core)

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        from .env_spec import assign

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

    def __str__(self) -> str:
        return repr(self)


def _part(encode: Any, decode: Any, constants: Mapping[str, Any]) -> Part:
    """Returns the form's part of a step, which comes last.

    Args:
        encode: Makes observations of the space, or None.
        decode: Makes actions of the core, or None.
        constants: The values that are the same at every step of the core.
    """
    inward = "" if decode is None else "action = $decode(action)"
    outward = [] if encode is None else ["observation = $encode(observation)"]
    if "discount" not in constants:
        outward += [
            "if discount is not None and not $is_default(discount, terminated):",
            "    info = {**info, 'discount': discount}",
        ]
    outward.append("return observation, reward, terminated, truncated, info")
    names = {"decode": decode, "encode": encode, "is_default": is_default_discount}
    return Part("ToGymnasium: five values", inward, "\n".join(outward), names=names)
