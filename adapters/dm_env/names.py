"""Makes environments of dm_control and bsuite by name."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

from envoi import MissingBackend, SpecError, UnknownName
from envoi.errors import nearest

_EXTRAS = {"dm_control": "dm-control", "bsuite": "bsuite"}


def load(scheme: str, name: str, **arguments: Any) -> Any:
    """Makes an environment of a suite.

    Args:
        scheme: `"dm_control"` or `"bsuite"`.
        name: `"cartpole/swingup"`, a domain and a task; or `"catch/0"`, an experiment and the number of its setting.
        **arguments: For dm_control `environment_kwargs`, `visualize_reward` and `task_kwargs`, or the tasks' arguments
            one by one, such as `random` (or `seed`) and `time_limit`. For bsuite, arguments of the experiment; they
            override those of its setting.

    Raises:
        UnknownName: There is no such environment; the message suggests similar ones.
        MissingBackend: The suite, or a package that it needs, is not installed.
        SpecError: The environment does not take these arguments.
    """
    known = names(scheme)
    if name not in known:
        near = nearest(f"{scheme}:{name}", (f"{scheme}:{one}" for one in known))
        raise UnknownName(f"{scheme}:{name}: no such environment; {near}")
    first, _, task = name.partition("/")
    try:
        if scheme == "bsuite":  # whose `load_from_id` prints
            settings = _module("bsuite", "sweep").SETTINGS[name]
            return _module("bsuite", "bsuite").load(first, {**settings, **arguments})
        own = {key: arguments.pop(key) for key in ("environment_kwargs", "visualize_reward") if key in arguments}
        task_arguments = {**arguments.pop("task_kwargs", {}), **arguments}
        if "seed" in task_arguments:
            task_arguments["random"] = task_arguments.pop("seed")
        return _module("dm_control", "suite").load(first, task, task_kwargs=task_arguments, **own)
    except TypeError as error:
        raise SpecError(f"{scheme}:{name}: {error}") from error


def names(scheme: str) -> list[str]:
    """Returns the names of a suite.

    Args:
        scheme: `"dm_control"` or `"bsuite"`.

    Raises:
        MissingBackend: The suite is not installed.
    """
    if scheme == "bsuite":
        return list(_module("bsuite", "sweep").SETTINGS)
    return [f"{domain}/{task}" for domain, task in sorted(_module("dm_control", "suite").ALL_TASKS)]


def _module(package: str, name: str) -> ModuleType:
    try:
        with warnings.catch_warnings():
            # dm_control warns if there is no display, which is needed only for rendering.
            warnings.simplefilter("ignore")
            return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        install = f"pip install 'envoi[{_EXTRAS[package]}]'"
        missing = package if error.name is None or f"{error.name}.".startswith(f"{package}.") else error.name
        raise MissingBackend(f"{missing} is not installed; {install}") from error
