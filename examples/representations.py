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

    observation_spec, action_spec = envoi.Foreign(Room), envoi.Discrete(4)

    def initial(self, rng, context):
        return Room((0, 0), frozenset(map(tuple, rng.integers(1, SIZE, (5, 2)).tolist())))

    def transition(self, state, action, rng):
        place = tuple(np.clip(np.add(state.place, MOVES[action]), 0, SIZE - 1).tolist())
        return Room(place, state.coins - {place})

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return float(len(state.coins) - len(next_state.coins))

    def terminal(self, state):
        return not state.coins


def cells(room):
    """0 for nothing, 1 for a coin, 2 for the collector: categories, not quantities."""
    kinds = dict.fromkeys(room.coins, 1) | {room.place: 2}
    return np.array([[kinds.get((row, column), 0) for column in range(SIZE)] for row in range(SIZE)])


CELLS = envoi.Representation(cells, envoi.MultiDiscrete(np.full((SIZE, SIZE), 3)))
PLANES = envoi.Representation(lambda room: cells(room) == [[[1]], [[2]]], envoi.Array((2, SIZE, SIZE), "bool"))

if __name__ == "__main__":
    form = to_gymnasium(envoi.Represented(Collect(), state=CELLS, observation={"planes": PLANES}))
    form.reset(seed=1)
    print(f"inside: a {type(form.core.env.state).__name__}; outside:\n{form.core.state}")
    coins = sum(form.step(action)[1] for action in (2, 0, 0, 0))  # down, then along the row
    print(f"{coins:.0f} coin taken; planes of coins and collector:\n{form.core.observation['planes'].astype(int)}")
