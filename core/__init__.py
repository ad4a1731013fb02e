"""envoi: write a reinforcement-learning environment once, send it to every framework.

    class Catch(envoi.Model): ...            # pure functions over a state, see `envoi.Model`

    env = Catch()
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, discount, info = env.step(env.sample_action())

`envoi.adapters` takes environments to the frameworks and brings theirs here; `envoi.models` are small examples.
"""

from .agentlanes import AgentLanes
from .batch import BatchEnv
from .batchmodel import BatchModel
from .change import Change, Specs
from .context import Categorical, ContextSpace, Feature, NormalFloat, UniformFloat, UniformInteger
from .embedding import as_multi, as_single
from .env import Env, Reset, Step
from .errors import (
    ContextError,
    EnvoiError,
    EpisodeError,
    LossyConversion,
    MissingBackend,
    SnapshotUnsupported,
    SpecError,
    UnknownName,
)
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
from .wrapper import Wrapper
from .wrappers import TimeLimit, Validated, ValidatedMulti

__version__ = "0.1.0"

__all__ = [
    "AgentLanes",
    "Array",
    "BatchEnv",
    "BatchModel",
    "Categorical",
    "Change",
    "ContextError",
    "ContextSpace",
    "Discrete",
    "Env",
    "EnvoiError",
    "EpisodeError",
    "Feature",
    "Foreign",
    "FunctionReward",
    "Graph",
    "GraphValue",
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
    "OneOf",
    "Process",
    "Reset",
    "Rewarder",
    "Scaled",
    "Sequence",
    "Snapshot",
    "SnapshotUnsupported",
    "Spec",
    "SpecError",
    "Specs",
    "Step",
    "Streams",
    "Sum",
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
    "sample",
    "spec_equal",
    "validate",
    "zeros",
]
