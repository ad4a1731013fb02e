"""Checks results and checkpoints for losses that are not finite, for no learning, and for a full disk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import EnvFailure
from ..damaged_files import writing

LEARNERS, ALL_MODULES, TRAINED = "learners", "__all_modules__", "num_module_steps_trained"


def has_learned(result: Mapping[str, Any]) -> bool:
    """Returns True if a policy was updated in the iteration of a result."""
    policies = (result.get(LEARNERS) or {}).values()
    return any(isinstance(metrics, Mapping) and _is_positive(metrics.get(TRAINED)) for metrics in policies)


def check_losses(result: Mapping[str, Any]) -> None:
    """Checks the losses of each policy that has learned in an iteration; for other policies RLlib reports NaN.

    An infinite KL divergence between old and new policy, and a total loss that contains it, are not errors: a
    policy that has become certain rounds the probability of the other actions to 0, and the gradients stay finite.
    """
    for policy, metrics in (result.get(LEARNERS) or {}).items():
        if policy == ALL_MODULES or not isinstance(metrics, Mapping) or not _is_positive(metrics.get(TRAINED)):
            continue
        harmless = _harmless(metrics)
        for name, value in metrics.items():
            if "loss" in name and _is_number(value) and not math.isfinite(value) and name not in harmless:
                iteration = result.get("training_iteration", "?")
                raise EnvFailure(
                    f"policy {policy!r}: {name} is {float(value)} in iteration {iteration}, so its weights are of no "
                    "use; continue from an earlier checkpoint, with a lower learning rate, clipped gradients "
                    "(grad_clip) or smaller rewards"
                )


def _harmless(metrics: Mapping[str, Any]) -> set[str]:
    """Returns losses allowed to be infinite: the KL term, and a total whose only infinite part is the KL term."""
    infinite = {name for name, value in metrics.items() if "loss" in name and _is_number(value) and math.isinf(value)}
    kl = {name for name in infinite if "kl" in name}
    total = {name for name in infinite if name == "total_loss"}
    norms = [value for name, value in metrics.items() if name.startswith("gradients_") and _is_number(value)]
    return kl | total if kl and infinite == kl | total and all(map(math.isfinite, norms)) else set()


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_positive(value: Any) -> bool:
    return _is_number(value) and float(value) > 0


ADVICE = "make room, then continue from the last checkpoint"


def name_unwritable(algorithm: Any) -> None:
    """Makes errors of writing an algorithm's checkpoints, and Ray Tune's copies of them, name the file."""
    algorithm.save_to_path = partial(_save, algorithm.save_to_path)
    copy = algorithm._report_class_trainable_checkpoint
    algorithm._report_class_trainable_checkpoint = partial(_copy, algorithm._storage, copy)


def _save(save: Any, path: Any = None, **options: Any) -> str:
    with writing(Path(str(path or "the checkpoint")), ADVICE):
        return save(path, **options)


def _copy(storage: Any, copy: Any, *arguments: Any) -> Any:
    """Copies a checkpoint from a temporary folder to a trial's storage, which is None outside of Tune."""
    if storage is None:
        return copy(*arguments)
    with writing(Path(storage.trial_fs_path), ADVICE):
        return copy(*arguments)
