"""`docs/adding_a_framework.md` names files and functions that exist, and its row is true."""

import ast
import re
from pathlib import Path

from envoi.adapters import FRAMEWORKS, Framework

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "adding_a_framework.md").read_text()


def test_every_file_that_is_named_exists():
    named = re.findall(r"`((?:adapters|core|docs|tests)/[\w/.]*|pyproject\.toml)`", PAGE)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_name_is_one_of_the_code():
    names = set(re.findall(r"`(?:\w+\.)*([A-Za-z_]\w+)(?:\([^`]*\))?`", PAGE))
    code = "".join(
        path.read_text() for folder in ("adapters", "core", "tests") for path in (ROOT / folder).rglob("*.py")
    )
    assert len(names) > 20
    assert [name for name in names - {"to_x", "from_x"} if not re.search(rf"\b{name}\b", code)] == []


def test_the_row_is_that_of_the_registry():
    (row,) = re.findall(r"```python\n(Framework\(.*?\)),\n```", PAGE, re.DOTALL)
    assert eval(row, {"Framework": Framework}) == FRAMEWORKS["sb3"]
    registry = ast.parse((ROOT / "adapters" / "registry.py").read_text())
    assert ast.dump(ast.parse(row, mode="eval").body) in ast.dump(registry)
