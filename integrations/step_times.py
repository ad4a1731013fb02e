"""Times of a step of one environment, in every form, for `envoi bench`.

All forms play the same actions from the same seed, so their cost beyond the environment itself is a difference of two
times in one round. Rounds are interleaved, and times are those of the thread's CPU, so other programs disturb them
little.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import envoi
from envoi import BatchEnv, Env, MultiEnv, SpecError
from envoi.adapters import FRAMEWORKS, TARGETS, convert
from envoi.adapters.registry import home
from envoi.errors import nearest
from envoi.lane_values import stack

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


@dataclass(frozen=True)
class StepTime:
    """The time of a step in one form.

    Attributes:
        form: The form, with its number of lanes if it has several.
        ns: Nanoseconds a step of one lane, resets included, in each round.
        added: The same beyond the base, in each round.
        refused: Why there are no times; empty otherwise.
    """

    form: str
    ns: list[float] = field(default_factory=list[float])
    added: list[float] = field(default_factory=list[float])
    refused: str = ""


@dataclass(frozen=True)
class _Player:
    """Plays a form: `step` takes an action (with `stacks`, of all lanes), and `over` says if it ended the episode."""

    step: Callable[[Any], Any]
    over: Callable[[Any], Any]
    reset: Callable[[], Any]
    begin: Callable[[], Any]
    lanes: int = 1
    stacks: bool = False

    def play(self, actions: Sequence[Any]) -> None:
        step, over, reset = self.step, self.over, self.reset
        for action in actions:
            if over(step(action)):
                reset()


def step_times(
    make: Callable[[], Env | MultiEnv],
    forms: Sequence[str] | None = None,
    *,
    rounds: int = 9,
    lanes: int = 16,
    show: Callable[[str], None] = lambda text: None,
) -> list[StepTime]:
    """Measures a step of an environment in its own API, in the core and in every form."""
    for name in forms or ():
        if name not in TARGETS:
            raise envoi.UnknownName(f"forms: {name}: no such framework; {nearest(name, TARGETS)}")
    if rounds < 2 or lanes < 1:
        raise SpecError(f"rounds, lanes: expected at least 2 rounds and 1 lane, got {rounds} and {lanes}")
    known = [name for name in TARGETS if FRAMEWORKS[name].is_installed] if forms is None else forms
    refused: list[StepTime] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of narrowed numbers, which `losses` lists
        core: Any = make()
        players = {"core": _core_player(core)}
        actions = _actions(core, players["core"])
        source = getattr(core, "source", None)
        row = None if source is None or core.batch_size is not None else home(source)
        if row is not None and (row.name in _OVER or isinstance(core, MultiEnv)):
            players = {f"{row.name}, the source": _player(row.name, make().source), **players}  # pyright: ignore[reportAttributeAccessIssue]
        for name in known:
            show(f"making the form of {name}")
            why = _why_not(core, name)
            try:
                players |= {} if why else _players(make, core, name, lanes)
            except envoi.EnvoiError as error:
                refused.append(StepTime(name, refused=str(error).splitlines()[0]))
            if why and forms is not None:
                refused.append(StepTime(name, refused=why))
        found = {name: StepTime(name) for name in players}
        for number in range(rounds + 1):  # the first warms up
            for name, player in players.items():
                show(f"round {number} of {rounds}: {name}")
                some = actions if player.lanes == 1 else actions[: max(8, len(actions) // player.lanes)]
                if player.stacks:
                    some = [stack(core.action_spec, [action] * player.lanes) for action in some]
                player.begin()
                start = time.thread_time_ns()
                player.play(some)
                if number:
                    found[name].ns.append((time.thread_time_ns() - start) / len(some) / player.lanes)
    base = next(iter(found.values())).ns
    for result in found.values():
        result.added.extend(own - bare for own, bare in zip(result.ns, base, strict=True))
    return [*found.values(), *refused]


def _why_not(core: Any, name: str) -> str:
    """Returns why an environment has no row of a form; empty where it may have one."""
    if name == "pettingzoo_aec":
        return "its steps are turns, which compare with no other form"
    if isinstance(core, MultiEnv) != (name == "pettingzoo"):
        return f"measured for environments of {'several agents' if name == 'pettingzoo' else 'one agent'} only"
    return ""


def _core_player(env: Any) -> _Player:
    if isinstance(env, MultiEnv):
        return _agents_player(env, lambda: env.acting)
    if not isinstance(env, BatchEnv):
        return _Player(env.step, _OVER["core"], env.reset, partial(env.reset, seed=0))
    over: Any = None

    def step(action: Any) -> None:
        nonlocal over
        result = env.step(action, over)
        over = result.terminated | result.truncated

    return _Player(step, lambda step: False, env.reset, partial(env.reset, seed=0), env.batch_size)


def _agents_player(env: Any, acting: Callable[[], Any]) -> _Player:
    return _Player(
        lambda action: env.step({agent: action[agent] for agent in acting()}),
        lambda step: not env.agents,
        env.reset,
        partial(env.reset, seed=0),
    )


def _players(make: Callable[[], Any], core: Any, name: str, lanes: int) -> dict[str, _Player]:
    """Returns the players of a form, by title; with one lane and with several where a form is of many lanes."""
    n = None if isinstance(core, MultiEnv) else core.batch_size
    if n is None and FRAMEWORKS[name].only_lanes:
        titles = {f"{name}, {count} {'lane' if count == 1 else 'lanes'}": count for count in dict.fromkeys((1, lanes))}
        return {title: _player(name, convert(envoi.batch(make, n), name), n, True) for title, n in titles.items()}
    form = convert(make(), name)
    form = form() if name == "rllib" else form  # an `EnvCreator`
    return {name: _player(name, form)} if n is None else {f"{name}, {n} lanes": _player(name, form, n)}


def _player(name: str, form: Any, lanes: int = 1, stacks: bool = False) -> _Player:
    if name == "pettingzoo":
        return _agents_player(form, lambda: form.agents)

    def begin() -> None:
        if name == "sb3":
            form.seed(0)
        form.reset(**({"seed": 0} if "gymnasium" in name or name == "rllib" else {}))

    over = _OVER[name] if lanes == 1 and not stacks else lambda step: False
    return _Player(form.step, over, form.reset, begin, lanes, stacks)


def _actions(core: Any, player: _Player) -> list[Any]:
    """Returns random actions for about `ROUND` seconds; those of agents that act in a game are legal."""
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
