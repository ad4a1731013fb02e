"""Counts the lines of the library and its tests beside the budgets in docs/architecture.md; `make size` prints them."""

import ast
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


def counts(paths):
    """Returns the numbers of lines, and of those of code, docstrings and headers; a header ends with the imports."""
    lines = code = docstrings = headers = 0
    for path in paths:
        text = path.read_text()
        tree = ast.parse(text)
        strings = {
            line for node in ast.walk(tree) if is_string(node) for line in range(node.lineno, node.end_lineno + 1)
        }
        first = [
            node.end_lineno for node in tree.body if is_string(node) or isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        begun = [node.lineno for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        header = max((line for line in first if line < min(begun, default=sys.maxsize)), default=0)
        written = text.splitlines()
        is_code = [bool(line.strip()) and not line.lstrip().startswith("#") for line in written]
        lines += len(written)
        headers += header
        docstrings += len(strings)
        code += sum(said and k not in strings and k > header for k, said in enumerate(is_code, 1))
    return lines, code, docstrings, headers


def is_string(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def over():
    """Yields a sentence for each row that has more lines or files than it may."""
    rows = budgets()
    for row in rows:
        files = files_of(row, rows)
        lines = sum(len(file.read_text().splitlines()) for file in files)
        if lines > row.lines:
            yield f"{', '.join(row.paths)}: {lines:,} lines, {row.lines:,} allowed"
        if row.files is not None and len(files) > row.files:
            yield f"{', '.join(row.paths)}: {len(files)} files, {row.files} allowed"


def report():
    """Yields the lines of the table, and what is over."""
    yield f"{'':58}{'lines':>8}{'allowed':>9}{'files':>7}{'code':>8}{'docstrings':>12}{'headers':>9}"
    rows = budgets()
    for row in rows:
        files = files_of(row, rows)
        lines, code, docstrings, headers = counts(files)
        name = ", ".join(row.paths)
        name = name if len(name) < 57 else f"{name[:54]}…"
        yield f"{name:58}{lines:8,}{row.lines:9,}{len(files):7}{code:8,}{docstrings:12,}{headers:9,}"
    yield from over()


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report())
