"""Settings of all tests."""

import signal
import warnings
from contextlib import suppress

from hypothesis import settings

with warnings.catch_warnings(), suppress(ImportError):
    # Raised as errors, the warnings of SWIG's own types end the process; they come with the first import only.
    warnings.simplefilter("ignore")
    import Box2D  # noqa: F401

# The machines that run the tests are shared: a slow example is no failure.
settings.register_profile("full", deadline=None)
# The same few examples in every run; tests that need more ask `depth.examples` for them.
settings.register_profile("quick", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("quick")


def pytest_collection_modifyitems(items):
    """The longest files come first, so that no process is left with one of them at the end."""
    longest = ("test_train.py", "test_interruption.py", "test_damaged.py", "test_examples.py", "test_evaluation.py")
    items.sort(key=lambda item: longest.index(item.path.name) if item.path.name in longest else len(longest))


# A shell starts background jobs with Ctrl-C ignored, and so do their children.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
