"""`ModelLane`, a single lane of a batch of models as an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..lane_values import lane
from ..protocol.env import Env, Reset, Step, as_step, refuse_masks
from ..protocol.process import Snapshot
from ..rewards.rewarder import Rewarder, RewardFunction
from ..spec.arrays import ARRAYS
from ..steps.flat import flat_step
from ..steps.program import VALUES, Program, Stage

if TYPE_CHECKING:
    from ..compiling.runner import Runner


class ModelLane(Env):
    """A single lane of a batch as an environment of its own, which behaves like the model.

    Other attributes come from the lane's model: `lane.force = 12.0` sets `force` of the model. Resetting or stepping
    the lane does not affect the others.

    Attributes:
        lanes: The batch.
        index: The index of this lane.
        model: The same as `unwrapped`.
    """

    _written_step: Any = None
    _awaits_kernel = False  # True if there was no kernel when the step was written

    def __init__(self, lanes: Any, index: int) -> None:
        model = lanes.members[index]
        names = ("observation_spec", "action_spec", "discount_spec", "state_spec", "metadata", "render_mode", "made_by")
        vars(self).update({name: getattr(model, name) for name in names}, lanes=lanes, index=index, _model=model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "lanes" not in vars(self):
            raise AttributeError(name)
        return getattr(self._model if self._is_plain(name) else self.lanes.lend(self.index), name)

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = name.startswith("_") or isinstance(getattr(type(self), name, None), property)
        if not is_own:
            setattr(self._model if self._is_plain(name) else self.unwrapped, name, value)
            self.lanes.distrust()
        if is_own or name in vars(self):
            object.__setattr__(self, name, value)

    def _is_plain(self, name: str) -> bool:
        """Returns True for an attribute of the model that has nothing to do with its episode."""
        model: Any = self._model
        return name[0] != "_" and name in vars(model) and not isinstance(getattr(model.__class__, name, None), property)

    @property
    def unwrapped(self) -> Any:
        """The model in its current state. Later steps and resets of the lane do not update it."""
        return self.lanes.lend(self.index)

    model: Any = unwrapped

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        lanes, index = self.lanes, self.index
        n: int = lanes.batch_size
        seeds = None if seed is None else [seed if i == index else None for i in range(n)]
        mask = np.arange(n) == index if n > 1 and lanes.has_begun else None
        observation, info = lanes.reset(seed=seeds, options=options, mask=mask)
        return Reset(lane(self.observation_spec, observation, index), info[index])

    def hold_episode(self) -> Any:
        return self.lanes.hold_episode()

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        if restart is not None or hold is not None:
            refuse_masks(restart, hold)
        if self._written_step is None:
            self._written_step = flat_step(ModelLane.step_program, as_step, self)
        return self._written_step(self, action)

    def step_program(self) -> Program:
        """Returns the program of a step: one stage that steps this lane while the others pause."""
        title = f"ModelLane: a step of {'a batch of one lane' if self.lanes.batch_size == 1 else 'all lanes'}"
        by_kernel = _step_by_kernel(self.lanes)
        self._awaits_kernel = self.lanes._runner is None
        names: dict[str, Any] = {"lane": self, "hold_step": self.lanes.hold_step, "by_kernel": by_kernel}
        lines = f"{', '.join(VALUES)} = {'by_kernel(action) or ' if by_kernel else ''}lane.step_alone(action)"
        undo, source = "_back0()", self.lanes.kernel_source
        stage = Stage(title, lines, names, guarded=True, save="_back0 = hold_step()", undo=undo, source=source)
        return Program((stage,), self.step_record)

    def step_alone(self, action: Any) -> tuple[Any, ...]:
        """Steps this lane while the others pause, and returns the six values of the step."""
        lanes, index = self.lanes, self.index
        n: int = lanes.batch_size
        if self._awaits_kernel and lanes._runner is not None:
            self.step_record.stale()

        def in_all(spec: Any, leaf: Any) -> Any:
            if not isinstance(spec, ARRAYS):
                return (leaf,) * n
            one = _as_leaf(leaf, spec.dtype)[None]
            return one if n == 1 else np.repeat(one, n, 0)

        actions, hold = tree.map_leaves(in_all, self.action_spec, action), None if n == 1 else np.arange(n) != index
        observation, reward, terminated, truncated, discount, infos, _ = lanes.advance(actions, None, hold)
        lanes.commit()
        ends = (False if flags is None else bool(flags[index]) for flags in (terminated, truncated))
        reward = lane(self.reward_spec, reward, index)
        discount = None if discount is None else lane(self.discount_spec, discount, index)
        # A model's numbers are Python's.
        numbers: list[Any] = [one.item() if isinstance(one, np.generic) else one for one in (reward, discount)]
        return lane(self.observation_spec, observation, index), numbers[0], *ends, numbers[1], infos[index]

    # The lane's episode.

    @property
    def state(self) -> Any:
        """The state; settable as in `Model.state`."""
        return self.lanes.state[self.index]

    @state.setter
    def state(self, state: Any) -> None:
        self.unwrapped.state = state
        self.lanes.take_over(self.index)

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self.lanes.observation, self.index)

    @property
    def rng(self) -> np.random.Generator:
        """The random generator of the dynamics; settable."""
        return self._model.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.unwrapped.rng = generator

    @property
    def rewarder(self) -> Rewarder:
        """The reward function; settable."""
        return self._model.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.unwrapped.rewarder = rewarder
        if self.lanes.batch_size == 1:
            self.lanes.reward_spec = self._model.reward_spec
        self.step_record.stale()

    reward_spec: Any = property(attrgetter("_model.reward_spec"))
    declared_reward_spec: Any = property(attrgetter("_model.declared_reward_spec"))
    given_rewarder: Any = property(attrgetter("_model.given_rewarder"))
    is_unchanged: Any = property(attrgetter("_model.is_unchanged"))
    streams: Any = property(attrgetter("_model.streams"))

    @property
    def context(self) -> Any:
        """The context of coming episodes; settable."""
        return dict(self.lanes._context_of(self.index))

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        self.lanes._set_contexts([context], [self.index], False)

    def spec_under(self, contexts: Any) -> Any:
        return self._model.spec_under(contexts)

    def snapshot(self) -> Snapshot:
        return self.unwrapped.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self.unwrapped.restore(snapshot)
        self.lanes.take_over(self.index)

    def render(self) -> Any:
        return self.unwrapped.render()

    def close(self) -> None:
        self._model.close()

    def __getstate__(self) -> dict[str, Any]:
        # Copies do not contain the step function, which refers to this lane.
        return {name: value for name, value in vars(self).items() if name != "_written_step"}


def _as_leaf(leaf: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns a part of an action as an array with its own dtype, which the batch checks."""
    array = np.asarray(leaf)
    plain = type(leaf) is bool or (type(leaf) in (list, tuple) and array.dtype.kind == dtype.kind == "f")
    return array.astype(dtype) if plain else array


