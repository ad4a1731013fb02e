"""A loop in the style of CleanRL, advantage actor-critic in one file, on the form for gymnasium's vector environments.

python examples/vector_loop.py
"""

import numpy as np
import torch
from torch import nn

from envoi.adapters import load, to_gymnasium_vector

LANES, STEPS, UPDATES = 32, 9, 240

if __name__ == "__main__":
    torch.manual_seed(0)
    envs = to_gymnasium_vector(load("envoi:catch"), LANES, autoreset_mode="SameStep")
    inputs, actions = int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n)
    net = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, actions + 1))
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)

    observations, _ = envs.reset(seed=0)
    ended, earned = 0, 0.0
    print(" updates   episodes   return")
    for update in range(1, UPDATES + 1):
        log_probs, values, entropies, rewards, alive = [], [], [], [], []
        for _ in range(STEPS):
            output = net(torch.as_tensor(observations))
            policy = torch.distributions.Categorical(logits=output[:, :actions])
            action = policy.sample()
            observations, reward, terminated, truncated, _ = envs.step(action.numpy())
            over = terminated | truncated
            log_probs.append(policy.log_prob(action))
            entropies.append(policy.entropy().mean())
            values.append(output[:, actions])
            rewards.append(torch.as_tensor(reward, dtype=torch.float32))
            alive.append(torch.as_tensor(~over))
            ended, earned = ended + int(over.sum()), earned + float(reward.sum())

        with torch.no_grad():
            future, returns = net(torch.as_tensor(observations))[:, actions], []
            for reward, goes in zip(reversed(rewards), reversed(alive), strict=True):
                future = reward + 0.99 * future * goes
                returns.insert(0, future)
        advantage = torch.stack(returns) - torch.stack(values)
        gain = (torch.stack(log_probs) * advantage.detach()).mean() + 0.01 * torch.stack(entropies).mean()
        loss = 0.5 * advantage.pow(2).mean() - gain
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 40 == 0:
            print(f"{update:8}   {ended:8}   {earned / ended:+.2f}")
            ended, earned = 0, 0.0
