"""The common step between dm_env and gymnasium is taken on a short way; it must not differ from the long one."""

import copy
import gc
import weakref

import dm_env
import gymnasium
import numpy as np
import pytest
from depth import examples
from dm_env import StepType, TimeStep, specs
from dm_sources import Wrapping
from hypothesis import given
from hypothesis import strategies as st
from traces import exact

from envoi import Change, EpisodeError, FunctionReward, Lifted, explain
from envoi.adapters.dm_env import FromDmEnv, ToDmEnv
from envoi.adapters.gymnasium import FromGymnasium, ToGymnasium
from envoi.adapters.shared.introspection import layers
from envoi.protocol.env import full_step
from envoi.steps.record import OVER, RUNNING

FIRST, MID, LAST = StepType
BOX = gymnasium.spaces.Box(-9, 9, (4,), np.float32)


class Sight:
    """Observations of all the kinds that a source may give: each is [step, step, step, step]."""

    kinds = ("new", "the same again", "a view of its own", "wider", "a list", "of one more axis", "a view with an axis")

    def __init__(self):
        self.kept, self.buffer = np.zeros(4, np.float32), np.zeros(8, np.float32)

    def see(self, kind, at):
        if kind == "the same again":
            self.kept[:] = at
            return self.kept
        if kind == "a view of its own":
            self.buffer[:] = at
            return self.buffer[2:6]
        if kind == "a view with an axis":
            self.buffer[:] = at
            return self.buffer[None, :6]
        if kind == "a list":
            return [float(at)] * 4
        if kind == "of one more axis":
            return np.full((1, 4), at, np.float32)
        return np.full(4, at, float if kind == "wider" else np.float32)


class Gym(gymnasium.Env):
    """It plays (kind of observation, reward, terminated, truncated, info) line by line, and notes the actions."""

    observation_space, action_space = BOX, gymnasium.spaces.Discrete(3)

    def __init__(self, *lines):
        self.lines, self.at, self.sight, self.actions = lines, 0, Sight(), []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.sight.see(self.lines[-1][0] if self.lines else "new", 0), {"begun": True}

    def step(self, action):
        self.actions.append(action)
        kind, reward, terminated, truncated, info = self.lines[self.at % len(self.lines)]
        self.at += 1
        return self.sight.see(kind, self.at), reward, terminated, truncated, info


class Dm(dm_env.Environment):
    """It plays (kind of observation, reward, step type, discount) line by line, and notes the actions."""

    def __init__(self, *lines):
        self.lines, self.at, self.sight, self.actions = lines, 0, Sight(), []

    def reset(self):
        self.at = 0
        return dm_env.restart(self.sight.see(self.lines[-1][0] if self.lines else "new", 0))

    def step(self, action):
        self.actions.append(action)
        kind, reward, step_type, discount = self.lines[self.at % len(self.lines)]
        self.at += 1
        return TimeStep(step_type, reward, discount, self.sight.see(kind, self.at))

    def observation_spec(self):
        return specs.BoundedArray((4,), np.float32, -9, 9)

    def action_spec(self):
        return specs.DiscreteArray(3, np.int32)


class LongGym(FromGymnasium):
    """Because it has a step of its own, forms call it; every value takes the long way here."""

    def step(self, action):
        if self._episode_state is not RUNNING:
            raise EpisodeError(f"step: {self._episode_state}")
        before = None if self._rewarder is None else (self.state,)
        sent = action if self._encode is None else self._encode(action)
        observation, *values = self.source.step(sent)
        self._observation = self._incoming(observation)
        return ended(self, (self._observation, *self._complete(self._observation, *values, before, action)))


class LongDm(FromDmEnv):
    def step(self, action):
        if self._episode_state is not RUNNING:
            raise EpisodeError(f"step: {self._episode_state}")
        before = None if self._rewarder is None else (self.state,)
        step_type, reward, discount, observation = self.source.step(self._choice(action))
        values = self._complete(step_type, reward, discount, self._incoming(observation), before, action)
        return ended(self, values)


def ended(env, values):
    if values[2] or values[3]:
        env._episode_state = OVER
    return full_step(values)


def calls(form):
    """Returns True if a form's step calls that of its core, instead of containing it."""
    return "called as it is" in explain(form)


