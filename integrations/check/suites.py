"""The test suites of the ecosystems, run on the forms of the environment; their output and warnings are captured.

PettingZoo's `render_test` opens windows, and its `max_cycles_test` needs a module of PettingZoo: both are left out.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, MultiEnv, sample
from envoi.protocol.multi_env import MASK

from .env_under_test import EnvUnderTest
from .requirement import PASSED, Outcome, failed, skipped

CYCLES = 100
"""Most steps of PettingZoo's suites."""
LONGEST = 2000
"""Most actions in the sequence that dm_env's suite plays to the end of an episode."""


class NotApplicable(Exception):
    """A suite does not apply to such environments."""


@dataclass(frozen=True)
class SuiteInput:
    """The input of a suite.

    Attributes:
        make: Makes a form of a new environment.
        make_other: Makes the form of another framework, by its name.
        env: The environment itself.
    """

    make: Callable[[], Any]
    make_other: Callable[[str], Any]
    env: EnvUnderTest


@dataclass(frozen=True)
class Suite:
    """A suite of an ecosystem.

    Attributes:
        key: Its key in reports.
        name: Its name in its ecosystem.
        framework: The framework whose form it tests.
        package: The package that must be installed.
        run: Runs it; a failure is an error that it raises.
        masks: `"known"` if it obeys action masks, `"observed"` if only those in observations, `"ignored"` if none.
    """

    key: str
    name: str
    framework: str
    package: str
    run: Callable[[SuiteInput], None]
    masks: Literal["known", "observed", "ignored"] = "known"


@contextlib.contextmanager
def captured_output() -> Iterator[list[str]]:
    """Discards output and captures warnings; the messages are there at the end."""
    captured: list[str] = []
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield captured
        finally:
            messages = (" ".join(_plain(str(one.message)).split()) for one in recorded)
            captured += dict.fromkeys(messages)


def _plain(text: str) -> str:
    """Returns a message without the colour codes of a terminal."""
    for code in ("\x1b[33m", "\x1b[31m", "\x1b[0m"):
        text = text.replace(code, "")
    return text


def run_suite(suite: Suite, given: SuiteInput) -> tuple[Outcome, tuple[str, ...]]:
    """Runs a suite."""
    if find_spec(suite.package) is None:
        return Outcome("not installed", f"{suite.package} is not installed"), ()
    with captured_output() as captured:
        try:
            suite.run(given)
            outcome = PASSED
        except NotApplicable as reason:
            outcome = skipped(str(reason))
        except Exception as error:
            limit = _limitation(suite, given, error)
            outcome = Outcome("refused", limit) if limit else failed(f"{suite.name}: {_message(error)}")
    if suite.key == "suite-sb3" and outcome.status == "failed":
        limits = [note for note in captured if "not supported by Stable" in note or "should start at" in note]
        outcome = Outcome("refused", limits[0]) if limits else outcome
    return outcome, tuple(captured)


def _limitation(suite: Suite, given: SuiteInput, error: Exception) -> str:
    """Returns the limitation of a suite that explains its error; empty where there is none."""
    text = str(error)
    if suite.masks != "known" and given.env.rollout.error is None and _has_masks(given, suite.masks == "observed"):
        return f"{suite.name} takes actions that the masks forbid, and so raises: {_message(error)}"
    if isinstance(error, ValueError) and "truth value of an array" in text and suite.framework == "gymnasium":
        return f"{suite.name} compares the states of generators, and supports only PCG64"
    specs = given.env.driver.observation_specs.values()
    if "has no attribute 'dtype'" in text and not all(_is_arrays(spec) for spec in specs):
        return f"{suite.name} supports only observations of arrays, and dicts of them"
    return ""


def _is_arrays(spec: Any) -> bool:
    if isinstance(spec, dict):
        return all(map(_is_arrays, spec.values()))
    return isinstance(spec, (Array, Discrete, MultiBinary, MultiDiscrete))


def _message(error: BaseException) -> str:
    """Returns the message of a suite's error, as one line."""
    text = " ".join(_plain(str(error)).split())
    if isinstance(error, AssertionError):
        frames = traceback.extract_tb(error.__traceback__)
        return text or (f"`{frames[-1].line}` does not hold" if frames else "an assertion does not hold")
    return f"{type(error).__name__}: {text}"


# The suites.


def _gymnasium(given: SuiteInput) -> None:
    from gymnasium.utils.env_checker import check_env

    form = given.make()
    # The suite makes the environment again from its spec, which gymnasium refuses where a wrapper has no spec.
    once = form.spec is not None and any(entry.kwargs is None for entry in form.spec.additional_wrappers)
    try:
        check_env(form, skip_render_check=True, skip_close_check=once)
    finally:
        form.close()


