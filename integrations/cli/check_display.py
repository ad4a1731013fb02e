"""Runs an environment check with live progress, and prints its report, for `envoi check`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import envoi

from ..check.badge import badge_format
from ..check.outcome import LEGEND, LISTED, MARKS, Status
from ..check.report import Report
from ..check.requirement import Result
from ..check.run_checks import check_env
from ..errors import one_line
from .console import Spinning, output_console

PATIENCE = 2.0
"""Seconds before progress is shown."""
PLAIN_SECONDS = 5.0
"""Seconds between two lines of progress without a terminal."""

WIDE = 100
"""Columns of a terminal in which the table has its words."""
NARROW_MARKS = {"refused": "-", "narrowed": "~", "not installed": "?"}
NARROW_LEGEND = "- refused   ~ narrowed   ? not installed"

_STYLES = {
    "passed": "green",
    "failed": "bold red",
    "remark": "yellow",
    "refused": "dim",
    "narrowed": "yellow",
    "not installed": "dim",
    "skipped": "dim",
}


class ReportFiles(NamedTuple):
    """The files that a report is written to; None for no file.

    Attributes:
        json: File for the report as JSON.
        html: File for the report as a page.
        junit: File for the report as JUnit XML.
        badge: File for the badge, `.svg` or `.json`.
    """

    json: Path | None = None
    html: Path | None = None
    junit: Path | None = None
    badge: Path | None = None

    def refuse_unwritable(self) -> None:
        """Raises an error before the check if a report could not be written after it."""
        for path in self:
            if path is None:
                continue
            if path.is_dir():
                raise envoi.EnvoiError(f"{path} is a folder; give the name of a file")
            if not path.absolute().parent.is_dir():
                raise envoi.EnvoiError(f"{path}: there is no folder {path.parent}")
        if self.badge is not None:
            badge_format(self.badge)

    def write(self, report: Report) -> Iterator[Path]:
        """Writes the files of a report, and yields each path after its file is written."""
        writers = (report.write_json, report.write_html, report.write_junit, report.write_badge)
        for path, write in zip(self, writers, strict=True):
            if path is not None:
                write(path)
                yield path


def run_check(
    env: str,
    files: ReportFiles,
    *,
    frameworks: Sequence[str] | None,
    seed: int,
    episodes: int,
    steps: int,
) -> int:
    """Checks an environment, and prints and writes the report.

    Args:
        env: Name of the environment.
        files: The files for the report.
        frameworks: The frameworks whose forms are checked; None for all that are installed.
        seed: The checks use the seeds after this one.
        episodes: Episodes of each rollout.
        steps: Most steps of an episode.

    Returns:
        The exit code.

    Raises:
        envoi.EnvoiError: There is no such environment or framework, or a file cannot be written.
    """
    files.refuse_unwritable()
    settings: dict[str, Any] = {"frameworks": frameworks, "seed": seed, "episodes": episodes, "steps": steps}
    try:
        with one_line(), _Progress() as progress:
            report = check_env(env, **settings, progress=progress.show)
    except KeyboardInterrupt:
        sys.stderr.write("envoi: interrupted\n")
        return 130
    console = output_console()
    print_report(report, console)
    for path in files.write(report):
        console.print(f"written to {escape(str(path))}", style="dim", soft_wrap=True)
    console.print(Text(report.conclusion, style="bold green" if report.passed else "bold red"), soft_wrap=True)
    return 0 if report.passed else 1


def print_report(report: Report, console: Console) -> None:
    """Prints the table of a report, then a line for each result with a reason.

    Args:
        report: The report.
        console: The console to print to.
    """
    forms = " and in its forms" if len(report.columns) > 1 else ""
    console.print(Text(f"{report.env}, played by its own API ({report.api}){forms}", style="bold"))
    narrow = console.width < WIDE
    table = _table(report, narrow=narrow)
    if console.measure(table, options=console.options.update_width(WIDE)).maximum > console.width:
        table, narrow = _list(report), False
    console.print(table)
    console.print(LEGEND, style="dim")
    if narrow:
        console.print(NARROW_LEGEND, style="dim")
    for status in LISTED:
        for result in report.having(status):
            console.print(_line(result), soft_wrap=True)
    for command in dict.fromkeys(report.command(failure.subject) for failure in report.failures):
        console.print(Text(f"again  {command}", style="dim"), soft_wrap=True)


def _table(report: Report, *, narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for column in report.columns:
        # On several lines, so that all of them fit into 100 columns, or into 80.
        head = column.replace("gymnasium_", "gymnasium\n").replace("zoo_", "zoo\n")
        if narrow:
            head = head.replace("gymnasium", "gym-\nnasium").replace("petting", "petting\n").replace("_", "\n")
        table.add_column(Text(head), justify="left", no_wrap=True)
    marks: Mapping[str, str] = {**MARKS, **NARROW_MARKS} if narrow else {**MARKS}
    for key, found in report.rows():
        table.add_row(Text(key), *(_mark(result, marks) for result in found))
    return table


def _list(report: Report) -> Table:
    """Returns a line for each requirement: its mark, or each of its marks with the subjects that have it."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for key, found in report.rows():
        subjects: dict[Status, list[str]] = {}
        for result in found:
            if result is not None:
                subjects.setdefault(result.status, []).append(result.subject)
        line = Text()
        for status, names in subjects.items():
            line.append(f"{', ' if line else ''}{MARKS[status]}", style=_STYLES[status])
            line.append(f" {' '.join(names)}" if len(subjects) > 1 else "")
        table.add_row(Text(key), line)
    return table


def _mark(result: Result | None, marks: Mapping[str, str]) -> Text:
    return Text() if result is None else Text(marks[result.status], style=_STYLES[result.status])


def _line(result: Result) -> Text:
    text = Text(f"{result.status}  ", style=_STYLES[result.status])
    return text.append(str(result), style="" if result.status in ("failed", "remark") else "dim")


class _Progress:
    """Shows the running check on stderr: as a status on a terminal, as a line every few seconds elsewhere."""

    def __init__(self) -> None:
        # The stderr of this moment: while a check runs, `sys.stderr` is redirected.
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._began = self._last = time.monotonic()
        self._done = 0
        self._spinning = Spinning(self._console)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._spinning.stop()

    def show(self, subject: str, key: str) -> None:
        """Shows the check that comes next.

        Args:
            subject: "env", or the name of a framework.
            key: Key of the requirement.
        """
        self._done += 1
        now = time.monotonic()
        if now - self._began < PATIENCE:
            return
        line = f"checking {subject}: {key} ({self._done} checks, {now - self._began:.0f} s)"
        if self._console.is_terminal:
            self._spinning.show(line)
        elif self._last == self._began or now - self._last >= PLAIN_SECONDS:
            self._last = now
            self._console.print(escape(line))
