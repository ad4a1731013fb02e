"""Imports environments of dm_env. The table of conversions is in `envoi.adapters.dm_env`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, cast

import dm_env

from envoi import EpisodeError, SpecError, Step
from envoi.protocol.process import Info
from envoi.spec import SpecTree
from envoi.steps.record import OVER
from envoi.tree import leaves

from ..shared.array_specs import encoder
from ..shared.arrival import Copy, arrival, incoming, is_default_discount, is_zero, owned
from ..shared.contexts import TakesContext
from ..shared.imported import SeedsSource
from ..shared.introspection import layers, physics
from .form import FIRST, LAST, MID, ToDmEnv
from .specs import NAME, Strings, from_spec


class FromDmEnv(SeedsSource, TakesContext):
    """A dm_env environment as a core environment.

    Args:
        source: The dm_env environment, possibly wrapped; or a function `(seed=…)` that makes one.
        seed: A function that seeds the source, see `from_dm_env`.
        copy: Which observations to copy, see `from_dm_env`.

    Attributes:
        source: The dm_env environment.
    """

    _framework = NAME
    _planned = ("_form", "_incoming", "_encode")
    _layer = dm_env.Environment

    def __init__(self, source: Any, seed: Callable[[int], Any] | None = None, copy: Copy = "auto") -> None:
        is_factory = callable(source) and not isinstance(source, dm_env.Environment)
        self._factory: Any = source if is_factory else None
        self._seeder = None if is_factory else seed
        super().__init__(self._factory(seed=None) if is_factory else source, copy)

    def _describe(self) -> None:
        source = self.source
        self.observation_spec = from_spec(source.observation_spec(), "observation_spec")
        self.action_spec = from_spec(source.action_spec(), "action_spec", action=True)
        self.reward_spec = from_spec(source.reward_spec(), "reward_spec")
        self.discount_spec = from_spec(source.discount_spec(), "discount_spec")
        self.metadata, self.render_mode = self._picture()

    def _plan(self) -> None:
        self._form = self.source if isinstance(self.source, ToDmEnv) else None
        self._incoming = _incoming(self.observation_spec, self._copy)
        # A copy, because the source may keep an action, or change it in place.
        self._encode = encoder(self.action_spec, fresh=True, path="action")
        super()._plan()

    def _picture(self) -> tuple[dict[str, Any], str | None]:
        form: Any = self.form_inside
        if form is not None:
            return deepcopy(form.metadata), form.render_mode
        if physics(self.source, dm_env.Environment) is None:
            return {"render_modes": []}, None
        return {"render_modes": ["rgb_array"], "render_fps": 1 / self.unwrapped.control_timestep()}, "rgb_array"

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        if self._context is not None:
            self._take_context()
        _, _, _, observation = self.source.reset()
        if self._form is None or self._form.last is None:
            return self._incoming(observation), {}
        return self._form.last.observation, {**self._form.last.info}

    def _lines_of_step(self) -> tuple[str, dict[str, Any]]:
        if self._form is not None:
            return super()._lines_of_step()
        take, names = arrival(self.observation_spec, self._copy, self._incoming)
        sent = "action" if self._encode is None else "encode_action(action)"
        lines = f"""\
_type, reward, discount, observation = env.source.step({sent})
{take}
env._observation = observation
info = {{}}
if _type is MID and isinstance(discount, float) and isinstance(reward, float):
    terminated = truncated = False
    if discount == 1.0:
        discount = None
else:
    reward, terminated, truncated, discount = env._complete(_type, reward, discount)"""
        return lines, {**names, "encode_action": self._encode, "MID": MID}

    def _complete(self, step_type: dm_env.StepType, reward: Any, discount: Any) -> tuple[Any, bool, bool, Any]:
        """Returns four values of a step that ends the episode, or whose reward or discount needs conversion."""
        if step_type not in (MID, LAST) or reward is None or discount is None:
            self._halt = OVER
            if step_type == FIRST:
                raise EpisodeError(f"step: {self.source} began another episode by itself; call reset() first")
            raise SpecError(
                f"reward, discount: expected None in the first step of an episode only, got it later from {self.source}"
            )
        if self._copy is not False:
            reward, discount = owned(reward), owned(discount)
        is_last = bool(step_type == LAST)
        if is_last:
            self._halt = OVER
        terminated = is_last and is_zero(discount)
        if is_default_discount(discount, terminated):
            discount = None
        return reward, terminated, is_last and not terminated, discount

    def _step_source(self, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        """Steps a form of envoi. Reads all six values from the form, because a `TimeStep` lacks some."""
        self.source.step(action if self._encode is None else self._encode(action))
        *values, info = cast("Step", self._form and self._form.last)
        return cast("Any", (*values, {**info}))

    @property
    def _has_seeder(self) -> bool:
        return self._seeder is not None or self._factory is not None

    def _call_seed_method(self, seed: int) -> bool:
        if self._factory is None:
            return super()._call_seed_method(seed)
        self.source.close()
        self.source = self._factory(seed=seed)
        self._find_form()
        self._plan()
        return True

    def _source_state(self) -> Any:
        """Returns the state of the physics in a source of dm_control, else the observation."""
        simulation = physics(self.source, dm_env.Environment)
        return self._observation if simulation is None else simulation.get_state()

    def _parts(self) -> list[Any]:
        return layers(self.source, dm_env.Environment)

    def render(self) -> Any:
        if callable(getattr(self.source, "render", None)):
            return self.source.render()
        if self.form_inside is not None:
            return self.unwrapped.render()
        simulation = physics(self.source, dm_env.Environment)
        return None if simulation is None else simulation.render()

    @property
    def unwrapped(self) -> Any:
        return layers(self.source, dm_env.Environment)[-1]


def _incoming(spec: SpecTree, copy: Copy) -> Callable[[Any], Any]:
    take = incoming(spec, copy)
    if copy is False or not any(isinstance(leaf, Strings) for _, leaf in leaves(spec)):
        return take
    return lambda value: take(deepcopy(value))  # references to the objects in an array are not counted
