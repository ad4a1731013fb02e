"""Policies for environments of several agents: the agents that each one plays, their returns, and self-play.

| module | contents |
|---|---|
| `grouping` | which agents share a policy; checked before Ray is imported |
| `joint_policy` | the trained policies, which act for all agents, and whole episodes with them |
| `league` | self-play against a league of past versions, and returns by agent and policy |
"""
