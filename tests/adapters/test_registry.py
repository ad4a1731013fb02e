"""Environments by name, of any framework; whose an environment is; and what would be lost."""

import importlib
import importlib.util
import subprocess
import sys

import dm_env
import gymnasium
import numpy as np
import pytest
import scripted
from absent import optional
from forms import FORMS, MultiAgentEnv, made, stranger
from gymnasium.vector import SyncVectorEnv
from pettingzoo import ParallelEnv
from scripted import Ends
from small_models import Walk

import envoi
from envoi import Env, LossyConversion, MissingBackend, SpecError, UnknownName
from envoi.adapters import FRAMEWORKS, SCHEMES, TARGETS, convert, from_env, load, load_multi, losses, registry
from envoi.adapters.gymnasium import ToGymnasium, to_gymnasium
from envoi.adapters.rllib import RLlibEnv
from envoi.integrations.check import check_env


def test_arguments_in_the_name_and_as_keywords_reach_the_environment_and_keywords_win():
    assert load("gymnasium:FrozenLake-v1?map_name=8x8&is_slippery=False").observation_spec.n == 64
    assert load("gymnasium:FrozenLake-v1", map_name="8x8").observation_spec.n == 64
    assert load("gymnasium:FrozenLake-v1?map_name=4x4", map_name="8x8").observation_spec.n == 64
    assert load("envoi:cartpole?max_episode_steps=7").max_episode_steps == 7
    slow = load("gymnasium:CartPole-v1?max_episode_steps=3")
    slow.reset(seed=0)
    assert [slow.step(0).truncated for _ in range(3)] == [False, False, True]


def test_values_in_a_name_are_python_literals_or_else_strings():
    seen = {}
    module = importlib.import_module("scripted")
    module.note = lambda **arguments: seen.update(arguments) or Ends()
    load("python:scripted:note?a=1&b=0.5&c=True&d=None&e=8x8&f=[1,2]&g='q'&h=a=b&i=&j=false&k=NULL")
    del module.note
    words = {"e": "8x8", "g": "q", "h": "a=b", "i": ""}
    assert seen == {"a": 1, "b": 0.5, "c": True, "d": None, "f": [1, 2], "j": False, "k": None} | words


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gymnasium:CartPol-v1", "gymnasium:CartPole-v1"),
        ("gymnasium:CartPole-v9", "gymnasium:CartPole-v1"),
        ("gymnasium:cartpole-v1", "gymnasium:CartPole-v1"),
        ("gymnasium:Nowhere/CartPole-v1", "Namespace Nowhere not found"),
        ("envoi:cach", "envoi:catch"),
        ("gymnazium:CartPole-v1", "gymnasium"),
        ("CartPole-v1", "gymnasium:CartPole-v1"),
        ("catch", "envoi:catch"),
        ("gymnasium:", "scheme:name"),
        ("", "scheme:name"),
        ("python:scripted", "python:module:factory"),
        ("python::make", "python:module:factory"),
        ("python:.scripted:make", "python:module:factory"),
        ("python:no_such_module:make", "no_such_module"),
        ("python:scripted:make_end", "make_ends"),
        ("python:scripted:", "scripted"),
        ("dm_control:cartpole/swingupp", "did you mean 'dm_control:cartpole/swingup'"),
        ("dm_control:cartpole", "did you mean 'dm_control:cartpole/"),
        ("bsuite:cach/0", "did you mean 'bsuite:catch/0'"),
        ("bsuite:catch/99", "did you mean 'bsuite:catch/"),
        ("bsuite:catch", "did you mean 'bsuite:catch"),
        ("pettingzoo:classic/tictacto_v3", "did you mean 'pettingzoo:classic/tictactoe_v3'"),
        ("pettingzoo:classic/tictactoe_v1", "tictactoe_v3"),
        ("pettingzoo:nothing", "no such environment"),
    ],
)
def test_an_unknown_name_suggests_near_ones(name, says):
    with pytest.raises(UnknownName) as caught:
        load(name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Namespace" not in says or "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "gymnasium:CartPole-v1?no_such_argument=1",
        "gymnasium:CartPole-v1?render_mode",
        "gymnasium:CartPole-v1?1=2",
        "envoi:catch?no_such_argument=1",
        "pettingzoo:classic/tictactoe_v3?no_such_argument=1",
        "dm_control:cartpole/swingup?no_such_argument=1",
        "bsuite:catch/0?no_such_argument=1",
    ],
)
def test_an_unknown_argument_is_named(name):
    with pytest.raises(SpecError, match=r"no_such_argument|render_mode|1=2|takes no arguments"):
        load(name)


