"""envoi: write a reinforcement-learning environment once, send it to every framework.

    class Catch(envoi.Model): ...            # pure functions over a state, see `envoi.Model`

    env = Catch()
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, discount, info = env.step(env.sample_action())

`envoi.adapters` takes environments to the frameworks and brings theirs here; `envoi.models` are small examples.
"""

from typing import TYPE_CHECKING

from .batch import BatchEnv
from .batchmodel import BatchModel
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
from .lanes import Infos
from .loop import Lanes, batch
from .model import Model
from .modelbatch import ModelBatch
from .process import Process, Snapshot
from .rewarder import FunctionReward, ModelReward, NativeReward, Rewarder, Scaled, Sum
from .spec import (
    Array,
    Discrete,
    Foreign,
    MultiBinary,
    MultiDiscrete,
    Spec,
    contains,
    sample,
    spec_equal,
    validate,
    zeros,
)
from .streams import Streams
from .wrapper import Wrapper

if TYPE_CHECKING:
    from . import context as context
    from . import models as models
    from . import wrappers as wrappers
    from .agentlanes import AgentLanes
    from .change import Change, Specs
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
    from .embedding import as_multi, as_single
    from .flattening import Flattening
    from .lift import Lifted
    from .multi import MultiEnv, MultiReset, MultiStep
    from .multimodel import MultiModel
    from .multiwrapper import MultiWrapper
    from .spec import Graph, GraphValue, OneOf, Sequence, Text
    from .termination import AllTermination, AnyTermination, FunctionTermination, NotTermination, Termination
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
    # Modules that few programs need at once are imported when the first of their names is asked for.
    _LATER = {
        "agentlanes": "AgentLanes",
        "change": "Change Specs",
        "context": "Categorical ContextSpace Feature NormalFloat Selector UniformFloat UniformInteger"
        " load_contexts save_contexts",
        "embedding": "as_multi as_single",
        "flattening": "Flattening",
        "lift": "Lifted",
        "models": "",
        "multi": "MultiEnv MultiReset MultiStep",
        "multimodel": "MultiModel",
        "multiwrapper": "MultiWrapper",
        "spec": "Graph GraphValue OneOf Sequence Text",
        "termination": "AllTermination AnyTermination FunctionTermination NotTermination Termination",
        "wrappers": "ActionClip ActionDiscretize ActionOffset ActionRepeat Contextual ExtraDisabledActions FixedLength"
        " FlattenAction FlattenObservation GoalReplay History ObservationFilter OneHotAction PerformanceProfiler"
        " Representation Represented RunStats Terminated TimeLimit Validated ValidatedMulti",
    }
    _MODULE_OF = {name: module for module, names in _LATER.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _LATER:
            return import_module(f".{name}", __name__)
        if name in _MODULE_OF:
            globals()[name] = found = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
            return found
        if name in ("adapters", "integrations"):
            raise AttributeError(f"{__name__}.{name} is not imported yet; say `import {__name__}.{name}`")
        from .errors import nearest

        old = {"CARLEnv": "Contextual"}
        near = f"did you mean {old[name]!r}?" if name in old else nearest(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f"; {near}" if "mean" in near else ""))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_LATER})


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
