"""envoi's single-agent models in gymnasium's registry, as `envoi/CartPole-v0` and so on.

Importing `envoi.adapters.gymnasium` registers them. A script that takes an id imports it by the id, before the colon:
`gymnasium.make("envoi.adapters.gymnasium:envoi/CartPole-v0")`. There is no entry point, because gymnasium has read none
since 1.0.

The time limit is in the `EnvSpec`, so that `gymnasium.make(…, max_episode_steps=…)` replaces it. Further arguments are
those of the model, and for `gymnasium.make_vec` also `autoreset_mode`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import wrappers

from envoi import TimeLimit

from ..loading import load
from ..registry import FRAMEWORKS
from .env_spec import check_render_mode
from .form import ToGymnasium

MAKE = f"{__name__}:make_model"

LIMITS = {"Catch": None, "CartPole": 500, "Pendulum": 200, "GridWorld": 100, "Maze": None}
"""The models, each with the time limit in steps of its `EnvSpec`."""


def make_model(
    model: str,
    num_envs: int | None = None,
    *,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    autoreset_mode: Any = None,
    **arguments: Any,
) -> Any:
    """Makes a model in gymnasium's form, or for `gymnasium.make_vec` a batch in its vector form."""
    core: Any = load(f"python:envoi.models:{model}", **arguments)
    check_render_mode(core, render_mode)
    if num_envs is None:
        return ToGymnasium(core)
    core = core if max_episode_steps is None else TimeLimit(core, max_episode_steps)
    return FRAMEWORKS["gymnasium_vector"].adapter.to_gymnasium_vector(core, num_envs, autoreset_mode)


def model_in(env: Any) -> TimeLimit | None:
    """Returns the model, in its time limit, that `gymnasium.make` put into an environment; None if it holds none.

    As a core environment it has features for contexts, and lanes that compile.
    """
    if type(env) is not wrappers.TimeLimit or not isinstance(env.env, ToGymnasium):
        return None
    made = env.spec is not None and env.spec.entry_point == MAKE
    return TimeLimit(env.env.core, env._max_episode_steps) if made else None


def register_models() -> None:
    """Registers the models."""
    for model, limit in LIMITS.items():
        gymnasium.register(
            f"envoi/{model}-v0",
            entry_point=MAKE,
            vector_entry_point=MAKE,
            max_episode_steps=limit,
            order_enforce=False,  # forms check the order of calls themselves
            disable_env_checker=True,
            kwargs={"model": model},
        )
