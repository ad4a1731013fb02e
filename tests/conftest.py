"""Settings of all tests."""

import warnings
from contextlib import suppress

from hypothesis import settings

with warnings.catch_warnings(), suppress(ImportError):
    # Raised as errors, the warnings of SWIG's own types end the process; they come with the first import only.
    warnings.simplefilter("ignore")
    import Box2D  # noqa: F401

# The machines that run the tests are shared: a slow example is no failure.
settings.register_profile("envoi", deadline=None)
settings.load_profile("envoi")
