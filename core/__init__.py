"""envoi: write a reinforcement-learning environment once, send it to every framework.

    class Catch(envoi.Model): ...            # pure functions over a state, see `envoi.Model`

    env = Catch()
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, discount, info = env.step(env.sample_action())

`envoi.adapters` exports environments to other frameworks and imports theirs; `envoi.models` has small examples.

The names to start with, of those below:

    Model, MultiModel, BatchModel                          to write an environment
    Env, MultiEnv, BatchEnv, Reset, Step                   what one is, and what it returns
    Array, Discrete, MultiDiscrete, MultiBinary            specs
    batch, as_multi, as_single                             other numbers of lanes or agents
    TimeLimit, Validated, Lifted, Change                   wrappers, and a wrapper of your own
    Contextual, ContextSpace, Rewarder, Termination        contexts, rewards, ends

`docs/names.md` lists all, the others by package.
"""

from typing import TYPE_CHECKING

from .authoring.model import Model
from .batching.batch_model import BatchModel, ModelBatch
from .batching.lanes import Lanes
from .batching.loop import batch
from .errors import (
    ContextError,
    EnvoiError,
    EpisodeError,
    LossyConversion,
    MissingBackend,
    NotCompilable,
    NotRepresented,
    SnapshotUnsupported,
    SpecError,
    UnknownName,
    WorkerError,
)
from .protocol.batch_env import BatchEnv
from .protocol.env import Env, Reset, Step
from .protocol.fast_steps import explain
from .protocol.infos import Infos
from .protocol.process import Process, Snapshot
from .rewards.rewarder import FunctionReward, ModelReward, NativeReward, Rewarder, Scaled, Sum
from .seeding import Streams
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
from .wrapping.wrapper import Wrapper

if TYPE_CHECKING:
    from . import context as context
    from . import curricula as curricula
    from . import models as models
    from . import wrappers as wrappers
    from .authoring.multi_model import MultiModel
    from .batching.agents_as_lanes import AgentLanes
    from .batching.model_lanes import CompiledModel, compiled
    from .batching.workers.lanes import WorkerLanes
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
    from .flattening import Flattening
    from .protocol.multi_env import MultiEnv, MultiReset, MultiStep
    from .rewards.termination import AllTermination, AnyTermination, FunctionTermination, NotTermination, Termination
    from .spec import Graph, GraphValue, OneOf, Sequence, Text
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
    from .wrapping.change import Change, Specs
    from .wrapping.lifted import Lifted, MultiWrapper
    from .wrapping.one_agent import as_multi, as_single
else:
    # Modules that only some programs need are imported on first access to one of their names.
    _LATER = {
        "authoring.multi_model": "MultiModel",
        "batching.agents_as_lanes": "AgentLanes",
        "batching.model_lanes": "CompiledModel compiled",
        "batching.workers.lanes": "WorkerLanes",
        "context": "Categorical ContextSpace Feature NormalFloat Selector UniformFloat UniformInteger"
        " load_contexts save_contexts",
        "curricula": "",
        "flattening": "Flattening",
        "models": "",
        "protocol.multi_env": "MultiEnv MultiReset MultiStep",
        "rewards.termination": "AllTermination AnyTermination FunctionTermination NotTermination Termination",
        "spec": "Graph GraphValue OneOf Sequence Text",
        "wrappers": "ActionClip ActionDiscretize ActionOffset ActionRepeat Contextual ExtraDisabledActions FixedLength"
        " FlattenAction FlattenObservation GoalReplay History ObservationFilter OneHotAction PerformanceProfiler"
        " Representation Represented RunStats Terminated TimeLimit Validated ValidatedMulti",
        "wrapping.change": "Change Specs",
        "wrapping.lifted": "Lifted MultiWrapper",
        "wrapping.one_agent": "as_multi as_single",
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

        if name.startswith(("to_", "from_")) or name in ("convert", "load", "load_multi", "losses", "names_of"):
            meant = f"adapters.{name}"
        elif name in ("Policy", "configure", "load_policy", "register"):
            meant = f"integrations.rllib.{name}"
        else:
            meant = {"Box": "Array", "CARLEnv": "Contextual", "make": "adapters.load"}.get(name, "")
        near = f"did you mean '{__name__}.{meant}'?" if meant else nearest(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f"; {near}" if "mean" in near else ""))

    # What most programs need, which help and completion show; docs/names.md has the others by package.
    _ESSENTIAL = (
        "ActionOffset ActionRepeat Array BatchEnv BatchModel Categorical Change ContextSpace Contextual Discrete "
        "Env EnvoiError FlattenAction FlattenObservation Foreign Graph History Infos Lifted LossyConversion Model "
        "MultiBinary MultiDiscrete MultiEnv MultiModel MultiReset MultiStep OneOf Reset Rewarder Sequence Step "
        "Termination Text TimeLimit UniformFloat Validated as_multi as_single batch contains explain sample "
        "validate zeros"
    )

    def __dir__() -> list[str]:
        return [*_ESSENTIAL.split(), "context", "curricula", "models", "wrappers", "__doc__", "__version__"]


__version__ = "0.2.0"

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
    "CompiledModel",
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
    "NotCompilable",
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
    "WorkerError",
    "WorkerLanes",
    "Wrapper",
    "as_multi",
    "as_single",
    "batch",
    "compiled",
    "contains",
    "explain",
    "load_contexts",
    "sample",
    "save_contexts",
    "spec_equal",
    "validate",
    "zeros",
]
