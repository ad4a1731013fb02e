"""Contexts in RLlib: over workers and lanes, in its evaluation, and in its configs."""

import copy
import gc
import importlib
import pickle

import gymnasium
import numpy as np
import pytest

import envoi
from envoi import ContextError, Contextual, TimeLimit
from envoi.adapters import load, to_gymnasium, to_rllib
from envoi.adapters.rllib import bind_worker
from envoi.context import ContextSet
from envoi.integrations.rllib.registration import RegisteredEnv
from envoi.models import Pendulum

pytest.importorskip("torch")
pytest.importorskip("ray.rllib")
EnvContext = importlib.import_module("ray.rllib.env.env_context").EnvContext

TWENTY = {index: {"m": 0.5 + index / 20} for index in range(20)}


def model(contexts=TWENTY):
    return TimeLimit(Contextual(Pendulum(), contexts, state_context_features=["m"]), 200)


def imported(contexts=TWENTY):
    return TimeLimit(Contextual(load("gymnasium:Pendulum-v1"), contexts, state_context_features=["m"]), 200)


def wrapped(contexts=TWENTY):
    return gymnasium.wrappers.ClipAction(to_gymnasium(model(contexts)))


def game():
    return envoi.as_multi(model())


@pytest.fixture
def run(env_runner):
    """Makes an env runner of RLlib's; the callback is as in the docs."""

    def make(env, worker, lanes, mode="sync", callback=True, agents=None, env_config=None, seed=3, **options):
        return env_runner(
            env if isinstance(env, RegisteredEnv) else to_rllib(env),
            0 if worker == "evaluation" else worker,
            agents,
            worker == "evaluation",
            environment={"env_config": env_config or {}},
            env_runners={"num_envs_per_env_runner": lanes, "gym_env_vectorize_mode": mode},
            debugging={"seed": seed},
            callbacks={"on_environment_created": bind_worker if callback else None},
            evaluation=options,
        )

    return make


def masses(episodes):
    """The masses that agents saw, which are their contexts'."""
    single = [agent for one in episodes for agent in getattr(one, "agent_episodes", {"agent": one}).values()]
    return {round(float(seen[3]), 4) for episode in single for seen in np.asarray(episode.get_observations())}


@pytest.mark.parametrize(
    ("env", "mode", "options"),
    [
        (model, "sync", {"callback": False}),
        (model, "sync", {"callback": False, "seed": None}),
        (wrapped, "sync", {"callback": False}),
        (imported, "sync", {}),
        (model, "vector_entry_point", {}),
        (model, "vector_entry_point", {"callback": False}),
        (RegisteredEnv("envoi-contexts", model), "sync", {"callback": False}),
        (RegisteredEnv("envoi-contexts", model), "vector_entry_point", {"callback": False}),
        (imported, "vector_entry_point", {}),
        (model, "async", {}),
        (game, "sync", {"agents": ["agent"]}),
        (game, "sync", {"agents": ["agent"], "callback": False}),
    ],
)
def test_a_batch_of_two_workers_and_sixteen_lanes_holds_all_twenty_contexts(run, env, mode, options):
    runners = [run(env, worker, 16, mode, **options) for worker in (1, 2)]
    batch = [masses(runner.sample(num_timesteps=1024, random_actions=True)) for runner in runners]
    assert [len(of_worker) for of_worker in batch] == [16, 16]
    assert set.union(*batch) == {round(context["m"], 4) for context in TWENTY.values()}


def numbers(forms):
    return [form.place.lane for form in forms]


def test_a_creator_numbers_the_lanes_of_an_env_runner_as_it_makes_them():
    creator = to_rllib(model)
    contexts = [EnvContext({}, worker_index=worker) for worker in (0, 1, 3)]
    for context, begins in zip(contexts, (0, 4, 12), strict=True):
        forms = [creator(context) for _ in range(4)]
        assert numbers(forms) == list(range(begins, begins + 4))
        assert [form.reset(seed=0)[1]["context_id"] for form in forms] == [n % 20 for n in numbers(forms)]
        # An env runner that makes its environments a second time counts from the first.
        again = [creator(context) for _ in range(2)]
        assert numbers(forms) == list(range(begins, begins + 4))
        assert numbers(again) == [2 * context.worker_index, 2 * context.worker_index + 1]
        del again
        gc.collect()
        assert numbers([creator(context)]) == [context.worker_index]


