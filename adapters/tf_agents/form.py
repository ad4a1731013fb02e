"""Exports core environments and batches to TF-Agents. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from envoi import BatchEnv, Env, Infos, Reset, SpecError, Step
from envoi.seeding import check_seed, lane_seeds
from envoi.tree import children, is_branch, map_leaves, rebuild

from ..shared.array_specs import decoder
from ..shared.arrival import is_zero
from ..shared.exported import OpenForm, SpecMethods
from ..shared.loss import warn_narrowed
from . import specs
from .specs import NAME, ArraySpec, PyEnvironment, StepType, TimeStep, to_spec, zero_lanes

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST

make_time_step: Callable[[tuple[Any, Any, Any, Any]], TimeStep] = partial(tuple.__new__, TimeStep)
"""`TimeStep(*values)` for hot paths; TF-Agents' own `transition` takes hundreds of times as long."""


class ToTFAgents(SpecMethods, OpenForm, PyEnvironment):
    """A core environment as a TF-Agents environment.

    In TF-Agents, `reset` takes no arguments: before it, call `seed(s)` for a seed and set `reset_options` for options.

    Args:
        core: An environment of one lane.
        validate: If True, every value is checked against its spec.
        exact: If True, rewards and discounts keep the core's dtypes; otherwise they become float32.

    Attributes:
        core: The core environment.
        last: The complete result of the core's last `reset` or `step`, or None before the first reset.
        reset_options: Options for the next reset only, or None.
    """

    _framework = NAME
    _planned = ("_encode", "_decode", "_to_reward", "_to_discount", "_no_reward", "_nothing", "_all")
    _memory = ("_current_time_step", "last", "reset_options", "_seed", "_over")

    def __init__(self, core: Env, validate: bool = False, exact: bool = False) -> None:
        self.last: Reset | Step | None = None
        self.reset_options: Mapping[str, Any] | None = None
        self._exact = exact
        self._seed: Any = None
        self._over: Any = None
        super().__init__(core, validate)
        warn_narrowed(specs.losses(core, exact))

    def _describe(self) -> None:
        core = self.core
        self._observation_spec = to_spec(core.observation_spec, "observation")
        self._action_spec = to_spec(core.action_spec, "action")

    def _plan(self) -> None:
        core = self.core
        self._reward_of = core.reward_spec
        reward = specs.number_spec(core.reward_spec, "reward", self._exact)
        discount = specs.number_spec(core.discount_spec, "discount", self._exact)
        self._reward_spec = specs.stated_spec(core.reward_spec, reward, "reward")
        self._discount_spec = specs.stated_spec(core.discount_spec, discount, "discount")
        n, seen, done = core.batch_size, core.observation_spec, core.action_spec
        lanes = () if n is None else (n,)
        self._to_reward, self._to_discount = specs.number_encoder(reward), specs.number_encoder(discount)
        self._no_reward = specs.constant(reward, 0, lanes)
        self._nothing, self._all = specs.constant(discount, 0, lanes), specs.constant(discount, 1, lanes)
        # If the reward is one number, as most are, `_step` makes the array inline.
        self._reward_dtype: Any = getattr(reward, "dtype", None)
        self._encode = specs.array_encoder(seen if n is None else specs.lanes_of(seen, n))
        self._decode = decoder(done if n is None else specs.lanes_of(done, n), exact=self._env is not core)

    @property
    def batched(self) -> bool:
        """True for a batch; its values then have a leading axis of n lanes."""
        return self.core.batch_size is not None

    @property
    def batch_size(self) -> int | None:
        """The number of lanes of a batch, else None."""
        return self.core.batch_size

    def seed(self, seed: int | Sequence[int | None] | None) -> None:
        """Seeds the next reset; the seed determines all later randomness.

        The seed is a non-negative integer; for a batch, one for all lanes or a sequence with one (or None) per lane.
        Any other value raises a SpecError.
        """
        n = self.core.batch_size
        if n is None:
            seed = check_seed(seed)
        else:
            lane_seeds(seed, n)
        self._seed = seed

    def _reset(self) -> TimeStep:
        if self.core.reward_spec is not self._reward_of:  # another rewarder
            self._plan()
        self.last = last = self._env.reset(seed=self._seed, options=self.reset_options)
        self._seed = self.reset_options = None
        self._over = None
        observation = last.observation if self._encode is None else self._encode(last.observation)
        kinds = FIRST if self.core.batch_size is None else np.zeros(self.core.batch_size, np.int32)
        return make_time_step((kinds, self._no_reward(), self._all(), observation))

    def _step(self, action: Any) -> TimeStep:
        if self._over:
            return self._reset()
        self.last = last = self._env.step(action if self._decode is None else self._decode(action))
        observation, reward, terminated, truncated, discount, _ = last
        if self._encode is not None:
            observation = self._encode(observation)
        kind = MID
        if terminated or truncated:
            self._over, kind = True, LAST
        if terminated:
            rest = self._nothing()
        elif type(discount) is float and discount == 1.0:
            rest = self._all()
        else:
            rest = self._to_discount(discount)
            if kind is LAST and is_zero(rest):
                rest = self._all()
        dtype = self._reward_dtype
        reward = np.array(reward, dtype) if dtype is not None else self._to_reward(reward)
        return make_time_step((kind, reward, rest, observation))

    def reward_spec(self) -> Any:
        """Returns the reward spec of the core's current rewarder."""
        if self.core.reward_spec is not self._reward_of:
            self._plan()
        return self._reward_spec

    def time_step_spec(self) -> TimeStep:
        """Returns the specs of all four fields as a `TimeStep`."""
        step_type = ArraySpec((), np.int32, "step_type")
        return TimeStep(step_type, self.reward_spec(), self._discount_spec, self._observation_spec)

    def get_info(self) -> Any:
        """Returns the info of the last reset or step; empty before the first reset."""
        return {} if self.last is None else self.last.info

    def get_state(self) -> Any:
        """Returns an opaque copy: the core's snapshot, the current time step, and the seed of the next reset."""
        return self.content()

    def set_state(self, state: Any) -> None:
        """Restores what `get_state` returned, any number of times."""
        self.put_back(state)

    def has_returned(self, time_step: Any) -> bool:
        """Returns True if this form returned `time_step` last; False if a wrapper made it."""
        return self._current_time_step is time_step

    def render(self, mode: str = "rgb_array") -> Any:
        """Returns an image of the current state; for a batch, images of all lanes, of shape (n, height, width, 3).

        Raises:
            NotImplementedError: The core was made without a `render_mode`.
            SpecError: The core has another mode.
        """
        if self.render_mode is None:
            raise NotImplementedError(f"render: {self.core!r} has no pictures")
        if mode != self.render_mode:
            raise SpecError(f"render: expected mode {self.render_mode!r}, as the environment was made, got {mode!r}")
        picture = self.core.render()
        return picture if self.core.batch_size is None else np.stack(picture)

    @property
    def unwrapped(self) -> Any:
        return self.core.unwrapped


