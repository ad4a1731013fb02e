"""Finds losses that are not finite in the results of an algorithm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...errors import EnvFailure

LEARNERS, ALL_MODULES, TRAINED = "learners", "__all_modules__", "num_module_steps_trained"


def check_losses(result: Mapping[str, Any]) -> None:
    """Checks the losses of each policy that has learned in an iteration; RLlib fills in NaN where none has.

    Args:
        result: The result of the iteration.

    Raises:
        EnvFailure: A loss is NaN or infinite.
    """
    for policy, metrics in (result.get(LEARNERS) or {}).items():
        if policy == ALL_MODULES or not isinstance(metrics, Mapping) or not _is_positive(metrics.get(TRAINED)):
            continue
        for name, value in metrics.items():
            if "loss" in name and _is_number(value) and not math.isfinite(value):
                iteration = result.get("training_iteration", "?")
                raise EnvFailure(
                    f"policy {policy!r}: {name} is {float(value)} in iteration {iteration}, so its weights are of no "
                    "use; continue from an earlier checkpoint, with a lower learning rate, clipped gradients "
                    "(grad_clip) or smaller rewards"
                )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_positive(value: Any) -> bool:
    return _is_number(value) and float(value) > 0
