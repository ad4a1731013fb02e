"""Imports outer environments of gym-gridverse.

| gym-gridverse | core |
|---|---|
| a representation's `Space` with bounds | `Array` with these bounds |
| its kind: categorical, discrete or continuous | `kinds`, and `metadata["kinds"]`, which every form has too |
| a representation | a dict of such arrays |
| `Action`, an enumeration | `Discrete`, in the order of the action space |
| `(reward, terminal)` | reward, terminated; no step is truncated |

Environments are recognised by their methods, so neither gym-gridverse nor the old gym that it needs is imported. An
inner environment samples its observations from the generator of its dynamics, so here every state is observed once.

What is lost: reset options, which outer environments do not take; the first ones give a warning. An outer environment
without an observation representation is refused. One without a state representation has no `state`, and rewarders
receive the objects of the inner environment instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from envoi import Array, Discrete, Env, LossyConversion, NotRepresented
from envoi.protocol.process import Info

from .conversion import imported
from .shared.arrival import incoming
from .shared.imported import ImportedEnv

__all__ = ["FromGridverse", "from_gridverse", "recognises"]

_PARTS = ("inner_env", "state_representation", "observation_representation", "action_space", "reset", "step")
_INNER_PARTS = ("set_seed", "functional_reset", "functional_step", "functional_observation")


class FromGridverse(ImportedEnv):
    """A gym-gridverse outer environment as a core environment.

    Args:
        source: The outer environment.

    Attributes:
        source: The outer environment.
        kinds: `"categorical"`, `"discrete"` or `"continuous"` for each array: `kinds["observation"][name]`, and
            `kinds["state"][name]` if the source represents states.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: The environment has no observation representation.
    """

    reward_spec = Array((), "float64", name="reward")

    has_place = False
    _framework = "gridverse"
    _planned = ("_incoming",)

    def _describe(self) -> None:
        source = self.source
        if source.observation_representation is None:
            raise LossyConversion(
                "observation", "objects", "representation not available", "the core",
                "give the outer environment one, such as make_observation_representation('default', observation_space)",
            )  # fmt: skip
        self.observation_spec, kinds = _read_spaces(source.observation_representation)
        self.kinds = {"observation": kinds}
        if source.state_representation is not None:
            self.state_spec, self.kinds["state"] = _read_spaces(source.state_representation)
        self.metadata = {"render_modes": [], "kinds": deepcopy(self.kinds)}
        self.action_spec = Discrete(source.action_space.num_actions, name="action")

    def _plan(self) -> None:
        self._incoming = incoming(self.observation_spec, True)  # copied: a representation may return its own buffers
        super()._plan()

    def seed_source(self, seed: int) -> None:
        self.source.inner_env.set_seed(seed)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        if seed is None and getattr(self.source.inner_env, "_rng", self) is None:
            # Without a seed it would use a generator that all gym-gridverse environments share.
            self.source.inner_env.set_seed(int(self.streams.dynamics.integers(2**31)))
        self.source.reset()
        return self._incoming(self.source.observation), {}

    def _step_source(self, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        source = self.source
        reward, terminal = source.step(source.action_space.int_to_action(int(action)))
        return self._incoming(source.observation), reward, bool(terminal), False, None, {}

    @property
    def state(self) -> Any:
        """The represented state: a dict of arrays.

        Raises:
            NotRepresented: The source has no state representation.
        """
        if self.state_spec is None:
            raise NotRepresented(
                "state: representation not available; give the outer environment a state_representation, or look at "
                "the objects, .source.inner_env.state"
            )
        return super().state

    def _source_state(self) -> Any:
        return deepcopy(self.source.state)

    def _rewarded_state(self) -> Any:
        return deepcopy(self.source.inner_env.state) if self.state_spec is None else self.state

    def _source_rng(self) -> np.random.Generator | None:
        held = getattr(self.source.inner_env, "_rng", None)
        return held if isinstance(held, np.random.Generator) else None

    def _replace_rng(self, generator: np.random.Generator) -> None:
        if hasattr(self.source.inner_env, "_rng"):
            self.source.inner_env._rng = generator
        else:
            self.source.inner_env.set_seed(int(deepcopy(generator).integers(2**31)))

    def _parts(self) -> list[Any]:
        return [self.source, self.source.inner_env]

    @property
    def unwrapped(self) -> Any:
        return self.source

    def render(self) -> Any:
        return None

    def close(self) -> None:
        """Does nothing, since outer environments hold nothing to release."""


def _read_spaces(representation: Any) -> tuple[dict[str, Array], dict[str, str]]:
    """Returns the spec and the kind of each array."""
    specs, kinds = {}, {}
    for name, space in representation.space.items():
        low = space.lower_bound
        specs[name] = Array(low.shape, low.dtype, low, space.upper_bound, name)
        kinds[name] = space.space_type.name.lower()
    return specs, kinds


def recognises(env: object) -> bool:
    """Returns True if an object has the methods of an outer environment."""
    own = getattr(env, "__dict__", {})
    if any(not hasattr(type(env), name) and name not in own for name in _PARTS):
        return False
    return all(hasattr(own.get("inner_env"), name) for name in _INNER_PARTS)


def from_gridverse(env: Any) -> Env:
    """Imports an outer environment of gym-gridverse.

    Args:
        env: An `OuterEnv`.

    Returns:
        The core environment.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: The environment has no observation representation.
    """
    return imported(env, "gridverse", (), FromGridverse)
