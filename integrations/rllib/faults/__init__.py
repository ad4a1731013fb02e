"""Finds and records errors of envs inside RLlib's processes, and stops the training with them."""
