"""The whole check: the environment itself, its forms, and the suites on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from envoi import EnvoiError, LossyConversion
from envoi.adapters import TARGETS
from envoi.adapters.registry import framework as framework_of

from ..errors import describe
from . import suites
from .drivers.core import NothingThere
from .env_factory import first, making
from .env_under_test import Extent, Subject
from .report import ENV, Report
from .requirement import Found, Requirement, Result, Status, skipped
from .requirements.agents import AGENTS
from .requirements.episodes import LIFECYCLE
from .requirements.forms import FORM_KEYS, FormCheck
from .requirements.lanes import LANE_REQUIREMENTS
from .requirements.randomness import RANDOMNESS
from .requirements.values import VALUES
from .rollout import generators_kept

REQUIREMENTS: tuple[Requirement, ...] = (*VALUES, *AGENTS, *RANDOMNESS, *LIFECYCLE, *LANE_REQUIREMENTS)
"""What is required of every environment."""

Progress = Callable[[str, str], None]
"""Is told the subject and the key before each check."""


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

    A function or a name is best: only then can two environments be built independently of each other.

    Args:
        env: A function that makes an environment of any framework, a name for `envoi.adapters.load`, or an environment,
            of which copies are checked.
        frameworks: Whose forms; None for all, as far as they are installed; an empty list for the environment alone.
        seed: The seeds that are used are those that follow it; 0 is tried by itself.
        episodes: How many episodes are played each time.
        steps: The most steps of an episode.
        progress: Is told the subject and the key before each check.

    Returns:
        The report; it prints as a table with reasons.

    Raises:
        envoi.EnvoiError: There is no such name or framework, one that was named is not installed, or no environment
            is made.
    """
    names = [frameworks] if isinstance(frameworks, str) else frameworks
    chosen = TARGETS if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        if not framework_of(name).is_target:
            raise EnvoiError(f"{name}: environments come from there only; there are {', '.join(TARGETS)}")
        if frameworks is not None:  # what is asked for by name must be there
            framework_of(name).load()
    extent = Extent(_least("seed", seed, 0) + 1, _least("episodes", episodes, 1), _least("steps", steps, 1))
    began = time.perf_counter()
    tell = progress or (lambda subject, key: None)
    with generators_kept(), suites.hushed():
        made = making(env)
        subject = Subject(ENV, made.make, extent, made.independent, made.origin)
        subject.hand = first(made)
        try:
            results = list(_of_env(subject, tell))
            statuses: dict[str, Status] = {result.key: result.status for result in results}
            for name in chosen:
                results.extend(_of_form(name, subject, statuses, tell))
        finally:
            subject.close()
        api = subject.hand.api
    columns = (ENV, *(name for name in TARGETS if name in chosen))
    keys = (*(one.key for one in REQUIREMENTS), *FORM_KEYS, *(suite.key for suite in suites.SUITES))
    seconds = time.perf_counter() - began
    return Report(made.name, api, tuple(results), columns, keys, seed, episodes, steps, seconds)


def _least(what: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EnvoiError(f"{what}: expected an integer of at least {least}, got {value!r}")
    return value


def _of_env(subject: Subject, tell: Progress) -> Iterator[Result]:
    statuses: dict[str, Status] = {}
    for requirement in REQUIREMENTS:
        if subject.hand.kind in requirement.kinds:
            tell(subject.name, requirement.key)
            result = _checked(requirement, subject, statuses)
            statuses[requirement.key] = result.status
            yield result


def _checked(requirement: Requirement, subject: Subject, statuses: dict[str, Status]) -> Result:
    unmet = [key for key in requirement.needs if statuses.get(key) not in ("passed", "remark")]
    unmet += [key for key in requirement.unless if statuses.get(key) == "failed"]
    found = skipped(f"see {unmet[0]}") if unmet else _found(requirement.check, subject, statuses)
    return _result(subject.name, requirement.key, found, requirement.sentence, requirement.contract)


def _found(check: Callable[..., Found], subject: Subject, statuses: dict[str, Status]) -> Found:
    try:
        return check(subject)
    except NothingThere:
        return skipped("there is no such thing")
    except LossyConversion as error:
        return Found("refused", str(error))
    except Exception as error:
        if statuses.get("plays") == "failed":
            return skipped("see plays")
        return Found("failed", describe(error))


def _result(
    subject: str, key: str, found: Found, sentence: str, contract: tuple[int, ...] = (), notes: Sequence[str] = ()
) -> Result:
    return Result(subject, key, found.status, found.reason, sentence, contract, tuple(notes))


def _of_form(name: str, subject: Subject, statuses: dict[str, Status], tell: Progress) -> Iterator[Result]:
    form = FormCheck(name, subject, dict(statuses))

    def made(key: str, check: Callable[[], Found]) -> Result:
        tell(name, key)
        found = _found(lambda _: check(), subject, statuses)
        broken = [own for own, status in statuses.items() if status == "failed"]
        if found.status == "failed" and key == "trace-comes-back" and broken:
            found = skipped(f"see {broken[0]}")  # of what came back, something was repaired or refused on its way
        return _result(name, key, found, *FORM_KEYS[key])

    constructs = made("constructs", form.constructs)
    yield constructs
    if constructs.status != "passed":
        return
    yield made("loses-nothing", form.loses_nothing)
    yield made("specs-come-back", form.specs_come_back)
    yield made("trace-comes-back", form.trace_comes_back)
    yield from _by_its_api(form, statuses, tell)
    yield from _suites(form, subject, tell)


def _by_its_api(form: FormCheck, statuses: dict[str, Status], tell: Progress) -> Iterator[Result]:
    """The requirements that a form could break though the environment keeps them, by the framework's own API."""
    try:
        there = form.as_subject()
        if there is None:
            return
        kind = there.hand.kind
    except Exception as error:
        if not any(status == "failed" for status in statuses.values()):
            yield _result(form.framework, "plays", Found("failed", describe(error)), VALUES[0].sentence)
        return
    there_statuses: dict[str, Status] = {}
    broken = [key for key, status in statuses.items() if status == "failed"]
    try:
        for requirement in REQUIREMENTS:
            if not requirement.on_forms or kind not in requirement.kinds:
                continue
            tell(there.name, requirement.key)
            # What the environment breaks itself is told of once; a form copies as well as what is in it.
            own = statuses.get(requirement.key)
            if own == "failed" or (own == "remark" and requirement.key == "copies"):
                found = skipped("see env")
                result = _result(there.name, requirement.key, found, requirement.sentence, requirement.contract)
            else:
                result = _checked(requirement, there, {**statuses, **there_statuses, **dict.fromkeys(broken, "failed")})
                if result.status == "failed" and result.key == "plays" and broken:
                    result = replace(result, status="skipped", reason=f"see {broken[0]}")  # refused on its way
                    broken.append("plays")
            there_statuses[requirement.key] = result.status
            yield result
    finally:
        there.close()


def _suites(form: FormCheck, subject: Subject, tell: Progress) -> Iterator[Result]:
    looked_at = suites.Forms(form.make, lambda other: FormCheck(other, subject, {}).make(), subject)
    for suite in suites.SUITES:
        if suite.framework != form.framework:
            continue
        tell(form.framework, suite.key)
        found, notes = suites.run(suite, looked_at)
        yield _result(form.framework, suite.key, found, f"{suite.name} finds nothing.", (), notes)
