"""The base of the forms of PettingZoo's two APIs: everything but resets and steps.

| core | PettingZoo, in an agent's info |
|---|---|
| a discount that is not the default (0 if terminated, else 1) | `"discount"` |
| `infos["__common__"]`, of no specific agent | `"__common__"`, a copy for each agent |
| the action mask | `"action_mask"`; an import also reads it from an observation's `"action_mask"`, which stays there |
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from envoi import (
    Env,
    LossyConversion,
    MultiEnv,
)
from envoi.protocol.multi_env import COMMON, quickest_multi_step
from envoi.spec import SpecTree

from ..gymnasium.specs import decoder, encoder, like_source, to_space
from ..shared.agent_count import acts_at_once, several_agents, validated
from ..shared.exported import AnyForm
from ..shared.loss import Loss

NAME = "pettingzoo"

ACTIVE, ACTIVES = "active_agent", "active_agents"
"""The info keys of the agents that act next while others wait: one agent (PettingZoo's own key), or several."""


def _space(spec: SpecTree, path: str) -> spaces.Space[Any]:
    try:
        return to_space(spec, path)
    except LossyConversion as error:
        raise LossyConversion(error.path, error.field, error.source, NAME, error.hint) from error


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that PettingZoo cannot express."""
    multi = several_agents(env)
    described = {"state": multi.state_spec} if multi.state_spec is not None else {}
    for agent in multi.possible_agents:
        described[f"observation[{agent!r}]"] = multi.observation_spec[agent]
        described[f"action[{agent!r}]"] = multi.action_spec[agent]
    found: list[Loss] = []
    for path, spec in described.items():
        try:
            _space(spec, path)
        except LossyConversion as error:
            found.append(Loss.of(error))
    return found


class Form(AnyForm):
    """Base of a form of either API.

    Args:
        core: The core environment, of one agent or of several.
        validate: If True, every value is checked against its spec.
        at_once: True if the form can be stepped with all actions at once, as far as is known.

    Attributes:
        core: The core environment.
        multi: The core environment as one of several agents.
        observation_spaces: The space of each agent's observations.
        action_spaces: The space of each agent's actions.
        state_space: The space of `state()`; only if the core has a `state_spec`.
    """

    _planned = ("_encoders", "_decoders", "_encode_state", "_at_once", "_step")

    def __init__(self, core: Env | MultiEnv, validate: bool, at_once: bool) -> None:
        self.core = core
        self.multi = multi = several_agents(core)
        self._env = validated(multi) if validate else multi
        self.metadata: dict[str, Any] = {
            "name": type(multi.unwrapped).__name__,
            **deepcopy(dict(multi.metadata)),
            "is_parallelizable": at_once,
        }
        self.render_mode = multi.render_mode
        self.observation_spaces: dict[Any, Any] = {}
        self.action_spaces: dict[Any, Any] = {}
        for agent in multi.possible_agents:
            seen = _space(multi.observation_spec[agent], f"observation[{agent!r}]")
            done = _space(multi.action_spec[agent], f"action[{agent!r}]")
            self.observation_spaces[agent] = like_source(seen, multi, "observation", agent)
            self.action_spaces[agent] = like_source(done, multi, "action", agent)
        if multi.state_spec is not None:
            self.state_space = _space(multi.state_spec, "state")
        self._closed = False
        self._plan()

    def _plan(self) -> None:
        multi = self.multi
        agents = multi.possible_agents
        encoders = {agent: encoder(multi.observation_spec[agent]) for agent in agents}
        exact = self._env is not multi
        decoders = {agent: decoder(multi.action_spec[agent], f"action[{agent!r}]", exact) for agent in agents}
        # Only the agents whose values need a conversion.
        self._encoders = {agent: encode for agent, encode in encoders.items() if encode is not None}
        self._decoders = {agent: decode for agent, decode in decoders.items() if decode is not None}
        self._encode_state = None if multi.state_spec is None else encoder(multi.state_spec)
        # If true, no agent ever waits, so that `turn` need not be read.
        self._at_once = bool(acts_at_once(multi)) and not getattr(multi, "turns_in_infos", False)
        self._step = quickest_multi_step(self._env)

    @property
    def possible_agents(self) -> list[Any]:
        """All possible agents; a new list each time."""
        return list(self.multi.possible_agents)

    def observation_space(self, agent: Any) -> spaces.Space[Any]:
        """Returns the space of an agent's observations; the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: Any) -> spaces.Space[Any]:
        """Returns the space of an agent's actions; the same object each time."""
        return self.action_spaces[agent]

    @property
    def np_random(self) -> np.random.Generator:
        """The core's `rng`, under the name that PettingZoo's environments use; settable."""
        return self.multi.rng

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        self.multi.rng = generator

    def state(self) -> Any:
        """Returns the state, a value of `state_space`.

        Raises:
            NotImplementedError: The core has no `state_spec`.
        """
        if self.multi.state_spec is None:
            raise NotImplementedError(f"state() needs a core environment with a state_spec; {self.core!r} has none")
        state = self.multi.state
        return state if self._encode_state is None else self._encode_state(state)

    def render(self) -> Any:
        """Renders the current state in the core's `render_mode`."""
        return self.multi.render()

    def close(self) -> None:
        """Releases the resources of the environment; may be called again."""
        if not self._closed:
            self._closed = True
            self.multi.close()

    def content(self) -> Any:
        """Returns the part of a snapshot that describes this form, for environments around it."""
        return self._env.snapshot(), {name: value for name, value in vars(self).items() if name not in self._lasting}

    def put_back(self, content: Any) -> None:
        """Restores what `content` returned."""
        snapshot, held = content
        self._env.restore(snapshot)
        attributes = vars(self)
        for name in [name for name in attributes if name not in self._lasting and name not in held]:
            del attributes[name]
        attributes.update(held)

    @property
    def _lasting(self) -> tuple[str, ...]:
        ours = ("core", "multi", "_env", "observation_spaces", "action_spaces", "state_space")
        return (*ours, *self._planned)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._plan()


def agents_infos(infos: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns infos with only agents as keys; each info gets a copy of the entry `"__common__"`.

    Args:
        infos: The infos by agent, and possibly `"__common__"`.
    """
    if COMMON not in infos:
        return cast("dict[Any, Any]", infos)
    common = infos[COMMON]
    return {agent: {**info, COMMON: {**common}} for agent, info in infos.items() if agent != COMMON}
