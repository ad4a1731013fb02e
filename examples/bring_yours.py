"""Bring what you have: dm_control to Stable-Baselines3, PettingZoo to RLlib; and what would not survive.

python examples/bring_yours.py
"""

import warnings

from dm_control import suite
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.tune.registry import register_env
from stable_baselines3 import PPO

from envoi.adapters import losses, to_gymnasium, to_rllib

AGENTS = {"agent_0", "agent_1", "agent_2"}


def cartpole():
    """An environment of dm_control, as its authors made it."""
    return suite.load("cartpole", "swingup", task_kwargs={"time_limit": 1.0})


def spread():
    """An environment of PettingZoo."""
    return simple_spread_v3.parallel_env(max_cycles=20)


if __name__ == "__main__":
    warnings.simplefilter("ignore")

    model = PPO("MultiInputPolicy", to_gymnasium(cartpole()), n_steps=200, batch_size=50, device="cpu", seed=0)
    model.learn(total_timesteps=400)
    print(f"Stable-Baselines3 learned from {len(model.ep_info_buffer)} episodes of dm_control")

    register_env("spread", to_rllib(spread))
    config = PPOConfig().environment("spread").env_runners(num_envs_per_env_runner=2)
    config.multi_agent(policies=AGENTS, policy_mapping_fn=lambda agent, *_, **__: agent)
    runner = MultiAgentEnvRunner(config=config)
    episodes = runner.sample(num_episodes=4)
    print(f"RLlib sampled {len(episodes)} episodes of PettingZoo, each of {len(episodes[0])} steps")
    runner.stop()

    print("from         to       lost")
    for name, env, target in (
        ("dm_control", cartpole(), "rllib"),
        ("PettingZoo", spread(), "rllib"),
        ("", spread(), "dm_env"),
    ):
        for loss in losses(env, target) or ["nothing"]:
            print(f"{name:13}{target:9}{loss}")
