"""The command `envoi info`."""

from __future__ import annotations

from ..app import command
from ..option_types import Debug, EnvName, Json


@command("info")
def _info(env: EnvName, json: Json = False, debug: Debug = False) -> None:
    """Show an env: its specs, its seeds, and its losses in each framework."""
    del debug
    from ..info import print_info

    print_info(env, as_json=json)
