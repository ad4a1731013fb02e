"""Look ahead with nothing but the model's own functions: all plans of five moves, in catch.

python examples/planning.py
"""

import numpy as np

from envoi.models import Catch


def best_plan(model, state, moves, rng):
    """The highest return of all plans of some moves, and the first move of such a plan."""
    if moves == 0 or model.terminal(state):
        return 0.0, 1
    returns = []
    for action in range(3):
        after = model.transition(state, action, rng)  # a new state; `state` and the episode stay as they are
        returns.append(model.reward(state, action, after) + best_plan(model, after, moves - 1, rng)[0])
    return max(returns), int(np.argmax(returns))


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
                    best_plan(env, env.state, 5, rng)[1] if plans and near else 1 if plans else env.sample_action()
                )
            returns.append(reward)  # the last one is the only one that is not 0
        print(f"{seed:4}       {returns[0]:+.0f}        {returns[1]:+.0f}")
