"""Look ahead with nothing but the model's own functions: all plans of five moves at once, in catch.

python examples/planning.py
"""

from itertools import product

import numpy as np

from envoi.models import Catch
from envoi.models.catch import CatchState

PLANS = np.array(list(product(range(3), repeat=5)))  # (243, 5)


def best_action(model, state, rng):
    """The first move of the best of all plans, each played out in a lane of its own."""
    lanes = CatchState(*(np.repeat(part, len(PLANS)) for part in state))
    returns, over = np.zeros(len(PLANS)), np.zeros(len(PLANS), bool)
    for actions in PLANS.T:
        after = model.transition(lanes, actions, rng)  # a new state; `lanes` and the episode stay as they are
        returns += np.where(over, 0, model.reward(lanes, actions, after))
        lanes, over = after, over | model.terminal(after)
    return PLANS[np.argmax(returns), 0]


if __name__ == "__main__":
    env, rng = Catch(), np.random.default_rng(0)
    print("seed   random   planned")
    for seed in range(5):
        returns = []
        for plans in (False, True):
            env.reset(seed=seed)
            over = False
            while not over:
                near = env.state.row >= 4  # five moves are left before the ball is down
                _, reward, over, *_ = env.step(
                    best_action(env, env.state, rng) if plans and near else 1 if plans else env.sample_action()
                )
            returns.append(reward)  # the last one is the only one that is not 0
        print(f"{seed:4}       {returns[0]:+.0f}        {returns[1]:+.0f}")
