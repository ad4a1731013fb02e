"""What environments of one agent and of several have in common: everything but the shape of a step."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np

from ..errors import SnapshotUnsupported
from ..rewards.rewarder import Drawing, NativeReward, Rewarder, RewardFunction, as_rewarder, drawing
from ..seeding import Streams
from ..spec import SpecTree

Info: TypeAlias = dict[Any, Any]


@dataclass(frozen=True)
class Snapshot:
    """An opaque token that holds an environment as it was; later steps do not change it.

    Attributes:
        owner: The class of the environment that it was taken of.
        content: For that class alone to understand.
    """

    owner: type
    content: Any


class Process(ABC):
    """A decision process that is being lived through: random streams, a rewarder, snapshots, pictures.

    Attributes:
        observation_spec: What an observation may be.
        action_spec: What an action may be.
        reward_spec: What a reward may be; follows `rewarder`.
        discount_spec: What a discount may be.
        state_spec: What `state` may be, or None where it is not described.
        metadata: Facts such as `render_modes` and `render_fps` (frames per second).
        render_mode: What `render` gives: None, `"rgb_array"`, `"human"`, …
        takes_options: Whether options of a reset reach the author's code; False for an environment whose framework has
            no place for them, see `untaken`.
    """

    observation_spec: SpecTree
    action_spec: SpecTree
    reward_spec: SpecTree
    discount_spec: SpecTree
    state_spec: SpecTree | None = None
    metadata: Mapping[str, Any] = {"render_modes": []}
    render_mode: str | None = None
    takes_options: bool = True

    _streams: Streams | None = None
    _rewarder: Rewarder | None = None
    _declared_reward_spec: SpecTree = None
    _made_by: Any = None  # how it was made, which adapters write and read

    @property
    @abstractmethod
    def state(self) -> Any:
        """All that the future depends on, apart from random numbers; EpisodeError before the first reset."""

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        """An observation spec that holds under all of these contexts, the present one and the default.

        Most environments have one for all contexts. One where a context moves bounds may be given, from then on,
        the contexts that it was asked about.

        Args:
            contexts: Contexts that it may be given; others lie between them.
        """
        return self.observation_spec

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns those options of a reset that would reach no author's code.

        A wrapper that reads options of its own overrides this too, and asks the environment inside about the rest.

        Args:
            options: The options, which stay as they are.
        """
        return {} if self.takes_options else dict(options)

    @property
    def rewarder(self) -> Rewarder:
        """What computes the reward; settable, to a `Rewarder` or a function (state, action, next_state)."""
        held = self._rewarder
        return self._native_rewarder() if held is None else held.rewarder if isinstance(held, Drawing) else held

    def _native_rewarder(self) -> Rewarder:
        """The rewarder until another is set."""
        return NativeReward(self.declared_reward_spec)

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        new = as_rewarder(rewarder)
        spec, declared = self._spec_under(new), self.declared_reward_spec
        # What is put back is not called: the reward of an imported environment comes with its steps.
        self._rewarder = None if new == self._native_rewarder() else drawing(new, self)
        self.reward_spec, self._declared_reward_spec = spec, declared

    def _spec_under(self, rewarder: Rewarder) -> SpecTree:
        """The reward spec that a rewarder brings."""
        return rewarder.spec

    @property
    def is_unchanged(self) -> bool:
        """True while no other rewarder is set, nor another context in an environment that came from a framework."""
        return self._rewarder is None

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

    @property
    def _kind(self) -> type:
        """The class that somebody wrote, which a snapshot names."""
        return type(self)

    def _content(self, snapshot: Snapshot) -> Any:
        if snapshot.owner is not self._kind:
            raise SnapshotUnsupported(
                f"restore: expected a snapshot of {self._kind.__name__}, got one of {snapshot.owner.__name__}"
            )
        return snapshot.content

    def assign_lane(self, number: int) -> None:  # noqa: B027 (most environments do not ask)
        """Sets the place of this environment among all that are stepped at the same time; call it before a reset.

        `Contextual` begins its round of contexts there, so that lanes hold different contexts. Batches, wrappers and
        importers pass it on; resets, copies and snapshots keep it.

        Args:
            number: At least 0; for a batch that of its first lane, whose others follow.
        """

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
