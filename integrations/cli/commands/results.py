"""The commands `envoi runs`, `evaluate` and `report`: the runs in a folder, and how well their policies do."""

from __future__ import annotations

import json as json_module
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table
from rich.text import Text

import envoi
from envoi.context import ContextRanges, read_contexts

from ...env_contexts import confirm_many
from ...evaluation import Evaluation, context_labels, evaluate, evaluate_run, evaluation_file, report
from ...rllib import RunFolder
from ...rllib.job_process import redirected
from ...rllib.run_folder import ListedRun, list_runs
from ..app import Json, command, env_names, flag, output_console, print_json, terminal_console, text, whole


@command("evaluate")
def _evaluate(
    folder: Annotated[
        Path, typer.Argument(help="The output folder of envoi train.", metavar="RUN", show_default=False)
    ],
    env: Annotated[
        str | None,
        typer.Option(
            help="Another env of the same observations and actions; its file is evaluation-ENV.json.",
            metavar="ENV",
            show_default="the run's",
            autocompletion=env_names,
        ),
    ] = None,
    contexts: Annotated[
        str | None,
        text(
            "Test contexts: a file, or length=0.3..0.7 (100 samples), length=0.3..0.7:8 (a grid), "
            "length=0.3,0.5 (values), several features joined by ;",
            metavar="FILE|SPEC",
            show_default="the env's",
        ),
    ] = None,
    episodes: Annotated[
        int | None, whole("Number of whole episodes; with --contexts in each.", show_default="20, or 5 in each")
    ] = None,
    out: Annotated[
        Path | None,
        text("With --contexts: the folder of the result.", metavar="DIR", show_default="RUN"),
    ] = None,
    workers: Annotated[int | None, whole("With --contexts: processes that play.", show_default="this one")] = None,
    yes: Annotated[bool, flag("--yes", "Play more than 100,000 contexts.")] = False,
    seed: Annotated[int, whole("The same seed gives the same episodes.")] = 0,
    explore: Annotated[
        bool, flag("--explore", "Sample the actions as in training, rather than take the best.")
    ] = False,
    form: Annotated[
        Literal["core", "gymnasium", "both"],
        typer.Option(help="The form of the env to run; both also checks that they agree."),
    ] = "core",
    max_steps: Annotated[int, whole("An episode longer than this is an error.")] = 100_000,
    json: Json = False,
) -> None:
    """Run a trained policy: print its return with a 95 % interval, and write evaluation.json.

    With --env ENV the file is evaluation-ENV.json, with a dash for each character that a file name cannot have.

    Episodes take the training contexts in turn, if there is a set of them.

    With --contexts, each context gets the same number of episodes. Their rows are written as evaluation.csv and
    evaluation.parquet, for envoi report.
    """
    run = RunFolder(folder)
    run.read_settings()  # a wrong folder is an error before the slow imports
    run.refuse_without_checkpoint()
    asked: dict[str, Any] = {"env": env, "seed": seed, "explore": explore, "max_steps": max_steps}
    if contexts is None:
        given = {"--out": out, "--workers": workers, "--yes": yes or None}
        for name in (name for name, value in given.items() if value is not None):
            raise envoi.EnvoiError(f"{name} is for --contexts; give both")
        _evaluate_run(run, form, json, asked | {"episodes": 20 if episodes is None else episodes})
        return
    if form != "core":
        raise envoi.EnvoiError("--form: with --contexts episodes are played in the core form; leave it out")
    asked |= {"workers": workers, "episodes": 5 if episodes is None else episodes}
    _evaluate_contexts(run, contexts, folder if out is None else out, yes, json, asked)


def _episode_counter(many: int, console: Console) -> Callable[[Any], Any]:
    """Returns a function that advances a progress bar of episodes on a terminal by one at each call."""
    ticks = iter(track(range(many), "episodes", console=console, transient=True, disable=not console.is_terminal))
    next(ticks, None)
    return lambda _: next(ticks, None)


