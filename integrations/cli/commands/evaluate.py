"""The command `envoi evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import command
from ..option_types import Debug, Json, env_names, flag, one_of, whole

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
    from ..evaluation_display import run_evaluation

    asked = {"env": env, "episodes": episodes, "seed": seed, "explore": explore, "form": form, "max_steps": max_steps}
    run_evaluation(folder, **asked, as_json=json)
