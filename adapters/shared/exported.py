"""The part that forms of all frameworks share, and the part of importers that may find a form in their source.

A form has the public attributes of its core's wrappers, model or source, as wrappers of most frameworks have those of
what they wrap: `form.physics`, `form.gravity`. They are properties of a class that is made for the names that there
are, since a `__getattr__` would make every attribute slower to read, and each step with it. Names by which libraries
tell one framework's environments from another's are not among them; `get_wrapper_attr` finds those too.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any, Self, cast

from envoi import BatchModel, Lanes, Lifted, Model, MultiModel, MultiWrapper, Process, Wrapper
from envoi.batching.model_batch import ModelBatch

from .contexts import TakesContext
from .introspection import annotated, assigned, attribute, inner_layer, kind_of, names

_CORE = frozenset(
    name
    for kind in (Process, Model, BatchModel, MultiModel, Wrapper, MultiWrapper, Lifted, Lanes, ModelBatch, TakesContext)
    for name in dir(kind)
)
"""The names of the core's own protocol, of which a source may have others of its own meaning."""

_FRAMEWORKS = frozenset(
    name
    for names in (
        "action_space observation_space np_random np_random_seed spec reward_space",  # gymnasium
        "num_envs single_action_space single_observation_space envs call get_attr set_attr",  # its vector environments
        "batched batch_size current_time_step time_step_spec get_info get_state set_state pyenv gym",  # TF-Agents
        "agents possible_agents num_agents max_num_agents action_spaces observation_spaces state_space",  # PettingZoo
        "agent_selection agent_iter last observe infos rewards terminations truncations",  # PettingZoo's AEC
        "env aec_env source seed",  # wrappers
    )
    for name in names.split()
)
"""Names by which libraries recognise environments: a form has those of its own framework alone."""


class AnyForm:
    """A form of a core environment. A copy of it has a core of its own, for a shallow one would share the episode.

    Attributes:
        core: The core environment.
    """

    core: Any

    def __new__(cls, core: Any = None, *args: Any, **kwargs: Any) -> Self:
        # Now, for CPython reads the attributes of an object more slowly after its class has changed.
        return _blank(cls, _reached_in(core, cls) if isinstance(core, Process) and cls._opens(core) else frozenset())

    @classmethod
    def _opens(cls, core: Any) -> bool:
        """Whether a form of a core environment has the public attributes of what lies inside."""
        return True

    def assign_lane(self, number: int) -> None:
        """See `envoi.Process.assign_lane`."""
        self.core.assign_lane(number)

    def __copy__(self) -> Self:
        return deepcopy(self)

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether this form, a wrapper of its core, its model or its source has an attribute."""
        return hasattr(self, name) or self._reach(name) is not None

    def get_wrapper_attr(self, name: str) -> Any:
        """Returns an attribute of this form, a wrapper of its core, its model or its source.

        Args:
            name: The attribute's name; the outermost that has one of it is asked.

        Raises:
            AttributeError: None has it.
        """
        holder = self if hasattr(self, name) else self._reach(name)
        if holder is None:
            raise AttributeError(f"{self!r} has no attribute {name!r}, nor has anything inside of it")
        return getattr(holder, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Sets an attribute where it is: on this form, a wrapper of its core, its model or its source.

        Args:
            name: The attribute's name.
            value: Its new value.
            force: Whether to give this form an attribute that none has yet.

        Returns:
            Whether it was set.
        """
        holder = self if hasattr(self, name) else self._reach(name)
        if holder is None and not force:
            return False
        setattr(self if holder is None else holder, name, value)
        return True

    def _reach(self, name: str) -> Any:
        """Returns the outermost object inside this form that has an attribute, or None.

        Args:
            name: Of an attribute of a wrapper of the core, of the model, or of the source, wrappers and all. A name of
                the core's own protocol, such as `state`, means the source's where it has one; a private one is looked
                for in the model or the source alone.
        """
        around, native = inside(self.core)
        holders = (*around, *native) if is_own(name) else native if name.startswith("_") else (*native, *around)
        return next((holder for holder in holders if hasattr(holder, name)), None)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        reached = frozenset(name for name, held in vars(type(self)).items() if isinstance(held, _Reached))
        return _blank, (kind_of(self), reached), cast("Any", self).__getstate__()


