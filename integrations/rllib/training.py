"""Trains a policy: the checks before Ray is imported, and the job itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import envoi

from ..errors import describe
from .algorithms import check_actions
from .job_process import Interruption, one_thread, redirected
from .multi_agent.grouping import Grouping, group_spaces
from .run_folder import Observer, RunFolder, TrialState, best_trial
from .settings import TRACKERS, Settings, apply_overrides


@dataclass(frozen=True)
class Outcome:
    """The result of a job.

    Args:
        folder: The output folder.
        settings: The settings that it ran with.
        states: The progress of each trial, as of its last checkpoint, by index.
        best: Index of the best trial; None if there is no checkpoint.
        interrupted: True if the user stopped the job.
        notes: Messages for the user: trials that failed, a plot that needs a missing package.
    """

    folder: RunFolder
    settings: Settings
    states: dict[int, TrialState]
    best: int | None
    interrupted: bool
    notes: tuple[str, ...] = ()

    @property
    def learned(self) -> bool:
        """True if a policy was updated, in any trial."""
        return any(state.learned for state in self.states.values())


@dataclass(frozen=True)
class Job:
    """A job whose folder exists and whose settings have passed all checks that do not need Ray.

    Args:
        folder: The output folder.
        settings: The settings of the job.
        states: The progress of each trial, by index.
        notes: Messages for the user before it runs, such as damaged checkpoints that it does not continue from.
        grouping: The policies of a multi-agent env; None for a single-agent env.
    """

    folder: RunFolder
    settings: Settings
    states: dict[int, TrialState]
    notes: tuple[str, ...] = ()
    grouping: Grouping | None = None

    @classmethod
    def new(cls, settings: Settings, out: str | Path) -> Job:
        """Makes a job in a new or empty folder.

        Args:
            settings: The settings of the job.
            out: The output folder.

        Raises:
            envoi.EnvoiError: The folder is taken, or the algorithm does not fit the env; then nothing was written.
        """
        folder = RunFolder(out)
        folder.refuse_if_taken()
        grouping = _check(settings)
        folder.start(settings)
        notes = () if grouping is None else (str(grouping),)
        return cls(folder, settings, folder.read_state(settings), notes, grouping)

    @classmethod
    def existing(cls, out: str | Path, changes: Mapping[str, Any]) -> Job:
        """Reads a job that was interrupted, was killed, or reached its goal.

        Args:
            out: Its output folder.
            changes: Settings that change, see `Settings.resumed`.

        Raises:
            envoi.EnvoiError: The folder holds no run, a setting cannot change, nothing is left to do, a file that the
                job needs is damaged, or the algorithm no longer fits the env.
        """
        folder = RunFolder(out)
        asked = folder.read_settings()
        folder.claim()
        settings = asked.resumed(changes)
        states = folder.read_state(settings)
        if settings.goal != asked.goal:
            for state in states.values():
                state.reached = state.reached if state.stopped_early else state.goal_reached(settings)
        if all(state.reached is not None for state in states.values()):
            done = max(state.env_steps for state in states.values())
            raise envoi.EnvoiError(
                f"{folder.path} has reached {settings.goal}, after {done:,} env steps, so nothing is left to do; "
                "ask for more by --stop-return or --stop-steps"
            )
        notes = _step_back(folder, states)
        grouping = _check(settings)
        folder.rewind_progress(states)
        folder.write_settings(settings)
        if notes:
            folder.write_state(states)
        notes += [] if grouping is None else [str(grouping)]
        return cls(folder, settings, states, tuple(notes), grouping)

    def run(self, *, observe: Observer | None = None, quiet: bool = False) -> Outcome:
        """Trains until a goal is reached or Ctrl-C is pressed, then finishes the iteration and saves.

        Uses a Ray that this process has already started, and leaves it running. Otherwise it starts Ray on this machine
        (or joins the cluster at `settings.address`), and shuts it down at the end.

        Args:
            observe: Called after each iteration of each trial.
            quiet: Write stdout and stderr of this process to `train.log` during training.

        Raises:
            envoi.EnvoiError: All trials failed, such as by an error of the env; the last checkpoint stays.
        """
        self.folder.ending.unlink(missing_ok=True)
        with (
            one_thread(),
            self.folder,
            _record_errors(self.folder, self.settings),
            Interruption() as interruption,
            redirected(self.folder.log) if quiet else nullcontext(),
        ):
            from .tuning import run

            interruption.check()
            self.folder.drop_sessions(self.states)
            saved, failures = run(self, observe, interruption, log_to_driver=quiet)
            self.folder.drop_sessions(saved)
            best = best_trial(saved)
            out_of_time = "failed", "time ran out before the first iteration ended"
            ending = ("interrupted", "") if interruption.asked else out_of_time if best is None else ("done", "")
            lacking = _end(self.folder, self.settings, *ending)
        notes = (*self.notes, *failures, *lacking)
        return Outcome(self.folder, self.settings, saved, best, interruption.asked, notes)


@contextmanager
def _record_errors(folder: RunFolder, settings: Settings) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        ending = ("interrupted", "") if isinstance(error, KeyboardInterrupt) else ("failed", describe(error))
        with suppress(Exception):  # the error of the job is the one to show
            _end(folder, settings, *ending)
        raise


def _end(folder: RunFolder, settings: Settings, state: str, message: str) -> list[str]:
    """Writes how a job ended, and plots its learning curve. Returns a note if the plot failed."""
    folder.write_ending(state, message)
    rows = folder.read_progress()
    if not rows:
        return []
    text = "" if state == "done" else f"{state}: {message}".rstrip(": ")
    try:
        from .learning_curve import plot_learning_curve

        plot_learning_curve(rows, folder.curve, f"{settings.algo} on {settings.env}", settings.stop_return, ending=text)
    except ImportError:
        return [f"{folder.curve.name} was not plotted: pip install 'envoi[plots]'"]
    except Exception as error:  # whatever matplotlib makes of it: the job has ended as it has
        return [f"{folder.curve.name} was not plotted: {describe(error)}"]
    return []


def train(settings: Settings, out: str | Path, *, observe: Observer | None = None) -> Outcome:
    """Trains in a new or empty folder: `Job.new` and `Job.run`.

    Args:
        settings: The settings of the job.
        out: The output folder.
        observe: Called after each iteration of each trial.

    Raises:
        envoi.EnvoiError: As `Job.new` and `Job.run`.
    """
    return Job.new(settings, out).run(observe=observe)


def resume(out: str | Path, *, observe: Observer | None = None, **changes: Any) -> Outcome:
    """Continues the job in a folder: `Job.existing` and `Job.run`.

    Args:
        out: The output folder of the job.
        observe: Called after each iteration of each trial.
        **changes: Settings that change, see `Settings.resumed`.

    Raises:
        envoi.EnvoiError: As `Job.existing` and `Job.run`.
    """
    return Job.existing(out, changes).run(observe=observe)


def _step_back(folder: RunFolder, states: dict[int, TrialState]) -> list[str]:
    """Replaces each damaged checkpoint by the checkpoint before it; returns notes for the user."""
    notes: list[str] = []
    for index, state in states.items():
        if state.reached is not None or (found := folder.damage(state)) is None:
            continue
        before = state.before
        if before is None or folder.damage(before) is not None:
            raise envoi.EnvoiError(f"{found}, and no checkpoint before it is intact; start a new run in another folder")
        states[index] = before
        notes.append(f"{found}; continuing from the checkpoint before it, at {before.env_steps:,} env steps")
    return notes


def _check(settings: Settings) -> Grouping | None:
    """Raises errors that can be found before Ray starts; returns the policies of a multi-agent env, else None."""
    for package in ("ray", "torch"):
        if find_spec(package) is None:
            raise envoi.MissingBackend(f"{package} is not installed; pip install 'envoi[rllib]'")
    if settings.set or settings.module is not None:
        with one_thread():
            _check_with_rllib(settings)
    for name in settings.track:
        if find_spec(TRACKERS[name]) is None:
            raise envoi.MissingBackend(
                f"--track {name} needs the package {TRACKERS[name]}; pip install {TRACKERS[name]}"
            )
    from .curriculum import choose
    from .registration import preflight

    env, chosen = settings.env_of(settings.trials[0].overrides), settings.chosen
    if any(one is not None for one in chosen.values()):
        choose(env, {}, **chosen)
    observations, actions = preflight(
        env,
        check_specs=settings.check_specs is not False,
        seed=settings.seed,
        num_envs=settings.num_envs_per_runner,
        action_masks=settings.action_masks,
    )
    grouping = group_spaces(settings.policies, observations, actions)
    check_actions(settings.algo, actions)
    return grouping


def _check_with_rllib(settings: Settings) -> None:
    """Checks each trial's settings and the user's module with RLlib, before any file is written."""
    from .configuration import load_algorithm
    from .tuning import load_module

    if settings.module is not None:
        load_module(settings.module)
    config = load_algorithm(settings.algo).get_default_config()
    options = [one.name for one in fields(Settings)]
    for trial in settings.trials:
        own = config.copy(copy_frozen=False)
        apply_overrides(own, trial.overrides, settings.algo, own_module=settings.module is not None, others=options)
