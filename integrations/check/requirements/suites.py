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
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, MultiEnv, sample
from envoi.protocol.multi_env import MASK

from ..drivers.base import NotAvailable
from ..requirement import Outcome, Requirement
from .forms import FormUnderTest

CYCLES = 100
"""Most steps of PettingZoo's suites."""
LONGEST = 2000
"""Most actions in the sequence that dm_env's suite plays to the end of an episode."""

Masks = Literal["known", "observed", "ignored"]
"""Which action masks a suite obeys: all, only those in observations, or none."""


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
            captured += dict.fromkeys(_plain(str(one.message)) for one in recorded)


def _plain(text: str) -> str:
    """Returns a message as one line, without the colour codes of a terminal."""
    for code in ("\x1b[33m", "\x1b[31m", "\x1b[0m"):
        text = text.replace(code, "")
    return " ".join(text.split())


def _suite(
    key: str, name: str, package: str, run: Callable[[FormUnderTest], object], masks: Masks = "known"
) -> Requirement:
    """Makes a requirement of a suite, of which a failure is an error that it raises."""

    def check(form: FormUnderTest) -> Outcome:
        if find_spec(package) is None:
            return Outcome("not installed", f"{package} is not installed")
        status, reason = "passed", ""
        with captured_output() as captured:
            try:
                run(form)
            except NotAvailable as missing:
                status, reason = "skipped", str(missing)
            except Exception as error:
                limit = _limitation(form, name, masks, error)
                status, reason = ("refused", limit) if limit else ("failed", f"{name}: {_message(error)}")
        if package == "stable_baselines3" and status == "failed":
            limits = [note for note in captured if "not supported by Stable" in note or "should start at" in note]
            status, reason = ("refused", limits[0]) if limits else (status, reason)
        return Outcome(status, reason, tuple(captured))

    return Requirement(key, f"{name} reports no error.", (), check)


def _limitation(form: FormUnderTest, name: str, masks: Masks, error: Exception) -> str:
    """Returns the limitation of a suite that explains its error; empty where there is none."""
    text = str(error)
    if masks != "known" and form.env.rollout.error is None and _has_masks(form, masks == "observed"):
        return f"{name} takes actions that the masks forbid, and so raises: {_message(error)}"
    if isinstance(error, ValueError) and "truth value of an array" in text and form.framework == "gymnasium":
        return f"{name} compares the states of generators, and supports only PCG64"
    specs = form.env.driver.observation_specs.values()
    if "has no attribute 'dtype'" in text and not all(_is_arrays(spec) for spec in specs):
        return f"{name} supports only observations of arrays, and dicts of them"
    return ""


def _is_arrays(spec: Any) -> bool:
    if isinstance(spec, dict):
        return all(map(_is_arrays, spec.values()))
    return isinstance(spec, (Array, Discrete, MultiBinary, MultiDiscrete))


def _has_masks(form: FormUnderTest, in_infos_only: bool) -> bool:
    """Returns True if masks forbid actions."""
    driver = form.env.driver
    for reply in (transition.reply_copy for transition in form.env.reference):
        for agent in reply.acting:
            observation, mask = reply.observations.get(agent), driver.action_mask(agent, reply)
            if mask is None or not isinstance(driver.action_specs[agent], Discrete) or np.all(mask):
                continue
            if not (in_infos_only and isinstance(observation, dict) and MASK in observation):
                return True
    return False


def _message(error: BaseException) -> str:
    """Returns the message of a suite's error, as one line."""
    text = _plain(str(error))
    if isinstance(error, AssertionError):
        frames = traceback.extract_tb(error.__traceback__)
        return text or (f"`{frames[-1].line}` does not hold" if frames else "an assertion does not hold")
    return f"{type(error).__name__}: {text}"


def _gymnasium(form: FormUnderTest) -> None:
    from gymnasium.utils.env_checker import check_env

    with contextlib.closing(form.make()) as env:
        # The suite makes the environment again from its spec, which gymnasium refuses where a wrapper has no spec.
        once = env.spec is not None and any(entry.kwargs is None for entry in env.spec.additional_wrappers)
        check_env(env, skip_render_check=True, skip_close_check=once)


def _stable_baselines3(form: FormUnderTest) -> None:
    from stable_baselines3.common.env_checker import check_env

    with contextlib.closing(form.make()) as env:
        check_env(env, warn=True, skip_render_check=True)


def _dm_env(form: FormUnderTest) -> None:
    from dm_env.test_utils import EnvironmentTestMixin

    from envoi.adapters.dm_env import FromDmEnv
    from envoi.adapters.shared.array_specs import encoder

    length = min(LONGEST, 3 + max((end.step for end in form.env.rollout.ends), default=50))

    class Case(EnvironmentTestMixin, unittest.TestCase):
        def make_object_under_test(self) -> Any:
            return form.make()

        def make_action_sequence(self) -> Iterator[Any]:
            spec = FromDmEnv(self.environment).action_spec
            encode = encoder(spec, fresh=True)
            for number in range(length):
                action = sample(spec, np.random.default_rng([0, number]))
                yield action if encode is None else encode(action)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    for test, trace in result.failures + result.errors:
        raise AssertionError(f"{test.id().rpartition('.')[2]}: {trace.strip().splitlines()[-1]}")


def _tf_agents(form: FormUnderTest) -> None:
    from tf_agents.environments.utils import validate_py_environment  # pyright: ignore[reportMissingImports]

    validate_py_environment(form.make(), episodes=2)


def _pettingzoo(key: str, test: str, masks: Masks = "known", **settings: Any) -> Requirement:
    def run(form: FormUnderTest) -> None:
        made: Any = form.make if "seed" in test else form.make()
        getattr(importlib.import_module("pettingzoo.test"), test)(made, num_cycles=CYCLES, **settings)

    return _suite(key, f"PettingZoo's {test}", "pettingzoo", run, masks)


def _state(form: FormUnderTest) -> None:
    from pettingzoo.test.state_test import state_test

    env = form.make()
    if getattr(env, "state_space", None) is None:
        raise NotAvailable("it has no state space")
    state_test(env, FormUnderTest("pettingzoo", form.env).make(), num_cycles=10)


def _rllib(form: FormUnderTest) -> None:
    if not isinstance(form.env.driver.core_env(), MultiEnv):
        raise NotAvailable("RLlib has a suite for several agents only")
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    check_multiagent_environments(form.make())


SUITES = {
    "gymnasium": (
        _suite("suite-gymnasium", "gymnasium's check_env", "gymnasium", _gymnasium),
        _suite("suite-sb3", "Stable-Baselines3's check_env", "stable_baselines3", _stable_baselines3),
    ),
    "dm_env": (_suite("suite-dm-env", "dm_env's EnvironmentTestMixin", "dm_env", _dm_env),),
    "tf_agents": (_suite("suite-tf-agents", "TF-Agents' validate_py_environment", "tf_agents", _tf_agents),),
    "pettingzoo": (
        _pettingzoo("suite-parallel-api", "parallel_api_test", "observed"),
        _pettingzoo("suite-parallel-seed", "parallel_seed_test", "ignored"),
    ),
    "pettingzoo_aec": (
        _pettingzoo("suite-aec-api", "api_test", verbose_progress=False),
        _pettingzoo("suite-aec-seed", "seed_test"),
        _suite("suite-state", "PettingZoo's state_test", "pettingzoo", _state, "ignored"),
    ),
    "rllib": (_suite("suite-rllib", "RLlib's check_multiagent_environments", "ray", _rllib, "ignored"),),
}
"""The suites of each framework's form."""
