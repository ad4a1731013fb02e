"""Bindings: the ways in which a context is applied to an environment.

| binding | environments | a feature is |
|---|---|---|
| `Native` | those with a `context_space`: models, and imported ones in the catalogue | a feature of that space |
| `Attributes` | any imported environment | an attribute of it, or a dotted path to one |
| `Factory` | those that are constructed with their parameters | an argument of the function that makes them |
| `Function` | all others | applied by a function of the user |

A feature that the environment does not have is an error when the binding is made; it is never silently ignored.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from ..errors import ContextError, nearest
from ..spec.base import shown
from ..tree import AnyMapping
from .sets import Context
from .space import ContextSpace


class Binding(ABC):
    """Base class of bindings, which apply contexts to an environment.

    Attributes:
        space: The features that it can set, or None if they are not declared.
        sets_features: True if it sets the environment's own features, in all lanes at once.
        replaces: True if it may replace the environment by a new one.
        reapplies: True to apply a context at every reset even if it is unchanged, because other code may overwrite it.
    """

    space: ContextSpace | None = None
    sets_features: bool = False
    replaces: bool = False
    reapplies: bool = False

    @abstractmethod
    def defaults(self, env: Any, features: Iterable[str]) -> dict[str, Any]:
        """Returns the known default values of features.

        Args:
            env: The environment.
            features: The names that contexts use.

        Raises:
            ContextError: The environment does not have one of these features.
        """

    def apply(self, env: Any, contexts: Sequence[Context], lanes: Sequence[int] | None) -> Any:
        """Applies contexts right before a reset. Returns the environment to use from then on, which may be a new one.

        Args:
            env: The environment.
            contexts: One full context; for a batch, one per lane.
            lanes: The indices of the lanes that get a new context, or None for a single environment.
        """
        if lanes is None:
            return self.apply_to(env, contexts[0])
        each = getattr(env, "envs", None) if self.replaces else _lanes(env)
        if each is None:
            what = "replaces environments without wrappers" if self.replaces else "reaches single environments"
            raise ContextError(f"bind: {type(self).__name__} {what}, and {env!r} has only lanes; use envoi.batch")
        envs: list[Any] = list(each)
        try:
            for index in map(int, lanes):
                envs[index] = self.apply_to(envs[index], contexts[index])
        except Exception:
            close_replaced(envs, each)
            raise
        if self.replaces:
            env.envs = tuple(envs)
        return env

    def apply_to(self, env: Any, context: Context) -> Any:
        """Applies a context to a single environment. Returns this environment or its replacement.

        Args:
            env: The environment.
            context: The context, a value for each feature.
        """
        raise NotImplementedError


class Native(Binding):
    """Sets the environment's own features, through its attribute `context` or its method `put_context`.

    Args:
        space: The context space of the environment.
    """

    sets_features = True

    def __init__(self, space: ContextSpace) -> None:
        self.space = space

    def defaults(self, env: Any, features: Iterable[str]) -> dict[str, Any]:
        space = cast("ContextSpace", self.space)
        check_names(features, space.features, "feature")
        return space.defaults

    def apply(self, env: Any, contexts: Sequence[Context], lanes: Sequence[int] | None) -> Any:
        if lanes is None:
            env.context = contexts[0]
        else:
            chosen = [contexts[lane] for lane in lanes]
            env.put_context({name: [context[name] for context in chosen] for name in chosen[0]}, lanes)
        return env


class Attributes(Binding):
    """Sets attributes of the innermost environment, `env.unwrapped`.

    Args:
        paths: Maps features to attributes or dotted paths (`"model.opt.timestep"`). A feature without an entry sets the
            attribute of the same name.
    """

    reapplies = True

    def __init__(self, paths: Mapping[str, str] | None = None) -> None:
        if paths is not None and not isinstance(cast("Any", paths), AnyMapping):
            raise ContextError(f"paths: expected a mapping of features to attributes, got {shown(paths)}")
        self.paths = dict(paths or {})

    def defaults(self, env: Any, features: Iterable[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in _lanes(env) or [env]:
            for feature in features:
                holder, name, value = self._find(one.unwrapped, feature)
                found.setdefault(feature, value)
                try:
                    setattr(holder, name, value)  # raises an error now if the attribute is read-only
                except Exception as error:  # a setter of the environment may raise any error
                    raise ContextError(f"context[{feature!r}]: cannot be set on {shown(holder)} ({error})") from error
        return found

    def _find(self, native: Any, feature: str) -> tuple[Any, str, Any]:
        """Returns the object that has an attribute, the attribute's name and its value."""
        holder, name, value, problem = native, "", native, ""
        for name in self.paths.get(feature, feature).split("."):
            holder = value
            try:
                value = getattr(holder, name)
            except AttributeError:
                problem = "has no such attribute"
                break
        if not problem and callable(value):
            problem = f"has a function {name!r}, and no value"
        if problem:
            public = {one: inspect.getattr_static(holder, one) for one in dir(holder) if not one.startswith("_")}
            known = nearest(name, [one for one, held in public.items() if not callable(held)])
            raise ContextError(
                f"context[{feature!r}]: {type(holder).__name__} {problem}; {known}; pass bind= to define how it is set"
            )
        return holder, name, value

    def apply_to(self, env: Any, context: Context) -> Any:
        native = env.unwrapped
        for feature, value in context.items():  # all exist: `defaults` has checked them
            way, _, name = self.paths.get(feature, feature).rpartition(".")
            setattr(attrgetter(way)(native) if way else native, name, value)
        return env


