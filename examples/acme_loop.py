"""An agent with the methods of Acme's actors, in a loop like Acme's `EnvironmentLoop`, on an environment of gymnasium.

python examples/acme_loop.py
"""

import numpy as np

from envoi.adapters import load, to_dm_env


class QLearner:
    """Tabular Q-learning, with the methods of `acme.core.Actor`."""

    def __init__(self, states, actions, rate=0.2, gamma=0.97, epsilon=0.15):
        self.values, self.rng = np.zeros((states, actions)), np.random.default_rng(0)
        self.rate, self.gamma, self.epsilon = rate, gamma, epsilon

    def select_action(self, observation):
        best = np.flatnonzero(self.values[observation] == self.values[observation].max())
        explores = self.rng.random() < self.epsilon
        return self.rng.integers(self.values.shape[1]) if explores else self.rng.choice(best)

    def observe_first(self, step):
        self.before = step.observation

    def observe(self, action, step):
        # The discount is 0 after a termination and 1 at a time limit, so that nothing else is needed here.
        target = step.reward + self.gamma * step.discount * self.values[step.observation].max()
        self.values[self.before, action] += self.rate * (target - self.values[self.before, action])
        self.before = step.observation


def run_episode(environment, actor):
    """One episode, as `acme.EnvironmentLoop.run_episode` runs it; returns its return."""
    step, total = environment.reset(), 0.0
    actor.observe_first(step)
    while not step.last():
        action = actor.select_action(step.observation)
        step = environment.step(action)
        actor.observe(action, step)
        total += step.reward
    return total


if __name__ == "__main__":
    environment = to_dm_env(load("gymnasium:FrozenLake-v1?is_slippery=False"), seed=0)
    actor = QLearner(environment.observation_spec().num_values, environment.action_spec().num_values)
    print("episodes   arrived")
    for block in range(1, 6):
        arrived = np.mean([run_episode(environment, actor) for _ in range(200)])
        print(f"{200 * block:8}   {arrived:7.0%}")
