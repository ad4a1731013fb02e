"""Contextual environments: a context for every episode, and a view of it for the agent."""

from .wrapper import Contextual

__all__ = ["Contextual"]
