"""RLlib's form of an environment of one agent, and a real env runner that samples from it."""

import pickle
from functools import partial

import cloudpickle
import gymnasium
import numpy as np
import pytest
from scripted import Ends, Shaped

import envoi
from envoi import Array, Discrete, LossyConversion, SpecError
from envoi.adapters import load, to_rllib
from envoi.adapters.rllib import EnvCreator, bind_worker
from envoi.adapters.shared.loss import NarrowingWarning


class Context(dict):
    """The argument of RLlib's env creators: the config as a dict, and the worker."""

    def __init__(self, config=(), worker_index=0):
        super().__init__(config)
        self.worker_index = worker_index


def test_names_factories_classes_and_environments_of_any_framework_are_taken():
    make = partial(gymnasium.make, "CartPole-v1")
    for env in ("envoi:catch", "gymnasium:CartPole-v1", lambda: Ends(), Ends, Ends(), make, make()):
        made = to_rllib(env)(Context())
        assert isinstance(made, gymnasium.Env)
        assert isinstance(made.core, envoi.Env)
        assert made.observation_space.contains(made.reset(seed=0)[0])
        assert made.observation_space.contains(made.step(made.action_space.sample())[0])


def test_env_config_reaches_whatever_makes_the_environment_and_wins_over_arguments():
    creator = to_rllib("gymnasium:FrozenLake-v1", map_name="4x4", is_slippery=False)
    assert creator().observation_space.shape == (16,)
    made = creator(Context({"map_name": "8x8", "in_evaluation": True}, 3))
    assert made.observation_space.shape == (64,)
    seen = {}

    def factory(**arguments):
        seen.update(arguments)
        return Ends()

    to_rllib(factory, a=1, b=2)(Context({"b": 3, "in_evaluation": False}))
    assert seen == {"a": 1, "b": 3}
    with pytest.raises(SpecError, match="speed"):
        to_rllib(Ends())(Context({"speed": 1}))


def test_the_context_of_rllib_is_left_as_it_was():
    context = Context({"in_evaluation": True, "map_name": "8x8"})
    to_rllib("gymnasium:FrozenLake-v1")(context)
    assert dict(context) == {"in_evaluation": True, "map_name": "8x8"}


def test_each_lane_has_a_copy_of_a_ready_environment_with_randomness_of_its_own():
    env = load("gymnasium:CartPole-v1")
    env.reset(seed=0)
    state = env.state
    creator = to_rllib(env)
    lanes = [creator(Context()) for _ in range(3)]
    starts = {tuple(lane.reset()[0].tolist()) for lane in lanes}
    assert len(starts) == 3
    assert len({id(lane.core.unwrapped) for lane in lanes} | {id(env.unwrapped)}) == 4
    np.testing.assert_equal(env.state, state)


@pytest.mark.parametrize("env", ["envoi:catch", Ends(), lambda: Ends()], ids=["name", "instance", "closure"])
def test_a_creator_travels_by_cloudpickle(env):
    creator = cloudpickle.loads(cloudpickle.dumps(to_rllib(env, validate=True)))
    assert isinstance(creator, EnvCreator)
    assert creator.validate
    np.testing.assert_equal(creator().reset(seed=3), to_rllib(env)().reset(seed=3))


def test_what_has_no_canonical_form_is_refused_when_the_environment_is_made():
    with pytest.raises(LossyConversion) as caught:
        to_rllib(lambda: Shaped({"a": envoi.Text(3)}, Discrete(2)))()
    assert caught.value.path == "observation['a']"
    # What gymnasium alone could not say is no hindrance here.
    assert to_rllib(lambda: Shaped(Discrete(256, dtype="uint8"), Discrete(2)))().observation_space.shape == (256,)


