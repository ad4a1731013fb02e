"""The output folder of a training job, written so that killing the process at any moment does no harm.

    config.yaml         the settings, and the versions of the packages that ran them
    state.json          progress of each trial as of its last checkpoint, and as of the one before
    progress.csv        one row for each trial and iteration
    checkpoint          link to the last checkpoint of the best trial
    learning_curve.png  mean return and spread against env steps
    league.json         the league of self-play
    contexts.parquet    the episodes in each context, one row for each iteration and context
    tensorboard/        events, one folder for each trial
    ending.json         how the job ended: done, interrupted or failed; absent while it runs and after a kill
    train.log           the output of Ray, RLlib and their workers
    tune/               Ray Tune's own folders, one for each start or resumption of the job

Files are replaced as a whole (`os.replace`) or grow by whole lines, and `state.json` names a checkpoint only
when all of it is on disk, so a job resumes from `state.json`.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, Self

import envoi
from envoi.atomic_write import write_atomically

from ..errors import damaged, reading, writing
from .settings import Settings, Trial

LEAST = 20
"""Fewest episodes of a mean return that counts: the first episodes to end are the short ones."""
STOPPED = "stopped by "
"""Beginning of `TrialState.reached` for trials that a scheduler has stopped."""
COLUMNS = (
    "trial", "lr", "seed", "iteration", "env_steps", "seconds", "episodes", "return_mean", "return_std", "return_min",
    "return_p10", "return_p50", "return_p90", "return_max", "length_mean", "steps_per_second",
)  # fmt: skip
"""Columns of every `progress.csv`; the returns are those of the last 100 episodes, `seconds` is training time.

