"""What is to be checked, in whichever way it is given: a name, a function that makes it, or an environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from envoi import Env, EnvoiError, LossyConversion, MultiEnv, SpecError
from envoi.adapters import from_env, load

from ..errors import describe
from .drivers.core import Hand
from .drivers.frameworks import hand_of, own_hand


class Making(NamedTuple):
    """How environments under check are made.

    Attributes:
        name: What reports call it.
        make: Makes a hand on another one.
        independent: Whether `make` can be called for another one again and again.
        origin: What another process could make it of; None where there is nothing.
    """

    name: str
    make: Callable[[], Hand]
    independent: bool
    origin: Any


def making(given: Any) -> Making:
    """How the environments that are checked are made.

    Args:
        given: A name, a function that makes an environment, or an environment, of which copies are checked.

    Raises:
        envoi.EnvoiError: There is no such name, or no environment is made.
    """
    if isinstance(given, str):
        return Making(given, lambda: made_anew(given), True, given)
    if not is_env(given) and callable(given):
        module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", type(given).__qualname__)
        return Making(f"{module}.{name}" if module else name, lambda: made_anew(given), True, given)
    hand = hand_of(given)
    name = str(given) if len(str(given)) <= 60 else type(given).__name__
    try:
        copy.deepcopy(given)
    except Exception:
        return Making(name, lambda: hand, False, None)
    return Making(name, lambda: hand_of(copy.deepcopy(given)), True, None)


def made_anew(origin: Any) -> Hand:
    """A hand on a new environment.

    Raises:
        envoi.EnvoiError: There is no such name, or something else than an environment is made.
    """
    if isinstance(origin, str):
        return hand_of(load(origin))
    return hand_of(origin())


def is_env(thing: Any) -> bool:
    """Whether something is an environment of any framework, and not what makes one."""
    if isinstance(thing, type):
        return False
    if isinstance(thing, (Env, MultiEnv)):
        return True
    try:
        if own_hand(thing) is not None:
            return True
        from_env(thing)
    except LossyConversion:
        return True  # one with spaces that the core cannot express
    except (SpecError, TypeError, AttributeError):
        return False
    return True


def first(made: Making) -> Hand:
    """The first environment, whose errors are bad input.

    Raises:
        envoi.EnvoiError: It could not be made.
    """
    try:
        return made.make()
    except EnvoiError:
        raise
    except Exception as error:
        raise EnvoiError(f"{made.name}: it could not be made: {describe(error)}") from error
