"""Sampling from environments of several agents with less work per step than RLlib's own env runner."""

from .runner import BatchedMultiAgentEnvRunner

__all__ = ["BatchedMultiAgentEnvRunner"]
