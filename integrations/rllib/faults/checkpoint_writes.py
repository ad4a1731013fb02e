"""Names the file of a checkpoint that cannot be written, as on a full disk; RLlib and pyarrow name none."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ..damaged_files import writing

ADVICE = "make room, then continue from the last checkpoint"


def name_unwritable(algorithm: Any) -> None:
    """Makes the checkpoints of an algorithm, and Ray Tune's copies of them, name the file that cannot be written.

    Args:
        algorithm: The algorithm, whose `save_to_path`, which every checkpoint is written by, is wrapped.
    """
    algorithm.save_to_path = partial(_save, algorithm.save_to_path)
    copy = algorithm._report_class_trainable_checkpoint
    algorithm._report_class_trainable_checkpoint = partial(_copy, algorithm._storage, copy)


def _save(save: Any, path: Any = None, **options: Any) -> str:
    with writing(Path(str(path or "the checkpoint")), ADVICE):
        return save(path, **options)


def _copy(storage: Any, copy: Any, *arguments: Any) -> Any:
    """Copies a checkpoint from a temporary folder to the storage of a trial, which only algorithms in Tune have."""
    if storage is None:
        return copy(*arguments)
    with writing(Path(storage.trial_fs_path), ADVICE):
        return copy(*arguments)
