"""The source of a function, as it was imported: a file may have changed since."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType

from .errors import NotCompilable


def definition_of(function: FunctionType, place: str) -> tuple[ast.Module, ast.FunctionDef, str]:
    """Returns the definition of a function. Decorators that put another function in its place are part of that one.

    Args:
        function: The function.
        place: Its name, for messages.

    Returns:
        The module that has only this definition, the definition, with the lines of the file, and the file's name.

    Raises:
        NotCompilable: The source is not there, is not that of the function, or is no `def`.
    """
    code = function.__code__
    try:
        lines, first = inspect.getsourcelines(code)
        whole, _ = inspect.findsource(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        loaded = _codes("".join(whole), code.co_filename)
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise NotCompilable(f"{place}: its source cannot be read ({error})") from error
    if not any(_is_same(code, other) for other in loaded if other.co_name == code.co_name):
        raise NotCompilable(f"{place}: its source has changed since it was imported; import it again")
    definition = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(definition, ast.FunctionDef):
        raise NotCompilable(f"{place}: expected a function that is written by def")
    ast.increment_lineno(tree, first - 1)
    return tree, definition, inspect.getsourcefile(code) or "<source>"


@lru_cache(maxsize=16)
def _codes(text: str, file: str) -> list[CodeType]:
    """Returns the code of all functions of a file."""
    return [*_inside(compile(text, file, "exec", dont_inherit=True))]


def _inside(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _inside(const)


def _is_same(code: CodeType, other: CodeType) -> bool:
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_firstlineno")
    if any(getattr(code, name) != getattr(other, name) for name in names):
        return False
    pairs = list(zip(code.co_consts, other.co_consts, strict=False))
    return len(code.co_consts) == len(other.co_consts) and all(
        _is_same(one, two)
        if isinstance(one, CodeType) and isinstance(two, CodeType)
        else repr(one) == repr(two) or isinstance(one, frozenset)
        for one, two in pairs
    )