def _stable_baselines3(given: SuiteInput) -> None:
    from stable_baselines3.common.env_checker import check_env

    form = given.make()
    try:
        check_env(form, warn=True, skip_render_check=True)
    finally:
        form.close()


def _dm_env(given: SuiteInput) -> None:
    from dm_env.test_utils import EnvironmentTestMixin

    from envoi.adapters.dm_env import FromDmEnv
    from envoi.adapters.shared.array_specs import encoder

    ends = given.env.rollout.ends
    length = min(LONGEST, 3 + max((end.step for end in ends), default=50))

    class Case(EnvironmentTestMixin, unittest.TestCase):
        def make_object_under_test(self) -> Any:
            return given.make()

        def make_action_sequence(self) -> Iterator[Any]:
            spec = FromDmEnv(self.environment).action_spec
            encode = encoder(spec, fresh=True)
            for number in range(length):
                action = sample(spec, np.random.default_rng([0, number]))
                yield action if encode is None else encode(action)

    _run_cases(Case)


def _run_cases(case: type[unittest.TestCase]) -> None:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    for test, trace in result.failures + result.errors:
        raise AssertionError(f"{test.id().rpartition('.')[2]}: {trace.strip().splitlines()[-1]}")


def _tf_agents(given: SuiteInput) -> None:
    from tf_agents.environments.utils import validate_py_environment  # pyright: ignore[reportMissingImports]

    validate_py_environment(given.make(), episodes=2)


def _has_masks(given: SuiteInput, in_infos_only: bool) -> bool:
    """Returns True if masks forbid actions."""
    driver = given.env.driver
    for reply in (transition.reply_copy for transition in given.env.reference):
        for agent in reply.acting:
            observation, mask = reply.observations.get(agent), driver.action_mask(agent, reply)
            if mask is None or not isinstance(driver.action_specs[agent], Discrete) or np.all(mask):
                continue
            if not (in_infos_only and isinstance(observation, dict) and MASK in observation):
                return True
    return False


def _parallel_api(given: SuiteInput) -> None:
    importlib.import_module("pettingzoo.test").parallel_api_test(given.make(), num_cycles=CYCLES)


def _parallel_seed(given: SuiteInput) -> None:
    importlib.import_module("pettingzoo.test").parallel_seed_test(given.make, num_cycles=CYCLES)


def _aec_api(given: SuiteInput) -> None:
    importlib.import_module("pettingzoo.test").api_test(given.make(), num_cycles=CYCLES, verbose_progress=False)


def _aec_seed(given: SuiteInput) -> None:
    importlib.import_module("pettingzoo.test").seed_test(given.make, num_cycles=CYCLES)


def _state(given: SuiteInput) -> None:
    from pettingzoo.test.state_test import state_test

    form = given.make()
    if getattr(form, "state_space", None) is None:
        raise NotApplicable("it has no state space")
    state_test(form, given.make_other("pettingzoo"), num_cycles=10)


def _rllib(given: SuiteInput) -> None:
    if not isinstance(given.env.driver.core_env(), MultiEnv):
        raise NotApplicable("RLlib has a suite for several agents only")
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    check_multiagent_environments(given.make())


SUITES = (
    Suite("suite-gymnasium", "gymnasium's check_env", "gymnasium", "gymnasium", _gymnasium),
    Suite("suite-sb3", "Stable-Baselines3's check_env", "gymnasium", "stable_baselines3", _stable_baselines3),
    Suite("suite-dm-env", "dm_env's EnvironmentTestMixin", "dm_env", "dm_env", _dm_env),
    Suite("suite-tf-agents", "TF-Agents' validate_py_environment", "tf_agents", "tf_agents", _tf_agents),
    Suite(
        "suite-parallel-api", "PettingZoo's parallel_api_test", "pettingzoo", "pettingzoo", _parallel_api, "observed"
    ),
    Suite(
        "suite-parallel-seed", "PettingZoo's parallel_seed_test", "pettingzoo", "pettingzoo", _parallel_seed, "ignored"
    ),
    Suite("suite-aec-api", "PettingZoo's api_test", "pettingzoo_aec", "pettingzoo", _aec_api),
    Suite("suite-aec-seed", "PettingZoo's seed_test", "pettingzoo_aec", "pettingzoo", _aec_seed),
    Suite("suite-state", "PettingZoo's state_test", "pettingzoo_aec", "pettingzoo", _state, "ignored"),
    Suite("suite-rllib", "RLlib's check_multiagent_environments", "rllib", "ray", _rllib, "ignored"),
)
