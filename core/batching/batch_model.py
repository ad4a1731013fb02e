"""Models with a leading lane axis, and their batches, in which one call of the author's functions steps all lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..authoring.model import Model
from ..errors import ContextError, EpisodeError, SnapshotUnsupported, nearest
from ..lane_values import lane, put, take
from ..protocol.batch_env import LANES_VALUES, Mask, check_count, masks_of, step_of_lane
from ..protocol.env import NOT_RESET, Env, Reset, Step, refuse_masks
from ..protocol.infos import Infos
from ..protocol.process import Snapshot
from ..protocol.reset_options import CONTEXT, as_mapping, split
from ..rewards.rewarder import ModelReward, Rewarder, stream_bound
from ..seeding import Streams
from ..spec import Spec, zeros
from ..spec.base import shown
from ..steps.program import Program, Stage
from ..tree import AnyArray, AnyDict, AnyList, AnyMapping, AnyScalar, AnyTuple
from ..wrapping.arguments import each_leaf
from .lanes import GIVEN, LaneColumns

if TYPE_CHECKING:
    from ..context import ContextSpace

_ZERO = np.zeros(())  # numpy would convert a Python number in each operation


class BatchModel(Model):
    """A model whose functions take a leading lane axis, so that one numpy call steps all lanes.

    States are arrays, or dicts, lists, tuples or named tuples of arrays, all of shape (n, …). The model itself is an
    `Env` with a single lane, whose values do not have the lane axis. `envoi.batch(model, n)` makes a batch of n lanes.
    Functions that index from the end (`state[..., 0]`) also accept a single state without the axis, such as
    `env.state`, from a planner or a rewarder.
    """

    _one: ModelBatch | None = None

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the initial states of `size` episodes.

        Args:
            rng: The dynamics stream.
            context: As for `Model.initial`, with an array of shape (size,) for each feature, which may differ by lane.
            size: The number of lanes.
        """
        raise NotImplementedError

    # As an Env, it runs a batch of one lane, which knows where the episode is, and removes the lane axis.

    @property
    def lanes(self) -> ModelBatch:
        """The one-lane batch that runs the model when it is used as an `Env`, with its streams and its rewarder."""
        if self._one is None:
            self._one = ModelBatch(self, 1)
        one: Any = self._one
        one._streams, one._rewarder = self.streams, self._rewarder
        return one

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        before = self.streams
        if seed is not None:
            self._streams = Streams(seed)
        # The values for the single lane get the axis that the model's functions expect.
        options = options and {name: self._with_axis(name, value) for name, value in as_mapping(options).items()}
        try:
            observation, info = self.lanes.reset(options=options)
        except BaseException:
            self._streams = before
            raise
        return Reset(lane(self.observation_spec, observation, 0), info[0])

    def _with_axis(self, name: str, value: Any) -> Any:
        space = self.context_space
        if name != CONTEXT or space is None or name in space.features:
            return np.asarray(value)[None]
        if not isinstance(value, AnyMapping):
            return value  # the reset of the lanes raises the error
        return {feature: np.asarray(one)[None] for feature, one in value.items()}

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        refuse_masks(restart, hold)
        actions = tree.map_leaves(lambda _, leaf: np.asarray(leaf)[None], self.action_spec, action)
        return step_of_lane(self, self.lanes.step(actions), 0)

    @property
    def context(self) -> dict[str, Any]:
        """The context of coming episodes, with defaults filled in; settable."""
        return super().context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        before = self._context
        self._context = {}  # features that `context` leaves out return to their defaults
        try:
            self.lanes.context = context
        except ContextError:
            self._context = before
            raise
        self._context = dict(context)

    @property
    def state(self) -> Any:
        """The state, without the lane axis; settable as in `Model.state`."""
        return take(self.lanes.state, 0)

    @state.setter
    def state(self, state: Any) -> None:
        self.lanes.state = tree.map_leaves(lambda leaf: np.asarray(leaf)[None], state)

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self.lanes.observation, 0)

    def hold_episode(self) -> Callable[[], None]:
        lanes, own = self.lanes.hold_episode(), super().hold_episode()

        def take_back() -> None:
            lanes()
            own()

        return take_back

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), (self._context, self.lanes.snapshot()))

    def restore(self, snapshot: Snapshot) -> None:
        self._context, lanes = self._content(snapshot)
        one = self.lanes
        one.restore(lanes)
        self._streams = one.streams


