"""Checkpoints from which training continues bit for bit as if it had not stopped.

RLlib's own checkpoints hold weights, optimizers and connectors. A resumed run therefore starts new episodes with new
random numbers, and coefficients that RLlib adapts, such as PPO's KL coefficient, start again from their settings. An
exact checkpoint holds the rest too: a snapshot of every env, the episodes under way, the connectors of each env runner,
the replay buffer, adapted coefficients, and all random streams.
"""
