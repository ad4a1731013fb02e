"""A curriculum chooses for environments in processes of Stable-Baselines3."""

from functools import partial

import numpy as np
import pytest
from scripted import Logged
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import envoi
from envoi import adapters
from envoi.adapters.sb3 import CurriculumVecEnv
from envoi.curricula import Handed, PrioritizedLevelReplay

CONTEXTS = {f"{length:.1f}": {"length": length} for length in (0.3, 0.5, 0.7, 0.9)}


def make(selector=Handed):
    env = envoi.Contextual(adapters.load("envoi:cartpole"), CONTEXTS, context_selector=selector())
    return Monitor(adapters.to_gymnasium(envoi.TimeLimit(env, 40)))


@pytest.mark.parametrize("kind", [DummyVecEnv, partial(SubprocVecEnv, start_method="fork")])
def test_lanes_in_processes_play_what_was_chosen(kind):
    curriculum = Logged(2)
    venv = CurriculumVecEnv(kind([make] * 2), curriculum)
    try:
        model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
        model.learn(256)
        returns = [episode["r"] for episode in model.ep_info_buffer]
    finally:
        venv.close()
    assert {row["lane"] for row in curriculum.rows} == {0, 1}
    assert [row["return"] for row in curriculum.rows] == pytest.approx(returns)
    # Each lane plays its contexts in order: two are chosen at the reset, and one at each end.
    of_lane = {0: curriculum.chosen[:2], 1: curriculum.chosen[2:4]}
    for row, chosen in zip(curriculum.rows, curriculum.chosen[4:], strict=True):
        of_lane[row["lane"]].append(chosen)
    for lane, chosen in of_lane.items():
        played = [row["context_id"] for row in curriculum.rows if row["lane"] == lane]
        assert played == chosen[: len(played)]
        assert len(played) >= 3


def test_a_handed_selector_says_what_it_lacks():
    env = make()
    with pytest.raises(envoi.ContextError, match="CurriculumVecEnv"):
        env.reset()
    with pytest.raises(envoi.ContextError, match=r"context_selector=envoi\.curricula\.Handed"):
        CurriculumVecEnv(DummyVecEnv([partial(make, envoi.context.RoundRobin)]), PrioritizedLevelReplay())


def test_made_contexts_are_handed_over_by_their_values():
    selector = Handed()
    env = envoi.Contextual(adapters.load("envoi:cartpole"), context_selector=selector)
    env.exchange_contexts([(7, {**env.default_context, "length": 0.25})])
    env.reset(seed=0)
    assert (env.context_id, env.context["length"]) == (7, 0.25)
    assert np.isfinite(env.observation).all()
