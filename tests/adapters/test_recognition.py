"""Which framework an environment belongs to: the most specific one, whatever it inherits, for every function alike."""

import importlib.util

import dm_env
import gymnasium
import numpy as np
import pytest
from absent import optional
from forms import FORMS, MultiAgentEnv, made, stranger
from gymnasium.vector import SyncVectorEnv
from pettingzoo import ParallelEnv
from small_models import Walk

import envoi
from envoi import Env, LossyConversion, SpecError
from envoi.adapters import TARGETS, convert, from_env, losses, registry, to_gymnasium
from envoi.adapters.gymnasium import ToGymnasium
from envoi.adapters.rllib import RLlibEnv
from envoi.integrations.check import check_env

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


class Both(gymnasium.Env, dm_env.Environment):
    """An environment of two frameworks at once."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

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
            assert isinstance(error, LossyConversion) or (core.batch_size is not None and "batch" in str(error))
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
    env = Both()
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
