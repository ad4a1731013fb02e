"""The command `envoi evaluate`: runs a trained policy with live progress, and prints its result."""

from __future__ import annotations

import json as json_module
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import envoi

from ..app import command
from ..console import print_json, terminal_console
from ..option_types import Debug, Json, env_names, flag, one_of, text, whole

if TYPE_CHECKING:
    from ...evaluation import Evaluation
    from ...rllib import RunFolder

FORMS = ("core", "gymnasium", "both")
MANY_CONTEXTS = 100_000
"""More contexts than these need --yes."""


@command("evaluate")
def _evaluate(
    folder: Annotated[
        Path, typer.Argument(help="The output folder of envoi train.", metavar="RUN", show_default=False)
    ],
    env: Annotated[
        str | None,
        typer.Option(
            help="Another env of the same observations and actions.",
            metavar="ENV",
            show_default="the run's",
            autocompletion=env_names,
        ),
    ] = None,
    contexts: Annotated[
        str | None,
        text(
            "Contexts to be judged on: a file, or length=0.3..0.7 (100 samples), length=0.3..0.7:8 (a grid), "
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
    form: Annotated[str, one_of(FORMS, "The form of the env to run; both also checks that they agree.")] = "core",
    max_steps: Annotated[int, whole("An episode longer than this is an error.")] = 100_000,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a trained policy: print its return with a 95 % interval, and write evaluation.json.

    Where the env has a set of contexts, episodes take them in turn.

    With --contexts, each of them has the same number of episodes, whose rows are written as evaluation.csv and
    evaluation.parquet, for envoi report.
    """
    del debug
    from ...rllib import RunFolder

    run = RunFolder(folder)
    run.read_settings()  # a wrong folder is an error before the slow imports
    run.refuse_without_checkpoint()
    if contexts is not None:
        if form != "core":
            raise envoi.EnvoiError("--form: with --contexts episodes are played in the core form; leave it out")
        asked: dict[str, Any] = {
            "env": env,
            "episodes": 5 if episodes is None else episodes,
            "seed": seed,
            "explore": explore,
        }
        asked |= {"max_steps": max_steps, "workers": workers}
        _evaluate_contexts(run, contexts, folder if out is None else out, yes, json, asked)
        return
    given = {"--out": out, "--workers": workers, "--yes": yes or None}
    for name in (name for name, value in given.items() if value is not None):
        raise envoi.EnvoiError(f"{name} is for --contexts; give both")
    _evaluate_run(run, env, 20 if episodes is None else episodes, seed, explore, form, max_steps, json)


def _evaluate_contexts(run: RunFolder, given: str, out: Path, yes: bool, json: bool, asked: dict[str, Any]) -> None:
    from rich.progress import track

    from envoi.context import ContextRanges, read_contexts

    from ...rllib.job_process import redirected

    contexts = read_contexts(given)
    cells = contexts.cells if isinstance(contexts, ContextRanges) else len(contexts)
    if cells > MANY_CONTEXTS and not yes:
        raise envoi.EnvoiError(f"--contexts: {cells:,} contexts; confirm so many by --yes, or give a coarser grid")
    with terminal_console() as console, redirected(run.log):
        from ...evaluation import evaluate

        many = asked["episodes"] * max(cells, 100 if isinstance(contexts, ContextRanges) and contexts.ranges else 0)
        ticks = iter(track(range(many), "episodes", console=console, transient=True, disable=not console.is_terminal))
        next(ticks, None)
        # A text is read again where the env's features are known, so that integers stay integers.
        wanted = given if isinstance(contexts, ContextRanges) else contexts
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = evaluate(run.path, **asked, contexts=wanted, out=out, observe=lambda _: next(ticks, None))
        notes = [str(one.message) for one in caught if "training set" in str(one.message)]
        if json:
            console.print_json(data=rows, default=str)
            return
        for note in notes:
            console.print(f"[yellow]note:[/yellow] {escape(note)}")
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


def _evaluate_run(
    run: RunFolder, env: str | None, episodes: int, seed: int, explore: bool, form: str, max_steps: int, json: bool
) -> None:
    from rich.progress import track

    from ...rllib.job_process import redirected

    with terminal_console() as console:
        with redirected(run.log):
            from ...evaluation import evaluate_run, evaluation_file
        forms: Any = ("gymnasium", "core") if form == "both" else (form,)
        shown = range(episodes * len(forms))
        ticks = iter(track(shown, "episodes", console=console, transient=True, disable=not console.is_terminal))
        next(ticks, None)
        asked: Any = {"env": env, "episodes": episodes, "seed": seed, "explore": explore, "max_steps": max_steps}
        with redirected(run.log):
            evaluation = evaluate_run(run.path, **asked, forms=forms, observe=lambda _: next(ticks, None))
        if json:
            print_json(json_module.loads(evaluation_file(run, env).read_text(encoding="utf-8")))
            return
        _print_evaluation(evaluation, console, "sampled" if explore else "greedy")
        console.print(f"written to {escape(str(evaluation_file(run, env)))}")


def _print_evaluation(evaluation: Evaluation, console: Console, how: str) -> None:
    from ...evaluation import context_labels

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
