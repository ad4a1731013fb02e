"""One environment, many instances: a context for each episode, hidden from the agent or observed by it.

python examples/contexts.py
"""

import envoi
from envoi.adapters import load, to_gymnasium

MASSES = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}

hidden = envoi.Contextual(load("gymnasium:Pendulum-v1"), MASSES, hide_context=True)
print("hidden:", hidden.observation_spec.shape, [hidden.reset().info["context_id"] for _ in range(3)])

seen = envoi.Contextual(load("gymnasium:Pendulum-v1"), MASSES, state_context_features=["g", "m"])
print("seen:", seen.observation_spec.shape, [seen.reset().observation[-2:].tolist() for _ in range(2)])

# Sampled for each episode, from the seeded stream, and divided by the defaults, which suits networks.
lengths = envoi.context.Sampled([envoi.UniformFloat("length", 0.3, 1.5)])
sampled = envoi.Contextual(
    load("envoi:cartpole"),
    context_selector=lengths,
    state_context_features="changing_context_features",
    scale_context_features="by_default",
)
env = to_gymnasium(sampled)
print("sampled:", [round(float(env.reset(seed=s)[0][-1]), 2) for s in range(3)], env.observation_space.shape)

# For evaluation: a given context; the selector does not advance.
observation, info = env.reset(options={"context": {"length": 2.0}})
print("chosen:", observation[-1], info["context_id"])
