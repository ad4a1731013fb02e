"""The global random streams of a process, which RLlib samples actions and minibatches from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def random_streams() -> tuple[Any, ...]:
    """Returns the states of the global generators of Python, numpy and torch (all its devices)."""
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), devices  # noqa: NPY002 - RLlib's stream


def set_random_streams(states: tuple[Any, ...]) -> None:
    """Sets the global generators to states that `random_streams` returned."""
    of_python, of_numpy, of_torch, devices = states
    random.setstate(of_python)
    np.random.set_state(of_numpy)  # noqa: NPY002 - RLlib's stream
    torch.set_rng_state(of_torch)
    if devices and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(devices)
