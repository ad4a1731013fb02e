"""Which batch a model gets: one that compiles, or one that is interpreted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compiling.availability import numba_version
from ..compiling.choice import Compiled
from .model_batch import ModelBatch

if TYPE_CHECKING:
    from .batch_model import BatchModel


def model_batch(model: BatchModel, n: int, compiled: Compiled) -> ModelBatch:
    """Makes a batch of a model.

    Args:
        model: The model, which the batch keeps.
        n: The number of lanes.
        compiled: As for `envoi.batch`.

    Raises:
        NotCompilable: `compiled` is True, and the model cannot be compiled.
    """
    if compiled is False or numba_version() is None:
        return ModelBatch(model, n)
    from .compiled_model_batch import CompiledModelBatch  # imported here, so that `import envoi` stays fast

    return CompiledModelBatch(model, n, compiled)
