"""`docs/coming_from.md` names tests that exist, and its code runs."""

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coming_from.md").read_text()


@cache
def functions(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 50
    for path, test in named:
        assert test in functions(path), f"{path}::{test}"


def test_every_row_is_held_by_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.endswith("| held by |")]
    assert len(rows) > 40
    for row in rows:
        assert re.search(r"`tests/[\w/]+\.py::\w+` \|$", row), row


def test_every_option_of_the_wrapper_that_carl_has_is_there():
    import inspect

    import envoi

    options = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## qgym")[0], re.MULTILINE)
    parameters = inspect.signature(envoi.Contextual.__init__).parameters
    assert [name for name in options if name not in parameters] == ["build_observation_space"]
    assert callable(envoi.Contextual.build_observation_space)


def test_its_code_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(code, names)
    assert names["observation"].shape == (10,)
    assert names["observation"].dtype == np.float32
    assert names["info"]["context_id"] == "light"
