"""Errors of envs inside RLlib's processes: how they are found, recorded, and how they stop the training."""
