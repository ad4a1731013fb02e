"""The names of the envs that can be loaded, for `envoi envs` and for completion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import envoi
from envoi.adapters import SCHEMES as LOADERS
from envoi.adapters import names_of

SCHEMES = tuple(sorted(LOADERS, key=lambda scheme: (scheme != "envoi", scheme == "python", scheme)))
"""The schemes of names, envoi's own models first."""


@dataclass(frozen=True)
class ListedEnvs:
    """The names of one scheme.

    Args:
        scheme: The scheme.
        names: The names, each with its scheme; in their own order.
        missing: The reason why none can be loaded, such as a package that is not installed; empty if there is none.
    """

    scheme: str
    names: tuple[str, ...]
    missing: str = ""


def list_envs(schemes: Iterable[str] = SCHEMES, search: str = "") -> list[ListedEnvs]:
    """Returns the names of the envs that can be loaded.

    Args:
        schemes: The schemes to look at.
        search: Words that a name must contain, in any case; `-` and `_` are the same.
    """
    words = _plain(search).split()
    found: list[ListedEnvs] = []
    for scheme in schemes:
        try:
            names = names_of(scheme)
        except envoi.MissingBackend as error:
            found.append(ListedEnvs(scheme, (), str(error)))
            continue
        found.append(ListedEnvs(scheme, tuple(one for one in names if all(word in _plain(one) for word in words))))
    return found


def _plain(text: str) -> str:
    return text.lower().replace("_", "-")
