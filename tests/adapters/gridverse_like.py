"""An outer environment with gym-gridverse's exact methods: objects inside, representations outside."""

import enum
from dataclasses import dataclass

import numpy as np


class Move(enum.Enum):
    LEFT = enum.auto()
    RIGHT = enum.auto()
    STAY = enum.auto()


class ActionSpace:
    actions = (Move.LEFT, Move.RIGHT, Move.STAY)

    @property
    def num_actions(self):
        return len(self.actions)

    def int_to_action(self, action):
        return self.actions[action]


@dataclass
class State:
    """A walker on a line of eleven fields, and how far it can see."""

    place: int
    sight: float


class Inner:
    def __init__(self):
        self.action_space = ActionSpace()
        self._state = self._observation = self._rng = None
        self.looks = 0

    def set_seed(self, seed=None):
        self._rng = np.random.default_rng(seed)

    def functional_reset(self):
        return State(int(self._rng.integers(3, 8)), float(self._rng.random()))

    def functional_step(self, state, action):
        if not isinstance(action, Move):
            raise TypeError(action)
        move = {Move.LEFT: -1, Move.RIGHT: 1, Move.STAY: 0}[action] + int(self._rng.integers(-1, 2))
        following = State(min(10, max(0, state.place + move)), state.sight)
        return following, -1.0, following.place in (0, 10)

    def functional_observation(self, state):
        self.looks += 1
        return (state.place, state.sight + self._rng.random())

    def reset(self):
        self._state, self._observation = self.functional_reset(), None

    def step(self, action):
        self._state, reward, done = self.functional_step(self.state, action)
        self._observation = None
        return reward, done

    @property
    def state(self):
        if self._state is None:
            raise RuntimeError("The state was not set properly;  was the environment reset?")
        return self._state

    @property
    def observation(self):
        if self._observation is None:
            self._observation = self.functional_observation(self.state)
        return self._observation


class SpaceType(enum.Enum):
    CATEGORICAL = 0
    DISCRETE = enum.auto()
    CONTINUOUS = enum.auto()


class Space:
    def __init__(self, space_type, low, high):
        self.space_type = space_type
        self.lower_bound, self.upper_bound = np.array(low), np.array(high)


class StateArrays:
    space = {"place": Space(SpaceType.DISCRETE, [0], [10]), "end": Space(SpaceType.CATEGORICAL, [0], [2])}

    def convert(self, state):
        return {"place": np.array([state.place]), "end": np.array([(state.place == 0) + 2 * (state.place == 10)])}


class ObservationArrays:
    """Returns the same arrays again and again."""

    space = {"place": Space(SpaceType.DISCRETE, [0], [10]), "far": Space(SpaceType.CONTINUOUS, [0.0], [2.0])}

    def __init__(self):
        self._held = {"place": np.zeros(1, int), "far": np.zeros(1)}

    def convert(self, observation):
        for name, value in zip(("place", "far"), observation, strict=True):
            self._held[name][:] = value
        return self._held


class Outer:
    def __init__(self, env, *, state_representation=None, observation_representation=None):
        self.inner_env = env
        self.state_representation = state_representation
        self.observation_representation = observation_representation

    @property
    def action_space(self):
        return self.inner_env.action_space

    def reset(self):
        self.inner_env.reset()

    def step(self, action):
        return self.inner_env.step(action)

    @property
    def state(self):
        if self.state_representation is None:
            raise RuntimeError("State representation not available")
        return self.state_representation.convert(self.inner_env.state)

    @property
    def observation(self):
        if self.observation_representation is None:
            raise RuntimeError("Observation representation not available")
        return self.observation_representation.convert(self.inner_env.observation)


def make(state=True, observation=True):
    return Outer(
        Inner(),
        state_representation=StateArrays() if state else None,
        observation_representation=ObservationArrays() if observation else None,
    )
