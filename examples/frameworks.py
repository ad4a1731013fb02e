"""An environment of your own in four frameworks: gymnasium and its vectors, dm_env, PettingZoo, RLlib.

python examples/frameworks.py
"""

import numpy as np
from corridor import make

import envoi
from envoi.adapters import to_dm_env, to_gymnasium_vector, to_pettingzoo, to_rllib

RIGHT = 1

if __name__ == "__main__":
    print(f"{'framework':12}what it shows")

    # gymnasium's vector environments: eight corridors at once, each reset when its walker arrives.
    lanes = to_gymnasium_vector(make, 8)
    lanes.reset(seed=0)
    arrived = sum(int(lanes.step(np.full(8, RIGHT))[2].sum()) for _ in range(40))
    print(f"gymnasium   {lanes.observation_space.shape} observations, {arrived} arrivals in 40 steps")

    # dm_env: the discount tells an arrival (0) from the time limit (1).
    env = to_dm_env(make(length=3))
    step = env.reset()
    while not step.last():
        step = env.step(RIGHT)
    print(f"dm_env      {step.step_type.name} with discount {step.discount:.0f}, {env.observation_spec().maximum}")

    # PettingZoo: the walker is the only agent.
    zoo = to_pettingzoo(make())
    zoo.reset(seed=0)
    _, rewards, terminations, truncations, _ = zoo.step({"agent_0": RIGHT})
    print(f"PettingZoo  {zoo.agents} earned {rewards['agent_0']:.1f}")

    # RLlib: a creator for ray.tune.register_env. Its networks see numbers from a flat Box.
    creator = to_rllib(make)
    print(f"RLlib       {creator({}).observation_space}, {creator({}).action_space}")

    # And the same object back.
    core = make()
    print("and back   ", envoi.adapters.from_env(to_dm_env(core)) is core)
