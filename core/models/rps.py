"""Repeated rock, paper, scissors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..authoring.multi_model import MultiModel
from ..context import ContextSpace, UniformInteger
from ..spec import Array, Discrete

PLAYERS = ("player_0", "player_1")
NONE = 3
"""The observation before the first round."""
GAINS = (0.0, 1.0, -1.0)
"""The reward of the first player, by the difference of the choices modulo 3."""


class RpsState(NamedTuple):
    """The last choices (0 rock, 1 paper, 2 scissors, 3 none yet), the rounds played, and the rounds of a game."""

    choices: tuple[int, int]
    round: int
    rounds: int


class RockPaperScissors(MultiModel):
    """The zero-sum game with simultaneous choices.

    Each player observes the other's last choice. The last round truncates both players.
    """

    possible_agents = PLAYERS
    observation_spec = dict.fromkeys(PLAYERS, Discrete(4, name="the other's choice"))
    action_spec = dict.fromkeys(PLAYERS, Discrete(3, name="choice"))
    reward_spec = dict.fromkeys(PLAYERS, Array((), "float64", -1, 1, "reward"))
    context_space = ContextSpace([UniformInteger("rounds", 1, 10_000, default=15)])

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> RpsState:
        return RpsState((NONE, NONE), 0, int(context["rounds"]))

    def transition(self, state: RpsState, actions: Mapping[Any, Any], rng: np.random.Generator) -> RpsState:
        first, second = (int(actions[player]) for player in PLAYERS)
        return RpsState((first, second), state.round + 1, state.rounds)

    def observe(self, state: RpsState, agent: str, rng: np.random.Generator) -> np.int64:
        return np.int64(state.choices[1 - PLAYERS.index(agent)])

    def reward(self, state: RpsState, actions: Mapping[Any, Any], next_state: RpsState) -> dict[str, float]:
        gain = GAINS[(next_state.choices[0] - next_state.choices[1]) % 3]
        return {PLAYERS[0]: gain, PLAYERS[1]: -gain}

    def terminal(self, state: RpsState) -> bool:
        return False

    def truncated(self, state: RpsState) -> bool:
        return state.round >= state.rounds
