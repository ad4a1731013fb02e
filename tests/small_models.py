"""Small models that several tests share: walks with everything random in them, and counters with nothing; a wrapper."""

from typing import Any, NamedTuple

import numpy as np

import envoi
import envoi.models


class WalkState(NamedTuple):
    position: np.ndarray
    time: Any
    drift: Any


class Walk(envoi.Model):
    """A random walk in the plane that ends far from the origin; noise in the dynamics and in what is seen."""

    observation_spec = {"position": envoi.Array((2,), "float64"), "time": envoi.Discrete(41)}
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


WALKS = {
    "model": Walk,
    "batch model": Flock,
    "wrapped": lambda: envoi.Validated(envoi.TimeLimit(Walk(), 7)),
    "wrapped batch model": lambda: envoi.TimeLimit(Flock(), 7),
    "lanes": lambda: envoi.batch(Walk(), 3),
    "model batch": lambda: envoi.batch(Flock(), 3),
    "wrapped lanes": lambda: envoi.TimeLimit(envoi.batch(Walk(), 3), 7),
    "wrapped batch": lambda: envoi.Validated(envoi.TimeLimit(envoi.batch(Flock(), 3), 7)),
}
"""The walk as environments of one lane and of three."""


class Count(envoi.Model):
    """Counts its steps, without chance and without an end."""

    observation_spec = envoi.Array((), "float64")
    action_spec = envoi.Discrete(2)

    def initial(self, rng, context):
        return 0

    def transition(self, state, action, rng):
        return state + 1

    def observe(self, state, rng):
        return np.float64(state)

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return False


class Sums(envoi.BatchModel):
    """Adds the actions of each lane up, without an end; rewards and ends are one answer for all lanes."""

    observation_spec, action_spec = Count.observation_spec, Count.action_spec

    def initial(self, rng, context, size):
        return np.zeros(size)

    def transition(self, state, action, rng):
        return state + action

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return False


class Carts(envoi.BatchModel):
    """A cart-pole of many lanes, simplified: dynamics without noise, ends, and features of which one matters."""

    observation_spec, action_spec = envoi.models.CartPole.observation_spec, envoi.models.CartPole.action_spec
    context_space = envoi.models.CartPole.context_space

    def initial(self, rng, context, size):
        low, high = context["initial_state_lower"], context["initial_state_upper"]
        return CartsState(rng.uniform(low, high, (4, size)).T, np.asarray(context["gravity"]))

    def transition(self, state, action, rng):
        _, speed, angle, spin = state.motion.T
        push = 20.0 * np.asarray(action) - 10.0
        change = np.array((speed, push, spin, state.gravity * np.sin(angle) - push * np.cos(angle)))
        return state._replace(motion=state.motion + 0.02 * change.T)

    def observe(self, state, rng):
        return state.motion.astype(np.float32)

    def reward(self, state, action, next_state):
        return np.square(next_state.motion[..., 0]) + action

    def terminal(self, state):
        return np.abs(state.motion[..., 2]) > 0.2


class CartsState(NamedTuple):
    motion: np.ndarray
    gravity: np.ndarray


class Corridor(envoi.Model):
    """A corridor whose end terminates; each step costs 0.5, the last one pays 1."""

    context_space = envoi.ContextSpace([envoi.UniformInteger("length", 1, 30, default=10)])
    observation_spec = envoi.Array((1,), "float32", 0, 30)
    action_spec = envoi.Discrete(2)

    def initial(self, rng, context):
        return 0, context["length"]

    def transition(self, state, action, rng):
        return state[0] + action, state[1]

    def observe(self, state, rng):
        return np.array([state[1] - state[0]], np.float32)

    def reward(self, state, action, next_state):
        return 1.0 if self.terminal(next_state) else -0.5

    def terminal(self, state):
        return state[0] == state[1]

    def info(self, state):
        return {"is_success": self.terminal(state)}


class Leaving(envoi.MultiModel):
    """Counts; the first agent leaves after two steps, the second after four."""

    possible_agents = ("first", "second")
    observation_spec = dict.fromkeys(possible_agents, envoi.Discrete(9))
    action_spec = dict.fromkeys(possible_agents, envoi.Discrete(2))

    def initial(self, rng, context):
        return 0

    def transition(self, state, actions, rng):
        return state + 1

    def observe(self, state, agent, rng):
        return np.int64(state)

    def reward(self, state, actions, next_state):
        return {agent: float(next_state) for agent in actions}

    def terminal(self, state):
        return {"first": state >= 2, "second": state >= 4}

    def info(self, state):
        return {"__common__": {"state": state}}


