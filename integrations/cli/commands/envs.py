"""The command `envoi envs`."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer
from rich.text import Text

import envoi

from ..app import command
from ..console import output_console, print_json, working
from ..env_list import ListedEnvs, list_envs, schemes
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
    from rich.columns import Columns

    words = " ".join(filter(None, (search, option)))
    found: list[ListedEnvs] = []
    with working() as show:
        for scheme in schemes():
            show(f"looking for envs of {scheme}")
            found += list_envs([scheme], words)
    names = [name for envs in found for name in envs.names]
    if words and not names:
        known = [name for envs in list_envs() for name in envs.names]
        close = difflib.get_close_matches(words.lower(), {one.partition(":")[2].lower(): 0 for one in known}, 3, 0.5)
        near = [name for word in close for name in known if name.partition(":")[2].lower() == word]
        hint = f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else "`envoi envs` lists all"
        raise envoi.UnknownName(f"no env has a name with {words!r}; {hint}")
    if json:
        print_json(names)
        return
    console = output_console()
    for envs in found:
        if envs.names:
            console.print(Text(f"{envs.scheme}  ({len(envs.names):,})", style="bold"))
            console.print(Columns(map(Text, _folded(envs.names)), padding=(0, 2)))
        elif envs.missing and not words:
            console.print(Text(f"{envs.scheme}  ({envs.missing})", style="dim"))
    if not words:
        console.print(Text("python  (python:module:factory loads an env of your own)", style="dim"))


def _folded(names: tuple[str, ...]) -> list[str]:
    """Returns names, those that differ in a number behind the last slash as one: `bsuite:catch/0…19`."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        head, slash, number = name.rpartition("/")
        if number.isdigit():
            numbers.setdefault(head + slash, []).append(int(number))
        else:
            numbers[name] = []
    return [
        head + (f"{min(found)}…{max(found)}" if len(found) > 1 else "".join(map(str, found)))
        for head, found in numbers.items()
    ]
