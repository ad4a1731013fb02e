"""Copies of values that another owner may keep or change: rewards, infos and reset options."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

# What comes beside observations.

HOLDERS = frozenset({np.ndarray, dict, list, tuple})
"""The types of rewards that somebody else can change once they are handed out."""


def owned(value: Any) -> Any:
    """A reward or discount that its source cannot change any more: arrays, and what holds them, are copied."""
    return value.copy() if isinstance(value, np.ndarray) else deepcopy(value) if type(value) in HOLDERS else value


def fresh(options: Any) -> Any:
    """Options for somebody who may write into them: dicts, lists, tuples and arrays anew, other objects as they are."""
    if isinstance(options, Mapping):
        return {key: fresh(value) for key, value in options.items()}
    if type(options) in (list, tuple):
        return type(options)(fresh(value) for value in options)
    return options.copy() if isinstance(options, np.ndarray) else options
