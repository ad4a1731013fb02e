"""The attributes of models, wrappers and sources, reached through forms as each framework's users reach for them."""

from copy import deepcopy

import gymnasium
import numpy as np
import pytest
from absent import optional
from forms import FORMS
from gymnasium.vector import SyncVectorEnv, VectorWrapper
from small_models import Flock, Walk
from traces import COPIES

import envoi
from envoi import SpecError
from envoi.adapters import from_env, load, registry, to_tf_agents
from envoi.adapters.dm_env import to_dm_env
from envoi.adapters.gymnasium import FromGymnasium, ToGymnasium, from_gymnasium, to_gymnasium
from envoi.adapters.gymnasium_vector import from_gymnasium_vector, to_gymnasium_vector
from envoi.adapters.pettingzoo import to_pettingzoo
from envoi.adapters.pettingzoo_aec import to_pettingzoo_aec

to_rllib, from_rllib = (optional("envoi.adapters", name) for name in ("to_rllib", "from_rllib"))
DummyVecEnv = optional("stable_baselines3.common.vec_env", "DummyVecEnv")

PENDULUM = "gymnasium:Pendulum-v1"


class Tuned(Walk):
    """A model with an attribute of its own, and one that is private."""

    speed = 3.0
    _hidden = 1

    def __init__(self):
        self.names = ["a", "b"]

    def __len__(self):
        return 0  # it counts as false

    def twice(self, number):
        return 2 * number * self.speed


class Flagged(envoi.Wrapper):
    """A wrapper with attributes of its own, one called as the model's."""

    speed = "as the wrapper has it"

    def __init__(self, env, flag):
        super().__init__(env)
        self.flag = flag


# gymnasium's routes.


def test_unwrapped_is_the_native_environment_under_all_wrappers_of_the_core():
    env = load(PENDULUM)
    form = to_gymnasium(envoi.TimeLimit(env, 50))
    assert form.unwrapped is env.source.unwrapped
    form.unwrapped.g = 3.0
    assert form.unwrapped.g == form.get_wrapper_attr("g") == 3.0
    again = to_gymnasium(envoi.TimeLimit(from_gymnasium(gymnasium.Wrapper(form)), 9))
    assert again.unwrapped is form.unwrapped
    assert gymnasium.Wrapper(again).unwrapped is form.unwrapped


