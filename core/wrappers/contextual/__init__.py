"""Contextual environments: a context for every episode, and what the agent sees of it."""

from .wrapper import Contextual

__all__ = ["Contextual"]
