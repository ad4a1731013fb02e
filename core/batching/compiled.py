"""Chooses the batch of a model: one that compiles, or one that is interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..authoring.model import Model
from ..compiling.choice import Compiled
from ..compiling.compilation import numba_version
from ..errors import NotCompilable
from ..protocol.env import Env
from ..spec.base import shown
from .lanes import Lanes, StreamsOf
from .model_batch import ModelBatch

if TYPE_CHECKING:
    from .batch_model import BatchModel


def model_batch(model: BatchModel, n: int, compiled: Compiled) -> ModelBatch:
    """Makes a batch of a model."""
    if compiled is False or numba_version() is None:
        return ModelBatch(model, n)
    from .compiled_model_batch import CompiledModelBatch  # imported here, so that `import envoi` stays fast

    return CompiledModelBatch(model, n, compiled)


def lanes_over(envs: Sequence[Env], compiled: Compiled, streams: StreamsOf = "lanes") -> Lanes:
    """Makes a batch of separate environments."""
    kind = type(envs[0])
    if not (issubclass(kind, Model) and kind.step is Model.step and all(type(env) is kind for env in envs)):
        if compiled is True:
            raise NotCompilable(f"compiled=True: expected a model, got {shown(envs[0])}; only models can be compiled")
        return Lanes(envs, streams)
    if compiled is False or numba_version() is None:
        return Lanes(envs, streams)
    from .compiled_lanes import CompiledLanes  # imported here, so that `import envoi` stays fast

    return CompiledLanes(envs, compiled, streams)
