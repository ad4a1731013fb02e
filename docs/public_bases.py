"""Shows the bases of classes in the API reference that are in it themselves, in place of those of the house."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe  # pyright: ignore[reportMissingImports] (of the site's own packages)

PAGES = Path(__file__).parent / "reference"
NAMED = re.compile(r"^::: [\w.]*?(\w+)$", re.MULTILINE)
SHOWN = {name for page in PAGES.glob("*.md") for name in NAMED.findall(page.read_text())}


class PublicBases(griffe.Extension):
    """Replaces each base that no page shows by the bases of that one."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Changes the classes of the package once all are known."""
        found = [(one, {str(base): base for base in _shown_bases(one)}) for one in _classes(pkg)]
        for one, bases in found:
            one.bases = [*bases.values()]


def _classes(parent: Any) -> Iterator[griffe.Class]:
    for member in parent.members.values():
        if not member.is_alias and (member.is_module or member.is_class):
            if member.is_class:
                yield member
            yield from _classes(member)


def _shown_bases(one: griffe.Class, direct: bool = True) -> Iterator[Any]:
    for base in one.bases:
        path = str(getattr(base, "canonical_path", base))
        if path.rpartition(".")[2] in SHOWN or (direct and not path.startswith("envoi.")):
            yield base
            continue
        try:
            inner = one.modules_collection[path]
            inner = inner.final_target if inner.is_alias else inner
        except (KeyError, griffe.GriffeError):  # of a package that is not read
            continue
        yield from _shown_bases(inner, False) if inner.is_class else ()
