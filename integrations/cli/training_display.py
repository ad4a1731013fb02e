"""Runs a training job with live progress, and prints its result."""

from __future__ import annotations

import time

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.text import Text

from ..rllib import Job, Outcome, Report, RunFolder
from .console import terminal_console

PLAIN_SECONDS = 5.0
"""Fewest seconds between two lines of progress without a terminal; a long job prints fewer."""


def run_training(job: Job) -> int:
    """Runs a job with live progress, and prints its result."""
    folder = job.folder
    with terminal_console() as console:
        display = _Display(console, job)
        try:
            with display:
                outcome = job.run(observe=display.observe, quiet=True)
        except KeyboardInterrupt:
            held = "the last checkpoint is kept; " if folder.checkpoint.exists() else ""
            console.print(f"[bold]interrupted[/bold]; {held}{_resume_hint(folder)}")
            return 130
        for note in outcome.notes[len(job.notes) :]:
            _print_note(console, note)
        console.print(_conclusion(outcome))
        if outcome.interrupted:
            return 130
        return 0 if outcome.best is not None and outcome.learned else 1


def _print_note(console: Console, note: str) -> None:
    console.print(f"[yellow]note:[/yellow] {escape(note)}")


def _resume_hint(folder: RunFolder) -> str:
    return f"continue with: envoi train --resume --out {escape(str(folder.path))}"


def _more_time_hint(outcome: Outcome) -> str:
    settings = outcome.settings
    minutes = settings.stop_minutes or 0.0
    goals = {"--stop-return": settings.stop_return, "--stop-steps": settings.stop_steps}
    goals["--stop-minutes"] = max(5, 2 * minutes)  # a stop that is given replaces all earlier ones
    options = "".join(f" {name} {goal!r}" for name, goal in goals.items() if goal is not None)
    return (
        f"{minutes:g} min passed before the first iteration ended, so nothing was learned; "
        f"{_resume_hint(outcome.folder)}{options}"
    )


def _conclusion(outcome: Outcome) -> str:
    """Returns the last line: the result, the output folder, and how to continue."""
    folder, path = outcome.folder, escape(str(outcome.folder.path))
    if outcome.best is None and outcome.interrupted:
        return f"nothing was learned yet; {_resume_hint(folder)}"
    if outcome.best is None:
        return f"[bold]out of time[/bold]: {_more_time_hint(outcome)}"
    state = outcome.states[outcome.best]
    if not outcome.learned and not outcome.interrupted:
        return (
            f"[bold]nothing was learned[/bold]: {state.env_steps:,} env steps, and no update of a policy; "
            f"{_resume_hint(folder)} --stop-steps {max(10 * state.env_steps, 10_000)}"
        )
    trial = outcome.settings.trials[outcome.best]
    which = ""
    if len(outcome.states) > 1:
        lr = (state.overrides or trial.overrides).get("lr")
        rate = f", lr {lr:g}" if isinstance(lr, float) else ""
        which = f" by the best of {len(outcome.states)} trials (seed {trial.seed}{rate})"
    mean = "no episode ended" if state.return_mean is None else f"mean return {state.return_mean:.4g}"
    done = f"{mean} after {state.env_steps:,} env steps in {_duration(state.seconds)}{which}; saved in {path}"
    if state.reached is not None:
        verb = "reached" if state.reached.startswith("mean return") else "done with"
        return f"[bold green]{verb}[/bold green] {done}; see it with: envoi evaluate {path}"
    verb = "interrupted" if outcome.interrupted else "out of time"
    return f"[bold]{verb}[/bold] at {done}; {_resume_hint(folder)}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.0f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class _Display:
    """Shows the last progress: in one line that changes on a terminal, in a line every few seconds elsewhere."""

    def __init__(self, console: Console, job: Job) -> None:
        self._console, self._folder, self._settings, self._notes = console, job.folder, job.settings, job.notes
        self._before = sum(state.env_steps for state in job.states.values())
        self._began = time.monotonic()
        self._last_line = float("-inf")
        self._text = "starting Ray …"
        self._spinner = Spinner("dots")
        # Without redirection: rich would print to the terminal the output that `redirected` has sent to the log.
        self._live = Live(get_renderable=self._render, console=console, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> None:
        self._console.print(
            f"[bold]{self._settings.algo}[/bold] on [bold]{escape(self._settings.env)}[/bold] "
            f"until {self._settings.goal}, into {escape(str(self._folder.path))}"
            + (f", continuing from {self._before:,} env steps" if self._before else "")
        )
        for note in self._notes:
            _print_note(self._console, note)
        if self._console.is_terminal:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def observe(self, report: Report) -> None:
        """Shows an iteration of a trial; without a terminal only if a line of progress is due."""
        which = f"trial {report.trial.index}: " if len(self._settings.trials) > 1 else ""
        self._text = (
            f"{which}return {_number(report.state.return_mean)}, best {_number(report.state.best)}, "
            f"{report.state.env_steps:,} env steps, {report.steps_per_second:,.0f}/s"
        )
        now = time.monotonic()
        pause = max(PLAIN_SECONDS, (now - self._began) / 20)
        due = now - self._last_line >= pause or report.state.reached is not None
        if due and not self._console.is_terminal:
            self._last_line = now
            self._console.print(f"{self._text}, {_duration(now - self._began)}")

    def _render(self) -> RenderableType:
        elapsed = _duration(time.monotonic() - self._began)
        self._spinner.update(text=Text(f"{self._text} {elapsed}   Ctrl-C saves and stops"))
        return self._spinner


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
