"""Checks an environment: by its own API, in the form of each framework, and with the suites of the ecosystems.

    from envoi.integrations.check import check_env

    def test_my_env():
        check_env(make_env).raise_if_failed()

`envoi check NAME` does the same on the command line.

The terms: a *driver* plays an environment by its own API and returns a *reply* to each call; a *transition* is one call
with its reply; a *rollout* is whole episodes, and *observers* see each transition; a *requirement* is checked on a
rollout, or by comparing traces, and the result of that is an *outcome*.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from envoi import EnvoiError, LossyConversion
from envoi.adapters import TARGETS
from envoi.adapters.registry import framework as framework_of

from ..errors import describe
from .drivers import NotAvailable
from .env_under_test import EnvUnderTest, Extent
from .report import ENV, REQUIREMENTS_OF, THEMES, Report
from .requirement import Outcome, Requirement, Result, Status, failed, skipped
from .requirements.forms import FORM_REQUIREMENTS, SUITES, FormUnderTest, captured_output, constructs, trace_comes_back
from .requirements.values import plays
from .transitions import global_generators_restored

__all__ = ["REQUIREMENTS", "Report", "Requirement", "Result", "check_env"]

REQUIREMENTS: tuple[Requirement, ...] = tuple(one for theme in REQUIREMENTS_OF.values() for one in theme)
"""The requirements on every environment."""

Progress = Callable[[str, str], None]
"""Called with the subject and the key before each check."""


def check_env(
    env: Any,
    *,
    frameworks: Iterable[str] | None = None,
    seed: int = 0,
    episodes: int = 3,
    steps: int = 1000,
    progress: Progress | None = None,
) -> Report:
    """Checks an environment through its own API, and in each framework's form.

        check_env(make_env).raise_if_failed()

    Prefer a function or a name: only these can make two environments that are independent of each other.

    Args:
        env: A function that makes an environment of any framework, a name for `envoi.adapters.load`, or an environment,
            whose copies are checked.
        frameworks: Names of the frameworks whose forms are checked; None for all that are installed; an empty list for
            the environment alone.
        seed: The check uses the seeds after this one, and 0.
        episodes: Episodes of each rollout.
        steps: The largest number of steps of an episode.
        progress: Called before each check, with its subject and key.

    Returns:
        The report; it prints as a table with reasons.

    Raises:
        envoi.EnvoiError: There is no such name or framework, a framework that was named is not installed, or no
            environment could be made.
    """
    names = [frameworks] if isinstance(frameworks, str) else frameworks
    chosen = TARGETS if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        if not framework_of(name).is_target:
            raise EnvoiError(f"{name}: envoi only imports from there; there are {', '.join(TARGETS)}")
        if frameworks is not None:  # a framework that is named must be installed
            framework_of(name).load()
    extent = Extent(_at_least("seed", seed, 0) + 1, _at_least("episodes", episodes, 1), _at_least("steps", steps, 1))
    began = time.perf_counter()
    with global_generators_restored(), captured_output():
        subject = EnvUnderTest.of(env, ENV, extent)
        checks = _Checks(subject, progress)
        try:
            checks.check_env_itself()
            for name in chosen:
                checks.check_form(FormUnderTest(name, subject))
        finally:
            subject.close()
    columns = (ENV, *(name for name in TARGETS if name in chosen))
    keys = tuple(key for keys in THEMES.values() for key in keys)
    seconds = time.perf_counter() - began
    results = tuple(checks.results)
    return Report(subject.title, subject.driver.api, results, columns, keys, seed, episodes, steps, seconds)


def _at_least(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EnvoiError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return value


class _Checks:
    """Checks an environment and its forms, and keeps the results in the order of the checks."""

    def __init__(self, env: EnvUnderTest, progress: Progress | None) -> None:
        self.results: list[Result] = []
        self._env, self._progress = env, progress
        self._statuses: dict[str, Status] = {}  # of the environment itself

    def check_env_itself(self) -> None:
        for requirement in REQUIREMENTS:
            if self._env.driver.kind in requirement.kinds:
                self._statuses[requirement.key] = self._check(ENV, requirement, self._env, self._statuses)

    def check_form(self, form: FormUnderTest) -> None:
        name, statuses = form.framework, self._statuses
        if self._check(name, constructs, form, statuses) != "passed":
            return
        broken = next((key for key, status in statuses.items() if status == "failed"), "")
        for requirement in FORM_REQUIREMENTS[1:]:
            # The round trip repairs or refuses some values.
            self._check(name, requirement, form, statuses, broken if requirement is trace_comes_back else "")
        self._check_form_by_its_api(form, broken)
        for suite in SUITES.get(name, ()):
            self._check(name, suite, form, statuses)

    def _check_form_by_its_api(self, form: FormUnderTest, broken: str) -> None:
        """Checks the requirements that a form could break although the environment meets them."""
        try:
            env = form.as_env_under_test()
            if env is None:
                return
            kind = env.driver.kind
        except Exception as error:
            if not broken:
                self._add(form.framework, plays, failed(describe(error)))
            return
        statuses = dict(self._statuses)
        try:
            for requirement in (one for one in REQUIREMENTS if one.on_forms and kind in one.kinds):
                # A violation by the environment itself is reported once; a form copies as well as its environment.
                own = statuses.get(requirement.key)
                if own == "failed" or (own == "remark" and requirement.key == "copies"):
                    self._add(env.name, requirement, skipped("see env"))
                    continue
                excuse = broken if requirement is plays else ""  # the form refused a value
                status = self._check(env.name, requirement, env, statuses, excuse)
                statuses[requirement.key] = "failed" if requirement is plays and status == "skipped" else status
        finally:
            env.close()

    def _check(
        self, subject: str, requirement: Requirement, given: Any, statuses: Mapping[str, Status], excuse: str = ""
    ) -> Status:
        """Runs one check. If it fails and `excuse` names another failure, the result is "skipped"."""
        if self._progress is not None:
            self._progress(subject, requirement.key)
        blocking = [key for key in requirement.needs if statuses.get(key) not in ("passed", "remark")]
        blocking += [key for key in requirement.unless if statuses.get(key) == "failed"]
        outcome = skipped(f"see {blocking[0]}") if blocking else _outcome(requirement, given, statuses)
        for env in (self._env, getattr(given, "env", given)):
            env.release()
        if outcome.status == "failed" and excuse:
            outcome = skipped(f"see {excuse}")
        return self._add(subject, requirement, outcome)

    def _add(self, subject: str, requirement: Requirement, outcome: Outcome) -> Status:
        key, sentence, contract = requirement.key, requirement.sentence, requirement.contract
        self.results.append(Result(subject, key, outcome.status, outcome.reason, sentence, contract, outcome.notes))
        return outcome.status


def _outcome(requirement: Requirement, given: Any, statuses: Mapping[str, Status]) -> Outcome:
    """Runs a check, and turns its errors into outcomes."""
    try:
        return requirement.check(given)
    except NotAvailable:
        return skipped("its API has no such feature")
    except LossyConversion as error:
        return Outcome("refused", str(error))
    except Exception as error:
        return skipped("see plays") if statuses.get("plays") == "failed" else failed(describe(error))