def test_an_error_of_gymnasium_that_is_not_about_the_name_is_passed_on():
    gymnasium.register("Refusing-v0", entry_point=lambda: (_ for _ in ()).throw(gymnasium.error.InvalidBound("why")))
    try:
        with pytest.raises(SpecError, match="why"):
            load("gymnasium:Refusing-v0")
    finally:
        del gymnasium.registry["Refusing-v0"]


def test_a_missing_extra_of_an_environment_says_what_is_missing():
    with pytest.raises(MissingBackend, match="no_such_module"):
        load("gymnasium:no_such_module:Thing-v0")


@pytest.mark.parametrize("name", ["ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_an_atari_game_names_the_missing_package(name, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda one, *rest: None if one == "ale_py" else find(one, *rest))
    with pytest.raises(MissingBackend, match=r"ale_py is not installed; pip install 'gymnasium\[atari\]'"):
        load(f"gymnasium:{name}")


@pytest.mark.parametrize("name", [name for name in TARGETS if not FRAMEWORKS[name].stands_alone])
def test_a_missing_framework_gives_the_line_that_installs_it(name, monkeypatch):
    row = FRAMEWORKS[name]
    monkeypatch.setitem(sys.modules, row.package, None)
    expected = f"pip install 'envoi\\[{row.extra}\\]'"
    with pytest.raises(MissingBackend, match=expected):
        row.load()
    with pytest.raises(MissingBackend, match=expected):
        convert(Ends(), name)
    with pytest.raises(MissingBackend, match=expected):
        losses(Ends(), name)
    with pytest.raises(MissingBackend, match=expected):
        getattr(envoi.adapters, f"to_{name}")
    with pytest.raises(ImportError):
        getattr(envoi.adapters, f"from_{name}")
    with pytest.raises(SpecError, match="expected one of"):
        from_env(object())


def test_a_framework_that_environments_only_come_from_is_no_target():
    for call in (convert, losses):
        with pytest.raises(UnknownName, match="gridverse: environments only come from there; there are: dm_env"):
            call(Ends(), "gridverse")


def test_python_factories_classes_and_ready_environments_load():
    for name in ("scripted:make_ends", "scripted:Ends", "scripted:ready"):
        assert isinstance(load(f"python:{name}"), Ends)
    assert isinstance(load("python:scripted:make_source").unwrapped, scripted.Source)
    # Two that load it share nothing.
    assert load("python:scripted:ready") is not scripted.ready
    assert isinstance(load("python:scripted:make_ends?flavour=2"), Ends)


def forgetful():
    Ends()


@pytest.mark.parametrize(
    ("name", "got"),
    [
        (f"{__name__}:forgetful", r"None; does it end with a return\?"),
        ("os:getcwd", "'/"),
        ("os:path", "<module"),
    ],
)
def test_a_python_name_that_makes_no_environment_is_named_with_what_it_makes(name, got):
    with pytest.raises(SpecError, match=f"^python:{name}: expected a function that returns an environment, got {got}"):
        load(f"python:{name}")


def test_any_environment_becomes_a_core_one_and_a_core_one_stays_itself():
    core, source = Ends(), gymnasium.make("CartPole-v1")
    assert from_env(core) is core
    assert from_env(source).source is source
    assert from_env(envoi.adapters.to_rllib(core)()).observation_spec == core.observation_spec


@pytest.mark.parametrize("strange", [None, 3, object(), gymnasium.spaces.Discrete(2), np.zeros(2)])
def test_a_strange_object_is_refused_with_what_would_be_known(strange):
    with pytest.raises(SpecError) as caught:
        from_env(strange)
    for name in ("an envoi.Env", *TARGETS, type(strange).__qualname__):
        assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(SpecError, match="expected 'scheme:name', such as 'gymnasium:CartPole-v1', got"):
        load(strange)


def test_a_name_and_a_class_are_distinguished_from_an_environment():
    with pytest.raises(SpecError, match=r"got a name; load\('gymnasium:CartPole-v1'\) makes one of it"):
        from_env("gymnasium:CartPole-v1")
    with pytest.raises(SpecError, match="got the class Ends; make an instance of it"):
        from_env(Ends)
    for takes in (envoi.TimeLimit, envoi.batch):
        with pytest.raises(SpecError, match="expected a core environment"):
            takes(gymnasium.make("CartPole-v1"), 5)


def test_convert_is_the_frameworks_own_function():
    form = convert(load("envoi:catch"), "gymnasium", validate=True)
    assert isinstance(form, gymnasium.Env)
    assert convert(form, "gymnasium") is form
    assert convert("envoi:catch", "rllib")().core.reset(seed=0)
    with pytest.raises(UnknownName, match="gymnasium"):
        convert(Ends(), "gymnasiun")
    with pytest.raises(UnknownName, match="rllib"):
        losses(Ends(), "rlib")


def test_a_lossless_environment_has_no_losses():
    for name in ("cartpole", "pendulum", "gridworld"):
        assert losses(load(f"envoi:{name}"), "gymnasium") == losses(load(f"envoi:{name}"), "rllib") == []
    assert losses(load("envoi:catch"), "gymnasium") == []
    assert [(loss.path, loss.field) for loss in losses(load("envoi:catch"), "rllib")] == [("observation", "shape")]
    assert losses(gymnasium.make("CartPole-v1"), "gymnasium") == []


def test_every_spoke_offers_what_its_row_promises():
    for name, row in FRAMEWORKS.items():
        if name == "envpool" and importlib.util.find_spec("envpool") is None:
            continue  # no part of the developers' environment, because of its size
        package = row.load()
        for part in (f"from_{name}", "recognises", *([f"to_{name}", "losses"] if row.is_target else [])):
            assert callable(getattr(package, part))
            if part.endswith(name):
                assert getattr(envoi.adapters, part) is getattr(package, part)
                assert part in envoi.adapters.__all__
        if row.schemes:
            assert callable(package.load)
        assert "What is lost" in package.__doc__
    assert set(SCHEMES) == {"gymnasium", "dm_control", "bsuite", "pettingzoo", "envpool", "envoi", "python"}
    with pytest.raises(AttributeError, match="to_nothing"):
        getattr(envoi.adapters, "to_" + "nothing")
    assert set(dir(registry)) >= {"convert", "from_env", "losses"}


def test_importing_the_adapters_imports_no_framework_and_from_env_looks_at_none():
    code = (
        "import sys, envoi.adapters as a\n"
        "a.from_env(a.load('envoi:catch'))\n"
        "try: a.from_env(3)\n"
        "except a.registry.SpecError: pass\n"
        "print([m for m in ('gymnasium', 'ray', 'torch') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_importing_an_adapter_without_its_framework_does_not_break_recognition(monkeypatch):
    importlib.import_module("envoi.adapters.rllib")  # as for its codec, which needs no Ray
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert isinstance(from_env(gymnasium.make("CartPole-v1")), envoi.Env)
    assert isinstance(from_env(envoi.adapters.rllib.RLlibEnv(Ends())), envoi.Env)


def test_a_star_import_leaves_out_what_is_not_installed():
    lines = (
        "import importlib.util",
        "found, absent = importlib.util.find_spec, ('ray', 'stable_baselines3')",
        "importlib.util.find_spec = lambda name, *rest: None if name in absent else found(name, *rest)",
        "from envoi.adapters import *",
        "print('to_sb3' in dir(), 'to_rllib' in dir(), 'to_gymnasium' in dir(), 'load_multi' in dir())",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "True"]


def test_agents_by_name():
    assert isinstance(load_multi("envoi:nim"), envoi.MultiEnv)
    assert list(load_multi("envoi:catch").possible_agents) == ["agent"]


to_rllib = optional("envoi.adapters", "to_rllib")


class Walkers(MultiAgentEnv):
    """Agents that walk to 3, as a user writes them for RLlib."""

    def __init__(self, names=("left", "right", "middle")):
        super().__init__()
        self.possible_agents = self.agents = list(names)
        self.observation_spaces = {name: gymnasium.spaces.Box(0, 9, (1,), np.float32) for name in names}
        self.action_spaces = {name: gymnasium.spaces.Discrete(4) for name in names}

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self._seen(), {name: {} for name in self.agents}

    def step(self, action_dict):
        self.at += 1
        over = {"__all__": self.at == 3, **dict.fromkeys(self.agents, self.at == 3)}
        rewards = {name: float(action) for name, action in action_dict.items()}
        return self._seen(), rewards, over, dict.fromkeys(over, False), {name: {} for name in self.agents}

    def _seen(self):
        return {name: np.full(1, self.at, np.float32) for name in self.agents}


class Both(scripted.Returning, dm_env.Environment):
    """An environment of two frameworks at once."""

    def observation_spec(self):
        return dm_env.specs.BoundedArray((1,), np.float32, 0, 1)

    def action_spec(self):
        return dm_env.specs.DiscreteArray(2)


def tried(call, *args):
    """The result of a call, and the error for which it was refused."""
    try:
        return call(*args), None
    except (LossyConversion, SpecError) as error:
        return None, error


HOMES = {"vector": "gymnasium_vector", "rllib several": "rllib", "rllib batch": "rllib", "tf_agents batch": "tf_agents"}
"""The frameworks of the rows of the table of forms that are not called as their framework."""


def home_of(name):
    return "gymnasium_vector" if name.startswith("vector") else HOMES.get(name, name)


def unread(row):
    """The framework of third-party environments of RLlib's single forms and batches: gymnasium."""
    return {"rllib": "gymnasium", "rllib batch": "gymnasium_vector"}.get(row, home_of(row))


ENVS = {
    **{f"a form: {row}": (lambda row=row: made(row), home_of(row)) for row in FORMS},
    **{f"third-party: {row}": (lambda row=row: stranger(row), unread(row)) for row in FORMS},
    "several of RLlib": (Walkers, "rllib"),
    "one of RLlib": (lambda: Walkers(["only"]), "rllib"),
    "several of RLlib, wrapped": (lambda: gymnasium.Wrapper(Walkers()), "rllib"),
    "our form of one, wrapped": (lambda: gymnasium.Wrapper(to_rllib(Walkers(["only"]))({})), "rllib"),
    "RLlib's form, wrapped": (lambda: gymnasium.Wrapper(RLlibEnv(Walk())), "gymnasium"),
    "a creator": (lambda: to_rllib(Walk()), "rllib"),
    "a loop of gymnasium": (lambda: SyncVectorEnv([lambda: to_gymnasium(Walk())] * 2), "gymnasium_vector"),
}
"""How an environment is made, and its framework."""


@pytest.mark.filterwarnings("ignore:.*precision narrowed")
@pytest.mark.parametrize(("make", "home"), ENVS.values(), ids=ENVS)
def test_every_function_takes_an_environment_for_one_of_its_most_specific_framework(make, home):
    assert registry.home(make()).name == home
    core = from_env(make())
    for target in TARGETS:
        env = make()
        assert registry.is_of(env, target) is (target == home)
        refused = [loss for loss in losses(env, target) if loss.refused]
        form, error = tried(convert, env, target)
        if error is not None:
            assert str(getattr(error, "path", "lanes")) in {loss.path for loss in refused}
            assert isinstance(error, LossyConversion) or (core.batch_size is not None and "lane" in str(error))
            continue
        assert not refused
        if target != "rllib":  # which is reached by a creator
            assert (form is env) is (target == home)
            assert registry.is_of(form, target)
    for row in registry.FRAMEWORKS.values():
        if row.name == "envpool" and importlib.util.find_spec("envpool") is None:  # see `make test-envpool`
            continue
        reads = getattr(row.load(), f"from_{row.name}")
        read, error = tried(reads, make())
        if error is not None:
            assert row.name != home
            assert f"use from_{home}(env)" in str(error)
        else:
            assert type(read) is type(core) or {row.name, home} == {"pettingzoo", "pettingzoo_aec"}


@pytest.mark.parametrize("wrap", [lambda env: env, gymnasium.Wrapper], ids=["bare", "wrapped"])
def test_one_agent_of_rllib_goes_to_gymnasium_and_back(wrap):
    form = to_gymnasium(wrap(Walkers(["only"])))
    assert isinstance(form, ToGymnasium)
    assert isinstance(form.core, Env)
    observation, info = form.reset(seed=0)
    assert (observation.tolist(), info) == ([0.0], {})
    assert form.step(3)[:4] == (np.ones(1, np.float32), 3.0, False, False)


def test_an_environment_of_two_frameworks_is_each_ones_own():
    env = Both(gymnasium.spaces.Box(0, 1, (1,), np.float32), lambda env: np.zeros(1, np.float32))
    assert convert(env, "gymnasium") is env
    assert convert(env, "dm_env") is env
    assert isinstance(from_env(env), envoi.adapters.dm_env.FromDmEnv)


@pytest.mark.parametrize("validate", [False, True])
def test_a_parallel_game_is_not_taken_for_an_agents_cycle(validate):
    game, cycle = made("pettingzoo"), made("pettingzoo_aec")
    assert isinstance(convert(cycle, "pettingzoo", validate=validate), ParallelEnv)
    assert not isinstance(convert(game, "pettingzoo_aec", validate=validate), ParallelEnv)


def test_the_check_plays_several_agents_of_rllib_by_their_core():
    report = check_env(Walkers)
    assert not [result for result in report.failures if "origin" in str(result)]
