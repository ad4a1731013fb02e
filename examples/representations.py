"""A world of Python objects, shown to agents as arrays: as one number per cell, or as one plane per kind of thing.

python examples/representations.py
"""

from dataclasses import dataclass

import numpy as np

import envoi
from envoi.adapters import to_gymnasium

SIZE, MOVES = 4, ((0, 1), (0, -1), (1, 0), (-1, 0))


@dataclass(frozen=True)
class Room:
    """The place of the collector, and those of the coins."""

    place: tuple[int, int]
    coins: frozenset[tuple[int, int]]


class Collect(envoi.Model):
    """Collect all coins of a room; states and observations are objects."""

    observation_spec = envoi.Foreign(Room)
    action_spec = envoi.Discrete(4)

    def initial(self, rng, context):
        return Room((0, 0), frozenset(tuple(place) for place in rng.integers(1, SIZE, (5, 2)).tolist()))

    def transition(self, state, action, rng):
        row, column = np.clip(np.add(state.place, MOVES[action]), 0, SIZE - 1).tolist()
        return Room((row, column), state.coins - {(row, column)})

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return float(len(state.coins) - len(next_state.coins))

    def terminal(self, state):
        return not state.coins


def planes(room):
    """One plane for the collector, one for coins."""
    result = np.zeros((2, SIZE, SIZE), np.float32)
    for plane, places in enumerate(({room.place}, room.coins)):
        for row, column in places:
            result[plane, row, column] = 1
    return result


PLANES = envoi.Representation(planes, envoi.Array((2, SIZE, SIZE), "float32", 0, 1))
CELLS = envoi.Representation(  # 0 for nothing, 1 for a coin, 2 for the collector: categories, not quantities
    lambda room: np.where(planes(room)[0] == 1, 2, planes(room)[1].astype(int)),
    envoi.MultiDiscrete(np.full((SIZE, SIZE), 3)),
)

if __name__ == "__main__":
    env = envoi.Represented(envoi.TimeLimit(Collect(), 500), state=CELLS, observation={"planes": PLANES})
    env.reset(seed=1)
    print(f"inside: a {type(env.env.state).__name__}; outside:\n{env.state}")
    form, rng, coins, over = to_gymnasium(env), np.random.default_rng(0), 0.0, False
    form.reset(seed=1)
    while not over:
        observation, reward, terminated, truncated, _ = form.step(int(rng.integers(4)))
        coins, over = coins + reward, terminated or truncated
    print(f"{coins:.0f} coins taken, {observation['planes'][1].sum():.0f} left in a {form.observation_space['planes']}")
