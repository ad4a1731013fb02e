"""The written step between dm_env and gymnasium: what is set, patched or overridden around it is taken."""

import copy
import gc
import weakref

import gymnasium
import numpy as np
import pytest
from dm_env import StepType, specs
from dm_sources import Playing, Wrapping
from scripted import Line, Source
from traces import exact

from envoi import EpisodeError, FunctionReward, SpecError, explain
from envoi.adapters.dm_env import FromDmEnv, ToDmEnv
from envoi.adapters.gymnasium import FromGymnasium, ToGymnasium

FIRST, MID, LAST = StepType


class Gym(Source):
    """Plays the lines again and again, by actions that count from 0."""

    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, *lines):
        super().__init__(*lines * 9)


def playing(**specs):
    """A source of dm_env, each of whose steps gives a reward of 1."""
    return Playing(*[(MID, 1.0, 1.0)] * 9, **specs)


def calls(form):
    """Returns True if a form's step calls that of its core, instead of containing it."""
    return "called as it is" in explain(form)


QUIET, END = Line(1.0), Line(1.0, True)
FORMS = {
    "dm_env": lambda: ToDmEnv(FromGymnasium(Gym(QUIET))),
    "gymnasium": lambda: ToGymnasium(FromDmEnv(playing())),
}


def reward_of(step):
    return step[1]  # in both forms


@pytest.mark.parametrize("kind", FORMS)
def test_a_rewarder_that_is_set_in_mid_episode_holds_from_the_next_step_and_can_be_put_back(kind):
    form = FORMS[kind]()
    form.reset()
    step, native = form.step, form.core.rewarder  # bound before
    assert reward_of(step(0)) == 1.0
    form.core.rewarder = FunctionReward(lambda before, action, after: float(before[1] + 10 * after[1]), 0, 99)
    assert reward_of(step(0)) == 21.0
    form.core.rewarder = native
    assert reward_of(step(0)) == 1.0


def test_a_native_reward_that_is_put_back_after_the_form_was_made_has_its_declared_type():
    class Narrow(Gym):
        reward_space = gymnasium.spaces.Box(-9, 9, (), np.float32)

    core = FromGymnasium(Narrow(QUIET))
    native = core.rewarder
    core.rewarder = FunctionReward(lambda before, action, after: 2.0)
    form = ToDmEnv(core)
    form.reset()
    assert exact(form.step(0).reward) == exact(2.0)
    core.rewarder = native
    form.reset()
    assert exact(form.step(0).reward) == exact(np.float32(1))


def test_a_reset_of_a_subclass_begins_the_episodes_that_a_step_begins():
    class Counting(ToDmEnv):
        resets = 0

        def reset(self):
            self.resets += 1
            return super().reset()

    form = Counting(FromGymnasium(Gym(QUIET, END)))
    assert [form.step(0).step_type for _ in range(5)] == [FIRST, MID, LAST, FIRST, MID]
    assert form.resets == 2


class OwnGymnasium(ToGymnasium):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + 10, *rest


class OwnDmEnv(ToDmEnv):
    def step(self, action):
        step = super().step(action)
        return step if step.first() else step._replace(reward=step.reward + 10)


def test_a_form_of_a_subclass_with_a_step_of_its_own_takes_it():
    for form in (OwnGymnasium(FromDmEnv(playing())), OwnDmEnv(FromGymnasium(Gym(QUIET)))):
        form.reset()
        assert reward_of(form.step(0)) == 11.0
        assert reward_of(copy.deepcopy(form).step(np.array(1))) == 11.0
        assert calls(form)


@pytest.mark.parametrize("kind", FORMS)
def test_nothing_keeps_a_form_and_its_source_alive_once_it_is_let_go(kind):
    form = FORMS[kind]()
    form.reset()
    form.step(0)
    alive = [weakref.ref(form), weakref.ref(form.core), weakref.ref(form.core.source)]
    gc.disable()
    try:
        del form
        assert [one() for one in alive] == [None, None, None]
    finally:
        gc.enable()


def test_a_snapshot_of_who_wraps_our_form_holds_where_the_episode_was():
    outer = FromDmEnv(Wrapping(ToDmEnv(FromGymnasium(Gym(QUIET, QUIET, END)))))
    outer.reset()
    outer.step(0)
    token = outer.snapshot()
    first = exact([outer.step(0), outer.step(0)])
    outer.reset()
    outer.restore(token)
    assert exact([outer.step(0), outer.step(0)]) == first
    core = FromGymnasium(Gym(QUIET))
    core.reset()  # the core's episode has begun, that of the form around it has not
    fresh = FromDmEnv(Wrapping(ToDmEnv(core)))
    before = fresh.snapshot()
    fresh.reset()
    fresh.restore(before)
    assert fresh.source.step(0).first()


def test_a_dm_env_form_goes_by_its_own_episodes_and_by_the_cores_end():
    core = FromGymnasium(Gym(QUIET, END))
    core.reset()
    form = ToDmEnv(core)
    assert form.step(0).first()  # whatever the core was doing
    form.step(0)
    assert form.step(0).last()
    core.reset()
    assert form.step(0).first()
    core.step(0)
    core.step(0)  # another caller ends the episode
    with pytest.raises(EpisodeError, match="has ended"):
        form.step(0)


def test_a_step_that_is_patched_onto_an_environment_or_its_source_is_taken():
    core = FromGymnasium(Gym(QUIET))
    core.step = lambda action: FromGymnasium.step(core, action)._replace(reward=7.0)
    form = ToDmEnv(core)
    form.reset()
    assert form.step(0).reward == 7.0
    source = Gym(QUIET)
    form = ToDmEnv(FromGymnasium(source))
    form.reset()
    source.step = lambda action: (np.zeros(2), 8.0, False, False, {})
    assert form.step(0).reward == 8.0


@pytest.mark.parametrize("action", [[1], None, 1.5, "up", np.array([1]), {}, -1, 3])
def test_what_is_no_choice_is_refused(action):
    form = FORMS["gymnasium"]()
    form.reset()
    expected = "0 … 2" if isinstance(action, int) else "an integer"
    with pytest.raises(SpecError, match=f"^action: expected {expected}, got"):
        form.step(action)


def test_choices_beyond_those_looked_up_arrive_in_their_dtype():
    form = ToGymnasium(FromDmEnv(playing(action_spec=specs.DiscreteArray(1000, np.int32))))
    form.reset()
    for action in (3, 999, np.array(500)):
        form.step(action)
    assert exact(form.core.source.actions) == exact([np.int32(3), np.int32(999), np.int32(500)])
