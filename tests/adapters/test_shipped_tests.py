"""Tests that packages ship for their own environments, imported and run with an environment that went through envoi."""

import importlib
import unittest
import warnings
from pathlib import Path

import bsuite
import gymnasium
import numpy as np
import pytest
from dm_env.test_utils import EnvironmentTestMixin
from gymnasium.utils.env_match import check_environments_match
from gymnasium.wrappers import TransformObservation

from envoi import Validated
from envoi.adapters.dm_env import FromDmEnv, ToDmEnv
from envoi.adapters.gymnasium import FromGymnasium, ToGymnasium

# bsuite: each environment has a test of its own, dm_env's mixin with actions that suit it.

BSUITE = Path(bsuite.__file__).parent
DOWNLOADS = "mnist"
"""An environment whose data no wheel holds."""

WAYS = {
    "the core": lambda env: FromDmEnv(env),
    "gymnasium": lambda env: FromGymnasium(ToGymnasium(FromDmEnv(env))),
    "a wrapper": lambda env: Validated(FromDmEnv(env)),
}
"""The conversions of an environment before it is one of dm_env again."""


def bsuites_tests():
    """The classes of tests that bsuite ships for its environments, by the environment's name."""
    files = [*BSUITE.glob("environments/*_test.py"), *BSUITE.glob("experiments/*/*_test.py")]
    for path in sorted(files):
        name = path.stem.removesuffix("_test")
        if not name.startswith(DOWNLOADS):
            module = importlib.import_module(".".join(("bsuite", *path.relative_to(BSUITE).with_suffix("").parts)))
            for kind in vars(module).values():
                if (
                    isinstance(kind, type)
                    and issubclass(kind, EnvironmentTestMixin)
                    and "make_object_under_test" in vars(kind)
                ):
                    yield f"{name}, {kind.__name__}", kind


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    BSUITES_TESTS = dict(bsuites_tests())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BSUITES_TESTS)
def test_bsuites_own_tests_pass_on_its_environments_through_envoi(name, way):
    made = []

    class Case(BSUITES_TESTS[name]):
        def make_object_under_test(self):
            made.append(ToDmEnv(WAYS[way](super().make_object_under_test())))
            return made[-1]

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert not result.errors + result.failures, result.errors + result.failures
    assert result.testsRun >= 4
    assert len(made) == result.testsRun


def test_bsuites_tests_are_found():
    assert len(BSUITES_TESTS) == 21


# gymnasium: its comparison of two environments, on each environment that it registers and that can be made here.


def registered():
    """The ids of gymnasium's own environments that step on the CPU, the newest version of each."""
    newest = {}
    for spec in gymnasium.registry.values():
        family = str(spec.entry_point).partition(":")[0]
        if family.startswith("gymnasium.envs.") and "tabular" not in family and "phys2d" not in spec.id:
            known = newest.get(spec.name)
            newest[spec.name] = spec if known is None or (spec.version or 0) > (known.version or 0) else known
    return sorted(spec.id for spec in newest.values())


def as_declared(observation):
    """An observation in its space's dtype: toy-text environments give Python integers, which an importer casts."""
    if isinstance(observation, tuple):
        return tuple(map(as_declared, observation))
    return np.int64(observation) if isinstance(observation, (int, np.integer)) else observation


@pytest.mark.parametrize("name", registered())
def test_gymnasium_finds_no_difference_between_an_environment_and_its_form(name):
    alone, through = gymnasium.make(name), ToGymnasium(Validated(FromGymnasium(gymnasium.make(name))))
    alone = TransformObservation(alone, as_declared, None)
    check_environments_match(alone, through, num_steps=60, seed=5)
    alone.close()
    through.close()
