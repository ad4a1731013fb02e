"""The command `envoi evaluate`: runs a trained policy with live progress, and prints its result."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..app import command
from ..console import print_json, terminal_console
from ..option_types import Debug, Json, env_names, flag, one_of, whole

if TYPE_CHECKING:
    from ...evaluation import Evaluation

FORMS = ("core", "gymnasium", "both")


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
    episodes: Annotated[int, whole("Number of whole episodes.")] = 20,
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
    """
    del debug
    from rich.progress import track

    from ...rllib import RunFolder
    from ...rllib.job_process import redirected

    run = RunFolder(folder)
    run.read_settings()  # a wrong folder is an error before the slow imports
    run.refuse_without_checkpoint()
    with terminal_console() as console:
        with redirected(run.log):
            from ...evaluation import evaluate, evaluation_file
        forms: Any = ("gymnasium", "core") if form == "both" else (form,)
        shown = range(episodes * len(forms))
        ticks = iter(track(shown, "episodes", console=console, transient=True, disable=not console.is_terminal))
        next(ticks, None)
        asked: Any = {"env": env, "episodes": episodes, "seed": seed, "explore": explore, "max_steps": max_steps}
        with redirected(run.log):
            evaluation = evaluate(folder, **asked, forms=forms, observe=lambda _: next(ticks, None))
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
