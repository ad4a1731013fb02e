"""Batches: many lanes of one environment, stepped together.

A `BatchEnv` is an `Env` whose values have a leading lane axis. It never resets a lane by itself: a lane that has
ended is begun anew by `reset(mask=…)`, or by `step(actions, restart=…)` while the other lanes act. The auto-reset
modes of the frameworks are one call each:

    next step    step(actions, restart=over)
    same step    step(actions), then reset(mask=over)
    disabled     step(actions), and reset(mask=…) when the user says so

`envoi.batch(env, n)` makes one from anything: a `BatchModel` steps all lanes in one numpy call, any other
environment is looped over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from . import tree
from .context import ContextSpace
from .env import ENDED, NOT_RESET, Env, Info, Reset, Snapshot, Step
from .errors import ContextError, EpisodeError, SpecError
from .lanes import Infos, lane, put, stack, take
from .model import Model
from .rewarder import Rewarder, RewardFunction
from .spec import sample
from .streams import Streams, lane_seeds
from .wrapper import Wrapper

Mask = NDArray[np.bool_]


class BatchEnv(Env):
    """n lanes of one environment. Specs describe one lane; every value has a leading axis of n.

    Args:
        n: How many lanes.

    Raises:
        SpecError: `n` is below 1.
    """

    batch_size: int  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, n: int) -> None:
        if n < 1:
            raise SpecError(f"n: expected at least 1 lane, got {n}")
        self.batch_size = n

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        """Begins an episode in the lanes of `mask`, or in all.

        Args:
            seed: One for all lanes, or one a lane.
            options: As for a single environment.
            mask: Shape (n,), which lanes.

        Returns:
            The current observations of all n lanes, and infos, empty for lanes that were not reset.
        """
        raise NotImplementedError

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        """Acts once in every lane, but for those that begin a new episode instead.

        Args:
            action: Leaves of shape (n, …).
            restart: Shape (n,), the lanes that are reset instead, whatever their action; they report their first
                observation and reset info, reward 0, no end, and discount 1.

        Raises:
            EpisodeError: One of the other lanes was not reset before, or has ended.
        """
        raise NotImplementedError

    def sample_action(self) -> Any:
        rng = self.streams.action
        return stack(self.action_spec, [sample(self.action_spec, rng) for _ in range(self.batch_size)])


class BatchModel(Model):
    """A model whose functions are written over a leading lane axis, so that one numpy call steps all lanes.

    States are arrays, or dicts, lists, tuples or named tuples of arrays, all of shape (n, …). It is an `Env` of
    one lane as it stands (without the axis), and `envoi.batch(model, n)` makes n lanes of it.
    """

    _one: ModelBatch | None = None

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The states in which `size` episodes begin.

        Args:
            rng: Draws from the dynamics stream.
            context: As for `Model.initial`, each value an array of shape (size,): contexts may differ per lane.
            size: How many lanes.
        """
        raise NotImplementedError

    # As an Env of one lane, it is a batch of one without the axis.

    @property
    def _lanes(self) -> ModelBatch:
        if self._one is None:
            self._one = ModelBatch(self, 1)
        return self._one

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        lanes = self._lanes
        if seed is not None:
            lanes.use(Streams(seed))
        observation, info = lanes.reset(options=options)
        return Reset(lane(self.observation_spec, observation, 0), info[0])

    def step(self, action: Any) -> Step:
        actions = tree.map_leaves(lambda leaf: np.asarray(leaf)[None], action)
        observation, reward, terminated, truncated, discount, info = self._lanes.step(actions)
        return Step(
            lane(self.observation_spec, observation, 0),
            lane(self.reward_spec, reward, 0),
            bool(terminated[0]),
            bool(truncated[0]),
            lane(self.discount_spec, discount, 0),
            info[0],
        )

    @property
    def context(self) -> dict[str, Any]:
        """The context of the coming episodes, defaults filled in; settable."""
        return super().context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        self._context = dict(context)
        self._lanes.context = context

    @property
    def state(self) -> Any:
        return take(self._lanes.state, 0)

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self._lanes.observation, 0)

    @property
    def streams(self) -> Streams:
        return self._lanes.streams

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the dynamics; settable."""
        return self._lanes.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._lanes.rng = generator

    @property
    def rewarder(self) -> Rewarder:
        """What computes the reward; settable."""
        return super().rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self._lanes.rewarder = rewarder
        self._rewarder, self.reward_spec = self._lanes.rewarder, self._lanes.reward_spec

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), (self._context, self._lanes.snapshot()))

    def restore(self, snapshot: Snapshot) -> None:
        self._context, lanes = self._content(snapshot)
        self._lanes.restore(lanes)

    def render(self) -> Any:
        return self.draw(self.state) if self.render_mode == "rgb_array" else None


class ModelBatch(BatchEnv):
    """n lanes of a `BatchModel`, stepped by one call of its functions. One stream serves all lanes.

    Args:
        model: The model; only its functions are used, never its own episode.
        n: How many lanes.
    """

    def __init__(self, model: BatchModel, n: int) -> None:
        super().__init__(n)
        self.model = model
        self.observation_spec, self.action_spec = model.observation_spec, model.action_spec
        self.reward_spec, self.discount_spec = model.reward_spec, model.discount_spec
        self.state_spec, self.metadata, self.render_mode = model.state_spec, model.metadata, model.render_mode
        self._rewarder = model._rewarder  # pyright: ignore[reportPrivateUsage]
        self._state: Any = None
        self._observation: Any = None
        self._over: Mask = np.ones(n, bool)
        self._some_over = True
        self._begun = False
        self._all: Mask = np.ones(n, bool)
        self.context = model.context

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        n, model = self.batch_size, self.model
        if seed is not None:
            self.use(_streams_of(seed, n))
        if not self._begun and mask is not None and not mask.all():
            raise EpisodeError(f"reset: {NOT_RESET} in all lanes first, without a mask")
        streams = self.streams
        if mask is None:
            self._state = self._initial(None, options)
            self._over = ~self._all
        else:
            index = np.flatnonzero(mask)
            self._state = put(self._state, index, self._initial(index, options))
            self._over = self._over & ~mask
        observation = model.observe(self._state, streams.observation)
        if mask is not None:
            # Lanes that were not reset keep the observation that they have, even a noisy one.
            observation = put(observation, np.flatnonzero(~mask), take(self._observation, ~mask))
        self._observation = observation
        self._begun, self._some_over = True, bool(self._over.any())
        return Reset(observation, cast("Any", Infos(columns=model.info(self._state), n=n, mask=mask)))

    def _initial(self, index: NDArray[np.intp] | None, options: Mapping[str, Any] | None = None) -> Any:
        """Initial states for the lanes `index`, or for all, each with its own context."""
        columns = {**self._columns, **self._checked(options)} if options else self._columns
        rng = self.streams.dynamics
        if index is None:
            return self.model.initial(rng, columns, self.batch_size)
        size = len(index)
        if options or self._contexts_differ:
            return self.model.initial(rng, take(columns, index), size)
        return self.model.initial(rng, {name: column[:size] for name, column in columns.items()}, size)

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        if self._some_over:
            over = self._over if restart is None else self._over & ~restart
            if over.any():
                self._refuse(over)
        n, model, streams, before = self.batch_size, self.model, self.streams, self._state
        state = model.transition(before, action, streams.dynamics)
        reward = (self._rewarder or model.reward)(before, action, state)
        if not isinstance(reward, (np.ndarray, dict, tuple, list)):
            reward = np.full(n, reward)
        if restart is not None:
            index = np.flatnonzero(restart)
            state = put(state, index, self._initial(index))
            reward = tree.map_leaves(lambda leaf: _with(leaf, index, 0), reward)
        observation = model.observe(state, streams.observation)
        terminated, truncated = self._flags(model.terminal(state)), self._flags(model.truncated(state))
        discount = model.discount(state)
        if restart is not None:
            terminated, truncated = terminated & ~restart, truncated & ~restart
            discount = discount if discount is None else _with(discount, index, 1)
        if discount is None:
            discount = 1.0 - terminated
        self._state, self._observation = state, observation
        self._over = over = terminated | truncated
        self._some_over = bool(over.any())
        infos = Infos(columns=model.info(state), n=n)
        return Step(observation, reward, cast("Any", terminated), cast("Any", truncated), discount, cast("Any", infos))

    def _flags(self, value: Any) -> Mask:
        return value if isinstance(value, np.ndarray) else np.full(self.batch_size, value, bool)

    def _refuse(self, lanes: Mask) -> None:
        if not self._begun:
            raise EpisodeError(f"step: {NOT_RESET}")
        raise EpisodeError(f"step: in lanes {np.flatnonzero(lanes).tolist()}, {ENDED}")

    def use(self, streams: Streams) -> None:
        """Replaces the random streams."""
        self._streams = streams

    @property
    def state(self) -> Any:
        if not self._begun:
            raise EpisodeError(f"state: {NOT_RESET}")
        return self._state

    @property
    def observation(self) -> Any:
        if not self._begun:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation

    def _native_rewarder(self) -> Rewarder:
        return self.model.rewarder

    @property
    def context_space(self) -> ContextSpace | None:
        """The model's features."""
        return self.model.context_space

    @property
    def context(self) -> Mapping[str, Any]:
        """The contexts of the coming episodes: one value for all lanes, or an array of one a lane; settable.

        Raises:
            ContextError: On setting an unknown feature, a value out of bounds, or not one value a lane.
        """
        return self._context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        space = self.model.context_space
        if space is not None:
            space.verify({name: None for name in context if name not in space.features})
        self._context = {**self.model.context, **context}
        self._columns = self._checked(self._context)
        self._contexts_differ = any(np.ndim(value) for value in self._context.values())

    def _checked(self, context: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The values as columns of one a lane; those of known features are checked."""
        features = self.model.context_space.features if self.model.context_space else {}
        columns: dict[str, NDArray[Any]] = {}
        for name, value in context.items():
            array = np.asarray(value)
            if array.ndim and len(array) != self.batch_size:
                raise ContextError(
                    f"context[{name!r}]: expected one value, or one for each of {self.batch_size} lanes, "
                    f"got {len(array)}"
                )
            if name in features:
                for one in dict.fromkeys(array.ravel().tolist()):
                    ContextSpace([features[name]]).verify({name: one})
            columns[name] = array if array.ndim else np.full(self.batch_size, array)
        return columns

    def snapshot(self) -> Snapshot:
        streams = None if self._streams is None else self._streams.copy()
        held = (self._state, self._observation, self._over, self._begun, self._context)
        return Snapshot(type(self), (held, streams))

    def restore(self, snapshot: Snapshot) -> None:
        (self._state, self._observation, self._over, self._begun, context), streams = self._content(snapshot)
        self._some_over = bool(self._over.any())
        self.context = context
        self._streams = None if streams is None else streams.copy()

    def render(self) -> Any:
        """A picture of each lane, of shape (n, height, width, 3)."""
        if self.render_mode != "rgb_array":
            return None
        return np.stack([self.model.draw(take(self.state, i)) for i in range(self.batch_size)])

    @property
    def unwrapped(self) -> Any:
        return self.model


class Lanes(BatchEnv):
    """n separate environments, looped over. Lane i behaves exactly as that environment alone.

    Args:
        envs: The environments, of equal specs.
    """

    def __init__(self, envs: Sequence[Env]) -> None:
        super().__init__(len(envs))
        self.envs = tuple(envs)
        first = self.envs[0]
        self.observation_spec, self.action_spec = first.observation_spec, first.action_spec
        self.reward_spec, self.discount_spec = first.reward_spec, first.discount_spec
        self.state_spec, self.metadata, self.render_mode = first.state_spec, first.metadata, first.render_mode

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        seeds = lane_seeds(seed, self.batch_size)
        if isinstance(seed, (int, np.integer)):
            self._streams = Streams(int(seed))
        infos: list[Info] = []
        for index, env in enumerate(self.envs):
            chosen = mask is None or mask[index]
            infos.append(env.reset(seed=seeds[index], options=options).info if chosen else {})
        return Reset(self.observation, cast("Any", Infos(infos)))

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        spec = self.action_spec
        begin = [False] * self.batch_size if restart is None else restart.tolist()
        steps = [
            self._first(env.reset()) if new else env.step(lane(spec, action, index))
            for index, (env, new) in enumerate(zip(self.envs, begin, strict=True))
        ]
        observations, rewards, terminated, truncated, discounts, infos = zip(*steps, strict=True)
        return Step(
            stack(self.observation_spec, observations),
            stack(self.reward_spec, rewards),
            cast("Any", np.array(terminated, bool)),
            cast("Any", np.array(truncated, bool)),
            stack(self.discount_spec, discounts),
            cast("Any", Infos(infos)),
        )

    def _first(self, reset: Reset) -> Step:
        reward = tree.map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self.reward_spec)
        discount = tree.map_leaves(lambda leaf: np.ones(leaf.shape, leaf.dtype), self.discount_spec)
        return Step(reset.observation, reward, False, False, discount, reset.info)

    @property
    def state(self) -> tuple[Any, ...]:
        """The state of each lane."""
        return tuple(env.state for env in self.envs)

    @property
    def observation(self) -> Any:
        return stack(self.observation_spec, [env.observation for env in self.envs])

    @property
    def rewarder(self) -> Rewarder:
        """The rewarder of the lanes; settable for all of them."""
        return self.envs[0].rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        for env in self.envs:
            env.rewarder = rewarder
        self.reward_spec = self.envs[0].reward_spec

    @property
    def rng(self) -> np.random.Generator:
        """A generator for the batch; setting it gives each lane one of its own that follows from it."""
        return self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        for env, seed in zip(self.envs, lane_seeds(int(generator.integers(2**63)), self.batch_size), strict=True):
            env.rng = np.random.default_rng(seed)

    def snapshot(self) -> Snapshot:
        streams = None if self._streams is None else self._streams.copy()
        return Snapshot(type(self), ([env.snapshot() for env in self.envs], streams))

    def restore(self, snapshot: Snapshot) -> None:
        lanes, streams = self._content(snapshot)
        for env, held in zip(self.envs, lanes, strict=True):
            env.restore(held)
        self._streams = None if streams is None else streams.copy()

    def render(self) -> Any:
        """A picture of each lane, as its `render_mode` says."""
        return tuple(env.render() for env in self.envs)

    def close(self) -> None:
        for env in self.envs:
            env.close()

    @property
    def unwrapped(self) -> Any:
        return self


def batch(env: Env | Callable[[], Env], n: int) -> BatchEnv:
    """n independent lanes of an environment.

    A `BatchModel`, also inside wrappers, steps all lanes in one call; anything else is looped over.

    Args:
        env: An environment, whose copies become the lanes (it is left as it is), or a function that makes one.
        n: How many lanes.

    Returns:
        A `BatchEnv`, or for a wrapped `BatchModel` the same wrappers around one.
    """
    if isinstance(env, Wrapper) and isinstance(env.unwrapped, BatchModel):
        return cast("BatchEnv", env.over(batch(env.env, n)))
    if isinstance(env, BatchModel):
        return ModelBatch(copy.copy(env), n)
    if isinstance(env, Env):
        return Lanes([copy.deepcopy(env) for _ in range(n)])
    made = env()
    if isinstance(made.unwrapped, BatchModel):
        return batch(made, n)
    return Lanes([made, *(env() for _ in range(n - 1))])


def _streams_of(seed: int | Sequence[int | None], n: int) -> Streams:
    if isinstance(seed, (Sequence, np.ndarray)):
        words = [0 if s is None else s for s in lane_seeds(seed, n)]
        seed = int(SeedSequence(words).generate_state(1, np.uint64)[0])
    return Streams(seed)


def _with(values: NDArray[Any], index: NDArray[np.intp], value: Any) -> NDArray[Any]:
    result = np.array(values)
    result[index] = value
    return result

