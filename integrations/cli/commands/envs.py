"""The command `envoi envs`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.text import Text

import envoi

from ..app import command
from ..console import output_console, print_json, working
from ..option_types import Debug, Json


def _plain(text: str) -> str:
    return text.lower().replace("_", "-")


@command("envs")
def _envs(
    words: Annotated[
        str,
        typer.Argument(help="Words that a name must contain, such as cartpole.", metavar="TEXT", show_default=False),
    ] = "",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the envs that can be loaded: envoi's models, and those of the installed frameworks.

    Envs of your own are loaded as python:module:factory.
    """
    del debug
    from rich.columns import Columns

    from envoi.adapters import SCHEMES, names_of

    known: dict[str, Sequence[str]] = {}
    missing: dict[str, str] = {}
    with working() as show:
        for scheme in sorted(SCHEMES, key=lambda scheme: (scheme != "envoi", scheme == "python", scheme)):
            show(f"looking for envs of {scheme}")
            try:
                known[scheme] = names_of(scheme)
            except envoi.MissingBackend as error:
                missing[scheme] = str(error)
    parts = _plain(words).split()
    found = {scheme: [name for name in names if all(map(_plain(name).count, parts))] for scheme, names in known.items()}
    if words and not any(found.values()):
        raise envoi.UnknownName(f"no env has a name with {words!r}; {_near(words, known)}")
    if json:
        print_json([name for names in found.values() for name in names])
        return
    console = output_console()
    for scheme, names in found.items():
        if names:
            console.print(Text(f"{scheme}  ({len(names):,})", style="bold"))
            console.print(Columns(map(Text, _folded(names)), padding=(0, 2)))
    if not words:
        for scheme, why in missing.items():
            console.print(Text(f"{scheme}  ({why})", style="dim"))
        console.print(Text("python  (python:module:factory loads an env of your own)", style="dim"))


def _near(words: str, known: Mapping[str, Sequence[str]]) -> str:
    """Returns a hint with the names that are most like some words."""
    by_name: dict[str, list[str]] = {}
    for name in (name for names in known.values() for name in names):
        by_name.setdefault(name.partition(":")[2].lower(), []).append(name)
    near = [name for word in difflib.get_close_matches(words.lower(), by_name, 3, 0.5) for name in by_name[word]]
    return f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else "`envoi envs` lists all"


def _folded(names: Sequence[str]) -> list[str]:
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
