"""Settings of all tests."""

import signal
import warnings
from contextlib import suppress
from pathlib import Path

from absent import pytest_pycollect_makemodule, pytest_runtest_call, pytest_runtest_setup  # noqa: F401
from depth import LONGEST
from hypothesis import settings

with warnings.catch_warnings(), suppress(ImportError):
    # Raised as errors, the warnings of SWIG's own types end the process; they come with the first import only.
    warnings.simplefilter("ignore")
    import Box2D  # noqa: F401

TESTS = Path(__file__).parent

# The machines that run the tests are shared: a slow example is no failure.
# A change is tried with the same examples everywhere: few of them in the profile "quick", and all in "full". "search"
# has new ones in every run. Tests that need another number ask `depth.examples` for it.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("full", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("quick")


def pytest_collection_modifyitems(items):
    """Puts the longest files first."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


# A shell starts background jobs with Ctrl-C ignored, and so do their children.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
