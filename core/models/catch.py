"""Catch: move the paddle under the falling ball."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..batching.batch_model import BatchModel
from ..spec import Array, Discrete

ROWS, COLUMNS = 10, 5


class CatchState(NamedTuple):
    """The ball's row and column and the paddle's column, each of shape (n,)."""

    row: NDArray[np.int64]
    ball: NDArray[np.int64]
    paddle: NDArray[np.int64]


class Catch(BatchModel):
    """bsuite's catch (Osband et al., 2020): the ball falls a row a step; +1 for catching it, -1 for missing it."""

    observation_spec = Array((ROWS, COLUMNS), "float32", 0, 1, "board")
    action_spec = Discrete(3, name="action")  # left, stay, right
    reward_spec = Array((), "float64", -1, 1, "reward")

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> CatchState:
        return CatchState(
            np.zeros(size, np.int64), rng.integers(COLUMNS, size=size), np.full(size, COLUMNS // 2, np.int64)
        )

    def transition(self, state: CatchState, action: Any, rng: np.random.Generator) -> CatchState:
        return CatchState(state.row + 1, state.ball, np.clip(state.paddle + action - 1, 0, COLUMNS - 1))

    def observe(self, state: CatchState, rng: np.random.Generator) -> NDArray[np.float32]:
        row, ball, paddle = (np.asarray(part)[..., None, None] for part in state)
        rows, columns = np.ogrid[:ROWS, :COLUMNS]
        falling, moving = (rows == row) & (columns == ball), (rows == ROWS - 1) & (columns == paddle)
        return (falling | moving).astype(np.float32)

    def reward(self, state: CatchState, action: Any, next_state: CatchState) -> NDArray[np.float64]:
        return np.where(self.terminal(next_state), np.where(next_state.ball == next_state.paddle, 1.0, -1.0), 0.0)

    def terminal(self, state: CatchState) -> NDArray[np.bool_]:
        return state.row == ROWS - 1

    def draw(self, state: CatchState) -> NDArray[np.uint8]:
        board = self.observe(state, np.random.default_rng(0)).astype(np.uint8) * 255
        return board.repeat(16, 0).repeat(16, 1)[..., None].repeat(3, -1)
