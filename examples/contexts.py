"""One environment, many instances: a context for each episode, hidden from the agent or observed by it.

python examples/contexts.py
"""

import envoi
from envoi.adapters import load, to_gymnasium

MASSES = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}


def row(title, env, shown, **reset):
    """Prints the shape of an observation, and what three episodes show."""
    episodes = [shown(*env.reset(seed=seed, **reset)) for seed in (0, None, None)]
    print(f"{title:9} {env.observation_space.shape!s:6} {'   '.join(map(str, episodes))}")


if __name__ == "__main__":
    print("context   shape  three episodes")
    hidden = envoi.Contextual(load("gymnasium:Pendulum-v1"), MASSES, hide_context=True)
    row("hidden", to_gymnasium(hidden), lambda _, info: info["context_id"])

    seen = envoi.Contextual(load("gymnasium:Pendulum-v1"), MASSES, state_context_features=["g", "m"])
    row("observed", to_gymnasium(seen), lambda observation, _: "g={} m={}".format(*observation[-2:]))

    # Sampled for each episode, from the seeded stream, and divided by the default, which suits networks.
    lengths = envoi.context.Sampled([envoi.UniformFloat("length", 0.3, 1.5)])
    options = {"state_context_features": ["length"], "scale_context_features": "by_default"}
    sampled = to_gymnasium(envoi.Contextual(load("envoi:cartpole"), context_selector=lengths, **options))
    row("sampled", sampled, lambda observation, _: f"{observation[-1]:.2f}")

    # For an evaluation: a given context; the selector does not advance.
    row("given", sampled, lambda observation, _: f"{observation[-1]:.2f}", options={"context": {"length": 2.0}})
