"""Makes the environments under check, from a name, a function or an environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from envoi import Env, EnvoiError, LossyConversion, MultiEnv, SpecError
from envoi.adapters import from_env, load

from ..errors import describe
from .drivers.base import Driver
from .drivers.selection import driver_for, framework_driver


class EnvFactory(NamedTuple):
    """Makes the environments under check.

    Attributes:
        name: Name of the environment in reports.
        make: Makes a driver of an environment.
        independent: True if `make` gives a new environment each time.
        origin: A name or function that another process can make the environment from; None where there is none.
    """

    name: str
    make: Callable[[], Driver]
    independent: bool
    origin: Any

    def make_first(self) -> Driver:
        """Makes the first environment, whose errors are bad input.

        Raises:
            envoi.EnvoiError: It could not be made.
        """
        try:
            return self.make()
        except EnvoiError:
            raise
        except Exception as error:
            raise EnvoiError(f"{self.name}: it could not be made: {describe(error)}") from error


def env_factory(given: Any) -> EnvFactory:
    """Returns a factory of the environments to check.

    Args:
        given: A name, a function that makes an environment, or an environment, of which copies are checked.

    Raises:
        envoi.EnvoiError: There is no such name, or it is an object of another kind.
    """
    if isinstance(given, str):
        return EnvFactory(given, lambda: new_driver(given), True, given)
    if not is_env(given) and callable(given):
        module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", type(given).__qualname__)
        return EnvFactory(f"{module}.{name}" if module else name, lambda: new_driver(given), True, given)
    driver = driver_for(given)
    name = str(given) if len(str(given)) <= 60 else type(given).__name__
    try:
        copy.deepcopy(given)
    except Exception:
        return EnvFactory(name, lambda: driver, False, None)
    return EnvFactory(name, lambda: driver_for(copy.deepcopy(given)), True, None)


def new_driver(origin: Any) -> Driver:
    """Returns a driver of a new environment, made from a name or by a function.

    Raises:
        envoi.EnvoiError: There is no such name, or the function returns no environment.
    """
    if isinstance(origin, str):
        return driver_for(load(origin))
    return driver_for(origin())


def is_env(thing: Any) -> bool:
    """Returns True if an object is an environment of any framework, rather than a function that makes one."""
    if isinstance(thing, type):
        return False
    if isinstance(thing, (Env, MultiEnv)):
        return True
    try:
        if framework_driver(thing) is not None:
            return True
        from_env(thing)
    except LossyConversion:
        return True  # one with spaces that the core cannot express
    except (SpecError, TypeError, AttributeError):
        return False
    return True
