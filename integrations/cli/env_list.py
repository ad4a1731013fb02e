"""The names of the envs that can be loaded, for `envoi envs` and for completion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import envoi


class ListedEnvs(NamedTuple):
    """The names of one scheme, or what is missing for it."""

    scheme: str
    names: tuple[str, ...]
    missing: str = ""


def schemes() -> list[str]:
    """Returns the schemes of names, envoi's own models first."""
    from envoi.adapters import SCHEMES

    return sorted(SCHEMES, key=lambda scheme: (scheme != "envoi", scheme == "python", scheme))


def list_envs(some: Iterable[str] | None = None, search: str = "") -> list[ListedEnvs]:
    """Returns the names of the envs that can be loaded, of all schemes or of some."""
    from envoi.adapters import names_of

    words = _plain(search).split()
    found: list[ListedEnvs] = []
    for scheme in schemes() if some is None else some:
        try:
            names = names_of(scheme)
        except envoi.MissingBackend as error:
            found.append(ListedEnvs(scheme, (), str(error)))
            continue
        found.append(ListedEnvs(scheme, tuple(one for one in names if all(word in _plain(one) for word in words))))
    return found


def _plain(text: str) -> str:
    return text.lower().replace("_", "-")
