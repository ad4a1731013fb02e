"""The models inside of what is tested: one agent, several, and lanes, with everything random that can be."""

from typing import Any, NamedTuple

import numpy as np
import small_models

import envoi

Walk, Flock = small_models.Walk, small_models.Flock


class BoxWalk(Walk):
    """The walk with one continuous action."""

    action_spec = envoi.Array((), "float64", -1, 1)


class BoxFlock(Flock):
    """The walks with one continuous action each."""

    action_spec = BoxWalk.action_spec


class HerdState(NamedTuple):
    time: int
    noise: float
    ends: tuple[int, ...]  # the step in which each agent ends
    ways: tuple[int, ...]  # 0: terminated, 1: truncated, 2: both


class Herd(envoi.MultiModel):
    """Three agents that end at random times, each in its own way; one joins in the second step. One has a mask."""

    possible_agents: Any = ("zoe", "adam", "mia")
    observation_spec = dict.fromkeys(possible_agents, Walk.observation_spec)
    action_spec: Any = dict.fromkeys(possible_agents, Walk.action_spec)
    context_space = Walk.context_space

    def initial(self, rng, context):
        return HerdState(
            0, rng.random(), tuple(rng.integers(2, 8, 3).tolist()), tuple(rng.integers(3, size=3).tolist())
        )

    def transition(self, state, actions, rng):
        return state._replace(time=state.time + 1, noise=rng.random() + sum(map(float, actions.values())))

    def observe(self, state, agent, rng):
        return {"position": np.array([state.noise, rng.random()]), "time": np.int64(state.time)}

    def reward(self, state, actions, next_state):
        return dict.fromkeys(self.possible_agents, -(next_state.noise**2))

    def _ended(self, state, ways):
        at = enumerate(self.possible_agents)
        return [agent for i, agent in at if state.time == state.ends[i] and state.ways[i] in ways]

    def terminal(self, state):
        return self._ended(state, (0, 2))

    def truncated(self, state):
        return self._ended(state, (1, 2))

    def live(self, state):
        at = enumerate(self.possible_agents)
        return [agent for i, agent in at if state.time < state.ends[i] and (agent != "mia" or state.time)]

    def discount(self, state):
        return {"zoe": 0.5} if state.time % 2 else None

    def info(self, state):
        return {"zoe": {"time": state.time, "word": (None, "odd")[state.time % 2]}, "__common__": {"time": state.time}}

    def mask(self, state, agent):
        return np.array([1, 0, state.time % 2], np.int8) if agent == "zoe" else None


class TurnHerd(Herd):
    """The agents act one after the other."""

    def turn(self, state):
        playing = self.live(state)
        return (playing[state.time % len(playing)],) if playing else ()


class BoxHerd(Herd):
    """The agents with one continuous action each."""

    action_spec = dict.fromkeys(Herd.possible_agents, BoxWalk.action_spec)

    def mask(self, state, agent):
        return None


LANES = 3

CORES = {
    "one": {"integer": Walk, "box": BoxWalk},
    "several": {"integer": Herd, "box": BoxHerd},
    "lanes": {
        "integer": lambda: envoi.batch(Walk(), LANES, compiled=False),
        "box": lambda: envoi.batch(BoxWalk(), LANES, compiled=False),
    },
    "batch": {
        "integer": lambda: envoi.batch(Flock(), LANES, compiled=False),
        "box": lambda: envoi.batch(BoxFlock(), LANES, compiled=False),
    },
}
"""The environments inside wrappers, by their kind and their actions."""