class Factory(Binding):
    """Makes a new environment for each new context by calling `make(**context)`.

    Args:
        make: Makes a core environment, with the same specs for all contexts; `envoi.adapters.from_env` converts an
            environment of another framework.

    Raises:
        ContextError: `make` is not callable.
    """

    replaces = True

    def __init__(self, make: Callable[..., Any]) -> None:
        if not callable(make):
            raise ContextError(f"make: expected a function that makes an environment, got {shown(make)}")
        self.make = make

    def defaults(self, env: Any, features: Iterable[str]) -> dict[str, Any]:
        parameters = inspect.signature(self.make).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            check_names(features, parameters, f"argument of {getattr(self.make, '__name__', self.make)!s}")
        return {name: p.default for name, p in parameters.items() if p.default is not p.empty and name in set(features)}

    def apply_to(self, env: Any, context: Context) -> Any:
        new = self.make(**context)
        if not hasattr(new, "spec_under"):
            raise ContextError(
                f"bind: expected a function that makes a core environment, got {shown(new)} from it; bring it by "
                "envoi.adapters.from_env"
            )
        for name in ("observation_spec", "action_spec"):
            if getattr(new, name) != getattr(env, name):
                raise ContextError(
                    f"bind: expected an environment of one {name} under all contexts, {getattr(env, name)}; under "
                    f"{dict(context)} it is {getattr(new, name)}"
                )
        inner = env
        while hasattr(inner, "env"):
            inner = inner.env
        if getattr(inner, "given_rewarder", None) is not None:  # a rewarder that the user set carries over
            new.rewarder = env.rewarder
        return new


class Function(Binding):
    """Calls your function before each reset.

    Args:
        function: `(env, context) -> None`; it applies a full context to the core environment `env`.
    """

    reapplies = True

    def __init__(self, function: Callable[[Any, dict[str, Any]], Any]) -> None:
        self.function = function

    def defaults(self, env: Any, features: Iterable[str]) -> dict[str, Any]:
        return {}

    def apply_to(self, env: Any, context: Context) -> Any:
        self.function(env, dict(context))
        return env


def close_replaced(before: Iterable[Any], after: Iterable[Any]) -> None:
    """Closes the environments in `before` that `after` replaces."""
    for old, new in zip(before, after, strict=True):
        if old is not new:
            old.close()


def binding_of(bind: Any, env: Any) -> Binding:
    """Returns the binding for the argument `bind=` of `Contextual`."""
    if isinstance(bind, Binding):
        return bind
    if callable(bind) and not isinstance(bind, type):
        return Function(bind)
    if bind is not None:
        raise ContextError(
            f"bind: expected None, a function (env, context), or a binding of envoi.context, got {shown(bind)}"
        )
    space = getattr(env, "context_space", None)
    if space is not None:
        return Native(space)
    from ..protocol.process import Process

    if any(isinstance(one.unwrapped, Process) for one in _lanes(env) or [env]):
        raise ContextError(f"env: {env!r} takes no contexts; give its model a context_space, or pass bind=")
    return Attributes()


def check_names(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Checks that all names are known."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ContextError(f"context[{name!r}]: no such {what}; {nearest(str(name), map(str, known))}")


def _lanes(env: Any) -> tuple[Any, ...] | None:
    """Returns the environments of a batch that loops over them, also inside wrappers; None for anything else."""
    while env is not None and getattr(env, "batch_size", None) is not None:
        if hasattr(env, "envs"):
            return env.envs
        env = getattr(env, "env", None)
    return None
