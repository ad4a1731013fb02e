"""The commands of `envoi`. Each command itself imports the modules that are slow to import."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

import envoi

from ..rllib.algorithms import ALGORITHMS, find
from ..rllib.multi_agent.grouping import WAYS
from ..rllib.run_folder import FolderTaken, RunFolder
from ..rllib.settings import DEFAULT_STOP_STEPS, Settings
from ..rllib.training import Job


class _EndOfFile(Exception):
    """An EOFError of a command, which click would take for Ctrl-D at a prompt, that is for an interruption."""


class _Commands(TyperGroup):
    """A command group that reports an EOFError as an error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise _EndOfFile from error


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
EnvName = "such as gymnasium:CartPole-v1, envoi:catch or python:my_module:make_env"


class Form(StrEnum):
    """The forms of an env that a policy can be evaluated on."""

    core = "core"
    gymnasium = "gymnasium"
    both = "both"


def run(arguments: Sequence[str]) -> int:
    """Runs a command.

    Returns:
        Its exit code.

    Raises:
        envoi.EnvoiError: Bad input, bad usage included.
    """
    try:
        code = typer.main.get_command(app).main(list(arguments), "envoi", standalone_mode=False)
    except _usage_error() as error:
        context: Any = getattr(error, "ctx", None)
        help_hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        message = getattr(error, "format_message")()  # noqa: B009 - typer's click is private
        raise envoi.EnvoiError(f"{message.rstrip('.')}{help_hint}") from error
    except _EndOfFile as error:
        raise cast("EOFError", error.__cause__) from None
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return code if isinstance(code, int) else 0


def _usage_error() -> type[Exception]:
    """Returns click's base class of usage errors, as typer may bundle a click of its own."""
    return next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"envoi {version('envoi')}")
        raise typer.Exit


