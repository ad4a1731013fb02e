"""One curriculum chooses the contexts of all env runners of RLlib, and learns from their episodes."""

import warnings
from functools import partial

import curricula
import numpy as np
import pyarrow.parquet
import pytest
import ray
from curricula import TWENTY, Logged
from ray import cloudpickle, tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig

import envoi
from envoi import ContextError, EnvoiError
from envoi.curricula import Annealed, LearningProgress, PrioritizedLevelReplay
from envoi.integrations.rllib import RunFolder, Settings, configure, curriculum_of, resume, train

pytestmark = [
    pytest.mark.usefixtures("ray_session"),
    pytest.mark.filterwarnings("ignore:.*already in registry:UserWarning"),  # each env runner of RLlib's registers
]

LANES, STEPS = 4, 200


def configured(env=curricula.swinging, runners=0, config=None, **arguments):
    if config is None:
        config = PPOConfig().training(train_batch_size_per_learner=STEPS, minibatch_size=100, num_epochs=1)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=LANES)
    config.debugging(seed=3, log_level="ERROR")
    return configure(config, env, **arguments)


@pytest.fixture
def build():
    """Builds algorithms that are stopped with the test."""
    made = []

    def make(config):
        made.append(config.build_algo() if hasattr(config, "build_algo") else Algorithm.from_checkpoint(config))
        return made[-1]

    yield make
    for algorithm in made:
        algorithm.stop()


def contexts_of(algorithm):
    return algorithm.train()["env_runners"]["contexts"]


def lanes_of(curriculum):
    return {row["lane"] for row in curriculum.reported[-1]}


def cores(runner):
    vector = runner.env.unwrapped
    return [env.unwrapped.core for env in getattr(vector, "envs", [vector])]


def contextual(core):
    while not isinstance(core, envoi.Contextual):
        core = core.env
    return core


@pytest.mark.parametrize(
    ("env", "options", "runners"),
    [
        (curricula.swinging, {"runner": "sync", "vectorize": False}, 0),
        (curricula.swinging, {"runner": "sync", "vectorize": True}, 0),
        (curricula.swinging, {"runner": "batched", "vectorize": False}, 0),
        (curricula.swinging, {}, 0),
        (curricula.game, {"runner": "sync"}, 0),
        (curricula.game, {}, 0),
        (curricula.swinging, {}, 2),
        pytest.param(curricula.game, {}, 2, marks=pytest.mark.deep),
        pytest.param(curricula.swinging, {"runner": "sync", "vectorize": False}, 2, marks=pytest.mark.deep),
    ],
)
def test_every_episode_is_reported_to_the_curriculum(build, env, options, runners):
    curriculum = Logged()
    algorithm = build(configured(env, runners, contexts=TWENTY, curriculum=curriculum, **options))
    assert curriculum_of(algorithm) is curriculum
    for iteration in (1, 2):
        found = contexts_of(algorithm)
        rows = [(row["lane"], row["context_id"], row["length"]) for row in curriculum.reported[-1]]
        assert len(curriculum.reported) == iteration
        assert [lane for lane, *_ in rows] == sorted(lane for lane, *_ in rows)
        first = LANES * bool(runners)
        lanes = set(range(first, first + LANES * max(1, runners)))
        assert {lane for lane, *_ in rows} == lanes
        assert {length for *_, length in rows} == {25}
        assert set(found) == {str(key) for key in TWENTY}
        assert sum(row["share"] for row in found.values()) == pytest.approx(1)
        ids = [key for _, key, _ in rows]
        assert {key: row["share"] for key, row in found.items() if row["share"]} == {
            str(key): pytest.approx(ids.count(key) / len(ids)) for key in set(ids)
        }
        assert {row["episode_len_mean"] for row in found.values() if row["share"]} == {25}
    assert curriculum.statistics["episodes"].sum() == sum(map(len, curriculum.reported))


def test_new_weights_hold_for_the_next_sample(build):
    algorithm = build(configured(contexts=TWENTY, curriculum=curricula.switching(), runner="sync"))
    assert len([key for key, row in contexts_of(algorithm).items() if row["share"]]) > 1
    # An iteration of 50 steps a lane ends with an episode: all that follow begin with the new weights.
    second = contexts_of(algorithm)
    assert second["19"]["share"] == 1


