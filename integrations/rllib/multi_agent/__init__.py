"""Policies for environments of several agents: the agents that each one plays, their returns, and self-play."""
