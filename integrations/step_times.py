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
from typing import Any

import numpy as np

import envoi
from envoi import BatchEnv, Env, MultiEnv, SpecError
from envoi.adapters import FRAMEWORKS, TARGETS, convert
from envoi.adapters.registry import home
from envoi.errors import nearest
from envoi.lane_values import stack
from envoi.protocol.fast_steps import fast_multi_step

ROUND = 0.15
"""Seconds of CPU time that a form has in each round, about."""
MOST = 5000
"""The most actions of a round."""


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
        core = make()
        players = _bases(make)
        for name in known:
            show(f"making the form of {name}")
            why = _why_not(core, name)
            try:
                players |= {} if why else _players(make, core, name, lanes)
            except envoi.EnvoiError as error:
                refused.append(StepTime(name, refused=str(error).splitlines()[0]))
            if why and forms is not None:
                refused.append(StepTime(name, refused=why))
        base = next(iter(players.values()))
        actions = _legal_actions(core) if isinstance(core, MultiEnv) else _actions(core, base)
        return [*_measured(players, actions, core, rounds, show), *refused]


def _measured(
    players: dict[str, _Player], actions: list[Any], core: Any, rounds: int, show: Callable[[str], None]
) -> list[StepTime]:
    found = {name: StepTime(name) for name in players}
    for number in range(rounds + 1):  # the first warms up
        for name, player in players.items():
            show(f"round {number} of {rounds}: {name}")
            some = actions if player.lanes == 1 else actions[: max(8, len(actions) // player.lanes)]
            if player.stacks:
                some = _stacked(core.action_spec, some, player.lanes)
            player.begin()
            start = time.thread_time_ns()
            player.play(some)
            if number:
                found[name].ns.append((time.thread_time_ns() - start) / len(some) / player.lanes)
    base = next(iter(found.values())).ns
    for result in found.values():
        result.added.extend(own - bare for own, bare in zip(result.ns, base, strict=True))
    return list(found.values())


def _stacked(spec: Any, actions: Sequence[Any], lanes: int) -> list[Any]:
    """Returns as many actions of all lanes, each made of those of one."""
    size = len(actions)
    return [stack(spec, [actions[(7 * row + 13 * lane) % size] for lane in range(lanes)]) for row in range(size)]


def _actions(core: Env, base: _Player) -> list[Any]:
    """Returns random actions, as many as the base takes in about `ROUND` seconds."""
    core.reset(seed=0)
    few = [core.sample_action() for _ in range(50)]
    base.begin()
    start = time.thread_time()
    base.play(few)
    each = max(time.thread_time() - start, 1e-7) / len(few)
    return few * max(1, min(MOST // len(few), int(ROUND / each / len(few))))


def _legal_actions(core: MultiEnv) -> list[Any]:
    """Returns random actions of a game for about `ROUND` seconds, those of agents that act as their masks allow."""
    start, rng, spec, found = time.thread_time(), np.random.default_rng(0), core.action_spec, list[Any]()
    infos = core.reset(seed=0).infos
    while len(found) < 50 or (len(found) < MOST and time.thread_time() - start < ROUND):
        acting = core.sample_actions(infos)
        found.append({agent: envoi.sample(spec[agent], rng) for agent in core.possible_agents} | acting)
        infos = core.step(acting).infos
        if not core.agents:
            infos = core.reset().infos
    return found


_OVER: dict[str, Callable[[Any], Any]] = {
    "gymnasium": lambda step: step[2] or step[3],
    "gymnasium_vector": lambda step: False,
    "dm_env": lambda step: step.last(),
    "tf_agents": lambda step: step.is_last(),
    "pettingzoo": lambda step: False,
    "rllib": lambda step: step[2] or step[3],
    "sb3": lambda step: False,
}
"""By framework. PettingZoo's AEC is left out, whose steps are turns, and RLlib's environments of many lanes or agents,
on which its own runner spends many times as long."""


def _bases(make: Callable[[], Any]) -> dict[str, _Player]:
    """Returns players of the source that was imported, if there is one, and of the core."""
    env: Any = make()
    source = getattr(make(), "source", None)
    row = None if source is None or getattr(env, "batch_size", None) is not None else home(source)
    found = {f"{row.name}, the source": _player(row.name, source)} if row and row.name in _OVER else {}
    begin = lambda: env.reset(seed=0)  # noqa: E731
    if isinstance(env, MultiEnv):
        core = _agents_player(env, fast_multi_step(env), lambda: env.acting)
    elif isinstance(env, BatchEnv):
        over: Any = None

        def step(action: Any) -> None:
            nonlocal over
            result = env.step(action, over)
            over = result.terminated | result.truncated

        core = _Player(step, lambda step: False, env.reset, begin, env.batch_size)
    else:
        core = _Player(env.step, lambda step: step.terminated or step.truncated, env.reset, begin)
    return {**found, "core": core}


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
        return _agents_player(form, form.step, lambda: form.agents)

    def begin() -> None:
        if name == "sb3":
            form.seed(0)
        form.reset(**({"seed": 0} if "gymnasium" in name or name == "rllib" else {}))

    over = _OVER[name] if lanes == 1 else _OVER["gymnasium_vector"]  # lanes restart themselves
    return _Player(form.step, over, form.reset, begin, lanes, stacks)


def _agents_player(env: Any, step: Callable[[Any], Any], acting: Callable[[], Any]) -> _Player:
    return _Player(
        lambda action: step({agent: action[agent] for agent in acting()}),
        lambda step: not env.agents,
        env.reset,
        lambda: env.reset(seed=0),
    )


def _why_not(core: Any, name: str) -> str:
    """Returns why an environment has no row of a form; empty where it has one."""
    if name not in _OVER:
        return "its steps are turns, which compare with no other form"
    if isinstance(core, MultiEnv) and name != "pettingzoo":
        return "measured for environments of one agent only"
    if not isinstance(core, MultiEnv) and name == "pettingzoo":
        return "for environments of several agents"
    return "not measured for batches" if name == "rllib" and isinstance(core, BatchEnv) else ""