def test_one_runner_asks_as_a_plain_loop_does(build):
    curriculum = Logged()
    algorithm = build(configured(contexts=TWENTY, curriculum=curriculum, runner="sync", vectorize=False))
    for _ in range(3):
        algorithm.train()
    plain = Logged()
    plain.begin(curriculum.contexts)
    for rows in curriculum.reported:  # each iteration ends with an episode in each lane
        chosen = [plain.select(np.random.default_rng())[0] for _ in rows]
        assert sorted(row["context_id"] for row in rows) == sorted(chosen)
        plain.tell(rows)
    assert len({row["context_id"] for rows in curriculum.reported for row in rows}) > 10


def test_an_algorithm_without_a_curriculum_says_so(build):
    with pytest.raises(EnvoiError, match="no curriculum"):
        curriculum_of(build(configured()))


RARELY = {"train_batch_size_per_learner": 32, "num_steps_sampled_before_learning_starts": 10_000}


@pytest.mark.parametrize(
    ("config", "runners"),
    [
        (DQNConfig().training(**RARELY).reporting(min_sample_timesteps_per_iteration=400), 0),
        (IMPALAConfig().training(train_batch_size_per_learner=100), 1),
        pytest.param(APPOConfig().training(train_batch_size_per_learner=100), 1, marks=pytest.mark.deep),
    ],
)
def test_algorithms_that_sample_as_they_like_have_contexts(build, config, runners):
    config.reporting(min_time_s_per_iteration=0.2)
    curriculum = Logged()
    contexts = "length=0.3..0.7:4"
    algorithm = build(configured("envoi:cartpole", runners, config, contexts=contexts, curriculum=curriculum))
    for _ in range(4):
        found = contexts_of(algorithm)
        assert set(found) == {"0", "1", "2", "3"}
        assert lanes_of(curriculum) <= set(range(LANES * runners, LANES * (runners + 1)))
    assert curriculum.statistics["episodes"].sum() == sum(map(len, curriculum.reported)) > 8


def test_made_contexts_reach_the_lanes(build):
    curriculum = Annealed({"m": (1.0, 1.0)}, {"m": (2.0, 4.0)}, 100)
    algorithm = build(configured(curriculum=curriculum))
    masses = []
    for _ in range(3):
        algorithm.train()
        masses.append({context["m"] for context in contextual(cores(algorithm.env_runner)[0]).context})
    assert masses[0] == {1.0}
    assert len(masses[2]) == LANES
    assert all(2 <= mass <= 4 for mass in masses[2])


# Evaluation.


@pytest.mark.parametrize("given", [None, {"env_config": {}}, "object"])
def test_evaluation_has_only_its_own_contexts(build, given):
    held_out = {"between": {"m": 1.0}, "more": {"m": 6.0}}
    config = PPOConfig().training(train_batch_size_per_learner=STEPS, minibatch_size=100, num_epochs=1)
    config.evaluation(evaluation_interval=1, evaluation_duration=2)
    if given == "object":
        config.evaluation_config = PPOConfig().evaluation(evaluation_interval=1).environment("envoi-visible")
    elif given is not None:
        config.evaluation(evaluation_config=given)
    trained = {"light": {"m": 2.0}, "heavy": {"m": 4.0}}
    config = configured(curricula.visible, config=config, contexts=trained, curriculum=Logged(), eval_contexts=held_out)
    if given != "object":
        config.evaluation(evaluation_config={"explore": False})  # which leaves the contexts as they are
    algorithm = build(config)
    result = algorithm.train()
    assert result["evaluation"]["env_runners"]["num_episodes"] == 2
    judged = contextual(cores(algorithm.eval_env_runner)[0])
    assert set(judged.contexts) == set(held_out)
    assert b"light" not in cloudpickle.dumps(algorithm.eval_env_runner.config.env_config)
    assert not judged.context_selector.learns
    assert set(contextual(cores(algorithm.env_runner)[0]).contexts) == set(trained)
    assert curriculum_of(algorithm).statistics["episodes"].sum() == 8


