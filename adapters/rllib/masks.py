"""Action masks beside observations: `{"action_mask": …, "observations": …}`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Discrete, Env, LossyConversion, MultiBinary, MultiDiscrete, MultiEnv, MultiModel, Spec, SpecError
from envoi.protocol.multi_env import MASK
from envoi.spec import SpecTree
from envoi.tree import AnyDict, children, leaves

from .observations import NAME

OBSERVATIONS = "observations"
"""The key of the observation in a dict with its mask, as RLlib's `ActionMaskingRLModule` expects it."""


class Masks:
    """Makes observations with action masks.

    A mask has an element for each value of each integer of the action, in order: n for `Discrete(n)`, the sum of `nvec`
    for `MultiDiscrete`. An environment gives it as gymnasium's `sample(mask=…)` takes it: an array of shape (n,) for
    `Discrete`, a tuple of one for each integer for `MultiDiscrete`, an array of 0, 1 and 2 (either) for `MultiBinary`,
    and dicts and tuples of these; or flat, as it is here. Its dtype is any of bool, integers and floats, where
    everything but 0 is legal.
    """

    def __init__(self, spec: SpecTree, path: str = "action") -> None:
        self._spec = spec
        counts = [_counts(leaf, at) for at, leaf in leaves(spec, path)]
        self.size = sum(int(count.sum()) for count in counts)  # the number of elements
        if not self.size:
            raise LossyConversion(
                path, "mask", repr(spec), NAME, "leave action_masks=False; there is no action to mask"
            )

    def space(self, observations: spaces.Space[Any]) -> spaces.Dict:
        """Returns the space of an observation with its mask."""
        mask = spaces.Box(0.0, 1.0, (self.size,), np.float32)
        return spaces.Dict(OrderedDict([(MASK, mask), (OBSERVATIONS, observations)]))

    def beside(self, encoded: Any, info: Mapping[Any, Any], observation: Any = None) -> dict[str, Any]:
        """Returns an observation with its mask."""
        mask = self.find(info, observation)
        return {MASK: np.ones(self.size, np.float32) if mask is None else mask, OBSERVATIONS: encoded}

    def beside_all(self, encoded: Any, infos: Any, observations: Any = None) -> dict[str, Any]:
        """Returns the observations of n lanes with their masks, of shape (n, size)."""
        columns = getattr(infos, "columns", None)
        if columns is not None and infos.mask is None and not infos.masks:  # the same keys in all lanes
            held = columns.get(MASK)
            if isinstance(held, np.ndarray) and held.shape == (len(infos), self.size):
                return {MASK: (held != 0).astype(np.float32), OBSERVATIONS: encoded}
        found = [self.find(info, observations, lane) for lane, info in enumerate(infos)]
        masks = [np.ones(self.size, np.float32) if mask is None else mask for mask in found]
        return {MASK: np.stack(masks), OBSERVATIONS: encoded}

    def find(self, info: Mapping[Any, Any], observation: Any, lane: int | None = None) -> NDArray[np.float32] | None:
        """Returns a mask as a new float32 array of 0 and 1, of shape (size,); None if there is none."""
        mask = info.get(MASK)
        if mask is None and isinstance(observation, AnyDict):
            mask = observation.get(MASK)
            if mask is not None and lane is not None:
                mask = mask[lane]
        return None if mask is None else self._flat(mask)

    def _flat(self, mask: Any) -> NDArray[np.float32]:
        """Returns a new float32 array of 0 and 1, of shape (size,)."""
        if isinstance(mask, np.ndarray) and mask.size == self.size:
            flat = mask.ravel()
        else:
            flat = np.concatenate([np.zeros(0, bool), *_parts(self._spec, mask)])
            if flat.size != self.size:
                shape = np.shape(mask) if isinstance(mask, np.ndarray) else f"{flat.size} elements"
                raise SpecError(f"info[{MASK!r}]: expected {self.size} elements, one for each action, got {shape}")
        return (flat != 0).astype(np.float32)


def is_masked(space: spaces.Space[Any]) -> TypeGuard[spaces.Dict]:
    """Returns True for the space of an observation with its mask, see `Masks.space`."""
    return isinstance(space, spaces.Dict) and set(space.spaces) == {MASK, OBSERVATIONS}


