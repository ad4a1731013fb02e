"""PPO (Schulman et al., 2017, arXiv:1707.06347) in a plain loop over a batch of envoi."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import envoi


@dataclass(frozen=True)
class Settings:
    """Settings of a training; `steps` counts those of all lanes, and `scale` multiplies rewards for learning."""

    steps: int
    rollout: int = 32
    lanes: int = 64
    rate: float = 2e-3
    discount: float = 0.99
    trace: float = 0.95
    epochs: int = 4
    parts: int = 4
    entropy: float = 0.0
    scale: float = 1.0
    clip: float = 0.2
    hidden: int = 64


class Policy(nn.Module):
    """An actor and a critic, which normalise observations by their statistics in training.

    Called with a batch of observations, as `evaluate(…, batched=True)` does, it returns its best actions.
    """

    def __init__(self, env, hidden):
        super().__init__()
        self.observation_spec, self.action_spec = env.observation_spec, env.action_spec
        inputs = sum(
            spec.n if is_discrete(spec) else int(np.prod(spec.shape)) for spec in parts_of(env.observation_spec)
        )
        outputs = self.action_spec.n if is_discrete(self.action_spec) else self.action_spec.shape[0]
        self.actor, self.critic = network(inputs, hidden, outputs, 0.01), network(inputs, hidden, 1, 1.0)
        self.log_std = None if is_discrete(self.action_spec) else nn.Parameter(torch.zeros(outputs))
        self.count, self.mean, self.square = 1e-4, np.zeros(inputs, np.float32), np.ones(inputs, np.float32)

    def rows(self, observation):
        """Returns observations as rows of numbers; integers become one-hot vectors."""
        columns = [
            np.eye(spec.n, dtype=np.float32)[part] if is_discrete(spec) else np.reshape(part, (len(part), -1))
            for spec, part in zip(parts_of(self.observation_spec), parts_of(observation), strict=True)
        ]
        return np.concatenate(columns, 1, dtype=np.float32)

    def count_rows(self, rows):
        """Adds rows to the statistics."""
        self.count += len(rows)
        self.mean += (rows.mean(0) - self.mean) * (len(rows) / self.count)
        self.square += (np.square(rows).mean(0) - self.square) * (len(rows) / self.count)

    def normalised(self, rows):
        """Returns rows with about mean 0 and standard deviation 1."""
        deviation = np.sqrt(np.maximum(self.square - np.square(self.mean), 1e-6))
        return torch.from_numpy(((rows - self.mean) / deviation).clip(-10, 10))

    def distribution(self, x):
        """Returns the distribution of actions."""
        if self.log_std is None:
            return torch.distributions.Categorical(logits=self.actor(x), validate_args=False)
        normal = torch.distributions.Normal(self.actor(x), self.log_std.exp(), validate_args=False)
        return torch.distributions.Independent(normal, 1, validate_args=False)

    def actions(self, chosen):
        """Returns actions as the environment takes them."""
        spec = self.action_spec
        return chosen.numpy() if is_discrete(spec) else chosen.numpy().clip(spec.low, spec.high)

    @torch.no_grad()
    def __call__(self, observation):
        output = self.actor(self.normalised(self.rows(observation)))
        return self.actions(output if self.log_std is not None else output.argmax(1))


def is_discrete(spec):
    return isinstance(spec, envoi.Discrete)


def parts_of(value):
    return list(value.values()) if isinstance(value, dict) else [value]


def network(inputs, hidden, outputs, gain):
    layers = [nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, outputs)]
    for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def train(env, settings, seed, observe=lambda steps, returns: None):
    """Returns a trained `Policy`; `observe` gets the steps after each rollout, and the returns that ended in it."""
    torch.manual_seed(seed)
    batch = envoi.batch(env, settings.lanes, compiled=True)
    policy = Policy(env, settings.hidden)
    optimizer = torch.optim.Adam(policy.parameters(), settings.rate, eps=1e-5, fused=True)
    rows = policy.rows(batch.reset(seed=seed).observation)
    policy.count_rows(rows)
    restart, totals = np.zeros(settings.lanes, bool), np.zeros(settings.lanes)
    updates = settings.steps // (settings.lanes * settings.rollout)
    for update in range(updates):
        inputs, actions, chances, steps, begun, returns, seen = [], [], [], [], [], [], []
        for _ in range(settings.rollout):
            x = policy.normalised(rows)
            with torch.no_grad():
                distribution = policy.distribution(x)
                action = distribution.sample()
                chances.append(distribution.log_prob(action))
            step = batch.step(policy.actions(action), restart=restart)
            inputs.append(x)
            actions.append(action)
            steps.append((step.reward, step.terminated))
            begun.append(restart)
            rows, restart = policy.rows(step.observation), step.terminated | step.truncated
            seen.append(rows)
            totals += step.reward
            returns += totals[restart].tolist()
            totals[restart] = 0
        x = torch.stack([*inputs, policy.normalised(rows)])
        with torch.no_grad():
            values = policy.critic(x)[..., 0].numpy()
        advantages = advantages_of(settings, values, steps, begun)
        acted = torch.from_numpy(~np.array(begun))  # a lane that begins an episode does not act
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * (1 - update / updates)
        gains = torch.from_numpy(advantages)
        targets = gains + torch.from_numpy(values[:-1])
        learn(policy, optimizer, settings, [
            part[acted] for part in (x[:-1], torch.stack(actions), torch.stack(chances), gains, targets)
        ])  # fmt: skip
        policy.count_rows(np.concatenate(seen))
        observe((update + 1) * settings.lanes * settings.rollout, returns)
    return policy


def advantages_of(settings, values, steps, begun):
    """Returns generalised advantages. An episode that was cut off ends with the value of its last observation."""
    advantages, advantage = np.zeros_like(values[:-1]), 0.0
    for k in reversed(range(len(steps))):
        reward, terminated = steps[k]
        error = settings.scale * reward + settings.discount * values[k + 1] * ~terminated - values[k]
        advantage = (error + settings.discount * settings.trace * advantage) * ~begun[k]
        advantages[k] = advantage
    return advantages


def learn(policy, optimizer, settings, data):
    """Improves a policy by passes over a rollout."""
    n = len(data[0])
    for _ in range(settings.epochs):
        for part in torch.randperm(n).split(-(-n // settings.parts)):
            x, actions, before, gains, targets = (column[part] for column in data)
            distribution = policy.distribution(x)
            ratio = (distribution.log_prob(actions) - before).exp()
            gains = (gains - gains.mean()) / (gains.std() + 1e-8)
            clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            loss = -torch.min(ratio * gains, clipped * gains).mean()
            loss += 0.5 * (policy.critic(x)[:, 0] - targets).square().mean()
            if settings.entropy:
                loss -= settings.entropy * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
