"""Step a thousand pendulums by a kernel that numba compiles from the model's own functions; the values stay the same.

python examples/compiled_batch.py
"""

import math
from time import perf_counter

import numpy as np

import envoi

LANES, STEPS = 1000, 200


class Pendulum(envoi.Model):
    """A pendulum that is to be swung up; its state is the angle from upright (rad) and its speed (rad/s)."""

    observation_spec = envoi.Array((3,), "float32")
    action_spec = envoi.Array((1,), "float32", -2, 2)

    def initial(self, rng, context):
        return rng.uniform(-math.pi, math.pi), rng.uniform(-1.0, 1.0)

    def transition(self, state, action, rng):
        angle, speed = state
        speed = speed + (15 * math.sin(angle) + 3 * float(action[0])) * 0.05
        return angle + speed * 0.05, min(max(speed, -8.0), 8.0)

    def observe(self, state, rng):
        return np.array([math.cos(state[0]), math.sin(state[0]), state[1]], np.float32)

    def reward(self, state, action, next_state):
        upright = (state[0] + math.pi) % (2 * math.pi) - math.pi
        return -(upright * upright + 0.1 * state[1] * state[1])

    def terminal(self, state):
        return False


def play(lanes):
    """The rewards of all steps, shape (200, 1000), and the steps of a lane per second."""
    actions = np.random.default_rng(0).uniform(-2, 2, (STEPS, LANES, 1)).astype(np.float32)
    lanes.reset(seed=0)
    began = perf_counter()
    rewards = np.array([lanes.step(action).reward for action in actions])
    return rewards, LANES * STEPS / (perf_counter() - began)


if __name__ == "__main__":
    kinds = {"interpreted": False, "compiled": True}
    found = {}
    for name, compiled in kinds.items():
        lanes = envoi.batch(Pendulum(), LANES, compiled=compiled)
        play(lanes)  # compiles, or reads the machine code from the disk
        found[name] = play(lanes)
    print(f"{'lanes':12}{'steps/s':>12}   mean reward")
    for name, (rewards, speed) in found.items():
        print(f"{name:12}{speed:12,.0f}   {rewards.mean():.6f}")
    print("the same bits:", np.array_equal(found["interpreted"][0], found["compiled"][0]))
