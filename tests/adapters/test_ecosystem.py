"""The suites that gymnasium and Stable-Baselines3 ship, on our forms."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from envoi import TimeLimit, Validated, models
from envoi.adapters import load, to_gymnasium

REAL = ["CartPole-v1", "Taxi-v3", "FrozenLake-v1", "Blackjack-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1"]
FORMS = {f"envoi:{name}": lambda name=name: to_gymnasium(load(f"envoi:{name}")) for name in models.MODELS}
FORMS |= {
    f"gymnasium:{name}, wrapped here": lambda name=name: to_gymnasium(TimeLimit(load(f"gymnasium:{name}"), 50))
    for name in REAL
}

advice = pytest.mark.filterwarnings(
    "ignore:.*A Box observation space (minimum|maximum) value:UserWarning",
    "ignore:.*not within the observation space:UserWarning",
    "ignore:.*action space.*normalized:UserWarning",
    "ignore:.*symmetric and normalized:UserWarning",
    "ignore:.*no spec:UserWarning",
    "ignore:.*spec:UserWarning",
    "ignore:.*Box action space:UserWarning",
)


@advice
@pytest.mark.parametrize("name", FORMS)
def test_gymnasiums_own_check_passes(name):
    check_env(FORMS[name](), skip_render_check=True)


@advice
@pytest.mark.parametrize("name", FORMS)
def test_stable_baselines3s_own_check_passes(name):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(FORMS[name](), warn=False, skip_render_check=True)


@pytest.mark.parametrize("wrap", ["TimeLimit", "FlattenObservation", "RecordEpisodeStatistics", "OrderEnforcing"])
def test_gymnasiums_own_wrappers_work_on_a_form(wrap):
    form = to_gymnasium(load("envoi:gridworld"))
    kind = getattr(gymnasium.wrappers, wrap)
    env = kind(form, 7) if wrap == "TimeLimit" else kind(form)
    observation, _ = env.reset(seed=0)
    for _ in range(7):
        assert env.observation_space.contains(observation)
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            break
    if wrap == "TimeLimit":
        assert terminated or truncated
    env.close()


def test_a_vector_of_forms_gives_each_lane_what_it_gives_alone():
    lanes = gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium(load("envoi:gridworld"))] * 3)
    observations, _ = lanes.reset(seed=[4, 5, 6])
    alone = to_gymnasium(load("envoi:gridworld"))
    for lane, seed in enumerate((4, 5, 6)):
        observation, _ = alone.reset(seed=seed)
        for key in observation:
            np.testing.assert_array_equal(observations[key][lane], observation[key])
    lanes.close()


def test_a_form_can_be_registered_and_made_by_gymnasium():
    gymnasium.register("EnvoiCatch-v0", entry_point=lambda: to_gymnasium(load("envoi:catch")), max_episode_steps=4)
    try:
        env = gymnasium.make("EnvoiCatch-v0")
        check_env(env.unwrapped, skip_render_check=True)
        env.reset(seed=0)
        assert [env.step(1)[3] for _ in range(4)] == [False, False, False, True]
        assert isinstance(Validated(load("gymnasium:EnvoiCatch-v0")).reset(seed=0).observation, np.ndarray)
    finally:
        del gymnasium.registry["EnvoiCatch-v0"]