def test_evaluation_shows_contexts_as_training_does(build):
    def scaled():
        return curricula.visible(scale_context_features="by_mean")

    config = configured(scaled, contexts={"light": {"m": 2.0}, "heavy": {"m": 4.0}}, eval_contexts={"more": {"m": 6.0}})
    algorithm = build(config.evaluation(evaluation_interval=1, evaluation_duration=1))
    algorithm.train()
    seen = [np.ravel(cores(runner)[0].observation)[3] for runner in (algorithm.env_runner, algorithm.eval_env_runner)]
    assert seen[0] in (pytest.approx(2 / 3), pytest.approx(4 / 3))
    assert seen[1] == pytest.approx(2)


def test_evaluation_repeats_while_nothing_is_learnt(build):
    config = configured(curricula.visible, contexts=TWENTY, eval_contexts={"more": {"m": 3.0}})
    config.training(lr=0.0)
    config.evaluation(evaluation_interval=1, evaluation_duration=4, evaluation_config={"explore": False})
    algorithm = build(config)
    means = [algorithm.train()["evaluation"]["env_runners"]["episode_return_mean"] for _ in range(3)]
    assert means == [means[0]] * 3


def test_very_many_contexts_are_warned_of(monkeypatch):
    monkeypatch.setattr("envoi.integrations.env_contexts.MANY_CONTEXTS", 19)
    with pytest.warns(UserWarning, match="^20 contexts, which each process holds"):
        configured(contexts=TWENTY)


def test_contexts_of_both_sides_are_named():
    with pytest.warns(UserWarning, match="eval_contexts: .*'same'"):
        configured(contexts=TWENTY, eval_contexts={"same": {"m": 0.5}, "other": {"m": 0.51}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        configured(contexts=TWENTY, eval_contexts={"other": {"m": 0.51}})


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contexts": {"a": {"mass": 1.0}}}, "mass"),
        ({"contexts": TWENTY, "eval_contexts": {"a": {"mass": 1.0}}}, "mass"),
        ({"curriculum": Annealed({"mass": (1, 2)}, {"mass": (1, 3)}, 10)}, "mass"),
        ({"contexts": TWENTY, "curriculum": envoi.curricula.Sequential([["z"]])}, "no context 'z'"),
        ({"contexts": TWENTY, "curriculum": PrioritizedLevelReplay("max_mc")}, "critic.*learnability"),
        ({"contexts": TWENTY, "curriculum": LearningProgress}, "expected a selector"),
        ({"contexts": "m=3..1"}, "m"),
        ({"contexts": {}}, "^contexts: expected at least one context"),
        ({"contexts": TWENTY, "eval_contexts": {}}, "^eval_contexts: expected at least one context"),
        ({"contexts": TWENTY, "eval_contexts": "mass=1..2"}, "^eval_contexts: .*mass"),
        ({"contexts": {"train": TWENTY, "test": TWENTY}}, r"regions \['train', 'test'\]"),
        ({"contexts": TWENTY, "curriculum": LearningProgress()}, "^curriculum: context .*is_success.*of returns"),
        ({"contexts": TWENTY, "curriculum": LearningProgress(bounds=(1, 2))}, "return within bounds"),
        ({"contexts": TWENTY, "curriculum": PrioritizedLevelReplay("learnability")}, "is_success"),
    ],
)
def test_bad_contexts_are_refused_at_once(arguments, message):
    with pytest.raises(ContextError, match=message):
        configured(**arguments)


@pytest.mark.parametrize("env", [curricula.swinging, curricula.game, partial(envoi.batch, curricula.swinging, 4)])
def test_an_episode_is_tried_where_a_curriculum_may_refuse(env):
    curriculum = LearningProgress(bounds=(-1e4, -0.1))
    configured(env, contexts=TWENTY, curriculum=curriculum)
    assert not curriculum.statistics["episodes"].any()
    with pytest.raises(ContextError, match="is_success"):
        configured(env, contexts=TWENTY, curriculum=LearningProgress())


def test_what_would_leave_the_curriculum_or_mix_contexts_is_refused(build):
    config = configured(contexts=TWENTY).env_runners(gym_env_vectorize_mode="async")
    with pytest.raises(ContextError, match="gym_env_vectorize_mode"):
        build(config)
    config = configured(contexts=TWENTY, eval_contexts={"more": {"m": 3.0}}).evaluation(evaluation_interval=1)
    config.evaluation(evaluation_config=None)
    with pytest.raises(ContextError, match="evaluation_config"):
        build(config)


