"""envoi's models are in gymnasium's registry, so that scripts which take an id run them."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from traces import exact

import envoi
from envoi.adapters import from_env, load, names_of, to_gymnasium
from envoi.adapters.gymnasium.names import LIMITS
from envoi.models import MODELS


def test_every_model_of_one_agent_is_registered_with_its_limit():
    assert {kind.__name__: limit for kind, limit in MODELS.values()} == LIMITS
    assert {f"envoi/{name}-v0": limit for name, limit in LIMITS.items()} == {
        name: spec.max_episode_steps for name, spec in gymnasium.registry.items() if spec.namespace == "envoi"
    }
    assert not [name for name in names_of("gymnasium") if "envoi" in name]


@pytest.mark.parametrize("model", LIMITS)
def test_made_by_id_it_plays_as_by_name(model):
    made, named = gymnasium.make(f"envoi/{model}-v0"), load(f"envoi:{model.lower()}")
    assert exact(made.reset(seed=3)[0]) == exact(named.reset(seed=3).observation)
    over, length = False, 0
    while not over:
        action = named.sample_action()
        observation, reward, terminated, truncated, _ = made.step(action)
        step = named.step(action)
        assert exact(observation) == exact(step.observation)
        assert (reward, terminated, truncated) == (step.reward, step.terminated, step.truncated)
        over, length = terminated or truncated, length + 1
    assert made.spec.id == f"envoi/{model}-v0"
    assert exact(gymnasium.make(made.spec).reset(seed=3)[0]) == exact(named.reset(seed=3).observation)


@pytest.mark.parametrize(("model", "limit"), [("CartPole", 3), ("Catch", None)])
def test_made_by_id_it_is_taken_as_the_model_itself(model, limit):
    core = load(f"gymnasium:envoi.adapters.gymnasium:envoi/{model}-v0", max_episode_steps=limit)
    assert core.unwrapped is (core if limit is None else core.env)
    assert type(core.unwrapped).__name__ == model
    assert limit is None or (type(core), core.max_episode_steps) == (envoi.TimeLimit, limit)
    by_hand = gymnasium.wrappers.TimeLimit(to_gymnasium(core), 5)  # which is the source of its import, as any other
    assert from_env(by_hand).source is by_hand


def test_arguments_of_make_count():
    env = gymnasium.make("envoi/CartPole-v0", max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    assert gymnasium.make("envoi/GridWorld-v0", render_mode="rgb_array").render_mode == "rgb_array"
    with pytest.raises(envoi.SpecError, match="render_mode: expected None, which CartPole has, got 'rgb_array'"):
        gymnasium.make("envoi/CartPole-v0", render_mode="rgb_array")


@pytest.mark.parametrize("name", ["envoi:catch", "envoi:gridworld", "envoi:maze", "python:envoi.models:Catch"])
def test_a_spec_is_made_in_the_render_mode_of_its_model(name):
    spec = to_gymnasium(load(name)).spec
    for mode in ("rgb_array", None):
        made = gymnasium.make(spec, render_mode=mode)
        made.reset(seed=0)
        assert made.render_mode == "rgb_array"
        assert made.render().dtype == np.uint8
    with pytest.raises(envoi.SpecError, match=r"render_mode: expected 'rgb_array', which \w+ has"):
        gymnasium.make(spec, render_mode="human")


def rendered(render_mode=None):
    return load("gymnasium:CartPole-v1", render_mode=render_mode)


def test_a_factory_gets_the_mode_that_it_takes():
    spec = to_gymnasium(load(f"python:{__name__}:rendered")).spec
    assert gymnasium.make(spec, render_mode="rgb_array").render_mode == "rgb_array"


def test_lanes_are_those_of_one_batch():
    lanes = gymnasium.make_vec("envoi/CartPole-v0", num_envs=3, max_episode_steps=4)
    assert lanes.unwrapped.core.batch_size == 3
    lanes.reset(seed=0)
    assert [lanes.step(np.zeros(3, int))[3].all() for _ in range(4)] == [False, False, False, True]
    loop = gymnasium.make_vec("envoi/CartPole-v0", num_envs=3, vectorization_mode="sync")
    assert loop.reset(seed=0)[0].shape == (3, 4)


def test_a_script_with_an_id_alone_runs_it():
    script = "import gymnasium, sys; print(gymnasium.make(sys.argv[1]).reset(seed=0)[0].shape)"
    command = [sys.executable, "-c", script, "envoi.adapters.gymnasium:envoi/CartPole-v0"]
    assert subprocess.check_output(command, text=True) == "(4,)\n"
