"""Exports environments of one agent to RLlib. Spaces, losses and seeds are described in `envoi.adapters.rllib`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envoi import Reset, Step
from envoi.protocol.env import full_step
from envoi.protocol.fast_steps import fast_step

from ..gymnasium.form import ToGymnasium
from ..shared.discounts import is_default_discount
from .form_base import CodedForm


class RLlibEnv(CodedForm, ToGymnasium):
    """A core environment in RLlib's canonical form: a gymnasium env that an env runner steps. See `CodedForm`."""

    _memory = ("_last",)

    _planned = ("_step",)

    _last: Any = None  # a `Reset`, or the six values of a fast step

    def _plan(self) -> None:
        super()._plan()
        if self.codec is not None:
            self._encode, self._decode = self.codec.encode, self.codec.decode
        self._step = fast_step(self._env)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Starts a new episode; see `gymnasium.Env.reset`.

        Args:
            seed: RLlib's seed, from which the core's is computed, see `WorkerSeeds`; None for no seed.
            options: The options for the core.

        Returns:
            The observation and the info.
        """
        if seed is not None:
            seed = self.seeds.at_reset(seed)
        self._last = begun = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        observation, info = begun
        encoded = observation if self._encode is None else self._encode(observation)
        return (encoded if self._masks is None else self._masks.beside(encoded, info, observation)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """Acts once; see `gymnasium.Env.step`. A discount that is not the default is `info["discount"]`."""
        if self._decode is not None:
            action = self._decode(action)
        self._last = step = self._step(action)
        observation, reward, terminated, truncated, discount, info = step
        encoded = observation if self._encode is None else self._encode(observation)
        if self._masks is not None:
            encoded = self._masks.beside(encoded, info, observation)
        if discount is not None and not is_default_discount(discount, terminated):
            info = {**info, "discount": discount}
        return encoded, reward, terminated, truncated, info

    @property
    def last(self) -> Reset | Step | None:
        """The result of the core's last reset or step; None before."""
        last = self._last
        return last if last is None or isinstance(last, Reset) else full_step(last)
