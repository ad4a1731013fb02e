"""Tables as CSV in full precision, parquet and LaTeX. Each file is replaced as a whole."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import envoi
from envoi.atomic_write import write_atomically

Row = Mapping[str, Any]
OVERLAP = "test contexts that are also training contexts"
"""The beginning of warnings of such contexts."""


def check_parquet() -> Any:
    """Imports pyarrow, so that a missing package raises an error before a long computation."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise envoi.MissingBackend(
            "pyarrow is not installed, which writes .parquet; pip install 'envoi[parquet]'"
        ) from error
    return pyarrow


def write_tables(
    folder: Path,
    tables: Mapping[str, Sequence[Row]],
    more: Mapping[str, str] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Writes each table as `<name>.csv` and `.parquet`, and other files by name, once all contents are made.

    `columns` names the columns of tables that may be empty. Ids have the same text in both files.
    """
    files: dict[str, str | bytes] = {}
    for name, rows in tables.items():
        names = list(rows[0]) if columns is None else columns[name]
        files |= {f"{name}.csv": csv_text(rows, names), f"{name}.parquet": _parquet_bytes(rows, names)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in {**files, **(more or {})}.items():
        write_atomically(folder / name, contents)


def csv_text(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Returns a table as CSV; floats have all their digits, and None is an empty cell."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


_TEXTS = ("env", "variant", "region", "x", "y")


def _parquet_bytes(rows: Sequence[Row], names: Sequence[str]) -> bytes:
    pa = check_parquet()
    columns = dict[str, Any]()
    for name in names:
        values = [row[name] for row in rows]
        known = [value for value in values if value is not None]
        kinds, are_numbers = {*map(type, known)}, all(isinstance(value, (int, float, np.number)) for value in known)
        # Parquet cannot mix types; ids are text, unless all are integers.
        if kinds != {int} if name == "context_id" else len(kinds) > 1 and not are_numbers:
            values = [None if value is None else str(value) for value in values]
        kind = pa.string() if name in _TEXTS else pa.int64() if name == "train_seed" else None
        columns[name] = pa.array(values, pa.float64() if kind is None and not known else kind)
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def latex_text(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Returns a table for `booktabs`, with numbers of four significant digits."""
    lines = [r"\begin{tabular}{" + "".join("l" if name in (*_TEXTS, "context_id") else "r" for name in names) + "}"]
    lines += [r"\toprule", " & ".join(map(_escape, names)) + r" \\", r"\midrule"]
    for row in rows:
        cells = (f"{value:.4g}" if isinstance(value, float) else _escape(value) for value in row.values())
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


_LATEX = {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}", **{letter: "\\" + letter for letter in "&%$#_{}"}}


def _escape(value: Any) -> str:
    return "--" if value is None else str(value).translate(str.maketrans(_LATEX))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Reads a table from CSV or parquet. From CSV, cells are text or None."""
    if path.suffix == ".parquet":
        check_parquet()
        from pyarrow import ArrowException, parquet

        try:
            return parquet.read_table(path).to_pylist()
        except (ArrowException, OSError) as error:
            raise envoi.EnvoiError(f"{path}: not a parquet file: {error}") from error
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise envoi.EnvoiError(f"{path}: not CSV: {error}") from error
    for index, row in enumerate(rows):
        if None in row or None in row.values():
            raise envoi.EnvoiError(f"{path}: line {index + 2} has another number of cells than the header")
    return [{name: None if cell == "" else cell for name, cell in row.items()} for row in rows]