def unmasked(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Returns the space of an observation without its mask."""
    return space.spaces[OBSERVATIONS] if is_masked(space) else space


def _counts(spec: Spec, path: str) -> NDArray[np.int64]:
    if isinstance(spec, Discrete):
        return np.array([spec.n])
    if isinstance(spec, MultiDiscrete):
        return spec.nvec.ravel()
    if isinstance(spec, MultiBinary):
        return np.full(int(np.prod(spec.shape)), 2)
    hint = "leave action_masks=False; masks are for Discrete, MultiDiscrete and MultiBinary"
    raise LossyConversion(path, "mask", repr(spec), NAME, hint)


def _parts(spec: SpecTree, mask: Any) -> Iterator[NDArray[Any]]:
    """Yields the masks of the integers of an action, from a mask of the structure that gymnasium samples with."""
    if not isinstance(spec, Spec):
        for _, key, sub in children(spec):
            try:
                inner = mask[key]
            except (LookupError, TypeError):
                raise SpecError(f"info[{MASK!r}]: expected a mask for {key!r}, got {mask!r}") from None
            yield from _parts(sub, inner)
    elif mask is None:
        yield np.ones(int(_counts(spec, MASK).sum()), bool)
    elif isinstance(spec, MultiBinary) and np.size(mask) == np.prod(spec.shape):
        allowed = np.ravel(mask)
        yield np.stack([allowed != 1, allowed != 0], 1).ravel()
    else:
        yield from _ravel(mask)


def _ravel(mask: Any) -> Iterator[NDArray[Any]]:
    if isinstance(mask, (tuple, list)) and any(np.ndim(part) for part in mask):
        for part in mask:
            yield from _ravel(part)
    else:
        yield np.ravel(mask)


def without_mask(observation: SpecTree, action: SpecTree) -> SpecTree:
    """Returns an observation spec without the `"action_mask"` that it shows, if any."""
    if not shows_mask(observation, action):
        return observation
    return {key: sub for _, key, sub in children(cast("Any", observation)) if key != MASK}


def can_mask(spec: SpecTree) -> bool:
    """Returns True if actions of a spec can be masked."""
    try:
        Masks(spec)
    except LossyConversion:
        return False
    return True


def declares_masks(env: Env | MultiEnv) -> list[Any]:
    """Returns the agents that are known before the first reset to have action masks; `[None]` for the only agent.

    Their observation spec has an `"action_mask"`, of one element for each action; or the environment is a `MultiModel`
    that defines `mask`.
    """
    kind: Any = type(env.unwrapped)
    defined = issubclass(kind, MultiModel) and kind.mask is not MultiModel.mask
    return [
        agent
        for agent, observation, action, _ in agents_specs(env)
        if shows_mask(observation, action) or (defined and can_mask(action))
    ]


def has_masks(env: Env | MultiEnv) -> bool:
    """Returns True if an environment declares action masks or has one in an info of its next reset."""
    if not any(can_mask(action) for _, _, action, _ in agents_specs(env)):
        return False
    if declares_masks(env):
        return True
    infos: Any = env.reset().infos if isinstance(env, MultiEnv) else env.reset().info
    each = infos.values() if isinstance(env, MultiEnv) else [infos] if isinstance(infos, Mapping) else infos
    return any(MASK in info for info in each)


def agents_specs(env: Env | MultiEnv) -> Iterator[tuple[Any, SpecTree, SpecTree, SpecTree]]:
    """Yields each agent with its specs of observations, actions and rewards; None for the only agent of an `Env`."""
    if isinstance(env, Env):
        yield None, env.observation_spec, env.action_spec, env.reward_spec
        return
    for agent in env.possible_agents:
        yield agent, env.observation_spec[agent], env.action_spec[agent], env.reward_spec[agent]


def shows_mask(observation: SpecTree, action: SpecTree) -> bool:
    """Returns True if an observation has the mask of an action beside other parts, as RLlib's modules expect it."""
    if not isinstance(observation, AnyDict) or MASK not in observation or len(observation) < 2 or not can_mask(action):
        return False
    shape = getattr(observation[MASK], "shape", None)
    return shape is not None and int(np.prod(shape)) == Masks(action).size
