"""The start of processes for lanes, and what they are sent to make their environments of."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_all_start_methods, get_context
from typing import Any

from ...errors import SpecError, UnknownName, nearest
from ...protocol.env import Env
from ...spec.base import shown


def start_context(method: str | None) -> Any:
    """Returns a context of `multiprocessing`.

    Raises:
        UnknownName: There is no such way to start a process.
    """
    if method is not None and method not in get_all_start_methods():
        raise UnknownName(f"start_method: {method}: no such method; {nearest(method, get_all_start_methods())}")
    return get_context(method)


def sendable(source: Any, method: str) -> Any:
    """Returns the pickle of an environment or of a function that makes one, for workers.

    Args:
        source: The environment, or the function.
        method: The start method; a forked process also takes what cannot be pickled.

    Raises:
        SpecError: It cannot be pickled.
    """
    if not isinstance(source, Env) and not callable(source):
        raise SpecError(f"env: expected a core environment or a function that makes one, got {shown(source)}")
    dumps: list[Callable[[Any], bytes]] = [pickle.dumps]
    with suppress(ImportError):
        # It pickles functions by their code, so those of `__main__` and lambdas too.
        dumps.insert(0, import_module("cloudpickle").dumps)
    error: Exception | None = None
    for dump in dumps:
        try:
            return dump(source)
        except Exception as raised:  # objects of an imported environment may raise any error
            error = raised
    if method == "fork":
        return source
    raise SpecError(
        f"env: {shown(source)} cannot be sent to a worker ({error}); give a function of a module that makes one, or "
        "install cloudpickle for functions inside of others"
    ) from error