def test_attributes_are_those_of_the_outermost_that_has_them():
    env = load(PENDULUM)
    form = to_gymnasium(Flagged(envoi.TimeLimit(env, 50), flag=[1]))
    assert form.get_wrapper_attr("flag") == [1]
    assert form.get_wrapper_attr("max_episode_steps") == 50
    assert form.get_wrapper_attr("dt") == 0.05
    assert form.get_wrapper_attr("has_reset") is False  # of a wrapper of gymnasium
    assert form.get_wrapper_attr("render_mode") is form.render_mode
    assert form.get_wrapper_attr("speed") == "as the wrapper has it"
    assert form.get_wrapper_attr("_get_obs").__self__ is env.source.unwrapped
    assert form.get_wrapper_attr("rewarder") == env.rewarder
    assert form.has_wrapper_attr("dt")
    for name in ("nothing", "_step_count", "__nothing__"):
        assert not form.has_wrapper_attr(name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            form.get_wrapper_attr(name)


def test_a_source_keeps_its_own_meaning_of_a_name_that_the_core_has_too():
    form = to_gymnasium(envoi.TimeLimit(load("gymnasium:CartPole-v1"), 9))
    form.reset(seed=0)
    assert form.get_wrapper_attr("state") is form.unwrapped.state
    form.set_wrapper_attr("state", (0.0, 0.0, 0.0, 0.0))
    assert form.step(1)[0][0] == 0.0


@pytest.mark.parametrize("set_it", [ToGymnasium.set_wrapper_attr, lambda form, name, value: setattr(form, name, value)])
def test_setting_through_a_form_reaches_the_model_and_shadows_nothing(set_it):
    model = Tuned()
    form = to_gymnasium(Flagged(envoi.TimeLimit(model, 9), flag=1))
    set_it(form, "names", ["c"])
    set_it(form.unwrapped, "flag", 2)
    set_it(form, "max_episode_steps", 5)
    assert (model.names, form.core.flag, form.core.env.max_episode_steps) == (["c"], 2, 5)
    assert not {"names", "flag", "max_episode_steps"} & vars(form).keys()
    form.set_wrapper_attr("_hidden", 7)
    assert model._hidden == 7


def test_an_attribute_that_none_has_is_set_on_the_form_where_that_is_forced():
    form = to_gymnasium(envoi.TimeLimit(load(PENDULUM), 50))
    assert form.set_wrapper_attr("mine", 1, force=False) is False
    assert not form.has_wrapper_attr("mine")
    assert form.set_wrapper_attr("mine", 1) is True
    assert form.mine == 1
    assert form.set_wrapper_attr("mine", 2, force=False) is True
    wrapped = gymnasium.Wrapper(form)
    assert wrapped.set_wrapper_attr("g", 1.5, force=False) is True
    assert form.unwrapped.g == 1.5


OPEN = [name for name, row in FORMS.items() if row.kind != "lanes"]


@pytest.mark.filterwarnings("ignore:.*precision narrowed")
@pytest.mark.parametrize("copied", [lambda form: form, *[COPIES[how] for how in ("deepcopy", "pickle", "cloudpickle")]])
@pytest.mark.parametrize("name", OPEN)
def test_a_form_and_its_copies_have_the_attributes_of_the_model(name, copied):
    model = envoi.TimeLimit(Tuned(), 5)
    form = FORMS[name].make(envoi.as_multi(model) if FORMS[name].kind == "several" else model)
    form.names.append("c")
    form.elsewhere = True  # which no code of its class names
    twin = copied(form)
    twin.speed = 1.0
    assert (twin.names, twin.speed, twin.twice(1), twin.max_episode_steps) == (["a", "b", "c"], 1.0, 2.0, 5)
    assert twin.elsewhere is True
    assert form.speed == (1.0 if twin is form else 3.0)
    assert {"speed", "names", "twice"} <= set(dir(twin))
    assert not hasattr(twin, "nothing")


NATIVES = {
    "gymnasium": (to_gymnasium, "dm_control:cartpole/swingup", "physics"),
    "dm_env": (to_dm_env, "dm_control:cartpole/swingup", "task"),
    "bsuite": (to_dm_env, "bsuite:catch/0", "bsuite_num_episodes"),
    "tf_agents": (to_tf_agents, "dm_control:cartpole/swingup", "physics"),
    "pettingzoo": (to_pettingzoo, "pettingzoo:classic/tictactoe_v3", "board"),
    "pettingzoo_aec": (to_pettingzoo_aec, "pettingzoo:classic/tictactoe_v3", "board"),
    "rllib": (lambda env: to_rllib(env)({}), PENDULUM, "g"),
    "rllib several": (lambda env: to_rllib(env)({}), "pettingzoo:classic/tictactoe_v3", "board"),
}


@pytest.mark.filterwarnings("ignore:.*precision narrowed")
@pytest.mark.parametrize("name", NATIVES)
def test_a_form_has_the_attributes_of_its_source(name):
    to, source, attribute = NATIVES[name]
    core = load(source)
    form = to(envoi.MultiWrapper(core) if isinstance(core, envoi.MultiEnv) else envoi.TimeLimit(core, 9))
    native = getattr(form.core.unwrapped, attribute)
    assert getattr(form, attribute) is form.get_wrapper_attr(attribute) is native


def test_a_form_takes_no_attribute_by_which_another_framework_is_recognised():
    class Odd(Tuned):
        observation_space = action_space = reward_space = envs = agents = "of the model"
        core = close = "of the model, too"

    model = Odd()
    model.close = lambda: None
    for to in (to_gymnasium, to_dm_env, to_pettingzoo):
        form = to(model)
        assert form.core is model
        assert not hasattr(form, "reward_space")
        assert not hasattr(form, "envs")
        assert from_env(form) is model
        assert registry.is_of(form, to.__name__.removeprefix("to_"))
    assert not hasattr(to_dm_env(model), "observation_space")
    assert from_gymnasium(gymnasium.Wrapper(to_gymnasium(model))).reward_spec.shape == ()
    assert to_gymnasium(model).get_wrapper_attr("reward_space") == "of the model"


def test_a_form_inside_wrappers_of_gymnasium_speaks_for_its_core():
    core = envoi.TimeLimit(load(PENDULUM), 50)
    env = from_gymnasium(gymnasium.Wrapper(to_gymnasium(core)))
    assert isinstance(env, FromGymnasium)
    env.reset(seed=3)
    assert env.unwrapped.core is core
    assert env.rng is core.rng
    env.rng = np.random.default_rng(5)
    assert core.rng is env.rng
    np.testing.assert_equal(env.state, core.state)


LOOPS = {
    "copies": lambda: to_gymnasium_vector(envoi.TimeLimit(load(PENDULUM), 50), 3),
    "a factory": lambda: to_gymnasium_vector(lambda: load(PENDULUM), 3),
    "a loop of gymnasium": lambda: to_gymnasium_vector(
        SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")] * 3), autoreset_mode="SameStep"
    ),
    "wrapped lanes": lambda: to_gymnasium_vector(
        envoi.TimeLimit(from_gymnasium_vector(SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")] * 3)), 5)
    ),
    "a source of lanes": lambda: to_gymnasium_vector(
        envoi.TimeLimit(from_gymnasium_vector(VectorWrapper(to_gymnasium_vector(load(PENDULUM), 3))), 5)
    ),
    "native": lambda: SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")] * 3),
    "RLlib's": lambda: to_rllib(PENDULUM, num_envs=3)({}),
}


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_lanes_that_are_looped_over_answer_each_for_itself(make):
    form = make()
    assert form.get_attr("g") == form.call("g") == (10.0,) * 3
    form.set_attr("g", [1.0, 2.0, 3.0])
    assert form.get_attr("g") == (1.0, 2.0, 3.0)
    form.set_attr("g", 4.0)
    assert form.get_attr("g") == (4.0,) * 3
    form.reset(seed=1)
    assert [one.shape for one in form.call("_get_obs")] == [(3,)] * 3
    assert len(form.get_attr("render_mode")) == 3
    assert [space.shape for space in form.get_attr("action_space")] == [(1,)] * 3
    with pytest.raises(ValueError, match="3"):
        form.set_attr("g", [1.0])
    with pytest.raises(AttributeError, match="nothing"):
        form.get_attr("nothing")
    form.step(form.action_space.sample())
    twin = deepcopy(form)
    twin.set_attr("g", 7.0)
    assert (twin.get_attr("g"), form.get_attr("g")) == ((7.0,) * 3, (4.0,) * 3)


def test_a_method_is_called_with_arguments_in_each_lane():
    form = to_gymnasium_vector(Tuned(), 2)
    assert form.call("twice", 5) == (30.0, 30.0)
    form.set_attr("speed", [1.0, 2.0])
    assert form.call("twice", number=5) == (10.0, 20.0)
    assert form.get_attr("names") == (["a", "b"], ["a", "b"])


class Herd(Flock):
    pull = 2.0
    calls = 0

    def count(self):
        self.calls += 1
        return self.calls


def test_lanes_that_share_a_model_give_its_value_for_each():
    form = to_gymnasium_vector(envoi.TimeLimit(Herd(), 9), 3)
    assert form.get_attr("pull") == (2.0,) * 3
    assert form.call("count") == (1, 1, 1)
    assert form.get_attr("max_episode_steps") == (9,) * 3
    form.set_attr("pull", 4.0)
    form.set_attr("calls", [5, 5, 5])
    assert (form.core.unwrapped.pull, form.call("count")) == (4.0, (6,) * 3)
    with pytest.raises(SpecError, match="pull: expected one value for all lanes"):
        form.set_attr("pull", [1.0, 2.0, 3.0])
    with pytest.raises(AttributeError, match="no lane has an attribute 'nothing'"):
        form.set_attr("nothing", 1)
    assert form.unwrapped is form


@pytest.mark.parametrize("to", [to_pettingzoo, to_pettingzoo_aec])
def test_a_pettingzoo_form_has_the_generator_of_the_environment_inside(to):
    push = load("pettingzoo:mpe/simple_push_v3")
    for core in (push, load("envoi:rps")):
        form = to(envoi.MultiWrapper(core))
        form.reset(seed=3)
        assert form.np_random is form.unwrapped.np_random is core.rng
        generator = form.np_random = np.random.default_rng(5)
        assert form.np_random is core.rng is generator
    assert push.unwrapped.np_random is push.rng


class Reading(Walk):
    """Has a method that reads an attribute which the class does not have."""

    def read_limit(self):
        return getattr(self, "limit", None)


class Around(gymnasium.Wrapper):
    pass


def wrapped_cartpole():
    return from_gymnasium(Around(gymnasium.make("CartPole-v1")))


every_process = pytest.mark.parametrize("workers", [None, 1])


@every_process
def test_a_new_attribute_is_set_in_the_lane(workers):
    form = to_gymnasium_vector(envoi.batch(Reading, 2, workers=workers))
    form.set_attr("limit", [2, 3])
    assert form.get_attr("limit") == (2, 3)
    assert form.call("read_limit") == (2, 3)
    form.close()


@pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")
@every_process
def test_wrappers_of_lanes_are_found(workers):
    form = optional("envoi.adapters", "to_sb3")(envoi.batch(wrapped_cartpole, 2, workers=workers))
    assert form.env_is_wrapped(Around) == [True, True]
    assert form.env_is_wrapped(gymnasium.wrappers.ClipAction, [1]) == [False]
    form.close()
