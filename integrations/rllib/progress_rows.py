"""The rows of `progress.csv`, and the numbers that trackers receive."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np

from .algorithm_config import RETURNS
from .search_space import format_value
from .sweep import Trial
from .trial_state import TrialState

SINGLE_MODULE = "default_policy"
"""RLlib's name of the module of envs of one agent."""


def progress_row(
    trial: Trial, state: TrialState, result: Mapping[str, Any], speed: float, swept: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the row of an iteration.

    Args:
        trial: The trial, with the settings that it runs with.
        state: Its progress.
        result: RLlib's result.
        speed: Env steps a second.
        swept: The settings that the sweep samples, by name.

    Returns:
        Values by column: `run_folder.COLUMNS`, then `set.<name>` for each setting of the sweep, `loss/<name>`, and
        `evaluation_return_mean` and `evaluation_length_mean` where the policy was evaluated.
    """
    row: dict[str, Any] = {
        "trial": trial.index,
        "lr": trial.lr,
        "seed": trial.seed,
        "iteration": state.iteration,
        "env_steps": state.env_steps,
        "seconds": round(state.seconds, 3),
        "episodes": state.episodes,
        "steps_per_second": round(speed, 1),
        "length_mean": _finite(result.get("env_runners", {}).get("episode_len_mean")),
    }
    for name in ("mean", "std", "min", "p10", "p50", "p90", "max"):
        row[f"return_{name}"] = None
    if state.returns:
        low, tenth, median, ninetieth, high = np.percentile(state.returns, [0, 10, 50, 90, 100])
        row |= {
            "return_mean": state.return_mean,
            "return_std": statistics.pstdev(state.returns),
            "return_min": float(low),
            "return_p10": float(tenth),
            "return_p50": float(median),
            "return_p90": float(ninetieth),
            "return_max": float(high),
        }
    row |= {f"set.{name}": format_value(value) for name, value in swept.items() if name != "lr"}
    return row | _losses(result.get("learners", {})) | _evaluation(result.get("evaluation", {}))


def _losses(learners: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the losses and entropies of each module; without the module's name where it is the only one."""
    row: dict[str, Any] = {}
    for module, values in learners.items():
        if not isinstance(values, Mapping) or module == "__all_modules__":
            continue
        prefix = "loss/" if module == SINGLE_MODULE else f"loss/{module}/"
        for name, value in values.items():
            if name.endswith("loss") or name == "entropy":
                row[prefix + name] = _finite(value)
    return row


def _evaluation(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    runners = evaluation.get("env_runners", {})
    ended = runners.get(RETURNS, [])
    if not isinstance(ended, list) or not ended:
        return {}
    return {
        "evaluation_return_mean": statistics.fmean(map(float, ended)),
        "evaluation_length_mean": _finite(runners.get("episode_len_mean")),
    }


def _finite(value: Any) -> float | None:
    if not isinstance(value, int | float | np.number | np.ndarray) or np.size(value) != 1 or not np.isfinite(value):
        return None
    return float(f"{float(value):.6g}")


def tracked(row: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of an iteration for trackers.

    Args:
        row: The row of `progress.csv`.
        result: RLlib's result.

    Returns:
        Finite numbers by name: `envoi/<column>`, and all that RLlib reports of its learners, env runners and
        evaluations.
    """
    skipped = ("trial", "seed", "iteration", "env_steps")
    numbers: dict[str, Any] = {f"envoi/{name}": value for name, value in row.items() if name not in skipped}
    for part in ("learners", "env_runners", "evaluation"):
        numbers |= _flat(result.get(part, {}), part)
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float | np.number) and np.isfinite(value)
    }


def _flat(values: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        return {prefix: values}
    return {path: leaf for key, value in values.items() for path, leaf in _flat(value, f"{prefix}/{key}").items()}
