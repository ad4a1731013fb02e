"""Two small models with everything random in them, in both styles; their episodes end at different times."""

from typing import Any, NamedTuple

import numpy as np

import envoi


class WalkState(NamedTuple):
    position: np.ndarray
    time: Any
    drift: Any


class Walk(envoi.Model):
    """A random walk in the plane that ends far from the origin; noise in the dynamics and in what is seen."""

    observation_spec = {
        "position": envoi.Array((2,), "float64"),
        "time": envoi.Discrete(41),
    }
    action_spec = envoi.Discrete(3, start=-1)
    reward_spec = envoi.Array((), "float64", high=0, name="reward")
    state_spec = None
    context_space = envoi.ContextSpace([envoi.UniformFloat("drift", -1, 1, default=0.25)])

    def initial(self, rng, context):
        return WalkState(rng.normal(size=2) + np.asarray(context.get("at", 0)), 0, context["drift"])

    def transition(self, state, action, rng):
        return WalkState(
            state.position + 0.3 * action + rng.normal(0, 0.4, 2) + state.drift, state.time + 1, state.drift
        )

    def observe(self, state, rng):
        return {"position": state.position + rng.normal(0, 0.01, 2), "time": np.int64(state.time)}

    def reward(self, state, action, next_state):
        return -float(np.square(next_state.position).sum())

    def terminal(self, state):
        return float(np.abs(state.position).max()) > 2.5

    def truncated(self, state):
        return state.time >= 40

    def info(self, state):
        return {"time": state.time, "word": "far" if state.position[0] > 1 else None}


class Flock(envoi.BatchModel):
    """The same walk over a leading lane axis."""

    observation_spec = Walk.observation_spec
    action_spec = Walk.action_spec
    reward_spec = Walk.reward_spec
    context_space = Walk.context_space

    def initial(self, rng, context, size):
        drift = np.asarray(context["drift"], float)
        return WalkState(rng.normal(size=(size, 2)), np.zeros(size, np.int64), drift)

    def transition(self, state, action, rng):
        noise = rng.normal(0, 0.4, state.position.shape)
        moved = state.position + 0.3 * np.asarray(action)[..., None] + noise + np.asarray(state.drift)[..., None]
        return WalkState(moved, state.time + 1, state.drift)

    def observe(self, state, rng):
        return {"position": state.position + rng.normal(0, 0.01, state.position.shape), "time": state.time}

    def reward(self, state, action, next_state):
        return -np.square(next_state.position).sum(-1)

    def terminal(self, state):
        return np.abs(state.position).max(-1) > 2.5

    def truncated(self, state):
        return state.time >= 40

    def info(self, state):
        return {"time": state.time, "far": state.position[..., 0] > 1}
