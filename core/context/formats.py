r"""Sets of contexts as text in JSON, YAML and CSV, without loss.

JSON and YAML contain a mapping of ids to mappings of features. CSV contains a row for each context, and after the
column `context_id` a column for each feature. The formats distinguish types in different ways:

- YAML distinguishes strings from numbers, in ids too. It is parsed by the core schema of YAML 1.2
  (https://yaml.org/spec/1.2.2/#103-core-schema): `1e-7` is a number, `yes` and `on` are strings.
- JSON keys are strings. A key that reads as an integer is an integer: `"3"` is the id 3. The id that is the string "3"
  is written with additional quotes, `"\"3\""`.
- CSV cells are text. A cell that reads as a number, or is `true`, `false` or `null`, has that value. A string that
  reads so, or that begins or ends with a space, is written with quotes in addition to those of CSV: a spreadsheet
  shows `"3"`. An id is always a string or an integer. An empty cell is a feature that is not set.

Infinities and nan are written in the notation of each format (in JSON: that of Python). Every float is read back
bit by bit.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from ..errors import ContextError, MissingBackend
from ..tree import AnyDict

ID_COLUMN = "context_id"

_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?inf(inity)?|nan", re.ASCII | re.IGNORECASE
)
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    "null": None,
}


def _unquoted(text: str) -> str | None:
    """Returns the text between quotes; None if there are no quotes."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else None


def _read_name(text: str) -> str:
    text = text.strip()
    inside = _unquoted(text)
    return text if inside is None else inside


def _read_id(text: str) -> int | str:
    name = _read_name(text)
    # Only text that would be written back identically is a number: 007 and +1 are strings.
    return int(name) if name == text.strip() and _INTEGER.fullmatch(name) and str(int(name)) == name else name


def _read_value(text: str) -> Any:
    name = _read_name(text)
    if name != text.strip():
        return name
    if name in _WORDS:
        return _WORDS[name]
    if _INTEGER.fullmatch(name):
        return int(name)
    return float(name) if _FLOAT.fullmatch(name) else name


def _write_name(name: str) -> str:
    return name if name and _read_name(name) == name else f'"{name}"'


def _write_id(key: int | str) -> str:
    return str(key) if isinstance(key, int) or (key and _read_id(key) == key) else f'"{key}"'


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return value if value and _read_value(value) == value else f'"{value}"'
    for word in ("null", "true", "false"):
        if value is _WORDS[word]:
            return word
    return repr(value)


def _unique(pairs: Iterable[tuple[Any, Any]], what: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ContextError(f"expected each {what} once, got {key!r} twice")
        found[key] = value
    return found


def read_json(text: str) -> Any:
    """Returns the document of a JSON file.

    Raises:
        ContextError: It is not JSON (the message names the line), or a key or an id occurs twice.
    """
    try:
        document = json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, "key of an object"))
    except json.JSONDecodeError as error:
        raise ContextError(f"line {error.lineno}: not JSON: {error.msg}") from error
    if not isinstance(document, AnyDict):
        return document
    return _unique(((_read_id(key), context) for key, context in document.items()), "context id")


def write_json(contexts: Mapping[Any, Mapping[str, Any]]) -> str:
    """Returns contexts as JSON."""
    named = {_write_id(key): context for key, context in contexts.items()}
    return json.dumps(named, indent=2, ensure_ascii=False) + "\n"


