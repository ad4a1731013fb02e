"""What a user sees while a policy is trained or evaluated."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import track
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..rllib import Job, Outcome, Report, RunFolder
from ..rllib.output_redirection import redirected

PLAIN_SECONDS = 5.0
"""Without a terminal a line is written this often, and less and less often in a long job."""
_BARS = "▁▂▃▄▅▆▇█"


@contextmanager
def _terminal() -> Iterator[Console]:
    """A console on a copy of stdout's descriptor, as the descriptor itself goes to the log while training."""
    try:
        copy = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    except (OSError, ValueError):  # stdout is no file, as under a test
        yield Console(highlight=False, soft_wrap=True)
        return
    with copy:
        yield Console(file=copy, highlight=False, soft_wrap=True)


def training(job: Job) -> int:
    """Run a job and show it.

    Returns:
        The exit code.

    Raises:
        envoi.EnvoiError: As `Job.run`.
    """
    folder = job.folder
    with _terminal() as console:
        display = _Display(console, job)
        try:
            with display:
                outcome = job.run(observe=display.observe, quiet=True)
        except KeyboardInterrupt:
            held = "the last checkpoint is kept; " if folder.checkpoint.exists() else ""
            console.print(f"[bold]interrupted[/bold]; {held}{_how_to_go_on(folder)}")
            return 130
        for note in outcome.notes[len(job.notes) :]:
            _print_note(console, note)
        console.print(_conclusion(outcome))
        if outcome.interrupted:
            return 130
        return 0 if outcome.best is not None else 1


def _print_note(console: Console, note: str) -> None:
    console.print(f"[yellow]note:[/yellow] {escape(note)}")


def _how_to_go_on(folder: RunFolder) -> str:
    return f"go on with: envoi train --resume --out {escape(str(folder.path))}"


def _how_to_have_more_time(outcome: Outcome) -> str:
    settings = outcome.settings
    minutes = settings.stop_minutes or 0.0
    goals = {"--stop-return": settings.stop_return, "--stop-steps": settings.stop_steps}
    goals["--stop-minutes"] = max(5, 2 * minutes)  # one that is asked for replaces all earlier ones
    options = "".join(f" {name} {goal!r}" for name, goal in goals.items() if goal is not None)
    return (
        f"{minutes:g} min were over before the first iteration was, so nothing was learned; "
        f"{_how_to_go_on(outcome.folder)}{options}"
    )


