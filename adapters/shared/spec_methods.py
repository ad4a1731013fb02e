"""The methods of a form that return specs, in frameworks that have methods for them."""

from __future__ import annotations

from typing import Any


class SpecMethods:
    """The base of a form that makes its specs once; `reward_spec` follows the rewarder, so it is the form's own."""

    _observation_spec: Any
    _action_spec: Any
    _discount_spec: Any

    def observation_spec(self) -> Any:
        """Returns the spec of observations."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """Returns the spec of actions."""
        return self._action_spec

    def discount_spec(self) -> Any:
        """Returns the spec of discounts."""
        return self._discount_spec