def read_csv(text: str) -> dict[Any, dict[str, Any]]:
    """Returns the contexts of a CSV file.

    Raises:
        ContextError: The first column is not `context_id`, a row is longer than the header, or a column or an id
            occurs twice.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    contexts: dict[Any, dict[str, Any]] = {}
    names: list[str] | None = None
    try:
        for row in reader:
            if not row:
                continue
            if names is None:
                names = _header(row)
                continue
            if not row[0].strip():
                raise ContextError(f"line {reader.line_num}: expected a context id first, got an empty cell")
            key, cells = _read_id(row[0]), row[1:]
            where = f"line {reader.line_num}: contexts[{key!r}]"
            if key in contexts:
                raise ContextError(f"{where}: expected each context id once, got it twice")
            if len(cells) > len(names):
                raise ContextError(f"{where}: expected a cell for each of {len(names)} features, got {len(cells)}")
            contexts[key] = {name: _read_value(cell) for name, cell in zip(names, cells, strict=False) if cell.strip()}
    except csv.Error as error:
        raise ContextError(f"line {reader.line_num}: not CSV: {error}") from error
    return contexts


def _header(row: list[str]) -> list[str]:
    columns = [_read_name(cell) for cell in row]
    if columns[0] != ID_COLUMN:
        raise ContextError(f"line 1: expected {ID_COLUMN!r} as the first column, got {columns[0]!r}")
    for i, name in enumerate(columns):
        if not row[i].strip():
            raise ContextError(f"line 1: expected the name of a feature in column {i + 1}, got an empty cell")
        if name in columns[:i]:
            raise ContextError(f"line 1: expected each column once, got {name!r} twice")
    return columns[1:]


def write_csv(contexts: Mapping[Any, Mapping[str, Any]]) -> str:
    """Returns contexts as CSV, with columns in the order in which the features first appear.

    Raises:
        ContextError: A feature has the name of the id column, `context_id`.
    """
    names = list(dict.fromkeys(name for context in contexts.values() for name in context))
    if ID_COLUMN in names:
        raise ContextError(f"expected no feature called {ID_COLUMN!r}, which is the column of the ids in CSV")
    file = io.StringIO(newline="")
    writer = csv.writer(file)  # with the line endings of RFC 4180; with others the writer leaves a "\r" unquoted
    writer.writerow([ID_COLUMN, *map(_write_name, names)])
    for key, context in contexts.items():
        cells = (_write_value(context[name]) if name in context else "" for name in names)
        writer.writerow([_write_id(key), *cells])
    return file.getvalue()


_CORE_SCHEMA = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)
"""The plain scalars of YAML 1.2: tag, pattern, and possible first characters."""


@cache
def _yaml() -> tuple[Any, Any, Any]:
    """Returns the module yaml, and a loader and a dumper for the core schema of YAML 1.2."""
    try:
        # Imported here, because only YAML files need pyyaml; by name, because the core declares no dependency on it.
        yaml: Any = import_module("yaml")
    except ImportError as error:
        raise MissingBackend("pyyaml is not installed; pip install 'envoi[cli]', or use .json or .csv") from error

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012

    class Dumper(yaml.SafeDumper):
        """Quotes each string that YAML 1.1 or YAML 1.2 would read as another type."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_string(dumper: Any, text: str) -> Any:
        # In any other style, a line break may be read back as another one of the line breaks of Unicode.
        style = '"' if any(character in text for character in "\n\r\x85\u2028\u2029") else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def construct_mapping(loader: Any, node: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise ContextError(f"line {line}: expected a string or an integer before the colon, got {key!r}")
            if key in found:
                raise ContextError(f"line {line}: expected each key once, got {key!r} twice")
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    def construct_integer(loader: Any, node: Any) -> int:
        text = loader.construct_scalar(node)
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))

    for tag, pattern, first in _CORE_SCHEMA:
        resolver = (f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"), first)
        Loader.add_implicit_resolver(*resolver)
        Dumper.add_implicit_resolver(*resolver)
    Loader.add_constructor("tag:yaml.org,2002:map", construct_mapping)
    Loader.add_constructor("tag:yaml.org,2002:int", construct_integer)
    Dumper.add_representer(str, represent_string)
    return yaml, Loader, Dumper


def read_yaml(text: str) -> Any:
    """Returns the document of a YAML file.

    Raises:
        ContextError: It is not YAML (the message names the line), or a key occurs twice.
        MissingBackend: pyyaml is not installed.
    """
    yaml, loader, _ = _yaml()
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ContextError(f"{where}not YAML: {problem}") from error


def write_yaml(contexts: Mapping[Any, Mapping[str, Any]]) -> str:
    """Returns contexts as YAML.

    Raises:
        MissingBackend: pyyaml is not installed.
    """
    yaml, _, dumper = _yaml()
    return yaml.dump(dict(contexts), Dumper=dumper, sort_keys=False, allow_unicode=True, width=float("inf"))
