"""Grid world: walk through four rooms to the goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.model import Model
from ..context import ContextSpace, UniformFloat
from ..spec import Array, Discrete, MultiDiscrete

ROOMS = """
#############
#.....#.....#
#.....#.....#
#...........#
#.....#.....#
#.....#.....#
##.####.....#
#.....###.###
#.....#.....#
#.....#.....#
#...........#
#.....#.....#
#############
"""
WALLS = np.array([list(row) for row in ROOMS.split()]) == "#"
FREE = np.argwhere(~WALLS)
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])


class GridState(NamedTuple):
    """Row and column of the agent and of the goal, and the probability to slip."""

    row: int
    column: int
    goal_row: int
    goal_column: int
    slip: float


class GridWorld(Model):
    """The four rooms of Sutton, Precup and Singh (1999), with a new goal each episode; reward 1 at the goal.

    The actions are up, right, down, left. With probability `slip` (from the context), a random action replaces it.
    """

    observation_spec = {  # noqa: RUF012 (a spec: read, never written)
        "agent": MultiDiscrete(WALLS.shape, name="agent"),
        "goal": MultiDiscrete(WALLS.shape, name="goal"),
    }
    action_spec = Discrete(4, name="direction")
    reward_spec = Array((), "float64", 0, 1, "reward")
    context_space = ContextSpace([UniformFloat("slip", 0, 1, default=0.0)])

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> GridState:
        goal = int(rng.integers(len(FREE)))
        agent = (goal + int(rng.integers(1, len(FREE)))) % len(FREE)  # anywhere but at the goal
        return GridState(
            int(FREE[agent, 0]), int(FREE[agent, 1]), int(FREE[goal, 0]), int(FREE[goal, 1]), float(context["slip"])
        )

    def transition(self, state: GridState, action: Any, rng: np.random.Generator) -> GridState:
        slips, other = rng.random() < state.slip, int(rng.integers(4))
        move = other if slips else int(action)
        row, column = state.row + int(MOVES[move, 0]), state.column + int(MOVES[move, 1])
        return state if WALLS[row, column] else state._replace(row=row, column=column)

    def observe(self, state: GridState, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        return {"agent": np.array([state.row, state.column]), "goal": np.array([state.goal_row, state.goal_column])}

    def reward(self, state: GridState, action: Any, next_state: GridState) -> float:
        return 1.0 if self.terminal(next_state) else 0.0

    def terminal(self, state: GridState) -> bool:
        return state.row == state.goal_row and state.column == state.goal_column

    def draw(self, state: GridState) -> NDArray[np.uint8]:
        picture = np.where(WALLS[..., None], (60, 60, 60), (235, 235, 235)).astype(np.uint8)
        picture[state.goal_row, state.goal_column], picture[state.row, state.column] = (60, 160, 90), (200, 70, 60)
        return picture.repeat(16, 0).repeat(16, 1)
