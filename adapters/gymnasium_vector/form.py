"""Exports batches as gymnasium's vector environments. See `envoi.adapters.gymnasium_vector`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy import ndarray, zeros
from numpy.typing import NDArray

from envoi import Array, Env, Infos, LossyConversion, Reset, Step, UnknownName
from envoi.lane_values import lane
from envoi.protocol.batch_env import Seeds, as_mask, full_lanes_step
from envoi.protocol.fast_steps import VALUES_AND_ENDS, step_around
from envoi.spec.arrays import ARRAYS

from ..conversion import core_layers
from ..gymnasium.form import DescribedForm
from ..gymnasium.specs import encoder, like_source
from ..registry import is_of
from ..shared.arrival import is_default_discount
from ..shared.exported import AnyForm
from .lane_attributes import LaneAttributes, pictures
from .specs import NAME, batched_decoder, batched_encoder, batched_space, write_infos, write_lanes

NEEDS = {AutoresetMode.NEXT_STEP: "step", AutoresetMode.SAME_STEP: "reset", AutoresetMode.DISABLED: "live"}
"""The element of `BatchEnv.restarts` that each auto-reset mode requires."""


class ToGymnasiumVector(DescribedForm, AnyForm, VectorEnv[Any, Any, Any]):
    """A core batch as a gymnasium vector environment.

    `call` and `set_attr` find methods and attributes of wrappers, models and sources, see `LaneAttributes`. A method
    that all lanes share is called once; a shared attribute takes one value.

    Args:
        core: A batch.
        autoreset_mode: The auto-reset mode.
        validate: If True, every value is checked against its spec.

    Attributes:
        last: The result of the core's last reset or step, a `Reset` or a `Step`.
        begun: In mode `SAME_STEP`, the `Reset` of the lanes that ended in the step `last`; else None.

    Raises:
        SpecError: `core` is not a batch.
        LossyConversion: Its lanes cannot be reset as the mode requires, or gymnasium has no space for a spec.
    """

    _framework = NAME
    _of_lanes = True
    _planned = ("_encode", "_encode_one", "_decode", "_step", "_attributes")
    _memory = ("_over", "_last", "begun")

    def __init__(
        self, core: Env, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, validate: bool = False
    ) -> None:
        self._mode = mode_named(autoreset_mode)
        self._last: Any = None  # a `Reset`, or the result of a fast step
        self.begun: Reset | None = None
        self._over: NDArray[np.bool_] | None = None  # the lanes that are reset in the next step
        self._returned_infos: dict[Any, Any] = {}
        super().__init__(core, validate)
        self.metadata["autoreset_mode"] = self._mode
        self.single_observation_space, self.single_action_space = self._spaces()
        seen = batched_space(self.single_observation_space, self.num_envs)
        self.observation_space = like_source(seen, core, "observation", lanes=True)
        self.action_space = self._batch_action_space()

    def _check_lanes(self, core: Any) -> None:
        super()._check_lanes(core)
        check_restarts(core, self._mode)
        self.num_envs = core.batch_size

    def _batch_action_space(self) -> spaces.Space[Any]:
        done = batched_space(self.single_action_space, self.num_envs)
        return like_source(done, self.core, "action", lanes=True)

    def _plan(self) -> None:
        core = self.core
        self._encode = batched_encoder(core.observation_spec)
        self._encode_one = encoder(core.observation_spec)
        self._decode = batched_decoder(core.action_spec, self.num_envs)
        # Arrays of this shape need no conversion.
        self._flat_shape = (self.num_envs, *core.action_spec.shape) if isinstance(core.action_spec, ARRAYS) else None
        self._scalar_discount = isinstance(core.discount_spec, Array) and core.discount_spec.shape == ()
        self._step: Any = step_around(self._env, lambda program: VALUES_AND_ENDS)
        self._attributes = LaneAttributes(core)
        self._next_step = self._mode is AutoresetMode.NEXT_STEP
        self._same_step = self._mode is AutoresetMode.SAME_STEP

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        mask = None
        if isinstance(options, Mapping) and "reset_mask" in options:
            mask = as_mask(options["reset_mask"], self.num_envs, "options['reset_mask']")
            options = {key: value for key, value in options.items() if key != "reset_mask"} or None
        result = self._env.reset(seed=seed, options=options, mask=mask)
        if mask is None or self._over is None:
            self._over = None
        else:
            over = self._over & ~mask
            self._over = over if over.any() else None
        self._last, self.begun = result, None
        self._returned_infos = entries = write_infos(result.info, self.num_envs)
        observation = result.observation
        return (observation if self._encode is None else self._encode(observation)), dict(entries)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[Any, Any]]:
        """Runs one step in each lane, and resets lanes as the auto-reset mode defines; see `VectorEnv.step`."""
        if type(actions) is not ndarray or actions.shape != self._flat_shape:
            actions = self._decode(actions)
        self._last = result = self._step(actions, self._over)
        observation, reward, terminated, truncated, discount, infos, over = result
        if terminated is None:
            n = self.num_envs
            terminated, truncated = zeros(n, bool), zeros(n, bool)
        elif over is None and (self._next_step or self._same_step):
            over = terminated | truncated
        if self._same_step and over is not None and np.count_nonzero(over):
            observation, entries = self._reset_ended(result, over)
        else:
            if self._next_step:
                self._over = over
            self.begun = None
            entries = {} if infos.columns == {} else write_infos(infos, self.num_envs)
            if discount is not None:
                self._add_discounts(entries, discount, terminated, None)
        self._returned_infos = entries
        if entries:
            entries = dict(entries)  # gymnasium's wrappers write into it
        if self._encode is not None:
            observation = self._encode(observation)
        return observation, reward, terminated, truncated, entries

    def _reset_ended(self, result: Any, over: NDArray[np.bool_]) -> tuple[Any, dict[Any, Any]]:
        """Resets the lanes that have ended; returns the observations of all lanes, and infos with the final ones."""
        n, spec = self.num_envs, self.core.observation_spec
        observation, _, terminated, _, discount, last, _ = result
        self.begun = reset = self._env.reset(mask=over)
        final, index = np.empty(n, object), over.nonzero()[0]
        # Copies, because views would keep the array of all lanes alive, and would change with it.
        rows = observation[index] if isinstance(spec, ARRAYS) else None
        for row, number in enumerate(index.tolist()):
            value = deepcopy(lane(spec, observation, number)) if rows is None else rows[row]
            final[number] = value if self._encode_one is None else self._encode_one(value)
        begun: Any = reset.info
        final_info = {} if last.columns == {} else write_infos(last.replaced(~over, Infos(columns={}, n=n)), n)
        entries = {} if last.columns == {} == begun.columns else write_infos(last.replaced(over, begun), n)
        if discount is not None:
            self._add_discounts(final_info, discount, terminated, over)
            self._add_discounts(entries, discount, terminated, ~over)
        entries.update(final_obs=final, _final_obs=over.copy(), final_info=final_info, _final_info=over)
        return reset.observation, entries

    def _add_discounts(self, entries: dict[Any, Any], discount: Any, terminated: Any, among: Any) -> None:
        """Adds the discounts that differ from the default to the infos, for the lanes in the mask `among`."""
        if self._scalar_discount:
            unusual = discount != ~terminated
            if among is not None:
                unusual &= among
            if unusual.any():
                entries["discount"], entries["_discount"] = np.where(unusual, discount, 0), unusual
            return
        spec = self.core.discount_spec
        lanes: list[int] = list(range(self.num_envs)) if among is None else np.flatnonzero(among).tolist()
        each = ((index, lane(spec, discount, index)) for index in lanes)
        unusual = [(i, {"discount": value}) for i, value in each if not is_default_discount(value, terminated[i])]
        entries.update(write_lanes(unusual, self.num_envs))

    @property
    def last(self) -> Reset | Step | None:
        """The result of the core's last reset or step; None before the first reset."""
        last = self._last
        if last is None or isinstance(last, (Reset, Step)):
            return last
        return full_lanes_step(last[:6], self.core.discount_spec, self.num_envs)

    @property
    def infos(self) -> Infos:
        """The latest info of each lane, from its reset or its step, with the original types."""
        last: Any = self.last
        if last is None:
            return Infos([{} for _ in range(self.num_envs)])
        if self.begun is None:
            return last.info
        return last.info.replaced(last.terminated | last.truncated, self.begun.info)

    def returned_infos(self) -> dict[Any, Any]:
        """Returns the original infos of the last reset or step, even if the caller changed the returned dict."""
        return self._returned_infos

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """The auto-reset mode."""
        return self._mode

    @property
    def unwrapped(self) -> VectorEnv[Any, Any, Any]:
        """The native environment inside all wrappers if it is a vector environment of gymnasium, else this form."""
        native = self.core.unwrapped
        return native.unwrapped if is_of(native, NAME) else self

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method, or reads an attribute, in each lane; see `gymnasium.vector.SyncVectorEnv.call`.

        Args:
            name: The method or attribute.
            *args: Arguments for the method.
            **kwargs: Arguments for the method.
        """
        n = self.num_envs
        if name == "render":
            return self.render() or (None,) * n
        if name in ("observation_space", "action_space"):
            return (getattr(self, f"single_{name}"),) * n
        return tuple(self._attributes.call(name, range(n), *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute in each lane; see `gymnasium.vector.SyncVectorEnv.set_attr`.

        Args:
            name: The attribute.
            values: A list or tuple of one value per lane, or one value for all.
        """
        each = list(values) if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(f"values: expected one for each of {self.num_envs} lanes, got {len(each)}")
        self._attributes.set(name, each, range(self.num_envs))

    def render(self) -> Any:
        """Renders each lane in the core's `render_mode`; returns a tuple of n images, or None."""
        return pictures(self.core)

    def close(self, **kwargs: Any) -> None:
        """Releases the resources of the environment; may be called again."""
        VectorEnv.close(self, **kwargs)

    def close_extras(self, **kwargs: Any) -> None:
        """Releases the environment's resources; called once, by `close`."""
        self.core.close()

    def __del__(self) -> None:
        # gymnasium's `__del__` closes the environment, but the core may be used without its form.
        pass

    @property
    def np_random_seed(self) -> Any:
        """The seeds of a gymnasium source (one integer if lanes share a generator), else -1 (unknown) for each lane."""
        source: Any = getattr(core_layers(self.core)[-1], "source", None)
        return source.np_random_seed if is_of(source, NAME) else (-1,) * self.num_envs


def mode_named(mode: AutoresetMode | str) -> AutoresetMode:
    """Returns the auto-reset mode of that name or value."""
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        known = ", ".join(f"{one} or {one.value!r}" for one in AutoresetMode)
        raise UnknownName(f"autoreset_mode: expected one of {known}, got {mode!r}") from error


def check_restarts(core: Any, mode: AutoresetMode) -> None:
    """Raises an error if the lanes of a core batch cannot be reset as an auto-reset mode requires."""
    if NEEDS[mode] not in core.restarts:
        able = [one.name for one, needed in NEEDS.items() if needed in core.restarts]
        raise LossyConversion(
            "autoreset_mode",
            "restarts",
            f"{core!r}, whose lanes restart by {' or '.join(sorted(core.restarts))}",
            f"{NAME} in mode {mode.name}",
            f"use {' or '.join(able)}, or give the environments that it steps",
        )
