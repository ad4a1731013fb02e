"""Train a policy: the checks that come before Ray is imported, the job, and what it leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from platform import python_version
from typing import Any

import envoi

from .algorithms import check_actions, find
from .damaged_files import ADVICE, damaged
from .interruption import Interruption
from .output_redirection import redirected
from .run_folder import RunFolder, TrialState, best_trial
from .settings import Settings, Trial


@dataclass(frozen=True)
class Report:
    """What an iteration of a trial gave.

    Args:
        trial: The trial.
        state: How far it is.
        steps_per_second: Env steps a second of training in this iteration.
    """

    trial: Trial
    state: TrialState
    steps_per_second: float


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Args:
        folder: Where everything lies.
        settings: What was asked for.
        states: How far each trial is, as of its last checkpoint, by index.
        best: Index of the best trial; None if there is no checkpoint.
        interrupted: Whether the user stopped it.
        notes: What else there is to say: trials that failed, pictures that were not drawn.
    """

    folder: RunFolder
    settings: Settings
    states: dict[int, TrialState]
    best: int | None
    interrupted: bool
    notes: tuple[str, ...] = ()


Observer = Callable[[Report], None]


@dataclass(frozen=True)
class Job:
    """A job that has passed all checks that need no Ray, and has its folder.

    Args:
        folder: Where everything lies.
        settings: What to do.
        states: How far each trial is, by index.
        notes: What there is to say before it runs: damaged checkpoints that it does not go on from.
    """

    folder: RunFolder
    settings: Settings
    states: dict[int, TrialState]
    notes: tuple[str, ...] = ()

    @classmethod
    def new(cls, settings: Settings, out: str | Path) -> Job:
        """A job in a new or empty folder.

        Raises:
            envoi.EnvoiError: The folder is taken, or the env or algorithm unfit; nothing was written then.
        """
        folder = RunFolder(out)
        folder.refuse_if_taken()
        _check(settings)
        folder.start(settings, _versions())
        return cls(folder, settings, folder.read_state(settings))

    @classmethod
    def existing(cls, out: str | Path, changes: Mapping[str, Any]) -> Job:
        """A job that was interrupted, killed, or reached its goal.

        Args:
            out: Its folder.
            changes: Settings that change, see `Settings.resumed`.

        Raises:
            envoi.EnvoiError: The folder holds no run, a setting cannot change, nothing is left to do, a file is
                damaged that it cannot go on without, or the env is no longer fit.
        """
        folder = RunFolder(out)
        asked = folder.read_settings()
        folder.claim()
        settings = asked.resumed(changes)
        states = folder.read_state(settings)
        if settings.goal != asked.goal:
            for state in states.values():
                state.reached = None
        if all(state.reached is not None for state in states.values()):
            raise envoi.EnvoiError(
                f"{folder.path} has reached {settings.goal}; ask for more by --stop-return or --stop-steps"
            )
        earlier = folder.read_earlier()
        notes = _step_back(folder, states, earlier)
        _check(settings)
        folder.rewind_progress(states)
        folder.write_settings(settings, _versions())
        if notes:
            folder.write_state(states, earlier)
        return cls(folder, settings, states, tuple(notes))

    def run(self, *, observe: Observer | None = None, quiet: bool = False) -> Outcome:
        """Train until a goal is reached or Ctrl-C is pressed, which lets the iteration end and saves.

        If Ray runs in this process already it is used and left running; otherwise one is started on this
        machine (or `settings.address` joined) and left at the end.

        Args:
            observe: Called after each iteration of each trial.
            quiet: Whether stdout and stderr of this process go to `train.log` meanwhile.

        Returns:
            How it ended.

        Raises:
            envoi.EnvoiError: The env failed while training, or all trials did; the last checkpoint stays.
        """
        # Small networks are about nine times slower with a thread for each core. Before torch is imported.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self.folder.failure.unlink(missing_ok=True)
        with (
            self.folder,
            Interruption() as interruption,
            redirected(self.folder.log) if quiet else nullcontext(),
        ):
            from .tuning import run

            interruption.check()
            self.folder.drop_sessions(self.states)
            saved, interrupted, failures = run(
                self.settings, self.folder, self.states, observe, interruption, log_to_driver=quiet
            )
            self.folder.drop_sessions(saved)
            notes = [*self.notes, *failures, *_draw(self.folder, self.settings)]
        return Outcome(self.folder, self.settings, saved, best_trial(saved), interrupted, tuple(notes))


def train(settings: Settings, out: str | Path, *, observe: Observer | None = None) -> Outcome:
    """Train in a new or empty folder: `Job.new` and `Job.run`."""
    return Job.new(settings, out).run(observe=observe)


def resume(out: str | Path, *, observe: Observer | None = None, **changes: Any) -> Outcome:
    """Go on with the job in a folder: `Job.existing` and `Job.run`."""
    return Job.existing(out, changes).run(observe=observe)


def _step_back(folder: RunFolder, states: dict[int, TrialState], earlier: dict[int, TrialState]) -> list[str]:
    """Put the checkpoint before it in the place of each damaged one, and move it from `earlier` to `states`.

    Returns:
        A line for each damaged checkpoint.

    Raises:
        envoi.EnvoiError: There is no whole one before it.
    """
    notes: list[str] = []
    for index, state in states.items():
        if state.checkpoint is None or state.reached is not None:  # not gone on with
            continue
        found = damaged(folder.path / state.checkpoint)
        if found is None:
            continue
        before = earlier.pop(index, None)
        if before is None or before.checkpoint is None or damaged(folder.path / before.checkpoint) is not None:
            raise envoi.EnvoiError(f"{found}, and there is no whole checkpoint before it; {ADVICE}")
        states[index] = before
        notes.append(f"{found}; going on from the checkpoint before it, at {before.env_steps:,} env steps")
    return notes


def _check(settings: Settings) -> None:
    """Find what would fail anyway, before Ray is imported."""
    for package in ("ray", "torch"):
        if find_spec(package) is None:
            raise envoi.MissingBackend(f"{package} is not installed; pip install 'envoi[rllib]'")
    from .registration import preflight

    _, actions = preflight(
        settings.env, check_specs=settings.check_specs, seed=settings.seed, num_envs=settings.num_envs_per_runner
    )
    if type(actions).__name__ == "Dict":  # the canonical form of one agent never is
        agents = ", ".join(map(str, getattr(actions, "spaces")))  # noqa: B009 - gymnasium's, imported by then
        raise envoi.EnvoiError(
            f"{settings.env}: envoi train trains one agent, got {agents}; for several, register it by "
            "envoi.integrations.rllib.register and set RLlib's own AlgorithmConfig.multi_agent(…)"
        )
    check_actions(find(settings.algo), actions)


def _draw(folder: RunFolder, settings: Settings) -> list[str]:
    try:
        from .learning_curve import draw_curve
    except ImportError:
        return [f"{folder.curve.name} was not drawn: pip install 'envoi[plots]'"]
    draw_curve(folder.read_progress(), folder.curve, f"{settings.algo} on {settings.env}", settings.stop_return)
    return []


def _versions() -> dict[str, str]:
    versions = {"python": python_version()}
    for package in ("envoi", "gymnasium", "ray", "torch"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
