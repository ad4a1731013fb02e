"""The Typer application `envoi`, to which each module in `commands` adds a command."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

import envoi
from envoi.errors import nearest

from .option_types import Debug, flag


class _EndOfFile(Exception):
    """Replaces an EOFError of a command, because click treats EOFError as an interruption by Ctrl-D at a prompt."""


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
            message = re.sub(r"^\w+(?=:|\[| must )", lambda name: given.get(name[0], name[0]), str(error))
            if not message.startswith("--"):
                raise
            raise envoi.EnvoiError(message) from error


class _Commands(_Help, TyperGroup):
    """A command group that reports an EOFError as an error, and lists its commands in `ORDER`."""

    ORDER = ("envs", "info", "check", "bench", "play", "render", "train", "runs", "evaluate", "report")

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise _EndOfFile from error

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
    try:
        code = typer.main.get_command(app).main(list(arguments), "envoi", standalone_mode=False)
    except _usage_error() as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # which has printed it
            return 2
        raise envoi.EnvoiError(_usage_message(error)) from error
    except _EndOfFile as error:
        raise cast("EOFError", error.__cause__) from None
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return code if isinstance(code, int) else 0


def _usage_error() -> type[Exception]:
    """Returns the base class of usage errors from the click that typer uses, which may be a bundled copy."""
    return next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _usage_message(error: Any) -> str:
    """Returns the message of a usage error. For an unknown option, suggests the most similar option of the command."""
    message, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if context is None:
        return message
    help_hint = f"(see `{context.command_path} --help`)"
    unknown = getattr(error, "option_name", None)
    if unknown is not None and type(error).__name__ == "NoSuchOption":
        known = [name for one in context.command.params for name in (*one.opts, *one.secondary_opts) if name[0] == "-"]
        near = nearest(unknown, known)
        suggestion = f"; {near}" if near.endswith("?") else ""
        return f"`{context.command_path}` has no option {unknown}{suggestion} {help_hint}"
    if isinstance(error, typer.BadParameter) and error.param is not None and error.message:
        name = next((name for name in error.param.opts if name.startswith("--")), error.param.name)
        return f"{name}: {error.message.removeprefix('Value error, ').rstrip('.')} {help_hint}"
    return f"{message} {help_hint}"


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
        app.command(name, cls=_Command, help="\n\n".join(lines), short_help=first)(run)
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
