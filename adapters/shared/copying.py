"""Copies of values that another owner may keep or change: rewards, infos and reset options."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

HOLDERS = frozenset({np.ndarray, dict, list, tuple})
"""The types of rewards and discounts that another owner could change in place."""


def owned(value: Any) -> Any:
    """Returns a reward or discount that its source cannot change in place: arrays and containers are copied."""
    return value.copy() if isinstance(value, np.ndarray) else deepcopy(value) if type(value) in HOLDERS else value


def fresh(options: Any) -> Any:
    """Returns a copy of options in which dicts, lists, tuples and arrays are copied, and other objects are shared."""
    if isinstance(options, Mapping):
        return {key: fresh(value) for key, value in options.items()}
    if type(options) in (list, tuple):
        return type(options)(fresh(value) for value in options)
    return options.copy() if isinstance(options, np.ndarray) else options
