"""Imports gymnasium's `SyncVectorEnv` as a batch of its sub-environments; reads the mode and metadata of any source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeGuard

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from envoi import LossyConversion, Reset, SpecError
from envoi.protocol.batch_env import Mask
from envoi.seeding import check_seed

from ..gymnasium import from_gymnasium
from ..gymnasium.source import bare
from ..shared.arrival import Copy
from ..shared.imported_batch import ImportedLanes
from .specs import NAME, VectorSpaces


def mode_of(source: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Returns the auto-reset mode of a vector environment."""
    # gymnasium's own classes write the mode into metadata that all environments of a class share.
    own = getattr(bare(source), "autoreset_mode", None)
    metadata = source.metadata or {}
    return AutoresetMode(metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP) if own is None else own)


def loops_only(source: VectorEnv[Any, Any, Any]) -> TypeGuard[SyncVectorEnv]:
    """Returns True if a vector environment is only a loop over sub-environments that can be accessed."""
    kind = type(source)
    return (
        isinstance(source, SyncVectorEnv)
        and kind.step is SyncVectorEnv.step  # pyright: ignore[reportUnknownMemberType]
        and kind.reset is SyncVectorEnv.reset  # pyright: ignore[reportUnknownMemberType]
    )


def metadata_of(source: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    """Returns a copy of a vector environment's metadata, without the auto-reset mode, which core batches lack."""
    return {key: deepcopy(value) for key, value in (source.metadata or {}).items() if key != "autoreset_mode"}


class FromSyncVector(VectorSpaces, ImportedLanes):
    """A `SyncVectorEnv` as a batch of its sub-environments, so that infos keep their types and every mode is supported.

    Lanes have the same seeds as in the source: with one seed s for all, lane i has s + i.

    Args:
        source: The vector environment.
        copy: Which observations to copy, see `from_gymnasium_vector`.

    Attributes:
        source: The vector environment.
        mode: Its auto-reset mode.

    Raises:
        LossyConversion: The lanes have different spaces, or rewards of different specs.
    """

    _framework = NAME

    def __init__(self, source: SyncVectorEnv, copy: Copy = "auto") -> None:
        try:
            super().__init__(source, [from_gymnasium(env, copy=copy) for env in source.envs])
        except SpecError as error:
            raise LossyConversion("envs", "spec", str(error), "a core batch") from error
        self.mode = mode_of(source)
        self.metadata = metadata_of(source)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        if seed is not None and not isinstance(seed, (Sequence, np.ndarray)):
            seed = self.seeds_of_lanes(check_seed(seed))
        return super().reset(seed=seed, options=options, mask=mask)

    def seeds_of_lanes(self, seed: int) -> list[int]:
        return list(range(seed, seed + self.batch_size))

    @property
    def unwrapped(self) -> SyncVectorEnv:
        return self.source


def different(path: str, spec: Any) -> LossyConversion:
    """Returns the error for lanes with different spaces.

    Args:
        path: The path of the space.
        spec: The batched space.
    """
    return LossyConversion(path, "spec", repr(spec), "a core batch", "give all lanes the same space")
