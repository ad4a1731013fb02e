"""Evaluation of any policy on given contexts: each episode once, the same numbers wherever they are played."""

import csv
import json
import shutil
import subprocess
import sys
import warnings
from typing import NamedTuple

import gymnasium
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import DQN, PPO
from wrong_envs import Endless

import envoi
from envoi.adapters import load, to_gymnasium
from envoi.context import regions, save_contexts
from envoi.integrations.evaluation import evaluate, evaluate_run
from envoi.integrations.rllib import RunFolder, Settings, load_policy

SPLIT = regions({"gravity": (9, 9.5, 10, 11), "length": (0.4, 0.5, 0.6, 0.8)}, "B", n=3)
COLUMNS = ["env", "variant", "train_seed", "region", "context_id"]


def balance(observation):
    """Falls sooner or later, so that episodes differ in length."""
    return int(observation[2] > 0)


def balance_many(observations):
    return (observations[:, 2] > 0).astype(np.int64)


def cartpole():
    return load("envoi:cartpole")


def rows_of(policy=balance, env="envoi:cartpole", **settings):
    return evaluate(policy, env, **{"contexts": SPLIT, "episodes": 3, "variant": "balance", **settings})


def returns_of(rows):
    return [row["return"] for row in rows]


@pytest.fixture(scope="module")
def rows():
    return rows_of()


def test_each_context_and_episode_occurs_once(rows):
    pairs = [(row["region"], row["context_id"], row["episode"]) for row in rows]
    assert pairs == [(name, key, n) for name, found in SPLIT.items() for key in found for n in range(3)]
    features = [f"context.{name}" for name in cartpole().context_space.features]
    assert list(rows[0]) == [*COLUMNS, *features, "episode", "seed", "return", "length", "terminated", "success"]
    for row in rows:
        assert row["context.length"] == SPLIT[row["region"]][row["context_id"]]["length"]
        assert row["return"] == row["length"]
        assert row["success"] is None
    assert len({row["length"] for row in rows}) > 10


@pytest.mark.parametrize(
    "how",
    [
        *({"policy": balance_many, "batched": True, "lanes": lanes} for lanes in (1, 8, 64)),
        {"policy": lambda seen: balance_many(seen), "batched": True, "workers": 2, "lanes": 4},
        {"policy": lambda seen: balance(seen), "workers": 2},
        {"address": "auto", "workers": 2},
    ],
)
def test_lanes_workers_and_tasks_of_ray_change_no_number(rows, ray_session, how):
    assert rows_of(**how) == rows


def test_worker_needs_no_guard_in_a_script(tmp_path):
    (script := tmp_path / "script.py").write_text(
        "from envoi.integrations.evaluation import evaluate\n"
        "print(len(evaluate(lambda seen: 0, 'envoi:cartpole', contexts='length=0.3,0.5', episodes=2, workers=2)))\n"
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("4\n", "")


def test_seeds_follow_from_context_and_episode(rows):
    assert len({row["seed"] for row in rows}) == len(rows)
    assert rows_of(episodes=1) == rows[::3]
    assert rows_of(contexts={"train": SPLIT["train"]}) == rows[:9]
    assert not {row["seed"] for row in rows_of(seed=1)} & {row["seed"] for row in rows}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers() | st.text(max_size=3), min_size=1, unique_by=repr), st.integers(1, 4), st.integers(0, 9))
def test_no_two_rows_share_a_seed(ids, episodes, seed):
    contexts = {key: {"length": 0.5} for key in ids}
    found = evaluate(balance, CARTPOLE, contexts=contexts, episodes=episodes, seed=seed)
    assert len({row["seed"] for row in found}) == len(found) == len(contexts) * episodes


CARTPOLE = envoi.TimeLimit(envoi.models.CartPole(), 5)


def test_row_can_be_played_again(rows):
    env = envoi.Contextual(cartpole(), SPLIT["train"], hide_context=True)
    for row in rows[:9]:
        seen = env.reset(seed=row["seed"], options={"context_id": row["context_id"]}).observation
        total, over = 0.0, False
        while not over:
            step = env.step(balance(seen))
            seen, over, total = step.observation, step.terminated or step.truncated, total + step.reward
        assert total == row["return"]