@app.callback(epilog="Start with: [bold]envoi train gymnasium:CartPole-v1 --stop-return 450[/bold]")
def _envoi(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Any reinforcement-learning environment, in every framework: train on it, evaluate, inspect and check it."""


@app.command("train")
def _train(
    context: typer.Context,
    env: Annotated[str | None, typer.Argument(help=f"The env, {EnvName}.", show_default=False)] = None,
    algo: Annotated[str, typer.Option(help=f"The algorithm: {', '.join(ALGORITHMS)}.")] = "PPO",
    out: Annotated[
        Path | None,
        typer.Option(help="The output folder, new or empty.", show_default="runs/<env>-<algo>"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    stop_return: Annotated[
        float | None,
        typer.Option(help="Stop at this mean return over the last 100 episodes.", show_default=False),
    ] = None,
    stop_steps: Annotated[
        int | None,
        typer.Option(help="Stop after this many env steps.", show_default=f"{DEFAULT_STOP_STEPS:,} if no --stop-…"),
    ] = None,
    stop_minutes: Annotated[
        float | None, typer.Option(help="Stop after this many minutes of this call.", show_default=False)
    ] = None,
    lr: Annotated[
        str | None,
        typer.Option(help="Learning rates to try, such as 1e-4,1e-3.", show_default="the algorithm's"),
    ] = None,
    samples: Annotated[int, typer.Option(help="Trials for each learning rate, with seeds of their own.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first trial.")] = 0,
    num_env_runners: Annotated[
        int, typer.Option(help="Processes that step envs; 0 steps them where the policy learns.")
    ] = 0,
    num_envs_per_runner: Annotated[
        int | None,
        typer.Option(help="Envs that each process steps together.", show_default="the algorithm's"),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(help=f"Policies of several agents: {', '.join(WAYS)}.", show_default="by the agents' spaces"),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="A Ray cluster to train on, such as auto.", show_default="local"),
    ] = None,
    check_specs: Annotated[
        bool | None,
        typer.Option(help="Check each value against the env's spec while training.", show_default="a sample"),
    ] = None,
    on_env_error: Annotated[
        str, typer.Option(help="What follows an error of the env: stop, or restart the envs of that process.")
    ] = "stop",
    max_env_restarts: Annotated[
        int, typer.Option(help="Restarts in a row, of a process or its envs, before that is an error.")
    ] = 3,
    step_timeout: Annotated[
        float, typer.Option(help="Seconds after which a step of the env counts as hanging, which is an error.")
    ] = 60.0,
    exact: Annotated[
        bool, typer.Option("--exact", help="Checkpoints from which --resume continues bit for bit.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Train a policy with RLlib, as a Ray Tune job.

    The output folder receives the checkpoint, progress.csv, learning_curve.png, TensorBoard events and the config.
    Ctrl-C saves and stops; --resume continues, also after a kill, from the last checkpoint, which is at most some 15 s
    old, or from the one before it if files of the last are damaged.

    The exit code is 0 if a goal was reached or time ran out after the first iteration, 1 if time ran out before the
    first iteration ended, 2 for bad input, an env that fails or a damaged file, and 130 after Ctrl-C.
    """
    del debug  # read by `main` in `entry_point`
    values: dict[str, Any] = {
        "env": env,
        "algo": algo,
        "lr": _rates(lr),
        "samples": samples,
        "num_env_runners": num_env_runners,
        "num_envs_per_runner": num_envs_per_runner,
        "seed": seed,
        "stop_return": stop_return,
        "stop_steps": stop_steps,
        "stop_minutes": stop_minutes,
        "policies": policies,
        "address": address,
        "check_specs": "sample" if check_specs is None else check_specs,
        "on_env_error": on_env_error,
        "max_env_restarts": max_env_restarts,
        "step_timeout": step_timeout,
        "exact": exact,
    }
    if resume and out is None:
        raise envoi.EnvoiError("--resume needs the folder of the run to continue: --out FOLDER")
    if env is None and not resume:
        raise envoi.EnvoiError(f"which env? Give its name, {EnvName}")
    find(algo)
    from .training_display import run_training

    if resume and out is not None and not (env and RunFolder(out).blank):
        job = Job.existing(out, {name: value for name, value in values.items() if _given(context, name)})
    else:
        settings = Settings(**values)
        job = _new_job(settings) if out is None else Job.new(settings, out)
    raise typer.Exit(run_training(job))


@app.command("evaluate")
def _evaluate(
    folder: Annotated[Path, typer.Argument(help="The output folder of envoi train.", show_default=False)],
    env: Annotated[
        str | None,
        typer.Option(help="Another env of the same observations and actions.", show_default="the run's"),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Number of whole episodes.")] = 20,
    seed: Annotated[int, typer.Option(help="The same seed gives the same episodes.")] = 0,
    explore: Annotated[
        bool, typer.Option("--explore", help="Sample the actions as in training, rather than take the best.")
    ] = False,
    form: Annotated[
        Form, typer.Option(help="The form of the env to run; both also checks that they agree.")
    ] = Form.core,
    max_steps: Annotated[int, typer.Option(help="An episode longer than this is an error.")] = 100_000,
    debug: Debug = False,
) -> None:
    """Run a trained policy: print its return with a 95 % interval, and write evaluation.json.

    Where the env has a set of contexts, episodes take them in turn.
    """
    del debug
    from .evaluation_display import run_evaluation

    run_evaluation(folder, env=env, episodes=episodes, seed=seed, explore=explore, form=form.value, max_steps=max_steps)


@app.command("info")
def _info(
    env: Annotated[str, typer.Argument(help=f"The env, {EnvName}.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Show an env: its specs, its seeds, and its losses in each framework."""
    del debug
    from .info import print_info

    print_info(env)


@app.command("check")
def _check(
    env: Annotated[str, typer.Argument(help=f"The env, {EnvName}.", show_default=False)],
    frameworks: Annotated[
        str | None,
        typer.Option(
            help="The frameworks whose forms to check, such as gymnasium,dm_env.", show_default="all that are installed"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The checks use the seeds after this one.")] = 0,
    episodes: Annotated[int, typer.Option(help="Episodes of each rollout.")] = 3,
    steps: Annotated[int, typer.Option(help="Most steps of an episode.")] = 1000,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON too.", show_default=False)] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page too.", show_default=False)] = None,
    debug: Debug = False,
) -> None:
    """Check an env: its values, seeds and episodes, its form in each framework, and the frameworks' own suites.

    The exit code is 1 if a check failed. In a test of your own, write
    `envoi.integrations.check.check_env(make_env).raise_if_failed()`.
    """
    del debug
    from .check_display import run_check

    chosen = None if frameworks is None else [name.strip() for name in frameworks.split(",") if name.strip()]
    raise typer.Exit(run_check(env, frameworks=chosen, seed=seed, episodes=episodes, steps=steps, json=json, html=html))


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _rates(text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(rate) for rate in text.split(",")) if text else ()
    except ValueError:
        raise envoi.EnvoiError(f"--lr takes numbers with commas between, such as 1e-4,1e-3; got {text!r}") from None


def _new_job(settings: Settings) -> Job:
    """Makes a job in `runs/cartpole-v1-ppo`, or with a number after it if that folder is taken."""
    env = settings.env
    kept = [c if c.isalnum() or c in "-_" else "-" for c in env.partition(":")[2] or env]
    name = f"{''.join(kept).strip('-')}-{settings.algo}".lower()
    for number in itertools.count(1):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            with suppress(FolderTaken):  # by a job that started a moment earlier
                return Job.new(settings, path)
    raise AssertionError
