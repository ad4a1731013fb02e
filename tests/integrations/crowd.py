"""A random game: agents join, wait, end in every way and hand over, each lane differently."""

from typing import Any, NamedTuple

import numpy as np

import envoi

AGENTS = ("zoe", "adam", 0, "bob")  # which do not sort


class CrowdState(NamedTuple):
    """The agents in play, those that ended in this step and how, the turn, and what they see and get."""

    step: int
    playing: tuple[Any, ...]
    gone: tuple[Any, ...] = ()
    terminated: tuple[Any, ...] = ()
    truncated: tuple[Any, ...] = ()
    turn: tuple[Any, ...] | None = None
    rewards: dict[Any, float] = {}
    noise: float = 0.0


class Crowd(envoi.MultiModel):
    """Args: the chances that an agent ends or joins in a step; if agents take turns; the longest episode."""

    possible_agents = AGENTS
    observation_spec = dict.fromkeys(AGENTS, envoi.Array((3,), "float32"))
    action_spec = dict.fromkeys(AGENTS, envoi.Discrete(3, start=1))

    def __init__(self, ends=0.1, joins=0.2, turns=False, longest=12, reals=False):
        self.ends, self.joins, self.turns, self.longest = ends, joins, turns, longest
        if reals:
            self.action_spec = dict.fromkeys(AGENTS, envoi.Array((2,), "float32", -2, 3))

    def initial(self, rng, context):
        playing = tuple(a for a in AGENTS if rng.random() < 0.6) or AGENTS[:1]
        return CrowdState(0, playing, turn=self.next_turn(playing, rng), noise=rng.random())

    def next_turn(self, playing, rng):
        if not self.turns or not playing:
            return () if self.turns else None
        return tuple(a for a in playing if rng.random() < 0.4) or (playing[int(rng.integers(len(playing)))],)

    def transition(self, state, actions, rng):
        last = state.step + 1 >= self.longest
        fate = {a: rng.random() < self.ends or last for a in state.playing}
        how = {a: int(rng.integers(3)) for a in state.playing}
        terminated = tuple(a for a in state.playing if fate[a] and how[a] in (0, 2))
        truncated = tuple(a for a in state.playing if fate[a] and how[a] in (1, 2))
        gone = (*state.gone, *(a for a in state.playing if fate[a]))
        joining = {a for a in AGENTS if a not in gone and not last and rng.random() < self.joins}
        playing = tuple(a for a in AGENTS if a not in gone and (a in joining or a in state.playing))
        acted = sum(float(np.sum(action)) for action in actions.values())
        rewards = {a: float(rng.normal()) + acted for a in AGENTS if rng.random() < 0.7}
        turn = self.next_turn(playing, rng)
        return CrowdState(state.step + 1, playing, gone, terminated, truncated, turn, rewards, rng.random())

    def observe(self, state, agent, rng):
        if agent in state.terminated and state.noise < 0.2:
            return None
        return np.array([state.noise, state.step, AGENTS.index(agent)], np.float32)

    def reward(self, state, actions, next_state):
        return next_state.rewards

    def terminal(self, state):
        return state.terminated

    def truncated(self, state):
        return state.truncated

    def live(self, state):
        return state.playing

    def info(self, state):
        return {a: {"noise": state.noise} for a in state.playing if state.noise > 0.5}


class Turns(Crowd):
    """The same, in turns."""

    def __init__(self, **arguments):
        super().__init__(**arguments, turns=True)

    def turn(self, state):
        return state.turn


def spread():
    """Three agents of PettingZoo's that act at the same time, and are truncated together."""
    from mpe2 import simple_spread_v3

    return simple_spread_v3.parallel_env(N=3, max_cycles=20)
