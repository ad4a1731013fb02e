"""The bases of the forms of all frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any, ClassVar, Self

import envoi
from envoi import ContextError, Contextual, Env, MultiEnv, Process, SpecError, Validated, as_multi
from envoi.batching.batch_model import ModelBatch
from envoi.wrapping.delegate import Around

from .contexts import TakesContext
from .imported import CoreHolder, Planned, SeedsSource, declared_names
from .introspection import attribute, inner_layer

_PROTOCOLS = (
    *(Process, envoi.Model, envoi.BatchModel, envoi.MultiModel, envoi.Wrapper, envoi.MultiWrapper, envoi.Lifted),
    *(envoi.Lanes, ModelBatch, TakesContext, SeedsSource),
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

_KEPT = _CORE | _FRAMEWORKS


def is_own(name: str) -> bool:
    """Returns True for an attribute that a core environment's author added: public, and not part of the protocol."""
    return not name.startswith("_") and name not in _CORE


def _is_open(name: str) -> bool:
    """Returns True if forms take an attribute of that name from the environment inside."""
    return name[:1] != "_" and name not in _KEPT


class AnyForm(Planned, CoreHolder):
    """A core environment as an environment of a framework, the base of all forms.

    `copy.copy` of a form copies its core too, because a shallow copy would share the episode. A class lists in
    `_memory` the names of the attributes that change during an episode, apart from those of its bases; snapshots of
    environments around the form contain them.
    """

    metadata: Any
    render_mode: Any

    _framework: ClassVar[str]
    """The framework's name in the registry."""

    _of_lanes: ClassVar[bool] = False
    """True for a form of batches."""

    _memory: ClassVar[tuple[str, ...]] = ()
    _closed: bool = False
    _written: Any = None  # the function that is `step`, where it is not the method

    def __init__(self, core: Any, validate: bool = False) -> None:
        self.core = core
        inner = self._inner()
        super().__init__()  # the framework's own base may look at what there is by now
        self._env: Any = Validated(inner) if validate else inner
        self.metadata = deepcopy(dict(core.metadata))
        self.render_mode = core.render_mode
        self._closed = False
        self._describe()
        self._plan()

    def _describe(self) -> None:
        """Sets the framework's specs before `_plan` reads them; raises an error if it cannot express a part."""

    def _inner(self) -> Any:
        """Returns the environment that the form steps: the core, adapted to the framework's kind of environments."""
        self._check_lanes(self.core)
        return self.core

    def _check_lanes(self, core: Any) -> None:
        n, here = core.batch_size, f"to_{self._framework}"
        if n is not None and not self._of_lanes:
            raise SpecError(f"{here}: expected one environment, got a batch of {n} lanes")
        if n is None and self._of_lanes:
            raise SpecError(f"{here}: expected a batch, got an environment of one lane; see envoi.batch(env, n)")

    def _step_by(self, function: Callable[[Any], Any]) -> None:
        """Sets a generated step as the attribute `step`, with the name, help and signature of the method.

        If other code has patched `step` on this form, that patch stays.
        """
        kind: Any = type(self)
        method = kind.step
        if getattr(self.step, "__func__", None) is method or self.step is self._written:
            for name in ("__name__", "__module__", "__qualname__", "__doc__", "__annotations__"):
                setattr(function, name, getattr(method, name))
            self._written = self.step = function

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if state.get("step") is state.pop("_written", None):  # and not one that was patched onto this form
            state.pop("step", None)
        return state

    @property
    def context(self) -> Any:
        """The context of the core, or of a source that has its own. It can be set."""
        return context_holder(self.core).context

    @context.setter
    def context(self, context: Any) -> None:
        context_holder(self.core, f"to_{self._framework}").context = context

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
        """Returns this form's part of a snapshot, for the environments that wrap it."""
        names = declared_names(type(self), "_memory")
        return self._env.snapshot(), {name: getattr(self, name) for name in names if hasattr(self, name)}

    def put_back(self, content: Any) -> None:
        """Restores what the method `content` returned."""
        snapshot, held = content
        self._env.restore(snapshot)
        for name in declared_names(type(self), "_memory"):
            if name in held:
                setattr(self, name, held[name])
            elif hasattr(self, name):  # which only an episode has
                delattr(self, name)

    def has_wrapper_attr(self, name: str) -> bool:
        """Returns True if this form, a wrapper of its core, its model or its source has an attribute."""
        return self._find_holder(name) is not None

    def get_wrapper_attr(self, name: str) -> Any:
        """Looks up an attribute in this form, then in its core's wrappers, its model and its source."""
        holder = self._find_holder(name)
        if holder is None:
            raise AttributeError(f"{self!r} has no attribute {name!r}, nor has anything inside of it")
        return getattr(holder, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Sets an attribute on the object that has it: this form, a wrapper of its core, its model or its source.

        Args:
            name: The attribute's name.
            value: Its new value.
            force: If True, sets an attribute that none of them has on this form.

        Returns:
            True if it was set.
        """
        holder = self._find_holder(name)
        if holder is None and not force:
            return False
        setattr(self if holder is None else holder, name, value)
        return True

    def _find_holder(self, name: str) -> Any:
        """Returns this form or the outermost object inside that has an attribute, or None."""
        if hasattr(self, name):
            return self
        around, native = inside(self.core)
        holders = (*around, *native) if is_own(name) else native if name.startswith("_") else (*native, *around)
        return next((holder for holder in holders if hasattr(holder, name)), None)

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __repr__(self) -> str:
        return f"to_{self._framework}({self.core!r})"


class OpenForm(AnyForm):
    """Base of the forms that show the public attributes of the environment inside, such as `form.physics`.

    Wrappers of most frameworks do so too. Names by which libraries recognise the environments of a framework are left
    out; `get_wrapper_attr` finds those too.
    """

    def _opens(self) -> bool:
        """Returns True if the form shows the public attributes of the environment inside."""
        return True

    # The next two cost each attribute of a form some nanoseconds, 2 to 3 % of a step.

    def __getattr__(self, name: str) -> Any:
        holder = self._open_holder(name)
        # Looked up again, an attribute that is nowhere raises its own error.
        return object.__getattribute__(self, name) if holder is None else getattr(holder, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] == "_" or name in _KEPT or self._declares(name) or (holder := self._open_holder(name)) is None:
            object.__setattr__(self, name, value)
        else:
            setattr(holder, name, value)

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *(name for one in self._holders() for name in dir(one) if _is_open(name))})

    def _declares(self, name: str) -> bool:
        """Returns True if an attribute is the form's own, or declared by its class."""
        try:
            object.__getattribute__(self, name)
        except AttributeError:
            return any({name} & {*vars(kind), *vars(kind).get("__annotations__", ())} for kind in type(self).__mro__)
        return True

    def _open_holder(self, name: str) -> Any:
        """Returns the outermost object inside from which the form takes an attribute, or None."""
        return next((one for one in self._holders() if hasattr(one, name)), None) if _is_open(name) else None

    def _holders(self) -> Iterator[Any]:
        """Yields the objects inside, outermost first, except importers."""
        try:
            core = object.__getattribute__(self, "_core_inside")
        except AttributeError:  # this form is being made, or copied
            return
        if self._opens():
            around, native = inside(core)
            yield from (one for one in around if attribute(one, "source") is None)
            yield from native


def several_agents(env: Env | MultiEnv, agent: str = "agent_0") -> MultiEnv:
    """Converts an environment to a `MultiEnv`; a single agent gets the name `agent`."""
    return env if isinstance(env, MultiEnv) else as_multi(env, agent)


def context_holder(core: Any, form: str | None = None) -> Any:
    """Returns the object that has a core environment's contexts: the environment, or a source without a catalogue.

    If nothing has contexts and `form` is given, raises a ContextError that names the form.
    """
    around, native = inside(core)
    knows = getattr(core, "context_space", None) is not None or any(isinstance(one, Contextual) for one in around)
    if not knows and attribute(around[-1] if around else core, "source") is not None:
        core = next((layer for layer in native if hasattr(layer, "context")), core)
    if form is not None and not hasattr(core, "context"):
        raise ContextError(
            f"context: {core!r} takes no contexts; give {form} a Contextual(env, contexts, bind=…), which says how a "
            "context reaches it"
        )
    return core


def inside(core: Any) -> tuple[list[Any], list[Any]]:
    """Returns two lists of a core environment's parts, outermost first: its own layers, and its source's or model."""
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
    """Yields the layers of a source, outermost first. Ends at the native environment, or with the parts of a form."""
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


class SpecMethods:
    """The base of a form that makes its specs once; `reward_spec` follows the rewarder, so it is the form's own."""

    _observation_spec: Any
    _action_spec: Any
    _discount_spec: Any

    def observation_spec(self) -> Any:
        """Returns the spec of observations."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """Returns the spec of actions."""
        return self._action_spec

    def discount_spec(self) -> Any:
        """Returns the spec of discounts."""
        return self._discount_spec
