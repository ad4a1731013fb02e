"""Every form reports its episodes to a curriculum, with no callback of the user."""

import numpy as np
import pytest
from small_models import Corridor

import envoi
from envoi import adapters
from envoi.curricula import PrioritizedLevelReplay

pytestmark = pytest.mark.filterwarnings("ignore:.*precision narrowed")  # of rewards, which the sums here do not show

STEPS = 60


class March(Corridor):
    """Walks on whatever the action, and is paid for how far it is."""

    def transition(self, state, action, rng):
        return super().transition(state, 1, rng)

    def reward(self, state, action, next_state):
        return float(state[0])


class Logged(PrioritizedLevelReplay):
    """Keeps the episodes that are reported to it."""

    def __init__(self):
        super().__init__(seed=4)
        self.rows = []

    def tell(self, episodes):
        self.rows += episodes
        super().tell(episodes)


def gymnasium(env):
    form = adapters.to_gymnasium(env)
    form.reset(seed=0)
    for _ in range(STEPS):
        _, _, terminated, truncated, _ = form.step(0)
        if terminated or truncated:
            form.reset()


def dm_env(env):
    form = adapters.to_dm_env(env)
    form.reset()
    for _ in range(2 * STEPS):
        form.step(0)


def pettingzoo(env):
    form = adapters.to_pettingzoo(envoi.as_multi(env))
    form.reset(seed=0)
    for _ in range(STEPS):
        form.step(dict.fromkeys(form.agents, 0))
        if not form.agents:
            form.reset()


def vector(env, lanes=1):
    form = adapters.to_gymnasium_vector(envoi.batch(env, lanes))
    form.reset(seed=0)
    for _ in range(2 * STEPS):
        form.step(np.zeros(lanes, int))


def sb3(env, lanes=1):
    form = adapters.to_sb3(envoi.batch(env, lanes))
    form.reset()
    for _ in range(2 * STEPS):
        form.step(np.zeros(lanes, int))


def rllib(env):
    form = adapters.to_rllib(envoi.as_multi(env))({})
    form.reset(seed=0)
    for _ in range(STEPS):
        *_, terminated, truncated, _ = form.step(dict.fromkeys(form.agents, 0))
        if terminated["__all__"] or truncated["__all__"]:
            form.reset()


def plain(env):
    env.reset(seed=0)
    for _ in range(STEPS):
        step = env.step(0)
        if step.terminated or step.truncated:
            env.reset()


def episodes(play, **arguments):
    """The context, return and length of each episode that a form reports, and what the curriculum then chooses by."""
    curriculum = Logged()
    contexts = {length: {"length": length} for length in range(2, 9)}
    env = envoi.Contextual(March(), contexts, context_selector=curriculum, hide_context=True)
    play(envoi.TimeLimit(env, 6), **arguments)
    rows = [
        (row["context_id"], row["return"], row["length"], row["terminated"], row["lane"]) for row in curriculum.rows
    ]
    return rows, curriculum


@pytest.mark.parametrize("play", [gymnasium, dm_env, pettingzoo, vector, sb3, rllib])
def test_every_form_gives_the_sequence_of_a_plain_loop(play):
    expected, _ = episodes(plain)
    assert len(expected) >= 10
    assert {length for _, _, length, *_ in expected} == {2, 3, 4, 5, 6}
    found, _ = episodes(play)
    n = min(len(found), len(expected))
    assert n >= 10
    assert found[:n] == expected[:n]


@pytest.mark.parametrize("play", [vector, sb3])
def test_lanes_share_the_curriculum(play):
    rows, curriculum = episodes(play, lanes=4)
    assert curriculum.statistics["episodes"].sum() == len(rows)
    assert {lane for *_, lane in rows} == {0, 1, 2, 3}
    assert all(length == min(context, 6) for context, _, length, *_ in rows)
