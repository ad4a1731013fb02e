"""A game of PettingZoo, imported: a player that looks one move ahead by snapshots, against one that does not.

python examples/tictactoe.py
"""

from collections import Counter

import numpy as np

from envoi.adapters import load

FIRST, SECOND = "player_1", "player_2"


def legal(env, info):
    """The legal actions of the player whose turn it is."""
    return np.flatnonzero(info[env.acting[0]]["action_mask"])


def wins(env, player, action):
    """Returns True if an action wins the game at once; the game stays as it is."""
    before = env.snapshot()
    step = env.step({player: action})
    env.restore(before)
    return step.rewards[player] > 0


def play(env, seed, looks_ahead):
    """One game; returns the winner."""
    rng = np.random.default_rng(seed)
    _, infos = env.reset(seed=seed)
    totals = Counter()
    while env.agents:
        (player,) = env.acting
        actions = legal(env, infos)
        winning = [action for action in actions if wins(env, player, action)] if player == looks_ahead else []
        step = env.step({player: winning[0] if winning else rng.choice(actions)})
        infos = step.infos
        totals.update(step.rewards)
    return next((player for player, total in totals.items() if total > 0), "draw")


if __name__ == "__main__":
    env = load("pettingzoo:classic/tictactoe_v3")
    print(f"{'who looks ahead':18}{FIRST:>10}{SECOND:>10}{'neither':>10}")
    for who in (None, FIRST, SECOND):
        won = Counter(play(env, seed, who) for seed in range(50))
        print(f"{who or 'neither':18}{won[FIRST]:10}{won[SECOND]:10}{won['draw']:10}")
