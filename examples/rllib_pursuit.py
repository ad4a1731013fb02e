"""Train a game of three agents with RLlib, hunters by one policy and their prey by another, and play it.

python examples/rllib_pursuit.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

from envoi.integrations.evaluation import evaluate_run
from envoi.integrations.rllib import Settings, train

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "pursuit"
    train(Settings("envoi:pursuit", policies="by-prefix", stop_steps=30_000, seed=0), folder)

    found = evaluate_run(folder, episodes=20)
    lengths = [episode.length for episode in found.episodes]
    print(f"{len(lengths)} games of {min(lengths)} to {max(lengths)} steps")
    print("agent       policy   return")
    for agent, policy in found.episodes[0].seats.items():
        mean = sum(episode.agents[agent] for episode in found.episodes) / len(found.episodes)
        print(f"{agent:10}  {policy:7}  {mean:+.2f}")
