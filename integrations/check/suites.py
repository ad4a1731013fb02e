"""The suites that the ecosystems ship, on the forms of the environment; what they print and warn is kept from the user.

| suite | on the form for |
|---|---|
| Gymnasium's `check_env` | gymnasium |
| Stable-Baselines3's `check_env` | gymnasium |
| dm_env's `EnvironmentTestMixin` | dm_env |
| TF-Agents' `validate_py_environment` | tf_agents |
| PettingZoo's `parallel_api_test`, `parallel_seed_test` | pettingzoo |
| PettingZoo's `api_test`, `seed_test`, `state_test` | pettingzoo_aec |
| RLlib's `check_multiagent_environments` | rllib, of several agents |

PettingZoo's `render_test` opens windows, and its `max_cycles_test` takes a module of its own library: both are left
out.
"""

from __future__ import annotations

import contextlib
import io
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, MultiEnv, sample
from envoi.protocol.multi_env import MASK

from .requirement import PASSED, Found, failed, skipped
from .subject import Subject

CYCLES = 100
"""How many steps PettingZoo's suites make at most."""
LONGEST = 2000
"""The most actions in the sequence that is to bring dm_env's suite to an end."""


class Unfit(Exception):
    """A suite does not speak of such environments."""


@dataclass(frozen=True)
class Forms:
    """What a suite may look at.

    Attributes:
        make: Makes a form of a new environment.
        other: Makes the form for another framework.
        subject: The environment itself.
    """

    make: Callable[[], Any]
    other: Callable[[str], Any]
    subject: Subject


@dataclass(frozen=True)
class Suite:
    """A suite of an ecosystem.

    Attributes:
        key: Its key in reports.
        name: How its owners call it.
        framework: Whose form it takes.
        package: What must be installed.
        run: Runs it; what it raises is what it found.
        masks: Whether it knows action masks, only those in observations, or none.
    """

    key: str
    name: str
    framework: str
    package: str
    run: Callable[[Forms], None]
    masks: Literal["known", "observed", "ignored"] = "known"


@dataclass
class Heard:
    """What was printed and warned of meanwhile."""

    warnings: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def hushed() -> Iterator[Heard]:
    """Nothing is printed or warned of."""
    heard = Heard()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield heard
        finally:
            said = (" ".join(_plain(str(one.message)).split()) for one in caught)
            heard.warnings = list(dict.fromkeys(said))


def _plain(text: str) -> str:
    """A message without the colours of a terminal."""
    for code in ("\x1b[33m", "\x1b[31m", "\x1b[0m"):
        text = text.replace(code, "")
    return text


def run(suite: Suite, forms: Forms) -> tuple[Found, tuple[str, ...]]:
    """Runs a suite.

    Returns:
        What it found, and what it warned of.
    """
    if find_spec(suite.package) is None:
        return Found("not installed", f"{suite.package} is not installed"), ()
    with hushed() as heard:
        try:
            suite.run(forms)
            found = PASSED
        except Unfit as unfit:
            found = skipped(str(unfit))
        except Exception as error:
            limit = _limit(suite, forms, error)
            found = Found("refused", limit) if limit else failed(f"{suite.name}: {said(error)}")
    if suite.key == "suite-sb3" and found.status == "failed":
        limits = [note for note in heard.warnings if "not supported by Stable" in note or "should start at" in note]
        found = Found("refused", limits[0]) if limits else found
    return found, tuple(heard.warnings)


def _limit(suite: Suite, forms: Forms, error: Exception) -> str:
    """What a suite does not know that there may be, where that is why it ended so; else empty."""
    text = str(error)
    if suite.masks != "known" and forms.subject.walk.error is None and _forbids(forms, suite.masks == "observed"):
        return f"{suite.name} takes actions that the masks forbid, and so ends in: {said(error)}"
    if isinstance(error, ValueError) and "truth value of an array" in text and suite.framework == "gymnasium":
        return f"{suite.name} compares the states of generators, and knows only those of PCG64"
    specs = forms.subject.hand.observation_specs.values()
    if "has no attribute 'dtype'" in text and not all(_is_arrays(spec) for spec in specs):
        return f"{suite.name} knows observations of arrays and dicts of them only"
    return ""


