"""One environment, written once: walk to the end of a corridor. Then the same one in gymnasium.

python examples/corridor.py
"""

import numpy as np

import envoi
from envoi.adapters import to_gymnasium


class Corridor(envoi.Model):
    """Ten steps long; the walker starts somewhere in the first half."""

    observation_spec = envoi.Array((1,), "float32", 0, 10)
    action_spec = envoi.Discrete(2)

    def initial(self, rng, context):
        return int(rng.integers(5))

    def transition(self, state, action, rng):
        return max(0, state + (1 if action == 1 else -1))

    def observe(self, state, rng):
        return np.array([state], np.float32)

    def reward(self, state, action, next_state):
        return 1.0 if next_state == 10 else -0.1

    def terminal(self, state):
        return state == 10


def make(length=50):
    """The corridor under a time limit, for `envoi train python:corridor:make`."""
    return envoi.TimeLimit(Corridor(), length)


if __name__ == "__main__":
    env = to_gymnasium(make())
    observation, info = env.reset(seed=0)
    terminated = truncated = False
    total = 0.0
    while not (terminated or truncated):
        observation, reward, terminated, truncated, info = env.step(1)
        total += reward
        print(f"|{'o':>{int(observation[0]) + 1}}{'|':>{11 - int(observation[0])}}  return {total:+.1f}")