A job adds columns of its own after these: losses, returns of evaluations, what a sweep has sampled; with several agents
the mean return of each policy and each agent, such as `policy/shared/return_mean`. In self-play the returns are those
of the learning policy against frozen ones, and two more columns have its rating (`elo`) and the number of `members`
of the league.
"""
DEPTH = 4
"""How many folders below the given one may hold runs."""


@dataclass
class TrialState:
    """The progress of a trial, as of its last checkpoint."""

    checkpoint: str | None = None
    iteration: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    episodes: int = 0
    returns: list[float] = field(default_factory=list)
    best: float | None = None
    reached: str | None = None
    learned: bool = False
    shares: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    overrides: dict[str, Any] | None = None
    rows: int = 0
    before: TrialState | None = None

    def goal_reached(self, settings: Settings) -> str | None:
        """Returns a description of the goal that the trial has reached, or None if it has reached none."""
        goal, mean = settings.stop_return, self.return_mean
        if goal is not None and mean is not None and len(self.returns) >= LEAST and mean >= goal:
            return f"mean return {mean:.4g}"
        steps = settings.stop_steps
        return f"{self.env_steps:,} env steps" if steps is not None and self.env_steps >= steps else None

    @property
    def stopped_early(self) -> bool:
        """True if a scheduler has stopped the trial; a new goal does not continue such a trial."""
        return self.reached is not None and self.reached.startswith(STOPPED)

    @property
    def return_mean(self) -> float | None:
        """Mean return of the last episodes, or None before the first episode has ended."""
        return sum(self.returns) / len(self.returns) if self.returns else None


@dataclass(frozen=True)
class Report:
    """The result of one iteration of a trial.

    Args:
        trial: The trial.
        state: The progress of the trial.
        steps_per_second: Env steps a second of training in this iteration.
    """

    trial: Trial
    state: TrialState
    steps_per_second: float


Observer = Callable[[Report], None]
"""Called after each iteration of each trial."""


def best_trial(states: Mapping[int, TrialState]) -> int | None:
    """Returns the index of the trial with the highest mean return, or None if no trial has a checkpoint."""
    means = {index: state.return_mean for index, state in states.items() if state.checkpoint is not None}
    return max(means, key=lambda index: float("-inf") if (mean := means[index]) is None else mean, default=None)


class FolderTaken(envoi.EnvoiError):
    """Raised if another job owns the folder."""


class RunFolder:
    """The output folder of a training job. Its methods raise an `envoi.EnvoiError` that names a damaged file.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self.config = self.path / "config.yaml"
        self.state = self.path / "state.json"
        self.progress = self.path / "progress.csv"
        self.checkpoint = self.path / "checkpoint"
        self.curve = self.path / "learning_curve.png"
        self.evaluation = self.path / "evaluation.json"
        self.contexts = self.path / "contexts.parquet"
        self.league = self.path / "league.json"
        self.tensorboard = self.path / "tensorboard"
        self.log = self.path / "train.log"
        self.ending = self.path / "ending.json"
        self.tune = self.path / "tune"
        self._lock: Any = None

    @property
    def exists(self) -> bool:
        """True if the folder holds a job."""
        return self.config.is_file()

    @property
    def blank(self) -> bool:
        """True if the folder exists and is empty, as after a job that was killed before its first file."""
        return self.path.is_dir() and not _entries(self.path)

    def refuse_if_taken(self) -> None:
        """Raises an `envoi.EnvoiError` if the path is not a folder, or is a folder that is not empty."""
        if self.exists:
            raise FolderTaken(
                f"{self.path} already holds a run; continue it with "
                f"`envoi train --resume --out {self.path}`, or give another --out"
            )
        if self.path.exists() and not self.path.is_dir():
            raise envoi.EnvoiError(f"{self.path} is a file; --out takes a folder")
        if self.path.is_dir() and not self.blank:
            raise envoi.EnvoiError(f"{self.path} is not empty; give a new or empty folder as --out")

    def refuse_without_checkpoint(self) -> None:
        """Raises an `envoi.EnvoiError` if the run has no checkpoint yet."""
        if not self.checkpoint.exists():
            raise envoi.EnvoiError(
                f"{self.path} holds no checkpoint yet; continue with `envoi train --resume --out {self.path}`"
            )

    def start(self, settings: Settings) -> None:
        """Makes the folder, locks it and writes `config.yaml`; raises an `envoi.EnvoiError` if it is taken."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.claim()
            self.refuse_if_taken()
            self.write_settings(settings)
        except OSError as error:
            raise envoi.EnvoiError(f"cannot write to {self.path}: {error.strerror or error}") from error

    def claim(self) -> None:
        """Locks the folder for this process, until `release` or until the process ends, even if it is killed."""
        from filelock import FileLock, Timeout

        self._lock = FileLock(self.path / ".lock")
        try:
            # Not at once: `envoi runs` may be looking at whether it is locked.
            self._lock.acquire(timeout=0.3, poll_interval=0.02)
        except Timeout:
            raise FolderTaken(
                f"{self.path}: another envoi train is writing here; wait for it to end, or give another --out"
            ) from None

    def release(self) -> None:
        """Unlocks the folder."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_claimed(self) -> bool:
        """True if this or another process holds the lock, which means that it is training."""
        from filelock import FileLock, Timeout

        lock = self.path / ".lock"
        if not lock.exists():
            return False
        try:
            with FileLock(lock, timeout=0):
                return False
        except Timeout:
            return True
        except OSError:  # it is another user's, whose lock cannot be tried
            return False

    def write_settings(self, settings: Settings) -> None:
        """Writes `config.yaml`, with the versions of packages."""
        import yaml

        versions = {"python": python_version()}
        for package in ("envoi", "gymnasium", "ray", "torch"):
            with suppress(PackageNotFoundError):
                versions[package] = version(package)
        values = settings.to_dict() | {"versions": versions}  # last, because `read_settings` looks for it
        write_atomically(self.config, yaml.safe_dump(values, sort_keys=False))

    def read_settings(self) -> Settings:
        """Reads the settings of the job; raises an `envoi.EnvoiError` if the folder holds none."""
        import yaml

        if not self.exists:
            problem = "is a file, not a run's folder" if self.path.exists() else "does not exist"
            problem = "holds no run of envoi (no config.yaml)" if self.path.is_dir() else problem
            raise envoi.EnvoiError(f"{self.path} {problem}; `envoi runs` lists those in runs/")
        with reading(self.config):
            values = yaml.safe_load(self.config.read_text(encoding="utf-8"))
            if not isinstance(values, dict) or "versions" not in values:  # the last key that is written
                raise ValueError("it is cut off, or no config of envoi")
            return Settings.from_dict(values)

    def write_ending(self, state: str, message: str) -> None:
        """Writes `ending.json`.

        Args:
            state: "done", "interrupted" or "failed".
            message: The error of a job that failed.
        """
        write_atomically(self.ending, json.dumps({"state": state, "message": message}, indent=1))

    def read_ending(self) -> tuple[str, str] | None:
        """Returns how the job ended and its error, or None if it is running or was killed."""
        if not self.ending.exists():
            return None
        with reading(self.ending):
            document = json.loads(self.ending.read_text(encoding="utf-8"))
            return str(document["state"]), str(document["message"])

    def read_state(self, settings: Settings) -> dict[int, TrialState]:
        """Reads the progress of each trial by index; drops checkpoints that no longer exist."""
        if not self.state.exists():
            return {trial.index: TrialState() for trial in settings.trials}
        with reading(self.state):
            stored = json.loads(self.state.read_text(encoding="utf-8"))["trials"]
            return {one.index: self._state_of(stored.get(str(one.index))) or TrialState() for one in settings.trials}

    def read_best(self) -> tuple[Settings, Trial, TrialState]:
        """Reads the settings, the best trial (the first if none has a checkpoint), and its progress."""
        settings = self.read_settings()
        states = self.read_state(settings)
        best = best_trial(states) or 0
        return settings, settings.trials[best], states[best]

    def _state_of(self, stored: Any) -> TrialState | None:
        if not stored or not stored["checkpoint"] or not (self.path / stored["checkpoint"]).is_dir():
            return None
        values = {one.name: stored[one.name] for one in fields(TrialState) if one.name in stored}  # 0.2.0 had others
        return TrialState(**{**values, "before": self._state_of(stored.get("before"))})

    def write_state(self, states: Mapping[int, TrialState]) -> None:
        """Writes `state.json`, and links `checkpoint` to the last checkpoint of the best trial.

        Args:
            states: The progress of each trial, as of its last checkpoint.
        """
        trials = {str(index): asdict(state) for index, state in states.items()}
        with writing(self.state):
            write_atomically(self.state, json.dumps({"format": 1, "trials": trials}, indent=1))
        index = best_trial(states)
        if index is None:
            return
        temporary = self.path / f".checkpoint.{uuid.uuid4().hex[:8]}.tmp"
        temporary.symlink_to(str(states[index].checkpoint), target_is_directory=True)
        temporary.replace(self.checkpoint)

    def damage(self, state: TrialState) -> str | None:
        """Describes a damaged file of a trial's checkpoint; returns None if all files are intact."""
        return None if state.checkpoint is None else damaged(self.path / state.checkpoint)

    def append_progress(self, row: Mapping[str, Any]) -> None:
        """Appends a row to `progress.csv` in one write, so that a killed process leaves no partial line.

        Adds columns that the file lacks; they are empty in earlier rows.
        """
        columns = self._columns()
        missing = [name for name in (*COLUMNS, *row) if name not in columns]
        if missing:
            columns = [*columns, *dict.fromkeys(missing)]
            with writing(self.progress):
                self._write_progress(columns, self.read_progress())
        with writing(self.progress), self.progress.open("ab", buffering=0) as file:
            file.write(_csv(columns, [row]).encode())

    def rewind_progress(self, states: Mapping[int, TrialState]) -> None:
        """Removes the rows after each trial's checkpoint, from which a resumed job continues."""
        kept: list[Mapping[str, str]] = []
        count = Counter[int]()
        rows = self.read_progress()
        with reading(self.progress):
            for row in rows:
                trial = int(row["trial"])
                count[trial] += 1
                if count[trial] <= states[trial].rows:
                    kept.append(row)
        self._write_progress(self._columns() or list(COLUMNS), kept)

    def read_progress(self) -> list[dict[str, str]]:
        """Reads the complete rows of `progress.csv` as text; missing values are empty."""
        if not self.progress.exists():
            return []
        with reading(self.progress), self.progress.open(newline="", encoding="utf-8") as file:
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        rows: Iterable[dict[str, str]] = csv.DictReader(whole.splitlines())
        return [row for row in rows if None not in row.values() and all(name in row for name in COLUMNS)]

    def write_contexts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes `contexts.parquet` if there are rows, with a column of trials only if there are several trials."""
        if not rows:
            return
        import pyarrow
        import pyarrow.parquet

        several = len({row["trial"] for row in rows}) > 1
        shown = [{name: value for name, value in row.items() if several or name != "trial"} for row in rows]
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(shown), stream)
        with writing(self.contexts):
            write_atomically(self.contexts, stream.getvalue())

    def read_contexts(self, states: Mapping[int, TrialState]) -> list[dict[str, Any]]:
        """Reads the rows of `contexts.parquet` up to each trial's checkpoint."""
        if not self.contexts.exists():
            return []
        import pyarrow.parquet

        with reading(self.contexts):
            rows = [{"trial": 0, **row} for row in pyarrow.parquet.read_table(self.contexts).to_pylist()]
        return [row for row in rows if row["iteration"] <= states[row["trial"]].iteration]

    def read_leagues(self) -> dict[str, Any]:
        """Returns the leagues of self-play by trial, as `League.describe` gives them; empty if there are none."""
        return json.loads(self.league.read_text(encoding="utf-8"))["trials"] if self.league.exists() else {}

    def write_league(self, trial: int, described: Mapping[str, Any]) -> None:
        """Replaces a league in `league.json`.

        Args:
            trial: The index of the trial.
            described: The league, as `League.describe` gives it.
        """
        trials = self.read_leagues() | {str(trial): described}
        write_atomically(self.league, json.dumps({"format": 1, "trials": trials}, indent=1))

    def _columns(self) -> list[str]:
        if not self.progress.exists():
            return []
        with reading(self.progress), self.progress.open(newline="", encoding="utf-8") as file:
            return next(csv.reader(file), [])

    def _write_progress(self, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        titles = dict(zip(columns, columns, strict=True))
        write_atomically(self.progress, _csv(columns, [titles, *rows]))

    def new_session(self) -> str:
        """Returns a new name for Tune's folder; earlier folders stay, as they hold checkpoints."""
        taken = [int(entry) for entry in _entries(self.tune) if entry.isdigit()]
        return str(max(taken, default=0) + 1)

    def drop_sessions(self, states: Mapping[int, TrialState]) -> None:
        """Removes Tune's earlier folders, but keeps the two latest checkpoints of each trial."""
        kept = [one for state in states.values() for one in (state, state.before) if one and one.checkpoint]
        held = {Path(str(state.checkpoint)).parts[1] for state in kept}
        for entry in _entries(self.tune):
            if entry not in held:
                shutil.rmtree(self.tune / entry, ignore_errors=True)


def _entries(path: Path) -> list[str]:
    """Returns the names in a folder, without lock files and the temporary files of interrupted writes."""
    names = [entry.name for entry in path.iterdir()] if path.is_dir() else []
    return [name for name in names if not name.endswith((".tmp", ".lock"))]


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns rows as lines of CSV; a missing value is empty."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, columns, lineterminator="\n")
    writer.writerows(rows)
    return lines.getvalue()


@dataclass(frozen=True)
class ListedRun:
    """A run of `envoi train`."""

    path: Path
    state: str
    env: str
    algo: str
    trials: int
    best_return: float | None
    env_steps: int
    age_seconds: float
    message: str = ""


def list_runs(folder: str | Path) -> list[ListedRun]:
    """Returns the runs in a folder and the folders below it, the last active first."""
    root = Path(folder).expanduser()
    if not root.exists():
        raise envoi.EnvoiError(f"{root} does not exist; `envoi train` makes runs in runs/, or where --out says")
    if not root.is_dir():
        raise envoi.EnvoiError(f"{root} is a file; expected a folder that holds runs")
    runs = [_listed(RunFolder(path)) for path in _run_folders(root)]
    if not runs:
        empty = "is empty" if not any(root.iterdir()) else "holds no run of envoi"
        raise envoi.EnvoiError(f"{root} {empty}; start one with `envoi train ENV --out {root / 'NAME'}`")
    return sorted(runs, key=lambda run: run.age_seconds)


def _run_folders(root: Path) -> Iterator[Path]:
    for depth in range(DEPTH + 1):
        for config in root.glob("*/" * depth + "config.yaml"):
            here = config.parent
            # Other programs write a config.yaml as well.
            if any((here / name).exists() for name in ("state.json", ".lock", "train.log")):
                yield here


def _listed(run: RunFolder) -> ListedRun:
    touched = max(path.stat().st_mtime for path in (run.config, run.progress, run.state) if path.exists())
    age = max(0.0, time.time() - touched)
    try:
        settings, rows = run.read_settings(), run.read_progress()
        # Without an ending the job was killed, unless it runs.
        state, message = ("running", "") if run.is_claimed else run.read_ending() or ("interrupted", "")
    except envoi.EnvoiError as error:
        return ListedRun(run.path, "failed", "", "", 0, None, 0, age, str(error))
    means = [float(row["return_mean"]) for row in rows if row["return_mean"] and int(row["episodes"]) >= 20]
    steps = {row["trial"]: int(row["env_steps"]) for row in rows}
    return ListedRun(
        run.path,
        state,
        settings.env,
        settings.algo,
        len(settings.trials),
        max(means, default=None),
        sum(steps.values()),
        age,
        message,
    )