class ModelBatch(LaneColumns):
    """Steps n lanes of a `BatchModel` with one call of its functions. All lanes share one set of random streams.

    Args:
        model: The model. The batch calls its functions and ignores its own episode.
        n: The number of lanes.
    """

    _of_episode = ("_state", "_observation", "_over", "_begun", "_some_over", "_streams")

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
        self._none_over: Mask = np.zeros(n, bool)  # never changed
        self._no_columns = Infos(columns={}, n=n)
        self._over: Mask = np.ones(n, bool)
        self._some_over = True
        self._idle = tree.map_leaves(
            lambda leaf: np.asarray(leaf) if isinstance(leaf, AnyScalar) else leaf, zeros(model.action_spec)
        )
        self._one_action = isinstance(model.action_spec, Spec)
        self._context: Mapping[str, Any] = {}
        self.context = model.context

    def _begin(self, restart: Mask, hold: Mask | None, options: Mapping[str, Any] | None) -> tuple[Any, ...]:
        return self.advance(None, restart, hold, None, self._columns_under(options) if options else None)

    def step_program(self) -> Program:
        """Returns the program of a step: a single stage that calls the author's functions once for all lanes."""
        stage = Stage(
            "BatchModel: the functions that its author wrote, once for all lanes",
            f"{GIVEN}\n{LANES_VALUES} = batch.advance(action, restart, hold, idle)",
            {"batch": self, "check_count": check_count},
            commit="batch.commit()",
        )
        return Program((stage,), self.step_record, state="batch._next[0]", opening=masks_of(self))

    def advance(
        self, action: Any, restart: Mask | None, hold: Mask | None, idle: Mask | None, under: Any = None
    ) -> tuple[Any, ...]:
        """Computes a step without storing it. `commit` stores it, unless a wrapper raises an error first.

        Args:
            action: As for `step`, or None for a reset, in which no lane acts.
            restart: Mask of the lanes that begin an episode, or None. All masks have been checked.
            hold: Mask of the lanes that pause, or None.
            idle: Mask of the lanes that do not act (`restart` or `hold`), or None.
            under: Context columns for this reset only, or None to use the lanes' own contexts.

        Returns:
            The six values of a step, with None for all-False flags and default discounts; and a mask of the lanes that
            ended, or None.
        """
        n, model, streams, before = self.batch_size, self.model, self.streams, self._state
        index, held = (None if mask is None else mask.nonzero()[0] for mask in (restart, hold))
        state, reward = before, None
        if action is not None:
            # Usually exactly the ended lanes restart; comparing bytes shows this faster than comparing masks.
            if self._some_over and (idle is None or self._over.tobytes() != idle.tobytes() or not self._begun):
                over = self._over if idle is None else np.greater(self._over, idle)
                self._refuse(over)
            state, reward = self._acted(action, None if idle is None else idle.nonzero()[0])
        if index is not None and len(index):
            columns = self._columns if under is None else under
            if hold is None and action is None:
                state = model.initial(streams.dynamics, columns, n)
            else:
                own = {name: column[index] for name, column in columns.items()}
                fresh = model.initial(streams.dynamics, own, len(index))
                state = put(state, index, fresh)
        if held is not None and action is not None:
            state = put(state, held, take(before, held))
        observation = model.observe(state, streams.observation)
        if held is not None:  # which noise would change
            observation = put(observation, held, take(self._observation, held))
        terminated = truncated = discount = None
        if action is not None:
            terminated, truncated = self._ends(model.terminal(state), idle), model.truncated(state)
            truncated = None if truncated is False else self._ends(truncated, idle)  # False is the default
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

    def _acted(self, action: Any, idle: NDArray[np.intp] | None) -> tuple[Any, Any]:
        """Returns the next states and the rewards. Values of idle lanes are meaningless and discarded."""
        before = self._state
        if self._one_action:
            check_count("action", action, self.batch_size)
        else:
            each_leaf(self.action_spec, self._check_leaf, action)
        if idle is not None:
            # The dynamics also run in lanes that do not act, with a valid action; the result is discarded.
            if self._one_action:
                action = _with(action, idle, self._idle)
            else:
                action = tree.map_leaves(lambda nothing, leaf: _with(leaf, idle, nothing), self._idle, action)
        state = self.model.transition(before, action, self.streams.dynamics)
        reward = (self._rewarder or self.model.reward)(before, action, state)
        if not isinstance(reward, (AnyArray, AnyDict, AnyTuple, AnyList)):
            reward = np.full(self.batch_size, reward)
        if idle is not None:
            if isinstance(reward, AnyArray):
                reward = _with(reward, idle, _ZERO)
            else:
                reward = tree.map_leaves(lambda leaf: _with(leaf, idle, 0), reward)
        return state, reward

    def commit(self) -> None:
        """Stores the step that `advance` has computed."""
        (self._state, self._observation, self._over, self._some_over), self._next = self._next, None
        self._begun = True

    def _ends(self, value: Any, still: Mask | None) -> Mask | None:
        """Converts a flag to a mask that is False in idle lanes; returns None if it is False in all lanes."""
        flags = value if isinstance(value, AnyArray) else self._flags(value)
        if still is not None:
            flags = np.greater(flags, still)  # of bools, this is "and not"
        # Counting is several times faster than `any` on the few bools of a mask.
        return flags if np.count_nonzero(flags) else None

    def _check_leaf(self, leaf: Spec, path: str, action: Any) -> None:
        check_count(path, action, self.batch_size)

    def _flags(self, value: Any) -> Mask:
        if isinstance(value, AnyArray):
            return value
        if value is False:  # the default of `Model.truncated`
            return np.zeros(self.batch_size, bool)
        return np.full(self.batch_size, value, bool)

    @property
    def state(self) -> Any:
        """The states of all lanes, with leaves of shape (n, …); settable as in `Model.state`."""
        if not self._begun:
            raise EpisodeError(f"state: {NOT_RESET}")
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        observation = self.model.observe(state, self.streams.observation)
        self._over = self._flags(self.model.terminal(state)) | self._flags(self.model.truncated(state))
        self._state, self._observation = state, observation
        self._begun, self._some_over = True, bool(self._over.any())

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
        """Renders each lane: returns uint8 of shape (n, height, width, 3), or None without a render mode."""
        if self.render_mode != "rgb_array":
            return None
        return np.stack([self.model.draw(take(self.state, i)) for i in range(self.batch_size)])

    @property
    def unwrapped(self) -> Any:
        return self.model

    # Contexts: for each feature, an array with one value per lane.

    @property
    def context_space(self) -> ContextSpace | None:
        """The model's context space."""
        return self.model.context_space

    @property
    def context(self) -> Mapping[str, Any]:
        """The contexts of coming episodes; settable.

        For each feature, set one value for all lanes or an array of shape (n,).

        Raises:
            ContextError: The new value has an unknown feature, a value out of bounds, or an array of the wrong length.
        """
        return self._context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        space = self.model.context_space
        if space is not None:
            space.verify({name: None for name in as_mapping(context, "context") if name not in space.features})
        full = {**self.model.context, **context}
        self._columns = self._checked(full)
        self._context = full

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int] | NDArray[np.intp]) -> None:
        columns, index = self._columns, np.asarray(lanes, np.intp)
        new: dict[str, NDArray[Any]] = {}
        for name, given in context.items():
            if name not in columns:
                raise ContextError(f"put_context: context[{name!r}]: no such feature; {nearest(name, columns)}")
            values = np.asarray(given)
            # A copy, because states may contain the old one; a common dtype: int and float give float.
            new[name] = column = columns[name].astype(np.result_type(columns[name], values))
            column[index] = values
        self._columns, self._context = {**columns, **new}, {**self._context, **new}

    def _checked(self, context: Mapping[str, Any], path: str = "context") -> dict[str, NDArray[Any]]:
        """Returns values as columns of shape (n,), after checking the values of known features."""
        space = self.model.context_space
        features = {} if space is None else space.features
        columns: dict[str, NDArray[Any]] = {}
        for name, value in context.items():
            array = np.asarray(value)
            if array.ndim and len(array) != self.batch_size:
                raise ContextError(
                    f"{path}[{name!r}]: expected one value, or one for each of {self.batch_size} lanes, "
                    f"got {len(array)}"
                )
            if space is not None and name in features:
                values = array.ravel().tolist()
                for one in dict.fromkeys(values):
                    try:
                        space.verify({name: one}, path)
                    except ContextError as error:
                        where = f" in lane {values.index(one)}" if array.ndim else ""
                        raise ContextError(f"{error}{where}") from None
            columns[name] = array if array.ndim else np.broadcast_to(array.copy(), self.batch_size)  # read-only
        return columns

    def _columns_under(self, options: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Returns the context columns for a reset with options; see `reset_options.of_the_episode`."""
        space = self.model.context_space
        if space is None:
            return {**self._columns, **self._checked(options, "options")}
        whole, rest = split(options, space)
        columns = self._columns if whole is None else self._checked(whole, f"options[{CONTEXT!r}]")
        return {**columns, **self._checked(rest, "options")}


def _with(values: NDArray[Any], index: NDArray[Any], value: Any) -> NDArray[Any]:
    result = np.array(values)
    result[index] = value
    return result


_OF_MODELS = ("step", "reset", "state", "observation", "context", "rewarder", "streams", "rng", "snapshot", "restore")
"""The parts of an episode. A batch of lanes stores them, so a model that overrides one is not batched this way."""


def are_models(envs: Sequence[Env]) -> bool:
    """Returns True if all environments are scalar models of one class that `ModelLanes` can run."""
    kind = type(envs[0])
    return (
        issubclass(kind, Model)
        and all(getattr(kind, name) is getattr(Model, name) for name in _OF_MODELS)
        and all(type(env) is kind and vars(env).keys().isdisjoint(_OF_MODELS) for env in envs)
    )


def why_interpreted(env: object) -> str:
    """Returns the reason why an environment cannot be compiled, because it is not a scalar model."""
    if isinstance(env, BatchModel):
        return f"{type(env).__name__} is a BatchModel, which steps in numpy; only scalar models (envoi.Model) compile"
    own = next((n for n in _OF_MODELS if isinstance(env, Model) and getattr(type(env), n) is not getattr(Model, n)), "")
    if own:
        return f"{type(env).__name__}.{own}: a kernel would not call it; leave it out, or use compiled=False"
    return f"expected a model, got {shown(env)}; only models can be compiled"