def _evaluate_contexts(run: RunFolder, given: str, out: Path, yes: bool, json: bool, asked: dict[str, Any]) -> None:
    contexts = read_contexts(given)
    confirm_many("--contexts", contexts, yes)
    with terminal_console() as console, redirected(run.log):
        cells = contexts.cells if isinstance(contexts, ContextRanges) else len(contexts)
        many = asked["episodes"] * max(cells, 100 if isinstance(contexts, ContextRanges) and contexts.ranges else 0)
        # A text is read again where the env's features are known, so that integers stay integers.
        wanted = given if isinstance(contexts, ContextRanges) else contexts
        with warnings.catch_warnings(record=True, action="always") as caught:
            rows = evaluate(run.path, **asked, contexts=wanted, out=out, observe=_episode_counter(many, console))
        if json:
            console.print_json(data=rows, default=str)
            return
        _print_warnings(caught, console)
        by_region: dict[str, dict[Any, list[float]]] = {}
        for row in rows:
            by_region.setdefault(row["region"] or "all", {}).setdefault(row["context_id"], []).append(row["return"])
        for region, returns in by_region.items():
            means = {key: sum(found) / len(found) for key, found in returns.items()}
            worst = min(means, key=lambda key: means[key])
            console.print(
                f"{region}: {len(means)} contexts, mean return [bold]{sum(means.values()) / len(means):.2f}[/bold], "
                f"least {means[worst]:.2f} in {escape(str(worst))}"
            )
        console.print(f"written to {escape(str(out))}; see them with: envoi report {escape(str(out))}")


def _print_warnings(caught: Iterable[warnings.WarningMessage], console: Console) -> None:
    """Prints warnings of envoi and of users' code once each, without those about a framework or its version."""
    kinds = (UserWarning, RuntimeWarning)
    shown = [one for one in caught if one.category in kinds or one.category.__module__.startswith("envoi.")]
    for note in dict.fromkeys(str(one.message) for one in shown):
        console.print(f"[yellow]note:[/yellow] {escape(note)}")


def _evaluate_run(run: RunFolder, form: str, json: bool, asked: dict[str, Any]) -> None:
    with terminal_console() as console:
        with redirected(run.log):
            forms: Any = ("gymnasium", "core") if form == "both" else (form,)
            counter = _episode_counter(asked["episodes"] * len(forms), console)
            evaluation = evaluate_run(run.path, **asked, forms=forms, observe=counter)
        file = evaluation_file(run, asked["env"])
        if json:
            print_json(json_module.loads(file.read_text(encoding="utf-8")))
            return
        _print_evaluation(evaluation, console)
        console.print(f"written to {escape(str(file))}")


def _print_evaluation(evaluation: Evaluation, console: Console) -> None:
    how = "sampled" if evaluation.explore else "greedy"
    console.print(
        f"{evaluation.algo} on {escape(evaluation.env)}, {len(evaluation.episodes)} whole episodes, {how}, "
        f"{evaluation.form} form"
    )
    console.print(f"return [bold]{evaluation.episode_return}[/bold]  (95 % interval, Student's t)")
    console.print(f"length {evaluation.length}")
    for what, estimates in (("policy", evaluation.policies), ("agent", evaluation.agents)):
        for name, returns in (estimates or {}).items():
            console.print(f"    {what} {escape(name)}: return {returns}")
    for match in evaluation.matches or ():
        console.print(
            f"    against {match.opponent}: {match.wins} won, {match.ties} tied, {match.losses} lost "
            f"({match.points:.0%} of the points)"
        )
    contexts = evaluation.contexts or {}
    for label, returns in zip(context_labels(contexts), contexts.values(), strict=True):
        console.print(f"    in context {escape(label)}: return {returns}")
    if evaluation.forms_agree:
        same = "[bold green]same episodes[/bold green]: returns, lengths and observations"
        console.print(f"the gymnasium and the core form gave the {same}")


_STYLES = {"running": "cyan", "done": "green", "interrupted": "yellow", "failed": "red"}


