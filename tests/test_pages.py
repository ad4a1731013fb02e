"""Pages that name files, functions, tests and packages are true: each name exists, and each list is complete."""

import ast
import inspect
import re
from functools import cache
from itertools import pairwise

import pytest
from prose import FOLDERS, ROOT, python_files

import envoi
from envoi.adapters import FRAMEWORKS, TARGETS, Framework

DOCS = ROOT / "docs"


def page(name):
    return (DOCS / name).read_text()


@cache
def defined(path):
    """The functions and classes of a module, methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


# Adding a framework.

ADDING = page("adding_a_framework.md")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (ADDING, r"`((?:adapters|core|docs|tests)/[\w/.]*|pyproject\.toml)`"),
        (page("architecture.md"), r"`((?:core|adapters)/[\w/]+\.py)`"),
        (page("architecture.md"), r"\]\(([\w.]+)\)"),
    ],
)
def test_every_file_that_is_named_exists(text, pattern):
    named = re.findall(pattern, text)
    assert named
    assert [path for path in named if not (ROOT / path).exists() and not (DOCS / path).exists()] == []


def test_every_name_is_one_of_the_code():
    names = set(re.findall(r"`(?:\w+\.)*([A-Za-z_]\w+)(?:\([^`]*\))?`", ADDING))
    code = "".join(path.read_text() for path in python_files("adapters", "core", "tests"))
    assert len(names) > 20
    assert [name for name in names - {"to_x", "from_x"} if not re.search(rf"\b{name}\b", code)] == []


def test_the_row_is_that_of_the_registry():
    (row,) = re.findall(r"```python\n(Framework\(.*?\)),\n```", ADDING, re.DOTALL)
    assert eval(row, {"Framework": Framework}) == FRAMEWORKS["sb3"]
    registry = ast.parse((ROOT / "adapters" / "registry.py").read_text())
    assert ast.dump(ast.parse(row, mode="eval").body) in ast.dump(registry)


# Architecture.

ARCHITECTURE = page("architecture.md")


def test_all_packages_are_in_the_picture():
    shown, folder = {}, None
    for line in re.search(r"```\n(.*?)```", ARCHITECTURE, re.DOTALL)[1].splitlines():
        first, _, packages = line[:15].strip(), line[15:], re.match(r" *((?:\w+  ?)*)", line[15:])[1].split()
        folder = first or folder
        if not line.startswith("─"):
            shown.setdefault(folder, []).extend(packages)
    for folder in FOLDERS:
        there = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
        assert sorted(shown[f"{folder}/"]) == sorted(there)


def test_the_source_on_the_page_is_printed():
    example, source = re.findall(r"```python\n(.*?)```", ARCHITECTURE, re.DOTALL)
    names = {}
    exec(example, names)
    assert envoi.explain(names["form"]) == source.rstrip("\n") + "\n"


def test_each_hop_is_in_its_file():
    hops = re.findall(r"`([\w.]+)`\s+\(`((?:core|adapters)/[\w/]+\.py)`\)", ARCHITECTURE)
    assert len(hops) >= 12
    assert [(name, path) for name, path in hops if name not in defined(ROOT / path)] == []
    kinds = re.findall(r"`(\w+)\.step_program`", ARCHITECTURE)
    assert len(kinds) >= 4
    for kind in kinds:
        assert any(kind in defined(path) for path in python_files("core", "adapters")), kind


def test_each_framework_has_its_hops():
    rows = re.findall(r"^\| `(adapters/\w+)` \| (`.*) \|$", ARCHITECTURE, re.MULTILINE)
    assert sorted(folder for folder, _ in rows) == sorted(f"adapters/{name}" for name in TARGETS)
    for folder, cells in rows:
        files = python_files(folder.removesuffix("_aec"))  # which has the classes of both APIs
        assert set(re.findall(r"`([\w.]+)`", cells)) <= set().union(*map(defined, files)), folder


# Coming from other libraries.

PAGES = {path.stem: path.read_text() for path in (DOCS / "coming_from").glob("*.md")}
HELD = ("carl", "qgym", "tf_agents", "gridverse")
"""The pages of libraries whose features have counterparts, each held by a test."""


def test_every_test_that_is_named_exists():
    named = [found for text in PAGES.values() for found in re.findall(r"(tests/[\w/]+\.py)::(\w+)", text)]
    assert len(named) > 50
    assert [f"{path}::{test}" for path, test in named if test not in defined(ROOT / path)] == []


def test_every_row_is_held_by_a_test():
    lines = [line for name in HELD for line in PAGES[name].splitlines()]
    rows = [line for before, line in pairwise(lines) if line.startswith("| ") and before]
    assert len(rows) > 40
    assert [row for row in rows if not re.search(r"<!-- tests/[\w/]+\.py::\w+.* --> \|$", row)] == []


def test_every_page_has_its_three_parts():
    for name in PAGES.keys() - {"index"}:
        headings = re.findall(r"^## (?!From nothing).*$", PAGES[name], re.MULTILINE)
        assert headings[:3] == ["## What you had", "## What you write now", "## What differs on purpose"], name
        assert f"]({name}.md)" in PAGES["index"]


def test_every_option_of_carls_wrapper_is_there():
    options = re.findall(r"^\| `(\w+)` \|", PAGES["carl"], re.MULTILINE)
    parameters = inspect.signature(envoi.Contextual.__init__).parameters
    assert [name for name in options if name not in parameters] == ["build_observation_space"]
    assert callable(envoi.Contextual.build_observation_space)


# Names.

ESSENTIAL, OTHERS = (
    [(first, re.findall(r"`(\w+)`", names)) for first, names in re.findall(r"^\| (.+?) \| (`.*`) \|$", part, re.M)]
    for part in page("names.md").split("## The others, by package")
)
"""The rows of both tables: the first cell, and the names of the second."""


def test_each_name_is_listed_once():
    assert sorted(name for _, names in (*ESSENTIAL, *OTHERS) for name in names) == envoi.__all__


def test_essential_names_are_those_of_dir():
    names = [name for _, names in ESSENTIAL for name in names]
    assert len(names) <= 45
    assert sorted({*dir(envoi)} - {"context", "curricula", "models", "wrappers", "__doc__", "__version__"}) == sorted(
        names
    )


def test_each_other_name_is_of_its_package():
    for package, names in OTHERS:
        for name in names:
            assert f"{getattr(envoi, name).__module__}.".startswith(f"{package.strip('`')}."), name


# Writing a wrapper.

WRAPPERS = page("writing_a_wrapper.md")


def test_the_code_about_wrappers_runs():
    names = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", WRAPPERS, re.DOTALL):
        exec(compile(block, "writing_a_wrapper.md", "exec"), names)
    assert names["one"] == [0.9, 1, 0.9]
    assert names["three"] == [1, 0.9, 0.9]
    assert list(names["many"]) == list(names["agents"].possible_agents)


def test_the_table_has_every_wrapper():
    kinds = [getattr(envoi, name) for name in envoi.__all__]
    lifted = [kind.__name__ for kind in kinds if inspect.isclass(kind) and issubclass(kind, envoi.Lifted)]
    assert re.findall(r"^\| `(\w+)` \| ", WRAPPERS, re.MULTILINE) == sorted({*lifted} - {"Lifted"})
