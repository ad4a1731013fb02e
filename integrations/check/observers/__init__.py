"""Observers: see every transition of a rollout, and keep the first violation of each requirement."""
