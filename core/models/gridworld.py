"""Grid world: walk through four rooms to the goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..batching.batch_model import BatchModel
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
    """Row and column of the agent and of the goal, each of shape (n, 2), and the probability to slip, (n,)."""

    agent: NDArray[np.int64]
    goal: NDArray[np.int64]
    slip: NDArray[np.float64]


class GridWorld(BatchModel):
    """The four rooms of Sutton, Precup and Singh (1999), with a new goal each episode; reward 1 at the goal.

    The actions are up, right, down, left. With the probability `slip` of the context, a random one replaces the action.
    """

    observation_spec = {  # noqa: RUF012 (a spec: read, never written)
        "agent": MultiDiscrete(WALLS.shape, name="agent"),
        "goal": MultiDiscrete(WALLS.shape, name="goal"),
    }
    action_spec = Discrete(4, name="direction")
    reward_spec = Array((), "float64", 0, 1, "reward")
    context_space = ContextSpace([UniformFloat("slip", 0, 1, default=0.0)])

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> GridState:
        goal = rng.integers(len(FREE), size=size)
        agent = (goal + rng.integers(1, len(FREE), size=size)) % len(FREE)  # anywhere but at the goal
        return GridState(FREE[agent], FREE[goal], np.asarray(context["slip"], np.float64))

    def transition(self, state: GridState, action: Any, rng: np.random.Generator) -> GridState:
        lanes = np.shape(state.slip)
        slips, other = rng.random(lanes) < state.slip, rng.integers(4, size=lanes)
        target = state.agent + MOVES[np.where(slips, other, action)]
        blocked = WALLS[target[..., 0], target[..., 1]]
        return state._replace(agent=np.where(blocked[..., None], state.agent, target))

    def observe(self, state: GridState, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        return {"agent": state.agent.copy(), "goal": state.goal.copy()}

    def reward(self, state: GridState, action: Any, next_state: GridState) -> NDArray[np.float64]:
        return self.terminal(next_state).astype(np.float64)

    def terminal(self, state: GridState) -> NDArray[np.bool_]:
        return (state.agent == state.goal).all(-1)

    def draw(self, state: GridState) -> NDArray[np.uint8]:
        picture = np.where(WALLS[..., None], (60, 60, 60), (235, 235, 235)).astype(np.uint8)
        picture[tuple(state.goal)], picture[tuple(state.agent)] = (60, 160, 90), (200, 70, 60)
        return picture.repeat(16, 0).repeat(16, 1)
