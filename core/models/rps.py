"""Repeated rock, paper, scissors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..batching.multi_model_batch import MultiBatchModel
from ..context import ContextSpace, UniformInteger
from ..spec import Array, Discrete

PLAYERS = ("player_0", "player_1")
NONE = 3
"""The observation before the first round."""
GAINS = np.array([0.0, 1.0, -1.0])
"""The reward of the first player, by the difference of the choices modulo 3."""


class RpsState(NamedTuple):
    """The last choices (0 rock, 1 paper, 2 scissors, 3 none yet), the number of finished rounds, and that of all.

    The choices are of shape (2,). In a batch of n lanes, each has a leading axis of n.
    """

    choices: Any
    round: Any
    rounds: Any


class RockPaperScissors(MultiBatchModel):
    """The zero-sum game with simultaneous choices.

    Each player observes the last choice of the other; the last round truncates both.
    """

    possible_agents = PLAYERS
    observation_spec = dict.fromkeys(PLAYERS, Discrete(4, name="the other's choice"))
    action_spec = dict.fromkeys(PLAYERS, Discrete(3, name="choice"))
    reward_spec = dict.fromkeys(PLAYERS, Array((), "float64", -1, 1, "reward"))
    context_space = ContextSpace([UniformInteger("rounds", 1, 10_000, default=15)])

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int | None = None) -> RpsState:
        lanes = () if size is None else (size,)
        return RpsState(np.full((*lanes, 2), NONE), np.int64(np.zeros(lanes)), np.int64(context["rounds"]))

    def transition(self, state: RpsState, actions: Mapping[Any, Any], rng: np.random.Generator) -> RpsState:
        choices = np.array([actions[player] for player in PLAYERS], np.int64).T
        return RpsState(choices, state.round + 1, state.rounds)

    def observe(self, state: RpsState, agent: str, rng: np.random.Generator) -> Any:
        return state.choices[..., 1 - PLAYERS.index(agent)][()]  # a scalar, where there are no lanes

    def reward(self, state: RpsState, actions: Mapping[Any, Any], next_state: RpsState) -> dict[str, Any]:
        first, second = (next_state.choices[..., index][()] for index in range(2))
        gain = GAINS[(first - second) % 3]
        return {PLAYERS[0]: gain, PLAYERS[1]: -gain}

    def terminal(self, state: RpsState) -> bool:
        return False

    def truncated(self, state: RpsState) -> Any:
        return state.round >= state.rounds