def is_own(name: str) -> bool:
    """Whether an attribute of a core environment is one that its author gave it, public and not of the protocol."""
    return not name.startswith("_") and name not in _CORE


class _Reached:
    """An attribute of what lies inside a form, read and set where it is; in the source if it is nowhere."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, form: AnyForm | None, owner: type) -> Any:
        if form is None:
            return self
        holder = form._reach(self._name)
        if holder is None:
            raise AttributeError(f"{self._name}: nothing inside {form!r} has it any more")
        return getattr(holder, self._name)

    def __set__(self, form: AnyForm, value: Any) -> None:
        holder = form._reach(self._name)
        setattr(inside(form.core)[1][0] if holder is None else holder, self._name, value)


def _blank(written: type, reached: frozenset[str]) -> Any:
    """Returns a form that holds nothing yet.

    Args:
        written: Its class.
        reached: The names of the attributes that it has of what lies inside.
    """
    return object.__new__(_opened(written, reached) if reached else written)


@cache
def _opened(written: type, reached: frozenset[str]) -> type:
    """The class of a form that has more attributes than were written down."""
    body = {"__module__": written.__module__, "__qualname__": written.__qualname__, "__doc__": written.__doc__}
    return type(written)(
        written.__name__, (written,), {**body, **{name: _Reached(name) for name in reached}, "_written": written}
    )


def _reached_in(core: Any, written: type) -> frozenset[str]:
    """The names of the public attributes inside a core environment, but for those that its forms of a class have."""
    around, native = inside(core)
    holders = [*(one for one in around if attribute(one, "source") is None), *native]
    found = {name for holder in holders for name in names(holder) if not name.startswith("_")}
    return frozenset(found - _CORE - _FRAMEWORKS - _own(written))


@cache
def _own(written: type) -> frozenset[str]:
    """The attributes that instances of a class have themselves, as it declares or assigns them."""
    return frozenset({*dir(written), *annotated(written), *assigned(written)})


def inside(core: Any) -> tuple[list[Any], list[Any]]:
    """Returns the parts of a core environment, outermost first.

    Returns:
        Its wrappers and importer; and its model, or the layers of its source. A batch ends with itself.
    """
    around: list[Any] = []
    while isinstance(core, Process):
        around.append(core)
        held = attribute(core, "env")
        core = held if isinstance(held, Process) else attribute(core, "source")
    last = around[-1]
    if core is None:
        model = last.unwrapped
        return (around[:-1], [last]) if model is last else (around, [model])
    return around, list(_layers(core, last.unwrapped))


def _layers(source: Any, native: Any) -> Iterator[Any]:
    """A source from its outermost wrapper to the native environment, or to a form and all that is inside."""
    found: list[Any] = []
    layer = source
    while layer is not None and not any(layer is one for one in found):
        found.append(layer)
        yield layer
        if isinstance(layer, AnyForm):
            around, innermost = inside(layer.core)
            yield from (*around, *innermost)
            return
        if layer is native:
            return
        layer = inner_layer(layer, lambda one: hasattr(type(one), "step"))
    if not any(native is one for one in found):
        yield native


class MayHoldForm:
    """An imported environment whose source may be a form of envoi, inside the wrappers of another framework."""

    unwrapped: Any

    @property
    def form_inside(self) -> AnyForm | None:
        """The form that the source is, or that lies inside its wrappers; None where there is none."""
        native = self.unwrapped
        return native if isinstance(native, AnyForm) else None

    def assign_lane(self, number: int) -> None:
        """See `envoi.Process.assign_lane`."""
        form = self.form_inside
        if form is not None:
            form.assign_lane(number)
