"""Runs an evaluation with live progress, and prints its result."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from rich.markup import escape
from rich.progress import track

from ..rllib import RunFolder
from ..rllib.output_redirection import redirected
from .console import terminal_console


def run_evaluation(
    folder: Path, *, env: str | None, episodes: int, seed: int, explore: bool, form: str, max_steps: int
) -> None:
    """Evaluates a policy with live progress, and prints the result.

    Args:
        folder: The output folder of a job.
        env: Name of another env than that of the job; None for the same.
        episodes: Number of episodes.
        seed: Seed that the episodes' seeds are derived from.
        explore: Sample the actions, rather than take the best.
        form: "core", "gymnasium" or "both".
        max_steps: An episode longer than this is an error.

    Raises:
        envoi.EnvoiError: As `envoi.integrations.evaluation.evaluate`.
    """
    run = RunFolder(folder)
    run.read_settings()  # a wrong folder is an error before the slow imports
    run.refuse_without_checkpoint()
    with terminal_console() as console:
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
            evaluation = evaluate(
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
            console.print("the gymnasium and the core form gave the [bold green]same episodes[/bold green]: "
                          "returns, lengths and observations")  # fmt: skip
        console.print(f"written to {escape(str(evaluation_file(run, env)))}")
