"""One environment, many instances: a context for every episode, hidden or seen by the agent.

python examples/contexts.py
"""

import envoi
from envoi.adapters import load, to_gymnasium

MASSES = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}

hidden = envoi.Contextual(load("gymnasium:Pendulum-v1"), MASSES, hide_context=True)
print("hidden:", hidden.observation_spec.shape, [hidden.reset().info["context_id"] for _ in range(3)])

seen = envoi.Contextual(load("gymnasium:Pendulum-v1"), MASSES, state_context_features=["g", "m"])
print("seen:", seen.observation_spec.shape, [seen.reset().observation[-2:].tolist() for _ in range(2)])

# Drawn anew for every episode, seeded with it, and scaled by the defaults for a network's sake.
lengths = envoi.context.Sampled([envoi.UniformFloat("length", 0.3, 1.5)])
drawn = envoi.Contextual(
    load("envoi:cartpole"),
    context_selector=lengths,
    state_context_features="changing_context_features",
    scale_context_features="by_default",
)
env = to_gymnasium(drawn)
print("drawn:", [round(float(env.reset(seed=s)[0][-1]), 2) for s in range(3)], env.observation_space.shape)

# For evaluation: this context, while the selector stands where it is.
observation, info = env.reset(options={"context": {"length": 2.0}})
print("chosen:", observation[-1], info["context_id"])