def test_a_creator_warns_once_in_a_process_of_what_it_narrows():
    def env():
        return Shaped(Array((2,), "float64"), Array((1,), "float64", -1, 1))

    creator = to_rllib(env)
    with pytest.warns(NarrowingWarning, match="observation: precision narrowed.*action: precision narrowed"):
        creator()
    creator()  # a warning would be an error
    with pytest.warns(NarrowingWarning):
        cloudpickle.loads(cloudpickle.dumps(creator))()
    to_rllib(env, canonical=False)()


def test_the_spaces_are_gymnasiums_where_the_form_is_not_canonical():
    spec = {"z": Discrete(5, start=2), "a": Array((2,), "float64")}
    form = to_rllib(lambda: Shaped(spec, Discrete(3, start=5)), canonical=False)(Context(worker_index=2))
    assert form.codec is None
    assert form.action_space == gymnasium.spaces.Discrete(3, start=5)
    observation, _ = form.reset(seed=0)
    assert list(observation) == ["z", "a"]
    assert form.observation_space.contains(observation)
    assert form.seeds.core_seed(0) == to_rllib("envoi:catch")(Context(worker_index=2)).seeds.core_seed(0)
    copied = pickle.loads(pickle.dumps(form))
    np.testing.assert_equal(copied.step(6), form.step(6))


def starts(form, seeds):
    return [form.reset(seed=seed)[0].tolist() for seed in seeds]


@pytest.mark.parametrize("lanes", [None, 4])
def test_a_repeated_seed_continues_in_training_and_replays_in_evaluation(lanes):
    def made(**config):
        return to_rllib("gymnasium:CartPole-v1", num_envs=lanes)(Context(config, 1))

    trains = made()
    begun = starts(trains, [3, 3, 3, None])
    assert len({tuple(one) for one in np.reshape(begun, (-1, 4))}) == 4 * (lanes or 1)
    # A new run with the same seed is the same run.
    assert starts(made(), [3, 3, 3, None]) == begun
    assert starts(trains, [4, 3]) == [*starts(made(), [4]), begun[0]]
    begun = starts(made(in_evaluation=True), [3, None, 3, None])
    assert begun[:2] == begun[2:]
    assert begun[0] != begun[1]


def lanes_of(lanes, mode):
    """The settings of a runner that steps so many lanes one by one, or as a batch."""
    callback = {} if mode == ONE_BY_ONE else {"callbacks": {"on_environment_created": bind_worker}}
    return {"env_runners": {"num_envs_per_env_runner": lanes, "gym_env_vectorize_mode": mode}, **callback}


ONE_BY_ONE, BATCH = "sync", "vector_entry_point"


def test_lanes_with_spaces_of_gymnasium_are_sampled(env_runner):
    flat = {"gear": Discrete(3), "turn": Array((2,), "float32", -1, 1)}
    creator = to_rllib(lambda: Shaped(Array((2,), "float32"), flat), validate=True, canonical=False)
    episodes = env_runner(creator, **lanes_of(3, BATCH)).sample(num_timesteps=24, random_actions=True)
    assert sum(len(episode) for episode in episodes) >= 24


@pytest.mark.parametrize(("lanes", "mode"), [(1, ONE_BY_ONE), (4, ONE_BY_ONE), (8, BATCH)])
def test_recorded_episodes_begin_go_on_and_end_as_they_were(env_runner, lanes, mode):
    kinds, runner = set(), env_runner(to_rllib(Ends, validate=True), **lanes_of(lanes, mode))
    for episode in runner.sample(num_episodes=40, random_actions=True):
        seen = np.asarray(episode.get_observations())
        length, kind = int(seen[0, 0]), int(seen[0, 2])
        assert len(episode) == length
        np.testing.assert_array_equal(seen[:, 0], np.full(length + 1, length))
        np.testing.assert_array_equal(seen[:, 1], np.arange(length + 1))
        np.testing.assert_array_equal(episode.get_rewards(), np.arange(1, length + 1))
        assert episode.is_terminated == (kind != 1)
        assert episode.is_truncated == (kind != 0)
        kinds.add(kind)
    assert kinds == {0, 1, 2}