@pytest.mark.parametrize(
    "env",
    [
        cartpole,
        lambda: to_gymnasium(envoi.Contextual(cartpole(), SPLIT["train"], hide_context=True)),
        lambda: gymnasium.wrappers.TimeLimit(to_gymnasium(envoi.Contextual(cartpole(), hide_context=True)), 500),
        lambda: envoi.TimeLimit(envoi.Contextual(envoi.models.CartPole(), hide_context=True), 500),
    ],
)
def test_env_may_be_of_any_framework(rows, env):
    for given_env in (env, env()):
        assert returns_of(rows_of(env=given_env)) == returns_of(rows)


def test_gymnasium_has_contexts_of_its_own():
    contexts = {"short": {"length": 0.1}, "long": {"length": 2.0}}
    found = evaluate(balance, gymnasium.make("CartPole-v1"), contexts=contexts, episodes=5)
    short, long = (np.mean([row["return"] for row in found if row["context_id"] == key]) for key in contexts)
    assert short < long / 2
    assert found[0]["env"] == "CartPole-v1"


def test_contexts_are_those_of_the_env_by_default(rows):
    env = envoi.Contextual(cartpole(), SPLIT["train"], hide_context=True)
    found = rows_of(env=env, contexts=None)
    assert returns_of(found) == returns_of(rows[:9])
    assert [row["context.length"] for row in found] == [row["context.length"] for row in rows[:9]]


def test_agent_sees_contexts_as_in_its_training():
    """Those of a selector are in the rows; the scale is the mean of the training's set, not of those judged on."""
    sampled, view = envoi.context.Sampled([envoi.UniformFloat("length", 0.3, 0.8)]), "changing_context_features"
    selected = envoi.Contextual(cartpole(), context_selector=sampled, state_context_features=["length"])
    two = {"a": {"length": 0.4}, "b": {"length": 0.6}}
    scaled = envoi.Contextual(cartpole(), two, state_context_features=view, scale_context_features="by_mean")
    seen = set()

    def act(observation):
        seen.add(float(observation[-1]))
        return 0

    lengths = {np.float32(row["context.length"]) for row in evaluate(act, selected, contexts=None, episodes=6)}
    assert len(lengths) == 6
    assert lengths == {np.float32(one) for one in seen}
    seen.clear()
    evaluate(act, scaled, contexts={"long": {"length": 1.0}}, episodes=1)
    assert seen == {2.0}


def test_set_grows_where_observations_need_it():
    env = envoi.Contextual(load("gymnasium:Pendulum-v1"), {"slow": {"max_speed": 4.0}}, hide_context=True)
    found = evaluate(lambda _: np.zeros(1, np.float32), env, contexts={"fast": {"max_speed": 20.0}}, episodes=1)
    alone = envoi.Contextual(load("gymnasium:Pendulum-v1"), {"fast": {"max_speed": 20.0}}, hide_context=True)
    assert found[0]["context.max_speed"] == 20.0
    again = evaluate(lambda _: np.zeros(1, np.float32), alone, contexts={"fast": {"max_speed": 20.0}}, episodes=1)
    assert again[0]["return"] == found[0]["return"]


# Policies.


class Counting:
    """Acts by the number of its steps in the episode."""

    def reset(self, seed):
        self.steps, self.every = 0, 2 + seed % 3

    def __call__(self, observation):
        self.steps += 1
        return int(self.steps % self.every == 0)


class Memory(NamedTuple):
    steps: np.int64
    parts: tuple = ()


class Pure:
    """The same, whose state is given from outside."""

    def initial_state(self):
        return Memory(np.int64(0))

    def __call__(self, observation, state):
        steps = state.steps + 1
        return steps % 2, Memory(steps)


class CountingByTwo(Counting):
    def reset(self):
        self.steps, self.every = 0, 2


def test_policy_may_keep_a_state():
    one = rows_of(Counting())
    assert one == rows_of(Counting(), lanes=3) == rows_of(Counting(), workers=2)
    assert returns_of(rows_of(CountingByTwo())) != returns_of(one)
    odd = returns_of(rows_of(Pure()))
    for lanes in (1, 5):
        assert odd == returns_of(rows_of(Pure(), batched=True, lanes=lanes))
    with pytest.raises(envoi.EnvoiError, match="leave batched=True out"):
        rows_of(Counting(), batched=True)


