"""Wrappers, each written once for environments of one agent, of several, and batches."""

from .actions import ActionClip, ActionDiscretize, ActionOffset, OneHotAction
from .contextual import Contextual
from .flatten import FlattenAction, FlattenObservation
from .goals import GoalReplay
from .history import History
from .masks import ExtraDisabledActions
from .observations import ObservationFilter
from .pace import ActionRepeat, FixedLength
from .represented import Representation, Represented
from .terminated import Terminated
from .timelimit import TimeLimit
from .validated import Validated, ValidatedMulti
from .watching import PerformanceProfiler, RunStats

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
