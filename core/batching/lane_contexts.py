"""The contexts of a model's lanes as columns: arrays with one value per lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import ContextError, nearest
from ..lane_values import alike
from ..protocol.batch_env import BatchEnv, each_of
from ..protocol.reset_options import CONTEXT, checked, split

if TYPE_CHECKING:
    from ..context import ContextSpace
    from .batch_model import BatchModel

T = TypeVar("T")

_SIZES = 64
"""For how many different numbers of lanes the contexts of a reset are cached."""


class SharedColumns(dict[str, Any]):
    """The context columns of lanes that have the same context; they are never changed.

    Attributes:
        derived: The results of functions of these columns, see `derived`.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        super().__init__(columns)
        self.derived: dict[Any, Any] = {}

    def __reduce__(self) -> Any:
        return SharedColumns, ({**self},)  # without the results


def derived(function: Callable[[Mapping[str, Any], int], T], context: Mapping[str, Any], size: int) -> T:
    """Returns `function(context, size)`, cached; `BatchModel.initial` often gets the same contexts.

    The cache is used if all lanes have the same context and their number repeats. Do not modify the result.
    """
    if type(context) is not SharedColumns:
        return function(context, size)
    known, key = context.derived, (function, size)
    if key not in known:
        known[key] = function(context, size)
    return known[key]


class LaneContexts(BatchEnv):
    """Holds the contexts of a `ModelBatch`, one per lane.

    A feature with the same value in all lanes takes the memory of one value.

    Attributes:
        model: The model that declares the features.
    """

    model: BatchModel

    def _begin_contexts(self) -> None:
        """Gives all lanes the context of the model."""
        self._context: Mapping[str, Any] = {}
        self._columns: dict[str, NDArray[Any]] = {}
        self._alike: dict[int, SharedColumns] = {}
        self._alike_of: Mapping[str, NDArray[Any]] = self._columns
        self.context = self.model.context

    def __getstate__(self) -> dict[str, Any]:
        # A copy of a stride-0 column stores every value, so the cache of these columns is left out.
        held = cast("dict[str, Any]", super().__getstate__())
        held = {name: value for name, value in held.items() if name != "_written_step"}
        return {**held, "_alike": {}, "_alike_of": {}}

    @property
    def context_space(self) -> ContextSpace | None:
        """The model's context space."""
        return self.model.context_space

    @property
    def context(self) -> Mapping[str, Any]:
        """The contexts of coming episodes; settable.

        For each feature, set one value for all lanes or an array of shape (n,).

        Raises:
            ContextError: The new value has an unknown feature, a value out of bounds, or an array of the wrong length.
        """
        return self._context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        space = self.model.context_space
        if space is not None:
            space.verify({name: None for name in checked(context, "context") if name not in space.features})
        full = {**self.model.context, **context}
        self._columns = self._checked(full)
        self._context = full

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int] | NDArray[np.intp]) -> None:
        columns, full, index = self._columns.copy(), {**self._context}, np.asarray(lanes, np.intp)
        some_alike = False  # True if a changed column has one value for all lanes, before or after
        for name, values in each_of(context, len(index)).items():
            before = columns.get(name)
            if before is None:
                raise ContextError(f"put_context: context[{name!r}]: no such feature; {nearest(name, columns)}")
            after = self._with_values(before, np.asarray(values), index)
            if after is not before:
                some_alike = some_alike or not (before.strides[0] and after.strides[0])
                columns[name] = full[name] = after
        if not some_alike and self._alike_of is self._columns:
            self._alike_of = columns  # columns with one value for all lanes have not changed
        self._columns, self._context = columns, full

    def _with_values(self, column: NDArray[Any], values: NDArray[Any], index: NDArray[np.intp]) -> NDArray[Any]:
        """Updates some lanes of a column. Reuses the old array, or a stride-0 array, when the values allow it."""
        n, same = self.batch_size, values.dtype == column.dtype
        if not column.strides[0] and same and values.tobytes() == column[:1].tobytes() * len(values):
            return column
        dtype = column.dtype if same else np.result_type(column, values)  # common: int and float give float
        if len(index) == n > 1 and values.tobytes() == values[:1].tobytes() * n and len(set(index.tolist())) == n:
            return alike(np.array(values[0], dtype), n)
        column = column.copy() if same else column.astype(dtype)  # a copy, because states may contain the old one
        column[index] = values
        return column

    def _checked(self, context: Mapping[str, Any], path: str = "context") -> dict[str, NDArray[Any]]:
        """Returns values as columns of shape (n,), after checking the values of known features."""
        space = self.model.context_space
        features = {} if space is None else space.features
        columns: dict[str, NDArray[Any]] = {}
        for name, value in context.items():
            if type(value) in (float, int, str) and self._context.get(name) is value:
                columns[name] = self._columns[name]  # unchanged
                continue
            array = np.asarray(value)
            if array.ndim and len(array) != self.batch_size:
                raise ContextError(
                    f"{path}[{name!r}]: expected one value, or one for each of {self.batch_size} lanes, "
                    f"got {len(array)}"
                )
            if space is not None and name in features:
                values = array.ravel().tolist()
                for one in dict.fromkeys(values):
                    try:
                        space.verify({name: one}, path)
                    except ContextError as error:
                        where = f" in lane {values.index(one)}" if array.ndim else ""
                        raise ContextError(f"{error}{where}") from None
            columns[name] = array if array.ndim else alike(array.copy(), self.batch_size)
        return columns

    def _columns_at(self, index: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Returns the context columns of some lanes. Columns with one value for all are cached by length."""
        if self._alike_of is not columns:
            self._alike_of, self._alike = columns, {}
        size = len(index)
        alike = self._alike.get(size)
        if alike is None:
            if len(self._alike) == _SIZES:
                self._alike.clear()
            shared = {name: column[:size] for name, column in columns.items() if not column.strides[0]}
            self._alike[size] = alike = SharedColumns(shared)
        if len(alike) == len(columns):
            return alike
        return {name: alike[name] if name in alike else column[index] for name, column in columns.items()}

    def _columns_under(self, options: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Returns the context columns for a reset with options; see `reset_options.of_the_episode`."""
        space = self.model.context_space
        if space is None:
            return {**self._columns, **self._checked(options, "options")}
        whole, rest = split(options, space)
        columns = self._columns if whole is None else self._checked(whole, f"options[{CONTEXT!r}]")
        return {**columns, **self._checked(rest, "options")}
