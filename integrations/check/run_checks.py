"""Checks an environment: the environment itself, its form in each framework, and the suites on the forms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envoi import EnvoiError, LossyConversion
from envoi.adapters import TARGETS
from envoi.adapters.registry import framework as framework_of

from ..errors import describe
from .drivers.base import NotAvailable
from .env_under_test import EnvUnderTest, Extent, env_factory
from .report import ENV, Report
from .requirement import Outcome, Requirement, Result, Status, skipped
from .requirements import REQUIREMENTS_OF
from .requirements.forms import FORM_REQUIREMENTS, FormUnderTest
from .requirements.values import plays
from .suites import SUITES, SuiteInput, captured_output, run_suite
from .transitions import global_generators_restored

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
    """Checks an environment: by its own API, and in the form of each framework.

        check_env(make_env).raise_if_failed()

    Prefer a function or a name: only these can make two environments that are independent of each other.

    Args:
        env: A function that makes an environment of any framework, a name for `envoi.adapters.load`, or an environment,
            of which copies are checked.
        frameworks: Names of the frameworks whose forms are checked; None for all that are installed; an empty list for
            the environment alone.
        seed: The check uses the seeds after this one, and 0.
        episodes: Episodes of each rollout.
        steps: Most steps of an episode.
        progress: Called with the subject and the key before each check.

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
    show = progress or (lambda subject, key: None)
    with global_generators_restored(), captured_output():
        factory = env_factory(env)
        subject = EnvUnderTest(
            ENV, factory.make, extent, factory.independent, factory.origin, first=factory.make_first()
        )
        try:
            results = list(_check_env_itself(subject, show))
            statuses: dict[str, Status] = {result.key: result.status for result in results}
            for name in chosen:
                results.extend(_check_form(name, subject, statuses, show))
        finally:
            subject.close()
        api = subject.driver.api
    columns = (ENV, *(name for name in TARGETS if name in chosen))
    keys = (*(one.key for one in REQUIREMENTS), *FORM_REQUIREMENTS, *(suite.key for suite in SUITES))
    seconds = time.perf_counter() - began
    return Report(factory.name, api, tuple(results), columns, keys, seed, episodes, steps, seconds)


def _at_least(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EnvoiError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return value


def _check_env_itself(env: EnvUnderTest, show: Progress) -> Iterator[Result]:
    statuses: dict[str, Status] = {}
    for requirement in REQUIREMENTS:
        if env.driver.kind in requirement.kinds:
            show(env.name, requirement.key)
            result = _check(requirement, env, statuses)
            statuses[requirement.key] = result.status
            yield result


def _check(requirement: Requirement, env: EnvUnderTest, statuses: Mapping[str, Status]) -> Result:
    blocking = [key for key in requirement.needs if statuses.get(key) not in ("passed", "remark")]
    blocking += [key for key in requirement.unless if statuses.get(key) == "failed"]
    if blocking:
        outcome = skipped(f"see {blocking[0]}")
    else:
        outcome = _outcome(lambda: requirement.check(env), statuses)
    return _result(env.name, requirement.key, outcome, requirement.sentence, requirement.contract)


def _outcome(check: Callable[[], Outcome], statuses: Mapping[str, Status]) -> Outcome:
    """Runs a check, and turns its errors into outcomes."""
    try:
        return check()
    except NotAvailable:
        return skipped("its API has no such feature")
    except LossyConversion as error:
        return Outcome("refused", str(error))
    except Exception as error:
        if statuses.get("plays") == "failed":
            return skipped("see plays")
        return Outcome("failed", describe(error))


def _result(
    subject: str, key: str, outcome: Outcome, sentence: str, contract: tuple[int, ...] = (), notes: Sequence[str] = ()
) -> Result:
    return Result(subject, key, outcome.status, outcome.reason, sentence, contract, tuple(notes))


def _check_form(name: str, env: EnvUnderTest, statuses: Mapping[str, Status], show: Progress) -> Iterator[Result]:
    form = FormUnderTest(name, env, statuses)

    def result(key: str, check: Callable[[], Outcome]) -> Result:
        show(name, key)
        outcome = _outcome(check, statuses)
        broken = [own for own, status in statuses.items() if status == "failed"]
        if outcome.status == "failed" and key == "trace-comes-back" and broken:
            outcome = skipped(f"see {broken[0]}")  # the round trip repairs or refuses some values
        return _result(name, key, outcome, *FORM_REQUIREMENTS[key])

    constructs = result("constructs", form.constructs)
    yield constructs
    if constructs.status != "passed":
        return
    yield result("loses-nothing", form.loses_nothing)
    yield result("specs-come-back", form.specs_come_back)
    yield result("trace-comes-back", form.trace_comes_back)
    yield from _check_form_by_its_api(form, statuses, show)
    yield from _run_suites(form, env, show)


def _check_form_by_its_api(form: FormUnderTest, statuses: Mapping[str, Status], show: Progress) -> Iterator[Result]:
    """Checks the requirements that a form could break although the environment meets them."""
    broken = [key for key, status in statuses.items() if status == "failed"]
    try:
        env = form.as_env_under_test()
        if env is None:
            return
        kind = env.driver.kind
    except Exception as error:
        if not broken:
            yield _result(form.framework, "plays", Outcome("failed", describe(error)), plays.sentence)
        return
    form_statuses: dict[str, Status] = {}
    try:
        for requirement in REQUIREMENTS:
            if not requirement.on_forms or kind not in requirement.kinds:
                continue
            show(env.name, requirement.key)
            # A violation by the environment itself is reported once; a form copies as well as its environment.
            own = statuses.get(requirement.key)
            if own == "failed" or (own == "remark" and requirement.key == "copies"):
                outcome = skipped("see env")
                result = _result(env.name, requirement.key, outcome, requirement.sentence, requirement.contract)
            else:
                known: dict[str, Status] = {**statuses, **form_statuses, **dict.fromkeys(broken, "failed")}
                result = _check(requirement, env, known)
                if result.status == "failed" and result.key == "plays" and broken:
                    result = replace(result, status="skipped", reason=f"see {broken[0]}")  # the form refused a value
                    broken.append("plays")
            form_statuses[requirement.key] = result.status
            yield result
    finally:
        env.close()


def _run_suites(form: FormUnderTest, env: EnvUnderTest, show: Progress) -> Iterator[Result]:
    given = SuiteInput(form.make, lambda other: FormUnderTest(other, env, {}).make(), env)
    for suite in SUITES:
        if suite.framework != form.framework:
            continue
        show(form.framework, suite.key)
        outcome, notes = run_suite(suite, given)
        yield _result(form.framework, suite.key, outcome, f"{suite.name} reports no error.", (), notes)
