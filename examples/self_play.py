"""Train a policy for a game of two by playing against itself, see its rating rise, and play a game with it.

python examples/self_play.py [FOLDER]
"""

import json
import sys
import tempfile
from pathlib import Path

from envoi.adapters import to_rllib
from envoi.integrations.rllib import Settings, load_policy, train

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "nim"
    outcome = train(Settings("envoi:nim", policies="self-play", stop_steps=20_000, seed=0), folder)

    versions = json.loads((folder / "league.json").read_text())["trials"]["0"]["versions"]

    policy = load_policy(folder)  # acts for both players; load_policy(folder, policy_id="main") for one
    env = to_rllib("envoi:nim", action_masks=policy.sees_masks)({})
    observations, _ = env.reset(seed=0)
    policy.reset(seats={"first": "main", "second": "opponent_0"})
    heaps, rewards, over = [env.core.state.sticks], {}, False
    while not over:
        observations, rewards, terminateds, truncateds, _ = env.step(policy(observations, rewards))
        heaps.append(env.core.state.sticks)
        over = terminateds["__all__"] or truncateds["__all__"]
    for player, sticks in zip(("start", *("first", "second") * 8), heaps, strict=False):
        print(f"{player:8}{'|' * sticks}")
    print("the first player gets", rewards["first"])

    print("version       Elo")  # the untrained policy, past ones, and the last
    for number, version in enumerate(versions):
        print(f"{number:7}{version['elo']:10.0f}")
