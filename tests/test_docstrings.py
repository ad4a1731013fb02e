"""Exported functions and public methods of exported classes describe two or more parameters under `Args:`."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import is_dataclass

import pytest

import envoi
import envoi.adapters
import envoi.integrations

FEWEST = 2


def documented(docstring):
    """The parameters that the section `Args:` of a docstring names."""
    section = re.search(r"^( *)Args:\n((?:\1 +.*\n|\s*\n)*)", f"{docstring}\n", re.MULTILINE)
    entries = re.findall(r"^ *((?:\*{0,2}\w+(?:, )?)+):", section[2], re.MULTILINE) if section else []
    return {name.lstrip("*") for entry in entries for name in entry.split(", ")}


def functions(name, exported):
    """Yields `(name, function, docstring)` of an exported object, if it must have one itself."""
    if inspect.isfunction(exported):
        yield name, exported, exported.__doc__
    if not inspect.isclass(exported):
        return
    for attribute, value in vars(exported).items():
        method = getattr(value, "__func__", value)
        # Docstrings are inherited too; those of `Lifted` come from classes that are made later.
        inherited = issubclass(exported, envoi.Lifted) or any(attribute in vars(one) for one in exported.__mro__[1:-1])
        if attribute == "__init__" and inspect.isfunction(method) and not is_dataclass(exported):
            yield name, method, exported.__doc__
        elif inspect.isfunction(method) and attribute[0] != "_" and (method.__doc__ or not inherited):
            yield f"{name}.{attribute}", method, method.__doc__


def undocumented(names):
    """Yields the functions among exported objects that lack parameters in their docstrings, with these."""
    for name, exported in names.items():
        for title, function, docstring in functions(name, exported):
            parameters = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
            missing = [one for one in parameters if one not in documented(docstring or "")]
            if len(parameters) >= FEWEST and missing and parameters != ["given", "named"]:  # of any class
                yield title, missing


def packages():
    """The modules that users import: those of envoi, and those right below them."""
    for package in (envoi, envoi.adapters, envoi.integrations):
        yield package
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            try:
                yield importlib.import_module(module.name)
            except ImportError:  # of a framework that is not installed
                continue


@pytest.mark.filterwarnings("ignore")  # of the frameworks, about themselves
def test_arguments_are_documented():
    assert documented(envoi.batch.__doc__) >= {"env", "n"}
    found = {}
    for package in packages():
        names = {name: getattr(package, name) for name in getattr(package, "__all__", ())}
        found |= {f"{package.__name__}.{title}": missing for title, missing in undocumented(names)}
    assert found == {}