class Actor:
    """An actor as in Acme, which checks the calls that it gets."""

    def __init__(self):
        self.episodes, self.steps = 0, None

    def observe_first(self, timestep):
        assert timestep.first()
        assert self.steps is None
        self.episodes, self.steps = self.episodes + 1, 0

    def select_action(self, observation):
        return balance(observation)

    def observe(self, action, next_timestep):
        self.steps += 1
        assert next_timestep.reward == 1.0
        assert next_timestep.discount == (0.0 if next_timestep.last() else 1.0)
        self.steps = None if next_timestep.last() else self.steps


def test_actor_of_acme_observes_each_step(rows):
    actor = Actor()
    assert rows_of(actor) == rows
    assert (actor.episodes, actor.steps) == (len(rows), None)


@pytest.mark.parametrize("visible", [False, True])
def test_model_of_stable_baselines_can_be_evaluated(visible):
    train = to_gymnasium(envoi.Contextual(cartpole(), SPLIT["train"], hide_context=not visible))
    model = PPO("MlpPolicy", train, n_steps=8, batch_size=8, seed=3, device="cpu")

    def act(observation):
        return int(model.predict(observation, deterministic=True)[0])

    # An env without contexts is put into a `Contextual` that shows what the model has seen.
    found = evaluate(model, "envoi:cartpole", contexts=SPLIT, episodes=2)
    assert {(row["variant"], row["train_seed"]) for row in found} == {("PPO", 3)}
    shown = envoi.Contextual(cartpole(), SPLIT["train"], hide_context=not visible)
    returns = returns_of(evaluate(act, shown, contexts=SPLIT, episodes=2))
    for more in ({}, {"workers": 2}, {"batched": True, "lanes": 4}):
        assert returns_of(evaluate(model, "envoi:cartpole", contexts=SPLIT, episodes=2, **more)) == returns


def test_model_of_other_spaces_is_refused():
    model = DQN("MlpPolicy", gymnasium.make("MountainCar-v0"), buffer_size=10, device="cpu")
    with pytest.raises(envoi.EnvoiError, match="the policy was trained with"):
        evaluate(model, "envoi:cartpole", contexts=SPLIT)


def test_recurrent_model_forgets_between_episodes():
    from sb3_contrib import RecurrentPPO

    model = RecurrentPPO("MlpLstmPolicy", gymnasium.make("CartPole-v1"), n_steps=8, batch_size=8, seed=0, device="cpu")
    found = evaluate(model, "envoi:cartpole", contexts=SPLIT, episodes=2)
    assert evaluate(model, "envoi:cartpole", contexts={"train": SPLIT["train"]}, episodes=1) == found[:6:2]
    with pytest.raises(envoi.EnvoiError, match="a recurrent model"):
        evaluate(model, "envoi:cartpole", contexts=SPLIT, episodes=1, batched=True)


@pytest.mark.parametrize("several", [False, True])
def test_masks_reach_a_maskable_model(several):
    """Of one integer, and of several, whose masks are a tuple as gymnasium's `sample` takes it."""
    from sb3_contrib import MaskablePPO
    from small_models import Steps  # not above, because Ray's tasks import this module

    class Picky(Steps):
        action_spec = envoi.MultiDiscrete([9, 2]) if several else envoi.Discrete(9)
        observation_spec = envoi.Array((1,), "float32", 0, 9)

        def transition(self, state, action, rng):
            assert (action[0] if several else action) == state
            return state + 1

        def observe(self, state, rng):
            return np.array([state], np.float32)

        def terminal(self, state):
            return state == 5

        def info(self, state):
            mask = np.arange(9) == state
            return {"action_mask": (mask, None) if several else mask, "is_success": state == 5}

    model = MaskablePPO("MlpPolicy", to_gymnasium(Picky()), n_steps=8, batch_size=8, device="cpu")
    for batched in (False, True):
        found = evaluate(model, Picky, episodes=3, batched=batched)
        assert [row["length"] for row in found] == [5, 5, 5]
        assert [row["success"] for row in found] == [1.0, 1.0, 1.0]


