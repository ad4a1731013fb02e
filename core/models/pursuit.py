"""Pursuit: two hunters chase a prey over a torus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.multi_model import MultiModel
from ..context import ContextSpace, UniformFloat, UniformInteger
from ..spec import Array, Discrete

HUNTERS = ("hunter_0", "hunter_1")
PREY = "prey"
AGENTS = (*HUNTERS, PREY)
SIZE = 9
"""The sides of the torus."""
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1], [0, 0]])
"""Up, right, down, left, stay; only the prey may stay."""
OTHERS = {agent: [other for other in range(len(AGENTS)) if AGENTS[other] != agent] for agent in AGENTS}
"""The indices of the agents that each agent observes."""


class PursuitState(NamedTuple):
    """Rows and columns of `AGENTS`, of shape (3, 2); the step, the largest number of steps, the chance to stumble."""

    places: Any
    step: Any
    limit: Any
    stumble: Any


class Pursuit(MultiModel):
    """Benda's pursuit game (1985) with two hunters, all moving simultaneously.

    Each agent observes the positions of the others relative to itself. A hunter in the prey's cell catches it: the
    hunters share a reward of 1, the prey gets -1, and the episode ends. Until then, the prey gets 0.01 per step. With
    probability `stumble` (a context feature), the prey does not move.
    """

    possible_agents = AGENTS
    observation_spec = dict.fromkeys(AGENTS, Array((2, 2), "int64", -(SIZE // 2), SIZE // 2, "offsets of the others"))
    action_spec = dict.fromkeys(HUNTERS, Discrete(4, name="move")) | {PREY: Discrete(5, name="move or stay")}
    reward_spec = dict.fromkeys(HUNTERS, Array((), "float64", 0, 0.5, "reward")) | {
        PREY: Array((), "float64", -1, 0.01, "reward")
    }
    state_spec = PursuitState(
        Array((3, 2), "int64", 0, SIZE - 1, "places"),
        Array((), "int64", 0, name="step"),
        Array((), "int64", 1, name="limit"),
        Array((), "float64", 0, 1, "stumble"),
    )
    context_space = ContextSpace(
        [UniformFloat("stumble", 0, 1, default=0.2), UniformInteger("max_steps", 1, 10_000, default=100)]
    )

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> PursuitState:
        fields = rng.random(SIZE * SIZE).argsort()[: len(AGENTS)]  # all on different fields
        places = np.stack(np.divmod(fields, SIZE), -1).astype(np.int64)
        return PursuitState(places, np.int64(0), np.int64(context["max_steps"]), np.float64(context["stumble"]))

    def transition(self, state: PursuitState, actions: Mapping[Any, Any], rng: np.random.Generator) -> PursuitState:
        moves = MOVES[[actions[agent] for agent in AGENTS]]
        if rng.random() < state.stumble:
            moves[-1] = 0
        return state._replace(places=(state.places + moves) % SIZE, step=state.step + 1)

    def observe(self, state: PursuitState, agent: str, rng: np.random.Generator) -> NDArray[np.int64]:
        offsets = state.places[OTHERS[agent]] - state.places[AGENTS.index(agent)]
        return (offsets + SIZE // 2) % SIZE - SIZE // 2

    def reward(self, state: PursuitState, actions: Mapping[Any, Any], next_state: PursuitState) -> dict[str, float]:
        if self.terminal(next_state):
            return {**dict.fromkeys(HUNTERS, 0.5), PREY: -1.0}
        return {**dict.fromkeys(HUNTERS, 0.0), PREY: 0.01}

    def terminal(self, state: PursuitState) -> bool:
        return bool((state.places[:-1] == state.places[-1]).all(-1).any())

    def truncated(self, state: PursuitState) -> bool:
        return state.step >= state.limit

    def draw(self, state: PursuitState) -> NDArray[np.uint8]:
        picture = np.full((SIZE, SIZE, 3), 235, np.uint8)
        for place, color in zip(state.places, ((70, 110, 200), (60, 160, 90), (200, 70, 60)), strict=True):
            picture[tuple(place)] = color
        return picture.repeat(16, 0).repeat(16, 1)
