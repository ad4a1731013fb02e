"""The file that an evaluation is written to."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from envoi.atomic_write import write_atomically

from ..rllib import RunFolder, Settings
from ..rllib.trial_state import best_trial
from .results import Evaluation


def trained_on(run: RunFolder, settings: Settings) -> str:
    """Returns the name of the env that the best trial was trained on, with the arguments that a sweep gave it.

    Args:
        run: The output folder of the job.
        settings: Settings of the job.
    """
    best = best_trial(run.read_state(settings)) or 0
    return settings.env_of(settings.trials[best].overrides)


def evaluation_file(run: RunFolder, env: str | None) -> Path:
    """Returns the path of the file that an evaluation is written to.

    Args:
        run: The output folder of the job.
        env: Name of the evaluated env; None for the one that the policy was trained on. Each other env has a file of
            its own.
    """
    if env is None or env == trained_on(run, run.read_settings()):
        return run.evaluation
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in env)
    return run.evaluation.with_name(f"{run.evaluation.stem}-{name}{run.evaluation.suffix}")


def write_evaluation(run: RunFolder, evaluation: Evaluation) -> None:
    """Writes an evaluation to its file, in which contexts are named as by `context_labels`.

    Args:
        run: The output folder of the job.
        evaluation: The evaluation.
    """
    document = asdict(evaluation) | {"interval": "95 %, Student's t with n - 1 degrees of freedom"}
    if evaluation.contexts is not None:
        estimates = map(asdict, evaluation.contexts.values())
        document["contexts"] = dict(zip(context_labels(evaluation.contexts), estimates, strict=True))
    write_atomically(evaluation_file(run, evaluation.env), json.dumps(document, indent=1, default=_plain))


def context_labels(ids: Iterable[Any]) -> list[str]:
    """Returns a label for each context id, all different: `str(id)`, or `repr(id)` where two ids share that.

    Args:
        ids: The ids, such as 1 and "1", which become `1` and `'1'`.
    """
    known = list(ids)
    texts = Counter(map(str, known))
    labels: list[str] = []
    for one in known:
        label = written = str(one) if texts[str(one)] == 1 else repr(one)
        number = itertools.count(2)
        while label in labels:  # objects of equal repr
            label = f"{written} ({next(number)})"
        labels.append(label)
    return labels


def _plain(value: Any) -> Any:
    """Converts a value that JSON cannot hold, such as a context id: numpy numbers to numbers, all else to text."""
    return value.item() if isinstance(value, np.generic) else str(value)
