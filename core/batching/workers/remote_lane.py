"""One lane of a batch with workers, as an environment whose attributes and methods are those in the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter, methodcaller
from types import MethodType
from typing import Any, cast

from ...protocol.env import Env, Reset, Step
from ...protocol.process import Snapshot

Ask = Callable[[int, Callable[[Env], Any]], Any]
"""`(lane, function) -> result` of a function of the lane's environment, which runs in its worker."""


class RemoteLane(Env):
    """An environment in another process.

    Reading an attribute asks the worker for a copy; setting one, or calling a method, does it there. `reset` and `step`
    are for a single lane that is used alone; the batch has faster ones for all of them.

    Args:
        ask: Runs a function of the lane's environment.
        lane: The index of the lane.
    """

    def __init__(self, ask: Ask, lane: int) -> None:
        object.__setattr__(self, "_ask", ask)
        object.__setattr__(self, "_lane", lane)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        return self._call("reset", seed=seed, options=options)

    def step(self, action: Any) -> Step:
        return self._call("step", action)

    def snapshot(self) -> Snapshot:
        return self._call("snapshot")

    def restore(self, snapshot: Snapshot) -> None:
        self._call("restore", snapshot)

    def spec_under(self, contexts: Any) -> Any:
        return self._call("spec_under", list(contexts))

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("untaken", dict(options))

    def assign_lane(self, number: int) -> None:
        self._call("assign_lane", number)

    def render(self) -> Any:
        return self._call("render")

    def close(self) -> None:
        self._call("close")

    def sample_action(self) -> Any:
        return self._call("sample_action")

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        function: Any = methodcaller(name, *args, **kwargs)
        return self._asking(function)

    def _asking(self, function: Callable[[Env], Any]) -> Any:
        ask = cast("Ask", object.__getattribute__(self, "_ask"))
        return ask(object.__getattribute__(self, "_lane"), function)

    @property
    def state(self) -> Any:
        return self._asking(attrgetter("state"))

    @property
    def observation(self) -> Any:
        return self._asking(attrgetter("observation"))

    @property
    def unwrapped(self) -> Any:
        return self

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in _HERE:
            return object.__getattribute__(self, name)
        found = object.__getattribute__(self, "_asking")(partial(_read, name=name))
        return partial(self._call_inside, name) if found is _METHOD else found

    def _call_inside(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._asking(partial(_call_where_it_is, name=name, args=args, kwargs=kwargs))

    def __setattr__(self, name: str, value: Any) -> None:
        self._asking(partial(_write, name=name, value=value))

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("an environment in another process cannot be copied; give a function that makes one")

    def __reduce__(self) -> Any:
        raise TypeError("an environment in another process cannot be pickled; give a function that makes one")

    def __repr__(self) -> str:
        return f"RemoteLane({object.__getattribute__(self, '_lane')})"


_HERE = frozenset(name for name in vars(RemoteLane) if not name.startswith("_"))
"""Names that are looked up on the proxy itself."""


class _Method:
    """A placeholder for a method, because methods are not sent."""

    def __reduce__(self) -> str:
        return "_METHOD"


_METHOD = _Method()


def _holder(env: Env, name: str) -> Any:
    """Returns the layer of an environment that has an attribute: the environment, what is inside, or its source.

    Raises:
        AttributeError: None has it.
    """
    layer: Any = env
    while layer is not None:
        if hasattr(layer, name):
            return layer
        layer = getattr(layer, "env", None) or getattr(layer, "source", None)
    if hasattr(env.unwrapped, name):
        return env.unwrapped
    raise AttributeError(f"{env!r} has no attribute {name!r}, nor has anything inside of it")


def _read(env: Env, name: str) -> Any:
    found = getattr(_holder(env, name), name)
    return _METHOD if isinstance(found, (MethodType, type(len))) else found


def _call_where_it_is(env: Env, name: str, args: Any, kwargs: Any) -> Any:
    return getattr(_holder(env, name), name)(*args, **kwargs)


def _write(env: Env, name: str, value: Any) -> None:
    holder: Any = env
    if not hasattr(env, name):
        try:
            holder = _holder(env, name)
        except AttributeError:
            holder = env.unwrapped
    setattr(holder, name, value)
