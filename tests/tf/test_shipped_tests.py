"""TF-Agents' own tests of its wrappers and batches, imported and run with envoi in the place of what they test."""

import importlib
import unittest
from types import SimpleNamespace
from unittest import mock

import pytest
from tf_agents.environments import batched_py_environment, wrappers

import envoi
from envoi.adapters import from_tf_agents
from envoi.adapters.tf_agents.form import ToTFAgents, ToTFAgentsBatch

pytestmark = pytest.mark.filterwarnings(
    "ignore::envoi.adapters.shared.loss.NarrowingWarning", "ignore::DeprecationWarning"
)


class BehindMock(wrappers.PyEnvironmentBaseWrapper):
    """An environment whose steps a mock sees: a mock alone has everything, and so no framework's class or specs."""

    def __init__(self, seen):
        super().__init__(seen._mock_wraps)
        self._seen = seen

    def _step(self, action):
        return self._seen.step(action)


def form(core):
    return ToTFAgents(core) if core.batch_size is None else ToTFAgentsBatch(core)


def through(env):
    """An environment of TF-Agents that went through the core."""
    return form(envoi.Wrapper(from_tf_agents(env)))


def ours(wrapper):
    """A wrapper of the core in the place of one of TF-Agents."""

    def wrapped(env, *args, **kwargs):
        if isinstance(env, mock.Mock) and env._mock_wraps is not None:
            env = BehindMock(env)
        return form(wrapper(from_tf_agents(env), *args, **kwargs))

    return wrapped


IN_THEIR_PLACE = {
    "wrappers_test": {
        "wrappers": {
            "TimeLimit": ours(lambda env, duration: envoi.TimeLimit(env, duration)),
            "FixedLength": ours(lambda env, fix_length: envoi.FixedLength(env, fix_length)),
            "ActionRepeat": ours(lambda env, times: envoi.ActionRepeat(env, times)),
            "FlattenActionWrapper": ours(envoi.FlattenAction),
            "ObservationFilterWrapper": ours(lambda env, idx: envoi.ObservationFilter(env, idx)),
            "RunStats": ours(envoi.RunStats),
            "ActionDiscretizeWrapper": ours(
                lambda env, num_actions: envoi.ActionDiscretize(env, num_actions, dtype="int32")
            ),
            "ActionClipWrapper": ours(envoi.ActionClip),
            "ActionOffsetWrapper": ours(envoi.ActionOffset),
            "FlattenObservationsWrapper": ours(envoi.FlattenObservation),
            "HistoryWrapper": ours(envoi.History),
            "OneHotActionWrapper": ours(envoi.OneHotAction),
            "ExtraDisabledActionsWrapper": ours(envoi.ExtraDisabledActions),
        }
    },
    "batched_py_environment_test": {
        "batched_py_environment": {
            "BatchedPyEnvironment": lambda envs, **options: batched_py_environment.BatchedPyEnvironment(
                [through(env) for env in envs], **options
            )
        }
    },
}
"""By module of tests, and the module whose names they use there, what takes their place."""

NO_SPECS = "its mock has no specs"
NO_TIME_STEP = "its environment answers a step with the action"
INFO = "a form has an empty info before the first reset, not None"
PADDING = "a padded episode has one end, see FixedLength in docs/coming_from/tf_agents.md"
WORDS = "it asks for words of a message"

NOT_TAKEN = {
    "TimeLimitWrapperTest.test_duration_applied_after_episode_terminates_early": "it writes into a private attribute",
    "TimeLimitWrapperTest.test_extra_env_methods_work": INFO,
    "FixedLengthWrapperTest.test_get_info": INFO,
    "FixedLengthWrapperTest.test_expected_returns_dont_change": PADDING,
    "FixedLengthWrapperTest.test_fixed_length": PADDING,
    "FixedLengthWrapperTest.test_pad_short_episode_upto_fixed_length": PADDING,
    **{
        f"ActionRepeatWrapperTest.test_{name}": NO_SPECS
        for name in (
            *("accumulates_reward", "action_repeated", "action_stops_on_first", "action_stops_on_last"),
            "checks_times_param",
        )
    },
    **{
        f"ObservationFilterWrapperTest.test_{name}": NO_SPECS
        for name in (
            *("checks_idx_outofbounds", "checks_idx_provided", "checks_multidim_idx", "checks_nested_obs"),
            *("filtered_obs_spec", "obs_filtered_reset", "obs_filtered_step"),
        )
    },
    **{
        f"ActionDiscretizeWrapper.test_{name}": NO_TIME_STEP
        for name in (
            *("action_mapping_1d", "action_mapping_nd", "action_mapping_nd_with_same_limits"),
            *("check_array_bounds", "shapes_broadcast"),
        )
    },
    "ActionDiscretizeWrapper.test_action_nest": "an action has the structure of its spec, and not of its one leaf",
    "ActionDiscretizeWrapper.test_check_action_shape": WORDS,
    "ActionDiscretizeWrapper.test_check_limits": WORDS,
    "ActionClipWrapper.test_clip": NO_TIME_STEP,
    "ActionClipWrapper.test_nested": NO_TIME_STEP,
    "ActionOffsetWrapperTest.test_nested": "nested actions are taken",
    "ActionOffsetWrapperTest.test_continuous": WORDS,
    "ActionOffsetWrapperTest.test_unbounded": WORDS,
}
"""By test, why it cannot hold for envoi."""


def shipped_tests():
    for module in IN_THEIR_PLACE:
        for name, kind in vars(importlib.import_module(f"tf_agents.environments.{module}")).items():
            if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
                for test in unittest.defaultTestLoader.getTestCaseNames(kind):
                    reason = NOT_TAKEN.get(f"{name}.{test}")
                    marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
                    if test != "test_session":  # TensorFlow's own helper
                        yield pytest.param(module, kind, test, marks=marks, id=f"{name}.{test}")


def test_each_test_that_is_not_taken_is_one_that_is_shipped():
    assert {one.id for one in shipped_tests()} >= NOT_TAKEN.keys()


@pytest.mark.parametrize(("module", "kind", "test"), [*shipped_tests()])
def test_tf_agents_own_tests_pass_with_envoi_in_the_place_of_what_they_test(module, kind, test, monkeypatch):
    tests = importlib.import_module(f"tf_agents.environments.{module}")
    for name, names in IN_THEIR_PLACE[module].items():
        monkeypatch.setattr(tests, name, SimpleNamespace(**{**vars(getattr(tests, name)), **names}))
    result = unittest.TestResult()
    kind(test).run(result)
    assert not result.errors + result.failures, (result.errors + result.failures)[0][1]
    assert result.testsRun == 1
