"""Brings the progress of a trial up to date by the result of an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .callbacks import RETURNS
from .faults.losses import has_learned
from .multi_agent.league import LEAGUE, RIVAL_RETURNS
from .multi_agent.returns import ended_returns
from .settings import Settings
from .trial_state import TrialState

WINDOW = 100
"""Episodes over which the return is averaged."""
LEAST = 20
"""Fewest episodes of a mean return that counts: the first episodes to end are the short ones."""


def advance(state: TrialState, result: Mapping[str, Any], settings: Settings, earlier_seconds: float) -> float:
    """Updates the progress of a trial, and decides whether it has reached a goal.

    Args:
        state: The progress, which changes.
        result: The result of the iteration.
        settings: The settings of the job.
        earlier_seconds: Training time before Tune started the trial.

    Returns:
        Env steps a second in this iteration.
    """
    state.iteration = result["training_iteration"]
    before = state.env_steps
    state.env_steps = int(result.get("num_env_steps_sampled_lifetime", before))
    state.seconds = earlier_seconds + result["time_total_s"]
    state.learned = state.learned or has_learned(result)
    # In self-play the sum over both agents would be 0 in each zero-sum game.
    ended = result.get("env_runners", {}).get(RIVAL_RETURNS if LEAGUE in result else RETURNS, [])
    if isinstance(ended, list):  # a NaN if none ended
        state.episodes += len(ended)
        state.returns = [*state.returns, *map(float, ended)][-WINDOW:]
    for name, values in ended_returns(result).items():
        state.shares[name] = [*state.shares.get(name, ()), *values][-WINDOW:]
    mean = state.return_mean
    if mean is not None and len(state.returns) >= LEAST:
        state.best = mean if state.best is None else max(state.best, mean)
        if settings.stop_return is not None and mean >= settings.stop_return:
            state.reached = f"mean return {mean:.4g}"
    if settings.stop_steps is not None and state.env_steps >= settings.stop_steps:
        state.reached = state.reached or f"{state.env_steps:,} env steps"
    return (state.env_steps - before) / max(result["time_this_iter_s"], 1e-9)
