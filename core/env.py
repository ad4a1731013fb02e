"""The neutral protocol: what an environment is to everything else in envoi.

An environment is a Markov decision process that is being lived through. `reset` begins an episode and `step`
goes on in it:

    reset(seed)      → observation, info
    step(action)     → observation, reward, terminated, truncated, discount, info
    step(action)     → …                  until terminated or truncated
    reset()          → …                  the next episode; its randomness goes on from the last

`terminated` says that the process has reached an end state, `truncated` that somebody stopped watching; both
may be true. `discount` is the factor on all that follows: 0 after a termination, else 1, unless the
environment says otherwise. `reset(seed=s)` fixes everything random from then on.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias, cast

import numpy as np

from .errors import SnapshotUnsupported
from .rewarder import NativeReward, Rewarder, RewardFunction, as_rewarder
from .spec import Array, SpecTree, sample
from .streams import Streams

NOT_RESET = "the episode has not begun; call reset() first"
ENDED = "the episode has ended; call reset() before the next step"
ENDED_LANES = "the episode has ended; reset them by reset(mask=…), or in the next step by step(actions, restart=…)"

Info: TypeAlias = dict[Any, Any]


class Reset(NamedTuple):
    """What the beginning of an episode gives."""

    observation: Any
    info: Info


class Step(NamedTuple):
    """What one step gives. In a batch each value has a leading lane axis, and `info` is an `Infos`.

    Attributes:
        observation: A value of `observation_spec`.
        reward: A value of `reward_spec`.
        terminated: Whether an end state was reached.
        truncated: Whether the episode was cut off; both may be true.
        discount: The factor on all that follows; 0 after a termination, else 1, unless the env says otherwise.
        info: Whatever else there is to say; a fresh dict each time.
    """

    observation: Any
    reward: Any
    terminated: bool
    truncated: bool
    discount: Any
    info: Info


make_step = cast(
    "Callable[[tuple[Any, Any, bool, bool, Any, Info]], Step]",
    partial(tuple.__new__, Step),  # pyright: ignore[reportUnknownMemberType]
)
"""`Step(*values)` for hot paths: a named tuple's own constructor costs twice as much."""


@dataclass(frozen=True)
class Snapshot:
    """An opaque token that holds an environment as it was; later steps do not change it.

    Attributes:
        owner: The class of the environment that it was taken of.
        content: For that class alone to understand.
    """

    owner: type
    content: Any


class Env(ABC):
    """An environment of one agent.

    Attributes:
        observation_spec: What `observation` may be.
        action_spec: What `step` takes.
        reward_spec: What `reward` may be; follows `rewarder`.
        discount_spec: What `discount` may be.
        state_spec: What `state` may be, or None where it is not described.
        batch_size: None; the number of lanes for a `BatchEnv`, whose specs describe one lane.
        metadata: Facts such as `render_modes` and `render_fps` (frames per second).
        render_mode: What `render` gives: None, `"rgb_array"`, `"human"`, …
    """

    observation_spec: SpecTree
    action_spec: SpecTree
    reward_spec: SpecTree = Array((), "float64", name="reward")
    discount_spec: SpecTree = Array((), "float64", 0, 1, "discount")
    state_spec: SpecTree | None = None
    batch_size: int | None = None
    metadata: Mapping[str, Any] = {"render_modes": []}
    render_mode: str | None = None

    _streams: Streams | None = None
    _rewarder: Rewarder | None = None
    _declared_reward_spec: SpecTree = None

    @abstractmethod
    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Begins an episode.

        Args:
            seed: Fixes every random stream from here on. None goes on with the streams as they are.
            options: Wishes for this episode, for the environment to understand; never changed.
        """

    @abstractmethod
    def step(self, action: Any) -> Step:
        """Acts once.

        Args:
            action: A value of `action_spec`.

        Raises:
            EpisodeError: Before the first reset, or after the end of the episode.
        """

    @property
    @abstractmethod
    def state(self) -> Any:
        """All that the future depends on, apart from random numbers; EpisodeError before the first reset."""

    @property
    @abstractmethod
    def observation(self) -> Any:
        """The last observation, the same until the next step or reset; EpisodeError before the first reset."""

    @property
    def rewarder(self) -> Rewarder:
        """What computes the reward; settable, to a `Rewarder` or a function (state, action, next_state)."""
        return self._native_rewarder() if self._rewarder is None else self._rewarder

    def _native_rewarder(self) -> Rewarder:
        """The rewarder until another is set."""
        return NativeReward(self.declared_reward_spec)

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        new = as_rewarder(rewarder)
        spec, declared = new.spec, self.declared_reward_spec
        # What is put back is not called: the reward of an imported environment comes with its steps.
        self._rewarder = None if new == self._native_rewarder() else new
        self.reward_spec, self._declared_reward_spec = spec, declared

    @property
    def declared_reward_spec(self) -> SpecTree:
        """The reward spec of the environment's own rewarder, also while another is set."""
        return self.reward_spec if self._rewarder is None else self._declared_reward_spec

    @property
    def reward_range(self) -> tuple[float, float]:
        """The (lowest, highest) reward, from `rewarder`."""
        return self.rewarder.reward_range

    @property
    def streams(self) -> Streams:
        """The random generators that a seed fixes."""
        if self._streams is None:
            self._streams = Streams()
        return self._streams

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the dynamics. Setting it replaces every stream by one that follows from it."""
        return self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)

    def sample_action(self) -> Any:
        """A random action, from a stream of its own: sampling never changes the dynamics."""
        return sample(self.action_spec, self.streams.action)

    def snapshot(self) -> Snapshot:
        """Everything that decides the future (state, counters, streams), for `restore`.

        Raises:
            SnapshotUnsupported: The environment holds something that cannot be copied.
        """
        raise SnapshotUnsupported(f"{type(self).__name__} does not support snapshots")

    def restore(self, snapshot: Snapshot) -> None:
        """Puts everything back as it was; the same snapshot may be restored any number of times.

        Raises:
            SnapshotUnsupported: The snapshot is of another class of environment.
        """
        raise SnapshotUnsupported(f"{type(self).__name__} does not support snapshots")

    def _content(self, snapshot: Snapshot) -> Any:
        if snapshot.owner is not type(self):
            raise SnapshotUnsupported(
                f"restore: expected a snapshot of {type(self).__name__}, got one of {snapshot.owner.__name__}"
            )
        return snapshot.content

    def render(self) -> Any:
        """A picture of the state as `render_mode` says: for `"rgb_array"` uint8 of shape (height, width, 3)."""
        return None

    def close(self) -> None:  # noqa: B027 (most environments hold nothing)
        """Releases what the environment holds; may be called again."""

    @property
    def unwrapped(self) -> Any:
        """What lies under all wrappers and forms: the model, or the imported environment itself."""
        return self

    def __copy__(self) -> Self:
        # A shallow copy would go on sharing the episode.
        return copy.deepcopy(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
