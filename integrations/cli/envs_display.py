"""Prints the envs that can be loaded, for `envoi envs`."""

from __future__ import annotations

import difflib

from rich.columns import Columns
from rich.text import Text

import envoi

from .console import output_console, print_json, working
from .env_list import SCHEMES, ListedEnvs, list_envs


def print_envs(search: str, *, as_json: bool) -> None:
    """Prints the names of the envs that can be loaded.

    Args:
        search: Words that a name must contain; empty for all names.
        as_json: Print a JSON list of the names.

    Raises:
        envoi.EnvoiError: No name contains the words.
    """
    found: list[ListedEnvs] = []
    with working() as show:
        for scheme in SCHEMES:
            show(f"looking for envs of {scheme}")
            found += list_envs([scheme], search)
    names = [name for envs in found for name in envs.names]
    if search and not names:
        known = [name for envs in list_envs() for name in envs.names]
        close = difflib.get_close_matches(search.lower(), {one.partition(":")[2].lower(): 0 for one in known}, 3, 0.5)
        near = [name for word in close for name in known if name.partition(":")[2].lower() == word]
        hint = f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else "`envoi envs` lists all"
        raise envoi.UnknownName(f"no env has a name with {search!r}; {hint}")
    if as_json:
        print_json(names)
        return
    console = output_console()
    for envs in found:
        if envs.names:
            console.print(Text(f"{envs.scheme}  ({len(envs.names):,})", style="bold"))
            console.print(Columns(map(Text, _folded(envs.names)), padding=(0, 2)))
        elif envs.missing and not search:
            console.print(Text(f"{envs.scheme}  ({envs.missing})", style="dim"))
    if not search:
        console.print(Text("python  (python:module:factory loads an env of your own)", style="dim"))


def _folded(names: tuple[str, ...]) -> list[str]:
    """Returns names, those that differ in a number behind the last slash as one: `bsuite:catch/0…19`."""
    last: dict[str, list[int]] = {}
    for name in names:
        head, slash, number = name.rpartition("/")
        last.setdefault(head + slash if number.isdigit() else name, []).append(int(number) if number.isdigit() else -1)
    return [
        head
        if numbers == [-1]
        else f"{head}{min(numbers)}…{max(numbers)}"
        if len(numbers) > 1
        else f"{head}{numbers[0]}"
        for head, numbers in last.items()
    ]
