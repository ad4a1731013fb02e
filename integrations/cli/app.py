"""The Typer application `envoi`, and the kinds of options and the consoles that its commands share."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

import envoi
from envoi.adapters import SCHEMES, TARGETS, names_of

ENV_EXAMPLES = "such as gymnasium:CartPole-v1, envoi:catch or python:my_module:make_env"
"""The names of envs that help texts and messages give as examples."""
PATIENCE = 2.0
"""Seconds before a command shows its progress."""
PLAIN_SECONDS = 5.0
"""Fewest seconds between two lines of progress without a terminal."""


# Options: their values, the errors for wrong values, and the completions of shells.


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
    for read in (int, float):
        with suppress(ValueError):
            number = read(text)
            if number % 1 == 0:
                return int(number)
    raise typer.BadParameter(f"expected a whole number, got {text!r}")


def _number(text: Any) -> float:
    with suppress(ValueError):
        return float(text)
    raise typer.BadParameter(f"expected a number, got {text!r}")


def completion(words: Callable[[], Collection[str]]) -> Callable[[str], list[str]]:
    """Returns a function that completes the beginning of a value to the words that start with it."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


def env_names(incomplete: str) -> list[str]:
    """Returns names of envs that begin with some letters; before a scheme is complete, only schemes."""
    scheme, colon, _ = incomplete.partition(":")
    if not colon:
        return [f"{one}:" for one in SCHEMES if one.startswith(incomplete)]
    try:
        return [name for name in names_of(scheme) if name.startswith(incomplete)] if scheme in SCHEMES else []
    except envoi.MissingBackend:
        return []


def framework_names(incomplete: str) -> list[str]:
    """Returns lists of frameworks, separated by commas, whose last name begins with some letters."""
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


# The application.


class _Help:
    """Mixin for the help of commands: flags show no type."""

    def get_params(self, ctx: Any) -> Any:
        params = cast("Any", super()).get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class _Command(_Help, TyperCommand):
    """A command whose errors name options as users type them: `--num-envs`, not the argument `num_envs`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except envoi.EnvoiError as error:
            given: Any = {one.name: one.opts[0] for one in self.params if ctx.params.get(one.name) is not None}
            message = re.sub(r"^\w+(?=[:\[])", lambda name: given.get(name[0], name[0]), str(error))
            if not message.startswith("--"):
                raise
            raise envoi.EnvoiError(message) from error


class _Commands(_Help, TyperGroup):
    """The command group, which lists its commands in `ORDER`."""

    ORDER = ("envs", "info", "check", "bench", "play", "render", "train", "runs", "evaluate", "report")

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of the commands, first the ones in `ORDER`."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: self.ORDER.index(name) if name in self.ORDER else len(self.ORDER))


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(arguments: Sequence[str]) -> int:
    """Runs a command."""
    # Of the click that typer uses, which may be a bundled copy.
    usage_error: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        code = typer.main.get_command(app).main(list(arguments), "envoi", standalone_mode=False)
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # which has printed it
            return 2
        raise envoi.EnvoiError(_usage_message(error)) from error
    except typer.Abort as error:  # typer's answer to an EOFError, which an env may have raised
        raise error.__cause__ or KeyboardInterrupt from error
    return code if isinstance(code, int) else 0


def _usage_message(error: Any) -> str:
    """Returns the message of a usage error, which names the option and the help."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if isinstance(error, typer.BadParameter) and error.param is not None and error.message:
        name = next((name for name in error.param.opts if name.startswith("--")), error.param.name)
        message = f"{name}: {error.message.removeprefix('Value error, ')}"
    return message.rstrip(".") + ("" if context is None else f" (see `{context.command_path} --help`)")


def command(name: str) -> Any:
    """Returns a decorator that adds a function to the application as a command, with the option `--debug`.

    Each paragraph of its docstring is put on one line, so that its help fills a terminal of any width.
    """

    def add(function: Any) -> Any:
        @wraps(function)
        def run(*, debug: bool, **arguments: Any) -> None:
            del debug  # read by `main`
            function(**arguments)

        signature = inspect.signature(function, eval_str=True)
        debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
        cast("Any", run).__signature__ = signature.replace(parameters=[*signature.parameters.values(), debug])
        paragraphs = (function.__doc__ or "").split("\n\n")
        first, *_ = lines = [" ".join(paragraph.split()) for paragraph in paragraphs]
        app.command(name, cls=_Command, help=escape("\n\n".join(lines)), short_help=first)(run)
        return function

    return add


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"envoi {version('envoi')}")
        raise typer.Exit


@app.callback(epilog="Start with: envoi train gymnasium:CartPole-v1 --stop-return 450")
def _envoi(
    show_version: Annotated[
        bool, flag("--version", "Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Any reinforcement-learning environment, in every framework: train on it, evaluate, inspect and check it."""


# Consoles.


def output_console() -> Console:
    """Returns the console for the result of a command: as wide as the terminal, without colours if NO_COLOR is set."""
    return Console(emoji=False, highlight=False)


def print_json(document: Any) -> None:
    """Prints a document as JSON, without escaping characters beyond ASCII."""
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def duration(seconds: float) -> str:
    """Formats a duration."""
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.0f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def working(
    on: Console | None = None, *, patience: float | None = None, plain: bool = False, hint: str = ""
) -> Iterator[Callable[..., None]]:
    """Provides a function `show(text, at_once=False)` that shows what a command is doing, once `patience` has passed.

    On a terminal it shows a line that changes; elsewhere nothing, or if `plain` a line every few seconds or `at_once`.
    """
    # The stderr of this moment, which may be redirected later.
    console = on or Console(file=sys.stderr, emoji=False, highlight=False, soft_wrap=True)
    patience = PATIENCE if patience is None else patience
    began, last, text, spinner = time.monotonic(), -math.inf, "", Spinner("dots")

    def line() -> str:
        return f"{text} … {duration(time.monotonic() - began)}"

    def render() -> Spinner:
        spinner.update(text=Text(line() + hint, no_wrap=True, overflow="ellipsis"))
        return spinner

    # Without redirection: rich would restore the `sys.stdout` that it found, which a check may have redirected, and
    # would print to a terminal what was redirected to a log.
    live = Live(get_renderable=render, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)

    def show(said: str, at_once: bool = False) -> None:
        nonlocal last, text
        text, now = said, time.monotonic()
        if now - began < patience:
            return
        if console.is_terminal:
            live.start()
        elif plain and (at_once or now - last >= max(PLAIN_SECONDS, (now - began) / 20)):
            last = now
            console.print(Text(line()))

    try:
        yield show
    finally:
        live.stop()


@contextmanager
def terminal_console() -> Iterator[Console]:
    """Provides a console on a copy of stdout's file descriptor, as the descriptor itself may be redirected."""
    try:
        copy = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    except (OSError, ValueError):  # stdout is no file, as under a test
        yield Console(emoji=False, highlight=False, soft_wrap=True)
        return
    with copy:
        yield Console(file=copy, emoji=False, highlight=False, soft_wrap=True)
