"""Wrappers, each written once for environments of one agent, of several, and batches."""

from .action_clip import ActionClip
from .action_discretize import ActionDiscretize
from .action_offset import ActionOffset
from .action_repeat import ActionRepeat
from .contextual import Contextual
from .extra_disabled_actions import ExtraDisabledActions
from .fixed_length import FixedLength
from .flatten_action import FlattenAction
from .flatten_observation import FlattenObservation
from .goal_replay import GoalReplay
from .history import History
from .observation_filter import ObservationFilter
from .one_hot_action import OneHotAction
from .performance_profiler import PerformanceProfiler
from .representation import Representation
from .represented import Represented
from .run_stats import RunStats
from .terminated import Terminated
from .time_limit import TimeLimit
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
