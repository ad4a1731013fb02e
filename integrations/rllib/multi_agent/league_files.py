"""The files of a league in the output folder of a job: `league.json`, `league.csv` and `league.png`.

league.json  by trial: its versions with their ratings, and the games and points of each pair of versions
league.csv   the same versions, a row each
league.png   the best trial: how often each version beats each other one, and the ratings
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envoi.atomic_write import write_atomically

from .league import League

COLUMNS = ("trial", "version", "name", "env_steps", "elo", "games", "score", "slots")


class LeagueFiles:
    """Writes the leagues of the trials of a job.

    Args:
        folder: The output folder.
    """

    def __init__(self, folder: Path) -> None:
        self.json, self.csv, self.picture = (folder / f"league.{kind}" for kind in ("json", "csv", "png"))
        self._held: dict[str, Any] | None = None

    def read(self) -> dict[str, Any]:
        """Returns the leagues by trial, as `League.describe` gives them; empty if there are none."""
        return json.loads(self.json.read_text(encoding="utf-8"))["trials"] if self.json.exists() else {}

    def write(self, trial: int, league: League) -> float:
        """Replaces the files by those with a trial's league as it is now.

        Args:
            trial: The index of the trial.
            league: Its league.

        Returns:
            The rating of its learning policy.
        """
        held = self._held = self.read() if self._held is None else self._held
        held[str(trial)] = league.describe()
        write_atomically(self.json, json.dumps({"format": 1, "trials": held}, indent=1))
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(COLUMNS)
        for index, described in sorted(held.items(), key=lambda item: int(item[0])):
            for version in described["versions"]:
                row = {**version, "trial": index, "slots": " ".join(map(str, version["slots"]))}
                writer.writerow(["" if row[name] is None else row[name] for name in COLUMNS])
        write_atomically(self.csv, lines.getvalue())
        return float(held[str(trial)]["versions"][-1]["elo"])

    def plot(self, trial: int, title: str) -> None:
        """Plots the league of a trial, if it has one; needs matplotlib.

        Args:
            trial: The index of the trial.
            title: The title, such as "PPO on envoi:nim".
        """
        described: Mapping[str, Any] | None = self.read().get(str(trial))
        if described is not None:
            from .league_picture import plot_league

            plot_league(described, self.picture, title)
