"""Public attributes of a form's core, model or source as attributes of the form.

A form has the public attributes of its core's wrappers, model or source, such as `form.physics` or `form.gravity`, as
wrappers of most frameworks have those of the environment inside. They are properties of a class that is made for these
names, because a `__getattr__` would slow down every attribute and therefore every step. Names by which libraries
recognise the environments of a framework are left out; `get_wrapper_attr` finds those too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Self

from envoi import BatchModel, Lanes, Lifted, Model, MultiModel, MultiWrapper, Process, Wrapper
from envoi.batching.model_batch import ModelBatch
from envoi.wrapping.delegate import Around

from .contexts import TakesContext
from .core_holder import CoreHolder
from .introspection import annotated, assigned, attribute, inner_layer, kind_of, names
from .source_seeding import SeedsSource

_PROTOCOLS = (
    *(Process, Model, BatchModel, MultiModel, Wrapper, MultiWrapper, Lifted, Lanes, ModelBatch),
    *(TakesContext, SeedsSource),
)
_CORE = frozenset(name for kind in _PROTOCOLS for name in dir(kind))
"""The names of the core's own protocol; a source may use the same names for something else."""

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
"""Names by which libraries recognise environments: a form has only those of its own framework."""


class ReachesInside(CoreHolder):
    """Base of forms that have the public attributes of their core's wrappers, model or source."""

    def __new__(cls, core: Any = None, *args: Any, **kwargs: Any) -> Self:
        # The class is chosen here, because CPython reads attributes more slowly after a change of `__class__`.
        return _blank(cls, _reached_in(core, cls) if isinstance(core, Process) and cls._opens(core) else frozenset())

    @classmethod
    def _opens(cls, core: Any) -> bool:
        """Returns True if a form of a core environment has the public attributes of what is inside."""
        return True

    def has_wrapper_attr(self, name: str) -> bool:
        """Returns True if this form, a wrapper of its core, its model or its source has an attribute."""
        return hasattr(self, name) or self._reach(name) is not None

    def get_wrapper_attr(self, name: str) -> Any:
        """Returns an attribute of this form, a wrapper of its core, its model or its source.

        Args:
            name: The attribute's name; if several have it, the outermost one's is returned.

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
            force: If True, an attribute that none of them has yet is set on this form.

        Returns:
            True if it was set.
        """
        holder = self if hasattr(self, name) else self._reach(name)
        if holder is None and not force:
            return False
        setattr(self if holder is None else holder, name, value)
        return True

    def _reach(self, name: str) -> Any:
        """Returns the outermost object inside this form that has an attribute, or None.

        Args:
            name: The attribute's name. It is looked for in the core's wrappers, then in the model or the source with
                its wrappers. A name of the core's own protocol, such as `state`, is looked for in the source first; a
                private name only in the model or the source.
        """
        around, native = inside(self.core)
        holders = (*around, *native) if is_own(name) else native if name.startswith("_") else (*native, *around)
        return next((holder for holder in holders if hasattr(holder, name)), None)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        reached = frozenset(name for name, held in vars(type(self)).items() if isinstance(held, _Reached))
        return _blank, (kind_of(self), reached), self.__getstate__()


def is_own(name: str) -> bool:
    """Returns True if an attribute of a core environment is its author's: public and not of the protocol."""
    return not name.startswith("_") and name not in _CORE


class _Reached:
    """A property that reads and sets an attribute where it is inside a form; if it is nowhere, sets the source's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, form: ReachesInside | None, owner: type) -> Any:
        if form is None:
            return self
        holder = form._reach(self._name)
        if holder is None:
            raise AttributeError(f"{self._name}: nothing inside {form!r} has it any more")
        return getattr(holder, self._name)

    def __set__(self, form: ReachesInside, value: Any) -> None:
        holder = form._reach(self._name)
        setattr(inside(form.core)[1][0] if holder is None else holder, self._name, value)


def _blank(written: type, reached: frozenset[str]) -> Any:
    """Returns a form without instance attributes.

    Args:
        written: The form's class.
        reached: The names of the attributes inside that it has too.
    """
    return object.__new__(_opened(written, reached) if reached else written)


@cache
def _opened(written: type, reached: frozenset[str]) -> type:
    """Returns a subclass of a form's class with properties for attributes inside it."""
    body = {"__module__": written.__module__, "__qualname__": written.__qualname__, "__doc__": written.__doc__}
    return type(written)(
        written.__name__, (written,), {**body, **{name: _Reached(name) for name in reached}, "_written": written}
    )


def _reached_in(core: Any, written: type) -> frozenset[str]:
    """Returns the names of the public attributes inside a core environment that its form's class does not have."""
    around, native = inside(core)
    holders = [*(one for one in around if attribute(one, "source") is None), *native]
    found = {name for holder in holders for name in names(holder) if not name.startswith("_")}
    return frozenset(found - _CORE - _FRAMEWORKS - _own(written))


@cache
def _own(written: type) -> frozenset[str]:
    """Returns the names of the attributes that a class declares or assigns on its instances."""
    return frozenset({*dir(written), *annotated(written), *assigned(written)})


def inside(core: Any) -> tuple[list[Any], list[Any]]:
    """Returns the parts of a core environment, outermost first.

    Returns:
        Its wrappers and importer; and its model, or the layers of its source. For a batch, the latter is the batch.
    """
    around: list[Any] = []
    while isinstance(core, Process):
        around.append(core)
        held = core.env if isinstance(core, Around) else attribute(core, "env")
        core = held if isinstance(held, Process) else attribute(core, "source")
    last = around[-1]
    if core is None:
        model = last.unwrapped
        return (around[:-1], [last]) if model is last else (around, [model])
    return around, list(_layers(core, last.unwrapped))


def _layers(source: Any, native: Any) -> Iterator[Any]:
    """Yields the layers of a source, outermost first, down to the native environment or to a form and its parts."""
    found: list[Any] = []
    layer = source
    while layer is not None and not any(layer is one for one in found):
        found.append(layer)
        yield layer
        if isinstance(layer, CoreHolder):
            around, innermost = inside(layer.core)
            yield from (*around, *innermost)
            return
        if layer is native:
            return
        layer = inner_layer(layer, lambda one: hasattr(type(one), "step"))
    if not any(native is one for one in found):
        yield native
