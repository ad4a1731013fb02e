"""Converts between the values of a core environment and those that a trained policy takes and gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

import envoi
from envoi.adapters.rllib import Codec
from envoi.adapters.rllib.masks import Masks, is_masked


class PolicyValues:
    """The conversions for one environment and one policy.

    Attributes:
        decode: Converts an action of the policy to one of the environment.
    """

    def __init__(self, name: str, core: envoi.Env, policy: Any) -> None:
        wanted: Any = policy.observation_space
        has_mask = is_masked(wanted)
        self._masks = Masks(core.action_spec) if has_mask else None
        codec = Codec(core, structured=True, masked=has_mask)
        if not fits(self._space(codec), wanted):
            codec = Codec(core, masked=has_mask)
        self._codec, self.decode = codec, codec.decode
        for what, has, wants in (
            ("observation_space", self._space(codec), wanted),
            ("action_space", codec.action_space, policy.action_space),
        ):
            if not fits(has, wants):
                raise envoi.EnvoiError(
                    f"{name}: the policy was trained with the {what} {wants}, and this env has {has}"
                )

    def _space(self, codec: Codec) -> spaces.Space[Any]:
        return codec.observation_space if self._masks is None else self._masks.space(codec.observation_space)

    def encode(self, observation: Any, info: Mapping[Any, Any]) -> Any:
        """Converts an observation for the policy, beside its action mask if the policy was trained with one."""
        encoded = self._codec.encode(observation)
        return encoded if self._masks is None else self._masks.beside(encoded, info, observation)


def array_bytes(value: Any) -> Iterator[bytes]:
    """Yields the bytes of all arrays in nested dicts of arrays, in order."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from array_bytes(inner)
    else:
        yield np.ascontiguousarray(value).tobytes()


def fits(has: Any, wants: Any) -> bool:
    """Returns True for spaces of equal shapes, dtypes and counts; bounds may differ, as they do between contexts."""
    if isinstance(wants, spaces.Dict):
        if not isinstance(has, spaces.Dict) or has.spaces.keys() != wants.spaces.keys():
            return False
        return all(fits(has.spaces[key], wants.spaces[key]) for key in wants.spaces)
    if isinstance(wants, spaces.Tuple):
        if not isinstance(has, spaces.Tuple) or len(has.spaces) != len(wants.spaces):
            return False
        return all(fits(one, other) for one, other in zip(has.spaces, wants.spaces, strict=True))
    same = has.shape == wants.shape and has.dtype == wants.dtype
    counts = ((getattr(one, "n", None), getattr(one, "nvec", None)) for one in (has, wants))
    return same and all(np.array_equal(mine, other) for mine, other in zip(*counts, strict=True))
