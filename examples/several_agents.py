"""A game of several agents, written once; then played in PettingZoo's two APIs and in RLlib's form.

python examples/several_agents.py
"""

import envoi
from envoi.adapters import to_pettingzoo, to_pettingzoo_aec, to_rllib

BIDDERS = "ann", "ben", "cem"


class Auction(envoi.MultiModel):
    """Five things worth 5 each: the highest of the sealed bids gets one, and pays the second highest."""

    possible_agents = BIDDERS
    observation_spec = dict.fromkeys(BIDDERS, envoi.Discrete(10, name="the last price"))
    action_spec = dict.fromkeys(BIDDERS, envoi.Discrete(10, name="bid"))

    def initial(self, rng, context):
        return 0, 0  # how many are sold, the last price

    def transition(self, state, actions, rng):
        return state[0] + 1, sorted(actions.values())[-2]

    def observe(self, state, agent, rng):
        return state[1]

    def reward(self, state, actions, next_state):
        winner = max(BIDDERS, key=actions.get)
        return {agent: 5.0 - next_state[1] if agent == winner else 0.0 for agent in BIDDERS}

    def terminal(self, state):
        return state[0] == 5


if __name__ == "__main__":
    bids = {"ann": 4, "ben": 5, "cem": 2}
    parallel, aec, rllib = to_pettingzoo(Auction()), to_pettingzoo_aec(Auction()), to_rllib(Auction)({})
    for env in (parallel, aec, rllib):
        env.reset(seed=0)
    print("form       ben's return   agents left")
    ben = sum(parallel.step(bids)[1]["ben"] for _ in range(5))
    print(f"Parallel{ben:15.1f}   {parallel.agents}")
    ben = 0.0
    for agent in aec.agent_iter():
        _, reward, terminated, _, _ = aec.last()
        ben += reward if agent == "ben" else 0
        aec.step(None if terminated else bids[agent])
    print(f"AEC{ben:20.1f}   {aec.agents}")
    steps = [rllib.step(bids) for _ in range(5)]
    ben = sum(step[1]["ben"] for step in steps)
    print(f"RLlib{ben:18.1f}   {[agent for agent in BIDDERS if not steps[-1][2][agent]]}")
