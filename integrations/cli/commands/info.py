"""The commands `envoi envs`, `info` and `check`: the names of envs, what one is, and whether it is right."""

from __future__ import annotations

import difflib
import pickle
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.columns import Columns
from rich.table import Table
from rich.text import Text

import envoi
from envoi.adapters import SCHEMES, TARGETS, load, losses, names_of
from envoi.adapters.shared.exported import inside, several_agents
from envoi.batching.loop import why_interpreted
from envoi.batching.model_lanes import ModelLanes
from envoi.compiling.choice import has_numba
from envoi.context.features import text_of
from envoi.spec.base import frozen
from envoi.tree import leaves
from envoi.wrapping.wrapper import Wrapper

from ...errors import one_line
from ..app import EnvName, Json, command, framework_names, output_console, print_json, whole, working
from .render import Watched, play_at_random

STEPS = 20
LONGEST = 160
"""The most characters of the text of a spec."""


@command("info")
def _info(env: EnvName, json: Json = False) -> None:
    """Show an env: its specs, its seeds, and its losses in each framework."""
    with one_line():
        made = load(env)
        try:
            facts, lost, seeds = _facts(made), _losses(made), _seeds(made)
        finally:
            made.close()
    if json:
        rows = {key: [{"of": of, "is": text} if of else text for of, text in rows] for key, rows in facts.items()}
        print_json({"env": env, **rows, "seeds": seeds, "losses": lost})
        return
    console = output_console()
    console.print(Text(env, style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    for name, rows in facts.items():
        for index, (of, text) in enumerate(rows):
            table.add_row("" if index else name, Text(f"{of}: {text}" if of else text))
    table.add_row("seeds", Text(seeds, style="red" if "two different" in seeds else ""))
    console.print(table)
    console.print()
    table = Table("framework", "losses", box=None, pad_edge=False, header_style="dim")
    for target, lines in _common_first(lost).items():
        table.add_row(target, _loss_text(lines))
    console.print(table)


def _common_first(lost: Mapping[str, list[str] | str]) -> dict[str, list[str] | str]:
    """Lists losses that all frameworks share, such as a missing seed, once, under "all", before the other losses.

    If only one framework is installed, its losses stay under its name.
    """
    lists = [lines for lines in lost.values() if not isinstance(lines, str)]
    common = [line for line in lists[0] if all(line in lines for lines in lists)] if len(lists) > 1 else []
    rest = {
        target: lines if isinstance(lines, str) else [line for line in lines if line not in common]
        for target, lines in lost.items()
    }
    return {"all": common, **rest} if common else rest


def _loss_text(lines: list[str] | str) -> Text:
    """Returns the losses in a framework as text. Losses that differ only in the path, such as the agent, share a line.

    For a framework that is not installed, `lines` is a text with the command that installs it.
    """
    if isinstance(lines, str):
        return Text(lines, style="dim", overflow="fold")
    paths: dict[str, list[str]] = {}
    for line in lines:
        path, _, loss = line.partition(": ")
        paths.setdefault(loss, []).append(path)
    text = "\n".join(f"{', '.join(of)}: {loss}" for loss, of in paths.items())
    return Text(text or "nothing", style="" if lines else "green", overflow="fold")


def _facts(env: envoi.Env | envoi.MultiEnv) -> dict[str, list[tuple[str, str]]]:
    """Returns facts about an env by topic: rows with the name of a part, which may be empty, and its description."""
    facts: dict[str, list[tuple[str, str]]] = {}
    if isinstance(env, envoi.MultiEnv):
        facts["agents"] = [("", ", ".join(map(str, env.possible_agents)))]
    for name in ("observation", "action", "reward", "discount"):
        spec = getattr(env, f"{name}_spec")
        shares = _shares(spec) if isinstance(env, envoi.MultiEnv) else [("", spec)]
        facts[name] = [
            (" ".join(filter(None, (agents, path))), text)
            for agents, share in shares
            for path, text in describe_specs(share, name)
        ]
    facts["state"] = [("", "not described")] if env.state_spec is None else describe_specs(env.state_spec, "state")
    space = getattr(env, "context_space", None)
    if space is not None:
        facts["context"] = [(n, f"{f}, {text_of(f.default_value)} by default") for n, f in space.features.items()]
    limit = _time_limit(env)
    if limit is not None:
        facts["episode"] = [("", f"at most {limit:,} steps")]
    facts["lanes"] = [("", _lanes(env))]
    modes = ", ".join(env.metadata.get("render_modes", ())) or "none"
    rate = env.metadata.get("render_fps")
    facts["rendering"] = [
        ("", f"{modes}; {rate:g} frame{'' if rate == 1 else 's'} a second" if rate and modes != "none" else modes)
    ]
    return facts


def _time_limit(env: Any) -> int | None:
    """Returns the number of steps after which an env truncates its episodes, or None if that is unknown."""
    holders = [holder for layer in chain(*inside(env)) for holder in (layer, getattr(layer, "spec", None))]
    limits = [getattr(holder, "max_episode_steps", None) for holder in holders]
    return min((limit for limit in limits if isinstance(limit, int)), default=None)


def _lanes(env: envoi.Env | envoi.MultiEnv) -> str:
    """Describes how a batch of the env steps its lanes, and why."""
    if isinstance(env, envoi.MultiEnv):
        return "interpreted: several agents"
    try:
        batch: Any = envoi.batch(env, 2)
    except envoi.EnvoiError as error:
        return f"one at a time: {error}"
    while isinstance(batch, Wrapper):
        batch = batch.env
    if isinstance(batch, envoi.ModelBatch):
        return f"in numpy: {why_interpreted(batch.model)}"
    if isinstance(batch, ModelLanes):
        reason = batch.obstacle()
        return "compiled, once that is worth the time" if not reason else f"interpreted: {reason}"
    if isinstance(getattr(batch, "envs", (None,))[0], envoi.Model) and not has_numba():
        return "interpreted: numba is not installed; pip install 'envoi[numba]'"
    return "a loop: only models are compiled"


def _shares(specs: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Returns each spec once, with the names of its agents. If all agents share one spec, the names are left out."""
    shares: dict[Any, tuple[list[str], Any]] = {}
    for agent, spec in specs.items():
        shares.setdefault(frozen(spec), ([], spec))[0].append(str(agent))
    if len(shares) == 1:
        return [("", spec) for _, spec in shares.values()]
    return [(", ".join(agents), spec) for agents, spec in shares.values()]


def _seeds(env: envoi.Env | envoi.MultiEnv) -> str:
    checked = envoi.ValidatedMulti(several_agents(env))
    first, again, other = (_trace(checked, seed) for seed in (0, 0, 1))
    if first != again:
        return "the same seed gave two different episodes"
    if first == other:
        return "the same seed gives the same episode; seeds 0 and 1 give the same one too"
    return "the same seed gives the same episode, another seed another one"


def _trace(env: envoi.MultiEnv, seed: int) -> list[bytes]:
    """Returns the first steps of an episode, pickled; the actions depend only on the seed."""
    trace: list[bytes] = []

    def note(env: Any, action: Any, result: Any) -> None:
        trace.append(pickle.dumps(result[: 1 if action is None else 2]))  # observations and rewards

    play_at_random(Watched(envoi.TimeLimit(env, STEPS), note), range(seed, seed + 1))
    return trace


def _losses(env: envoi.Env | envoi.MultiEnv) -> dict[str, list[str] | str]:
    """Returns the losses in each framework, or the reason why they are unknown."""
    lost: dict[str, list[str] | str] = {}
    for target in TARGETS:
        try:
            lost[target] = [str(loss) for loss in losses(env, target)]
        except envoi.MissingBackend as error:
            lost[target] = str(error)
    return lost


def describe_specs(specs: Any, name: str) -> list[tuple[str, str]]:
    """Returns the path and a description of each leaf of nested specs."""
    found: list[tuple[str, str]] = []
    for path, spec in leaves(specs, name):
        text = str(spec)
        found.append((path.removeprefix(name), text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"))
    return found


def _plain(text: str) -> str:
    return text.lower().replace("_", "-")


@command("envs")
def _envs(
    words: Annotated[
        str,
        typer.Argument(help="Words that a name must contain, such as cartpole.", metavar="TEXT", show_default=False),
    ] = "",
    json: Json = False,
) -> None:
    """List the envs that can be loaded: envoi's models, and those of the installed frameworks.

    Envs of your own are loaded as python:module:factory.
    """
    known: dict[str, Sequence[str]] = {}
    missing: dict[str, str] = {}
    with working() as show:
        for scheme in sorted(SCHEMES, key=lambda scheme: (scheme != "envoi", scheme == "python", scheme)):
            show(f"looking for envs of {scheme}")
            try:
                known[scheme] = names_of(scheme)
            except envoi.MissingBackend as error:
                missing[scheme] = str(error)
    parts = _plain(words).split()
    found = {scheme: [name for name in names if all(map(_plain(name).count, parts))] for scheme, names in known.items()}
    if words and not any(found.values()):
        raise envoi.UnknownName(f"no env has a name with {words!r}; {_near(words, known)}")
    if json:
        print_json([name for names in found.values() for name in names])
        return
    console = output_console()
    for scheme, names in found.items():
        if names:
            console.print(Text(f"{scheme}  ({len(names):,})", style="bold"))
            console.print(Columns(map(Text, _folded(names)), padding=(0, 2)))
    if not words:
        for scheme, why in missing.items():
            console.print(Text(f"{scheme}  ({why})", style="dim"))
        console.print(Text("python  (python:module:factory loads an env of your own)", style="dim"))


def _near(words: str, known: Mapping[str, Sequence[str]]) -> str:
    """Returns a hint with the names that are most similar to some words."""
    by_name: dict[str, list[str]] = {}
    for name in (name for names in known.values() for name in names):
        by_name.setdefault(name.partition(":")[2].lower(), []).append(name)
    near = [name for word in difflib.get_close_matches(words.lower(), by_name, 3, 0.5) for name in by_name[word]]
    return f"did you mean {' or '.join(map(repr, near[:3]))}?" if near else "`envoi envs` lists all"


def _folded(names: Sequence[str]) -> list[str]:
    """Merges names that differ only in the number after the last slash, such as `bsuite:catch/0…19`."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        head, slash, number = name.rpartition("/")
        if number.isdigit():
            numbers.setdefault(head + slash, []).append(int(number))
        else:
            numbers[name] = []
    return [
        head + (f"{min(found)}…{max(found)}" if len(found) > 1 else "".join(map(str, found)))
        for head, found in numbers.items()
    ]


# The command `envoi check`.

_STYLES = {"✓": "green", "✗": "bold red", "!": "yellow", "failed": "bold red", "remark": "yellow", "narrowed": "yellow"}
"""The styles of marks, and of the words that lines begin with."""

_file: Any = partial(typer.Option, metavar="FILE", show_default=False, dir_okay=False)


@command("check")
def _check(
    env: EnvName,
    frameworks: Annotated[
        str | None,
        typer.Option(
            help="The frameworks whose forms to check, such as gymnasium,dm_env; none for the env alone.",
            show_default="all that are installed",
            metavar="NAME[,NAME…]",
            autocompletion=framework_names,
        ),
    ] = None,
    seed: Annotated[int, whole("The checks use the seeds after this one.")] = 0,
    episodes: Annotated[int, whole("Episodes of each rollout.")] = 3,
    steps: Annotated[int, whole("Most steps of an episode.")] = 1000,
    json: Annotated[Path | None, _file(help="Write the report as JSON too.")] = None,
    html: Annotated[Path | None, _file(help="Write the report as a page too.")] = None,
    junit: Annotated[Path | None, _file(help="Write the report as JUnit XML too.")] = None,
) -> None:
    """Check an env: its values, seeds and episodes, its form in each framework, and the frameworks' own suites.

    The exit code is 1 if a check failed. In a test of your own, call `check_env` of `envoi.integrations.check`.
    """
    from ...check import check_env  # slow to import

    for path in filter(None, (json, html, junit)):
        if not path.absolute().parent.is_dir():
            raise envoi.EnvoiError(f"{path}: there is no folder {path.parent}")
    chosen = None if frameworks is None else [name.strip() for name in frameworks.split(",") if name.strip()]
    chosen = [] if chosen == ["none"] else chosen
    done = count(1)
    try:
        with one_line(), working(plain=True) as show:
            progress: Any = lambda subject, key: show(f"checking {subject}: {key} ({next(done)} checks)")  # noqa: E731
            report = check_env(env, frameworks=chosen, seed=seed, episodes=episodes, steps=steps, progress=progress)
    except KeyboardInterrupt:  # of which typer makes an exit without a word
        sys.stderr.write("envoi: interrupted\n")
        raise typer.Exit(130) from None
    console = output_console()
    body, _, conclusion = report.to_text(console.width).rpartition("\n")
    text = Text(body)
    for word, style in _STYLES.items():
        text.highlight_regex(rf"(?m)^{word}(?=  )" if word.isalpha() else rf"(?<!\S){word}(?!\S)", style)
    console.print(text, soft_wrap=True)
    for path, write in ((json, report.write_json), (html, report.write_html), (junit, report.write_junit)):
        if path is not None:
            write(path)
            console.print(Text(f"written to {path}", style="dim"), soft_wrap=True)
    console.print(Text(conclusion, style="bold green" if report.passed else "bold red"), soft_wrap=True)
    raise typer.Exit(0 if report.passed else 1)
