"""The command `envoi train`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import envoi

from ...rllib.algorithms import ALGORITHMS, find
from ...rllib.multi_agent.grouping import WAYS
from ...rllib.run_folder import FolderTaken, RunFolder
from ...rllib.settings import DEFAULT_STOP_STEPS, SCHEDULERS, TRACKERS, Settings, parse_assignments, read_config_file
from ...rllib.training import Job
from ..app import Command, command
from ..option_types import ENV_EXAMPLES, Debug, completion, env_argument, flag, one_of, real, whole

SPEC_CHECKS: Mapping[str, Any] = {"full": True, "sample": "sample", "off": False}
"""The values of `--check-specs`, and those of `Settings.check_specs`."""
_STOP: dict[str, Any] = {"rich_help_panel": "When to stop", "show_default": False}
_LEARN: dict[str, Any] = {"rich_help_panel": "How to learn"}
_SWEEP: dict[str, Any] = {"rich_help_panel": "Sweeps"}
_PLACE: dict[str, Any] = {"rich_help_panel": "Where to run"}
_ENV: dict[str, Any] = {"rich_help_panel": "How to treat the env"}
_REPORT: dict[str, Any] = {"rich_help_panel": "What to report"}

_text: Any = partial(typer.Option, metavar="NAME")
_file: Any = partial(typer.Option, metavar="PATH")


class _Train(Command):
    """The command, whose `--check-specs` may stand without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spell_out(args))


