"""The commands of `envoi`. Each command itself imports the modules that are slow to import."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

import envoi

from ..rllib.algorithms import ALGORITHMS, find
from ..rllib.multi_agent.grouping import WAYS
from ..rllib.run_folder import RunFolder
from ..rllib.settings import DEFAULT_STOP_STEPS, Settings
from ..rllib.sweep import SCHEDULERS
from ..rllib.training import Job
from .train_options import given_settings, new_job, rates, spec_checks, spell_out


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
        code = typer.main.get_command(app).main(spell_out(arguments), "envoi", standalone_mode=False)
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


STOP, LEARN, SWEEP, PLACE, ENV, REPORT = (
    "When to stop", "How to learn", "Sweeps", "Where to run", "How to treat the env", "What to report"
)  # fmt: skip


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
    config: Annotated[
        Path | None,
        typer.Option(help="A YAML file of settings, such as a run's config.yaml; options win.", show_default=False),
    ] = None,
    stop_return: Annotated[
        float | None,
        typer.Option(help="Mean return over the last 100 episodes.", show_default=False, rich_help_panel=STOP),
    ] = None,
    stop_steps: Annotated[
        int | None,
        typer.Option(help="Env steps.", show_default=f"{DEFAULT_STOP_STEPS:,} if no --stop-…", rich_help_panel=STOP),
    ] = None,
    stop_minutes: Annotated[
        float | None, typer.Option(help="Minutes of this call.", show_default=False, rich_help_panel=STOP)
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of RLlib, such as train_batch_size_per_learner=4096, model.fcnet_hiddens=[64,64] or "
            "env_config.size=5; several times for several.",
            show_default=False,
            rich_help_panel=LEARN,
        ),
    ] = None,
    lr: Annotated[
        str | None,
        typer.Option(
            help="Learning rate; several are tried one by one, such as 1e-4,1e-3.",
            show_default="the algorithm's",
            rich_help_panel=LEARN,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first trial.", rich_help_panel=LEARN)] = 0,
    module: Annotated[
        str | None,
        typer.Option(
            help="An RLModule class of your own, as python:module:Class.", show_default=False, rich_help_panel=LEARN
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            help=f"The policies of several agents: {', '.join(WAYS)}.",
            show_default="by the agents' spaces",
            rich_help_panel=LEARN,
        ),
    ] = None,
    runner: Annotated[
        str,
        typer.Option(
            metavar="auto|sync|batched",
            help="How to sample: sync by RLlib's env runner, batched by envoi's, or auto for the quicker.",
            rich_help_panel=PLACE,
        ),
    ] = "auto",
    samples: Annotated[
        int | None,
        typer.Option(
            help="Trials for each combination of values, with seeds of their own.",
            show_default="1, or 8 if --set samples",
            rich_help_panel=SWEEP,
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help=f"Stop or change poor trials: {', '.join(SCHEDULERS)}.", show_default="none", rich_help_panel=SWEEP
        ),
    ] = None,
    num_env_runners: Annotated[
        int,
        typer.Option(help="Processes that step envs; 0 steps them where the policy learns.", rich_help_panel=PLACE),
    ] = 0,
    num_envs_per_runner: Annotated[
        int | None,
        typer.Option(
            help="Envs that each process steps together.", show_default="the algorithm's", rich_help_panel=PLACE
        ),
    ] = None,
    num_learners: Annotated[
        int,
        typer.Option(help="Processes that update the policy; 0 does so in the trial's own.", rich_help_panel=PLACE),
    ] = 0,
    gpus: Annotated[float, typer.Option(help="GPUs of each trial, for its learners.", rich_help_panel=PLACE)] = 0,
    address: Annotated[
        str | None,
        typer.Option(help="A Ray cluster to train on, such as auto.", show_default="local", rich_help_panel=PLACE),
    ] = None,
    check_specs: Annotated[
        str,
        typer.Option(
            metavar="full|sample|off",
            help="Check values against the env's spec. --check-specs alone is full, --no-check-specs is off.",
            rich_help_panel=ENV,
        ),
    ] = "sample",
    vectorize: Annotated[
        bool | None,
        typer.Option(
            help="Step the envs of a process as one batch.",
            show_default="if the env has a step for many",
            rich_help_panel=ENV,
        ),
    ] = None,
    action_masks: Annotated[
        bool | None,
        typer.Option(
            "--masks/--no-masks",
            help="Choose legal actions only, by the env's action masks.",
            show_default="if the env has masks",
            rich_help_panel=ENV,
        ),
    ] = None,
    on_env_error: Annotated[
        str,
        typer.Option(
            metavar="stop|restart",
            help="What follows an error of the env: stop, or restart the envs of that process.",
            rich_help_panel=ENV,
        ),
    ] = "stop",
    max_env_restarts: Annotated[
        int,
        typer.Option(help="Restarts in a row, of a process or its envs, before that is an error.", rich_help_panel=ENV),
    ] = 3,
    step_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds after which a step of the env counts as hanging, which is an error.", rich_help_panel=ENV
        ),
    ] = 60.0,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Make checkpoints from which --resume continues bit for bit.", rich_help_panel=REPORT
        ),
    ] = False,
    evaluate_every: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Evaluate without exploration after every N iterations.",
            show_default="never",
            rich_help_panel=REPORT,
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SERVICE",
            help="Report to wandb or mlflow too; tensorboard has its events in any case.",
            show_default=False,
            rich_help_panel=REPORT,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Train a policy with RLlib, as a Ray Tune job.

    The output folder receives the checkpoint, progress.csv, learning_curve.png, TensorBoard events and the config.
    Ctrl-C saves and stops; --resume continues, also after a kill, from the last checkpoint, which is at most some 15 s
    old, or from the one before it if files of the last are damaged.

    A sweep: --set lr=log(1e-5,1e-3) samples each trial's rate. The search spaces are log(low,high), uniform(low,high),
    int(low,high), choice(a,b,…) and grid(a,b,…).

    The exit code is 0 if a goal was reached or time ran out after the first iteration, 1 if time ran out before the
    first iteration ended, 2 for bad input, an env that fails or a damaged file, and 130 after Ctrl-C.
    """
    del debug  # read by `main` in `entry_point`
    options: dict[str, Any] = {
        "env": env,
        "algo": algo,
        "lr": rates(lr),
        "samples": samples,
        "num_env_runners": num_env_runners,
        "num_envs_per_runner": num_envs_per_runner,
        "seed": seed,
        "stop_return": stop_return,
        "stop_steps": stop_steps,
        "stop_minutes": stop_minutes,
        "policies": policies,
        "runner": runner,
        "address": address,
        "action_masks": "auto" if action_masks is None else action_masks,
        "exact": exact,
        "check_specs": spec_checks(check_specs),
        "vectorize": "auto" if vectorize is None else vectorize,
        "on_env_error": on_env_error,
        "max_env_restarts": max_env_restarts,
        "step_timeout": step_timeout,
        "scheduler": scheduler,
        "module": module,
        "gpus": gpus,
        "num_learners": num_learners,
        "evaluate_every": evaluate_every,
        "track": tuple(track or ()),
    }
    if resume and out is None:
        raise envoi.EnvoiError("--resume needs the folder of the run to continue: --out FOLDER")
    given = [name for name in options if _given(context, name)]
    values = given_settings(options, given, assignments or (), config)
    if values.get("env") is None and not resume:
        raise envoi.EnvoiError(f"which env? Give its name, {EnvName}")
    find(algo)
    from .training_display import run_training

    if resume and out is not None and not (values.get("env") and RunFolder(out).blank):
        job = Job.existing(out, values)
    else:
        settings = Settings(**values)
        job = new_job(settings) if out is None else Job.new(settings, out)
    raise typer.Exit(run_training(job))


@app.command("runs")
def _runs(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the runs.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    debug: Debug = False,
) -> None:
    """List the runs in a folder: state, best return, env steps, and time since they last wrote.

    A run is running, done, interrupted (by Ctrl-C or a kill, so --resume continues it) or failed.
    """
    del debug
    from .runs_display import print_runs

    print_runs(folder, as_json=json)


@app.command("compare")
def _compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Output folders of envoi train, or folders that hold them.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option(help="The picture, a PNG file.", show_default="comparison.png")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a table; then a picture only with --out.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Compare runs: their curves in one picture, and a table of their returns.

    Trials of the same settings, in one run or in several, are seeds of one curve: the interquartile mean with its 95 %
    bootstrap interval.
    """
    del debug
    from .comparison_display import run_comparison

    run_comparison(runs, out, as_json=json)


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


def _reflow(text: str) -> str:
    """Returns a docstring with each paragraph on one line, so that it fills a terminal of any width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


for _command in app.registered_commands:
    _command.help = _reflow((_command.callback and _command.callback.__doc__) or "")
