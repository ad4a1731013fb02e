"""Conversions for neural networks: observations to one float32 array or to images, flat actions to the core's.

`Codec` maps the observations and actions of an environment, of any structure, to the spaces that common policy
networks are built for, and back, one at a time or for all lanes of a batch. The table is in `envoi.adapters.rllib`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from envoi import Array, Env, LossyConversion, MultiEnv, Spec
from envoi.spec import SpecTree, spec_equal
from envoi.tree import leaves

from ...shared.loss import Loss
from .actions import MAX_INTEGERS, action_leaf, action_plan
from .images import IMAGE_SIZES, is_square_image
from .masks import without_mask
from .observations import (
    MAX_ONE_HOT,
    NAME,
    batch_observation_plan,
    is_wide,
    narrows,
    observation_leaf,
    observation_plan,
)
from .structured import structured_plan

__all__ = ["IMAGE_SIZES", "MAX_INTEGERS", "MAX_ONE_HOT", "Codec", "losses"]


class Codec:
    """Converts between a core environment's values and the canonical values of RLlib's networks.

    Args:
        env: The core environment, of one agent; possibly a batch.
        structured: If True, images stay images of their own dtype, for networks with convolutions such as those of
            `envoi.integrations.rllib`; see `envoi.adapters.rllib.codec.structured`. If False, all but a few images
            are flattened, as RLlib's own networks require.
        masked: If True, an `"action_mask"` in the observation is left out, because it is beside the observation.

    Attributes:
        observation_space: A float32 `Box`, flat or an image; with `structured`, possibly a uint8 `Box` or a `Dict`.
        action_space: `Discrete` or `MultiDiscrete` from 0, a flat float32 `Box`, or a `Tuple` of the last two.
        encode: Converts a core observation to a value of `observation_space`.
        decode: Converts a value of `action_space` to a core action.
        decode_batch: Converts the network's actions for n lanes, arrays of shape (n, …) or a list of one per lane, to
            core actions with leaves of shape (n, …).

    Raises:
        LossyConversion: A leaf has no canonical form; the message names it.
    """

    def __init__(self, env: Env, *, structured: bool = False, masked: bool = False) -> None:
        ((_, part),) = _parts(env, masked)
        self._set(part, structured)

    @classmethod
    def each(cls, env: MultiEnv, *, structured: bool = False, masked: bool = False) -> dict[Any, Self]:
        """Returns the codec of each possible agent; agents with equal specs share one.

        Args:
            env: The core environment.
            structured: If True, images stay images.
            masked: If True, an `"action_mask"` in an observation is left out.

        Raises:
            LossyConversion: A leaf of some agent has no canonical form.
        """
        made: list[tuple[_Part, Self]] = []
        found: dict[Any, Self] = {}
        for agent, part in _parts(env, masked):
            codec = next((codec for other, codec in made if part.equals(other)), None)
            if codec is None:
                codec = cls.__new__(cls)
                codec._set(part, structured)
                made.append((part, codec))
            found[agent] = codec
        return found

    def _set(self, part: _Part, structured: bool) -> None:
        if part.reward_loss is not None:
            raise part.reward_loss
        self._observation_spec = part.observation
        self._encode_batch: Callable[[Any], Any] | None = None
        path = f"observation{part.place}"
        if structured:
            self.observation_space, self.encode, self._encode_batch = structured_plan(part.observation, path)
        else:
            self.observation_space, self.encode = observation_plan(part.observation, path)
        self.action_space, self.decode, self.decode_batch = action_plan(part.action, f"action{part.place}")

    @cached_property
    def encode_batch(self) -> Callable[[Any], Any]:
        """Converts core observations of n lanes, with leaves of shape (n, …), to arrays of shape (n, …)."""
        return self._encode_batch or batch_observation_plan(self._observation_spec)


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


def _parts(env: Env | MultiEnv, masked: bool = False) -> Iterator[tuple[Any, _Part]]:
    """Yields the specs of each agent, with `masked` without the action masks in the observations."""
    if isinstance(env, Env):
        each: list[tuple[Any, str, Any]] = [(None, "", (env.observation_spec, env.action_spec, env.reward_spec))]
    else:
        specs = (env.observation_spec, env.action_spec, env.reward_spec)
        each = [(agent, f"[{agent!r}]", tuple(spec[agent] for spec in specs)) for agent in env.possible_agents]
    for agent, place, (observation, action, reward) in each:
        yield agent, _Part(place, without_mask(observation, action) if masked else observation, action, reward)


_FLATTENED = (
    "RLlib's networks see one flat vector; those of envoi.integrations.rllib see images as images, and "
    'canonical="structured" keeps them for a module of your own'
)


def _is_flattened(spec: Spec) -> bool:
    return len(getattr(spec, "shape", ())) > 1


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
                    if read is observation_leaf and _is_flattened(leaf) and not is_square_image(spec):
                        found.append(Loss(path, "shape", repr(leaf), NAME, False, _FLATTENED))
            if not refused:
                try:
                    plan(spec, what)
                except LossyConversion as error:
                    found.append(Loss.of(error))
        if part.reward_loss is not None:
            found.append(Loss.of(part.reward_loss))
    return found
