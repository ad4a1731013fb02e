"""Counts the lines of the library and its tests beside the budgets in docs/architecture.md; `make size` prints them."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"


class Budget(NamedTuple):
    """A row of the table: folders and files, and how much they may have; a sum counts what other rows count too."""

    paths: list[str]
    lines: int
    files: int | None
    is_sum: bool


def budgets():
    """Returns the rows of the table."""
    table = PAGE.read_text().partition("## How much there may be")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*`.*?) \| ([\d,]+) \| ([\d,]*) ?\|", table, re.MULTILINE)
    return [
        Budget(re.findall(r"`([\w/.]+)`", names), number(lines), number(files), names.startswith("**"))
        for names, lines, files in rows
    ]


def number(text):
    return int(text.replace(",", "")) if text else None


def files_of(budget, rows):
    """Returns the Python files of a row: those below its paths, without those of a longer path in another row."""
    inside = {file for path in budget.paths for file in [ROOT / path, *(ROOT / path).rglob("*.py")] if file.is_file()}
    if budget.is_sum:
        return sorted(inside)
    named = {path for row in rows if not row.is_sum for path in row.paths}
    return sorted(file for file in inside if closest(file.relative_to(ROOT), named) in budget.paths)


def closest(file, named):
    """Returns the longest of the named paths that holds a file."""
    return next(path.as_posix() for path in (file, *file.parents) if path.as_posix() in named)


def lines_of(files):
    return sum(len(file.read_text().splitlines()) for file in files)


def over():
    """Yields a sentence for each row that has more lines or files than it may."""
    rows = budgets()
    for row in rows:
        files = files_of(row, rows)
        lines = lines_of(files)
        if lines > row.lines:
            yield f"{', '.join(row.paths)}: {lines:,} lines, {row.lines:,} allowed"
        if row.files is not None and len(files) > row.files:
            yield f"{', '.join(row.paths)}: {len(files)} files, {row.files} allowed"


def report():
    """Yields the lines of the table, and what is over."""
    yield f"{'':58}{'lines':>8}{'allowed':>9}{'files':>7}"
    rows = budgets()
    for row in rows:
        files, name = files_of(row, rows), ", ".join(row.paths)
        name = name if len(name) < 57 else f"{name[:54]}…"
        yield f"{name:58}{lines_of(files):8,}{row.lines:9,}{len(files):7}"
    yield from over()


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report())
