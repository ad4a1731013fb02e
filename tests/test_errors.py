"""Each error and warning of the package can be rebuilt: from its message, as a copy, by pickle, by Ray."""

import ast
import copy
import importlib
import inspect
import pickle
import pkgutil
import re
import tomllib
import warnings
from importlib.metadata import metadata
from pathlib import Path

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envoi
import envoi.adapters
import envoi.integrations
from envoi.adapters.pettingzoo.names import FAMILIES

ROOT = Path(__file__).parents[1]
FIELDS = ("path", "field", "source", "target", "hint")


def subclasses(root):
    return {root}.union(*map(subclasses, root.__subclasses__()))


@pytest.fixture(scope="module")
def classes():
    """All exception classes of the package, warnings included."""
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the frameworks, about themselves
        for package in (envoi, envoi.adapters, envoi.integrations):  # which lie in folders of their own
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                try:
                    members = vars(importlib.import_module(module.name)).values()
                except ImportError:  # of a framework that is not installed
                    continue
                found |= {value for value in members if isinstance(value, type) and issubclass(value, BaseException)}
    found |= subclasses(envoi.EnvoiError)
    return sorted((cls for cls in found if cls.__module__.partition(".")[0] == "envoi"), key=lambda cls: cls.__name__)


def samples(cls):
    """An error made from a message, one made from all arguments, and one that has a note as well."""
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [p.name for p in inspect.signature(cls.__init__).parameters.values() if p.kind in by_name]
    parameters = [name for name in parameters if name != "self"]
    whole = cls(**{name: f"its {name}" for name in parameters}) if parameters else cls("a message")
    noted = copy.copy(whole)
    noted.add_note("while reading a file")
    return [cls("a message"), whole, noted]


def same(one, other):
    return all(of(one) == of(other) for of in (type, str, repr, vars, lambda error: error.args))


def test_the_classes_are_found(classes):
    names = {cls.__name__ for cls in classes}
    assert {"LossyConversion", "MissingBackend", "NarrowingWarning", "FolderTaken", "BadReply", "NotAvailable"} <= names


@pytest.mark.parametrize(
    "send",
    [
        copy.copy,
        copy.deepcopy,
        lambda error: pickle.loads(pickle.dumps(error)),
        lambda error: pickle.loads(pickle.dumps(error, protocol=0)),
        lambda error: cloudpickle.loads(cloudpickle.dumps(error)),
    ],
    ids=["copy", "deepcopy", "pickle", "pickle protocol 0", "cloudpickle"],
)
def test_each_error_survives_a_copy_and_a_message(classes, send):
    for cls in classes:
        for error in samples(cls):
            assert same(error, send(error))
            rebuilt = send(type(error)(message := f"{error} was raised from the creator"))
            assert (type(rebuilt), str(rebuilt), rebuilt.args) == (cls, message, (message,))
            assert repr(rebuilt) == f"{cls.__name__}({message!r})"


@given(st.tuples(*[st.text(min_size=1)] * 4), st.text())
def test_a_lossy_conversion_keeps_its_fields_and_shows_them_in_its_message(fields, hint):
    error = envoi.LossyConversion(*fields, hint)
    path, field, source, target = fields
    assert tuple(getattr(error, name) for name in FIELDS) == (*fields, hint)
    ending = f"; {hint}" if hint else ""
    assert str(error) == f"{path}: {target} cannot express its {field} ({source}){ending}"
    assert error.args == (str(error),)
    again = type(error)(str(error))
    assert str(again) == str(error)
    assert tuple(getattr(again, name) for name in FIELDS) == ("",) * 5


def test_every_install_hint_names_an_extra_that_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        "envoi": {*project["optional-dependencies"]},
        "gymnasium": {*metadata("gymnasium").get_all("Provides-Extra", [])},
        "pettingzoo": {*metadata("pettingzoo").get_all("Provides-Extra", [])},
    }
    filled = {
        "{self.extra}": {row.extra for row in envoi.adapters.FRAMEWORKS.values()} - {""},
        "{family}": {*FAMILIES} - {"mpe"},
    }
    hints = 0
    for path in (path for folder in ("core", "adapters", "integrations") for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        for package, extra in re.findall(r"pip install '([\w-]+)\[(.+?\]?)\]'", text):
            if extra.startswith("{_EXTRAS["):
                filled[extra] = {*ast.literal_eval(re.search(r"_EXTRAS = (\{.*?\})", text)[1]).values()}
            assert filled.get(extra, {extra}) - {"<extra>"} <= extras[package], (path, package, extra)
            hints += 1
        others = re.findall(r"pip install (?!')[^ ]*", text)
        assert not others or path.name in ("training.py", "configspace.py"), f"{path}: {others}"
    assert hints > 10