@command("runs")
def _runs(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the runs.", metavar="FOLDER")] = Path("runs"),
    json: Json = False,
) -> None:
    """List the runs in a folder: state, best return, env steps, and time since they last wrote.

    A run is running, done, interrupted (by Ctrl-C or a kill, so --resume continues it) or failed.
    """
    runs = list_runs(folder)
    if json:
        print_json([vars(run) | {"path": str(run.path), "age_seconds": round(run.age_seconds, 1)} for run in runs])
        return
    console = output_console()
    console.print(_table(runs, console.width))
    for run in runs:
        if run.message:
            console.print(Text(f"{run.path!s}: {run.message}", style="dim"), soft_wrap=True)


def _table(runs: list[ListedRun], width: int) -> Table:
    """Returns the table of runs. Leaves out the least important columns in a narrow terminal."""
    narrow = width < 96
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", overflow="fold")
    table.add_column("state", no_wrap=True)
    for name in ("best return", "steps", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("trials", justify="right")
        table.add_column("algo")
        table.add_column("env", overflow="fold")
    for run in runs:
        best = "-" if run.best_return is None else f"{run.best_return:.4g}"
        cells = [Text(str(run.path)), Text(run.state, style=_STYLES[run.state]), best]
        cells += [_scaled(run.env_steps, _COUNTS, ".3g"), _scaled(run.age_seconds, _AGES, ".0f")]
        table.add_row(*cells, *([] if narrow else [str(run.trials), run.algo, Text(run.env)]))
    return table


_COUNTS = {"G": 1_000_000_000, "M": 1_000_000, "k": 1_000, "": 1}
_AGES = {" d": 86_400, " h": 3_600, " min": 60, " s": 1}


def _scaled(number: float, units: dict[str, int], form: str) -> str:
    """Formats a number in the largest unit that is not larger than it."""
    unit = next((unit for unit, size in units.items() if number >= size), [*units][-1])
    return f"{number / units[unit]:{form}}{unit}"


@command("report")
def _report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="evaluation.csv, evaluation.parquet, or a folder that has one, such as a run's.",
            metavar="PATH...",
            show_default=False,
        ),
    ],
    out: Annotated[Path, text("The folder of the page and the tables.", metavar="DIR")] = Path("report"),
    seed: Annotated[int, whole("Seed of the resamples.")] = 0,
    resamples: Annotated[int, whole("Resamples of an interval.")] = 2000,
    bounds: Annotated[
        str | None,
        text("The returns that count as 0 and as 1, for the optimality gap.", metavar="LOW,HIGH", show_default="none"),
    ] = None,
) -> None:
    """Report what evaluations of several seeds and variants show, as a page and as tables.

    Reads the files of envoi evaluate --contexts. Statistics are as in rliable: interquartile means with intervals
    from stratified resamples, gaps, profiles and probabilities of improvement, by region.
    """
    ends: tuple[float, float] | None = None
    if bounds is not None:
        try:
            low, high = map(float, bounds.split(","))
        except ValueError:
            raise envoi.EnvoiError(f"--bounds: expected LOW,HIGH, got {bounds!r}") from None
        ends = low, high
    with warnings.catch_warnings(record=True, action="always") as caught:
        tables = report(paths, out, seed=seed, resamples=resamples, bounds=ends)
    console = output_console()
    shown = Table("variant", "region", "IQM", "95 %", "gap", "95 %", box=None)
    for row in tables["regions"]:
        cells = [row["variant"], row["region"]]
        for name in ("iqm", "gap"):
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            cells.append("n/a" if row[name] is None else f"{row[name]:.4g}")
            cells.append("n/a" if low is None else f"{low:.4g} to {high:.4g}")
        shown.add_row(*cells)
    console.print(shown)
    page = out / "report.html"
    _print_warnings(caught, console)
    if "fewer than five seeds" in page.read_text(encoding="utf-8"):
        console.print("[yellow]note:[/yellow] fewer than five seeds: there are no intervals, and nothing is claimed")
    console.print(f"written to {escape(str(page))}")
