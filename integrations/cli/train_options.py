"""Turns the options of `envoi train` into the settings of a job."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import envoi

from ..rllib.algorithms import find
from ..rllib.config_file import read_config_file
from ..rllib.overrides import parse_assignments
from ..rllib.run_folder import FolderTaken
from ..rllib.setting_table import settings_of
from ..rllib.settings import Settings
from ..rllib.training import Job

SPEC_CHECKS: Mapping[str, Any] = {"full": True, "sample": "sample", "off": False}
"""The values of `--check-specs`, and those of `Settings.check_specs`."""


def spell_out(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of `envoi train` with a value for each `--check-specs`.

    It was a flag once, and still can be: alone it is `--check-specs=full`, and `--no-check-specs` is
    `--check-specs=off`. What follows it is its value, unless that is another option or an env, which has a colon.

    Args:
        arguments: The arguments.
    """
    spelt: list[str] = []
    for index, argument in enumerate(arguments):
        following = arguments[index + 1] if index + 1 < len(arguments) else "-"
        if argument == "--no-check-specs":
            spelt.append("--check-specs=off")
        elif argument == "--check-specs" and (following.startswith("-") or ":" in following):
            spelt.append("--check-specs=full")
        else:
            spelt.append(argument)
    return spelt


def rates(text: str | None) -> tuple[float, ...]:
    """Returns the learning rates of `--lr`.

    Raises:
        envoi.EnvoiError: One is no number.
    """
    try:
        return tuple(float(rate) for rate in text.split(",")) if text else ()
    except ValueError:
        raise envoi.EnvoiError(
            f"--lr takes numbers with commas between, such as 1e-4,1e-3; got {text!r}; a search space goes to "
            "--set lr=log(1e-5,1e-3)"
        ) from None


def given_settings(
    options: Mapping[str, Any], given: Sequence[str], assignments: Sequence[str], config: Path | None
) -> dict[str, Any]:
    """Returns the settings that a user has given, of which those on the command line win over those of a file.

    Args:
        options: The settings of all options by name, defaults included.
        given: The names of those on the command line.
        assignments: The `NAME=VALUE` of `--set`.
        config: The file of `--config`; None for none.

    Raises:
        envoi.EnvoiError: As `read_config_file` and `parse_assignments`.
    """
    own = parse_assignments(assignments)
    settings = {} if config is None else read_config_file(config)
    overrides = {**settings.get("set", {}), **own}
    if "lr" in own and "lr" not in given:
        settings.pop("lr", None)
    if "lr" in given and "lr" not in own:
        overrides.pop("lr", None)
    settings |= {name: options[name] for name in given}
    settings.pop("set", None)
    return settings | ({"set": overrides} if overrides else {})


def setting_names(ctx: Any, incomplete: str) -> list[str]:
    """Returns what a shell offers for `--set`: the settings of the algorithm that begin with some letters.

    Args:
        ctx: The context of the command.
        incomplete: The letters.
    """
    try:
        known = settings_of(find(ctx.params.get("algo") or "PPO").name)
    except envoi.EnvoiError:
        return []
    return [f"{name}=" for name in known if name.startswith(incomplete)]


def new_job(settings: Settings) -> Job:
    """Makes a job in `runs/cartpole-v1-ppo`, or with a number after it if that folder is taken.

    Raises:
        envoi.EnvoiError: As `Job.new`.
    """
    env = settings.env
    kept = [c if c.isalnum() or c in "-_" else "-" for c in env.partition(":")[2] or env]
    name = f"{''.join(kept).strip('-')}-{settings.algo}".lower()
    for number in itertools.count(1):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            with suppress(FolderTaken):  # by a job that started a moment earlier
                return Job.new(settings, path)
    raise AssertionError
