"""The base of the forms of all frameworks: core, metadata, snapshots, pickles and closing."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, Self

from envoi import MultiEnv, SpecError

from .agent_count import several_agents, validated
from .core_holder import MultiCoreHolder
from .planned import Planned, declared_names
from .reached_attributes import ReachesInside


class AnyForm(Planned, ReachesInside):
    """A core environment as an environment of a framework, the base of all forms.

    `copy.copy` of a form copies its core too, because a shallow copy would share the episode. A class lists in
    `_memory` the names of the attributes that change during an episode, apart from those of its bases; snapshots of
    environments around the form contain them.

    Args:
        core: The core environment.
        validate: If True, every value is checked against its spec.

    Attributes:
        core: The core environment.
        metadata: A copy of the core's metadata.
        render_mode: The core's render mode.
    """

    metadata: Any
    render_mode: Any

    _framework: ClassVar[str]
    """The framework's name in the registry."""

    _of_lanes: ClassVar[bool] = False
    """True for a form of batches."""

    _memory: ClassVar[tuple[str, ...]] = ()
    _closed: bool = False
    _assembled: Any = None  # the function that is `step`, where it is not the method

    def __init__(self, core: Any, validate: bool = False) -> None:
        self.core = core  # which the framework's own base may look at
        super().__init__()
        inner = self._inner()
        self._env: Any = validated(inner) if validate else inner
        self.metadata = deepcopy(dict(core.metadata))
        self.render_mode = core.render_mode
        self._closed = False
        self._describe()
        self._plan()

    def _describe(self) -> None:
        """Sets the specs of the framework, and refuses what it cannot express, before `_plan` relies on them."""

    def _inner(self) -> Any:
        """Returns what the form steps: the core, in the shape that the framework takes.

        Raises:
            SpecError: It cannot have that shape.
        """
        self._check_lanes(self.core)
        return self.core

    def _check_lanes(self, core: Any) -> None:
        n, here = core.batch_size, f"to_{self._framework}"
        if n is not None and not self._of_lanes:
            raise SpecError(f"{here}: expected one environment, got a batch of {n} lanes")
        if n is None and self._of_lanes:
            raise SpecError(f"{here}: expected a batch, got an environment of one lane; see envoi.batch(env, n)")

    def _step_by(self, function: Callable[[Any], Any]) -> None:
        """Makes an assembled function the attribute `step`, with the name, help and signature of the method.

        A step that was patched onto this form stays.

        Args:
            function: Takes an action; it must not hold the form.
        """
        kind: Any = type(self)
        method = kind.step
        if getattr(self.step, "__func__", None) is method or self.step is self._assembled:
            for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
                setattr(function, name, getattr(method, name))
            self._assembled = self.step = function

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if state.get("step") is state.pop("_assembled", None):  # and not one that was patched onto this form
            state.pop("step", None)
        return state

    def assign_lane(self, number: int) -> None:
        """See `envoi.Process.assign_lane`."""
        self.core.assign_lane(number)

    def render(self) -> Any:
        """Renders the current state in the core's `render_mode`."""
        return self.core.render()

    def close(self) -> None:
        """Releases the resources of the environment; may be called again."""
        if not self._closed:
            self._closed = True
            self.core.close()

    def content(self) -> Any:
        """Returns the part of a snapshot that describes this form, for environments around it."""
        names = declared_names(type(self), "_memory")
        return self._env.snapshot(), {name: getattr(self, name) for name in names if hasattr(self, name)}

    def put_back(self, content: Any) -> None:
        """Restores what `content` returned.

        Args:
            content: The result of `content`.
        """
        snapshot, held = content
        self._env.restore(snapshot)
        for name in declared_names(type(self), "_memory"):
            if name in held:
                setattr(self, name, held[name])
            elif hasattr(self, name):  # which only an episode has
                delattr(self, name)

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __repr__(self) -> str:
        return f"to_{self._framework}({self.core!r})"


class MultiForm(AnyForm, MultiCoreHolder):
    """Base of the forms of several agents."""

    def _inner(self) -> MultiEnv:
        self.multi = several_agents(self.core)
        return self.multi
