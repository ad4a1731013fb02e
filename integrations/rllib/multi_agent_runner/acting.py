"""Chooses the actions of all agents in all environments: RLlib's connectors and policies, or their faster forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.rllib.core.columns import Columns
from ray.rllib.utils.metrics import ENV_TO_MODULE_CONNECTOR, MODULE_TO_ENV_CONNECTOR, RLMODULE_INFERENCE_TIMER

from .connectors import ActionsByEnv, RowsByModule, custom_connectors
from .policies import Policies

__all__ = ["Acting"]


class Acting:
    """The way from the latest observations to the next actions.

    Args:
        module: RLlib's module of all policies, or None.
        to_module: RLlib's pipeline before it.
        to_env: RLlib's pipeline after it.

    Attributes:
        obstacles: The pipelines that RLlib's own code runs, and for each what keeps the faster form from it.
    """

    def __init__(self, module: Any, to_module: Any, to_env: Any) -> None:
        self.obstacles: dict[str, str] = {}
        self._module, self._to_module, self._to_env = module, to_module, to_env
        stateful = module is not None and module.is_stateful()
        for part, pipeline in (("env-to-module", to_module), ("module-to-env", to_env)):
            if names := custom_connectors(pipeline):
                self.obstacles[part] = f"connectors other than RLlib's defaults: {', '.join(names)}"
            elif stateful:
                self.obstacles[part] = "a policy keeps a state"
        self._rows = None if "env-to-module" in self.obstacles else RowsByModule(to_module)
        self._actions = None if "module-to-env" in self.obstacles else ActionsByEnv(to_env)

    def columns(self, policies: Policies, batch: Any, t: int, **arguments: Any) -> dict[str, list[dict[Any, Any]]]:
        """Returns the actions and other outputs of the policies: by column a mapping from agents per environment.

        Args:
            policies: The policies.
            batch: The input of each policy, from `next_batch`.
            t: The number of steps that all env runners have made, for schedules of exploration.
            **arguments: The arguments `episodes`, `explore`, `shared_data` and `metrics` of RLlib's connectors.
        """
        if not batch:  # all environments are reset next
            return {}
        with arguments["metrics"].log_time(RLMODULE_INFERENCE_TIMER):
            outputs = policies(batch, t)
        if self._actions is not None:
            return self._actions(rl_module=self._module, batch=outputs, **arguments)
        return self._to_env(
            rl_module=self._module, batch=outputs, metrics_prefix_key=(MODULE_TO_ENV_CONNECTOR,), **arguments
        )

    def next_batch(
        self, episodes: list[Any], ended: list[Any], actions: Sequence[Any], step: Sequence[Any], **arguments: Any
    ) -> Any:
        """Returns the input of the policies for the next step.

        Args:
            episodes: The episode of each environment.
            ended: The episodes that have just ended, which custom connectors may change a last time.
            actions: The actions of the step, for each environment.
            step: Its observations, rewards, both flags and infos, for each environment.
            **arguments: The arguments `explore`, `shared_data` and `metrics` of RLlib's connectors.
        """
        if self._module is None:
            return None
        if self._rows is not None:
            shared_data, metrics = arguments["shared_data"], arguments["metrics"]
            return self._rows(episodes=episodes, rl_module=self._module, shared_data=shared_data, metrics=metrics)
        observations, rewards, terminateds, truncateds, infos = step
        arguments |= {
            "rl_module": self._module,
            Columns.OBS: observations,
            Columns.ACTIONS: actions,
            Columns.REWARDS: rewards,
            Columns.INFOS: infos,
            Columns.TERMINATEDS: terminateds,
            Columns.TRUNCATEDS: truncateds,
        }
        if ended:
            self._to_module(batch={}, episodes=ended, **{**arguments, "metrics": None})
        return self._to_module(batch={}, episodes=episodes, metrics_prefix_key=(ENV_TO_MODULE_CONNECTOR,), **arguments)
