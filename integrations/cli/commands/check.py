"""The command `envoi check`: runs an environment check with live progress, and prints its report."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import envoi

from ..app import EnvName, command, framework_names, output_console, whole, working

_STYLES = {"✓": "green", "✗": "bold red", "!": "yellow", "failed": "bold red", "remark": "yellow", "narrowed": "yellow"}
"""The styles of marks, and of the words that lines begin with."""

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
) -> None:
    """Check an env: its values, seeds and episodes, its form in each framework, and the frameworks' own suites.

    The exit code is 1 if a check failed. In a test of your own, call `check_env` of `envoi.integrations.check`.
    """
    from ...check import check_env
    from ...errors import one_line

    for path in filter(None, (json, html, junit)):
        if path.is_dir():
            raise envoi.EnvoiError(f"{path} is a folder; give the name of a file")
        if not path.absolute().parent.is_dir():
            raise envoi.EnvoiError(f"{path}: there is no folder {path.parent}")
    chosen = None if frameworks is None else [name.strip() for name in frameworks.split(",") if name.strip()]
    chosen = [] if chosen == ["none"] else chosen
    done = 0

    try:
        with one_line(), working(plain=True) as show:

            def progress(subject: str, key: str) -> None:
                nonlocal done
                done += 1
                show(f"checking {subject}: {key} ({done} checks)")

            report = check_env(env, frameworks=chosen, seed=seed, episodes=episodes, steps=steps, progress=progress)
    except KeyboardInterrupt:  # of which typer makes an exit without a word
        sys.stderr.write("envoi: interrupted\n")
        raise typer.Exit(130) from None
    console = output_console()
    body, _, conclusion = report.to_text(console.width).rpartition("\n")
    text = Text(body)
    for word, style in _STYLES.items():
        text.highlight_regex(rf"(?m)^{word}(?=  )" if word.isalpha() else rf"(?<!\S){word}(?!\S)", style)
    console.print(text, soft_wrap=True)
    for path, write in ((json, report.write_json), (html, report.write_html), (junit, report.write_junit)):
        if path is not None:
            write(path)
            console.print(Text(f"written to {path}", style="dim"), soft_wrap=True)
    console.print(Text(conclusion, style="bold green" if report.passed else "bold red"), soft_wrap=True)
    raise typer.Exit(0 if report.passed else 1)
