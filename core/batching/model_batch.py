"""Batches of a `BatchModel`, in which one call of the author's functions steps all lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..errors import EpisodeError, SnapshotUnsupported, SpecError
from ..lane_values import put, take
from ..protocol.batch_env import Mask, as_mask, either, full_lanes_step, make_batch_reset, step_masks
from ..protocol.env import ENDED, ENDED_LANES, NOT_RESET, Reset, Step
from ..protocol.infos import Infos
from ..protocol.process import Snapshot
from ..rewards.rewarder import ModelReward, Rewarder, stream_bound
from ..seeding import Streams, batch_streams
from ..spec import Spec, zeros
from ..spec.base import shown
from ..tree import AnyArray, AnyDict, AnyList, AnyScalar, AnyTuple
from ..wrapping.arguments import each_leaf
from .lane_contexts import LaneContexts

if TYPE_CHECKING:
    from .batch_model import BatchModel

_ZERO = np.zeros(())  # numpy would convert a Python number in each operation


class ModelBatch(LaneContexts):
    """n lanes of a `BatchModel`, stepped by one call of its functions. All lanes share one set of random streams.

    Args:
        model: The model; its functions are used, its own episode is not.
        n: The number of lanes.
    """

    lanes_can_wait = True
    _next: Any = None  # the state, the observation, and the ended lanes after a step that was computed

    def __init__(self, model: BatchModel, n: int) -> None:
        super().__init__(n)
        self.model = model
        self.observation_spec, self.action_spec = model.observation_spec, model.action_spec
        self.reward_spec, self.discount_spec = model.reward_spec, model.discount_spec
        self.state_spec, self.metadata, self.render_mode = model.state_spec, model.metadata, model.render_mode
        if not model.is_unchanged:
            self._rewarder = stream_bound(model.rewarder, self)
        self._declared_reward_spec = model.declared_reward_spec
        self._state: Any = None
        self._observation: Any = None
        self._none_over: Mask = np.zeros(n, bool)  # never changed
        self._no_columns = Infos(columns={}, n=n)
        self._over: Mask = np.ones(n, bool)
        self._some_over = True
        self._begun = False
        self._idle = tree.map_leaves(
            lambda leaf: np.asarray(leaf) if isinstance(leaf, AnyScalar) else leaf, zeros(model.action_spec)
        )
        self._one_action = isinstance(model.action_spec, Spec)
        self._begin_contexts()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        n, model = self.batch_size, self.model
        mask = as_mask(mask, n, "mask")
        if not self._begun and mask is not None:
            if not mask.all():
                raise EpisodeError(f"reset: {NOT_RESET} in all lanes first, without a mask")
            mask = None
        columns = self._columns_under(options) if options else self._columns
        self._streams = batch_streams(seed, n) or self._streams
        streams = self.streams
        if mask is None:
            state, over = self._initial(None, columns), np.zeros(n, bool)
        else:
            mask = mask.copy()  # the infos keep it
            index, state, over = np.flatnonzero(mask), self._state, self._over & ~mask
            if len(index):
                state = put(state, index, self._initial(index, columns))
        observation = model.observe(state, streams.observation)
        if mask is not None:
            # Lanes that were not reset keep their observation, also if observations are noisy.
            observation = put(observation, np.flatnonzero(~mask), take(self._observation, ~mask))
        infos = Infos(columns=model.info(state), n=n, mask=mask)
        # Only now, so that an error in a function of the author leaves the episodes where they were.
        self._state, self._observation, self._over = state, observation, over
        self._begun, self._some_over = True, bool(over.any())
        return make_batch_reset((observation, infos))

    def _initial(self, index: NDArray[np.intp] | None, under: Mapping[str, NDArray[Any]] | None = None) -> Any:
        """Returns initial states for the lanes `index`, or for all, each with its own context."""
        columns = self._columns if under is None else under
        rng = self.streams.dynamics
        if index is None:
            return self.model.initial(rng, columns, self.batch_size)
        return self.model.initial(rng, self._columns_at(index, columns), len(index))

    def step(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> Step:
        restart, hold = step_masks(self, restart, hold)
        values = self.advance(action, restart, hold, either(restart, hold))
        self.commit()
        return full_lanes_step(values[:6], self.discount_spec, self.batch_size)

    def advance(self, action: Any, restart: Mask | None, hold: Mask | None, still: Mask | None) -> tuple[Any, ...]:
        """Computes a step, which lasts from `commit` on, so that an error of a wrapper leaves all lanes as they were.

        Args:
            action: As for `step`.
            restart: The lanes that begin; None for none. All masks have been checked.
            hold: The lanes that pause; None for none.
            still: The lanes of both, which do not act; None for none.

        Returns:
            The six values of a step, with None for flags and discounts that are the usual, and the lanes that have
            ended in it, or None.
        """
        n, model, streams, before = self.batch_size, self.model, self.streams, self._state
        index, held, idle = (None if mask is None else mask.nonzero()[0] for mask in (restart, hold, still))
        # Mostly, the lanes that restart are those that have ended; comparing bytes shows that faster than masks do.
        if self._some_over and (still is None or self._over.tobytes() != still.tobytes() or not self._begun):
            over = self._over if still is None else np.greater(self._over, still)
            if np.count_nonzero(over) or not self._begun:
                self._refuse(over)
        if self._one_action:
            self._check_number(action, "action")
        else:
            each_leaf(self.action_spec, self._check_leaf, action)
        if idle is not None:
            # The dynamics also run in lanes that do not act, with a valid action; the result is discarded.
            if self._one_action:
                action = _with(action, idle, self._idle)
            else:
                action = tree.map_leaves(lambda nothing, leaf: _with(leaf, idle, nothing), self._idle, action)
        state = model.transition(before, action, streams.dynamics)
        reward = (self._rewarder or model.reward)(before, action, state)
        if not isinstance(reward, (AnyArray, AnyDict, AnyTuple, AnyList)):
            reward = np.full(n, reward)
        if idle is not None:
            if index is not None:
                state = put(state, index, self._initial(index))
            if held is not None:
                state = put(state, held, take(before, held))
            if isinstance(reward, AnyArray):
                reward = _with(reward, idle, _ZERO)
            else:
                reward = tree.map_leaves(lambda leaf: _with(leaf, idle, 0), reward)
        observation = model.observe(state, streams.observation)
        if held is not None:  # which noise would change
            observation = put(observation, held, take(self._observation, held))
        terminated, truncated = self._ends(model.terminal(state), still), model.truncated(state)
        truncated = None if truncated is False else self._ends(truncated, still)  # False is the default
        discount = model.discount(state)
        if discount is not None:
            if isinstance(discount, (int, float)):
                discount = np.full(n, float(discount))
            if idle is not None:
                discount = _with(discount, idle, 1)
        columns = model.info(state)
        if hold is not None:
            infos = Infos(columns=columns, n=n, mask=~hold)
        else:
            infos = Infos(columns=columns, n=n) if columns else self._no_columns
        over = terminated if truncated is None else truncated if terminated is None else terminated | truncated
        if hold is None:
            some = over is not None
            ended = self._none_over if over is None else over.copy()  # the flags are the caller's
        else:
            kept = self._over & hold
            ended = kept if over is None else over | kept
            some = bool(ended.any())
        self._next = state, observation, ended, some
        if over is None:
            return observation, reward, None, None, discount, infos, None
        terminated = np.zeros(n, bool) if terminated is None else terminated
        truncated = np.zeros(n, bool) if truncated is None else truncated
        return observation, reward, terminated, truncated, discount, infos, terminated | truncated

    def commit(self) -> None:
        """Makes the step last that `advance` has computed."""
        (self._state, self._observation, self._over, self._some_over), self._next = self._next, None

    def _ends(self, value: Any, still: Mask | None) -> Mask | None:
        """Returns a flag of all lanes, False in those that do not act; None if it is False in all."""
        flags = value if isinstance(value, AnyArray) else self._flags(value)
        if still is not None:
            flags = np.greater(flags, still)  # of bools, this is "and not"
        # Counting is several times faster than `any` on the few bools of a mask.
        return flags if np.count_nonzero(flags) else None

    def _check_number(self, action: Any, path: str) -> None:
        """Refuses actions of another number than that of the lanes, which numpy may stretch."""
        n = self.batch_size
        shape = action.shape if isinstance(action, AnyArray) else np.shape(action)
        if shape[:1] != (n,):
            raise SpecError(f"{path}: expected one for each of {n} lanes, got {shown(action)}")

    def _check_leaf(self, leaf: Spec, path: str, action: Any) -> None:
        self._check_number(action, path)

    def _flags(self, value: Any) -> Mask:
        if isinstance(value, AnyArray):
            return value
        if value is False:  # the default of `Model.truncated`
            return np.zeros(self.batch_size, bool)
        return np.full(self.batch_size, value, bool)

    def _refuse(self, lanes: Mask) -> None:
        if not self._begun:
            raise EpisodeError(f"step: {NOT_RESET}")
        if self.batch_size == 1:
            raise EpisodeError(f"step: {ENDED}")
        raise EpisodeError(f"step: in lanes {np.flatnonzero(lanes).tolist()}, {ENDED_LANES}")

    def use(self, streams: Streams) -> None:
        """Replaces the random streams."""
        self._streams = streams

    @property
    def state(self) -> Any:
        """The states of all lanes, with leaves of shape (n, …); can be set, see `Model.state`."""
        if not self._begun:
            raise EpisodeError(f"state: {NOT_RESET}")
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        observation = self.model.observe(state, self.streams.observation)
        self._over = self._flags(self.model.terminal(state)) | self._flags(self.model.truncated(state))
        self._state, self._observation = state, observation
        self._begun, self._some_over = True, bool(self._over.any())

    @property
    def observation(self) -> Any:
        if not self._begun:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation

    def _native_rewarder(self) -> Rewarder:
        return ModelReward(self.model)

    def snapshot(self) -> Snapshot:
        held = (self._state, self._observation, self._over, self._begun, self._context, self.streams.copy())
        return Snapshot(type(self), (type(self.model), self.batch_size, held))

    def restore(self, snapshot: Snapshot) -> None:
        model, n, held = self._content(snapshot)
        if (model, n) != (type(self.model), self.batch_size):
            raise SnapshotUnsupported(
                f"restore: expected a snapshot of {self.batch_size} lanes of {type(self.model).__name__}, "
                f"got one of {n} of {model.__name__}"
            )
        self._state, self._observation, self._over, self._begun, context, streams = held
        self._some_over = bool(self._over.any())
        self.context = context
        self._streams = streams.copy()

    def render(self) -> Any:
        """Returns a picture of each lane: uint8 of shape (n, height, width, 3), or None without a render mode."""
        if self.render_mode != "rgb_array":
            return None
        return np.stack([self.model.draw(take(self.state, i)) for i in range(self.batch_size)])

    @property
    def unwrapped(self) -> Any:
        return self.model


def _with(values: NDArray[Any], index: NDArray[np.intp], value: Any) -> NDArray[Any]:
    result = np.array(values)
    result[index] = value
    return result