class ToTFAgentsBatch(ToTFAgents):
    """A core batch as a batched TF-Agents environment. A lane begins a new episode in the step after its `LAST`."""

    core: BatchEnv

    _of_lanes = True

    @property
    def infos(self) -> Sequence[dict[Any, Any]]:
        """The infos of the last reset or step, one dict per lane with the original types; empty before the first."""
        return Infos([{} for _ in range(self.core.batch_size)]) if self.last is None else cast("Any", self.last.info)

    def get_info(self) -> Any:
        """Returns the infos of the last reset or step, stacked over the lanes as in TF-Agents' `BatchedPyEnvironment`.

        The result is a dict of arrays of shape (n, …), nested like the infos. Raises a SpecError if lanes differ in
        keys or shapes, or if only some have text; `infos` has them lane by lane.
        """
        infos = self.infos
        try:
            return _nest(infos)
        except NotStackable as error:
            error.infos = infos
            raise

    def restart(self, mask: Any) -> None:
        """Sets the mask of lanes that begin an episode in the next step; by default, lanes that have ended."""
        self._over = mask if mask.any() else None

    def _step(self, action: Any) -> TimeStep:
        begin = self._over
        sent = action if self._decode is None else self._decode(action)
        self.last = last = self._env.step(sent, begin)
        observation, reward, terminated, truncated, discount, _ = last
        if self._encode is not None:
            observation = self._encode(observation)
        over = terminated | truncated
        kinds = np.add(over, 1, dtype=np.int32)
        if begin is not None:
            kinds[begin] = 0
        discount = self._to_discount(discount)
        if over.any():
            self._over = over
            if terminated.any():
                map_leaves(lambda leaf: leaf.__setitem__(terminated, 0), discount)
            cut = truncated & ~terminated
            if cut.any():
                zero = cut & zero_lanes(discount, len(cut))
                map_leaves(lambda leaf: leaf.__setitem__(zero, 1), discount)
        else:
            self._over = None
        return make_time_step((kinds, self._to_reward(reward), discount, observation))


# Infos of a batch: nested arrays with a leading axis of n lanes.


class NotStackable(SpecError):
    """Raised if infos of lanes cannot be stacked, as keys, shapes or types differ; `infos` has them lane by lane."""

    infos: Sequence[Mapping[Any, Any]] = ()


def _nest(infos: Sequence[Mapping[Any, Any]]) -> Any:
    if isinstance(infos, Infos) and infos.masks is None and (infos.mask is None or infos.mask.all()):
        columns = infos.columns
        if columns is not None and all(isinstance(column, np.ndarray) for column in columns.values()):
            return {key: np.array(column) for key, column in columns.items()}
    return _stacked(list(infos), "info")


def _stacked(values: list[Any], path: str) -> Any:
    _agree(path, "nested alike", [_nesting(value) for value in values])
    if not is_branch(values[0]):
        arrays = [np.asanyarray(value) for value in values]
        _agree(path, "of one shape", [str(array.shape) for array in arrays])
        if not any(array.dtype.hasobject for array in arrays):  # numpy would write numbers beside text as text
            kinds = ["text" if array.dtype.kind in "US" else "no text" for array in arrays]
            _agree(path, "of text or of no text", kinds)
        return np.stack(arrays)
    keys = [[key for _, key, _ in children(value)] for value in values]
    for key in dict.fromkeys(key for own in keys for key in own):
        _agree(f"{path}[{key!r}]", "in all lanes or in none", ["a value" if key in own else "none" for own in keys])
    below = ((f"{path}{part}", [value[key] for value in values]) for part, key, _ in children(values[0]))
    return rebuild(values[0], [_stacked(held, where) for where, held in below])


def _nesting(value: Any) -> str:
    return "a dict" if isinstance(value, dict) else type(value).__name__ if is_branch(value) else "one value"


def _agree(path: str, wanted: str, found: list[str]) -> None:
    """Checks that a property is the same in all lanes."""
    lanes: dict[str, list[int]] = {}
    for lane, one in enumerate(found):
        lanes.setdefault(one, []).append(lane)
    if len(lanes) > 1:
        by_lanes = ", ".join(f"{what} in lanes {of}" for what, of in lanes.items())
        raise NotStackable(
            f"{path}: expected values {wanted} to stack over the lanes, got {by_lanes}; "
            "read the form's `infos`, one dict a lane"
        )
