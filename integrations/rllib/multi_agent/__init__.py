"""Policies for multi-agent environments: the agents that each policy plays, the returns, and self-play."""
