"""Train the corridor of examples/corridor.py with RLlib and Tune, from Python, and watch the policy walk.

python examples/train.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

from corridor import make

from envoi.adapters.rllib import Codec
from envoi.integrations.rllib import Settings, load_policy, train

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()) / "corridor"
    outcome = train(Settings("python:corridor:make", stop_return=0.0, stop_steps=50_000, seed=0), folder)
    print(f"trained in {outcome.folder.path}")

    env, policy = make(), load_policy(folder)
    codec = Codec(env)  # the policy sees and says plain arrays
    observation, _ = env.reset(seed=1)
    path, over = [int(observation[0])], False
    while not over:
        observation, reward, terminated, truncated, _, _ = env.step(codec.decode(policy(codec.encode(observation))))
        path.append(int(observation[0]))
        over = terminated or truncated
    for place in path:
        print(f"|{'o':>{place + 1}}{'|':>{11 - place}}")
