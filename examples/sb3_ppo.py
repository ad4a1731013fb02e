"""Train Stable-Baselines3's PPO on catch, whose sixteen lanes step in one call of a kernel.

python examples/sb3_ppo.py
"""

import warnings

import numpy as np
from stable_baselines3 import PPO

from envoi.adapters import load, to_sb3


def mean_return(model, episodes=100):
    """The mean return of whole episodes, one for each lane of a batch."""
    envs = to_sb3(load("envoi:catch"), episodes)
    envs.seed(1)
    observations = envs.reset()
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        actions, _ = model.predict(observations, deterministic=True)
        observations, rewards, dones, _ = envs.step(actions)
        returns += running * rewards
        running &= ~dones
    return returns.mean()


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*narrowed")  # rewards are float32 there
    envs = to_sb3(load("envoi:catch"), 16)
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=256, learning_rate=1e-3, device="cpu", seed=0)

    print("   steps   return")
    print(f"{0:8}   {mean_return(model):+.2f}")
    for _ in range(5):
        model.learn(2_048, reset_num_timesteps=False)
        print(f"{model.num_timesteps:8}   {mean_return(model):+.2f}")
