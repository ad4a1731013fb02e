"""The command `envoi check`: runs an environment check with live progress, and prints its report."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import envoi

from ..app import command
from ..console import PATIENCE, Spinning, output_console
from ..option_types import Debug, EnvName, framework_names, whole

if TYPE_CHECKING:
    from ...check.report import Report

PLAIN_SECONDS = 5.0
"""Seconds between two lines of progress without a terminal."""

_STYLES = {
    "passed": "green",
    "failed": "bold red",
    "remark": "yellow",
    "narrowed": "yellow",
    **dict.fromkeys(("refused", "not installed", "skipped"), "dim"),
}

_file: Any = partial(typer.Option, metavar="FILE", show_default=False)


@command("check")
def _check(
    env: EnvName,
    frameworks: Annotated[
        str | None,
        typer.Option(
            help="The frameworks whose forms to check, such as gymnasium,dm_env; none for the env alone.",
            show_default="all that are installed",
            metavar="NAME[,NAME…]",
            autocompletion=framework_names,
        ),
    ] = None,
    seed: Annotated[int, whole("The checks use the seeds after this one.")] = 0,
    episodes: Annotated[int, whole("Episodes of each rollout.")] = 3,
    steps: Annotated[int, whole("Most steps of an episode.")] = 1000,
    json: Annotated[Path | None, _file(help="Write the report as JSON too.")] = None,
    html: Annotated[Path | None, _file(help="Write the report as a page too.")] = None,
    junit: Annotated[Path | None, _file(help="Write the report as JUnit XML too.")] = None,
    debug: Debug = False,
) -> None:
    """Check an env: its values, seeds and episodes, its form in each framework, and the frameworks' own suites.

    The exit code is 1 if a check failed. In a test of your own, call `check_env` of `envoi.integrations.check`.
    """
    del debug
    from ...check import check_env
    from ...errors import one_line

    for path in filter(None, (json, html, junit)):
        if path.is_dir():
            raise envoi.EnvoiError(f"{path} is a folder; give the name of a file")
        if not path.absolute().parent.is_dir():
            raise envoi.EnvoiError(f"{path}: there is no folder {path.parent}")
    chosen = None if frameworks is None else [name.strip() for name in frameworks.split(",") if name.strip()]
    chosen = [] if chosen == ["none"] else chosen
    progress = _Progress()
    try:
        with one_line():
            report = check_env(
                env, frameworks=chosen, seed=seed, episodes=episodes, steps=steps, progress=progress.show
            )
    except KeyboardInterrupt:  # of which typer makes an exit without a word
        sys.stderr.write("envoi: interrupted\n")
        raise typer.Exit(130) from None
    finally:
        progress.spinning.stop()
    console = output_console()
    print_report(report, console)
    for path, write in ((json, report.write_json), (html, report.write_html), (junit, report.write_junit)):
        if path is not None:
            write(path)
            console.print(f"written to {escape(str(path))}", style="dim", soft_wrap=True)
    console.print(Text(report.conclusion, style="bold green" if report.passed else "bold red"), soft_wrap=True)
    raise typer.Exit(0 if report.passed else 1)


def print_report(report: Report, console: Console) -> None:
    """Prints the table of a report, then a line for each result with a reason."""
    from ...check.requirement import LEGEND, LISTED

    forms = " and in its forms" if len(report.columns) > 1 else ""
    console.print(Text(f"{report.env}, played by its own API ({report.api}){forms}", style="bold"))
    table = _table(report)
    console.print(
        table
        if console.measure(table, options=console.options.update_width(1000)).maximum <= console.width
        else _list(report)
    )
    console.print(LEGEND, style="dim")
    for status in LISTED:
        for result in report.having(status):
            line = Text(f"{status}  ", style=_STYLES[status])
            line.append(str(result), style="" if status in ("failed", "remark") else "dim")
            console.print(line, soft_wrap=True)
    for again in dict.fromkeys(report.command(failure.subject) for failure in report.failures):
        console.print(Text(f"again  {again}", style="dim"), soft_wrap=True)


def _table(report: Report) -> Table:
    from ...check.requirement import MARKS

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for column in ("", *report.columns):
        # On two lines, so that all of them are less wide.
        table.add_column(Text(column.replace("gymnasium_", "gymnasium\n").replace("zoo_", "zoo\n")), no_wrap=True)
    for key, found in report.rows():
        cells = (Text() if one is None else Text(MARKS[one.status], style=_STYLES[one.status]) for one in found)
        table.add_row(Text(key), *cells)
    return table


def _list(report: Report) -> Table:
    """Returns a line for each requirement: its mark, or each of its marks with the subjects that have it."""
    from ...check.requirement import MARKS

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for key, found in report.rows():
        subjects: dict[Any, list[str]] = {}
        for result in found:
            if result is not None:
                subjects.setdefault(result.status, []).append(result.subject)
        line = Text()
        for status, names in subjects.items():
            line.append(f"{', ' if line else ''}{MARKS[status]}", style=_STYLES[status])
            line.append(f" {' '.join(names)}" if len(subjects) > 1 else "")
        table.add_row(Text(key), line)
    return table


class _Progress:
    """Shows the running check on stderr: as a status on a terminal, as a line every few seconds elsewhere."""

    def __init__(self) -> None:
        # The stderr of this moment: while a check runs, `sys.stderr` is redirected.
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._began = self._last = time.monotonic()
        self._done = 0
        self.spinning = Spinning(self._console)

    def show(self, subject: str, key: str) -> None:
        """Shows the check that comes next."""
        self._done += 1
        now = time.monotonic()
        if now - self._began < PATIENCE:
            return
        line = f"checking {subject}: {key} ({self._done} checks, {now - self._began:.0f} s)"
        if self._console.is_terminal:
            self.spinning.show(line)
        elif self._last == self._began or now - self._last >= PLAIN_SECONDS:
            self._last = now
            self._console.print(escape(line))
