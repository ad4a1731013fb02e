"""`Process`, the base class of environments of one agent and of several: everything except `reset` and `step`."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self, TypeAlias, cast

import numpy as np

from ..errors import SnapshotUnsupported, SpecError
from ..rewards.rewarder import NativeReward, Rewarder, RewardFunction, StreamBound, as_rewarder, stream_bound
from ..seeding import Streams
from ..spec import Spec, SpecTree
from ..steps.record import Record
from ..tree import leaves

Info: TypeAlias = dict[Any, Any]

FROM_SPACE = "`envoi.adapters.gymnasium.from_space` converts a gymnasium space"


@dataclass(frozen=True)
class Snapshot:
    """An opaque copy of an environment's state; later steps do not change it.

    Attributes:
        owner: The class of the environment from which it was taken.
        content: The state, in a format that only this class reads.
    """

    owner: type
    content: Any


class _Undeclared:
    """The place of a spec that no subclass has declared; names it, and what to write for a gymnasium space."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, env: Any, owner: type) -> NoReturn:
        space, spec = f"{self._kind}_space", f"{self._kind}_spec"
        text = f"{owner.__name__} declares no {spec}"
        if hasattr(owner if env is None else env, space):
            text = f"{text}; what gymnasium calls `{space}` is `{spec}` here, and {FROM_SPACE}"
        raise AttributeError(text, name=spec, obj=env)


