"""Maze: find the goal in a maze that the agent only partially observes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.model import Model
from ..context import ContextSpace, UniformInteger
from ..errors import ContextError
from ..spec import Array, Discrete

SIZE, VIEW, DENSITY = 13, 5, 0.2
CELLS = SIZE * SIZE
ROWS = tuple(f"row{number}" for number in range(SIZE))
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
ARROWS = "^>v<"


class Walls(UniformInteger):
    """The walls of a row, a bit for each; in a sample, each cell is a wall with the probability `DENSITY`."""

    def sample(self, rng: np.random.Generator) -> int:
        return sum(1 << int(column) for column in np.flatnonzero(rng.random(SIZE) < DENSITY))


class MazeState(NamedTuple):
    """The walls of each row, the agent's place and heading (up, right, down, left), the goal's cell, and the steps."""

    walls: NDArray[np.int64]
    row: int
    column: int
    heading: int
    goal: int
    steps: int


class Maze(Model):
    """The mazes of unsupervised environment design (Dennis et al., 2020, arXiv:2012.02096), one for each context.

    A context gives the walls (bit c of `row3` is set for a wall in column c of row 3) and the cells of agent and goal,
    counted row by row from 0 to 168. Walls never block these two cells; if they are the same, the goal moves to the
    next cell. `level` makes a context from a text map, and `mutate` changes one, as in ACCEL.

    The actions are turn left, turn right, forward. The agent observes its heading and the 5 by 5 cells in front of it:
    it looks up from the middle of the last row. `view[0]` shows walls, including the border, and `view[1]` the goal,
    even behind walls. Reaching the goal in step t gives 1 - 0.9 · t / limit.

    Args:
        limit: The number of steps after which an episode is truncated.
    """

    observation_spec = {  # noqa: RUF012 (a spec: read, never written)
        "view": Array((2, VIEW, VIEW), "float32", 0, 1, "view"),
        "heading": Discrete(4, name="heading"),
    }
    action_spec = Discrete(3, name="turn left, turn right, forward")
    reward_spec = Array((), "float64", 0, 1, "reward")
    context_space = ContextSpace(
        [
            *[Walls(name, 0, 2**SIZE - 1, default=0) for name in ROWS],
            UniformInteger("agent", 0, CELLS - 1, default=0),
            UniformInteger("heading", 0, 3, default=1),
            UniformInteger("goal", 0, CELLS - 1, default=CELLS - 1),
        ]
    )

    def __init__(self, limit: int = 250) -> None:
        self.limit = limit

    @staticmethod
    def level(picture: str) -> dict[str, int]:
        """Makes a context from a picture: 13 lines of `#` (wall), `.`, `G` (goal), and one of `^>v<` (agent)."""
        lines, cells = picture.split(), "".join(picture.split())
        agents = [place for place, cell in enumerate(cells) if cell in ARROWS]
        if [*map(len, lines)] != [SIZE] * SIZE or (len(agents), cells.count("G")) != (1, 1):
            raise ContextError(f"level: expected {SIZE} lines of {SIZE} cells with one agent and one goal:\n{picture}")
        walls = (sum((cell == "#") << column for column, cell in enumerate(line)) for line in lines)
        context = dict(zip(ROWS, walls, strict=True))
        return {**context, "agent": agents[0], "heading": ARROWS.index(cells[agents[0]]), "goal": cells.index("G")}

    @staticmethod
    def mutate(context: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Returns a copy of a level with five changes: each adds or removes a wall, or moves the agent or goal.

        Args:
            context: The level.
            rng: The random generator.
        """
        changed = dict(context)
        for cell, kind in zip(rng.integers(CELLS, size=5).tolist(), rng.integers(4, size=5).tolist(), strict=True):
            if kind < 2:
                changed[ROWS[cell // SIZE]] ^= 1 << cell % SIZE
            else:
                changed["agent" if kind == 2 else "goal"] = cell
        return changed

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> MazeState:
        agent, goal = int(context["agent"]), int(context["goal"])
        goal = (agent + 1) % CELLS if goal == agent else goal
        walls = np.array([
            context["row0"], context["row1"], context["row2"], context["row3"], context["row4"], context["row5"],
            context["row6"], context["row7"], context["row8"], context["row9"], context["row10"], context["row11"],
            context["row12"],
        ], np.int64)  # fmt: skip
        for cell in (agent, goal):
            walls[cell // SIZE] &= ~(1 << cell % SIZE)
        return MazeState(walls, agent // SIZE, agent % SIZE, int(context["heading"]), goal, 0)

    def transition(self, state: MazeState, action: Any, rng: np.random.Generator) -> MazeState:
        walls, row, column, heading, goal, steps = state
        ahead, beside = row + int(MOVES[heading, 0]), column + int(MOVES[heading, 1])
        if action == 2 and _is_free(walls, ahead, beside):
            row, column = ahead, beside
        turn = 3 if action == 0 else 1 if action == 1 else 0
        return MazeState(walls, row, column, (heading + turn) % 4, goal, steps + 1)

    def observe(self, state: MazeState, rng: np.random.Generator) -> dict[str, Any]:
        view = np.zeros((2, VIEW, VIEW), np.float32)
        down, right = int(MOVES[state.heading, 0]), int(MOVES[state.heading, 1])
        for ahead in range(VIEW):
            for place in range(VIEW):
                side = place - VIEW // 2
                row, column = state.row + down * ahead + right * side, state.column + right * ahead - down * side
                view[0, VIEW - 1 - ahead, place] = not _is_free(state.walls, row, column)
                view[1, VIEW - 1 - ahead, place] = row * SIZE + column == state.goal and 0 <= column < SIZE
        return {"view": view, "heading": np.int64(state.heading)}

    def reward(self, state: MazeState, action: Any, next_state: MazeState) -> float:
        return 1.0 - 0.9 * next_state.steps / self.limit if self.terminal(next_state) else 0.0

    def terminal(self, state: MazeState) -> bool:
        return state.row * SIZE + state.column == state.goal

    def truncated(self, state: MazeState) -> bool:
        return state.steps >= self.limit

    def draw(self, state: MazeState) -> NDArray[np.uint8]:
        walls = state.walls[:, None, None] >> np.arange(SIZE)[:, None] & 1
        picture = np.where(walls, (60, 60, 60), (235, 235, 235)).astype(np.uint8)
        picture[state.goal // SIZE, state.goal % SIZE], picture[state.row, state.column] = (60, 160, 90), (200, 70, 60)
        return picture.repeat(16, 0).repeat(16, 1)


def _is_free(walls: NDArray[np.int64], row: int, column: int) -> bool:
    return 0 <= row < SIZE and 0 <= column < SIZE and not walls[row] >> column & 1
