"""Our forms where TF-Agents takes them: its validation, its TensorFlow side, drivers and wrappers."""

import copy

import numpy as np
import pytest
import tensorflow as tf
from depth import examples
from hypothesis import given
from hypothesis import strategies as st
from scripted import Ends, Line, Scripted, Shaped
from tf_agents.environments import utils, wrappers
from tf_agents.environments.batched_py_environment import BatchedPyEnvironment
from traces import exact

import envoi
from envoi import Array, Discrete, MultiBinary, MultiDiscrete
from envoi.adapters import from_tf_agents, load, to_tf_agents
from envoi.adapters.tf_agents import FromTFAgents, ToTFAgents

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

EVERYTHING = {
    "z": Array((2, 3), "float64", name="a b"),
    "a": (Array((), "float16", -1, 1), Discrete(3, start=5, dtype="uint8", name="_x")),
    "m": [MultiDiscrete([3, 5], start=[1, 2], dtype="int32"), MultiBinary(4)],
    "u": Array((2,), "uint32", 0, 9),
    "b": Array((2,), "bool"),
    "h": Array((2,), "float32", [-np.inf, 0], np.inf),
    "e": Array((0,), "float32"),
}


def make(name, n):
    core = load(f"envoi:{name}")
    return to_tf_agents(core if n is None else envoi.batch(core, n))


def test_tf_agents_validates_every_kind_of_leaf():
    form = to_tf_agents(Shaped(EVERYTHING, Discrete(3, start=-1)))
    utils.validate_py_environment(form, episodes=3)
    utils.validate_py_environment(to_tf_agents(envoi.batch(form.core, 2)), episodes=3)


def test_every_kind_of_leaf_goes_through_tensorflow_and_back_in_eager_mode_and_in_a_graph(tensors):
    core = Shaped(EVERYTHING, EVERYTHING)  # which validates each action
    env = tensors(to_tf_agents(core))
    action = envoi.sample(EVERYTHING, np.random.default_rng(0))
    acted = tf.nest.map_structure(lambda leaf: tf.convert_to_tensor(np.asarray(leaf)[None]), _ordered(action))
    env.reset()
    for step in (env.step, tf.function(env.step)):
        told = step(acted).observation
        core_says = _ordered(core.observation)
        tf.nest.map_structure(lambda t, c: np.testing.assert_array_equal(t.numpy()[0], c), told, core_says)
        assert [str(t.dtype.name) for t in tf.nest.flatten(told)] == [
            str(np.asarray(c).dtype) for c in tf.nest.flatten(core_says)
        ]


def _ordered(value):
    from envoi.adapters.tf_agents.specs import array_encoder

    return array_encoder(EVERYTHING)(value)


@pytest.mark.parametrize("multithreading", [False, True])
def test_several_forms_make_a_batch_of_tf_agents(multithreading):
    batch = BatchedPyEnvironment([to_tf_agents(Ends()) for _ in range(3)], multithreading)
    whole = to_tf_agents(envoi.Lanes([Ends() for _ in range(3)]))
    for index, env in enumerate(batch.envs):
        env.seed(index)
    whole.seed([0, 1, 2])
    told, mine = batch.reset(), whole.reset()
    for _ in range(20):
        assert exact(tuple(told)) == exact(tuple(mine))
        actions = np.array([0, 1, 0])
        told, mine = batch.step(actions), whole.step(actions)
    batch.close()


# TF-Agents' own wrappers around our forms, and back.


@pytest.mark.parametrize("wrap", [lambda form: wrappers.TimeLimit(form, 100), wrappers.RunStats])
def test_a_wrapper_that_changes_nothing_loses_nothing(wrap):
    def lived(env):
        env.reset(seed=3)
        return [exact(env.step(5)) for _ in range(2)]

    script = [Line(2**40 + 1, info={"a": (1, "b")}), Line(1.0, True, True)]
    env = from_tf_agents(wrap(to_tf_agents(Scripted(*script))))
    assert isinstance(env, FromTFAgents)
    assert lived(env) == lived(Scripted(*script))
    assert env.reward_spec == Scripted.reward_spec


def test_a_subclass_decides_when_to_reset():
    class Restless(ToTFAgents):
        def should_reset(self, current_time_step):
            return True

    form = Restless(load("envoi:catch"))
    form.reset()
    assert form.step(1).is_first()


def test_reward_and_discount_specs_survive_its_wrappers_though_it_drops_them():
    class Vector(Scripted):
        reward_spec = Array((2,), "float32", 0, 9, "two")
        discount_spec = Array((2,), "float32", 0, 1, "rest")

    wrapped = wrappers.TimeLimit(to_tf_agents(Vector(Line(np.ones(2, np.float32)))), 9)
    assert wrapped.reward_spec().shape == ()
    env = from_tf_agents(wrapped)
    assert env.reward_spec == Array((2,), "float32", name="two")
    assert env.discount_spec == Vector.discount_spec


infos = st.recursive(
    st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.booleans(), st.none(), st.text(max_size=3), st.just("array")),
    lambda inner: st.one_of(
        st.dictionaries(st.text("abc", min_size=1), inner, max_size=2), st.lists(inner, max_size=2)
    ),
    max_leaves=4,
)


def varied(info, rng):
    """An info of the same keys, shapes and kinds with other values."""

    def other(leaf):
        if isinstance(leaf, bool):
            return bool(rng.integers(2))
        if isinstance(leaf, str):
            return rng.standard_normal((2,)).astype("f4") if leaf == "array" else leaf + "x" * int(rng.integers(3))
        return leaf if leaf is None else type(leaf)(rng.integers(-9, 9))

    return envoi.tree.map_leaves(other, info)


@examples(60)
@given(st.dictionaries(st.text("abc", min_size=1), infos, max_size=3), st.integers(1, 3), st.integers(0, 99))
def test_the_info_of_our_batch_is_that_of_their_batch_of_our_forms(info, n, seed):
    rng = np.random.default_rng(seed)
    lines = [Scripted(Line(info=varied(info, rng)), Line()) for _ in range(n)]
    ours = to_tf_agents(envoi.Lanes(copy.deepcopy(lines)))
    theirs = BatchedPyEnvironment([to_tf_agents(line) for line in lines], multithreading=False)
    assert exact(ours.get_info()) == exact(theirs.get_info()) == exact({})
    for form in (ours, theirs):
        form.reset()
        form.step(np.full(n, 5))
    assert described(ours.get_info()) == described(theirs.get_info())
    tf.nest.assert_same_structure(ours.get_info(), theirs.get_info(), check_types=False)
    assert described(tf.nest.map_structure(np.copy, ours.get_info())) == described(theirs.get_info())
    # And both are read back as they were.
    told = [exact(line.lines[0].info) for line in lines]
    assert [exact(one) for one in ours.infos] == told
    for source in (to_tf_agents(envoi.Lanes(copy.deepcopy(lines))), theirs):
        env = from_tf_agents(source)
        env.reset()
        assert [exact(one) for one in env.step(np.full(n, 5)).info] == told


def described(nest):
    """The arrays of a nest by path: class, dtype, shape and values, objects by themselves."""
    return {path: (type(leaf), leaf.dtype, leaf.shape, leaf.tolist()) for path, leaf in envoi.tree.leaves(nest)}
