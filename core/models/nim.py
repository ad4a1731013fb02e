"""Nim: two players take sticks from a heap in turns; taking the last stick wins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.multi_model import MultiModel
from ..context import ContextSpace, UniformInteger
from ..spec import Array, Discrete

PLAYERS = ("first", "second")
MOST = 3
"""The largest number of sticks that a move takes."""
LARGEST = 100
"""The size of the largest heap."""


class NimState(NamedTuple):
    """The number of sticks left, the index of the player to move (0 or 1), and the index of the winner or None."""

    sticks: int
    player: int
    winner: int | None


class Nim(MultiModel):
    """Bouton's game (1901) with one heap: a move takes 1 to 3 sticks, the last stick wins, an illegal move loses.

    The action takes `action + 1` sticks. The action mask is in the info of the player who moves next.
    """

    possible_agents = PLAYERS
    observation_spec = dict.fromkeys(PLAYERS, Discrete(LARGEST + 1, name="sticks"))
    action_spec = dict.fromkeys(PLAYERS, Discrete(MOST, name="sticks to take, less one"))
    reward_spec = dict.fromkeys(PLAYERS, Array((), "float64", -1, 1, "reward"))
    context_space = ContextSpace([UniformInteger("sticks", 1, LARGEST, default=15)])

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> NimState:
        return NimState(int(context["sticks"]), 0, None)

    def transition(self, state: NimState, actions: Mapping[Any, Any], rng: np.random.Generator) -> NimState:
        taken, other = int(actions[PLAYERS[state.player]]) + 1, 1 - state.player
        if taken > state.sticks:
            return NimState(state.sticks, other, other)
        left = state.sticks - taken
        return NimState(left, other, None if left else state.player)

    def turn(self, state: NimState) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the player who moves next."""
        return (PLAYERS[state.player],)

    def mask(self, state: NimState, agent: str) -> NDArray[np.int8]:
        return (np.arange(1, MOST + 1) <= state.sticks).astype(np.int8)

    def observe(self, state: NimState, agent: str, rng: np.random.Generator) -> np.int64:
        return np.int64(state.sticks)

    def reward(self, state: NimState, actions: Mapping[Any, Any], next_state: NimState) -> dict[str, float]:
        if next_state.winner is None:
            return dict.fromkeys(PLAYERS, 0.0)
        return {player: 1.0 if index == next_state.winner else -1.0 for index, player in enumerate(PLAYERS)}

    def terminal(self, state: NimState) -> Collection[str] | bool:
        return state.winner is not None
