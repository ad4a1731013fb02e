"""The command `envoi train`: runs a training job with live progress, and prints its result."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape

import envoi
from envoi.context import read_contexts

from ...env_contexts import confirm_many
from ...rllib import Job, Outcome, Report, RunFolder, Settings
from ...rllib.algorithms import ALGORITHMS, find
from ...rllib.multi_agent.grouping import WAYS
from ...rllib.run_folder import FolderTaken
from ...rllib.settings import CURRICULA, DEFAULT_STOP_STEPS, SCHEDULERS, TRACKERS, parse_assignments, read_config_file
from ..app import ENV_EXAMPLES, command, duration, env_argument, flag, real, terminal_console, text, whole, working

SPEC_CHECKS: Mapping[str, Any] = {"full": True, "sample": "sample", "off": False}
"""The values of `--check-specs`, and those of `Settings.check_specs`."""
_NOTE = "[yellow]note:[/yellow]"
_OPTIONS: Mapping[str | None, Mapping[str, Any]] = {
    None: {
        "env": env_argument(),
        "algo": text(f"The algorithm: {', '.join(ALGORITHMS)}.", words=ALGORITHMS),
        "out": text("The output folder, new or empty.", metavar="PATH", show_default="runs/<env>-<algo>"),
        "resume": flag("--resume", "Continue the run in --out."),
        "config": text("A YAML file of settings, such as a run's config.yaml; options win.", metavar="PATH"),
    },
    "When to stop": {
        "stop_return": real("Mean return over the last 100 episodes."),
        "stop_steps": whole("Env steps.", show_default=f"{DEFAULT_STOP_STEPS:,} if no --stop-…"),
        "stop_minutes": real("Minutes of this call."),
    },
    "How to learn": {
        "assignments": text(
            "A setting of RLlib, such as train_batch_size_per_learner=4096, model_config.fcnet_hiddens=[64,64] or "
            "env_config.size=5; several times for several.",
            "--set",
            metavar="NAME=VALUE",
        ),
        "lr": text("Short for --set lr=X; several for grid_search.", metavar="X[,X…]", show_default="the algorithm's"),
        "seed": whole("Seed of the first trial."),
        "module": text("An RLModule class of your own, as python:module:Class."),
        "policies": text(
            f"The policies of several agents: {', '.join(WAYS)}.", words=WAYS, show_default="by the agents' spaces"
        ),
    },
    "Contexts": {
        "contexts": text(
            "Contexts to train in: a file, or ranges, grids and values such as 'length=0.3..0.7;gravity=9,10'.",
            metavar="FILE|SPEC",
            show_default="the env's",
        ),
        "eval_contexts": text("Contexts of evaluations alone.", metavar="FILE|SPEC", show_default="those of training"),
        "curriculum": text(
            "What chooses --contexts: plr, learning-progress (of successes), learning-progress:LOW,HIGH (of returns).",
            words=CURRICULA,
            show_default="in turn",
        ),
        "yes": flag("--yes", "Take more than 100,000 contexts."),
    },
    "Sweeps": {
        "samples": whole("Trials for each combination of the grids, with seeds of their own."),
        "scheduler": text(
            f"Stop or change poor trials: {', '.join(SCHEDULERS)}.", words=SCHEDULERS, show_default="none"
        ),
    },
    "Where to run": {
        "runner": typer.Option(
            help="How to sample: sync by RLlib's env runner, batched by envoi's, or auto for the quicker."
        ),
        "num_env_runners": whole("Processes that step envs; 0 steps them where the policy learns."),
        "num_envs_per_runner": whole("Envs that each process steps together.", show_default="the algorithm's"),
        "num_learners": whole("Processes that update the policy; 0 does so in the trial's own."),
        "gpus": real("GPUs of each trial, for its learners."),
        "address": text("A Ray cluster to train on, such as auto.", metavar="ADDRESS", show_default="local"),
    },
    "How to treat the env": {
        "check_specs": typer.Option(help="Check values against the env's spec."),
        "vectorize": flag(
            "--vectorize/--no-vectorize",
            "Step the envs of a process as one batch.",
            show_default="if the env has a step for many",
        ),
        "action_masks": flag(
            "--masks/--no-masks",
            "Choose legal actions only, by the env's action masks.",
            show_default="if the env has masks",
        ),
        "on_env_error": typer.Option(
            help="What follows an error of the env: stop, or restart the envs of that process."
        ),
        "max_env_restarts": whole("Restarts in a row, of a process or its envs, before that is an error."),
        "step_timeout": real("Seconds after which a step of the env counts as hanging, which is an error."),
    },
    "What to report": {
        "exact": flag("--exact", "Make checkpoints from which --resume continues bit for bit."),
        "evaluate_every": whole(
            "Evaluate without exploration after every N iterations.",
            show_default="10 with --eval-contexts, else never",
        ),
        "track": text(
            "Report by a logger of Ray Tune too: wandb, mlflow, csv or json; tensorboard has its events anyway.",
            words=TRACKERS,
            metavar="SERVICE",
        ),
    },
}
"""The options by panel of the help. Types and defaults are those of `_train`, or else of `Settings`."""


def _with_options(function: Any) -> Any:
    own, types = inspect.signature(function, eval_str=True).parameters, get_type_hints(Settings)
    parameters = [own["context"]]
    for panel, options in _OPTIONS.items():
        for name, option in options.items():
            option.rich_help_panel = panel
            one = own.get(name) or own["context"].replace(
                name=name, default=getattr(Settings, name), annotation=types[name]
            )
            parameters.append(one.replace(annotation=Annotated[one.annotation, option]))
    function.__signature__ = inspect.Signature(parameters)
    return function


@command("train")
@_with_options
def _train(
    context: typer.Context,
    env: str | None = None,
    out: Path | None = None,
    resume: bool = False,
    config: Path | None = None,
    assignments: list[str] | None = None,
    lr: str | None = None,
    policies: str | None = None,
    yes: bool = False,
    check_specs: Literal["full", "sample", "off"] = "sample",
    vectorize: bool | None = None,
    action_masks: bool | None = None,
    track: list[str] | None = None,
    **_: Any,
) -> None:
    """Train a policy with RLlib, as a Ray Tune job.

    The output folder receives the checkpoint, progress.csv, learning_curve.png, TensorBoard events and the config.
    Ctrl-C saves and stops; --resume continues, also after a kill, from the last checkpoint, which is at most some 15 s
    old, or from the one before it if files of the last are damaged.

    A sweep: --set lr=loguniform(1e-5,1e-3) samples each trial's rate. Use Ray Tune's search spaces by their
    names, such as uniform(low,high), randint(low,high), choice([a,b]) and grid_search([a,b]).

    The exit code is 0 if a goal was reached or time ran out after the first iteration, 1 if nothing was learned (time
    ran out before the first iteration ended, or no policy was updated), 2 for bad input, an env that fails in every
    trial or a damaged file, and 130 after Ctrl-C.
    """
    if resume and out is None:
        raise envoi.EnvoiError("--resume needs the folder of the run to continue: --out FOLDER")
    names = {field.name for field in fields(Settings)}
    sources = {name: getattr(context.get_parameter_source(name), "name", "") for name in names}
    options = {name: value for name, value in context.params.items() if sources.get(name) == "COMMANDLINE"}
    options |= {name: SPEC_CHECKS[value] for name, value in options.items() if name == "check_specs"}
    options |= {name: tuple(value) for name, value in options.items() if name == "track"}
    values = given_settings(options, assignments or (), lr, config)
    if values.get("env") is None and not resume:
        raise envoi.EnvoiError(f"which env? Give its name, {ENV_EXAMPLES}")
    find(context.params["algo"])
    for name in ("contexts", "eval_contexts"):
        if isinstance(values.get(name), str):  # another value of a file is refused with the settings
            confirm_many(f"--{name.replace('_', '-')}", read_contexts(values[name]), yes)
    with terminal_console() as console, console.status("preparing …"):  # which imports RLlib
        if resume and out is not None and not (values.get("env") and RunFolder(out).blank):
            job = Job.existing(out, values)
        else:
            settings = Settings(**values)
            job = _new_job(settings) if out is None else Job.new(settings, out)
    raise typer.Exit(_run(job))


def given_settings(
    options: Mapping[str, Any], assignments: Sequence[str], lr: str | None, config: Path | None
) -> dict[str, Any]:
    """Returns the settings that a user has given. The command line overrides a config file."""
    settings = {} if config is None else read_config_file(config)
    overrides: dict[str, Any] = {**settings.pop("set", {}), **parse_assignments(assignments)}
    if lr is not None:
        if any(one.partition("=")[0].strip() == "lr" for one in assignments):
            raise envoi.EnvoiError("lr is set twice, by --lr and by --set lr=…; give one of them")
        overrides["lr"] = f"grid_search([{lr}])" if "," in lr else lr
    return {**settings, **options} | ({"set": overrides} if overrides else {})


def _new_job(settings: Settings) -> Job:
    """Makes a job in a folder such as `runs/cartpole-v1-ppo`, with a number at the end if that folder is taken."""
    env = settings.env
    kept = [c if c.isalnum() or c in "-_" else "-" for c in env.partition(":")[2] or env]
    name = f"{''.join(kept).strip('-')}-{settings.algo}".lower()
    for number in itertools.count(1):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            with suppress(FolderTaken):  # by a job that started a moment earlier
                return Job.new(settings, path)
    raise AssertionError


def _run(job: Job) -> int:
    """Runs a job with live progress, and prints its result."""
    folder = job.folder
    with terminal_console() as console:
        began, before = time.monotonic(), sum(state.env_steps for state in job.states.values())
        try:
            _introduce(console, job, before)
            with working(console, patience=0, plain=True, hint="   Ctrl-C saves and stops") as show:
                show("starting Ray")
                outcome = job.run(
                    observe=lambda report: show(_progress(report, len(job.states)), report.state.reached is not None),
                    quiet=True,
                )
        except KeyboardInterrupt:
            held = "the last checkpoint is kept; " if folder.checkpoint.exists() else ""
            console.print(f"[bold]interrupted[/bold]; {held}{_resume_hint(folder)}")
            return 130
        for note in outcome.notes[len(job.notes) :]:
            console.print(f"{_NOTE} {escape(note)}")
        console.print(_conclusion(outcome, time.monotonic() - began, before > 0))
        if outcome.interrupted:
            return 130
        return 0 if outcome.best is not None and outcome.learned else 1


def _resume_hint(folder: RunFolder) -> str:
    return f"continue with: envoi train --resume --out {escape(str(folder.path))}"


def _conclusion(outcome: Outcome, seconds: float, resumed: bool) -> str:
    """Returns the last line: the result, the output folder, and how to continue."""
    folder, path = outcome.folder, escape(str(outcome.folder.path))
    if outcome.best is None and outcome.interrupted:
        return f"nothing was learned yet; {_resume_hint(folder)}"
    if outcome.best is None:
        settings, minutes = outcome.settings, outcome.settings.stop_minutes or 0.0
        goals = {"--stop-return": settings.stop_return, "--stop-steps": settings.stop_steps}
        goals["--stop-minutes"] = max(5, 2 * minutes)  # a stop that is given replaces all earlier ones
        options = "".join(f" {name} {goal!r}" for name, goal in goals.items() if goal is not None)
        why = f"{minutes:g} min passed before the first iteration ended, so nothing was learned"
        return f"[bold]out of time[/bold]: {why}; {_resume_hint(folder)}{options}"
    state = outcome.states[outcome.best]
    if not outcome.learned and not outcome.interrupted:
        return (
            f"[bold]nothing was learned[/bold]: {state.env_steps:,} env steps, and no update of a policy; "
            f"{_resume_hint(folder)} --stop-steps {max(10 * state.env_steps, 10_000)}"
        )
    trial = outcome.settings.trials[outcome.best]
    which = ""
    if len(outcome.states) > 1:
        lr = (state.overrides or trial.overrides).get("lr")
        rate = f", lr {lr:g}" if isinstance(lr, float) else ""
        which = f" by the best of {len(outcome.states)} trials (seed {trial.seed}{rate})"
    mean = "no episode ended" if state.return_mean is None else f"mean return {state.return_mean:.4g}"
    took = duration(seconds) + (" of this call" if resumed else "")
    done = f"{mean} after {state.env_steps:,} env steps in {took}{which}; saved in {path}"
    if state.reached is not None:
        verb = "reached" if state.reached.startswith("mean return") else "done with"
        return f"[bold green]{verb}[/bold green] {done}; see it with: envoi evaluate {path}"
    verb = "interrupted" if outcome.interrupted else "out of time"
    return f"[bold]{verb}[/bold] at {done}; {_resume_hint(folder)}"


def _introduce(console: Console, job: Job, before: int) -> None:
    settings = job.settings
    console.print(
        f"[bold]{settings.algo}[/bold] on [bold]{escape(settings.env)}[/bold] "
        f"until {settings.goal}, into {escape(str(job.folder.path))}"
        + (f", continuing from {before:,} env steps" if before else "")
    )
    for note in job.notes:
        console.print(f"{_NOTE} {escape(note)}")


def _progress(report: Report, trials: int) -> str:
    which = f"trial {report.trial.index}: " if trials > 1 else ""
    return (
        f"{which}return {_number(report.state.return_mean)}, best {_number(report.state.best)}, "
        f"{report.state.env_steps:,} env steps, {report.steps_per_second:,.0f}/s"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
