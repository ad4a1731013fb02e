"""Runs the policies of several agents, and connectors on the values of each policy, with shortcuts if they apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule

from ..batched_runner.torch_shortcuts import forward, has_own_modes, inherits, quick

__all__ = ["Policies", "by_policy"]


class Policies:
    """The policies of a sample. Use it as a context; policies are in evaluation mode inside from their first use on.

    Args:
        module: RLlib's module of all policies.
        explore: True to explore, False for the best actions.
    """

    def __init__(self, module: Any, explore: bool) -> None:
        self._module, self._explore = module, explore
        self._is_plain = isinstance(module, MultiRLModule) and inherits(
            module,
            MultiRLModule,
            "forward_exploration",
            "forward_inference",
            "_forward_exploration",
            "_forward_inference",
        )
        self._forwards: dict[Any, Callable[[dict[str, Any], int], dict[str, Any]]] = {}
        self._trained: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for policy in self._trained:
            policy.train()

    def __call__(self, batch: dict[Any, dict[str, Any]], t: int) -> dict[Any, dict[str, Any]]:
        """Returns the outputs of each policy.

        Args:
            batch: The input of each policy, as tensors.
            t: The number of steps that all env runners have made, for schedules of exploration.
        """
        if self._is_plain:
            policies = self._module
            return {name: self._forward(policies[name])(own, t) for name, own in batch.items() if name in policies}
        return self._module.forward_exploration(batch, t=t) if self._explore else self._module.forward_inference(batch)

    def _forward(self, policy: Any) -> Callable[[dict[str, Any], int], dict[str, Any]]:
        found = self._forwards.get(policy)
        if found is None:
            if not has_own_modes(policy) and policy.training:
                self._trained.append(policy.eval())
            found = self._forwards[policy] = forward(policy, self._explore)
        return found


def by_policy(connector: Any, module: Any, batch: dict[Any, dict[str, Any]], **arguments: Any) -> dict[Any, Any]:
    """Runs a connector that treats the values of each policy alone.

    Args:
        connector: One of RLlib's connectors from and to tensors, or that chooses actions.
        module: RLlib's module of all policies.
        batch: The values of each policy.
        **arguments: Further arguments of the connector.

    Returns:
        The new values of each policy.
    """
    if not all(name in module for name in batch):
        return connector(rl_module=module, batch=batch, **arguments)
    # A connector that finds no episode of several agents takes the batch for that of the one policy that it gets.
    arguments["episodes"] = [None]
    return {
        name: quick(connector, module[name])(rl_module=module[name], batch=own, **arguments)
        for name, own in batch.items()
    }
