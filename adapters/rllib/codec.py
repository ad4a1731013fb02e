"""Conversions for neural networks: observations to a float32 array or to images, flat actions to core actions.

They convert one value, or the values of all lanes of a batch. The table is in `envoi.adapters.rllib`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Array, Discrete, Env, LossyConversion, MultiBinary, MultiDiscrete, MultiEnv, Spec
from envoi.spec import SpecTree
from envoi.tree import children, leaves, rebuild

from ..conversion import refusal
from ..shared.loss import Loss
from . import observations
from .masks import NAME, agents_specs, without_mask
from .observations import Bounds, flat, observation_leaf, observation_plan, structured_plan

MAX_INTEGERS = 4096
"""An integer action with more values than this is refused."""


@dataclass(frozen=True)
class _ActionLeaf:
    """A leaf of an action as a part of RLlib's flat action, of `size` elements."""

    size: int
    counts: NDArray[np.int64] | None  # of the values of each element, for integers
    bounds: Bounds | None  # the lowest and the highest real numbers
    decode: Callable[[NDArray[Any]], Any]  # from (size,) or (n, size) to the leaf's value or that of n lanes


def action_leaf(spec: Spec, path: str) -> _ActionLeaf:
    """Returns the part of RLlib's flat action for a leaf."""
    if isinstance(spec, Discrete):
        return _integers(spec, np.array(spec.n), np.array(spec.start, spec.dtype))
    if isinstance(spec, MultiDiscrete):
        return _integers(spec, spec.nvec, spec.start)
    if isinstance(spec, MultiBinary):
        return _integers(spec, np.full(spec.shape, 2), np.zeros(spec.shape, np.int64))
    if isinstance(spec, Array) and spec.dtype.kind in "biu":
        low, high = spec.low, spec.high
        if spec.dtype.kind == "b":
            low, high = (np.broadcast_to(0, spec.shape) if low is None else low), (1 if high is None else high)
        if low is None or high is None or (np.subtract(high, low, dtype=float) >= MAX_INTEGERS).any():
            raise LossyConversion(path, "bounds", repr(spec), NAME, f"bound it to at most {MAX_INTEGERS} values")
        return _integers(spec, np.subtract(high, low, dtype=object) + 1, low)
    if isinstance(spec, Array) and spec.dtype.kind == "f":
        size, array = int(np.prod(spec.shape)), spec
        low = np.full(size, -np.inf, np.float32) if spec.low is None else flat(spec.low)
        high = np.full(size, np.inf, np.float32) if spec.high is None else flat(spec.high)

        def decode(numbers: NDArray[Any]) -> NDArray[Any]:
            value = numbers.reshape(numbers.shape[:-1] + array.shape).astype(array.dtype)
            # A bound rounded to float32 may be slightly outside the float64 bound.
            return value if array.low is None and array.high is None else np.clip(value, array.low, array.high)

        return _ActionLeaf(size, None, (low, high), decode)
    raise LossyConversion(path, "type", repr(spec), NAME, "wrap the environment so that it takes an array")


def _integers(spec: Any, counts: NDArray[Any], start: NDArray[Any]) -> _ActionLeaf:
    dtype, shape = spec.dtype, spec.shape
    wide = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
    first = np.asarray(start).astype(wide)

    def decode(numbers: NDArray[Any]) -> NDArray[Any]:
        # In a wide dtype, because a narrow one could overflow before the addition.
        value = np.asarray(numbers.reshape(numbers.shape[:-1] + shape).astype(wide) + first).astype(dtype)
        return value[()] if isinstance(spec, Discrete) else value

    return _ActionLeaf(int(np.prod(shape)), np.asarray(counts).ravel().astype(np.int64), None, decode)


