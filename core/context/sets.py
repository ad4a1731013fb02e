"""Sets of contexts: mappings from ids, which the user chooses, to contexts; in memory and in files.

A file is YAML as PyYAML reads it, JSON, or CSV with a column `context_id` and one for each feature. In JSON and
CSV, ids are text; the text of an integer is read as that integer. In CSV, values are text too; the text of a number,
`true`, `false` or `null` is read as that value. `save_contexts` refuses contexts that would be read back differently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from ..atomic_write import write_atomically
from ..errors import ContextError, MissingBackend, nearest
from ..structural_equality import Structured, structure
from ..tree import AnyDict, AnyMapping, AnySequence
from .features import plain
from .space import ContextSpace

if TYPE_CHECKING:
    from pathlib import Path

Context: TypeAlias = Mapping[str, Any]
"""Values by feature name."""

Contexts: TypeAlias = Mapping[Any, Context]
"""Contexts by id; any hashable value can be an id."""


def fill(contexts: Contexts | Sequence[Context] | None, default: Context) -> dict[Any, dict[str, Any]]:
    """Fills in default values for features that contexts omit, and returns full contexts by id.

    Args:
        contexts: Contexts by id, or a list, whose ids are 0, 1, 2, …. None or an empty set gives only the default
            context, with the id 0.
        default: The default value of each feature.

    Returns:
        New dicts, in the order of `contexts`; the arguments are not changed. All contexts have the same order of
        features: first the features of `default`, then others by first appearance.

    Raises:
        ContextError: A context is not a mapping, or a feature's name is not a string.
    """
    given = contexts_of(contexts)
    if not given:
        return {0: dict(default)}
    order = dict.fromkeys([*default, *(name for context in given.values() for name in context)])
    full = {key: {**default, **context} for key, context in given.items()}
    return {key: {name: context[name] for name in order if name in context} for key, context in full.items()}


def contexts_of(given: Contexts | Sequence[Context] | None) -> Contexts:
    """Returns contexts by id, after checking their types. The ids of a list are 0, 1, 2, …."""
    contexts: Any = given
    if contexts is None:
        return {}
    if isinstance(contexts, AnySequence) and not isinstance(contexts, (str, bytes)):
        contexts = dict(enumerate(contexts))
    if not isinstance(contexts, AnyMapping):
        raise ContextError(f"contexts: expected a mapping of ids to contexts, or a list of contexts, got {contexts!r}")
    for key, context in contexts.items():
        if not isinstance(context, AnyMapping):
            raise ContextError(f"contexts[{key!r}]: expected a mapping of feature names to values, got {context!r}")
        for name in context:
            if not isinstance(name, str):
                raise ContextError(f"contexts[{key!r}]: expected names of features as strings, got {name!r}")
    return contexts


def same_contexts(contexts: Contexts, others: Contexts) -> bool:
    """Returns True if two sets have the same contexts under the same ids, in the same order."""
    return contexts is others or structure(list(contexts.items())) == structure(list(others.items()))


class ContextSet(Structured, Mapping[Any, Context]):
    """An immutable set of contexts, which configs that merge dicts (such as RLlib's) replace as a whole.

    RLlib merges each dict of `evaluation_config={"env_config": …}` into the training config's, so that evaluation would
    include the training contexts. A `ContextSet` is not a dict, so RLlib replaces it as a whole:

        config.environment("pendulum", env_config={"contexts": ContextSet(train)})
        config.evaluation(evaluation_config={"env_config": {"contexts": ContextSet(held_out)}})

    It maps ids to contexts. Two sets are equal if they have the same contexts in the same order. A set can be pickled.
    A set made from a file does not follow later changes of the file.

    Args:
        contexts: Contexts by id; a list of contexts, whose ids are 0, 1, 2, …; another set; or the path of a file, see
            `load_contexts`.

    Raises:
        ContextError: `contexts` has another type.
    """

    __slots__ = ("_contexts",)

    def __init__(self, contexts: Contexts | Sequence[Context] | str | os.PathLike[str]) -> None:
        if isinstance(contexts, (str, os.PathLike)):
            contexts = load_contexts(contexts)
        self._contexts = {key: dict(context) for key, context in contexts_of(contexts).items()}

    def __getitem__(self, key: Any) -> dict[str, Any]:
        return dict(self._contexts[key])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._contexts)

    def __len__(self) -> int:
        return len(self._contexts)

    def parts(self) -> list[tuple[str, Any]]:
        return [("contexts", list(self._contexts.items()))]

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return f"ContextSet({self._contexts!r})"
        first = ", ".join(repr(key) for key in list(self)[:_SHOWN])
        return f"<ContextSet of {len(self)} contexts: {first}, …>"


_SHOWN = 5
"""The largest number of contexts in a set's repr."""


# Files.


def load_contexts(path: str | os.PathLike[str], *, space: Any = None) -> dict[Any, dict[str, Any]]:
    """Reads a set of contexts from a file.

    Args:
        path: A `.yaml`, `.yml`, `.json` or `.csv` file.
        space: The features to check the contexts against: a `ContextSpace`, or an argument of its constructor.
            Defaults are not filled in.

    Returns:
        Contexts by id, equal to those passed to `save_contexts`. Ids are strings or integers; values are numbers,
        strings, bools or None.

    Raises:
        ContextError: The file has another extension, is empty, or is malformed (the message names the line); an id
            occurs twice; an id, a feature's name or a value has the wrong type; or `space` rejects a context.
        MissingBackend: The file is YAML, and pyyaml is not installed.
        OSError: The file cannot be read.
    """
    file, read, _ = _format(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
        document = read(text) if text.strip() else None
        if document is None:
            raise ContextError("expected contexts by id, got an empty file")
        return _check(contexts_of(document), space)
    except ValueError as error:
        raise ContextError(f"{path}: {error}") from error


def save_contexts(path: str | os.PathLike[str], contexts: Contexts | Sequence[Context], *, space: Any = None) -> None:
    """Writes contexts to a file that `load_contexts` can read. After an error, an existing file is unchanged.

    Args:
        path: A `.yaml`, `.yml`, `.json` or `.csv` file. Reading a CSV file returns features in the order of its
            columns.
        contexts: Contexts by id, or a list, whose ids are 0, 1, 2, …. Numpy scalars are written as numbers.
        space: The features to check the contexts against: a `ContextSpace`, or an argument of its constructor.

    Raises:
        ContextError: The file has another extension; an id, a feature's name or a value has the wrong type, or would
            be read back as another one, such as the string "3" from CSV; or `space` rejects a context. Nothing is
            written then.
        MissingBackend: The file is YAML, and pyyaml is not installed.
        OSError: The file cannot be written.
    """
    file, read, write = _format(path)
    try:
        checked = _check(contexts_of(contexts), space)
        text = write(checked)
        _check_kept(checked, read(text))
        data = text.encode("utf-8")
    except ValueError as error:
        raise ContextError(f"{path}: {error}") from error
    write_atomically(file, data)


def _format(path: str | os.PathLike[str]) -> tuple[Path, Any, Any]:
    """Returns the file's path with links resolved, and the functions that read and write its format."""
    from pathlib import Path

    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise ContextError(f"{path}: expected a file of a known kind, got {suffix!r}; {nearest(suffix, _FORMATS)}")
    return Path(path).resolve(), *_FORMATS[suffix]  # a symbolic link is kept: its target is replaced


def _check(given: Contexts, space: Any) -> dict[Any, dict[str, Any]]:
    """Checks that every format can represent the ids and values. Returns them with numpy scalars as Python objects."""
    contexts: dict[Any, dict[str, Any]] = {}
    for key, context in given.items():
        own = _exact(key)
        if isinstance(own, bool) or not isinstance(own, (str, int)):
            raise ContextError(f"contexts: expected ids that are strings or integers, got {key!r}")
        if own in contexts:
            raise ContextError(f"contexts: expected each id once, got {own!r} twice")
        contexts[own] = {}
        for name, value in context.items():
            exact = contexts[own][str.__str__(name)] = _exact(value)
            if exact is not None and type(exact) not in (bool, int, float, str):
                place = f"contexts[{own!r}][{name!r}]"
                raise ContextError(f"{place}: expected a number, a string, a bool or None, got {value!r}")
    if space is not None:
        space = ContextSpace.of(space)
        for key, context in contexts.items():
            space.verify(context, f"contexts[{key!r}]")
    return contexts


def _exact(value: Any) -> Any:
    """Converts numpy scalars, and objects of subclasses of built-in types, to the built-in type itself."""
    value = plain(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str.__str__(value) if isinstance(value, str) else value


def _check_kept(contexts: Contexts, back: Contexts) -> None:
    """Checks that reading a file gives back what was written."""
    for (key, context), (other, read) in zip(contexts.items(), back.items(), strict=True):
        if repr(key) != repr(other):
            raise ContextError(f"contexts: the id {key!r} would be read back as {other!r}; use a .yaml file")
        for name in {**context, **read}:
            ours, theirs = (repr(held[name]) if name in held else "nothing" for held in (context, read))
            if ours != theirs:  # as text, which tells 1 from 1.0, and finds nan equal
                raise ContextError(
                    f"contexts[{key!r}][{name!r}]: {ours} would be read back as {theirs}; use a .yaml file"
                )


def _id(text: str) -> int | str:
    """Converts text to an id: an integer only if the integer would be written like this, so 007 stays a string."""
    return int(text) if re.fullmatch("0|-?[1-9][0-9]*", text) else text


def _read_json(text: str) -> Any:
    import json

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len({*names}) < len(names):
            raise ContextError(f"expected each key once, got {max(names, key=names.count)!r} twice")
        return dict(pairs)

    document = json.loads(text, object_pairs_hook=unique)
    return {_id(key): context for key, context in document.items()} if isinstance(document, AnyDict) else document


def _write_json(contexts: Contexts) -> str:
    import json

    return json.dumps(contexts, indent=2, ensure_ascii=False) + "\n"


def _read_csv(text: str) -> Any:
    import csv
    import io

    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = filter(None, reader)
    contexts: dict[Any, dict[str, Any]] = {}
    try:
        first, *names = (cell.strip() for cell in next(rows))
        if first != "context_id" or len({*names}) < len(names):
            raise ContextError(f"expected columns 'context_id' and one for each feature, got {[first, *names]}")
        for row in rows:
            text, *cells = (cell.strip() for cell in row)
            key = _id(text)
            if not text or len(cells) > len(names):
                raise ContextError(f"expected an id and at most {len(names)} cells, got {row}")
            if key in contexts:
                raise ContextError(f"expected each id once, got {key!r} twice")
            contexts[key] = {name: value_of(cell) for name, cell in zip(names, cells, strict=False) if cell}
    except (csv.Error, ContextError) as error:
        raise ContextError(f"line {reader.line_num}: {error}") from error
    return contexts


_WORDS = {"true": True, "false": False, "null": None}


def value_of(cell: str) -> Any:
    """Converts text, such as a cell of a CSV file, to a number, a bool, None or a string."""
    if cell.lower() in _WORDS:  # a spreadsheet writes TRUE
        return _WORDS[cell.lower()]
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def _write_csv(contexts: Contexts) -> str:
    import csv
    import io
    import json

    names = list(dict.fromkeys(name for context in contexts.values() for name in context))
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["context_id", *names])
    for key, context in contexts.items():
        cells = [context.get(name, "") for name in names]
        writer.writerow([key, *(cell if isinstance(cell, str) else json.dumps(cell) for cell in cells)])
    return file.getvalue()


def _yaml() -> tuple[Any, Any, Any]:
    """Returns the module yaml with safe variants of its loader and dumper, which read 1e-7 as a number."""
    try:
        yaml: Any = import_module("yaml")  # by name, because the core declares no dependency on it
    except ImportError as error:
        raise MissingBackend("pyyaml is not installed; pip install 'envoi[cli]', or use .json or .csv") from error

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[Any] = set()
            for key, _ in node.value:
                if (text := (key.tag, str(key.value))) in seen:
                    line = key.start_mark.line + 1
                    raise ContextError(f"line {line}: expected each key once, got {key.value!r} twice")
                seen.add(text)
            return yaml.SafeLoader.construct_mapping(self, node, deep)

    class Dumper(yaml.SafeDumper):
        pass

    for kind in (Loader, Dumper):
        kind.add_implicit_resolver(
            "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+\.?[0-9]*[eE][-+]?[0-9]+$"), list("-+0123456789")
        )
    return yaml, Loader, Dumper


def _read_yaml(text: str) -> Any:
    yaml, loader, _ = _yaml()
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ContextError(f"not YAML: {' '.join(str(error).split())}") from error


def _write_yaml(contexts: Contexts) -> str:
    yaml, _, dumper = _yaml()
    return yaml.dump(contexts, Dumper=dumper, sort_keys=False, allow_unicode=True, width=float("inf"))


_FORMATS = {
    ".yaml": (_read_yaml, _write_yaml),
    ".yml": (_read_yaml, _write_yaml),
    ".json": (_read_json, _write_json),
    ".csv": (_read_csv, _write_csv),
}
