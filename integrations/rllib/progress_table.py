"""The table `progress.csv` of a run, which grows by whole lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envoi.atomic_write import write_atomically

from .damaged_files import reading, writing
from .trial_state import TrialState

COLUMNS = (
    "trial",
    "lr",
    "seed",
    "iteration",
    "env_steps",
    "seconds",
    "episodes",
    "return_mean",
    "return_std",
    "return_min",
    "return_p10",
    "return_p50",
    "return_p90",
    "return_max",
    "length_mean",
    "steps_per_second",
)
"""Columns of every `progress.csv`; the returns are those of the last 100 episodes, `seconds` is training time.

A job adds columns of its own after these: losses, returns of evaluations, what a sweep has sampled; with several agents
the mean return of each policy and each agent, such as `policy/shared/return_mean`. In self-play the returns are those
of the learning policy against frozen ones, and two more columns have its rating (`elo`) and the number of `members`
of the league.
"""


class ProgressTable:
    """A row for each trial and iteration, with columns that are added as they come up.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends a row, in one write, so that a kill leaves whole lines.

        A column that the file lacks is added to it, empty in the rows above.
        """
        columns = self._columns()
        missing = [name for name in (*COLUMNS, *row) if name not in columns]
        if missing:
            columns = [*columns, *dict.fromkeys(missing)]
            with writing(self.path):
                self._write(columns, self.read())
        with writing(self.path), self.path.open("ab", buffering=0) as file:
            file.write(_csv(columns, [row]).encode())

    def rewind(self, states: Mapping[int, TrialState]) -> None:
        """Removes the rows after each trial's checkpoint, where a resumed job continues.

        Raises:
            envoi.EnvoiError: The file is damaged.
        """
        written, kept, count = self.read(), list[Mapping[str, str]](), dict[int, int]()
        with reading(self.path):
            for row in written:
                trial = int(row["trial"])
                count[trial] = count.get(trial, 0) + 1
                state = states[trial]
                past = int(row["iteration"]) > state.iteration if state.rows is None else count[trial] > state.rows
                if not past:
                    kept.append(row)
        self._write(self._columns() or list(COLUMNS), kept)

    def _columns(self) -> list[str]:
        if not self.path.exists():
            return []
        with reading(self.path), self.path.open(newline="", encoding="utf-8") as file:
            return next(csv.reader(file), [])

    def _write(self, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        write_atomically(self.path, _csv(columns, [dict(zip(columns, columns, strict=True)), *rows]))

    def read(self) -> list[dict[str, str]]:
        """Reads the rows as text, empty where a row has no value; a row that was cut off is left out.

        Raises:
            envoi.EnvoiError: The file is damaged in another way.
        """
        if not self.path.exists():
            return []
        with reading(self.path), self.path.open(newline="", encoding="utf-8") as file:
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        rows: Iterable[dict[str, str]] = csv.DictReader(whole.splitlines())
        return [row for row in rows if None not in row.values() and all(name in row for name in COLUMNS)]


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns rows as lines of CSV, without a value where a row has none."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerows([[row.get(name) for name in columns] for row in rows])
    return lines.getvalue()
