"""`docs/fidelity.md` says what the tests say; its tables of losses are generated (`tests/test_docs.py`)."""

import ast
import re
from functools import cache
from pathlib import Path

from test_golden import SEVERAL, SINGLE

from envoi.adapters import TARGETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fidelity.md").read_text()


def held_by(row):
    return re.findall(r"(tests/[\w/]+\.py::\w+)", row)


def test_every_requirement_has_its_row():
    numbers = re.findall(r"^\| (\d+) \| ", PAGE, re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, 52))
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \| ", line)]
    assert all(held_by(row) for row in rows)


@cache
def functions(path):
    """The functions of a file of tests."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_exists():
    for name in held_by(PAGE):
        path, test = name.split("::")
        assert test in functions(path), name


def pairs():
    """The pairs of frameworks that the golden traces go through, as the page has them."""
    header = f"| from \\ to | {' | '.join(TARGETS)} |\n|---|{'---|' * len(TARGETS)}\n"
    rows = []
    for one in TARGETS:
        cells = []
        for other in TARGETS:
            said = ["1"] if one in SINGLE and other in SINGLE else []
            said += ["n"] if one in SEVERAL and other in SEVERAL else []
            cells.append(", ".join(said) or "no")
        rows.append(f"| {one} | {' | '.join(cells)} |\n")
    return header + "".join(rows)


def test_the_pairs_are_those_that_the_golden_traces_go_through():
    assert pairs() in PAGE, f"expected in docs/fidelity.md:\n\n{pairs()}"
