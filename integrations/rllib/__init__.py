"""Trains any env, core or foreign, with RLlib and Ray Tune on the new API stack.

    from envoi.integrations.rllib import Settings, train, load_policy

    train(Settings("gymnasium:CartPole-v1", stop_return=450), "runs/cartpole")
    policy = load_policy("runs/cartpole")

`register` and `configure` serve Tune jobs of your own: `configure(config, env)` makes any `AlgorithmConfig` fit an env.
Importing this package imports neither Ray nor torch; they are imported when a name that needs them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .algorithms import ALGORITHMS, Algorithm
from .run_folder import Report, RunFolder
from .settings import EnvOptions, Settings
from .training import Job, Outcome, resume, train

if TYPE_CHECKING:
    from .configuration import configure
    from .curriculum import curriculum_of
    from .policy import Policy, load_policy
    from .registration import preflight, register

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "EnvOptions",
    "Job",
    "Outcome",
    "Policy",
    "Report",
    "RunFolder",
    "Settings",
    "configure",
    "curriculum_of",
    "load_policy",
    "preflight",
    "register",
    "resume",
    "train",
]

_HEAVY = {
    "configure": "configuration",
    "curriculum_of": "curriculum",
    "preflight": "registration",
    "register": "registration",
    "Policy": "policy",
    "load_policy": "policy",
}


def __getattr__(name: str) -> Any:
    if name not in _HEAVY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HEAVY[name]}", __name__), name)
