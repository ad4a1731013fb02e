"""Reading and writing sets of contexts; `formats` defines the file formats."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..atomic_write import write_atomically
from ..errors import ContextError, nearest
from ..tree import AnyMapping
from .contexts_by_id import Context, Contexts, contexts_of
from .features import plain
from .space import ContextSpace

if TYPE_CHECKING:
    from pathlib import Path

_FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".csv": "csv"}


def load_contexts(path: str | os.PathLike[str], *, space: Any = None) -> dict[Any, dict[str, Any]]:
    """Reads a set of contexts from a file.

    Args:
        path: A `.yaml`, `.yml`, `.json` or `.csv` file.
        space: The features to check the contexts against: a `ContextSpace`, or an argument of its constructor.
            Defaults are not filled in.

    Returns:
        Contexts by id, equal to those passed to `save_contexts`. Ids are strings and integers; values are numbers,
        strings, bools and None.

    Raises:
        ContextError: The file has another extension, is empty, or is malformed (the message names the line); an id
            occurs twice; an id, a feature's name or a value has the wrong type; or `space` does not allow a context.
        MissingBackend: The file is YAML, and pyyaml is not installed.
        OSError: The file cannot be read.
    """
    file, read, _ = _format(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
        document = read(text) if text.strip() else None
        if document is None:
            raise ContextError("expected contexts by id, got an empty file")
        return _checked(document, space)
    except UnicodeDecodeError as error:
        raise ContextError(f"{path}: expected text in UTF-8: {error}") from error
    except ContextError as error:
        raise ContextError(f"{path}: {error}") from error.__cause__


def save_contexts(path: str | os.PathLike[str], contexts: Contexts | Sequence[Context], *, space: Any = None) -> None:
    """Writes a set of contexts to a file that `load_contexts` reads back; an error leaves an existing file unchanged.

    Args:
        path: A `.yaml`, `.yml`, `.json` or `.csv` file. From CSV, the features of a context are read back in the
            order of the columns.
        contexts: Contexts by id, or a list, whose ids are 0, 1, 2, …. Numpy scalars are written as numbers.
        space: The features to check the contexts against: a `ContextSpace`, or an argument of its constructor.

    Raises:
        ContextError: The file has another extension; an id, a feature's name or a value has the wrong type; or `space`
            does not allow a context. Nothing is written then.
        MissingBackend: The file is YAML, and pyyaml is not installed.
        OSError: The file cannot be written.
    """
    file, _, write = _format(path)
    try:
        data = write(_checked(contexts_of(contexts), space)).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ContextError(f"{path}: expected text that UTF-8 can hold: {error}") from error
    except ContextError as error:
        raise ContextError(f"{path}: {error}") from error.__cause__
    write_atomically(file, data)


def _format(path: str | os.PathLike[str]) -> tuple[Path, Any, Any]:
    """Returns the file that a path leads to, and the functions that read and write its format."""
    # Imported here, so that `import envoi` stays fast.
    from pathlib import Path

    from . import formats

    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ContextError(f"{path}: expected a file of a known kind, got {suffix!r}; {nearest(suffix, _FORMATS)}")
    name = _FORMATS[suffix]
    # A symbolic link is kept: its target is replaced.
    return Path(path).resolve(), getattr(formats, f"read_{name}"), getattr(formats, f"write_{name}")


def _checked(document: Any, space: Any) -> dict[Any, dict[str, Any]]:
    """Returns contexts whose ids and values every format can represent, with numpy scalars as Python objects."""
    if not isinstance(document, AnyMapping):
        raise ContextError(f"expected contexts by id, as {{id: {{feature: value}}}}, got {document!r}")
    contexts: dict[Any, dict[str, Any]] = {}
    for key, context in document.items():
        own = _exact(key)
        if isinstance(own, bool) or not isinstance(own, (str, int)):
            raise ContextError(f"contexts: expected ids that are strings or integers, got {key!r}")
        if own in contexts:
            raise ContextError(f"contexts: expected each id once, got {own!r} twice")
        if not isinstance(context, AnyMapping):
            raise ContextError(f"contexts[{own!r}]: expected a mapping of features to values, got {context!r}")
        contexts[own] = {}
        for name, value in context.items():
            if not isinstance(name, str):
                raise ContextError(f"contexts[{own!r}]: expected names of features as strings, got {name!r}")
            contexts[own][str.__str__(name)] = _value(value, f"contexts[{own!r}][{name!r}]")
    if space is not None:
        space = ContextSpace.of(space)
        for key, context in contexts.items():
            space.verify(context, f"contexts[{key!r}]")
    return contexts


def _value(value: Any, path: str) -> Any:
    exact = _exact(value)
    if exact is None or type(exact) in (bool, int, float, str):
        return exact
    raise ContextError(f"{path}: expected a number, a string, a bool or None, got {value!r}")


def _exact(value: Any) -> Any:
    """Returns a scalar of numpy, or of a subclass of a built-in type, as an object of exactly that built-in type."""
    value = plain(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str.__str__(value) if isinstance(value, str) else value
