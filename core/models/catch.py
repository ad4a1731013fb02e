"""Catch: move the paddle under the falling ball."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.model import Model
from ..spec import Array, Discrete

ROWS, COLUMNS = 10, 5


class CatchState(NamedTuple):
    """The ball's row and column, and the paddle's column."""

    row: int
    ball: int
    paddle: int


class Catch(Model):
    """bsuite's catch (Osband et al., 2020): the ball falls one row per step; +1 for catching it, -1 for missing it."""

    observation_spec = Array((ROWS, COLUMNS), "float32", 0, 1, "board")
    action_spec = Discrete(3, name="action")  # left, stay, right
    reward_spec = Array((), "float64", -1, 1, "reward")

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> CatchState:
        return CatchState(0, int(rng.integers(COLUMNS)), COLUMNS // 2)

    def transition(self, state: CatchState, action: Any, rng: np.random.Generator) -> CatchState:
        return CatchState(state.row + 1, state.ball, min(max(state.paddle + int(action) - 1, 0), COLUMNS - 1))

    def observe(self, state: CatchState, rng: np.random.Generator) -> NDArray[np.float32]:
        board = np.zeros((ROWS, COLUMNS), np.float32)
        board[state.row, state.ball] = 1
        board[ROWS - 1, state.paddle] = 1
        return board

    def reward(self, state: CatchState, action: Any, next_state: CatchState) -> float:
        if next_state.row < ROWS - 1:
            return 0.0
        return 1.0 if next_state.ball == next_state.paddle else -1.0

    def terminal(self, state: CatchState) -> bool:
        return state.row == ROWS - 1

    def draw(self, state: CatchState) -> NDArray[np.uint8]:
        board = self.observe(state, np.random.default_rng(0)).astype(np.uint8) * 255
        return board.repeat(16, 0).repeat(16, 1)[..., None].repeat(3, -1)
