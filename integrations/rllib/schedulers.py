"""Ray Tune's schedulers, with the progress that the recorder keeps as their metric.

They decide by the mean return of the last episodes (the `return_mean` of `progress.csv`) against env steps. What they
decide is part of a trial's state, so that a resumed job has neither trials that were stopped nor forgotten changes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    TrialScheduler,
)

from .settings import DEFAULT_STOP_STEPS, Settings

if TYPE_CHECKING:
    from .recorder import Recorder
    from .trial_configs import TrialConfigs

RETURN, STEPS = "envoi_return_mean", "envoi_env_steps"
"""Keys of a result that the schedulers read."""
RUNGS = 3
"""Env steps at which `asha` compares trials: a 27th, a 9th and a 3rd of the budget."""
PERTURBATIONS = 8
"""Times that `pbt` compares trials within the budget."""


def make_scheduler(settings: Settings, recorder: Recorder, configs: TrialConfigs) -> TrialScheduler:
    """Returns the scheduler of a job.

    Its budget is `stop_steps`, or 1,000,000 env steps where the job has no such stop.

    Args:
        settings: The settings of the job.
        recorder: Keeps the progress of the trials, and what the scheduler decides.
        configs: The configs of the trials.
    """
    budget = settings.stop_steps or DEFAULT_STOP_STEPS
    ends = {"time_attr": STEPS, "metric": RETURN, "mode": "max"}
    if settings.scheduler == "asha":
        first = max(1, budget // 3**RUNGS)
        return _Asha(
            recorder, "asha", max_t=budget, grace_period=first, reduction_factor=3, stop_last_trials=False, **ends
        )
    if settings.scheduler == "median":
        first = max(1, budget // 10)
        return _Median(recorder, "median", grace_period=first, min_time_slice=first, **ends)
    if settings.scheduler == "pbt":
        return _Pbt(recorder, settings, configs, interval=max(1, budget // PERTURBATIONS), **ends)
    return FIFOScheduler()


class _EndedTrial:
    """A trial that ended before the job was resumed."""

    def __init__(self, trial_id: str) -> None:
        self.trial_id = trial_id


class _Reporting(TrialScheduler):
    """Gives a scheduler the recorder's metric, and the recorder the scheduler's decisions."""

    recorder: Recorder
    title: str

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        progress = self.recorder.progress_of(trial)
        if progress is None:
            return TrialScheduler.CONTINUE
        decision = super().on_trial_result(tune_controller, trial, result | progress)  # pyright: ignore[reportAbstractUsage]
        if decision == TrialScheduler.STOP:
            self.recorder.stop(trial, self.title)
        return decision

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, trial, result | (self.recorder.progress_of(trial) or {}))  # pyright: ignore[reportAbstractUsage]


class _Stopping(_Reporting):
    """A scheduler that stops trials; a resumed job shows it the earlier rows of `progress.csv` first."""

    def __init__(self, recorder: Recorder, title: str, **arguments: Any) -> None:
        self.recorder, self.title = recorder, title
        super().__init__(**arguments)
        idle = SimpleNamespace(get_live_trials=list)
        finished: dict[int, Any] = {}
        for index, progress in recorder.earlier_progress():
            if recorder.has_ended(index):
                if index not in finished:
                    finished[index] = _EndedTrial(f"earlier_{index}")
                    super().on_trial_add(idle, finished[index])  # pyright: ignore
                super(_Reporting, self).on_trial_result(idle, finished[index], progress)  # pyright: ignore

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, trial)  # pyright: ignore[reportAbstractUsage]
        idle: Any = SimpleNamespace(get_live_trials=list)
        own = self.recorder.index_of(trial)
        for index, progress in self.recorder.earlier_progress():
            if index == own:
                super(_Reporting, self).on_trial_result(idle, trial, progress)  # pyright: ignore


class _Asha(_Stopping, ASHAScheduler):
    """Asynchronous successive halving. Source: Li et al., 2020."""


class _Median(_Stopping, MedianStoppingRule):
    """Stops trials below the median of the others' running means. Source: Golovin et al., 2017."""


class _Pbt(_Reporting, PopulationBasedTraining):
    """Population based training, inside the search spaces, and with a seed of its own for each trial.

    Trials wait for one another at each comparison, as otherwise those that share a CPU would repeat old checkpoints.
    They are compared at the multiples of the interval. Ray Tune adds the interval to the time of the last comparison
    instead, as if that had not been late by a part of an iteration; the time of the next one then falls behind the
    trials, none of which it runs again.
    """

    def __init__(
        self, recorder: Recorder, settings: Settings, configs: TrialConfigs, interval: int, **arguments: Any
    ) -> None:
        self.recorder, self.title = recorder, "pbt"
        self._spaces, self._configs = settings.spaces, configs
        self._rng = np.random.default_rng([settings.seed, len(settings.trials)])
        random.seed(settings.seed)  # Ray Tune chooses whom to clone by it
        super().__init__(
            perturbation_interval=interval, custom_explore_fn=dict, log_config=False, synch=True, **arguments
        )

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, trial)
        self._trial_state[trial].last_train_time = self.recorder.steps_of(trial)
        self._begin_interval()

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        before = self._next_perturbation_sync
        decision = super().on_trial_result(tune_controller, trial, result)
        if self._next_perturbation_sync != before:  # the trials were compared
            self._begin_interval()
        return decision

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Returns the trial to run next, as Ray Tune does; compares the trials first where all wait for one another."""
        live = tune_controller.get_live_trials()
        if live and all(trial.status == trial.PAUSED and self._waits(trial) for trial in live):
            # They waited for one that has ended or failed, and Ray Tune compares only when one reports.
            last = self._trial_state[live[0]].last_result
            super(_Reporting, self).on_trial_result(tune_controller, live[0], last)  # pyright: ignore
            self._begin_interval()
        return super().choose_trial_to_run(tune_controller)

    def _waits(self, trial: Any) -> bool:
        return self._trial_state[trial].last_train_time >= self._next_perturbation_sync

    def _begin_interval(self) -> None:
        """Sets the next comparison to the first multiple of the interval that no trial has reached."""
        states = [state for trial, state in self._trial_state.items() if not trial.is_finished()]
        latest = max((state.last_train_time for state in states), default=0)
        interval = int(self._perturbation_interval)
        begin = latest // interval * interval
        self._next_perturbation_sync = begin + interval
        for state in states:
            state.last_perturbation_time = begin

    def _exploit(self, tune_controller: Any, trial: Any, trial_to_clone: Any) -> None:
        saving = trial.temporary_state.saving_to
        if saving is not None:
            # Pausing a trial that is being saved, Ray Tune would stop it for good after its next checkpoint.
            saving.resolve()
            trial.temporary_state.saving_to = None
        super()._exploit(tune_controller, trial, trial_to_clone)

    def _get_new_config(self, trial: Any, trial_to_clone: Any) -> tuple[dict[str, Any], dict[str, str]]:
        before: Mapping[str, Any] = self.recorder.overrides_of(trial_to_clone)
        after = {
            name: self._spaces[name].perturb(value, self._rng) if name in self._spaces else value
            for name, value in before.items()
        }
        self.recorder.perturb(trial, trial_to_clone, after)
        entries = self._configs.entries(after)
        return {**trial_to_clone.config, **entries, "seed": trial.config["seed"]}, {}
