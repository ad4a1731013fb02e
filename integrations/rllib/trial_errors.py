"""The errors of Tune's trials, as one line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ray import cloudpickle, tune

from .damaged_files import reading

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


def error_of(trial: Trial) -> BaseException | None:
    """Returns the error of a trial, which Tune copies to the storage only later."""
    path = Path(trial.pickled_error_file or "")
    if not path.is_file():
        return trial.get_pickled_error() or trial.get_error()
    with reading(path), path.open("rb") as file:
        return cloudpickle.load(file)


def root_cause(error: BaseException | None) -> str:
    """Returns the root cause of an error that came through Ray, as one line."""
    if error is None:
        return "Ray gave no reason"
    while error is not None:
        inner = getattr(error, "cause", None) or error.__cause__
        if inner is None or inner is error:
            break
        error = inner
    # Where the error itself could not be sent, Tune gives the text of its traceback.
    text = str(error).partition("During handling of the above exception")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "no message"
    return last if isinstance(error, tune.TuneError) else f"{type(error).__name__}: {last}"
