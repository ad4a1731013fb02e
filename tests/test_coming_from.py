"""The tables of `docs/coming_from/` name tests that exist, and have every option of CARL."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path.read_text() for path in (ROOT / "docs" / "coming_from").glob("*.md")}
HELD = ("carl", "qgym", "tf_agents", "gridverse")
"""The pages of libraries whose features have counterparts, each held by a test."""


@cache
def functions(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_exists():
    named = [found for page in PAGES.values() for found in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)]
    assert len(named) > 50
    for path, test in named:
        assert test in functions(path), f"{path}::{test}"


def test_every_row_is_held_by_a_test():
    rows = [
        line
        for name in HELD
        for line in PAGES[name].splitlines()
        if line.startswith("| ") and not line.endswith("| held by |")
    ]
    assert len(rows) > 40
    for row in rows:
        assert re.search(r"`tests/[\w/]+\.py::\w+` \|$", row), row


def test_every_page_has_its_three_parts():
    parts = ["## What you had", "## What you write now", "## What differs on purpose"]
    for name in PAGES.keys() - {"index"}:
        headings = re.findall(r"^## .*$", PAGES[name], re.MULTILINE)
        assert headings[:3] == parts, name
        assert f"]({name}.md)" in PAGES["index"]


def test_every_option_of_the_wrapper_that_carl_has_is_there():
    import inspect

    import envoi

    options = re.findall(r"^\| `(\w+)` \|", PAGES["carl"], re.MULTILINE)
    parameters = inspect.signature(envoi.Contextual.__init__).parameters
    assert [name for name in options if name not in parameters] == ["build_observation_space"]
    assert callable(envoi.Contextual.build_observation_space)
