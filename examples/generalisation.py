"""Train on a range of pole lengths, evaluate inside and outside of it.

python examples/generalisation.py [FOLDER]

It is what these commands do, in the folder of this file:

    envoi train python:generalisation:training --stop-steps 100000 --out runs/poles
    envoi evaluate runs/poles --env python:generalisation:testing
"""

import sys
import tempfile
from pathlib import Path

import envoi
from envoi.adapters import load

LENGTHS = {"short": 0.1, "inside": 0.5, "long": 1.5, "longest": 3.0}


def poles(**context):
    """Cart-poles whose agent sees how long its pole is."""
    return envoi.Contextual(load("envoi:cartpole"), state_context_features=["length"], **context)


def training():
    """A pole of 0.3 to 0.8 m, another one for every episode."""
    return poles(context_selector=envoi.context.Sampled([envoi.UniformFloat("length", 0.3, 0.8)]))


def testing():
    """Poles that no episode of the training had, most of them out of its range."""
    return poles(contexts={name: {"length": length} for name, length in LENGTHS.items()})


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "poles"

    from envoi.integrations.evaluation import evaluate_run
    from envoi.integrations.rllib import Settings, train

    train(Settings("python:generalisation:training", stop_return=100, stop_steps=60_000, seed=0), folder)
    found = evaluate_run(folder, env="python:generalisation:testing", episodes=8)
    print("pole      length   return")
    for name, estimate in found.contexts.items():
        print(f"{name:10}{LENGTHS[name]:4.1f} m   {estimate}")
