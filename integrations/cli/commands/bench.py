"""The command `envoi bench`: measures a step of an environment in every form, and prints a table."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import envoi
from envoi import EnvoiError, MultiEnv, SpecError
from envoi.adapters import FRAMEWORKS, TARGETS, convert, load
from envoi.adapters.registry import framework, home
from envoi.lane_values import stack

from ...errors import check_number, one_line
from ...machine_facts import machine_facts
from ..app import EnvName, Json, command, output_console, print_json, whole, working

ROUND = 0.15
"""Seconds of CPU time that a form has in each round, about."""
FEWEST, MOST = 50, 5000
"""The fewest and the most actions of a round."""
_OVER: dict[str, Callable[[Any], Any]] = {
    "core": lambda step: step.terminated or step.truncated,
    "gymnasium": lambda step: step[2] or step[3],
    "dm_env": lambda step: step.last(),
    "tf_agents": lambda step: step.is_last(),
    "rllib": lambda step: step[2] or step[3],
}
"""The end of an episode in the result of a step, by API; lanes begin their next episode by themselves."""


@command("bench")
def _bench(
    env: EnvName,
    form: Annotated[
        list[str], typer.Option(help="A framework to measure; can be repeated.", metavar="NAME", show_default="all")
    ] = [],  # noqa: B006 (typer copies it)
    rounds: Annotated[int, whole("Interleaved rounds.")] = 9,
    lanes: Annotated[int, whole("Lanes in forms of many lanes.")] = 16,
    json: Json = False,
) -> None:
    """Measure an env: the time that each form adds to a step.

    All forms play the same actions from the same seed. Times are nanoseconds of CPU time per step of one lane, resets
    included; rounds are interleaved, and the table shows medians and quartiles.
    """
    with one_line(), working() as show:
        times, refused = step_times(partial(load, env), form or None, rounds=rounds, lanes=lanes, show=show)
    base = next(iter(times))
    added = {name: [ns - bare for ns, bare in zip(times[name], times[base], strict=True)] for name in times}
    if json:
        rows = [{"form": name, "ns": times[name], "added": added[name]} for name in times]
        rows += [{"form": name, "refused": reason} for name, reason in refused.items()]
        print_json({"env": env, "base": base, **machine_facts(), "forms": rows})
        return
    table = Table(box=None, pad_edge=False)
    for index, title in enumerate(("form", "ns a step", "added", "quartiles of added")):
        table.add_column(title, justify="right" if index else "left")
    for name in times:
        low, middle, high = statistics.quantiles(added[name], n=4)
        more = ("base", "") if name == base else (f"{middle:,.0f}", f"{low:,.0f} to {high:,.0f}")
        table.add_row(name, f"{statistics.median(times[name]):,.0f}", *more)
    console = output_console()
    console.print(table)
    for name, reason in refused.items():
        console.print(f"{name}: refused: {reason}", markup=False)


@dataclass(frozen=True)
class _Player:
    """Plays a form: `step` takes an action for all lanes, and `over` returns True if its result ends the episode."""

    step: Callable[[Any], Any]
    over: Callable[[Any], Any]
    reset: Callable[[], Any]
    begin: Callable[[], Any]
    lanes: int = 0

    def play(self, actions: Sequence[Any]) -> None:
        step, over, reset = self.step, self.over, self.reset
        for action in actions:
            if over(step(action)):
                reset()


def step_times(
    make: Callable[[], Any],
    forms: Sequence[str] | None = None,
    *,
    rounds: int = 9,
    lanes: int = 16,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Measures a step of an environment in its own API, in the core and in every form.

    Returns the nanoseconds per step and lane in each round, and why the other forms are not measured. Each round plays
    all forms and measures the thread's CPU time, so other programs disturb the results little.
    """
    for name in forms or ():
        framework(name)  # a wrong name is an error before anything else
    check_number("rounds", rounds, 2)
    check_number("lanes", lanes, 1)
    core: Any = make()
    several = isinstance(core, MultiEnv)
    if not several and core.batch_size is not None:
        raise SpecError(f"expected an environment without lanes, got a batch of {core.batch_size}")
    comparable = [name for name in TARGETS if name != "pettingzoo_aec" and several == (name == "pettingzoo")]
    players, refused = {"core": _player("core", core)}, dict[str, str]()
    times: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of narrowed numbers, which `losses` lists
        actions = _actions(core, players["core"])
        source = getattr(core, "source", None)
        row = None if source is None else home(source)
        if row is not None and (row.name == "pettingzoo" if several else row.name in _OVER):
            players = {f"{row.name}, the source": _player(row.name, make().source), **players}
        for name in forms or [name for name in comparable if FRAMEWORKS[name].is_installed]:
            show(f"making the form of {name}")
            if name not in comparable:
                refused[name] = "its steps compare with no other form of this environment"
                continue
            only_lanes = FRAMEWORKS[name].only_lanes
            try:
                form = convert(envoi.batch(make, lanes) if only_lanes else make(), name)
            except EnvoiError as error:
                refused[name] = str(error).splitlines()[0]
            else:
                form = form() if name == "rllib" else form  # an `EnvCreator`
                title = f"{name}, {lanes} lanes" if only_lanes else name
                players[title] = _player(name, form, lanes if only_lanes else 0)
        for number in range(rounds + 1):  # the first warms up
            for name, player in players.items():
                show(f"round {number} of {rounds}: {name}")
                some = actions
                if player.lanes:
                    fewer = actions[: max(8, len(actions) // lanes)]
                    some = [stack(core.action_spec, [action] * lanes) for action in fewer]
                player.begin()
                start = time.thread_time_ns()
                player.play(some)
                spent = time.thread_time_ns() - start
                if number:
                    times.setdefault(name, []).append(spent / len(some) / max(player.lanes, 1))
    return times, refused


def _player(name: str, form: Any, lanes: int = 0) -> _Player:
    if isinstance(form, MultiEnv) or name == "pettingzoo":

        def step(action: Any) -> Any:
            acting = form.acting if isinstance(form, MultiEnv) else form.agents
            return form.step({agent: action[agent] for agent in acting})

        return _Player(step, lambda step: not form.agents, form.reset, partial(form.reset, seed=0))
    seed = {"seed": 0} if "gymnasium" in name or name in ("core", "rllib") else {}

    def begin() -> Any:
        if name == "sb3":
            form.seed(0)
        return form.reset(**seed)

    return _Player(form.step, _OVER.get(name, lambda step: False), form.reset, begin, lanes)


def _actions(core: Any, player: _Player) -> list[Any]:
    """Returns random actions for about `ROUND` seconds; the actions of acting agents are legal."""
    start, rng, found = time.thread_time(), np.random.default_rng(0), list[Any]()
    last = player.begin()
    while len(found) < FEWEST or (len(found) < MOST and time.thread_time() - start < ROUND):
        if isinstance(core, MultiEnv):  # of all agents, as forms may ask those that wait for one too
            action = {agent: envoi.sample(core.action_spec[agent], rng) for agent in core.possible_agents}
            action |= core.sample_actions(last.infos)
        else:
            action = core.sample_action()
        found.append(action)
        last = player.step(action)
        if player.over(last):
            last = player.reset()
    return found
