"""The table of RLlib's algorithms that learn from an env, with good initial settings.

RLlib's own registry also names algorithms that only learn from recorded data, does not list the actions that each can
choose, and cannot be read without importing Ray (a typo must not cost 10 s). A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import envoi
from envoi.errors import UnknownName

from ..errors import nearest_of_all


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of RLlib's new API stack that learns from an environment.

    Args:
        name: Its name in RLlib, the class in the module `ray.rllib.algorithms.<lower-case name>`.
        actions: Class names of the canonical gymnasium action spaces that it supports.
        num_envs: Number of envs that an env runner steps together by default.
        training: Settings for `AlgorithmConfig.training` that replace RLlib's defaults.
        model: Settings for the default network of flat observations that replace RLlib's.
        lr: Default learning rate by class name of the action space; RLlib's own for other classes.
        rates: Names of the settings that a learning rate sets.
    """

    name: str
    actions: frozenset[str]
    num_envs: int
    training: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    lr: Mapping[str, float] = field(default_factory=dict)
    rates: tuple[str, ...] = ("lr",)


_ANY = frozenset({"Discrete", "MultiDiscrete", "Box", "Tuple"})
_REAL = frozenset({"Box"})

# PPO: RLlib's defaults clip the value loss at 10, which stalls the critic as soon as returns reach hundreds,
# and take a rate of 5e-5. With these CartPole reaches a mean return of 450 after about 30,000 steps.
_PPO = {
    "train_batch_size_per_learner": 2048,
    "minibatch_size": 128,
    "num_epochs": 6,
    "lambda_": 0.95,
    "vf_clip_param": 1e9,
    "grad_clip": 0.5,
}
_PPO_MODEL = {"fcnet_hiddens": [64, 64], "vf_share_layers": False}
# The algorithms with a replay buffer update once for each round of their envs, which takes RLlib 10 to 70 ms.
_ACTOR_CRITIC = ("actor_lr", "critic_lr", "alpha_lr")

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        algorithm.name: algorithm
        for algorithm in (
            Algorithm("PPO", _ANY, 16, _PPO, _PPO_MODEL, {"Discrete": 1e-3, "MultiDiscrete": 1e-3, "Box": 3e-4}),
            Algorithm("APPO", _ANY, 8),
            Algorithm("IMPALA", _ANY, 8),
            Algorithm("DQN", frozenset({"Discrete"}), 8),
            Algorithm("SAC", frozenset({"Box", "Discrete"}), 4, rates=_ACTOR_CRITIC),
            Algorithm("TQC", _REAL, 4, rates=_ACTOR_CRITIC),
        )
    }
)
"""The algorithms by name."""

FROM_PYTHON: Mapping[str, frozenset[str]] = MappingProxyType(
    {"BC": _ANY, "MARWIL": _ANY, "CQL": _REAL, "IQL": _REAL, "DreamerV3": frozenset({"Discrete", "Box"})}
)
"""Actions of the algorithms that `configure` takes as a config of the user's: of recorded data, or by a model."""
ACTIONS: Mapping[str, frozenset[str]] = {name: known.actions for name, known in ALGORITHMS.items()} | FROM_PYTHON
"""Class names of the action spaces that an algorithm can choose from, by the name of its class."""


def find(name: str) -> Algorithm:
    """Returns the algorithm called `name`, in any case."""
    lower = {known.lower(): known for known in (*ALGORITHMS, *FROM_PYTHON)}
    known = lower.get(name.lower(), "")
    if known in ALGORITHMS:
        return ALGORITHMS[known]
    listing = ", ".join(ALGORITHMS)
    if known:
        raise UnknownName(
            f"{known} is trained from Python, by envoi.integrations.rllib.configure({known}Config(), env); there are "
            f"here: {listing}"
        )
    raise UnknownName(f"no algorithm is called {name!r}; {nearest_of_all(name, ALGORITHMS)}")


ASYNCHRONOUS = frozenset({"IMPALA", "APPO"})
"""Algorithms whose weights depend on which env runner answers first, so that no two runs of them are equal."""


def check_exact(*names: str) -> None:
    """Checks that envoi supports exact checkpoints for an algorithm, by the names of its classes."""
    if ASYNCHRONOUS & {*names}:
        raise envoi.EnvoiError(
            f"exact: expected an algorithm that waits for its env runners, such as PPO, DQN or SAC, got {names[0]}, "
            "whose weights depend on which runner answers first; leave exact=False"
        )


def check_actions(algorithm: str, space: object) -> None:
    """Checks that an algorithm can choose from an action space."""
    # The canonical space of one agent is never a Dict.
    agents: Mapping[Any, Any] = getattr(space, "spaces", {}) if type(space).__name__ == "Dict" else {"": space}
    for agent, own in agents.items():
        kind = type(own).__name__
        if kind not in ACTIONS[algorithm]:
            able = ", ".join(a.name for a in ALGORITHMS.values() if kind in a.actions) or "none"
            whose = f" of {agent}" if len(agents) > 1 else ""
            raise envoi.EnvoiError(f"{algorithm} cannot choose from the actions {own}{whose}; these can: {able}")
