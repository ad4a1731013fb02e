"""`compiled`: a model as a single environment whose steps run in a kernel."""

from __future__ import annotations

import copy

from ..authoring.model import Model
from ..compiling.choice import Compiled, check_compiled
from ..errors import NotCompilable
from ..protocol.env import Env
from ..wrapping.wrapper import Wrapper
from .batch_model import BatchModel
from .loop import are_models, why_interpreted
from .model_lane import ModelLane
from .model_lanes import ModelLanes


class CompiledModel(ModelLane):
    """A compiled model: each step is one kernel call and returns the same values as the original.

    It exposes the model's functions, state, context and rewarder.

    Args:
        model: The scalar model.
        compiled: True to compile before the first step; `"auto"` to compile once it is worthwhile.

    Attributes:
        lanes: A batch of one lane.

    Raises:
        NotCompilable: `compiled` is True, and the model cannot be compiled.
    """

    def __init__(self, model: Model, compiled: Compiled = True) -> None:
        super().__init__(ModelLanes([model], compiled), 0)


def compiled(model: Env, compiled: Compiled = True) -> Env:
    """Compiles a model, so that each step runs in a kernel and returns the same values. See also `batch`.

    Args:
        model: A scalar `Model`, with or without wrappers. It is copied, not changed.
        compiled: True to compile now; `"auto"` to compile if possible, once it is worthwhile.

    Returns:
        A `CompiledModel`, or the same wrappers around one.

    Raises:
        NotCompilable: `model` is not a scalar `Model` or cannot be compiled, or numba is not installed.
    """
    check_compiled(compiled)
    wrappers: list[Wrapper] = []
    while isinstance(model, Wrapper):
        wrappers.append(model)
        model = model.env
    if not isinstance(model, Model) or isinstance(model, BatchModel) or not are_models([model]):
        raise NotCompilable(f"compiled: {why_interpreted(model)}")
    result: Env = CompiledModel(copy.deepcopy(model), compiled)
    for wrapper in reversed(wrappers):
        result = wrapper.over(result)
        result.made_by = wrapper.made_by
    return result
