"""Batches as the vector environments that RLlib's runners step, and the codec of whole batches."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from scripted import Ends, Shaped
from strategies import Pair

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, SpecError, batch
from envoi.adapters import load, to_rllib
from envoi.adapters.rllib import bind_worker, from_rllib, recognises
from envoi.adapters.rllib.codec import Codec
from envoi.adapters.rllib.form import RLlibVectorEnv

pytestmark = [
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered in cast"),
]

MIXED = {"turn": Array((2, 2), "float64", -1, 1), "gear": Discrete(3, start=-7, dtype="int8")}


def form_of(env, n=4, context=(), **arguments):
    return to_rllib(env, **arguments)({"num_envs": n, **dict(context)})


# The codec.


def test_an_observation_outside_its_spec_is_refused_with_its_lane():
    choice = Discrete(3, start=1)
    for spec, values in ((choice, [1, 4]), (choice, [1, 0]), (MultiDiscrete([2, 3]), [[1, 2], [2, 0]])):
        with pytest.raises(SpecError, match="lane 1"):
            Codec(Shaped(spec, Discrete(2))).encode_batch(np.array(values))


# The form.


def test_lanes_are_made_where_rllib_asks_for_them_or_the_creator_says_so():
    for env in ("envoi:catch", Ends, Ends(), lambda: gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1")):
        for form in (form_of(env), to_rllib(env, num_envs=4)(), to_rllib(env, num_envs=4)({"num_envs": 4})):
            assert isinstance(form, RLlibVectorEnv)
            assert isinstance(form, VectorEnv)
            assert form.num_envs == form.core.batch_size == 4
            assert form.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
            assert recognises(form)
            assert from_rllib(form) is form.core
            observations, _ = form.reset(seed=3)
            assert observations in form.observation_space
            assert form.step(form.action_space.sample())[0] in form.observation_space
    with pytest.raises(SpecError, match="expected 4"):
        to_rllib("envoi:catch", num_envs=4)({"num_envs": 8})
    with pytest.raises(SpecError, match="sync"):
        form_of("envoi:nim")


def test_a_batch_is_taken_as_it_is():
    lanes = batch(load("envoi:catch"), 4)
    for form in (to_rllib(lanes)(), form_of(lanes), to_rllib(lambda: batch(load("envoi:catch"), 4))()):
        assert isinstance(form, RLlibVectorEnv)
        assert form.num_envs == 4
    assert from_rllib(to_rllib(lanes)) is lanes
    with pytest.raises(SpecError, match="expected 4, the lanes of the batch, got 3"):
        form_of(lanes, 3)


def test_each_lane_has_randomness_of_its_own_before_any_seed():
    env = load("gymnasium:CartPole-v1")
    env.reset(seed=0)
    for made in (env, lambda: gymnasium.make("CartPole-v1"), "envoi:cartpole", load("envoi:cartpole")):
        begun = np.concatenate([form_of(made).reset()[0] for _ in range(2)])
        assert len(np.unique(begun, axis=0)) == 8


def test_a_lane_is_the_environment_alone():
    observation = {"z": Array((2,), "float64"), "a": Pair(MultiBinary(3), [Discrete(2, start=4)])}
    for spec, action in ((Array((42, 42, 3), "uint8"), Discrete(2, start=3)), (observation, MIXED)):
        form = form_of(lambda spec=spec, action=action: Shaped(spec, action), 3)
        seeds = [5, 6, 7]
        alone = [to_rllib(lambda spec=spec, action=action: Shaped(spec, action))() for _ in seeds]
        together, _ = form.reset(seed=seeds)
        each = [one.reset(seed=seed)[0] for one, seed in zip(alone, seeds, strict=True)]
        np.testing.assert_array_equal(together, np.stack(each))
        for _ in range(3):
            actions = [one.action_space.sample() for one in alone]
            seen, rewards, *_ = form.step(actions)
            for index, one in enumerate(alone):
                expected = one.step(actions[index])
                np.testing.assert_array_equal(seen[index], expected[0])
                assert rewards[index] == expected[1]


def test_actions_of_lanes_may_be_a_list_in_spaces_of_gymnasium():
    form = form_of(lambda: Shaped(Array((2,)), MIXED), 3, canonical=False)
    form.reset(seed=0)
    form.step([form.single_action_space.sample() for _ in range(3)])  # as RLlib sends them


def test_wrongly_many_actions_are_refused():
    for canonical in (True, False):
        form = form_of(Ends, 4, canonical=canonical)
        form.reset(seed=0)
        for actions in (np.zeros(3, int), [0] * 5):
            with pytest.raises(SpecError, match="lanes"):
                form.step(actions)


class Talks(Ends):
    def info(self, state):
        return {3: "three", "word": "yes", "number": state[1]}


def test_infos_with_other_keys_than_names_stay_beside():
    form = form_of(Talks, 2)
    _, infos = gymnasium.wrappers.vector.DictInfoToList(form).reset(seed=0)
    assert infos == [{"word": "yes", "number": 0}] * 2
    assert form.last.info[0] == {3: "three", "word": "yes", "number": 0}
    *_, said = form.step([0, 0])
    assert all(isinstance(key, str) for key in said)


# Seeds.


def test_a_batch_that_is_bound_to_a_worker_has_its_seeds():
    def begun(worker, seed):
        form = form_of("gymnasium:CartPole-v1", 4)
        bind_worker(env=form, env_context=type("Context", (), {"worker_index": worker})())
        return {tuple(row) for row in form.reset(seed=seed)[0].tolist()}

    first = [begun(worker, 7 + worker) for worker in range(4)]  # as RLlib gives them
    assert len(set().union(*first)) == 16
    assert begun(2, 9) == first[2]
    assert not begun(3, 9) & first[2]
    bind_worker(env=gymnasium.make("CartPole-v1"), env_context={})  # which it leaves alone


def test_for_others_than_rllib_an_equal_seed_replays():
    form = form_of("gymnasium:CartPole-v1", 2)
    begun = [form.reset(seed=3)[0].tolist() for _ in range(2)]
    assert begun[0] != begun[1]
    form.forget_seeds()
    assert [form.reset(seed=3)[0].tolist() for _ in range(2)] == begun
    core = from_rllib(gymnasium.wrappers.vector.RecordEpisodeStatistics(form))
    assert core is not form.core
    for seed in (0, 3):
        one, two = (core.reset(seed=seed).observation.tolist() for _ in range(2))
        assert one == two
    assert form.reset(seed=3)[0].tolist() != two
