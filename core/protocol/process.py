"""`Process`, the base class of single- and multi-agent environments: everything except `reset` and `step`."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self, TypeAlias, cast

import numpy as np

from ..errors import SnapshotUnsupported, SpecError
from ..rewards.rewarder import NativeReward, Rewarder, RewardFunction, StreamBound, as_rewarder, stream_bound
from ..seeding import Streams
from ..spec import Spec, SpecTree, spec_difference
from ..spec.base import shown
from ..steps.record import Record
from ..tree import AnyDict, leaves

Info: TypeAlias = dict[Any, Any]

FROM_SPACE = "`envoi.adapters.gymnasium.from_space` converts a gymnasium space"


@dataclass(frozen=True)
class Snapshot:
    """An opaque copy of an environment's state, which later steps do not change.

    Attributes:
        owner: The class of the environment from which it was taken.
        content: The state, in a format private to that class.
        fixed: Attributes by name that must be equal in the environment that restores it.
    """

    owner: type
    content: Any
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])


def taking_back(env: Any, names: Iterable[str]) -> Callable[[], None]:
    """Returns a function that sets attributes back to their present values."""
    held = [(name, getattr(env, name)) for name in names]

    def take_back() -> None:
        for name, value in held:
            setattr(env, name, value)

    return take_back


class _Undeclared:
    """Raises an error for a spec that no subclass declares. If there is a gymnasium space, names its counterpart."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, env: Any, owner: type) -> NoReturn:
        space, spec = f"{self._kind}_space", f"{self._kind}_spec"
        text = f"{owner.__name__} declares no {spec}"
        if hasattr(owner if env is None else env, space):
            text = f"{text}; what gymnasium calls `{space}` is `{spec}` here, and {FROM_SPACE}"
        raise AttributeError(text, name=spec, obj=env)


