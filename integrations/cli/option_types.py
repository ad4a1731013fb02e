"""The kinds of options of `envoi`: their values, the errors for wrong values, and the shell's completions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer

import envoi

ENV_EXAMPLES = "such as gymnasium:CartPole-v1, envoi:catch or python:my_module:make_env"
"""The names of envs that help texts and messages give as examples."""


def whole(help_text: str, **settings: Any) -> Any:
    """Returns an option that takes a whole number, also as 1e5 or 100_000."""
    return typer.Option(help=help_text, parser=_whole_number, **{"metavar": "N", **settings})


def real(help_text: str, **settings: Any) -> Any:
    """Returns an option that takes a number."""
    return typer.Option(help=help_text, parser=_number, **{"metavar": "X", **settings})


def text(help_text: str, *names: str, words: Collection[str] | None = None, **settings: Any) -> Any:
    """Returns an option that takes any text; the shell completes `words`."""
    complete = None if words is None else completion(lambda: words)
    return typer.Option(*names, help=help_text, autocompletion=complete, **{"metavar": "NAME", **settings})


def flag(name: str, help_text: str, **settings: Any) -> Any:
    """Returns an option that takes no value."""
    return typer.Option(name, metavar="", help=help_text, **settings)


def env_argument() -> Any:
    """Returns the argument that takes the name of an env."""
    return typer.Argument(help=f"The env, {ENV_EXAMPLES}.", show_default=False, autocompletion=env_names, metavar="ENV")


def _whole_number(text: Any) -> int:
    try:
        return int(text)
    except ValueError:
        number = _number(text, "a whole number")
    if not number.is_integer():
        raise typer.BadParameter(f"expected a whole number, got {text!r}")
    return int(number)


def _number(text: Any, what: str = "a number") -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise typer.BadParameter(f"expected {what}, got {text!r}")
    return number


def completion(words: Callable[[], Collection[str]]) -> Callable[[str], list[str]]:
    """Returns a function that completes the beginning of a value to the words that start with it."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


def env_names(incomplete: str) -> list[str]:
    """Returns names of envs that begin with some letters; before a scheme is complete, only schemes."""
    from envoi.adapters import SCHEMES, names_of

    scheme, colon, _ = incomplete.partition(":")
    if not colon:
        return [f"{one}:" for one in SCHEMES if one.startswith(incomplete)]
    try:
        return [name for name in names_of(scheme) if name.startswith(incomplete)] if scheme in SCHEMES else []
    except envoi.MissingBackend:
        return []


def framework_names(incomplete: str) -> list[str]:
    """Returns lists of frameworks, separated by commas, whose last name begins with some letters."""
    from envoi.adapters import TARGETS

    before, comma, letters = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in TARGETS if name.startswith(letters) and name not in given]


Debug = Annotated[bool, flag("--debug", "Show the traceback of an error.")]
Json = Annotated[bool, flag("--json", "Print JSON.")]
EnvName = Annotated[str, env_argument()]
Episodes = Annotated[int, whole("Number of episodes.")]
Steps = Annotated[int, whole("Most steps of an episode.")]
FirstSeed = Annotated[int, whole("Seed of the first episode.")]
PicturesASecond = Annotated[float | None, real("Pictures a second.", show_default="the env's")]