def _conclusion(outcome: Outcome) -> str:
    """The last line: what was reached, where it lies, how to go on."""
    folder, path = outcome.folder, escape(str(outcome.folder.path))
    if outcome.best is None and outcome.interrupted:
        return f"nothing was learned yet; {_how_to_go_on(folder)}"
    if outcome.best is None:
        return f"[bold]out of time[/bold]: {_how_to_have_more_time(outcome)}"
    state = outcome.states[outcome.best]
    trial = outcome.settings.trials[outcome.best]
    which = ""
    if len(outcome.states) > 1:
        rate = f", lr {trial.lr:g}" if trial.lr is not None else ""
        which = f" by the best of {len(outcome.states)} trials (seed {trial.seed}{rate})"
    mean = "no episode ended" if state.return_mean is None else f"mean return {state.return_mean:.4g}"
    done = f"{mean} after {state.env_steps:,} env steps in {_duration(state.seconds)}{which}; saved in {path}"
    if state.reached is not None:
        verb = "reached" if state.reached.startswith("mean return") else "done with"
        return f"[bold green]{verb}[/bold green] {done}; see it with: envoi evaluate {path}"
    verb = "interrupted" if outcome.interrupted else "out of time"
    return f"[bold]{verb}[/bold] at {done}; {_how_to_go_on(folder)}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.0f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class _Display:
    """Live progress: a table on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, job: Job) -> None:
        self._console, self._folder, self._settings, self._notes = console, job.folder, job.settings, job.notes
        self._before = sum(state.env_steps for state in job.states.values())
        self._began = time.monotonic()
        self._last_line = float("-inf")
        self._reports: dict[int, Report] = {}
        self._means: dict[int, list[float]] = {}
        self._spinner = Spinner("dots")
        # Without redirection: it would bring to the terminal what `redirected` has sent to the log.
        self._live = Live(
            get_renderable=self._render,
            console=console,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> None:
        self._console.print(
            f"[bold]{self._settings.algo}[/bold] on [bold]{escape(self._settings.env)}[/bold] "
            f"until {self._settings.goal}, into {escape(str(self._folder.path))}"
            + (f", going on from {self._before:,} env steps" if self._before else "")
        )
        for note in self._notes:
            _print_note(self._console, note)
        if self._console.is_terminal:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def observe(self, report: Report) -> None:
        """Take in an iteration of a trial."""
        self._reports[report.trial.index] = report
        if report.state.return_mean is not None:
            self._means.setdefault(report.trial.index, []).append(report.state.return_mean)
        now = time.monotonic()
        pause = max(PLAIN_SECONDS, (now - self._began) / 20)
        due = now - self._last_line >= pause or report.state.reached is not None
        if due and not self._console.is_terminal:
            self._last_line = now
            self._console.print(self._line(report))

    def _line(self, report: Report) -> str:
        which = f"trial {report.trial.index}: " if len(self._settings.trials) > 1 else ""
        return (
            f"{which}return {_number(report.state.return_mean)}, best {_number(report.state.best)}, "
            f"{report.state.env_steps:,} env steps, {report.steps_per_second:,.0f}/s, "
            f"{_duration(time.monotonic() - self._began)}"
        )

    def _render(self) -> RenderableType:
        elapsed = _duration(time.monotonic() - self._began)
        if not self._reports:
            self._spinner.update(text=Text(f"starting Ray … {elapsed}"))
            return self._spinner
        table = Table(box=None, pad_edge=False, header_style="dim")
        several = len(self._settings.trials) > 1
        names = ["return", "best", "env steps", "steps/s"]
        for name in [*(["trial", "lr"] if several else []), *names]:
            table.add_column(name, justify="right")
        table.add_column("so far")
        for index, report in sorted(self._reports.items()):
            rate = "" if report.trial.lr is None else f"{report.trial.lr:g}"
            table.add_row(
                *([str(index), rate] if several else []),
                Text(_number(report.state.return_mean), style="bold"),
                _number(report.state.best),
                f"{report.state.env_steps:,}",
                f"{report.steps_per_second:,.0f}",
                Text(_sparkline(self._means.get(index, [])), style="green" if report.state.reached else "cyan"),
            )
        self._spinner.update(text=Text(f"{elapsed}   Ctrl-C saves and stops", style="dim"))
        return Group(table, self._spinner)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _sparkline(values: list[float], width: int = 32) -> str:
    """The course of a series in block characters, squeezed to `width`."""
    count = min(width, len(values))
    picked = [values[(i + 1) * len(values) // count - 1] for i in range(count)]
    low, high = min(picked, default=0.0), max(picked, default=0.0)
    scale = (len(_BARS) - 1) / ((high - low) or 1.0)
    return "".join(_BARS[round((value - low) * scale)] for value in picked)


def evaluating(
    folder: Path, *, env: str | None, episodes: int, seed: int, explore: bool, form: str, max_steps: int
) -> None:
    """Evaluate and show it.

    Args:
        folder: The output folder of a job.
        env: The name of another env than that of the job, or None.
        episodes: How many.
        seed: What their seeds are made from.
        explore: Sample the actions.
        form: "core", "gymnasium" or "both".
        max_steps: An episode longer than this is an error.

    Raises:
        envoi.EnvoiError: As `envoi.integrations.evaluation.evaluate`.
    """
    run = RunFolder(folder)
    run.read_settings()  # a wrong folder is told before anything slow is imported
    with _terminal() as console:
        with redirected(run.log):
            from ..evaluation import Episode, Form, context_labels, evaluate, evaluation_file
        forms = cast("tuple[Form, ...]", ("gymnasium", "core") if form == "both" else (form,))
        ticks = iter(
            track(
                range(episodes * len(forms)), "episodes", console=console, transient=True,
                disable=not console.is_terminal,
            )
        )  # fmt: skip
        next(ticks, None)

        def tick(_: Episode) -> None:
            next(ticks, None)

        with redirected(run.log):
            found = evaluate(
                folder,
                env=env,
                episodes=episodes,
                seed=seed,
                explore=explore,
                forms=forms,
                max_steps=max_steps,
                observe=tick,
            )
        how = "sampled" if explore else "greedy"
        console.print(
            f"{found.algo} on {escape(found.env)}, {len(found.episodes)} whole episodes, {how}, {found.form} form"
        )
        console.print(f"return [bold]{found.episode_return}[/bold]  (95 % interval, Student's t)")
        console.print(f"length {found.length}")
        contexts = found.contexts or {}
        for label, returns in zip(context_labels(contexts), contexts.values(), strict=True):
            console.print(f"    in context {escape(label)}: return {returns}")
        if found.forms_agree:
            console.print("the gymnasium and the core form gave the [bold green]same episodes[/bold green]: "
                          "returns, lengths and observations")  # fmt: skip
        console.print(f"written to {escape(str(evaluation_file(run, env)))}")
