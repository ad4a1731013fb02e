"""envoi: write a reinforcement-learning environment once, send it to every framework.

    class Catch(envoi.Model): ...            # pure functions over a state, see `envoi.Model`

    env = Catch()
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, discount, info = env.step(env.sample_action())

`envoi.adapters` takes environments to the frameworks and brings theirs here; `envoi.models` are small examples.
"""

from typing import TYPE_CHECKING

from .agentlanes import AgentLanes
from .batch import BatchEnv
from .batchmodel import BatchModel
from .change import Change, Specs
from .embedding import as_multi, as_single
from .env import Env, Reset, Step
from .errors import (
    ContextError,
    EnvoiError,
    EpisodeError,
    LossyConversion,
    MissingBackend,
    NotRepresented,
    SnapshotUnsupported,
    SpecError,
    UnknownName,
)
from .flattening import Flattening
from .lanes import Infos
from .lift import Lifted
from .loop import Lanes, batch
from .model import Model
from .modelbatch import ModelBatch
from .multi import MultiEnv, MultiReset, MultiStep
from .multimodel import MultiModel
from .multiwrapper import MultiWrapper
from .process import Process, Snapshot
from .rewarder import FunctionReward, ModelReward, NativeReward, Rewarder, Scaled, Sum
from .spec import (
    Array,
    Discrete,
    Foreign,
    Graph,
    GraphValue,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Spec,
    Text,
    contains,
    sample,
    spec_equal,
    validate,
    zeros,
)
from .streams import Streams
from .termination import AllTermination, AnyTermination, FunctionTermination, NotTermination, Termination
from .wrapper import Wrapper

if TYPE_CHECKING:
    from . import context as context
    from .context import (
        Categorical,
        ContextSpace,
        Feature,
        NormalFloat,
        Selector,
        UniformFloat,
        UniformInteger,
        load_contexts,
        save_contexts,
    )
    from .wrappers import (
        ActionClip,
        ActionDiscretize,
        ActionOffset,
        ActionRepeat,
        Contextual,
        ExtraDisabledActions,
        FixedLength,
        FlattenAction,
        FlattenObservation,
        GoalReplay,
        History,
        ObservationFilter,
        OneHotAction,
        PerformanceProfiler,
        Representation,
        Represented,
        RunStats,
        Terminated,
        TimeLimit,
        Validated,
        ValidatedMulti,
    )
else:

    def __getattr__(name: str) -> object:
        # Contexts and wrappers, half of all there is, are imported when the first one is asked for.
        from importlib import import_module

        from .errors import nearest

        if name in ("context", "models", "wrappers"):
            return import_module(f".{name}", __name__)
        if name in __all__:
            for part in map(__getattr__, ("context", "wrappers")):
                if name in part.__all__:
                    globals()[name] = found = getattr(part, name)
                    return found
        if name in ("adapters", "integrations"):
            raise AttributeError(f"{__name__}.{name} is not imported yet; say `import {__name__}.{name}`")
        old = {"CARLEnv": "Contextual"}
        near = f"did you mean {old[name]!r}?" if name in old else nearest(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f"; {near}" if "mean" in near else ""))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__version__ = "0.1.0"

__all__ = [
    "ActionClip",
    "ActionDiscretize",
    "ActionOffset",
    "ActionRepeat",
    "AgentLanes",
    "AllTermination",
    "AnyTermination",
    "Array",
    "BatchEnv",
    "BatchModel",
    "Categorical",
    "Change",
    "ContextError",
    "ContextSpace",
    "Contextual",
    "Discrete",
    "Env",
    "EnvoiError",
    "EpisodeError",
    "ExtraDisabledActions",
    "Feature",
    "FixedLength",
    "FlattenAction",
    "FlattenObservation",
    "Flattening",
    "Foreign",
    "FunctionReward",
    "FunctionTermination",
    "GoalReplay",
    "Graph",
    "GraphValue",
    "History",
    "Infos",
    "Lanes",
    "Lifted",
    "LossyConversion",
    "MissingBackend",
    "Model",
    "ModelBatch",
    "ModelReward",
    "MultiBinary",
    "MultiDiscrete",
    "MultiEnv",
    "MultiModel",
    "MultiReset",
    "MultiStep",
    "MultiWrapper",
    "NativeReward",
    "NormalFloat",
    "NotRepresented",
    "NotTermination",
    "ObservationFilter",
    "OneHotAction",
    "OneOf",
    "PerformanceProfiler",
    "Process",
    "Representation",
    "Represented",
    "Reset",
    "Rewarder",
    "RunStats",
    "Scaled",
    "Selector",
    "Sequence",
    "Snapshot",
    "SnapshotUnsupported",
    "Spec",
    "SpecError",
    "Specs",
    "Step",
    "Streams",
    "Sum",
    "Terminated",
    "Termination",
    "Text",
    "TimeLimit",
    "UniformFloat",
    "UniformInteger",
    "UnknownName",
    "Validated",
    "ValidatedMulti",
    "Wrapper",
    "as_multi",
    "as_single",
    "batch",
    "contains",
    "load_contexts",
    "sample",
    "save_contexts",
    "spec_equal",
    "validate",
    "zeros",
]
