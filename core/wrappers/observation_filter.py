"""Parts of an observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import SpecError
from ..spec import Array, MultiBinary, MultiDiscrete
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class ObservationFilter(Lifted):
    """Keeps some elements of an observation that is one vector, in the order of the indices.

    Args:
        env: The environment; its observation is an array of one axis.
        indices: Which elements; one below 0 counts from the end, as in numpy.

    Raises:
        SpecError: The observation is something else (a nested one wants `FlattenObservation` first), or the indices
            are no row of at least one integer, or point outside.
    """

    def __init__(self, env: Any, indices: Any) -> None:
        given = np.asarray(indices)
        if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
            raise SpecError(f"indices: expected a row of at least one integer, got {indices!r}")
        self.indices = given.astype(np.int64)
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        spec, indices = specs.observation, self.indices
        if not isinstance(spec, (Array, MultiDiscrete, MultiBinary)) or len(spec.shape) != 1:
            raise SpecError(
                f"ObservationFilter: expected an observation that is an array of one axis, got {spec!r}; "
                "use FlattenObservation inside of it"
            )
        (n,) = spec.shape
        if outside := [int(index) for index in indices if not -n <= index < n]:
            raise SpecError(f"indices: {outside} are outside of the observation, which has {n} elements")
        if isinstance(spec, Array):
            low, high = (None if bound is None else bound[indices] for bound in (spec.low_or_inf, spec.high_or_inf))
            kept: Any = Array(indices.shape, spec.dtype, low, high, spec.name)
        elif isinstance(spec, MultiDiscrete):
            kept = MultiDiscrete(spec.nvec[indices], spec.start[indices], spec.dtype, spec.name)
        else:
            kept = MultiBinary(indices.shape, spec.name)
        return Change(observation_spec=kept, observation=lambda observation: observation[..., indices])