# Jobs.


def test_a_job_has_a_table_of_its_contexts(tmp_path):
    settings = {"contexts": "length=0.3..0.7:3", "eval_contexts": "length=0.9", "evaluate_every": 1}
    train(Settings("envoi:cartpole", curriculum="plr", stop_steps=2500, **settings), tmp_path / "run")
    resume(tmp_path / "run", stop_steps=6000)
    folder = RunFolder(tmp_path / "run")
    rows = pyarrow.parquet.read_table(folder.contexts).to_pylist()
    assert list(rows[0])[:2] == ["iteration", "context_id"]
    assert list(rows[0])[-4:] == ["episodes", "return", "length", "share"]
    assert {row["context_id"]: row["context.length"] for row in rows} == {0: 0.3, 1: 0.5, 2: 0.7}
    progress = folder.read_progress()
    assert {row["iteration"] for row in rows} == {int(row["iteration"]) for row in progress}
    assert len(progress) >= 3
    assert all(float(row["evaluation_return_mean"]) > 0 for row in progress)
    for iteration in range(1, len(progress) + 1):
        assert sum(row["share"] for row in rows if row["iteration"] == iteration) == pytest.approx(1)
    assert sum(row["episodes"] for row in rows) == int(progress[-1]["episodes"])


# Checkpoints, and env runners that end.


def test_a_checkpoint_holds_the_curriculum(build, tmp_path):
    algorithm = build(configured(contexts=TWENTY, curriculum=Logged()))
    for _ in range(3):  # the first two play each context once
        algorithm.train()
    held = curriculum_of(algorithm)
    again = build(algorithm.save_to_path(str(tmp_path / "checkpoint")))
    restored = curriculum_of(again)
    assert type(restored) is Logged
    assert restored is not held
    assert restored.reported == held.reported
    np.testing.assert_array_equal(restored.weights, held.weights)
    for one in (algorithm, again):
        one.train()
    # Both play what had been chosen when the checkpoint was made.
    ids = [[row["context_id"] for row in one.reported[3]] for one in (held, restored)]
    assert sorted(ids[0]) == sorted(ids[1])
    assert restored.statistics["episodes"].sum() == sum(map(len, restored.reported))


def test_an_env_runner_that_is_killed_plays_on(build):
    curriculum = Logged()
    algorithm = build(configured(runners=2, contexts=TWENTY, curriculum=curriculum))
    algorithm.train()
    ray.kill(algorithm.env_runner_group._worker_manager._actors[2], no_restart=False)
    for _ in range(20):
        algorithm.train()
        if len(lanes_of(curriculum)) == 2 * LANES:
            break
    assert lanes_of(curriculum) == set(range(LANES, 3 * LANES))
    assert curriculum.statistics["episodes"].sum() == sum(map(len, curriculum.reported))


@pytest.mark.deep
def test_tune_restores_the_curriculum(tmp_path):
    config = configured(contexts=TWENTY, curriculum=Logged())
    config.callbacks(on_train_result=partial(note_episodes, tmp_path / "failed"))
    checkpoints = tune.CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True)
    run = tune.RunConfig(
        name="run",
        storage_path=str(tmp_path),
        stop={"training_iteration": 4},
        checkpoint_config=checkpoints,
        verbose=0,
    )
    results = tune.Tuner(PPO, param_space=config, run_config=run).fit()
    assert results.errors
    restored = tune.Tuner.restore(str(tmp_path / "run"), trainable=PPO, param_space=config, resume_errored=True).fit()
    assert not restored.errors
    assert restored[0].metrics["curriculum_episodes"] == 4 * 8


def note_episodes(failed, *, algorithm, result, **_):
    """Adds how many episodes the curriculum knows; fails once, in the third iteration."""
    result["curriculum_episodes"] = int(curriculum_of(algorithm).statistics["episodes"].sum())
    if result["training_iteration"] == 3 and not failed.exists():
        failed.touch()
        raise RuntimeError("a trial fails")