def action_plan(spec: SpecTree, path: str) -> tuple[spaces.Space[Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns the space of an action and the functions that convert its values for the core."""
    if isinstance(spec, Discrete):
        kind, start, shift = spec.dtype.type, spec.start, action_leaf(spec, path).decode
        return (
            spaces.Discrete(spec.n),
            lambda action: kind(int(action) + start),
            lambda actions: shift(np.asarray(actions)[..., None]),
        )
    parts = [action_leaf(leaf, at) for at, leaf in leaves(spec, path)]
    counts = [part.counts for part in parts if part.counts is not None]
    bounds = [part.bounds for part in parts if part.bounds is not None]
    made: list[spaces.Space[Any]] = []
    if any(count.size for count in counts):
        made.append(spaces.MultiDiscrete(np.concatenate(counts)))
    if any(low.size for low, _ in bounds):
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        made.append(spaces.Box(low, high, dtype=np.float32))
    if not made:
        raise LossyConversion(path, "size", "0 numbers", NAME, "RLlib trains on at least one")
    is_pair = len(made) == 2

    def nested(integers: NDArray[Any], reals: NDArray[Any]) -> Any:
        numbers, at = {True: integers, False: reals}, {True: 0, False: 0}
        values: list[Any] = []
        for part in parts:
            integer = part.counts is not None
            values.append(part.decode(numbers[integer][..., at[integer] : at[integer] + part.size]))
            at[integer] += part.size
        return _nest(spec, iter(values))

    def decode(action: Any) -> Any:
        first, last = action if is_pair else (action, action)
        return nested(np.ravel(first), np.ravel(last))

    def decode_batch(actions: Any) -> Any:
        if is_pair and isinstance(actions, list):  # a pair for each lane, not one of arrays
            actions = zip(*actions, strict=True)
        first, last = (np.asarray(each) for each in (actions if is_pair else (actions, actions)))
        return nested(first.reshape(len(first), -1), last.reshape(len(last), -1))

    return (spaces.Tuple(made) if is_pair else made[0]), decode, decode_batch


def _nest(spec: SpecTree, values: Any) -> Any:
    if isinstance(spec, Spec):
        return next(values)
    return rebuild(spec, [_nest(sub, values) for _, _, sub in children(spec)])


class Codec:
    """Converts between a core environment's values and the canonical values of RLlib's networks.

    Args:
        env: A single-agent core environment or batch.
        structured: If True, images stay images (height, width, channels), for convolutional networks such as those of
            `envoi.integrations.rllib`; see `envoi.adapters.rllib.observations`. If False, all but a few images are
            flattened, as RLlib's own networks require.
        masked: If True, leaves out an `"action_mask"` in the observation, because it is passed separately.

    Attributes:
        observation_space: A float32 `Box`, flat or an image; with `structured`, possibly a uint8 `Box` or a `Dict`.
        action_space: `Discrete` or `MultiDiscrete` from 0, a flat float32 `Box`, or a `Tuple` of the last two.
        encode: Converts a core observation to a value of `observation_space`.
        encode_batch: Converts core observations of n lanes, with leaves of shape (n, …), to arrays of shape (n, …).
        decode: Converts a value of `action_space` to a core action.
        decode_batch: Converts the network's actions for n lanes, arrays of shape (n, …) or a list of one per lane, to
            core actions with leaves of shape (n, …).

    Raises:
        LossyConversion: A leaf has no canonical form; the message names it.
    """

    def __init__(self, env: Env, *, structured: bool = False, masked: bool = False) -> None:
        ((_, observation, action, reward),) = agents_specs(env)
        self._set("", observation, action, reward, structured, masked)

    @classmethod
    def each(cls, env: MultiEnv, *, structured: bool = False, masked: bool = False) -> dict[Any, Self]:
        """Returns the codec of each possible agent.

        Args:
            env: The core environment.
            structured: If True, images stay images.
            masked: If True, an `"action_mask"` in an observation is left out.

        Raises:
            LossyConversion: A leaf of some agent has no canonical form.
        """
        found: dict[Any, Self] = {}
        for agent, observation, action, reward in agents_specs(env):
            found[agent] = codec = cls.__new__(cls)
            codec._set(f"[{agent!r}]", observation, action, reward, structured, masked)
        return found

    def _set(
        self, place: str, observation: SpecTree, action: SpecTree, reward: SpecTree, structured: bool, masked: bool
    ) -> None:
        """Makes the conversions; `place` names the agent in paths of leaves, such as `['a']` in `observation['a']`."""
        if (refused := _reward_loss(reward, place)) is not None:
            raise refused
        seen = without_mask(observation, action) if masked else observation
        plan = structured_plan if structured else observation_plan
        self.observation_space, self.encode, self.encode_batch = plan(seen, f"observation{place}")
        self.action_space, self.decode, self.decode_batch = action_plan(action, f"action{place}")


def _reward_loss(reward: SpecTree, place: str) -> LossyConversion | None:
    if isinstance(reward, Array) and reward.shape == ():
        return None
    hint = "set a rewarder that gives one number"
    return LossyConversion(f"reward{place}", "shape", repr(reward), NAME, hint)


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that RLlib's networks receive less precisely or not at all."""
    found: list[Loss] = []
    for agent, observation, action, reward in agents_specs(env):
        place = "" if isinstance(env, Env) else f"[{agent!r}]"
        found += _losses_in(observation, f"observation{place}", observation_leaf, observation_plan)
        found += _losses_in(action, f"action{place}", action_leaf, action_plan)
        if (refused := _reward_loss(reward, place)) is not None:
            found.append(Loss.of(refused))
    return found


def _losses_in(
    spec: SpecTree, what: str, read: Callable[[Any, str], Any], plan: Callable[[Any, str], Any]
) -> list[Loss]:
    found: list[Loss] = []
    is_seen = read is observation_leaf
    for path, leaf in leaves(spec, what):
        found += (refused := refusal(leaf, path, read))
        if not refused and (observations.narrows if is_seen else observations.is_wide)(leaf):
            hint = f"the network {'sees' if is_seen else 'gives'} float32"
            found.append(Loss(path, "precision", repr(leaf), NAME, False, hint))
        if not refused and is_seen and len(getattr(leaf, "shape", ())) > 1 and not observations.is_square_image(spec):
            hint = (
                "RLlib's networks see one flat vector; those of envoi.integrations.rllib see images as images, and "
                'canonical="structured" keeps them for a module of your own'
            )
            found.append(Loss(path, "shape", repr(leaf), NAME, False, hint))
    return found if any(loss.refused for loss in found) else found + refusal(spec, what, plan)
