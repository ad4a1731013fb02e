"""The state of a learner that RLlib leaves out of its checkpoints: coefficients, schedules, random streams.

RLlib's learners keep what they adapt for each module, such as PPO's KL coefficient, SAC's temperature or the step at
which DQN last updated its target network, in attributes that are dicts with a default.
"""

from __future__ import annotations

from collections import defaultdict
from numbers import Number
from typing import Any

import torch
from ray.rllib.utils.schedules.scheduler import Scheduler

from .random_streams import random_streams, set_random_streams

Adapted = dict[str, dict[Any, Any]]
"""Numbers and tensors by attribute and module id."""


def learner_state(learner: Any) -> tuple[Adapted, tuple[Any, ...]]:
    """Returns what a learner has adapted, and the random streams.

    Args:
        learner: The learner, in whose process this is called.
    """
    adapted = {
        name: {module: value for module, held in values.items() if (value := _copy(held)) is not None}
        for name, values in vars(learner).items()
        if isinstance(values, defaultdict)
    }
    return adapted, random_streams()


def set_learner_state(learner: Any, state: tuple[Adapted, tuple[Any, ...]]) -> None:
    """Sets a learner to what `learner_state` returned.

    Args:
        learner: The learner, in whose process this is called.
        state: The result of `learner_state`.
    """
    adapted, streams = state
    for name, values in adapted.items():
        for module, value in values.items():
            held = _current(getattr(learner, name)[module])
            if isinstance(held, torch.Tensor):
                held.data.copy_(value)  # in place, because optimizers hold the tensor too
            else:
                getattr(learner, name)[module] = value
    set_random_streams(streams)


def _current(held: Any) -> Any:
    return held.get_current_value() if isinstance(held, Scheduler) else held


def _copy(held: Any) -> Any:
    """Returns a copy of a number or tensor, or of the current one of a schedule; None for anything else."""
    value = _current(held)
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return value if isinstance(value, Number) and value is held else None