@command("train", cls=_Train)
def _train(
    context: typer.Context,
    env: Annotated[str | None, env_argument()] = None,
    algo: Annotated[
        str,
        _text(help=f"The algorithm: {', '.join(ALGORITHMS)}.", autocompletion=completion(lambda: ALGORITHMS)),
    ] = "PPO",
    out: Annotated[
        Path | None, _file(help="The output folder, new or empty.", show_default="runs/<env>-<algo>")
    ] = None,
    resume: Annotated[bool, flag("--resume", "Continue the run in --out.")] = False,
    config: Annotated[
        Path | None,
        _file(help="A YAML file of settings, such as a run's config.yaml; options win.", show_default=False),
    ] = None,
    stop_return: Annotated[float | None, real("Mean return over the last 100 episodes.", **_STOP)] = None,
    stop_steps: Annotated[
        int | None, whole("Env steps.", **_STOP | {"show_default": f"{DEFAULT_STOP_STEPS:,} if no --stop-…"})
    ] = None,
    stop_minutes: Annotated[float | None, real("Minutes of this call.", **_STOP)] = None,
    assignments: Annotated[
        list[str] | None,
        _text(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of RLlib, such as train_batch_size_per_learner=4096, model_config.fcnet_hiddens=[64,64] or "
            "env_config.size=5; several times for several.",
            show_default=False,
            **_LEARN,
        ),
    ] = None,
    lr: Annotated[
        str | None,
        _text(
            metavar="X[,X…]",
            help="Short for --set lr=X; several for grid_search.",
            show_default="the algorithm's",
            **_LEARN,
        ),
    ] = None,
    seed: Annotated[int, whole("Seed of the first trial.", **_LEARN)] = 0,
    module: Annotated[
        str | None,
        _text(help="An RLModule class of your own, as python:module:Class.", show_default=False, **_LEARN),
    ] = None,
    policies: Annotated[
        str | None,
        _text(
            help=f"The policies of several agents: {', '.join(WAYS)}.",
            show_default="by the agents' spaces",
            autocompletion=completion(lambda: WAYS),
            **_LEARN,
        ),
    ] = None,
    samples: Annotated[int, whole("Trials for each combination of the grids, with seeds of their own.", **_SWEEP)] = 1,
    scheduler: Annotated[
        str | None,
        _text(
            help=f"Stop or change poor trials: {', '.join(SCHEDULERS)}.",
            show_default="none",
            autocompletion=completion(lambda: SCHEDULERS),
            **_SWEEP,
        ),
    ] = None,
    runner: Annotated[
        str,
        one_of(
            ("auto", "sync", "batched"),
            "How to sample: sync by RLlib's env runner, batched by envoi's, or auto for the quicker.",
            **_PLACE,
        ),
    ] = "auto",
    num_env_runners: Annotated[
        int, whole("Processes that step envs; 0 steps them where the policy learns.", **_PLACE)
    ] = 0,
    num_envs_per_runner: Annotated[
        int | None, whole("Envs that each process steps together.", show_default="the algorithm's", **_PLACE)
    ] = None,
    num_learners: Annotated[
        int, whole("Processes that update the policy; 0 does so in the trial's own.", **_PLACE)
    ] = 0,
    gpus: Annotated[float, real("GPUs of each trial, for its learners.", **_PLACE)] = 0,
    address: Annotated[
        str | None,
        _text(metavar="ADDRESS", help="A Ray cluster to train on, such as auto.", show_default="local", **_PLACE),
    ] = None,
    check_specs: Annotated[
        str,
        one_of(
            tuple(SPEC_CHECKS),
            "Check values against the env's spec. --check-specs alone is full, --no-check-specs is off.",
            **_ENV,
        ),
    ] = "sample",
    vectorize: Annotated[
        bool | None,
        flag(
            "--vectorize/--no-vectorize",
            "Step the envs of a process as one batch.",
            show_default="if the env has a step for many",
            **_ENV,
        ),
    ] = None,
    action_masks: Annotated[
        bool | None,
        flag(
            "--masks/--no-masks",
            "Choose legal actions only, by the env's action masks.",
            show_default="if the env has masks",
            **_ENV,
        ),
    ] = None,
    on_env_error: Annotated[
        str,
        one_of(
            ("stop", "restart"),
            "What follows an error of the env: stop, or restart the envs of that process.",
            **_ENV,
        ),
    ] = "stop",
    max_env_restarts: Annotated[
        int, whole("Restarts in a row, of a process or its envs, before that is an error.", **_ENV)
    ] = 3,
    step_timeout: Annotated[
        float, real("Seconds after which a step of the env counts as hanging, which is an error.", **_ENV)
    ] = 60.0,
    exact: Annotated[
        bool, flag("--exact", "Make checkpoints from which --resume continues bit for bit.", **_REPORT)
    ] = False,
    evaluate_every: Annotated[
        int | None,
        whole("Evaluate without exploration after every N iterations.", show_default="never", **_REPORT),
    ] = None,
    track: Annotated[
        list[str] | None,
        _text(
            metavar="SERVICE",
            help="Report by a logger of Ray Tune too: wandb, mlflow, csv or json; tensorboard has its events anyway.",
            show_default=False,
            autocompletion=completion(lambda: TRACKERS),
            **_REPORT,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Train a policy with RLlib, as a Ray Tune job.

    The output folder receives the checkpoint, progress.csv, learning_curve.png, TensorBoard events and the config.
    Ctrl-C saves and stops; --resume continues, also after a kill, from the last checkpoint, which is at most some 15 s
    old, or from the one before it if files of the last are damaged.

    A sweep: --set lr=loguniform(1e-5,1e-3) samples each trial's rate. The search spaces are those of Ray Tune by their
    names, such as uniform(low,high), randint(low,high), choice([a,b]) and grid_search([a,b]).

    The exit code is 0 if a goal was reached or time ran out after the first iteration, 1 if nothing was learned (time
    ran out before the first iteration ended, or no policy was updated), 2 for bad input, an env that fails or a damaged
    file, and 130 after Ctrl-C.
    """
    del debug  # read by `main` in `entry_point`
    options: dict[str, Any] = {
        "env": env,
        "algo": algo,
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
        "check_specs": SPEC_CHECKS[check_specs],
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
    values = given_settings(options, given, assignments or (), lr, config)
    if values.get("env") is None and not resume:
        raise envoi.EnvoiError(f"which env? Give its name, {ENV_EXAMPLES}")
    find(algo)
    from ..training_display import run_training

    if resume and out is not None and not (values.get("env") and RunFolder(out).blank):
        job = Job.existing(out, values)
    else:
        settings = Settings(**values)
        job = _new_job(settings) if out is None else Job.new(settings, out)
    raise typer.Exit(run_training(job))


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def spell_out(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of `envoi train` with a value for each `--check-specs`.

    It was a flag once, and still can be: alone it is `--check-specs=full`, and `--no-check-specs` is
    `--check-specs=off`. What follows it is its value, unless that is another option or an env, which has a colon.
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


def given_settings(
    options: Mapping[str, Any], given: Sequence[str], assignments: Sequence[str], lr: str | None, config: Path | None
) -> dict[str, Any]:
    """Returns the settings that a user has given, of which those on the command line win over those of a file."""
    settings = {} if config is None else read_config_file(config)
    overrides: dict[str, Any] = {**settings.pop("set", {}), **parse_assignments(assignments)}
    if lr is not None:
        if any(one.partition("=")[0].strip() == "lr" for one in assignments):
            raise envoi.EnvoiError("lr is set twice, by --lr and by --set lr=…; give one of them")
        overrides["lr"] = f"grid_search([{lr}])" if "," in lr else lr
    settings |= {name: options[name] for name in given}
    return settings | ({"set": overrides} if overrides else {})


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
