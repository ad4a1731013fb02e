"""Action masks: one element for each value of each integer of an action, in order; 0 forbids the value.

An environment gives a mask as gymnasium's `sample(mask=…)` takes it: an array of shape (n,) for `Discrete`, a tuple of
one for each integer for `MultiDiscrete`, an array of 0, 1 and 2 (either) for `MultiBinary`, and dicts and tuples of
these, with None where all is legal; or flat, as `flat_mask` returns it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envoi import Discrete, MultiBinary, MultiDiscrete, Spec, SpecError
from envoi.protocol.multi_env import MASK
from envoi.spec import SpecTree
from envoi.tree import children


def choices(spec: Spec) -> list[int] | None:
    """Returns how many values each integer of an action's leaf can have, or None for a leaf that cannot be masked."""
    if isinstance(spec, Discrete):
        return [spec.n]
    if isinstance(spec, MultiDiscrete):
        return spec.nvec.ravel().tolist()
    return [2] * int(np.prod(spec.shape)) if isinstance(spec, MultiBinary) else None


def flat_mask(spec: SpecTree, mask: Any, size: int) -> NDArray[np.bool_]:
    """Returns a mask as a new flat array, True where a value is legal; `size` is the sum of all leaves' `choices`."""
    if isinstance(mask, np.ndarray) and mask.size == size:
        return mask.ravel() != 0
    flat = np.concatenate([np.zeros(0, bool), *_parts(spec, mask)])
    if flat.size != size:
        shape = np.shape(mask) if isinstance(mask, np.ndarray) else f"{flat.size} elements"
        raise SpecError(f"info[{MASK!r}]: expected {size} elements, one for each action, got {shape}")
    return flat != 0


def _parts(spec: SpecTree, mask: Any) -> Iterator[NDArray[Any]]:
    """Yields the mask of each integer of an action."""
    if not isinstance(spec, Spec):
        for _, key, sub in children(spec):
            try:
                inner = mask[key]
            except (LookupError, TypeError):
                raise SpecError(f"info[{MASK!r}]: expected a mask for {key!r}, got {mask!r}") from None
            yield from _parts(sub, inner)
        return
    counts = choices(spec) or []
    if mask is None:
        yield np.ones(sum(counts), bool)
    elif isinstance(spec, MultiBinary) and np.size(mask) == len(counts):
        allowed = np.ravel(mask)
        yield np.stack([allowed != 1, allowed != 0], 1).ravel()
    else:
        yield from _by_integer(mask, iter(counts))


def _by_integer(mask: Any, counts: Iterator[int]) -> Iterator[NDArray[Any]]:
    if isinstance(mask, (tuple, list)) and not all(map(np.isscalar, mask)):
        for part in mask:
            yield from _by_integer(part, counts)
    else:
        count = next(counts, 0)
        yield np.ones(count, bool) if mask is None else np.ravel(mask)
