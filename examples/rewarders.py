"""Swap the reward of an environment, and relabel what was recorded under the old one.

python examples/rewarders.py
"""

import numpy as np

import envoi
from envoi.models import Pendulum


class Upright(envoi.Rewarder):
    """1 while the pendulum points up to within `tolerance` radians, else 0."""

    reward_range = (0.0, 1.0)

    def __init__(self, tolerance):
        self.tolerance = tolerance

    def __call__(self, state, action, next_state):
        angle = (next_state.motion[..., 0] + np.pi) % (2 * np.pi) - np.pi
        return (np.abs(angle) < self.tolerance).astype(float)


if __name__ == "__main__":
    env = envoi.TimeLimit(Pendulum(), 200)
    env.reset(seed=0, options={"initial_angle_max": 0.1})  # begins near the top
    transitions, native, step = [], 0.0, None
    while step is None or not step.truncated:
        before, action = env.state, env.sample_action()
        step = env.step(action)
        native += step.reward
        transitions.append((before, action, env.state))
    print(f"the pendulum's own return: {native:.1f}")

    sparse = Upright(tolerance=1.5)
    print(f"the same episode, relabelled: {sparse.relabel(transitions).sum():.0f} steps upright")

    env.rewarder = sparse + 0.1 * Upright(tolerance=0.2)
    print(f"rewards lie in {env.reward_range} from now on; {env.reward_spec}")
