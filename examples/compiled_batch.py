"""Step a thousand pendulums by a kernel that numba compiles from the model's own functions; the values stay the same.

python examples/compiled_batch.py
"""

from time import perf_counter

import numpy as np

import envoi
from envoi.models import Pendulum

LANES, STEPS = 1000, 200


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
