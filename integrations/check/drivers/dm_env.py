"""The driver for dm_env environments."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from envoi import Env, LossyConversion, SpecError
from envoi.protocol.multi_env import Agent
from envoi.spec import spec_equal

from .base import SINGLE, BadReply, Driver, NotAvailable, Reply

if TYPE_CHECKING:
    from envoi.adapters.dm_env import FromDmEnv


class DmEnvDriver(Driver):
    """Plays a `dm_env.Environment`, seeded as its importer would."""

    api = "dm_env"
    returns_infos = False
    takes_options = False
    restarts_itself = True
    spaces = ("observation_spec", "action_spec")

    def __init__(self, env: Any, importer: FromDmEnv | None = None) -> None:
        from envoi.adapters.dm_env import FromDmEnv
        from envoi.adapters.shared.array_specs import encoder

        super().__init__(env)
        self._importer = FromDmEnv(env) if importer is None else importer
        self.observation_specs = {SINGLE: self._importer.observation_spec}
        self.action_specs = {SINGLE: self._importer.action_spec}
        self.reward_specs = {SINGLE: self._importer.reward_spec}
        self.discount_specs = {SINGLE: self._importer.discount_spec}
        self._encoders = {SINGLE: encoder(self.action_specs[SINGLE], fresh=True)}

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        if seed is not None:
            self._importer.seed_source(seed)
            self.env = self._importer.source  # a factory makes another environment for each seed
        step_type, reward, discount, observation = _unpack_time_step(self.env.reset(), "reset")
        if not step_type.first():
            raise BadReply(f"reset: expected a step of the type FIRST, got {step_type!r}")
        if reward is not None or discount is not None:
            raise BadReply(f"reset: expected None as reward and discount of a FIRST step, got {reward!r}, {discount!r}")
        return Reply({SINGLE: observation}, {}, (SINGLE,), (SINGLE,))

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        step_type, reward, discount, observation = _unpack_time_step(self.env.step(actions[SINGLE]), "step")
        if step_type.first():
            raise BadReply("step: a FIRST step in the middle of an episode")
        last = step_type.last()
        terminated = last and discount is not None and not np.any(np.asarray(discount))
        left = () if last else (SINGLE,)
        flags = {SINGLE: terminated}, {SINGLE: last and not terminated}
        return Reply({SINGLE: observation}, {}, left, left, {SINGLE: reward}, *flags, {SINGLE: discount})

    def step_starts_episode(self, action: Any) -> bool:
        return _unpack_time_step(self.env.step(action), "step")[0].first()

    def inspect(self) -> None:
        self._read_available(self.env.observation_spec, self.env.action_spec, self.env.reward_spec)

    def render(self) -> Any:
        if not callable(getattr(self.env, "render", None)):
            raise NotAvailable
        return super().render()

    def read_spaces(self) -> dict[str, Any]:
        return {name: getattr(self.env, name)() for name in self.spaces}

    def same_space(self, one: Any, other: Any) -> bool:
        from envoi.adapters.dm_env import from_spec

        return one is other or spec_equal(from_spec(one, "spec"), from_spec(other, "spec"))

    @property
    def unseeded_reason(self) -> str:
        if not self._importer.unseeded:
            return ""
        return "no way to seed it is known; give it a method seed(integer), or use from_dm_env(env, seed=function)"

    def core_env(self) -> Env:
        return self._importer

    def with_env(self, env: Any) -> Self:
        other = super().with_env(env)
        with suppress(LossyConversion, SpecError):
            other._importer = type(self._importer)(env)
        return other


def _unpack_time_step(reply: Any, call: str) -> tuple[Any, Any, Any, Any]:
    if not (isinstance(reply, tuple) and len(reply) == 4 and hasattr(reply[0], "first")):
        raise BadReply(f"{call}: expected a dm_env.TimeStep, got {type(reply).__name__}")
    return reply[0], reply[1], reply[2], reply[3]