class Kind(ABCMeta):
    """The metaclass of environments, by which a `Lifted` is an instance of `Env` or `MultiEnv` as what is inside it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return hasattr(cast("Any", type(instance)), "stands_for") and cls in instance.stands_for


class Process(metaclass=Kind):
    """The base of all environments: specs, random streams, a rewarder, snapshots, rendering.

    Attributes:
        observation_spec: The spec of observations.
        action_spec: The spec of actions.
        reward_spec: The spec of rewards; follows `rewarder`.
        discount_spec: The spec of discounts.
        state_spec: The spec of `state`; None if it is not declared.
        metadata: Facts such as `render_modes` and `render_fps` (frames per second).
        render_mode: The kind of result of `render`: None, `"rgb_array"`, `"human"`, …
        takes_options: True if the options of a reset reach the author's code; False for an environment whose framework
            has no reset options. See `untaken`.
        made_by: A description of its construction, which adapters write and read; None for one that they did not make.
    """

    observation_spec: SpecTree = _Undeclared("observation")
    action_spec: SpecTree = _Undeclared("action")
    reward_spec: SpecTree
    discount_spec: SpecTree
    state_spec: SpecTree | None = None
    metadata: Mapping[str, Any] = {"render_modes": []}
    render_mode: str | None = None
    takes_options: bool = True
    made_by: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("observation_spec", "action_spec"):
            declared: SpecTree = vars(cls).get(name)
            for where, leaf in leaves(declared, name):
                if callable(getattr(leaf, "sample", None)) and not isinstance(leaf, Spec):
                    raise SpecError(f"{cls.__name__}.{where}: expected a spec, got {leaf!r}; {FROM_SPACE}")

    _step_record: Record | None = None
    _outer_record: Record | None = None
    _streams: Streams | None = None
    _rewarder: Rewarder | None = None
    _declared_reward_spec: SpecTree = None

    @property
    @abstractmethod
    def state(self) -> Any:
        """The state of the process, which together with the random streams determines the future.

        Raises:
            EpisodeError: There was no reset yet.
        """

    @property
    def step_record(self) -> Record:
        """The record of the episode, shared by all layers that one function steps."""
        if self._step_record is None:
            self._step_record = Record(None)
        return self._step_record

    @property
    def outer_record(self) -> Record:
        """The record of outer layers, which they share if the user wrote this environment's `step`."""
        if self._outer_record is None:
            self._outer_record = Record(None)
        return self._outer_record

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        """Returns an observation spec that is valid in the given contexts, the current one and the default one.

        Most environments have the same spec under all contexts. An environment whose bounds depend on the context may
        afterwards be given any of these contexts.

        Args:
            contexts: Contexts that have the lowest and highest values of each feature that will be used.
        """
        return self.observation_spec

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the reset options that would not reach the author's code.

        A wrapper that reads options itself overrides this too, and asks the inner environment about the rest.

        Args:
            options: The options; the mapping is not changed.
        """
        return {} if self.takes_options else dict(options)

    @property
    def rewarder(self) -> Rewarder:
        """The reward function; can be set to a `Rewarder` or a function (state, action, next_state)."""
        held = self._rewarder
        return self._native_rewarder() if held is None else held.rewarder if isinstance(held, StreamBound) else held

    def _native_rewarder(self) -> Rewarder:
        """Returns the environment's own rewarder, which is in use until another one is set."""
        return NativeReward(self.declared_reward_spec)

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        new = as_rewarder(rewarder)
        spec, declared = self._spec_under(new), self.declared_reward_spec
        # The environment's own rewarder is not stored: the reward of an imported environment is part of its step.
        self._rewarder = None if new == self._native_rewarder() else stream_bound(new, self)
        self.step_record.stale()
        self.reward_spec, self._declared_reward_spec = spec, declared

    @property
    def given_rewarder(self) -> Rewarder | None:
        """The rewarder that was set, or None while the environment's own is in use."""
        return None if self._rewarder is None else self.rewarder

    def _spec_under(self, rewarder: Rewarder) -> SpecTree:
        """Returns the reward spec of this environment with a given rewarder."""
        return rewarder.spec

    @property
    def is_unchanged(self) -> bool:
        """True while the rewarder is the original one, and so is the context of an imported environment."""
        return self._rewarder is None

    @property
    def declared_reward_spec(self) -> SpecTree:
        """The reward spec of the environment's own rewarder, even while another is set."""
        return self.reward_spec if self._rewarder is None else self._declared_reward_spec

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward of `rewarder`."""
        return self.rewarder.reward_range

    @property
    def streams(self) -> Streams:
        """The random generators, which `reset(seed=…)` replaces."""
        if self._streams is None:
            self._streams = Streams()
        return self._streams

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the dynamics. Setting it also replaces the other streams, by ones derived from it."""
        return self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)

    def snapshot(self) -> Snapshot:
        """Returns a copy of everything that determines the future (state, counters, random streams), for `restore`.

        Raises:
            SnapshotUnsupported: A part of the environment cannot be copied.
        """
        raise SnapshotUnsupported(f"{type(self).__name__} does not support snapshots")

    def restore(self, snapshot: Snapshot) -> None:
        """Returns to the state of a snapshot, which can be restored any number of times.

        Args:
            snapshot: The result of `snapshot` of an environment of the same class.

        Raises:
            SnapshotUnsupported: The snapshot was taken from another class of environment.
        """
        raise SnapshotUnsupported(f"{type(self).__name__} does not support snapshots")

    @property
    def _kind(self) -> type:
        """The class of the environment that a snapshot stores, in place of a generated subclass of it."""
        return type(self)

    def _content(self, snapshot: Snapshot) -> Any:
        if snapshot.owner is not self._kind:
            raise SnapshotUnsupported(
                f"restore: expected a snapshot of {self._kind.__name__}, got one of {snapshot.owner.__name__}"
            )
        return snapshot.content

    def assign_lane(self, number: int) -> None:
        """Sets the lane number: the index among all environments that are stepped together. Call it before a reset.

        `Contextual` starts its round of contexts at this index, so that lanes have different contexts. Batches,
        wrappers and importers pass it on; resets, copies and snapshots keep it.

        Args:
            number: The index, at least 0; for a batch, the index of its first lane, which the others follow.
        """

    def render(self) -> Any:
        """Returns a picture of the state, of the kind `render_mode`; for `"rgb_array"`, uint8 (height, width, 3)."""
        return None

    def close(self) -> None:
        """Releases the resources of the environment; can be called repeatedly."""

    @property
    def unwrapped(self) -> Any:
        """The innermost environment, inside all wrappers and exports: the model, or the imported environment itself."""
        return self

    def __copy__(self) -> Self:
        # A shallow copy would share the episode with the original.
        return copy.deepcopy(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
