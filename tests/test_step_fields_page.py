"""The page on a further field of `Step` lists every function that spells out the values of a step."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "step_fields.md").read_text()
MAKERS = {"Step", "MultiStep", "make_step", "make_batch_step", "make_multi_step"}


def name_of(node):
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def spells_out(node):
    """Returns True for a tuple with the values of a step, a call that makes one, and a function that has its lines."""
    if isinstance(node, ast.Tuple):
        return len(node.elts) >= 6 and {"terminated", "truncated"} <= {name_of(value) for value in node.elts}
    if isinstance(node, ast.Call):
        made = name_of(node.func) in MAKERS and bool(node.args)
        return made and (len(node.args) > 4 or isinstance(node.args[0], ast.Tuple))
    if isinstance(node, ast.FunctionDef) and node.name in ("step_parts", "_part"):
        return any(isinstance(part, ast.Call) and name_of(part.func) == "Part" for part in ast.walk(node))
    return False


def places(code):
    """The functions of a module that spell out the values of a step, in their order."""
    found = {}

    def search(node, inside):
        for child in ast.iter_child_nodes(node):
            within = [*inside, child.name] if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else inside
            if spells_out(child) and within:
                found[".".join(within)] = None
            search(child, within)

    search(ast.parse(code), [])
    return [*found]


def rows():
    for folder in ("core", "adapters", "integrations"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if functions := places(path.read_text()):
                names = ", ".join(f"`{name}`" for name in functions)
                yield f"| `{path.relative_to(ROOT).as_posix()}` | {names} |"


def test_the_page_lists_every_place():
    expected = [*rows()]
    assert re.findall(r"^\| `.*\.py` \|.*$", PAGE, re.MULTILINE) == expected, "\n" + "\n".join(expected)


def test_places_are_found():
    assert places("def f(a):\n    observation, reward, terminated, truncated, discount, info = a") == ["f"]
    assert places("class A:\n    def f(self):\n        return Step(1, 2, 3, 4, 5, 6)") == ["A.f"]
    assert places("def f(a):\n    return make_step((a, *b))") == ["f"]
    assert places("class A:\n    def step_parts(self):\n        return (Part('x'),)") == ["A.step_parts"]
    assert places("def f(a):\n    terminated, truncated = a\n    return Step(*a)") == []