REWARDS = st.sampled_from([0.5, 1, True, np.float64(0.25), np.float32(0.5), 2**60 + 1, np.array(1.5), 2**53 - 1, -1])
INFOS = st.sampled_from([{}, {"a": 1}, {"discount": 0.5}, {"discount": "none"}, {"discount": 0.0, "b": None}])
ENDS = st.sampled_from([False, False, False, True, np.bool_(True), np.bool_(False)])
ACTIONS = st.sampled_from([0, 2, np.int64(1), np.array(2), True])


def played(*values):
    return st.lists(st.tuples(st.sampled_from(Sight.kinds), *values), min_size=1, max_size=6)


GYM_LINES = played(REWARDS, ENDS, ENDS, INFOS)
DISCOUNTS = st.sampled_from([1.0, 1.0, np.float64(1), 0.9, 0.0, np.float32(1), 1, np.array(0.5)])
STEP_TYPES = st.sampled_from([MID, MID, MID, 1, LAST, 2])
DM_LINES = played(REWARDS, STEP_TYPES, DISCOUNTS)
PLAYED = st.lists(ACTIONS, min_size=1, max_size=8)


def dm_trace(form, actions):
    return [(form.reset(), form.last, form.info)] + [(form.step(action), form.last, form.info) for action in actions]


@examples(150)
@given(lines=GYM_LINES, actions=PLAYED)
def test_gymnasium_to_dm_env_is_the_same_on_the_short_and_the_long_way(lines, actions):
    short, long = ToDmEnv(FromGymnasium(Gym(*lines))), ToDmEnv(LongGym(Gym(*lines)))
    assert (calls(short), calls(long)) == (False, True)
    # Compared when all is over: what was handed out must not have changed since.
    assert exact(dm_trace(short, actions)) == exact(dm_trace(long, actions))
    assert exact(short.core.source.actions) == exact(long.core.source.actions)
    assert exact(short.core.observation) == exact(long.core.observation)


class Seen(Lifted):
    """Changes what its kind says."""

    def __init__(self, env, kind):
        self.kind = kind
        super().__init__(env)

    def change(self, specs):
        counts = {
            "begin": lambda observation: 0,
            "remember": lambda memory, action, observation, reward: memory + float(np.sum(reward)),
        }
        return {
            "observation": Change(observation=lambda observation: (observation, 1)),
            "memory": Change(observation=lambda observation, memory: (observation, memory), **counts),
            "action": Change(action=lambda action: 2 - int(action)),
            "reward": Change(reward=lambda reward: np.float32(reward)),
            "note": Change(begin=lambda observation: {}, note=lambda memory, info: info, info=dict),
            "limit": Change(truncated=lambda flag, memory: flag or memory > 2, **counts),
        }[self.kind]


@examples(150)
@given(
    lines=GYM_LINES,
    actions=PLAYED,
    kinds=st.lists(st.sampled_from(["observation", "memory", "action", "reward", "note", "limit"]), max_size=3),
)
def test_wrappers_between_gymnasium_and_dm_env_are_the_same_on_the_short_and_the_long_way(lines, actions, kinds):
    def form(importer):
        env = importer(Gym(*lines))
        for kind in kinds:
            env = Seen(env, kind)
        return ToDmEnv(env)

    short, long = form(FromGymnasium), form(LongGym)
    assert (calls(short), calls(long)) == (False, True)
    assert exact(dm_trace(short, actions)) == exact(dm_trace(long, actions))


def gym_trace(form, actions):
    seen = [form.reset()]
    for action in actions:
        try:
            seen.append(form.step(action))
        except EpisodeError as error:
            seen.append((str(error), form.reset()))
    return seen


@examples(150)
@given(lines=DM_LINES, actions=PLAYED)
def test_dm_env_to_gymnasium_is_the_same_on_the_short_and_the_long_way(lines, actions):
    short, long = ToGymnasium(FromDmEnv(Dm(*lines))), ToGymnasium(LongDm(Dm(*lines)))
    assert (calls(short), calls(long)) == (False, True)
    assert exact(gym_trace(short, actions)) == exact(gym_trace(long, actions))
    assert exact(short.core.source.actions) == exact(long.core.source.actions)
    assert exact(short.core.observation) == exact(long.core.observation)


QUIET_GYM, QUIET_DM = ("new", 1.0, False, False, {}), ("new", 1.0, MID, 1.0)
FORMS = {
    "dm_env": lambda: ToDmEnv(FromGymnasium(Gym(QUIET_GYM))),
    "gymnasium": lambda: ToGymnasium(FromDmEnv(Dm(QUIET_DM))),
}


