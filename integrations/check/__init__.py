"""Checks of an environment: by its own API, in the form of each framework, and by the suites of the ecosystems.

    from envoi.integrations.check import check_env

    def test_my_env():
        check_env(make_env).raise_if_failed()

`envoi check NAME` does the same on the command line.
"""

from .report import Report
from .requirement import Requirement, Result
from .run_checks import REQUIREMENTS, check_env

__all__ = ["REQUIREMENTS", "Report", "Requirement", "Result", "check_env"]
