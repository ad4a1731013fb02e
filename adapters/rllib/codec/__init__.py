"""Conversions for neural networks: observations to one float32 array, flat actions to the core's.

`Codec` maps the observations and actions of an environment, of any structure, to the spaces that common policy
networks are built for, and back, one at a time or for all lanes of a batch. The table is in `envoi.adapters.rllib`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from envoi import Array, Env, LossyConversion, MultiEnv
from envoi.spec import SpecTree, spec_equal
from envoi.tree import leaves

from ...shared.loss import Loss
from .actions import MAX_INTEGERS, action_leaf, action_plan
from .observations import (
    IMAGE_SIZES,
    MAX_ONE_HOT,
    NAME,
    batch_observation_plan,
    is_wide,
    narrows,
    observation_leaf,
    observation_plan,
)

__all__ = ["IMAGE_SIZES", "MAX_INTEGERS", "MAX_ONE_HOT", "Codec", "losses"]


class Codec:
    """Converts between a core environment's values and the canonical values of RLlib's networks.

    Args:
        env: The core environment, of one agent; possibly a batch.

    Attributes:
        observation_space: A float32 `Box`, flat or an image.
        action_space: `Discrete` or `MultiDiscrete` from 0, a flat float32 `Box`, or a `Tuple` of the last two.
        encode: Converts a core observation to a value of `observation_space`.
        decode: Converts a value of `action_space` to a core action.
        decode_batch: Converts the network's actions for n lanes, arrays of shape (n, …) or a list of one per lane, to
            core actions with leaves of shape (n, …).

    Raises:
        LossyConversion: A leaf has no canonical form; the message names it.
    """

    def __init__(self, env: Env) -> None:
        ((_, part),) = _parts(env)
        self._set(part)

    @classmethod
    def each(cls, env: MultiEnv) -> dict[Any, Self]:
        """Returns the codec of each possible agent; agents with equal specs share one.

        Raises:
            LossyConversion: A leaf of some agent has no canonical form.
        """
        made: list[tuple[_Part, Self]] = []
        found: dict[Any, Self] = {}
        for agent, part in _parts(env):
            codec = next((codec for other, codec in made if part.equals(other)), None)
            if codec is None:
                codec = cls.__new__(cls)
                codec._set(part)
                made.append((part, codec))
            found[agent] = codec
        return found

    def _set(self, part: _Part) -> None:
        if part.reward_loss is not None:
            raise part.reward_loss
        self._observation_spec = part.observation
        self.observation_space, self.encode = observation_plan(part.observation, f"observation{part.place}")
        self.action_space, self.decode, self.decode_batch = action_plan(part.action, f"action{part.place}")

    @cached_property
    def encode_batch(self) -> Callable[[Any], NDArray[np.float32]]:
        """Converts core observations of n lanes, with leaves of shape (n, …), to an array of shape (n, …), float32."""
        return batch_observation_plan(self._observation_spec)


@dataclass(frozen=True)
class _Part:
    """The specs of one agent; `place` is its part of a path, such as `['a']` in `observation['a']`."""

    place: str
    observation: SpecTree
    action: SpecTree
    reward: SpecTree

    def equals(self, other: _Part) -> bool:
        return all(
            spec_equal(mine, others)
            for mine, others in (
                (self.observation, other.observation),
                (self.action, other.action),
                (self.reward, other.reward),
            )
        )

    @property
    def reward_loss(self) -> LossyConversion | None:
        if isinstance(self.reward, Array) and self.reward.shape == ():
            return None
        path = f"reward{self.place}"
        return LossyConversion(path, "shape", repr(self.reward), NAME, "set a rewarder that gives one number")


def _parts(env: Env | MultiEnv) -> Iterator[tuple[Any, _Part]]:
    if isinstance(env, Env):
        yield None, _Part("", env.observation_spec, env.action_spec, env.reward_spec)
        return
    for agent in env.possible_agents:
        specs = (env.observation_spec[agent], env.action_spec[agent], env.reward_spec[agent])
        yield agent, _Part(f"[{agent!r}]", *specs)


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that RLlib's networks receive less precisely, or that are refused."""
    found: list[Loss] = []
    for _, part in _parts(env):
        sides = (
            (f"observation{part.place}", part.observation, observation_leaf, observation_plan, narrows, "sees"),
            (f"action{part.place}", part.action, action_leaf, action_plan, is_wide, "gives"),
        )
        for what, spec, read, plan, is_narrowed, does in sides:
            refused = False
            for path, leaf in leaves(spec, what):
                try:
                    read(leaf, path)
                except LossyConversion as error:
                    refused = True
                    found.append(Loss.of(error))
                else:
                    if is_narrowed(leaf):
                        found.append(Loss(path, "precision", repr(leaf), NAME, False, f"the network {does} float32"))
            if not refused:
                try:
                    plan(spec, what)
                except LossyConversion as error:
                    found.append(Loss.of(error))
        if part.reward_loss is not None:
            found.append(Loss.of(part.reward_loss))
    return found
