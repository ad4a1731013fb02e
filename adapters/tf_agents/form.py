"""Exports core environments and batches to TF-Agents. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np

from envoi import BatchEnv, Env, Infos, SpecError
from envoi.protocol.batch_env import Seeds
from envoi.seeding import check_seed, lane_seeds
from envoi.tree import children, is_branch, map_leaves, rebuild

from ..shared.array_specs import decoder
from ..shared.arrival import is_zero
from ..shared.exported import OpenForm, SpecMethods
from ..shared.loss import warn_narrowed
from . import specs
from .specs import NAME, ArraySpec, PyEnvironment, StepType, TimeStep, to_spec, zero_lanes

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST

new: Callable[..., Any] = tuple.__new__  # TF-Agents' own `transition` takes hundreds of times as long


class _Episode:
    """The episode of a form, which is stepped here because each attribute of a form costs more, see `OpenForm`."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.current = self.last = self.options = self.seed = None  # options and seed are those of the next reset
        self.over: Any = None  # true after an end; for a batch, the lanes that begin in the next step

    def plan(self, core: Env, env: Any) -> None:
        """Decides which values need a conversion."""
        self.core, self.env, self.reward_of, n = core, env, core.reward_spec, core.batch_size
        reward = specs.number_spec(core.reward_spec, "reward", self.exact)
        discount = specs.number_spec(core.discount_spec, "discount", self.exact)
        self.reward_spec = specs.stated_spec(core.reward_spec, reward, "reward")
        self.discount_spec = specs.stated_spec(core.discount_spec, discount, "discount")
        lanes = () if n is None else (n,)
        self.to_reward, self.to_discount = specs.number_encoder(reward), specs.number_encoder(discount)
        self.no_reward = specs.constant(reward, 0, lanes)
        self.nothing, self.all = specs.constant(discount, 0, lanes), specs.constant(discount, 1, lanes)
        self.encode = specs.array_encoder(specs.lanes_of(core.observation_spec, n))
        self.decode = decoder(specs.lanes_of(core.action_spec, n), exact=env is not core)

    def begin(self) -> TimeStep:
        """Resets the core, and returns the first time step."""
        if self.core.reward_spec is not self.reward_of:  # another rewarder
            self.plan(self.core, self.env)
        self.last = last = self.env.reset(seed=self.seed, options=self.options)
        self.seed = self.options = self.over = None
        observation = last.observation if self.encode is None else self.encode(last.observation)
        kinds = FIRST if self.core.batch_size is None else np.zeros(self.core.batch_size, np.int32)
        return new(TimeStep, (kinds, self.no_reward(), self.all(), observation))

    def step(self, action: Any) -> TimeStep:
        """Runs one step; starts a new episode instead if none is running. See `PyEnvironment.step`."""
        self.current = current = self.begin() if self.current is None else self.advance(action)
        return current

    def advance(self, action: Any) -> TimeStep:
        """Steps the core, or resets it after an end, and returns the time step."""
        if self.over:
            return self.begin()
        self.last = last = self.env.step(action if self.decode is None else self.decode(action))
        observation, reward, terminated, truncated, discount, _ = last
        if self.encode is not None:
            observation = self.encode(observation)
        self.over = over = terminated or truncated
        if terminated:
            rest = self.nothing()
        elif type(discount) is float and discount == 1.0:
            rest = self.all()
        else:
            rest = self.to_discount(discount)
            if over and is_zero(rest):
                rest = self.all()
        return new(TimeStep, (LAST if over else MID, self.to_reward(reward), rest, observation))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("current", "last", "options", "seed", "over", "exact")}


def _of_episode(name: str) -> Any:
    """Returns a property that reads and sets an attribute of the episode."""
    return property(attrgetter(f"_episode.{name}"), lambda form, value: setattr(form._episode, name, value))


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
    _memory = ("_current_time_step", "last", "reset_options", "_seed", "_over")

    last = _of_episode("last")
    reset_options = _of_episode("options")
    _current_time_step, _seed, _over = _of_episode("current"), _of_episode("seed"), _of_episode("over")
    _discount_spec = _of_episode("discount_spec")

    def __init__(self, core: Env, validate: bool = False, exact: bool = False) -> None:
        self._episode = _Episode(exact)
        super().__init__(core, validate)
        warn_narrowed(specs.losses(core, exact))

    def _describe(self) -> None:
        self._observation_spec = to_spec(self.core.observation_spec, "observation")
        self._action_spec = to_spec(self.core.action_spec, "action")

    def _plan(self) -> None:
        episode, kind = self._episode, type(self)
        episode.plan(self.core, self._env)
        if all(getattr(kind, name, None) is own for name, own in _WRITTEN.items()):  # neither overridden nor patched
            self._step_by(lambda action: episode.step(action))

    @property
    def batched(self) -> bool:
        """True for a batch; its values then have a leading axis of n lanes."""
        return self.core.batch_size is not None

    @property
    def batch_size(self) -> int | None:
        """The number of lanes of a batch, else None."""
        return self.core.batch_size

    def seed(self, seed: Seeds) -> None:
        """Seeds the next reset; the seed determines all later randomness.

        The seed is a non-negative integer; for a batch, one for all lanes or a sequence with one (or None) per lane.
        Any other value raises a SpecError.
        """
        if (n := self.core.batch_size) is not None:
            lane_seeds(seed, n)  # raises an error if they are not valid
        self._seed = check_seed(seed) if n is None else seed

    def _reset(self) -> TimeStep:
        return self._episode.begin()

    def _step(self, action: Any) -> TimeStep:
        return self._episode.advance(action)

    def reward_spec(self) -> Any:
        """Returns the reward spec of the core's current rewarder."""
        if self.core.reward_spec is not self._episode.reward_of:
            self._episode.plan(self.core, self._env)
        return self._episode.reward_spec

    def time_step_spec(self) -> TimeStep:
        """Returns the specs of all four fields as a `TimeStep`."""
        kind = ArraySpec((), np.int32, "step_type")
        return TimeStep(kind, self.reward_spec(), self._discount_spec, self._observation_spec)

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
        episode, begin = self._episode, self._episode.over
        episode.last = last = self._env.step(action if episode.decode is None else episode.decode(action), begin)
        observation, reward, terminated, truncated, discount, _ = last
        if episode.encode is not None:
            observation = episode.encode(observation)
        over = terminated | truncated
        kinds = np.add(over, 1, dtype=np.int32)
        if begin is not None:
            kinds[begin] = 0
        discount = episode.to_discount(discount)
        episode.over = over if over.any() else None
        if terminated.any():
            map_leaves(lambda leaf: leaf.__setitem__(terminated, 0), discount)
        cut = truncated & ~terminated
        if cut.any():
            zero = cut & zero_lanes(discount, len(cut))
            map_leaves(lambda leaf: leaf.__setitem__(zero, 1), discount)
        return new(TimeStep, (kinds, episode.to_reward(reward), discount, observation))


_WRITTEN = {name: getattr(ToTFAgents, name, None) for name in ("step", "reset", "_step", "_reset", "should_reset")}

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
    kinds: Any = (dict if isinstance(value, dict) else type(value) if is_branch(value) else None for value in values)
    _agree(path, "nested alike", [{dict: "a dict", None: "one value"}.get(kind) or kind.__name__ for kind in kinds])
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
