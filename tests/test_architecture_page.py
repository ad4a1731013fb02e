"""The page on architecture shows the packages that there are, and the source of a step as it is printed."""

import ast
import re
from pathlib import Path

import envoi
from envoi.adapters import registry

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PICTURE = re.search(r"```\n(.*?)```", PAGE, re.DOTALL)[1]
EXAMPLE, SOURCE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_all_packages_are_in_the_picture():
    shown, folder = {}, None
    for line in PICTURE.splitlines():
        first, _, packages = line[:15].strip(), line[15:], re.match(r" *((?:\w+  ?)*)", line[15:])[1].split()
        folder = first or folder
        if not line.startswith("─"):
            shown.setdefault(folder, []).extend(packages)
    for folder in ("core", "adapters", "integrations"):
        there = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
        assert sorted(shown[f"{folder}/"]) == sorted(there)


def test_the_source_on_the_page_is_that_of_its_example():
    names = {}
    exec(EXAMPLE, names)
    assert envoi.explain(names["form"]) == SOURCE.rstrip("\n") + "\n"


def test_files_and_names_on_the_page_exist():
    for path in re.findall(r"`((?:core|adapters)/[\w/]+\.py)`", PAGE):
        assert (ROOT / path).is_file(), path
    for file in re.findall(r"\]\(([\w.]+)\)", PAGE):
        assert (ROOT / "docs" / file).is_file(), file
    for kind in re.findall(r"`(\w+)\.step_parts`", PAGE):
        assert any(f"class {kind}(" in path.read_text() for path in ROOT.glob("[ac]*/**/*.py")), kind


def defined(path):
    """The functions and classes of a module, methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_each_hop_is_in_its_file():
    hops = re.findall(r"`([\w.]+)`\s+\(`((?:core|adapters)/[\w/]+\.py)`\)", PAGE)
    assert len(hops) >= 12
    assert [(name, path) for name, path in hops if name not in defined(ROOT / path)] == []


def test_each_framework_has_its_hops():
    rows = re.findall(r"^\| `(adapters/\w+)` \| (`.*) \|$", PAGE, re.MULTILINE)
    assert sorted(folder for folder, _ in rows) == sorted(f"adapters/{name}" for name in registry.TARGETS)
    for folder, cells in rows:
        there = set().union(*(defined(path) for path in (ROOT / folder).rglob("*.py")))
        assert set(re.findall(r"`([\w.]+)`", cells)) <= there, folder
