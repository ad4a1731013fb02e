"""Finds what keeps an env runner from collecting arrays."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils import force_list

from .array_connectors import TO_ENV, TO_MODULE
from .space_parts import parts_of


def obstacle_in_config(config: Any) -> str | None:
    """Returns why an env runner of a config cannot collect arrays; None if nothing in the config keeps it.

    Args:
        config: An `AlgorithmConfig`.
    """
    return "the config has several agents" if config.is_multi_agent else None


def callbacks_heard(config: Any) -> set[str]:
    """Returns the names of the callbacks of episodes that a config defines.

    Args:
        config: An `AlgorithmConfig`.
    """
    classes = force_list(config.callbacks_class)
    return {
        name
        for name in ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")
        if force_list(getattr(config, f"callbacks_{name}"))
        or any(getattr(one, name) is not getattr(RLlibCallback, name) for one in classes)
    }


def obstacle_in_parts(env: Any, module: Any, to_module: Any, to_env: Any) -> str | None:
    """Returns why the parts of an env runner keep it from collecting arrays; None if they do not.

    Args:
        env: The vector environment, or None.
        module: The RLModule, or None.
        to_module: The pipeline of env-to-module connectors.
        to_env: The pipeline of module-to-env connectors.
    """
    if module is None:
        return "the algorithm has no module that chooses actions"
    if module.is_stateful():
        return f"the module {type(module).__name__} has a memory"
    for stage, pipeline, known in (("env-to-module", to_module, TO_MODULE), ("module-to-env", to_env, TO_ENV)):
        kinds = [type(piece) for piece in pipeline.connectors]
        if custom := [kind.__name__ for kind in kinds if kind not in known]:
            return f"the {stage} connector {custom[0]} needs an episode of each lane"
        if missing := [kind.__name__ for kind in known if kind not in kinds]:
            return f"RLlib's {stage} connector {missing[0]} is missing"
    return None if env is None else _obstacle_in_env(env)


def _obstacle_in_env(env: Any) -> str | None:
    for what in ("observation", "action"):
        for part in parts_of(getattr(env, f"single_{what}_space")):
            if not isinstance(part, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
                return f"values of the {what} space {part} are not arrays"
    mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
    return None if mode is AutoresetMode.NEXT_STEP else f"the vector environment resets lanes in mode {mode.name}"
