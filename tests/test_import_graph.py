"""Modules import one another in one direction only, and so do packages."""

import ast
from functools import cache
from graphlib import TopologicalSorter

import pytest
from prose import FOLDERS, ROOT, python_files


@cache
def modules():
    """Returns the files of all modules, by the modules' names."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in python_files(folder):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def targets(name, path):
    """Yields what a module imports, as pairs of a module and a name in it; imports for type checkers excepted."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    waiting = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            yield from ((".".join(filter(None, (base, node.module))), alias.name) for alias in node.names)


@cache
def exported():
    """Returns the modules of the names that `envoi` exports."""
    init = ast.parse(modules()["envoi"].read_text())
    return {
        alias.name: f"envoi.{node.module}"
        for node in ast.walk(init)
        if isinstance(node, ast.ImportFrom) and node.module and node.level
        for alias in node.names
    }


@cache
def graph():
    """Returns for each module those of envoi's modules that it imports, inside of functions too."""
    found = {name: set() for name in modules()}
    for name, path in modules().items():
        for module, attribute in targets(name, path):
            if module == "envoi" and attribute in exported():
                module = exported()[attribute]
            elif f"{module}.{attribute}" in found:
                module = f"{module}.{attribute}"
            if module in found and module != name:
                found[name].add(module)
    return found


def room(name):
    """Returns the package of a module; the module itself if that package holds others."""
    package = name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]
    holds_packages = any(
        path.name == "__init__.py" and other.startswith(f"{package}.") for other, path in modules().items()
    )
    return name if holds_packages else package


def test_modules_and_packages_import_in_one_direction():
    rooms = {}
    for name, imported in graph().items():
        rooms.setdefault(room(name), set()).update({room(other) for other in imported} - {room(name)})
    assert len(rooms) > 30
    assert "envoi.protocol.env" in graph()["envoi.adapters.gymnasium.form"], "by way of `from envoi import Env`"
    for edges in (graph(), rooms):
        TopologicalSorter(edges).prepare()  # a CycleError shows the circle


@pytest.mark.parametrize("folder", ["core", "adapters"])
def test_a_folder_does_not_import_those_above(folder):
    order = list(FOLDERS.values())
    above = order[order.index(FOLDERS[folder]) + 1 :]
    inside = [name for name, path in modules().items() if path.is_relative_to(ROOT / folder)]
    assert not [(name, other) for name in inside for other in graph()[name] if other.startswith(tuple(above))]
