"""A loop of gymnasium's over sub-environments as a core batch of those, and what every vector environment tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeGuard, cast

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from envoi import Lanes, LossyConversion, Reset, SpecError
from envoi.protocol.batch_env import Mask
from envoi.seeding import check_seed

from ..gymnasium import from_gymnasium
from ..gymnasium.source import bare
from ..shared.arrival import Copy
from ..shared.contexts import TakesContext


def mode_of(source: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """The auto-reset mode of a vector environment."""
    # gymnasium's own write theirs into metadata that all environments of a class share.
    own = getattr(bare(source), "autoreset_mode", None)
    metadata = source.metadata or {}
    return AutoresetMode(metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP) if own is None else own)


def loops_only(source: VectorEnv[Any, Any, Any]) -> TypeGuard[SyncVectorEnv]:
    """Whether a vector environment is no more than a loop over sub-environments that can be reached."""
    kind = type(source)
    return (
        isinstance(source, SyncVectorEnv)
        and kind.step is SyncVectorEnv.step  # pyright: ignore[reportUnknownMemberType]
        and kind.reset is SyncVectorEnv.reset  # pyright: ignore[reportUnknownMemberType]
    )


def metadata_of(source: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    """A copy of a vector environment's metadata, without the mode, which a core batch does not have."""
    return {key: deepcopy(value) for key, value in (source.metadata or {}).items() if key != "autoreset_mode"}


class FromSyncVector(Lanes):
    """A `SyncVectorEnv` as the lanes that it loops over: each one's infos keep their types, in any auto-reset mode.

    Its seeds are the source's own: with one seed s for all, lane i has s + i.

    Args:
        source: The vector environment.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The vector environment.
        mode: Its auto-reset mode.

    Raises:
        LossyConversion: The lanes have different spaces, or rewards of different specs.
    """

    def __init__(self, source: SyncVectorEnv, copy: Copy = "auto") -> None:
        try:
            super().__init__([from_gymnasium(env, copy=copy) for env in source.envs])
        except SpecError as error:
            raise LossyConversion("envs", "spec", str(error), "a core batch") from error
        self.source, self.mode = source, mode_of(source)
        self.metadata = metadata_of(source)
        self._closed = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        if seed is not None and not isinstance(seed, (Sequence, np.ndarray)):
            seed = self.seeds_of_lanes(cast("int", check_seed(seed)))
        return super().reset(seed=seed, options=options, mask=mask)

    def seeds_of_lanes(self, seed: int) -> list[int]:
        return list(range(seed, seed + self.batch_size))

    def native_space(self, what: str, agent: Any = None) -> Any:
        """The source's `"observation"` or `"action"` space of one lane."""
        return getattr(self.source, f"single_{what}_space")

    def native_lanes_space(self, what: str) -> Any:
        """The source's space of all lanes."""
        return getattr(self.source, f"{what}_space")

    @property
    def is_native(self) -> bool:
        """Whether rewards and contexts are the source's own."""
        return all(
            env._rewarder is None and not (isinstance(env, TakesContext) and env._context is not None)  # pyright: ignore[reportPrivateUsage]
            for env in self.envs
        )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> SyncVectorEnv:
        return self.source

    def __repr__(self) -> str:
        return f"from_gymnasium_vector({self.source})"


def different(path: str, spec: Any) -> LossyConversion:
    """Why lanes of different spaces are refused."""
    return LossyConversion(path, "spec", repr(spec), "a core batch", "give all lanes the same space")