def _is_arrays(spec: Any) -> bool:
    if isinstance(spec, dict):
        return all(map(_is_arrays, spec.values()))
    return isinstance(spec, (Array, Discrete, MultiBinary, MultiDiscrete))


def said(error: BaseException) -> str:
    """What an error of a suite says, in one line."""
    text = " ".join(_plain(str(error)).split())
    if isinstance(error, AssertionError):
        frames = traceback.extract_tb(error.__traceback__)
        return text or (f"`{frames[-1].line}` does not hold" if frames else "an assertion does not hold")
    return f"{type(error).__name__}: {text}"


# The suites.


def _gymnasium(forms: Forms) -> None:
    from gymnasium.utils.env_checker import check_env

    form = forms.make()
    # It makes the environment once more by its spec, which gymnasium refuses where a wrapper cannot be written down.
    once = form.spec is not None and any(entry.kwargs is None for entry in form.spec.additional_wrappers)
    try:
        check_env(form, skip_render_check=True, skip_close_check=once)
    finally:
        form.close()


def _stable_baselines3(forms: Forms) -> None:
    from stable_baselines3.common.env_checker import check_env

    form = forms.make()
    try:
        check_env(form, warn=True, skip_render_check=True)
    finally:
        form.close()


def _dm_env(forms: Forms) -> None:
    from dm_env.test_utils import EnvironmentTestMixin

    from envoi.adapters.dm_env import FromDmEnv
    from envoi.adapters.shared.array_specs import encoder

    walk = forms.subject.walk
    length = min(LONGEST, 3 + max((length for length, _ in walk.lengths), default=50))

    class Case(EnvironmentTestMixin, unittest.TestCase):
        def make_object_under_test(self) -> Any:
            return forms.make()

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


def _tf_agents(forms: Forms) -> None:
    from tf_agents.environments.utils import validate_py_environment  # pyright: ignore[reportMissingImports]

    validate_py_environment(forms.make(), episodes=2)


def _forbids(forms: Forms, in_infos_only: bool) -> bool:
    """Whether there are masks of which a suite that looks for them in observations, or nowhere, knows nothing."""
    specs = forms.subject.hand.action_specs
    for moment in forms.subject.reference:
        for agent in moment.kept.acting:
            seen, mask = moment.kept.observations.get(agent), forms.subject.hand.mask(agent, moment.kept)
            if mask is None or not isinstance(specs[agent], Discrete) or np.all(mask):
                continue
            if not (in_infos_only and isinstance(seen, dict) and MASK in seen):
                return True
    return False


def _parallel_api(forms: Forms) -> None:
    from pettingzoo.test import parallel_api_test

    parallel_api_test(forms.make(), num_cycles=CYCLES)


def _parallel_seed(forms: Forms) -> None:
    from pettingzoo.test import parallel_seed_test

    parallel_seed_test(forms.make, num_cycles=CYCLES)


def _aec_api(forms: Forms) -> None:
    from pettingzoo.test import api_test

    api_test(forms.make(), num_cycles=CYCLES, verbose_progress=False)


def _aec_seed(forms: Forms) -> None:
    from pettingzoo.test import seed_test

    seed_test(forms.make, num_cycles=CYCLES)


def _state(forms: Forms) -> None:
    from pettingzoo.test.state_test import state_test

    form = forms.make()
    if getattr(form, "state_space", None) is None:
        raise Unfit("its state is not described")
    state_test(form, forms.other("pettingzoo"), num_cycles=10)


def _rllib(forms: Forms) -> None:
    if not isinstance(forms.subject.hand.core(), MultiEnv):
        raise Unfit("RLlib has a suite for several agents only")
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    check_multiagent_environments(forms.make())


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
