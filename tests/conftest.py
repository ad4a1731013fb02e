"""Settings of all tests."""

from hypothesis import settings

# The machines that run the tests are shared: a slow example is no failure.
settings.register_profile("envoi", deadline=None)
settings.load_profile("envoi")
