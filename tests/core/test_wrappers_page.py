"""The page on wrappers: its code runs, and its table is true."""

import ast
import importlib
import inspect
import io
import re
import tokenize
from pathlib import Path

import envoi

PAGE = (Path(__file__).parents[2] / "docs" / "writing_a_wrapper.md").read_text()
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(kind):
    """The lines of a class and of the functions private to it, or of its package: no docstrings, no comments."""
    module = importlib.import_module(kind.__module__)
    if module.__package__ == envoi.wrappers.__name__:
        return lines_of(inspect.getsource(module), kind.__name__)
    return sum(lines_of(path.read_text()) for path in Path(module.__file__).parent.glob("*.py"))


def lines_of(source, name=None):
    """The lines of one class of a module and of what is private to it, or of all classes and functions."""
    module = ast.parse(source)
    defined = {node.name: node for node in module.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    used, found = set(), list(defined) if name is None else [name]
    while found:
        name = found.pop()
        used.add(name)
        names = {node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)}
        found += [other for other in names if other in defined and other.startswith("_") and other not in used]
    documents = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documents.update(range(node.lineno, node.end_lineno + 1))
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    own = {line for name in used for line in range(defined[name].lineno, defined[name].end_lineno + 1)}
    return len((own & code) - documents)


def test_the_code_of_the_page_runs():
    names = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "writing_a_wrapper.md", "exec"), names)
    assert names["one"] == [0.9, 1, 0.9]
    assert names["three"] == [1, 0.9, 0.9]
    assert list(names["many"]) == list(names["agents"].possible_agents)


def test_the_table_has_every_wrapper_with_its_lines():
    named = dict(re.findall(r"^\| `(\w+)` \| (\d+) \| ", PAGE, re.MULTILINE))
    kinds = {name: getattr(envoi, name) for name in envoi.__all__}
    ours = {
        name: str(lines_of_code(kind))
        for name, kind in kinds.items()
        if inspect.isclass(kind) and issubclass(kind, envoi.Lifted) and kind is not envoi.Lifted
    }
    assert named == ours
