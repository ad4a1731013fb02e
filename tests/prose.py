"""The texts of the repository that people read, file by file, and an assertion that checks them by folder."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CODE = ("core", "adapters", "integrations", "examples", "benchmarks", "docs", "tests")
FOLDERS = {"core": "envoi", "adapters": "envoi.adapters", "integrations": "envoi.integrations"}
TEXTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md")


class Passage(NamedTuple):
    """A docstring, comment, message, name of a test, or page."""

    kind: str
    line: int
    text: str


def python_files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def pages():
    return [*(ROOT / name for name in TEXTS), *sorted((ROOT / "docs").rglob("*.md"))]


def passages(path):
    """Everything in a file that a person reads, apart from the code itself."""
    text = path.read_text()
    if path.suffix == ".md":
        return [Passage("page", number, line) for number, line in enumerate(text.splitlines(), 1)]
    return passages_of_python(text)


def passages_of_python(text):
    parsed = ast.parse(text)
    docstrings = {id(node): node for node in ast.walk(parsed) if is_docstring(node)}
    found = [Passage("docstring", node.lineno, node.value.value) for node in docstrings.values()]
    inside = {id(node.value) for node in docstrings.values()}
    for node in ast.walk(parsed):
        if id(node) in inside:
            continue
        inside.update(id(part) for part in ast.walk(node) if isinstance(node, ast.JoinedStr))
        message = string_of(node)
        if message is not None and " " in message.strip():
            found.append(Passage("message", node.lineno, message))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.append(Passage("name", node.lineno, node.name.replace("_", " ")))
    return [*found, *comments(text)]


def is_docstring(node):
    """True for a string that is a statement: a docstring of a module, class, function, or of the constant above."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def string_of(node):
    """The text of a string or f-string, with … for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def comments(text):
    """The comments of a file; one that continues on the next line is one."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string.lstrip("#").strip()
            if found and found[-1].line + found[-1].text.count("\n") + 1 == line:
                found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{words}")
            else:
                found.append(Passage("comment", line, words))
    return found


def relative(path):
    return path.relative_to(ROOT).as_posix()


def held(offences):
    """Asserts that no file breaks a rule; `offences` has descriptions of what breaks it, by the file's name."""
    broken = [f"{name}:{offence}" for name in sorted(offences) for offence in offences[name]]
    assert not broken, "\n".join(broken)


def flat(text):
    """A text in one line, without code in backticks."""
    return re.sub(r"\s+", " ", re.sub(r"``?[^`]*``?", "`…`", text)).strip()