class Breakable:
    """Raises an error in the function named by `broken`."""

    broken = None

    def may_break(self, name):
        if self.broken == name:
            raise ZeroDivisionError(f"{type(self).__name__}: {name}")


class Drifting(Breakable, envoi.Model):
    """Takes random numbers in every function that may, and has no optional functions."""

    observation_spec = envoi.Array((2,), "float64")
    action_spec = envoi.Discrete(3)
    context_space = envoi.ContextSpace([envoi.UniformFloat("drift", -1, 1, default=0.25)])

    def initial(self, rng, context):
        return (float(rng.normal()), 0, context["drift"])

    def transition(self, state, action, rng):
        self.may_break("transition")
        return (state[0] + float(rng.normal()) + action - 1 + state[2], state[1] + 1, state[2])

    def observe(self, state, rng):
        self.may_break("observation")
        return np.array([state[0] + rng.normal(), state[1]])

    def reward(self, state, action, next_state):
        self.may_break("reward")
        return next_state[0] - state[0] + action

    def terminal(self, state):
        self.may_break("terminal")
        return int(abs(state[0]) > 9)  # true or false, but no bool


class Brittle(Breakable, envoi.Lifted):
    """A wrapper that changes nothing, and can fail in its observations."""

    def change(self, specs):
        return envoi.Change(observation=lambda seen: self.may_break("observation") or seen)


class Steps(Count):
    """Counts in integers, unrewarded: what tests derive their own models from."""

    observation_spec = envoi.Array((), "int64")

    def observe(self, state, rng):
        return np.int64(state)

    def reward(self, state, action, next_state):
        return 0.0


class Echo(Steps):
    """Shows random observations of its spec; the state is the step and the last action. Five steps long."""

    def __init__(self, observation_spec=None, action_spec=None):
        self.observation_spec = envoi.Array((2,)) if observation_spec is None else observation_spec
        self.action_spec = envoi.Discrete(2) if action_spec is None else action_spec

    def initial(self, rng, context):
        return 0, None

    def transition(self, state, action, rng):
        return state[0] + 1, action

    def observe(self, state, rng):
        return envoi.sample(self.observation_spec, rng)

    def terminal(self, state):
        return state[0] >= 5


class Story(Count):
    """Texts and empty parts beside arrays, actions in a dict with a text, and rewards and discounts that are arrays."""

    observation_spec = {"page": envoi.Array((2,), "int16"), "text": (envoi.Text(20), envoi.Discrete(9), {})}
    action_spec = {"word": envoi.Text(9), "turn": (envoi.Discrete(3), {})}
    reward_spec = envoi.Array((2,), "float32")
    discount_spec = envoi.Array((2,), "float32", 0, 1)

    def initial(self, rng, context):
        return (0, "once")

    def transition(self, state, action, rng):
        return (state[0] + int(action["turn"][0]), action["word"])

    def observe(self, state, rng):
        return {"page": np.full(2, state[0], np.int16), "text": (state[1], np.int64(state[0] % 9), {})}

    def reward(self, state, action, next_state):
        return np.array([state[0], len(next_state[1])], np.float32)

    def terminal(self, state):
        return state[0] > 12

    def discount(self, state):
        return np.array([0.5, 1], np.float32) if state[0] < 9 else None

    def info(self, state):
        return {"word": state[1]} if state[0] % 2 else {}


class Diary(envoi.Lifted):
    """A wrapper that remembers all actions, observations, rewards and infos; one that `tires` ends the episode."""

    def __init__(self, env, by_lane=False, tires=False):
        self.by_lane, self.tires = by_lane, tires
        super().__init__(env)

    def change(self, specs):
        n = () if specs.lanes is None or self.by_lane else (specs.lanes,)
        return envoi.Change(
            observation_spec={"now": specs.observation, "sums": envoi.Array((4,), "float64")},
            reward_spec=envoi.Array((), "float64"),
            discount_spec=envoi.Array((), "float64", -1, 1),
            begin=lambda seen: np.concatenate(
                [np.zeros((*n, 2)), np.asarray(seen["position"])[..., :1], np.zeros((*n, 1))], axis=-1
            ),
            remember=lambda sums, action, seen, reward: (
                sums + np.stack([np.asarray(action), reward, seen["position"][..., 0], np.zeros(n)], axis=-1)
            ),
            note=lambda sums, info: sums + np.array([0, 0, 0, 1]),
            observation=lambda seen, sums: {"now": seen, "sums": sums},
            reward=lambda reward, sums: reward + sums[..., 0],
            truncated=(lambda flag, sums: flag | (sums[..., 1] < -5)) if self.tires else None,
            info=lambda sums: {"done": sums[..., 0], "times": sums[..., 3]},
            by_lane=self.by_lane,
        )
