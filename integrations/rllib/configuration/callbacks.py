"""The step of `configure` that adds envoi's callbacks, so that callbacks of the user never replace them.

RLlib keeps one class of callbacks, or a list, and one function, or a list, for each event; setting either again
replaces it. Functions leave classes alone, so envoi's callbacks are a class. A class that the user sets, at any time,
joins it rather than replaces it, because the config becomes one of a subclass that completes what is set. The result is
an ordinary list of classes, which survives the copies that RLlib makes, and the dict that Tune makes of a config.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils import force_list

from ..callbacks import EnvoiCallbacks
from .described_env import DescribedEnv


def add_callbacks(config: AlgorithmConfig, env: DescribedEnv) -> None:
    """Adds envoi's callbacks to those of the user, and makes them stay.

    Args:
        config: The config, which becomes one of a subclass of its class.
        env: The env, which makes no difference.
    """
    del env
    config.__class__ = _keeping(type(config))
    for name in ("callbacks_class", "evaluation_config"):
        setattr(config, name, getattr(config, name))  # which now adds envoi's


class KeepsCallbacks(AlgorithmConfig):
    """A config that adds envoi's callbacks to any class of callbacks that is set, for evaluations too."""

    def __setattr__(self, key: str, value: Any) -> None:
        if key == "callbacks_class":
            value = with_envois([*_envois(self.__dict__.get(key)), *force_list(value)])
        elif key == "evaluation_config" and isinstance(value, Mapping):
            kept = {name: with_envois(value[name]) for name in ("callbacks", "callbacks_class") if name in value}
            value = {**value, **kept}
        super().__setattr__(key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # By the class of RLlib or the user, because pickle finds no class that was made here by its name.
        return _blank, (type(self).__bases__[1],), dict(self.__dict__)


def with_envois(callbacks: Any) -> Any:
    """Returns classes of callbacks with envoi's before them: one class, or a list.

    Args:
        callbacks: A class, a list of classes, or None.
    """
    listed = force_list(callbacks)
    ours = next((each for each in _envois(listed) if each is not EnvoiCallbacks), EnvoiCallbacks)
    others = [each for each in listed if each is not RLlibCallback and each not in _envois(listed)]
    return [ours, *others] if others else ours


def _envois(callbacks: Any) -> list[type[EnvoiCallbacks]]:
    """Returns envoi's own among classes of callbacks: `EnvoiCallbacks`, or a class that extends it."""
    return [each for each in force_list(callbacks) if isinstance(each, type) and issubclass(each, EnvoiCallbacks)]


@cache
def _keeping(kind: type[AlgorithmConfig]) -> type[AlgorithmConfig]:
    if issubclass(kind, KeepsCallbacks):
        return kind
    return type(kind.__name__, (KeepsCallbacks, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _blank(kind: type[AlgorithmConfig]) -> AlgorithmConfig:
    """Returns a config without attributes, of the class that keeps callbacks."""
    return object.__new__(_keeping(kind))
