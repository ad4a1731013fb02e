"""Wrappers, each written once for single-agent, multi-agent and batched environments."""

from .actions import ActionClip, ActionDiscretize, ActionOffset, ActionRepeat, ExtraDisabledActions, OneHotAction
from .contextual import Contextual
from .episode_ends import FixedLength, Terminated, TimeLimit
from .flatten import FlattenAction, FlattenObservation
from .measures import PerformanceProfiler, RunStats
from .observations import GoalReplay, History, ObservationFilter, Representation, Represented
from .validated import Validated, ValidatedMulti

__all__ = [
    "ActionClip",
    "ActionDiscretize",
    "ActionOffset",
    "ActionRepeat",
    "Contextual",
    "ExtraDisabledActions",
    "FixedLength",
    "FlattenAction",
    "FlattenObservation",
    "GoalReplay",
    "History",
    "ObservationFilter",
    "OneHotAction",
    "PerformanceProfiler",
    "Representation",
    "Represented",
    "RunStats",
    "Terminated",
    "TimeLimit",
    "Validated",
    "ValidatedMulti",
]
