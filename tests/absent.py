"""Frameworks that a test run does without, as the combinations of `make test-matrix` do.

The environment variable `TESTS_WITHOUT` names their modules. A test that needs one of them is skipped, and says which;
any other missing module stays an error, so that no framework drops out of the tests silently.
"""

import os
from importlib import import_module
from typing import Any

import pytest

ABSENT = frozenset(os.environ.get("TESTS_WITHOUT", "").split())


def absent(error: BaseException | None) -> str | None:
    """Returns the module that an import error, or the one that it was raised from, misses and the run does without."""
    while error is not None:
        missing = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ImportError) and missing in ABSENT:
            return missing
        error = error.__cause__
    return None


def optional(module: str, name: str) -> Any:
    """Returns an object of a module; where its framework is absent, a stand-in that skips the test which calls it."""
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        missing = absent(error)
        if missing is None:
            raise
        return type(name, (StandIn,), {"missing": missing})


def needs(module: str) -> pytest.MarkDecorator:
    """Returns the mark of a test that, without a module, gets an answer other than an import error."""
    return pytest.mark.skipif(module in ABSENT, reason=f"needs {module}")


class StandIn:
    """Skips the test that calls it or constructs a subclass of it."""

    missing: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        pytest.skip(f"needs {cls.missing}")


def is_absent(made: Any) -> bool:
    """Returns True for a stand-in."""
    return isinstance(made, type) and issubclass(made, StandIn)


# Pytest's hooks, for conftest.py.


class Module(pytest.Module):
    """A file of tests, skipped as a whole if its imports need what is absent."""

    def collect(self):
        try:
            return super().collect()
        except self.CollectError as error:
            missing = absent(error)
            if missing is None:
                raise
            pytest.skip(f"needs {missing}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return Module.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def skipped_without(item):
    try:
        return (yield)
    except Exception as error:  # gymnasium has an error of its own for it
        missing = absent(error)
        if missing is None:
            raise
        pytest.skip(f"needs {missing}")


pytest_runtest_setup = pytest_runtest_call = skipped_without