def reward_of(step):
    return step[1]  # in both forms


@pytest.mark.parametrize("kind", FORMS)
def test_a_rewarder_that_is_set_in_mid_episode_holds_from_the_next_step_and_can_be_put_back(kind):
    form = FORMS[kind]()
    form.reset()
    step, native = form.step, form.core.rewarder  # bound before
    assert reward_of(step(0)) == 1.0
    form.core.rewarder = FunctionReward(lambda before, action, after: float(before[0] + 10 * after[0]), 0, 99)
    assert reward_of(step(0)) == 21.0
    form.core.rewarder = native
    assert reward_of(step(0)) == 1.0


def test_a_native_reward_that_is_put_back_after_the_form_was_made_has_its_declared_type():
    class Narrow(Gym):
        reward_space = gymnasium.spaces.Box(-9, 9, (), np.float32)

    core = FromGymnasium(Narrow(QUIET_GYM))
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

    form = Counting(FromGymnasium(Gym(QUIET_GYM, ("new", 1.0, True, False, {}))))
    assert [form.step(0).step_type for _ in range(5)] == [FIRST, MID, LAST, FIRST, MID]
    assert form.resets == 2


class OwnForms:
    """Forms with a step of their own."""

    class Gymnasium(ToGymnasium):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, reward + 10, *rest

    class DmEnv(ToDmEnv):
        def step(self, action):
            step = super().step(action)
            return step if step.first() else step._replace(reward=step.reward + 10)


def test_a_form_of_a_subclass_with_a_step_of_its_own_takes_it():
    for form in (OwnForms.Gymnasium(FromDmEnv(Dm(QUIET_DM))), OwnForms.DmEnv(FromGymnasium(Gym(QUIET_GYM)))):
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
    outer = FromDmEnv(Wrapping(ToDmEnv(FromGymnasium(Gym(QUIET_GYM, QUIET_GYM, ("new", 1.0, True, False, {}))))))
    outer.reset()
    outer.step(0)
    token = outer.snapshot()
    first = exact([outer.step(0), outer.step(0)])
    outer.reset()
    outer.restore(token)
    assert exact([outer.step(0), outer.step(0)]) == first
    core = FromGymnasium(Gym(QUIET_GYM))
    core.reset()  # the core's episode has begun, that of the form around it has not
    fresh = FromDmEnv(Wrapping(ToDmEnv(core)))
    before = fresh.snapshot()
    fresh.reset()
    fresh.restore(before)
    assert fresh.source.step(0).first()


def test_a_dm_env_form_goes_by_its_own_episodes_and_by_the_cores_end():
    core = FromGymnasium(Gym(QUIET_GYM, ("new", 1.0, True, False, {})))
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
    core = FromGymnasium(Gym(QUIET_GYM))
    core.step = lambda action: FromGymnasium.step(core, action)._replace(reward=7.0)
    form = ToDmEnv(core)
    form.reset()
    assert form.step(0).reward == 7.0
    source = Gym(QUIET_GYM)
    form = ToDmEnv(FromGymnasium(source))
    form.reset()
    source.step = lambda action: (np.zeros(4, np.float32), 8.0, False, False, {})
    assert form.step(0).reward == 8.0


def test_a_list_is_no_choice():
    form = ToGymnasium(FromDmEnv(Dm(QUIET_DM)))
    form.reset()
    with pytest.raises(TypeError, match="unhashable"):
        form.step([1])


def test_choices_beyond_those_looked_up_arrive_in_their_dtype():
    class Wide(Dm):
        def action_spec(self):
            return specs.DiscreteArray(1000, np.int32)

    form = ToGymnasium(FromDmEnv(Wide(QUIET_DM)))
    form.reset()
    for action in (3, 999, np.array(500)):
        form.step(action)
    assert exact(form.core.source.actions) == exact([np.int32(3), np.int32(999), np.int32(500)])


# Looking at a source.


def test_a_layer_holds_itself_what_it_wraps_and_properties_are_not_run():
    class Forwarding(Dm):
        @property
        def env(self):
            raise AssertionError("it was run")

        def __getattr__(self, name):
            return Dm()

    source = Forwarding(QUIET_DM)
    assert layers(source, dm_env.Environment) == [source]
