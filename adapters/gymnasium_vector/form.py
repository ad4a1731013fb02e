"""Batches in the form of gymnasium's vector environments. See `envoi.adapters.gymnasium_vector`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy import ndarray, zeros
from numpy.typing import NDArray

from envoi import (
    Array,
    Discrete,
    Env,
    Infos,
    LossyConversion,
    MultiBinary,
    MultiDiscrete,
    Reset,
    Step,
    UnknownName,
)
from envoi.lane_values import lane
from envoi.protocol.batch_env import BatchEnv, as_mask, full_lanes_step
from envoi.protocol.env import quickest_step

from ..gymnasium.specs import encoder, like_source, to_space
from ..registry import is_of
from ..shared.discounts import is_default_discount
from ..shared.exported import AnyForm
from ..shared.origin import core_layers
from .infos import write, write_lanes
from .lane_attributes import LaneAttributes, pictures
from .specs import NAME, batched_decoder, batched_encoder, batched_space

NEEDS = {AutoresetMode.NEXT_STEP: "step", AutoresetMode.SAME_STEP: "reset", AutoresetMode.DISABLED: "live"}
"""What of `BatchEnv.restarts` each mode needs."""


class ToGymnasiumVector(AnyForm, VectorEnv[Any, Any, Any]):
    """A core batch as a gymnasium vector environment.

    Args:
        core: A batch.
        autoreset_mode: How a lane that has ended begins anew.
        validate: Check every value against its spec.

    Attributes:
        core: The core batch.
        last: What the core returned last, a `Reset` or a `Step`.
        begun: In mode `SAME_STEP`, the `Reset` of the lanes that ended in the `Step` that is `last`; else None.

    Raises:
        SpecError: `core` is not a batch.
        LossyConversion: Its lanes cannot begin anew as the mode needs, or gymnasium has no space for a spec.
    """

    _framework = NAME
    _of_lanes = True
    _planned = ("_encode", "_encode_one", "_decode", "_step", "_attributes", "_written")
    _memory = ("_over", "_last", "begun")

    def __init__(
        self, core: Env, autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, validate: bool = False
    ) -> None:
        self._mode = mode_named(autoreset_mode)
        self._last: Any = None  # a `Reset`, or what `raw_step` gave
        self.begun: Reset | None = None
        self._np_random_seed: Any = -1  # unknown in all lanes, or the seed of each
        self._over: NDArray[np.bool_] | None = None  # the lanes that begin anew in the next step
        self._said: dict[Any, Any] = {}
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

    @classmethod
    def _opens(cls, core: Any) -> bool:
        return False  # each lane has attributes of its own, see `call`

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """The spaces of a lane."""
        seen, done = to_space(self.core.observation_spec, "observation"), to_space(self.core.action_spec, "action")
        return like_source(seen, self.core, "observation"), like_source(done, self.core, "action")

    def _batch_action_space(self) -> spaces.Space[Any]:
        done = batched_space(self.single_action_space, self.num_envs)
        return like_source(done, self.core, "action", lanes=True)

    def _plan(self) -> None:
        core = self.core
        self._encode = batched_encoder(core.observation_spec)
        self._encode_one = encoder(core.observation_spec)
        self._decode = batched_decoder(core.action_spec, self.num_envs)
        # Arrays of this shape are actions as the core has them.
        is_flat = isinstance(core.action_spec, (Array, Discrete, MultiDiscrete, MultiBinary))
        self._flat_shape = (self.num_envs, *core.action_spec.shape) if is_flat else None
        self._scalar_discount = isinstance(core.discount_spec, Array) and core.discount_spec.shape == ()
        self._step: Any = quickest_step(self._env)
        self._written: dict[Any, Any] = {}  # see `write`
        self._attributes = LaneAttributes(core)
        self._next_step = self._mode is AutoresetMode.NEXT_STEP
        self._same_step = self._mode is AutoresetMode.SAME_STEP

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[Any, Any]]:
        """Begins an episode in all lanes, or in those of `options["reset_mask"]`.

        Args:
            seed: One for all lanes, or one a lane.
            options: For every lane; never changed.
        """
        mask = None
        if options is not None and "reset_mask" in options:
            mask = as_mask(options["reset_mask"], self.num_envs, "options['reset_mask']")
            options = {key: value for key, value in options.items() if key != "reset_mask"} or None
        result = self._env.reset(seed=seed, options=options, mask=mask)
        if seed is not None:
            self._note_seeds(seed, mask)
        if mask is None or self._over is None:
            self._over = None
        else:
            over = self._over & ~mask
            self._over = over if over.any() else None
        self._last, self.begun = result, None
        self._said = said = write(result.info, self.num_envs)
        observation = result.observation
        return (observation if self._encode is None else self._encode(observation)), dict(said)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[Any, Any]]:
        """Acts once in every lane, but for those that begin a new episode instead; see the auto-reset modes."""
        if type(actions) is not ndarray or actions.shape != self._flat_shape:
            actions = self._decode(actions)
        self._last = result = self._step(actions, self._over)
        observation, reward, terminated, truncated, discount, infos = result
        over = None
        if terminated is None:
            n = self.num_envs
            terminated, truncated = zeros(n, bool), zeros(n, bool)
            if infos.columns == {} and discount is None:
                self._over = self.begun = None
                self._said = {}
                if self._encode is not None:
                    observation = self._encode(observation)
                return observation, reward, terminated, truncated, {}
        elif self._next_step or self._same_step:
            over = terminated | truncated
            if not np.count_nonzero(over):
                over = None
        if self._same_step and over is not None:
            observation, said = self._begin_anew(cast("Step", self.last), over)
        else:
            if self._next_step:
                self._over = over
            self.begun = None
            said = {} if infos.columns == {} else write(infos, self.num_envs, self._written)
            if discount is not None and (not self._scalar_discount or np.count_nonzero(discount != ~terminated)):
                self._say_discounts(said, discount, terminated, None)
        self._said = said
        if said:
            said = dict(said)  # gymnasium's wrappers write into it
        if self._encode is not None:
            observation = self._encode(observation)
        return observation, reward, terminated, truncated, said

    def _begin_anew(self, step: Step, over: NDArray[np.bool_]) -> tuple[Any, dict[Any, Any]]:
        """Resets the lanes that have ended; the observation of all lanes, and the infos with the final ones."""
        n, spec = self.num_envs, self.core.observation_spec
        self.begun = reset = self._env.reset(mask=over)
        ended = np.flatnonzero(over).tolist()
        final = np.full(n, None, object)
        for index in ended:
            value = lane(spec, step.observation, index)
            # A copy, for a view would keep all lanes alive, and may be changed with them.
            value = deepcopy(value)
            final[index] = value if self._encode_one is None else self._encode_one(value)
        last: Any = step.info
        final_info = write_lanes([(index, last[index]) for index in ended], n)
        self._say_discounts(final_info, step.discount, step.terminated, over)
        said = write(self.infos, n)
        self._say_discounts(said, step.discount, step.terminated, ~over)
        said.update(final_obs=final, _final_obs=over.copy(), final_info=final_info, _final_info=over)
        return reset.observation, said

    def _say_discounts(self, said: dict[Any, Any], discount: Any, terminated: Any, among: Any) -> None:
        """Adds to infos the discounts, of the lanes `among`, that are not the default."""
        if self._scalar_discount:
            unusual = discount != ~terminated
            if among is not None:
                unusual &= among
            if unusual.any():
                said["discount"], said["_discount"] = np.where(unusual, discount, 0), unusual
            return
        spec = self.core.discount_spec
        lanes: list[int] = list(range(self.num_envs)) if among is None else np.flatnonzero(among).tolist()
        each = ((index, lane(spec, discount, index)) for index in lanes)
        unusual = [(i, {"discount": value}) for i, value in each if not is_default_discount(value, terminated[i])]
        said.update(write_lanes(unusual, self.num_envs))

    @property
    def last(self) -> Reset | Step | None:
        """What the core returned last; None before the first reset."""
        last = self._last
        if last is None or isinstance(last, (Reset, Step)):
            return last
        return full_lanes_step(last, self.core.discount_spec, self.num_envs)

    @property
    def infos(self) -> Infos:
        """What each lane said last, as it said it: its reset where it began anew, its step otherwise."""
        last: Any = self.last
        if last is None:
            return Infos([{} for _ in range(self.num_envs)])
        if self.begun is None:
            return last.info
        each = zip(last.terminated | last.truncated, self.begun.info, last.info, strict=True)
        return Infos([new if over else old for over, new, old in each])

    def said(self) -> dict[Any, Any]:
        """The infos that were returned last, before anybody wrote into them."""
        return self._said

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """How a lane that has ended is reset."""
        return self._mode

    @property
    def unwrapped(self) -> VectorEnv[Any, Any, Any]:
        """The native environment under all wrappers where it is a vector environment of gymnasium, else this form."""
        native = self.core.unwrapped
        return native.unwrapped if is_of(native, NAME) else self

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each lane, or reads an attribute of each; see `gymnasium.vector.SyncVectorEnv.call`.

        Args:
            name: The method or attribute: of a wrapper, a model, or the source. Where all lanes share one model, it is
                called once.
            *args: For the method.
            **kwargs: For the method.

        Returns:
            What each lane gives.

        Raises:
            AttributeError: There is no such attribute.
        """
        n = self.num_envs
        if name == "render":
            return self.render() or (None,) * n
        if name in ("observation_space", "action_space"):
            return (getattr(self, f"single_{name}"),) * n
        return tuple(self._attributes.call(name, range(n), *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Reads an attribute of each lane; see `call`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute in each lane; see `gymnasium.vector.SyncVectorEnv.set_attr`.

        Args:
            name: The attribute: of a wrapper, a model, or the source.
            values: A list or tuple of one a lane, or one value for all.

        Raises:
            ValueError: They are not one a lane.
            SpecError: They differ where all lanes share what has the attribute.
            AttributeError: There is no such attribute, and no lane that could get one.
        """
        each = list(values) if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(f"values: expected one for each of {self.num_envs} lanes, got {len(each)}")
        self._attributes.set(name, each, range(self.num_envs))

    def render(self) -> Any:
        """A tuple with a picture of each lane, as `render_mode` says, or None."""
        return pictures(self.core)

    def close(self, **kwargs: Any) -> None:
        """Releases what the environment holds; may be called again."""
        VectorEnv.close(self, **kwargs)

    def close_extras(self, **kwargs: Any) -> None:
        """Releases what the environment holds; `close` calls it once."""
        self.core.close()

    def __del__(self) -> None:
        # gymnasium's own closes; but the core environment may outlive its form.
        pass

    def _note_seeds(self, seed: Any, mask: Any) -> None:
        known = self._seeds()
        if known is None:
            return
        begun: list[bool] = [True] * self.num_envs if mask is None else mask.tolist()
        new = _batch_inside(self.core).seeds_of_lanes(int(seed)) if np.ndim(seed) == 0 else seed
        self._np_random_seed = tuple(
            int(one) if begins and one is not None else old for one, begins, old in zip(new, begun, known, strict=True)
        )

    def _seeds(self) -> tuple[int, ...] | None:
        """The seed of each lane, -1 where it is unknown; None where a source of gymnasium's tells them."""
        if isinstance(getattr(_batch_inside(self.core), "source", None), VectorEnv):
            return None
        seeds = self._np_random_seed
        return seeds if isinstance(seeds, tuple) else (seeds,) * self.num_envs

    @property
    def np_random_seed(self) -> Any:
        """The seed of each lane's generator, n integers, -1 where it is unknown.

        Of a source of gymnasium's, it is what the source tells: one integer, where its lanes share a generator.
        """
        seeds = self._seeds()
        return _batch_inside(self.core).source.np_random_seed if seeds is None else seeds

    @property
    def spec(self) -> EnvSpec | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How `gymnasium.make_vec` makes such a form, see `envoi.adapters.gymnasium.env_spec`; None if unknown."""
        from ..gymnasium.env_spec import vector_spec_of

        return vector_spec_of(self.core, self._mode)

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        from ..gymnasium.env_spec import assign

        assign(self.core, spec)

    # gymnasium's own `np_random` reads and writes this.
    @property
    def _np_random(self) -> np.random.Generator:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.core.rng

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator) -> None:
        self.core.rng = generator

    def __str__(self) -> str:
        return repr(self)


def _batch_inside(core: Any) -> Any:
    """The batch inside all wrappers that act on one."""
    return next(layer for layer in core_layers(core) if isinstance(layer, BatchEnv))


def mode_named(mode: AutoresetMode | str) -> AutoresetMode:
    """Returns the auto-reset mode of that name or value.

    Raises:
        UnknownName: There is none; the message lists them all.
    """
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        known = ", ".join(f"{one} or {one.value!r}" for one in AutoresetMode)
        raise UnknownName(f"autoreset_mode: expected one of {known}, got {mode!r}") from error


def check_restarts(core: Any, mode: AutoresetMode) -> None:
    """Refuses a core batch whose lanes cannot be reset as an auto-reset mode needs.

    Args:
        core: The core batch.
        mode: The mode of its form.

    Raises:
        LossyConversion: The message names the modes that the batch can have.
    """
    if NEEDS[mode] not in core.restarts:
        able = [one.name for one, needed in NEEDS.items() if needed in core.restarts]
        raise LossyConversion(
            "autoreset_mode",
            "restarts",
            f"{core!r}, whose lanes begin anew by {' or '.join(sorted(core.restarts))}",
            f"{NAME} in mode {mode.name}",
            f"use {' or '.join(able)}, or give the environments that it steps",
        )
