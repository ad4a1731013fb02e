"""The command `envoi envs`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..app import command
from ..option_types import Debug, Json


@command("envs")
def _envs(
    search: Annotated[
        str | None,
        typer.Argument(help="Words that a name must contain, such as cartpole.", metavar="TEXT", show_default=False),
    ] = None,
    option: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="The same.", show_default=False)
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the envs that can be loaded: envoi's models, and those of the installed frameworks.

    Envs of your own are loaded as python:module:factory.
    """
    del debug
    from ..envs_display import print_envs

    print_envs(" ".join(filter(None, (search, option))), as_json=json)
