"""Environments with images and action masks, whose steps check that the action is legal."""

import numpy as np

import envoi
from envoi import Array, Discrete, MultiDiscrete


class Guarded(envoi.Model):
    """Raises an error at an illegal action; a state is (step, number that decides what is legal)."""

    observation_spec = Array((3,), "float32", -1, 1)
    action_spec = Discrete(5, start=2)
    length = 23

    def initial(self, rng, context):
        return (0, int(rng.integers(30)))

    def transition(self, state, action, rng):
        self.check(state, action)
        return (state[0] + 1, int(rng.integers(30)))

    def check(self, state, action):
        if not self.mask(state)[int(action) - 2]:
            raise AssertionError(f"{action} is illegal in {state}")

    def mask(self, state):
        return np.array([(state[1] >> bit) & 1 or bit == state[1] % 5 for bit in range(5)], np.int8)

    def observe(self, state, rng):
        return np.array([state[1] / 30, state[0] / self.length, 1], np.float32)

    def reward(self, state, action, next_state):
        return float(np.sum(action) > 4)

    def terminal(self, state):
        return state[0] >= self.length

    def info(self, state):
        return {"action_mask": self.mask(state)}


class GuardedPair(Guarded):
    """The same with two integers, whose mask is a tuple, as gymnasium samples with it."""

    action_spec = MultiDiscrete([3, 4], start=[0, 1])

    def check(self, state, action):
        for mask, index in zip(self.mask(state), np.asarray(action) - [0, 1], strict=True):
            if not mask[int(index)]:
                raise AssertionError(f"{action} is illegal in {state}")

    def mask(self, state):
        first, last = np.zeros(3, bool), np.ones(4, bool)
        first[state[1] % 3] = True
        last[state[1] % 4] = False
        return first, last


class GuardedCamera(Guarded):
    """The same, seen through a picture beside numbers, with the mask in the observation."""

    observation_spec = {
        "action_mask": Array((5,), "float32", 0, 1),
        "camera": Array((13, 9, 3), "uint8"),
        "inside": (Discrete(3), Array((2, 2), "float32")),
    }

    def observe(self, state, rng):
        return {
            "action_mask": self.mask(state).astype(np.float32),
            "camera": np.full((13, 9, 3), state[1] * 8, np.uint8),
            "inside": (state[0] % 3, np.full((2, 2), state[1] / 30, np.float32)),
        }

    def info(self, state):
        return {}


class Screen(envoi.Model):
    """Spaces of an Atari game: the brighter quarter of the screen is the action that is rewarded."""

    observation_spec = Array((210, 160, 3), "uint8")
    action_spec = Discrete(4)
    length = 10

    def initial(self, rng, context):
        return (0, int(rng.integers(4)))

    def transition(self, state, action, rng):
        return (state[0] + 1, int(rng.integers(4)))

    def observe(self, state, rng):
        screen = rng.integers(0, 60, self.observation_spec.shape, np.uint8)
        row, column = divmod(state[1], 2)
        screen[105 * row : 105 * (row + 1), 80 * column : 80 * (column + 1)] += 150
        return screen

    def reward(self, state, action, next_state):
        return float(action == state[1])

    def terminal(self, state):
        return state[0] >= self.length


class BesideVector(Screen):
    """The same with a smaller screen, and the number of a quarter to add to the brighter one."""

    observation_spec = {"screen": Array((40, 30, 1), "float32", 0, 60), "turn": Discrete(2)}

    def initial(self, rng, context):
        return (0, int(rng.integers(4)), int(rng.integers(2)))

    def transition(self, state, action, rng):
        return (state[0] + 1, int(rng.integers(4)), int(rng.integers(2)))

    def observe(self, state, rng):
        row, column = divmod(state[1], 2)
        screen = np.zeros((40, 30, 1), np.float32)
        screen[20 * row : 20 * (row + 1), 15 * column : 15 * (column + 1)] = 60
        return {"screen": screen, "turn": state[2]}

    def reward(self, state, action, next_state):
        return float(action == (state[1] + state[2]) % 4)
