"""Services that a job reports its progress to. Each is imported only if a job asks for it."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import envoi
from envoi.atomic_write import write_atomically

from .run_folder import RunFolder
from .settings import TRACKERS, Settings

PROJECT = "envoi"
"""The project of wandb, and the experiment of MLflow, that jobs belong to unless the environment names another."""
MOST_METRICS = 1000
"""Metrics that MLflow takes in one call."""


class Tracker(Protocol):
    """Receives the numbers of each trial."""

    def log(self, index: int, step: int, numbers: Mapping[str, float]) -> None:
        """Records numbers of a trial.

        Args:
            index: Index of the trial.
            step: Env steps of the trial.
            numbers: Finite numbers by name.
        """
        ...

    def close(self, *, failed: bool) -> None:
        """Ends the reports.

        Args:
            failed: A trial failed.
        """
        ...


def check_trackers(names: tuple[str, ...]) -> None:
    """Checks that the packages of trackers are installed, without importing them.

    Raises:
        envoi.MissingBackend: One is not.
    """
    for name in names:
        if find_spec(TRACKERS[name]) is None:
            raise envoi.MissingBackend(
                f"--track {name} needs the package {TRACKERS[name]}; pip install {TRACKERS[name]}"
            )


def open_trackers(settings: Settings, folder: RunFolder) -> Trackers:
    """Returns the trackers of a job: event files in any case, and the services that it asks for.

    Args:
        settings: The settings of the job.
        folder: Its output folder.

    Raises:
        envoi.EnvoiError: A service refuses, or its package is not installed.
    """
    check_trackers(settings.track)
    made: list[Tracker] = []
    kinds = {"wandb": _Wandb, "mlflow": _Mlflow}
    for name in dict.fromkeys(settings.track):
        if name in kinds:
            try:
                made.append(kinds[name](settings, folder))
            except Exception as error:
                raise envoi.EnvoiError(f"--track {name}: {' '.join(str(error).split())}") from error
    if find_spec(TRACKERS["tensorboard"]) is not None:
        made.append(_TensorBoard(folder))
    return Trackers(made)


class Trackers:
    """Several trackers as one, of which none can end a job: one that fails is left out and named in `failures`."""

    def __init__(self, trackers: list[Tracker]) -> None:
        self._trackers = trackers
        self.failures: list[str] = []

    def log(self, index: int, step: int, numbers: Mapping[str, float]) -> None:
        """As `Tracker.log`.

        Args:
            index: Index of the trial.
            step: Env steps of the trial.
            numbers: Finite numbers by name.
        """
        for tracker in list(self._trackers):
            try:
                tracker.log(index, step, numbers)
            except Exception as error:
                self._drop(tracker, error)

    def close(self, *, failed: bool) -> None:
        """As `Tracker.close`."""
        for tracker in list(self._trackers):
            try:
                tracker.close(failed=failed)
            except Exception as error:
                self._drop(tracker, error)

    def _drop(self, tracker: Tracker, error: Exception) -> None:
        self._trackers.remove(tracker)
        name = type(tracker).__name__.lstrip("_").lower()
        self.failures.append(f"{name} took no more reports: {' '.join(str(error).split())}")


class _TensorBoard:
    """Event files for TensorBoard in the output folder, one folder for each trial."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._writers: dict[int, Any] = {}

    def log(self, index: int, step: int, numbers: Mapping[str, float]) -> None:
        if index not in self._writers:
            writer = import_module("tensorboardX").SummaryWriter
            self._writers[index] = writer(str(self._folder.tensorboard / f"trial_{index}"))
        for name, value in numbers.items():
            self._writers[index].add_scalar(name, value, step)
        self._writers[index].flush()

    def close(self, *, failed: bool) -> None:
        del failed
        for writer in self._writers.values():
            writer.close()


class _Service:
    """A service that keeps a run for each trial; a resumed job continues its runs, whose ids the folder keeps."""

    name: str

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self._settings, self._folder = settings, folder
        self._file = folder.path / "trackers.json"
        self._runs: dict[int, Any] = {}

    def _ids(self) -> dict[str, dict[str, str]]:
        return json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}

    def _kept_id(self, index: int) -> str | None:
        return self._ids().get(self.name, {}).get(str(index))

    def _keep_id(self, index: int, run_id: str) -> None:
        ids = self._ids()
        ids.setdefault(self.name, {})[str(index)] = run_id
        write_atomically(self._file, json.dumps(ids, indent=1))

    def _config(self, index: int) -> dict[str, Any]:
        trial = self._settings.trials[index]
        whole = {name: value for name, value in self._settings.to_dict().items() if name not in ("trials", "set")}
        return whole | {"seed": trial.seed} | dict(trial.overrides)

    def _title(self, index: int) -> str:
        several = len(self._settings.trials) > 1
        return f"{self._folder.path.name}-{index}" if several else self._folder.path.name


class _Wandb(_Service):
    name = "wandb"

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        super().__init__(settings, folder)
        self._wandb = import_module("wandb")

    def log(self, index: int, step: int, numbers: Mapping[str, float]) -> None:
        if index not in self._runs:
            run_id = self._kept_id(index) or uuid.uuid4().hex[:12]
            self._keep_id(index, run_id)
            self._runs[index] = self._wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                group=self._folder.path.name,
                name=self._title(index),
                id=run_id,
                resume="allow",
                config=self._config(index),
                dir=str(self._folder.path),
                reinit="create_new",  # the trials of a sweep report at the same time
            )
        self._runs[index].log(dict(numbers), step=step)

    def close(self, *, failed: bool) -> None:
        for run in self._runs.values():
            run.finish(exit_code=int(failed))


class _Mlflow(_Service):
    name = "mlflow"

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        super().__init__(settings, folder)
        self._client = import_module("mlflow.tracking").MlflowClient()
        self._metric = import_module("mlflow.entities").Metric

    def log(self, index: int, step: int, numbers: Mapping[str, float]) -> None:
        if index not in self._runs:
            self._runs[index] = self._kept_id(index) or self._create(index)
            self._keep_id(index, self._runs[index])
        now = int(1000 * time.time())
        metrics = [self._metric(name, value, now, step) for name, value in numbers.items()]
        for first in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._runs[index], metrics=metrics[first : first + MOST_METRICS])

    def _create(self, index: int) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        run_id = self._client.create_run(experiment, run_name=self._title(index)).info.run_id
        for setting, value in self._config(index).items():
            self._client.log_param(run_id, setting, value)
        return run_id

    def close(self, *, failed: bool) -> None:
        for run_id in self._runs.values():
            self._client.set_terminated(run_id, "FAILED" if failed else "FINISHED")
