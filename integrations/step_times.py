"""Times of a step of one environment, in every form, for `envoi bench`.

All forms play the same actions from the same seed, so their cost beyond the environment itself is a difference of two
times in one round. Rounds are interleaved, and times are those of the thread's CPU, so other programs disturb them
little.
"""

from __future__ import annotations

import importlib.util
import statistics
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

Play = Callable[[Sequence[Any]], None]
"""Takes all of some actions, one after the other, and resets where an episode ends."""

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

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The quartiles of `added`, the median in the middle."""
        low, middle, high = statistics.quantiles(self.added, n=4)
        return low, middle, high

    @property
    def median(self) -> float:
        """The median of `ns`."""
        return statistics.median(self.ns)


@dataclass(frozen=True)
class _Timed:
    """A form to measure.

    Attributes:
        play: Plays it.
        reset: Begins an episode by the seed 0.
        lanes: The number of lanes that step by one action.
    """

    play: Play
    reset: Callable[[], Any]
    lanes: int = 1


def step_times(
    make: Callable[[], Env | MultiEnv],
    forms: Sequence[str] | None = None,
    *,
    rounds: int = 9,
    lanes: int = 16,
    show: Callable[[str], None] = lambda text: None,
) -> list[StepTime]:
    """Measures a step of an environment in its own API, in the core and in every form.

    Args:
        make: Makes the environment, the same at each call.
        forms: The names of frameworks; None for all that are installed.
        rounds: The number of interleaved rounds, at least 2.
        lanes: The number of lanes in forms of many lanes.
        show: Called with what is measured now.

    Returns:
        The times. The first is the base: the source by its own API, if it is an environment of gymnasium or dm_env,
        else the core.

    Raises:
        UnknownName: There is no such form.
        SpecError: A number is too small.
    """
    for name in forms or ():
        if name not in TARGETS:
            raise envoi.UnknownName(f"forms: {name}: no such framework; {nearest(name, TARGETS)}")
    if rounds < 2 or lanes < 1:
        raise SpecError(f"rounds, lanes: expected at least 2 rounds and 1 lane, got {rounds} and {lanes}")
    known = [name for name in TARGETS if _is_installed(name)] if forms is None else list(forms)
    timed: dict[str, _Timed] = {}
    refused: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of narrowed numbers, which `losses` lists
        core = make()
        timed.update(_bases(make, core))
        for name in known:
            show(f"making the form of {name}")
            try:
                found = _form(make, core, name, lanes)
                timed.update(found)
                if not found and forms is not None:
                    refused[name] = _why_not(core, name)
            except envoi.EnvoiError as error:
                refused[name] = str(error).splitlines()[0]
        actions = _actions(core, timed[next(iter(timed))])
        return [
            *_measured(timed, actions, rounds, show),
            *(StepTime(name, refused=why) for name, why in refused.items()),
        ]


def _is_installed(name: str) -> bool:
    row = FRAMEWORKS[name]
    return row.stands_alone or importlib.util.find_spec(row.package) is not None


def _measured(timed: dict[str, _Timed], actions: list[Any], rounds: int, show: Callable[[str], None]) -> list[StepTime]:
    found = {name: StepTime(name) for name in timed}
    for number in range(rounds + 1):  # the first warms up
        for name, one in timed.items():
            some = actions if one.lanes == 1 else actions[: max(8, len(actions) // one.lanes)]
            show(f"round {number} of {rounds}: {name}")
            one.reset()
            start = time.thread_time_ns()
            one.play(some)
            if number:
                found[name].ns.append((time.thread_time_ns() - start) / len(some) / one.lanes)
    base = found[next(iter(timed))].ns
    for result in found.values():
        result.added.extend(own - bare for own, bare in zip(result.ns, base, strict=True))
    return list(found.values())


def _actions(core: Env | MultiEnv, base: _Timed) -> list[Any]:
    """Returns random actions, as many as the base takes in about `ROUND` seconds."""
    if isinstance(core, MultiEnv):
        return _legal_actions(core)
    core.reset(seed=0)
    few = [core.sample_action() for _ in range(50)]
    base.reset()
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


def _bases(make: Callable[[], Any], core: Any) -> dict[str, _Timed]:
    found: dict[str, _Timed] = {}
    source = getattr(make(), "source", None)
    row = None if source is None or _lanes_of(core) is not None else home(source)
    if row is not None and row.name in _PLAYERS:
        found[f"{row.name}, the source"] = _PLAYERS[row.name](source)
    own = make()
    if isinstance(own, MultiEnv):
        found["core"] = _multi_core(own)
    else:
        found["core"] = _batch_core(own) if isinstance(own, BatchEnv) else _core(own)
    return found


def _form(make: Callable[[], Any], core: Any, name: str, lanes: int) -> dict[str, _Timed]:
    """Returns the players of a form, by title; with one lane and with several where a form is of many lanes."""
    is_multi, n = isinstance(core, MultiEnv), _lanes_of(core)
    if name not in _PLAYERS or is_multi is not (name == "pettingzoo") or (name == "rllib" and n is not None):
        return {}
    if n is None and FRAMEWORKS[name].only_lanes:
        titles = {f"{name}, {count} {'lane' if count == 1 else 'lanes'}": count for count in dict.fromkeys((1, lanes))}
        return {
            title: _PLAYERS[name](convert(envoi.batch(make, count), name), count, core.action_spec)
            for title, count in titles.items()
        }
    form = convert(make(), name)
    form = form() if name == "rllib" else form  # an `EnvCreator`
    return {name: _PLAYERS[name](form)} if n is None else {f"{name}, {n} lanes": _PLAYERS[name](form, n)}


def _why_not(core: Any, name: str) -> str:
    """Returns why an environment has no row of a form."""
    if name not in _PLAYERS:
        return "its steps are turns, which compare with no other form"
    if isinstance(core, MultiEnv):
        return "measured for environments of one agent only"
    return "for environments of several agents" if name == "pettingzoo" else "not measured for batches"


def _lanes_of(core: Any) -> int | None:
    return None if isinstance(core, MultiEnv) else core.batch_size


# Players. Each is the loop that a user of the framework would write.


def _core(env: Env) -> _Timed:
    def play(actions: Sequence[Any]) -> None:
        for action in actions:
            step = env.step(action)
            if step.terminated or step.truncated:
                env.reset()

    return _Timed(play, lambda: env.reset(seed=0))


def _batch_core(env: BatchEnv) -> _Timed:
    def play(actions: Sequence[Any]) -> None:
        over: Any = None
        for action in actions:
            step = env.step(action, over)
            over = step.terminated | step.truncated

    return _Timed(play, lambda: env.reset(seed=0), env.batch_size)


def _multi_core(env: MultiEnv) -> _Timed:
    step = fast_multi_step(env)

    def play(actions: Sequence[Any]) -> None:
        for action in actions:
            step({agent: action[agent] for agent in env.acting})
            if not env.agents:
                env.reset()

    return _Timed(play, lambda: env.reset(seed=0))


def _gymnasium(env: Any) -> _Timed:
    def play(actions: Sequence[Any]) -> None:
        step = env.step
        for action in actions:
            _, _, terminated, truncated, _ = step(action)
            if terminated or truncated:
                env.reset()

    return _Timed(play, lambda: env.reset(seed=0))


def _dm_env(env: Any) -> _Timed:
    def play(actions: Sequence[Any]) -> None:
        step = env.step
        for action in actions:
            if step(action).last():
                env.reset()

    return _Timed(play, env.reset)


def _tf_agents(env: Any, n: int = 1, spec: Any = None) -> _Timed:
    def play(actions: Sequence[Any]) -> None:
        step = env.step
        for action in actions:
            if n == 1 and step(action).is_last():
                env.reset()
            elif n > 1:
                step(action)  # it resets its lanes itself

    return _Timed(play, env.reset, n)


def _gymnasium_vector(env: Any, n: int = 1, spec: Any = None) -> _Timed:
    def play(actions: Sequence[Any]) -> None:
        step = env.step
        for action in actions:
            step(action)

    return _stacked(_Timed(play, lambda: env.reset(seed=0), n), spec)


def _sb3(env: Any, n: int = 1, spec: Any = None) -> _Timed:
    def reset() -> None:
        env.seed(0)
        env.reset()

    return _stacked(_Timed(_gymnasium_vector(env).play, reset, n), spec)


def _stacked(timed: _Timed, spec: Any) -> _Timed:
    """Returns a player of many lanes that takes the actions of one, of which it makes actions of all.

    It makes them once, in the round that warms up.
    """
    made: list[Any] = []

    def play(actions: Sequence[Any]) -> None:
        if not made:
            size, lanes = len(actions), range(timed.lanes)
            made.extend(stack(spec, [actions[(7 * row + 13 * lane) % size] for lane in lanes]) for row in range(size))
        timed.play(made)

    return timed if spec is None else _Timed(play, timed.reset, timed.lanes)


def _pettingzoo(env: Any) -> _Timed:
    def play(actions: Sequence[Any]) -> None:
        for action in actions:
            env.step({agent: action[agent] for agent in env.agents})
            if not env.agents:
                env.reset()

    return _Timed(play, lambda: env.reset(seed=0))


_PLAYERS: dict[str, Callable[..., _Timed]] = {
    "gymnasium": _gymnasium,
    "gymnasium_vector": _gymnasium_vector,
    "dm_env": _dm_env,
    "tf_agents": _tf_agents,
    "sb3": _sb3,
    "pettingzoo": _pettingzoo,
    "rllib": _gymnasium,
}
"""By framework. PettingZoo's AEC is left out, whose steps are turns, and RLlib's environments of many lanes or agents,
on which its own runner spends many times as long."""
