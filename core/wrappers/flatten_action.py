"""Nested actions as flat arrays."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike

from ..wrapping.change import Change, Specs
from ..wrapping.flattened import Flattened, called


class FlattenAction(Flattened):
    """Takes one flat array for a nested action.

    Every array in the flat spec is an action: a float becomes the nearest integer where an integer is due.

    Args:
        env: The environment.
        order: The order of the keys of dicts: `"insertion"`, as they are, or `"sorted"`, as TF-Agents has it.
        dtype: `"strict"`, `"promote"`, or a dtype that may round; see `Flattening`.
        discrete: Discrete values as numbers (`"integer"`), or `"one_hot"`, of which the largest counts.

    Raises:
        SpecError: A leaf is no array of numbers, or dtypes do not go together.
    """

    def __init__(
        self, env: Any, *, order: str = "insertion", dtype: DTypeLike = "strict", discrete: str = "integer"
    ) -> None:
        super().__init__(env, order, dtype, discrete)

    def change(self, specs: Specs) -> Change:
        made = self._made(specs.action, called("action", specs.agent), specs.agent)
        return Change(action_spec=made.spec, action=made.unflatten)
