"""Swap the reward of an environment, and relabel what was recorded under the old one.

python examples/rewarders.py
"""

import math

import envoi
from envoi.models import Pendulum


class Upright(envoi.Rewarder):
    """1 while the pendulum points up to within `tolerance` radians, else 0."""

    reward_range = (0.0, 1.0)

    def __init__(self, tolerance):
        self.tolerance = tolerance

    def __call__(self, state, action, next_state):
        angle = (next_state.angle + math.pi) % (2 * math.pi) - math.pi
        return float(abs(angle) < self.tolerance)


if __name__ == "__main__":
    env = envoi.TimeLimit(Pendulum(), 200)
    env.reset(seed=0, options={"initial_angle_max": 0.1})  # begins near the top
    transitions, step = [], None
    while step is None or not step.truncated:
        before, action = env.state, env.sample_action()
        step = env.step(action)
        transitions.append((before, action, env.state))

    print("rewarder             return   range")
    shaped = Upright(tolerance=1.5) + 0.1 * Upright(tolerance=0.2)
    for name, rewarder in (("its own", env.rewarder), ("upright", Upright(tolerance=1.5)), ("upright, shaped", shaped)):
        low, high = rewarder.reward_range
        print(f"{name:17}{rewarder.relabel(transitions).sum():10.1f}   {low:.1f} to {high:.1f}")

    env.rewarder = shaped  # from now on
