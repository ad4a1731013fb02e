"""Real dm_env environments through envoi, and dm_env's own conformance suite on our forms."""

import importlib

import numpy as np
import pytest
from dm_sources import Wrapping
from traces import exact

import envoi
from envoi import MissingBackend
from envoi.adapters import from_env, load
from envoi.adapters.dm_env.names import load as load_source

REAL = ["dm_control:cartpole/swingup", "dm_control:point_mass/easy", "bsuite:catch/0", "bsuite:catch_noise/3"]
SHORT = {"dm_control": {"time_limit": 0.3}, "bsuite": {}}


def make(name, **arguments):
    scheme, _, rest = name.partition(":")
    return load_source(scheme, rest, **{**SHORT[scheme], **arguments})


def actions(env, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        yield envoi.sample(env.action_spec, rng)


# The same trajectories.


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_real_source_lives_through_envoi_as_alone_for_the_same_seed_and_actions(name, seed):
    alone, env = make(name, seed=seed), envoi.Validated(from_env(make(name)))
    chosen = actions(env)
    for episode in range(3):
        first, reset = alone.reset(), env.reset(seed=seed if episode == 0 else None)
        assert exact(reset.observation) == exact(first.observation)
        while True:
            action = next(chosen)
            there, here = alone.step(action), env.step(action)
            assert exact(here[:2]) == exact((there.observation, there.reward))
            assert here.discount == there.discount
            assert (here.terminated, here.truncated) == (
                there.last() and there.discount == 0,
                there.last() and there.discount > 0,
            )
            if there.last():
                break


def test_the_state_of_dm_control_is_its_physics_and_rewarders_work_on_it():
    env = from_env(make("dm_control:cartpole/swingup"))
    env.reset(seed=0)
    np.testing.assert_array_equal(env.state, env.unwrapped.physics.get_state())
    held = env.state
    env.rewarder = lambda state, action, next_state: float(next_state[0] - state[0])
    step = env.step(np.array([1.0]))
    assert step.reward == env.state[0] - held[0]
    assert env.metadata["render_fps"] == pytest.approx(1 / env.unwrapped.control_timestep())
    assert env.render_mode == "rgb_array"
    assert from_env(Wrapping(env.source)).reset(seed=0).observation.keys() == {"position", "velocity"}


def test_a_generator_that_is_set_drives_dm_control():
    env = from_env(make("dm_control:cartpole/swingup"))
    drawn = []
    for seed in (4, 4, 5):
        env.rng = np.random.default_rng(seed)
        drawn.append(exact(env.reset()))
    assert drawn[0] == drawn[1] != drawn[2]
    lanes = envoi.batch(env, 2)
    first, other = lanes.reset(seed=3).observation["position"]
    assert not np.array_equal(first, other)


# Names.


def test_names_load_with_arguments_and_without_a_word(capfd):
    assert load("dm_control:cartpole/swingup?time_limit=0.02").reset().observation["position"].shape == (3,)
    limited = load("dm_control:cartpole/swingup", task_kwargs={"time_limit": 0.02}, environment_kwargs={})
    limited.reset(seed=0)
    steps = [limited.step(np.zeros(1)).truncated for _ in range(2)]
    assert steps == [False, True]
    flat = load("dm_control:cartpole/swingup", environment_kwargs={"flat_observation": True})
    assert list(flat.observation_spec) == ["observations"]
    assert exact(load("dm_control:cartpole/swingup", random=7).reset()) == exact(
        load("dm_control:cartpole/swingup", seed=7).reset()
    )
    one, other = (load("bsuite:catch/0", seed=3) for _ in range(2))
    assert exact([one.reset().observation for _ in range(5)]) == exact([other.reset().observation for _ in range(5)])
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("scheme", "package", "install"),
    [
        ("dm_control", "dm_control", "dm-control"),
        ("dm_control", "mujoco", "dm-control"),
        ("bsuite", "bsuite", "bsuite"),
    ],
)
def test_a_suite_that_is_not_installed_says_what_to_install(monkeypatch, scheme, package, install):
    def importing(module, *rest):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(importlib, "import_module", importing)
    with pytest.raises(MissingBackend, match=rf"{package} is not installed; pip install 'envoi\[{install}\]'"):
        load_source(scheme, "a/b")
