"""Policies for environments of several agents: the agents that each one plays, their returns, and self-play.

| module | contents |
|---|---|
| `grouping` | which agents share a policy; checked before Ray is imported |
| `mapping` | the functions from agents to policies that RLlib calls |
| `policies` | the changes to an `AlgorithmConfig` |
| `returns` | the return of each agent and each policy, as metrics |
"""
