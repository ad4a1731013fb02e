"""Outer environments of gym-gridverse, known by their methods."""

import contextlib
import copy
import io
import os
import pickle
import re
from pathlib import Path

import gridverse_like
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from traces import exact

import envoi
from envoi.adapters import from_env, from_gridverse, to_gymnasium
from envoi.adapters.gridverse import recognises


def test_it_is_recognised_by_its_methods_alone():
    assert recognises(gridverse_like.make())
    assert isinstance(from_env(gridverse_like.make()), envoi.Env)
    for other in (object(), gridverse_like.Inner(), gymnasium.make("CartPole-v1"), type):
        assert not recognises(other)


def test_its_representations_become_specs_with_their_bounds():
    env = from_gridverse(gridverse_like.make())
    assert env.observation_spec == {
        "place": envoi.Array((1,), "int64", [0], [10], "place"),
        "far": envoi.Array((1,), "float64", [0.0], [2.0], "far"),
    }
    assert env.state_spec == {
        "place": envoi.Array((1,), "int64", [0], [10], "place"),
        "end": envoi.Array((1,), "int64", [0], [2], "end"),
    }
    assert env.action_spec == envoi.Discrete(3, name="action")


def test_the_kinds_of_its_spaces_stay_known_everywhere():
    env = from_gridverse(gridverse_like.make())
    kinds = {
        "observation": {"place": "discrete", "far": "continuous"},
        "state": {"place": "discrete", "end": "categorical"},
    }
    assert env.kinds == kinds
    for form in (envoi.TimeLimit(env, 5), to_gymnasium(env), from_env(to_gymnasium(env)), envoi.batch(env, 2)):
        assert form.metadata["kinds"] == kinds
    assert "state" not in from_gridverse(gridverse_like.make(state=False)).kinds


def test_it_plays_as_it_does_alone():
    source, env = gridverse_like.make(), envoi.Validated(from_gridverse(gridverse_like.make()))
    rng, steps = np.random.default_rng(1), 0
    for seed in (0, 1, None, 7, None):
        if seed is not None:
            source.inner_env.set_seed(seed)
        source.reset()
        env.reset(seed=seed)
        over = False
        while not over:
            seen = env.observation
            held = exact(seen)
            assert held == exact(source.observation)
            assert exact(env.state) == exact(source.state)
            action = int(rng.integers(3))
            reward, over = source.step(source.action_space.int_to_action(action))
            step = env.step(action)
            assert (step.reward, step.terminated, step.truncated) == (reward, over, False)
            assert step.discount == (0.0 if over else 1.0)
            assert exact(seen) == held
            steps += 1
        assert exact(env.observation) == exact(source.observation)
    assert steps > 20


def test_looking_again_changes_nothing_that_follows():
    once, often = (from_gridverse(gridverse_like.make()) for _ in range(2))
    for env in (once, often):
        env.reset(seed=5)
    over = False
    while not over:
        for _ in range(3):
            assert exact(often.observation) == exact(once.observation)
            assert exact(often.state) == exact(once.state)
        step = once.step(2)
        assert exact(often.step(2)) == exact(step)
        over = step.terminated
    assert often.source.inner_env.looks == once.source.inner_env.looks


def test_a_snapshot_continues_exactly():
    env = from_gridverse(gridverse_like.make())
    env.reset(seed=3)
    held = env.snapshot()
    first = exact(env.step(1))
    for _ in range(2):
        env.restore(held)
        assert exact(env.step(1)) == first
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert exact(twin.observation) == exact(env.observation)


def test_another_rewarder_sees_represented_states():
    env = from_gridverse(gridverse_like.make())
    env.rewarder = env.rewarder + (lambda state, action, next_state: float(next_state["place"][0]))
    env.reset(seed=0)
    assert env.step(2).reward == -1.0 + env.state["place"][0]


def test_without_an_observation_representation_it_is_refused():
    missing = r"observation: .* \(representation not available\); give the outer"
    with pytest.raises(envoi.LossyConversion, match=missing):
        from_gridverse(gridverse_like.make(observation=False))


def test_without_a_state_representation_rewarders_see_the_objects():
    env, seen = from_gridverse(gridverse_like.make(state=False)), []

    def rewarder(state, action, next_state):
        seen.append((state, next_state))
        return float(next_state.place)

    env.rewarder = rewarder
    env.reset(seed=0)
    assert env.state_spec is None
    missing = r"state: representation not available; .*\.source\.inner_env\.state"
    with pytest.raises(envoi.NotRepresented, match=missing):
        env.state  # noqa: B018
    assert env.step(2).reward == env.source.inner_env.state.place
    before, after = copy.deepcopy(seen[0])
    env.step(0)
    assert seen[0] == (before, after)
    assert seen[1][0] == after


def test_it_converts_to_gymnasium():
    env = to_gymnasium(gridverse_like.make())
    check_env(env, skip_render_check=True)
    with pytest.raises(envoi.EpisodeError, match="call reset"):
        to_gymnasium(gridverse_like.make()).step(0)


PAGE = Path(__file__).parents[2] / "docs" / "coming_from" / "gridverse.md"


def test_the_page_runs_with_gym_gridverse_itself(tmp_path, monkeypatch):
    """Runs where gym-gridverse is installed; `ENVOI_GRIDVERSE` is the folder `yaml` of its repository."""
    pytest.importorskip("gym_gridverse")
    folder = os.environ.get("ENVOI_GRIDVERSE")
    if folder is None:
        pytest.skip("ENVOI_GRIDVERSE does not name the folder of gym-gridverse's worlds")
    monkeypatch.chdir(folder)
    names = {}
    blocks = re.findall(r"```py\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for code, printed in blocks:
        with contextlib.redirect_stdout(output := io.StringIO()):
            exec(compile(code, PAGE.name, "exec"), names)
        assert output.getvalue() == printed

    from envoi.integrations.check import check_env

    check_env(lambda: envoi.TimeLimit(from_env(names["make"]()), 100), frameworks=["gymnasium"]).raise_if_failed()