def _step_by_kernel(lanes: Any) -> Callable[[Any], tuple[Any, ...] | None] | None:
    """Returns a function that steps a batch of one lane by its kernel; None if it has no kernel, or nested values.

    The function takes the action of the lane and returns the six values of the step; None, with nothing changed, for an
    action or a lane that the kernel cannot take as it is.
    """
    runner: Runner | None = lanes._runner
    if runner is None or lanes.batch_size > 1 or not runner.plan.has_one_action:
        return None
    plan, first = runner.plan, runner.plan.actions[0]
    if tree.is_branch(plan.seen.example):
        return None
    kernel, actions, dtype, action_shape = runner.kernel, runner.idle.copy(), first.dtype, first.shape
    numbers = () if action_shape else (dtype.type, int) if dtype.kind in "iu" else (dtype.type,)
    shape, seen_dtype, none = (1, *plan.seen.shapes[0]), plan.seen.dtypes[0], runner.none
    rewards, discounts = np.zeros(1, plan.reward), None if plan.discount is None else np.zeros(1, plan.discount)
    terminated, truncated = runner.arrays["terminated"], runner.arrays["truncated"]

    def step(action: Any) -> Any:
        is_usable = (lanes._in_rows and runner.is_unchanged()) or lanes._usable(runner)
        if not is_usable or not runner.saves_streams:
            return None
        kind = action.__class__
        if kind not in numbers and not (kind is np.ndarray and action.dtype is dtype and action.shape == action_shape):
            return None
        try:
            actions[0] = action
        except OverflowError:
            return None
        observation = np.empty(shape, seen_dtype)
        try:
            ended = kernel(runner.table, 0, none, actions, observation, rewards, discounts)
        except BaseException as error:
            runner.take_back(error)
            raise
        if ended < 0:
            return runner.refuse(actions, none)
        runner.exchange()
        lanes._states = lanes._elapsed = None
        lanes._observation = observation
        reward, discount = rewards.item(), None if discounts is None else discounts.item()
        if not ended:
            lanes._over = none
            return observation[0], reward, False, False, discount, {}
        lanes._over = ~none
        return observation[0], reward, bool(terminated[0]), bool(truncated[0]), discount, {}

    return step
