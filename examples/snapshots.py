"""Plan in an environment that has no model: try random plans from a snapshot, keep the best one, and go back.

python examples/snapshots.py
"""

import numpy as np

from envoi.adapters import load

PLANS, HORIZON, STEPS = 40, 25, 50


def outcome(env, before, plan):
    """The return of a plan from a snapshot; restores the environment."""
    total = 0.0
    for action in plan:
        step = env.step(action)
        total += float(step.reward)
        if step.terminated or step.truncated:
            break
    env.restore(before)
    return total


def planned(env, rng):
    """The first action of the best plan of a few; each action of a plan lasts five steps."""
    before = env.snapshot()  # state, step counter and random streams
    plans = rng.choice([-2.0, 0.0, 2.0], (PLANS, HORIZON // 5, 1)).repeat(5, axis=1).astype(np.float32)
    return max(plans, key=lambda plan: outcome(env, before, plan))[0]


if __name__ == "__main__":
    env = load("gymnasium:Pendulum-v1?max_episode_steps=100")
    print("episode   random   planned")
    for seed in range(2):
        totals = {}
        for who in ("random", "planned"):
            rng = np.random.default_rng(seed)
            env.reset(seed=seed)
            choose = planned if who == "planned" else lambda env, rng: env.sample_action()
            totals[who] = sum(float(env.step(choose(env, rng)).reward) for _ in range(STEPS))
        print(f"{seed:7}   {totals['random']:6.0f}   {totals['planned']:7.0f}")
