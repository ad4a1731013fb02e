"""Settings of a config that differ from RLlib's defaults are its user's, and stay."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


def is_default(config: AlgorithmConfig, name: str) -> bool:
    """Returns True if a setting has the default of its config's class, so that it is free to change.

    A default that the user has set explicitly looks the same.

    Args:
        config: The config.
        name: The name of the attribute.
    """
    return bool(getattr(config, name) == getattr(type(config)(), name))


def set_default(config: AlgorithmConfig, **values: Any) -> None:
    """Sets attributes of a config that its user has not set.

    Args:
        config: The config.
        **values: The new values by name.
    """
    fresh = type(config)()
    for name, value in values.items():
        if bool(getattr(config, name) == getattr(fresh, name)):
            setattr(config, name, value)