def test_run_of_rllib_can_be_evaluated(trained):
    policy = load_policy(trained)
    found = evaluate(trained, episodes=4)
    assert (found[0]["env"], found[0]["train_seed"]) == ("envoi:catch", 0)
    for more in ({"workers": 2}, {"lanes": 8}):
        assert evaluate(trained, episodes=4, **more) == found
    for same in (policy, trained / "checkpoint"):
        assert returns_of(evaluate(same, "envoi:catch", episodes=4)) == returns_of(found)
    with pytest.raises(envoi.EnvoiError, match="env: which"):
        evaluate(policy)


# Files and the command line.


def read_csv(folder):
    with (folder / "evaluation.csv").open() as file:
        return list(csv.DictReader(file))


def test_files_hold_the_rows(tmp_path):
    rows = rows_of(out=(folder := tmp_path / "new" / "folder"))
    assert sorted(path.name for path in folder.iterdir()) == ["evaluation.csv", "evaluation.parquet"]
    assert pq.read_table(folder / "evaluation.parquet").to_pylist() == rows
    for row, read in zip(rows, read_csv(folder), strict=True):
        assert {name: "" if value is None else str(value) for name, value in row.items()} == read


def test_command_writes_the_rows(cli, trained, tmp_path, monkeypatch):
    out, say = tmp_path / "out", lambda: warnings.warn("the weights are new", stacklevel=1)
    monkeypatch.setattr(
        "envoi.integrations.cli.commands.results.evaluate", lambda *a, **k: say() or say() or evaluate(*a, **k)
    )
    arguments = ["evaluate", trained, "--env", "python:weighed:in_two", "--episodes", "3", "--out", out]
    code, printed, err = cli(*arguments, "--contexts", "weight=1..3:3")
    assert (code, err) == (0, "")
    assert "all: 3 contexts, mean return" in printed
    assert printed.count("note: the weights are new") == 1
    rows = read_csv(out)
    assert [float(row["context.weight"]) for row in rows] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [abs(float(row["return"])) for row in rows] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    file = tmp_path / "contexts.yaml"
    save_contexts(file, {"train-0": {"weight": 1.5}, "interpolation-0": {"weight": 2.5}})
    code, printed, err = cli(*arguments, "--contexts", file, "--json")
    assert (code, err) == (0, "")
    assert [row["region"] for row in json.loads(printed)] == ["train"] * 3 + ["interpolation"] * 3
    for more, message in (
        (["--contexts", "wieght=1,2"], "did you mean 'weight'"),
        (["--contexts", "weight=1..2:1000;other=1..2:1000"], "1,000,000 contexts; confirm so many by --yes"),
        (["--contexts", tmp_path / "none.csv"], "none.csv: No such file"),
        (["--contexts", "weight=2..1"], "is empty"),
        (["--contexts", "weight=1,2", "--form", "both"], "--form: with --contexts"),
        ([], "--out is for --contexts"),
    ):
        before = read_csv(out)
        code, _, err = cli(*arguments, *more)
        assert (code, len(err.splitlines()), message in err) == (2, 1, True)
        assert read_csv(out) == before


# Bad input.


def failing(observation):
    raise ZeroDivisionError("no mass")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"contexts": {}}, "contexts: there are none"),
        ({"contexts": {"train": SPLIT["train"], "far": {}}}, r"contexts\['far'\]: the region is empty"),
        ({"contexts": {"one": {"a": {}}, "two": {"a": {"length": 1.0}}}}, "got 'a' twice"),
        ({"contexts": {"a": {"lenght": 1.0}}}, "did you mean 'length'"),
        ({"contexts": {"a": {"length": -1.0}}}, "expected a number from 0.05 to 5, got -1.0"),
        ({"episodes": 0}, "episodes: expected at least 1, got 0"),
        ({"lanes": 0}, "lanes: expected"),
        ({"workers": 0}, "workers: expected"),
        ({"seed": -1}, "seed: expected an integer of at least 0"),
        ({"policy": 3}, "policy: expected a function of an observation"),
        ({"policy": lambda seen: [0, 0, 0], "batched": True, "lanes": 2}, "expected an action for each of 2 obs"),
        ({"env": Endless, "contexts": None, "max_steps": 9, "policy": lambda _: 0}, "did not end within 9 steps"),
        ({"policy": failing, "workers": 2}, "ZeroDivisionError: no mass"),
        ({"env": "envoi:nim", "contexts": None}, "agents"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path, settings, message):
    with pytest.raises(envoi.EnvoiError, match=message):
        rows_of(**{"out": tmp_path / "out", **settings})
    assert not (tmp_path / "out").exists()