class Kind(ABCMeta):
    """Metaclass of environments: a `Lifted` is an instance of `Env` or `MultiEnv`, as its inner environment is."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return hasattr(cast("Any", type(instance)), "stands_for") and cls in instance.stands_for


class Process(metaclass=Kind):
    """Base class of all environments, with specs, random streams, a rewarder, snapshots and rendering.

    Attributes:
        observation_spec: The spec of observations.
        action_spec: The spec of actions.
        reward_spec: The spec of rewards; follows `rewarder`.
        discount_spec: The spec of discounts.
        state_spec: The spec of `state`, or None if not declared.
        metadata: A dict with keys such as `render_modes` and `render_fps` (frames per second).
        render_mode: The format in which `render` returns images: None, `"rgb_array"`, `"human"`, …
        takes_options: True if reset options reach the author's code; False if the environment's framework has no reset
            options. See `untaken`.
        made_by: How an adapter constructed this environment, or None if no adapter did.
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

    _of_episode: ClassVar[tuple[str, ...]] = ()  # what `hold_episode` holds
    _step_record: Record | None = None
    _outer_record: Record | None = None
    _streams: Streams | None = None
    _rewarder: Rewarder | None = None
    _declared_reward_spec: SpecTree = None

    @property
    @abstractmethod
    def state(self) -> Any:
        """The state of the environment. State and random streams together determine the future.

        Raises:
            EpisodeError: The environment has not been reset yet.
        """

    @property
    def step_record(self) -> Record:
        """The episode record, shared by all layers that a single generated function steps."""
        if self._step_record is None:
            self._step_record = Record(None)
        return self._step_record

    @property
    def outer_record(self) -> Record:
        """The episode record that outer layers share if this environment has a custom `step`."""
        if self._outer_record is None:
            self._outer_record = Record(None)
        return self._outer_record

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        """Returns an observation spec that is valid in the given, the current and the default context.

        Most environments have the same spec in all contexts. Others may use any of these contexts afterwards.

        Args:
            contexts: Contexts with the lowest and highest value of each feature that will be used.
        """
        return self.observation_spec

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the reset options that no code of the environment would receive.

        A wrapper that reads options overrides this method, and asks the inner environment about the other options.

        Args:
            options: The options. The mapping is not modified.
        """
        return {} if self.takes_options else dict(options)

    @property
    def rewarder(self) -> Rewarder:
        """The reward function. Set it to a `Rewarder` or a function (state, action, next_state)."""
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
        """The rewarder that was set, or None for the environment's own."""
        return None if self._rewarder is None else self.rewarder

    def _spec_under(self, rewarder: Rewarder) -> SpecTree:
        """Returns the reward spec of this environment with a given rewarder."""
        return rewarder.spec

    @property
    def is_unchanged(self) -> bool:
        """True unless the rewarder, or the context of an imported environment, differs from the original."""
        return self._rewarder is None

    @property
    def declared_reward_spec(self) -> SpecTree:
        """The reward spec of the environment's own rewarder, even if another rewarder is set."""
        return self.reward_spec if self._rewarder is None else self._declared_reward_spec

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward of `rewarder`."""
        return self.rewarder.reward_range

    @property
    def streams(self) -> Streams:
        """The random generators. `reset(seed=…)` replaces them."""
        if self._streams is None:
            self._streams = Streams()
        return self._streams

    @property
    def rng(self) -> np.random.Generator:
        """The random generator of the dynamics. Setting it also derives new generators for the other streams."""
        return self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)

    def snapshot(self) -> Snapshot:
        """Copies everything that determines the future (state, counters, random streams), for `restore`.

        Raises:
            SnapshotUnsupported: A part of the environment cannot be copied.
        """
        raise SnapshotUnsupported(f"{type(self).__name__} does not support snapshots")

    def restore(self, snapshot: Snapshot) -> None:
        """Restores the state of a snapshot. A snapshot can be restored repeatedly.

        Args:
            snapshot: A result of `snapshot`, from an environment of the same class.

        Raises:
            SnapshotUnsupported: The snapshot is of another class of environment, or of other specs or contexts.
        """
        raise SnapshotUnsupported(f"{type(self).__name__} does not support snapshots")

    def hold_episode(self) -> Callable[[], None]:
        """Returns a function that restores the present episode, to call after a failed step or reset.

        Random generators are not rewound. Steps of imported environments and of separate lanes cannot be undone.
        """
        return taking_back(self, self._of_episode)

    @property
    def _halt(self) -> Any:
        return self.step_record.halt

    @_halt.setter
    def _halt(self, halt: Any) -> None:
        self.step_record.halt = halt

    @property
    def _kind(self) -> type:
        """The class that a snapshot records. A generated subclass returns the class that it replaces."""
        return type(self)

    def _content(self, snapshot: Snapshot) -> Any:
        if not isinstance(cast("Any", snapshot), Snapshot):
            raise SpecError(f"restore: expected a result of env.snapshot(), got {shown(snapshot)}")
        if not hasattr(snapshot, "fixed"):
            raise SnapshotUnsupported(
                "restore: the snapshot is from envoi 0.2.0 or older; restore it with that version, or take another one"
            )
        name = self._kind.__name__
        if snapshot.owner is not self._kind:
            raise SnapshotUnsupported(f"restore: expected a snapshot of {name}, got one of {snapshot.owner.__name__}")
        for part, value in snapshot.fixed.items():
            if (own := getattr(self, part)) is not value and (unlike := spec_difference(own, value, part)):
                mine, given = (shown(list(one) if isinstance(one, AnyDict) else one) for one in unlike[1:])
                raise SnapshotUnsupported(
                    f"restore: expected a snapshot of {name} with {unlike[0]} {mine}, got one with {given}; "
                    "restore it in an equal environment"
                )
        return snapshot.content

    def assign_lane(self, number: int) -> None:
        """Sets the lane number: the index among all environments that are stepped together. Call it before a reset.

        `Contextual` starts to cycle through its contexts at this index, so that lanes have different contexts. Batches,
        wrappers and imports forward it; resets, copies and snapshots keep it.

        Args:
            number: The index, at least 0. For a batch, the index of its first lane; its other lanes follow.
        """

    reports_ends: bool = False
    """True for a wrapper that must be notified when an outer wrapper ends an episode, and for those around it."""

    def ended_outside(self, lanes: Any = None, terminated: bool = False) -> None:
        """Notifies inner wrappers that an outer wrapper has ended episodes.

        Args:
            lanes: Mask of the lanes of a batch, or None for all.
            terminated: False if they were truncated.
        """

    def render(self) -> Any:
        """Renders the state in the format `render_mode`: for `"rgb_array"`, uint8 of shape (height, width, 3)."""
        return None

    def close(self) -> None:
        """Releases the environment's resources. It is safe to call it repeatedly."""

    @property
    def unwrapped(self) -> Any:
        """The innermost environment without wrappers: the model, or the imported environment."""
        return self

    def __copy__(self) -> Self:
        # A shallow copy would share the episode with the original.
        return copy.deepcopy(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
