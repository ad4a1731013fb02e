"""Public functions and methods of two or more parameters describe each of them under `Args:`."""

import ast
import re

import pytest
from prose import held, python_files, relative

FOLDERS = ("core", "adapters", "integrations")
FEWEST = 2


def parameters(function, is_method):
    """The names of a function's parameters, without `self` or `cls`."""
    given = function.args
    first = [*given.posonlyargs, *given.args]
    if is_method and "staticmethod" not in decorators(function):
        first = first[1:]
    names = [*first, given.vararg, *given.kwonlyargs, given.kwarg]
    return [parameter.arg for parameter in names if parameter is not None]


def decorators(function):
    return {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}


def documented(docstring):
    """The parameters that the section `Args:` of a docstring names."""
    section = re.search(r"^( *)Args:\n((?:\1 +.*\n|\s*\n)*)", f"{docstring}\n", re.MULTILINE)
    entries = re.findall(r"^ *((?:\*{0,2}\w+(?:, )?)+):", section[2], re.MULTILINE) if section else []
    return {name.lstrip("*") for entry in entries for name in entry.split(", ")}


def bases(node, classes):
    """The classes above a class, where the repository defines them; the mere names of other libraries' classes."""
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
        if name not in classes:
            yield name
        for one in classes.get(name, ()):
            if one is not node:
                yield one
                yield from bases(one, classes)


PLAIN_BASES = {"object", "ABC", "Protocol", "Generic", "NamedTuple", "TypedDict", "Enum", "Exception"}


def is_inherited(name, node, classes):
    """True if a class above has a method of this name, whose docstring is then inherited."""
    for base in bases(node, classes):
        if isinstance(base, str):
            if base not in PLAIN_BASES:
                return True  # of a framework, which documents it
        elif any(isinstance(one, ast.FunctionDef) and one.name == name for one in base.body):
            return True
    return False


def exported(trees):
    """Returns the names in the `__all__` of the packages that users import."""
    found = set()
    for key, tree in trees.items():
        if key.count("/") == 1 or (key.count("/") == 2 and key.endswith("/__init__.py")):
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                    found.update(ast.literal_eval(node.value))
    return found


def undocumented(trees, names_of_users):
    """Yields `(key of the tree, line, function, undocumented parameters)` for each offence in several files."""
    classes = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)
    for key, tree in trees.items():
        for owner in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            is_class = isinstance(owner, ast.ClassDef)
            if is_class and owner.name not in names_of_users:
                continue
            for node in owner.body:
                if not isinstance(node, ast.FunctionDef) or "overload" in decorators(node):
                    continue
                if not is_class and node.name not in names_of_users:
                    continue
                names = parameters(node, is_class)
                docstring = ast.get_docstring(node, clean=False)
                is_constructor = is_class and node.name == "__init__"
                if is_constructor:
                    docstring = ast.get_docstring(owner, clean=False)
                elif node.name.startswith("_"):
                    continue
                if len(names) < FEWEST or (is_class and docstring is None and is_inherited(node.name, owner, classes)):
                    continue
                missing = [name for name in names if name not in documented(docstring or "")]
                if missing:
                    title = f"{owner.name}.{node.name}" if is_class else node.name
                    yield key, node.lineno, title, missing


def offences_by_file():
    found = {}
    trees = {relative(path): ast.parse(path.read_text()) for path in python_files(*FOLDERS)}
    for name, line, function, missing in undocumented(trees, exported(trees)):
        found.setdefault(name, []).append(f"{line}: {function}: Args lacks {', '.join(missing)}")
    return found


def test_arguments_are_documented():
    held(offences_by_file())


ADDS = '"""Adds.\n\n    Args:\n        a: One.\n    """'
ADDS_BOTH = '"""Adds.\n\n    Args:\n        a, *b: What to\n            add: numbers.\n    """'
RAISES = '"""Adds.\n\n    Args:\n        a: One.\n\n    Raises:\n        b: No argument.\n    """'


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("def f(a, b): ...", ["a", "b"]),
        (f"def f(a, b):\n    {ADDS}", ["b"]),
        (f"def f(a, b):\n    {RAISES}", ["b"]),
        (f"def f(a, *b):\n    {ADDS_BOTH}", []),
        ("def f(a): ...", []),
        ("def _f(a, b): ...", []),
        ("def g(a, b): ...", []),
        ("class G:\n    def f(self, a, b): ...", []),
        ("class A:\n    def f(self, a, *, b): ...", ["a", "b"]),
        ("class A:\n    def __init__(self, a, b): ...", ["a", "b"]),
        (f"class A:\n    {ADDS_BOTH}\n    def __init__(self, a, b): ...", []),
        ("class A(Other):\n    def f(self, a, b): ...", []),
        (f"class A(Other):\n    def f(self, a, b):\n        {RAISES}", ["b"]),
        ("class A(ABC):\n    def f(self, a, b): ...", ["a", "b"]),
        ("class A:\n    @overload\n    def f(self, a, b): ...", []),
        ("class A:\n    @classmethod\n    def f(cls, a): ...", []),
    ],
)
def test_undocumented_arguments_are_found(code, missing):
    assert [name for *_, names in undocumented({"file": ast.parse(code)}, {"f", "A"}) for name in names] == missing


def test_a_documented_base_speaks_for_its_subclass():
    above = f"class A(ABC):\n    def f(self, a, b):\n        {ADDS_BOTH}"
    below = "class B(A):\n    def f(self, a, b): ...\n    def g(self, a, b): ..."
    found = undocumented({"above": ast.parse(above), "below": ast.parse(below)}, {"A", "B"})
    assert [(key, title) for key, _, title, _ in found] == [("below", "B.g")]


def test_exports_of_packages_are_found():
    page = {"core/__init__.py": "__all__ = ['A']", "core/a/b.py": "__all__ = ['B']"}
    assert exported({key: ast.parse(code) for key, code in page.items()}) == {"A"}
