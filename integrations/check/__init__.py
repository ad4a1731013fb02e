"""Checks an environment: by its own API, in the form of each framework, and with the suites of the ecosystems.

    from envoi.integrations.check import check_env

    def test_my_env():
        check_env(make_env).raise_if_failed()

`envoi check NAME` does the same on the command line.

The terms: a *driver* plays an environment by its own API and returns a *reply* to each call; a *transition* is one call
with its reply; a *rollout* is whole episodes, of which *observers* see each transition; a *requirement* is checked on a
rollout, or on traces that are compared, with an *outcome*.
"""

from .report import Report
from .requirement import Requirement, Result
from .run_checks import REQUIREMENTS, check_env

__all__ = ["REQUIREMENTS", "Report", "Requirement", "Result", "check_env"]