def test_a_run_is_evaluated_in_its_training_contexts(trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run, symlinks=True)
    settings = vars(RunFolder(run).read_settings()) | {"env": "python:weighed:in_two"}
    RunFolder(run).write_settings(Settings(**settings))
    with pytest.warns(UserWarning, match="also training contexts: 'seen'$"):
        evaluate(run, contexts={"seen": {"weight": 2.0}, "new": {"weight": 3.0}}, episodes=1)
    RunFolder(run).write_settings(Settings(**{**settings, "contexts": "weight=2,5"}))
    rows = evaluate(run, episodes=1)
    assert [row["context.weight"] for row in rows] == [2, 5]
    assert rows[0]["env"] == "python:weighed:in_two"
    assert evaluate(run, episodes=1, workers=2) == rows
    assert [abs(episode.episode_return) for episode in evaluate_run(run, episodes=3).episodes] == [2, 5, 2]
    with pytest.warns(UserWarning, match="also training contexts: 'seen'$"):
        evaluate(run, contexts={"seen": {"weight": 5.0}, "of the env": {"weight": 1.0}}, episodes=1)


def test_a_model_sees_observations_as_in_its_training():
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    lanes = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]), training=False)
    lanes.obs_rms.mean, lanes.obs_rms.var = np.array([0.5, -0.5, 0.1, 0.3]), np.full(4, 0.01)
    model = PPO("MlpPolicy", lanes, n_steps=8, batch_size=8, device="cpu", seed=1)

    def normalized(observation):
        return model.predict(lanes.normalize_obs(observation), deterministic=True)[0]

    one, other = (evaluate(policy, "gymnasium:CartPole-v1", episodes=3) for policy in (model, normalized))
    assert returns_of(one) == returns_of(other)


def test_contexts_of_two_regions_are_named():
    inside = {"length": 0.5}
    with pytest.warns(UserWarning, match="also training contexts: 'again'$"):
        rows_of(contexts={"train": {"inside": inside}, "other": {"again": inside, "new": {"length": 0.7}}}, episodes=1)


def test_success_is_what_the_contextual_says():
    def make():
        return envoi.Contextual(cartpole(), {"a": {}, "b": {"length": 0.4}}, success=lambda one: one["length"] > 40)

    for env, contexts in ((make, None), (make, {"c": {"length": 0.45}}), (lambda: to_gymnasium(make()), None)):
        rows = rows_of(env=env, contexts=contexts)
        assert [row["success"] for row in rows] == [float(row["length"] > 40) for row in rows]
    assert {row["success"] for row in rows} == {0.0, 1.0}


def torque(value, dtype="float64"):
    return lambda seen: np.array([value], dtype)


def either():
    from small_models import Steps  # not above, because Ray's tasks import this module

    return type("Either", (Steps,), {"action_spec": envoi.OneOf((envoi.Discrete(2), envoi.Discrete(3)))})()


@pytest.mark.parametrize(
    ("policy", "env", "message"),
    [
        (lambda seen: 2, "envoi:cartpole", "policy: action: expected 0 … 1, got 2"),
        (lambda seen: 0.5, "envoi:cartpole", "policy: action: expected an integer, got 0.5"),
        (torque(2.5), "envoi:pendulum", r"policy: action\[0\]: 2.5 is above its upper bound 2.0"),
        (torque(np.nan), "envoi:pendulum", r"policy: action\[0\]: expected a number, got nan"),
        (lambda seen: np.zeros(2), "envoi:pendulum", r"policy: action: .*shape \(1,\)"),
        (lambda seen: 3, either, r"policy: action.*expected \(index, value\), got 3"),
        (lambda seen: (7, 1), either, "policy: action.*expected 0 … 1"),
    ],
)
def test_actions_outside_of_their_spec_are_named(policy, env, message):
    with pytest.raises(envoi.SpecError, match=message):
        evaluate(policy, env, episodes=1)


def test_actions_of_another_width_are_taken():
    returns = [evaluate(torque(1.0, dtype), "envoi:pendulum", episodes=1)[0]["return"] for dtype in ("f8", "f4", "i4")]
    assert len(set(returns)) <= 2
