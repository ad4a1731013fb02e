"""Core environments as subjects: every wrapper over every kind of environment, and every kind of batch."""

from functools import partial

import numpy as np
from hypothesis import strategies as st
from machine import Subject
from small_models import Diary
from traces import spoil
from walks import CORES, TurnHerd

import envoi
from envoi.lane_values import stack

# Calls: ("reset", seed, options, mask), ("step", seed of the action, how, restart), ("pause", seed, lanes),
# ("sample",), ("generator", seed).

SEEDS = st.none() | st.integers(0, 3) | st.sampled_from([2**40, -1, 1.5, "1"])
OPTIONS = st.none() | st.just((("at", 0.5),)) | st.just((("drift", 0.125),)) | st.sampled_from([(("drift", 9.0),), ()])
HOW = st.sampled_from(["right", "right", "right", "right", "too few"])


def calls(lanes):
    """Returns the strategy of calls of an environment of so many lanes, or of None."""
    seeds, masks, restarts, pauses = SEEDS, st.none(), st.none(), ()
    if lanes is not None:
        some = st.lists(st.booleans(), min_size=lanes, max_size=lanes).map(tuple)
        masks = st.none() | some | st.just((True,))
        restarts = st.just("ended") | st.just("ended") | st.just("ended") | masks
        seeds |= st.lists(st.none() | st.integers(0, 9), min_size=lanes - 1, max_size=lanes).map(tuple)
        pauses = (st.tuples(st.just("pause"), st.integers(0, 9), some),)
    reset = st.tuples(st.just("reset"), seeds, OPTIONS, masks)
    step = st.tuples(st.just("step"), st.integers(0, 9), HOW, restarts)
    generator = st.tuples(st.just("generator"), st.integers(0, 3))
    return st.one_of(reset, step, step, step, step, step, *pauses, st.just(("sample",)), generator)


def play(env, call):
    """Makes a call of `calls`; what it passed on is emptied afterwards, as callers may."""
    kind, *rest = call
    if kind == "reset":
        seed, options, mask = rest
        given = None if options is None else dict(options)
        result = env.reset(seed=seed, options=given, **({} if mask is None else {"mask": np.array(mask)}))
        assert given is None or tuple(given.items()) == options
        if given is not None:
            given.clear()
        return result
    if kind == "step":
        seed, how, restart = rest
        action = action_for(env, seed, how)
        result = env.step(action) if restart is None else env.step(action, np.array(restart))
        spoil(action)
        return result
    if kind == "pause":
        return env.step(action_for(env, rest[0]), hold=~np.array(rest[1]))
    if kind == "sample":
        return env.sample_actions() if isinstance(env, envoi.MultiEnv) else env.sample_action()
    env.rng = np.random.default_rng(rest[0])
    return None


def action_for(env, seed, how="right"):
    """Returns a random action; one with `how="too few"` lacks an agent or a lane, where there are several."""
    rng = np.random.default_rng(seed)
    if isinstance(env, envoi.MultiEnv):
        return {agent: envoi.sample(env.action_spec[agent], rng) for agent in env.acting[how == "too few" :]}
    if env.batch_size is None:
        return envoi.sample(env.action_spec, rng)
    each = [envoi.sample(env.action_spec, rng) for _ in range(env.batch_size - (how == "too few"))]
    return stack(env.action_spec, each)


ONE = {"state": lambda env: env.state, "observation": lambda env: env.observation, "render": lambda env: env.render()}
SEVERAL = {
    "state": lambda env: env.state,
    "agents": lambda env: (env.agents, env.acting),
    "observations": lambda env: {agent: env.observation(agent) for agent in env.agents},
    "observation of one": lambda env: env.observation(env.possible_agents[-1]),
    "render": lambda env: env.render(),
}


def subject(make, **others):
    """Returns the subject of a core environment."""
    env = make()
    several = isinstance(env, envoi.MultiEnv)
    lanes = None if several else env.batch_size
    env.close()
    return Subject(make, play, calls(lanes), SEVERAL if several else ONE, lanes=lanes, **others)


# Wrappers, made as a user would; those that need nothing but an environment are here by themselves.


class Homing(envoi.GoalReplay):
    """The goal is where the agent is."""

    by_lane = True

    def desired(self, observation):
        return observation["position"]

    def achieved(self, observation):
        return observation["position"]

    def with_goal(self, observation, goal):
        return {**observation, "position": goal}


def low(state, action, next_state):
    """A termination of one agent, of all together, or of lanes."""
    return next_state.noise < 0 if hasattr(next_state, "noise") else next_state.position[..., 0] < -1


def times(state):
    return np.asarray(state.time, np.int64)


def ignored(profile):
    pass


DRIFTS = [{"drift": 0.5}, {"drift": -0.5}, {"drift": 0.0}]
FLAT = partial(envoi.FlattenObservation, dtype="float64")
WRAPPERS = {
    "ActionClip": ("box", envoi.ActionClip),
    "ActionDiscretize": ("box", lambda env: envoi.ActionDiscretize(env, 5)),
    "ActionRepeat": ("integer", lambda env: envoi.ActionRepeat(env, 2)),
    "Contextual": ("integer", lambda env: envoi.Contextual(env, DRIFTS, dict_observation_space=True)),
    "Diary": ("integer", Diary),
    "Diary by lane": ("integer", lambda env: Diary(env, by_lane=True)),
    "ExtraDisabledActions": ("integer", lambda env: envoi.ExtraDisabledActions(env, 2)),
    "FixedLength": ("integer", lambda env: envoi.FixedLength(env, 4)),
    "FlattenAction": ("box", envoi.FlattenAction),
    "FlattenObservation": ("integer", FLAT),
    "GoalReplay": ("integer", Homing),
    "History": ("integer", lambda env: envoi.History(env, 3, include_actions=True)),
    "ObservationFilter": ("integer", lambda env: envoi.ObservationFilter(FLAT(env), [2, 0])),
    "PerformanceProfiler": ("integer", lambda env: envoi.PerformanceProfiler(env, ignored, 3)),
    "Represented": (
        "integer",
        lambda env: envoi.Represented(env, state=envoi.Representation(times, envoi.Array((), "int64"))),
    ),
    "Terminated": ("integer", lambda env: envoi.Terminated(env, low)),
    "TimeLimit": ("integer", lambda env: envoi.TimeLimit(env, 3)),
    "five of them": (
        "box",
        lambda env: envoi.Validated(
            envoi.History(envoi.TimeLimit(envoi.RunStats(envoi.ActionDiscretize(env, 5)), 4), 2)
        ),
    ),
}
"""By name, the actions inside and the wrapper."""

NO_WRAPPERS = ("Representation", "ValidatedMulti")  # a function; and what `Validated` of several agents is

for _name in envoi.wrappers.__all__:
    if _name not in (*WRAPPERS, *NO_WRAPPERS):
        WRAPPERS[_name] = ("integer", getattr(envoi.wrappers, _name))


def wrapped(name, kind):
    """Returns an environment of a kind in a wrapper."""
    actions, wrap = WRAPPERS[name]
    return wrap(CORES[kind][actions]())


SUBJECTS = {
    **{f"{kind}, {actions}": partial(subject, make) for kind, each in CORES.items() for actions, make in each.items()},
    **{
        f"{name} of {kind}": partial(subject, partial(wrapped, name, kind))
        for name in sorted(WRAPPERS)
        for kind in CORES
    },
    "agents in turn": partial(subject, TurnHerd),
    "agents as lanes": partial(subject, lambda: envoi.AgentLanes(envoi.models.RockPaperScissors())),
}
