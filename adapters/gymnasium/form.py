"""Exports core environments to gymnasium. The table of conversions is in `envoi.adapters.gymnasium`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from envoi import Env
from envoi.protocol.fast_steps import step_around
from envoi.steps.flat import Finish
from envoi.steps.program import Program

from ..conversion import mark
from ..registry import is_of
from ..shared.arrival import is_default_discount
from ..shared.exported import OpenForm
from .specs import NAME, decoder, encoder, like_source, to_space


class CoreGenerator:
    """The base of a form whose `np_random`, as gymnasium's classes define it, is the generator of its core.

    gymnasium's classes print a form as the innermost environment; here it prints as itself.
    """

    core: Any

    # gymnasium's own `np_random` reads and writes this.
    @property
    def _np_random(self) -> np.random.Generator:
        return self.core.rng

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator) -> None:
        self.core.rng = generator

    def __str__(self) -> str:
        return repr(self)


class DescribedForm(CoreGenerator):
    """Base of single-agent and vectorized forms: defines their spaces and their `spec`."""

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """Returns the observation space and the action space of one lane."""
        seen, done = to_space(self.core.observation_spec, "observation"), to_space(self.core.action_spec, "action")
        return like_source(seen, self.core, "observation"), like_source(done, self.core, "action")

    @property
    def spec(self) -> EnvSpec | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The `EnvSpec` of the form or of a lane, or None. See `envoi.adapters.gymnasium.env_spec`."""
        from .env_spec import spec_of

        return spec_of(self.core)

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        mark(self.core, spec=spec)


class ToGymnasium(DescribedForm, OpenForm, gymnasium.Env[Any, Any]):
    """A core environment as a gymnasium environment.

    A step calls the core's step and returns five of its six values. The constructor sets up everything else (spaces,
    conversions of values).

    Args:
        core: An environment of one lane.
        validate: If True, every value is checked against its spec.
    """

    _framework = NAME
    _planned = ("_encode", "_decode", "_five_values")
    _memory = ("_np_random_seed",)

    def __init__(self, core: Env, validate: bool = False) -> None:
        # -1 means unknown; for None, gymnasium would replace the generator when its seed is read.
        self._np_random_seed = -1
        super().__init__(core, validate)
        self.observation_space, self.action_space = self._spaces()

    def _plan(self) -> None:
        self._encode = encoder(self.core.observation_spec)
        self._decode = decoder(self.core.action_spec, exact=self._env is not self.core)
        self._five_values = step_around(self._env, partial(_finish, self._encode, self._decode))
        if type(self).step is _WRITTEN_STEP:  # neither overridden nor patched
            self._step_by(self._five_values)

    def _opens(self) -> bool:
        return not is_of(self.core.unwrapped, NAME)  # otherwise `form.unwrapped` is the native environment

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        """The native environment inside all wrappers if it is a gymnasium environment, else this form.

        In that case, the form exposes the public attributes of its model, or of its source from another framework.
        """
        native = self.core.unwrapped
        return native.unwrapped if is_of(native, NAME) else self

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        observation, info = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        return (observation if self._encode is None else self._encode(observation)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """Runs one step; see `gymnasium.Env.step`."""
        return self._five_values(action)

    @property
    def np_random_seed(self) -> int | None:
        """The generator's seed, or -1 if unknown; for a native gymnasium environment, its own seed."""
        native = self.unwrapped
        return self._np_random_seed if native is self else native.np_random_seed


_WRITTEN_STEP = ToGymnasium.step


def _finish(encode: Any, decode: Any, program: Program) -> Finish:
    """Returns the code that the form adds at the end of a step."""
    last = [] if encode is None else ["observation = to_gymnasium(observation)"]
    if program.writes("discount"):
        last += [
            "if discount is not None and not is_default(discount, terminated):",
            "    info = {**info, 'discount': discount}",
        ]
    last.append("return observation, reward, terminated, truncated, info")
    names = {"to_gymnasium": encode, "is_default": is_default_discount, "from_gymnasium": decode}
    first = "" if decode is None else "action = from_gymnasium(action)"
    return Finish("ToGymnasium: five values", "\n".join(last), first, names)
