"""Action masks beside observations: `{"action_mask": …, "observations": …}`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Env, LossyConversion, MultiEnv, MultiModel
from envoi.protocol.multi_env import MASK
from envoi.spec import SpecTree
from envoi.tree import AnyDict, children, leaves

from ..shared.masks import choices, flat_mask
from .observations import NAME

OBSERVATIONS = "observations"
"""The key of the observation in a dict with its mask, as RLlib's `ActionMaskingRLModule` expects it."""


class Masks:
    """Adds action masks to observations. Accepts masks in every format of `envoi.adapters.shared.masks`."""

    def __init__(self, spec: SpecTree, path: str = "action") -> None:
        self._spec = spec
        self.size = 0  # the number of elements
        for at, leaf in leaves(spec, path):
            counts = choices(leaf)
            if counts is None:
                hint = "leave action_masks=False; masks are for Discrete, MultiDiscrete and MultiBinary"
                raise LossyConversion(at, "mask", repr(leaf), NAME, hint)
            self.size += sum(counts)
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
        return None if mask is None else flat_mask(self._spec, mask, self.size).astype(np.float32)


def is_masked(space: spaces.Space[Any]) -> TypeGuard[spaces.Dict]:
    """Returns True for a space that has a mask beside the observation, see `Masks.space`."""
    return isinstance(space, spaces.Dict) and set(space.spaces) == {MASK, OBSERVATIONS}


def unmasked(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Returns the space of the observation alone, without the mask beside it."""
    return space.spaces[OBSERVATIONS] if is_masked(space) else space


def without_mask(observation: SpecTree, action: SpecTree) -> SpecTree:
    """Removes the `"action_mask"` from an observation spec, if it has one."""
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
    """Returns the agents known before the first reset to have action masks; the agent of an `Env` is None.

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
    """Returns True if an observation contains an action mask beside other entries, as RLlib's modules expect."""
    if not isinstance(observation, AnyDict) or MASK not in observation or len(observation) < 2 or not can_mask(action):
        return False
    shape = getattr(observation[MASK], "shape", None)
    return shape is not None and int(np.prod(shape)) == Masks(action).size
