"""The state of a learner that RLlib leaves out of its checkpoints: adapted coefficients, schedules, random streams."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.utils.lambda_defaultdict import LambdaDefaultDict
from ray.rllib.utils.schedules.scheduler import Scheduler

from .random_streams import random_streams, set_random_streams


def learner_state(learner: Any) -> tuple[dict[str, dict[Any, Any]], tuple[Any, ...]]:
    """Returns the coefficients of each kind by module id, such as PPO's KL coefficients, and the random streams.

    Args:
        learner: The learner, in whose process this is called.
    """
    coefficients = {
        name: {module: _value(held).clone() for module, held in values.items() if _value(held) is not None}
        for name, values in vars(learner).items()
        if isinstance(values, LambdaDefaultDict)
    }
    return coefficients, random_streams()


def set_learner_state(learner: Any, state: tuple[dict[str, dict[Any, Any]], tuple[Any, ...]]) -> None:
    """Sets a learner to what `learner_state` returned.

    Args:
        learner: The learner, in whose process this is called.
        state: The result of `learner_state`.
    """
    coefficients, streams = state
    for name, values in coefficients.items():
        for module, value in values.items():
            held = _value(getattr(learner, name)[module])
            with torch.no_grad():
                held.copy_(value)  # in place, because optimizers hold the tensor too
    set_random_streams(streams)


def _value(held: Any) -> torch.Tensor | None:
    """Returns the tensor of a coefficient or of a schedule; None for what never changes."""
    if isinstance(held, Scheduler):
        held = held.get_current_value()
    return held if isinstance(held, torch.Tensor) else None