def test_a_copy_of_a_creator_counts_for_itself():
    creator, context = to_rllib(model), EnvContext({}, worker_index=1)
    forms = [creator(context), copy.deepcopy(creator)(context), pickle.loads(pickle.dumps(creator))(context)]
    assert numbers(forms) == [1, 1, 1]
    assert numbers([copy.deepcopy(forms[0]), pickle.loads(pickle.dumps(forms[0]))]) == [1, 1]


# Evaluation.

TRAIN, HELD_OUT = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}, {"between": {"m": 1.0}}


def first_form(runner):
    return runner.env.unwrapped.envs[0].unwrapped


@pytest.mark.parametrize(
    ("training", "evaluation", "named"),
    [
        (TRAIN, HELD_OUT, "'light'"),
        (TRAIN, {"light": {"m": 0.7}}, "'heavy'"),
        (TRAIN, {}, "'light'"),
        ({"a": {"m": 1.0, "l": 2.0}}, {"a": {"m": 2.0}}, "'a'][['l'"),
    ],
)
def test_plain_contexts_that_rllib_would_merge_are_refused_with_advice(run, training, evaluation, named):
    options = {"env_config": {"contexts": training}, "evaluation_config": {"env_config": {"contexts": evaluation}}}
    for env in (model, RegisteredEnv("envoi-contexts", model)):
        with pytest.raises(ContextError, match="RLlib merges") as error:
            run(env, 1, 2, **options)
        assert str(error.value).startswith(f"env_config['contexts'][{named}".replace("[[", "["))
        assert "envoi.context.ContextSet(contexts)" in str(error.value)


@pytest.mark.parametrize(
    ("training", "evaluation"),
    [
        ({"contexts": ContextSet(TRAIN)}, {"contexts": ContextSet(HELD_OUT)}),
        ({"contexts": TRAIN}, {"contexts": ContextSet(HELD_OUT)}),
        ({"contexts": ContextSet(TRAIN)}, {"contexts": HELD_OUT}),
        ({"contexts": TRAIN}, {"contexts": {"light": {"m": 0.7}, "heavy": {"m": 1.7}, "between": {"m": 1.0}}}),
        ({"contexts": TRAIN}, {}),
        ({"contexts": [{"m": 1.0}]}, {"contexts": [{"m": 2.0}]}),
    ],
)
def test_contexts_that_rllib_does_not_mix_are_taken(run, training, evaluation):
    options = {"env_config": training, "evaluation_config": {"env_config": evaluation}}
    held = {}
    for worker in (1, "evaluation"):
        runner = run(model, worker, 2, **copy.deepcopy(options))
        held[worker] = dict(first_form(runner).core.env.contexts)
    for worker, given in ((1, training), ("evaluation", {**training, **evaluation})):
        expected = Contextual(Pendulum(), given["contexts"]).contexts
        assert held[worker] == expected


def test_other_mappings_in_env_config_are_merged_as_rllibs_users_know_it(run):
    def env(weights, deep):
        assert deep == {"camera": {"size": {"width": 3, "height": 2}}}
        return model()

    training = {"weights": {"speed": 1.0, "energy": 0.5}, "deep": {"camera": {"size": {"width": 1, "height": 2}}}}
    evaluation = {"weights": {"speed": 0.0}, "deep": {"camera": {"size": {"width": 3}}}}
    run(env, "evaluation", 1, env_config=training, evaluation_config={"env_config": evaluation})
    run(lambda **_: model(), 1, 1, env_config=training, evaluation_config={"env_config": evaluation})


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point", "async"])
def test_an_evaluation_runner_is_known_by_rllibs_flag_and_replays_its_contexts_and_starts(run, mode):
    def rounds(worker):
        runner = run(model, worker, 1, mode)
        episodes = [runner.sample(num_episodes=2, random_actions=True) for _ in range(2)]
        return [[np.asarray(one.get_observations(0)).tolist() for one in of_round] for of_round in episodes]

    first, second = rounds("evaluation")
    assert first == second
    assert first[0] != first[1]
    first, second = rounds(0)
    assert first != second


def test_without_the_callback_an_evaluation_does_not_know_that_it_is_one(run):
    for callback in (False, True):
        form = first_form(run(model, "evaluation", 1, callback=callback))
        assert form.place.in_evaluation is form.seeds.in_evaluation is callback
    form = first_form(run(model, 0, 1, env_config={"in_evaluation": True}))
    assert form.place.in_evaluation is form.seeds.in_evaluation is True
