"""Policies for environments of several agents: the agents that each one plays, their returns, and self-play.

| module | contents |
|---|---|
| `grouping` | which agents share a policy; checked before Ray is imported |
| `mapping` | the functions from agents to policies that RLlib calls |
| `returns` | the return of each agent and each policy, as metrics |
| `curve` | a line for each policy in the learning curve |
| `joint_policy` | the trained policies, which act for all agents |
| `play` | whole episodes with them |
| `matches` | wins of the learning policy of self-play against its past versions |
| `self_play` | self-play with a league inside an algorithm |
| `league` | the past versions, their games and ratings |
| `league_files`, `league_picture` | the league in the output folder of a job |
"""
