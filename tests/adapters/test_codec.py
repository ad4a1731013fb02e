"""RLlib's canonical values: every observation fits its space, every action comes back into its spec."""

import itertools

import nested
import numpy as np
import pytest
from depth import examples
from gymnasium import spaces
from hypothesis import assume, given
from hypothesis import strategies as st
from scripted import Shaped

from envoi import LossyConversion, sample, validate
from envoi.adapters import Loss, losses
from envoi.adapters.rllib.codec import Codec
from envoi.adapters.rllib.observations import IMAGE_SIZES
from envoi.spec import Array, Discrete, MultiBinary, MultiDiscrete, Sequence, Text

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # finite float64 beyond float32


def codec(observation=None, action=None):
    return Codec(Shaped(Array((1,)) if observation is None else observation, Discrete(2) if action is None else action))


def refusals(env):
    return [loss for loss in losses(env, "rllib") if loss.refused]


@examples(1500)
@given(nested.numeric_specs, st.integers(0, 2**31))
def test_every_observation_lies_in_the_space_that_rllib_sees(spec, seed):
    env = Shaped(spec, Discrete(2))
    if refusals(env):
        with pytest.raises(LossyConversion, match="size"):
            Codec(env)
        return
    made = Codec(env)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        seen = made.encode(sample(spec, rng))
        assert type(seen) is np.ndarray
        assert seen.dtype == np.float32
        assert made.observation_space.contains(seen)


@examples(1500)
@given(nested.numeric_specs, st.integers(0, 2**31))
def test_every_action_that_rllib_may_send_lies_in_the_spec(spec, seed):
    env = Shaped(Array((1,)), spec)
    if refusals(env):
        with pytest.raises(LossyConversion, match=r"^action.*(size|bounds)"):
            Codec(env)
        return
    made = Codec(env)
    assert isinstance(made.action_space, (spaces.Discrete, spaces.MultiDiscrete, spaces.Box, spaces.Tuple))
    made.action_space.seed(seed)
    for _ in range(3):
        validate(spec, made.decode(made.action_space.sample()), "action")


INTEGER_ACTIONS = [
    Discrete(3),
    Discrete(3, start=5),
    Discrete(3, start=-1, dtype="int8"),
    Discrete(2, start=2**63, dtype="uint64"),
    MultiDiscrete([2, 3]),
    MultiDiscrete([[2], [3]], start=[[-1], [4]], dtype="int16"),
    MultiDiscrete(3, start=1),
    MultiDiscrete([2], start=2**63, dtype="uint64"),
    MultiBinary(2),
    MultiBinary((1, 2)),
    Array((2,), "int32", [0, -3], [1, -1]),
    Array((), "uint8", 250, 255),
    Array((1,), "int8", -128, 127),
    Array((1,), "uint64", 2**64 - 3, 2**64 - 1),
    Array((2,), "bool"),
    Array((2,), "bool", [True, False], [True, True]),
    {"a": Discrete(2, start=3), "b": [MultiBinary(1), Discrete(2)]},
    nested.Pair(Discrete(2), Discrete(3, start=1)),
]


def count(spec):
    if isinstance(spec, Discrete):
        return spec.n
    if isinstance(spec, MultiDiscrete):
        return int(np.prod(spec.nvec))
    if isinstance(spec, MultiBinary):
        return 2 ** int(np.prod(spec.shape))
    if isinstance(spec, Array):
        low = np.zeros(spec.shape, int) if spec.low is None else spec.low.astype(object)
        high = np.ones(spec.shape, int) if spec.high is None else spec.high.astype(object)
        return int(np.prod(high - low + 1))
    return int(np.prod([count(sub) for sub in (spec.values() if isinstance(spec, dict) else spec)]))


@pytest.mark.parametrize("spec", INTEGER_ACTIONS, ids=str)
def test_every_integer_action_of_the_spec_can_be_reached_and_no_other(spec):
    made = codec(action=spec)
    space = made.action_space
    if isinstance(space, spaces.Discrete):
        assert space.start == 0
        actions = range(space.n)
        assert made.decode_batch(np.arange(space.n)).tolist() == [made.decode(n).item() for n in actions]
    else:
        assert isinstance(space, spaces.MultiDiscrete)
        assert space.nvec.ndim == 1
        assert not space.start.any()
        actions = map(np.array, itertools.product(*(range(n) for n in space.nvec)))
    reached = set()
    for action in actions:
        decoded = made.decode(action)
        validate(spec, decoded, "action")
        reached.add(repr(decoded))
    assert len(reached) == count(spec)


REAL_ACTIONS = [
    Array((2,), "float32", -1, 1),
    Array((), "float32", -1, 1),
    Array((2, 2), "float64", 0.1, 0.7),
    Array((2,), "float16", -1, 1),
    Array((2,), "float32"),
    Array((2,), "float64", -np.finfo(np.float64).max, np.finfo(np.float64).max),
    {"a": Array((2,), "float32", -1, 1), "b": (Array((), "float64", 1 / 3, 2 / 3),)},
]


@pytest.mark.parametrize("spec", REAL_ACTIONS, ids=str)
def test_real_actions_are_one_flat_box_whose_corners_lie_in_the_spec_to_the_last_bit(spec):
    made = codec(action=spec)
    space = made.action_space
    assert isinstance(space, spaces.Box)
    assert space.dtype == np.float32
    assert len(space.shape) == 1
    for corner in (space.low, space.high):
        if np.isfinite(corner).all():
            validate(spec, made.decode(corner), "action")


def test_actions_of_both_kinds_are_a_tuple_of_both():
    spec = {"turn": Array((2,), "float32", -1, 1), "gear": Discrete(3, start=-1), "lamps": MultiBinary(2)}
    made = codec(action=spec)
    assert isinstance(made.action_space, spaces.Tuple)
    action = made.decode((np.array([2, 1, 0]), np.array([0.5, -0.5], np.float32)))
    assert list(action) == ["turn", "gear", "lamps"]
    assert action["turn"].tolist() == [0.5, -0.5]
    assert action["gear"] == 1
    assert action["lamps"].tolist() == [1, 0]


def test_integers_with_few_values_are_one_hot_and_others_are_numbers():
    made = codec({"z": Discrete(3, start=5), "m": MultiDiscrete([2, 2], start=[1, -1]), "a": Discrete(5000)})
    seen = made.encode({"z": np.int64(6), "m": np.array([2, -1]), "a": 4999})
    assert seen.tolist() == [0, 1, 0, 0, 1, 1, 0, 4999]
    assert made.observation_space.high.tolist() == [1] * 7 + [4999]
    big = codec(Discrete(2, start=2**63, dtype="uint64"))
    assert big.encode(np.uint64(2**63 + 1)).tolist() == [0, 1]
    wide = codec(MultiDiscrete([2, 2], start=2**63, dtype="uint64"))
    assert wide.encode(np.array([2**63, 2**63 + 1], np.uint64)).tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("size", IMAGE_SIZES[::2])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"])
def test_images_stay_images_between_0_and_1(size, dtype):
    bounds = {"low": 0, "high": 1} if dtype.startswith("float") else {}
    spec = Array((size, size, 3), dtype, **bounds)
    made = codec(spec)
    assert made.observation_space == spaces.Box(0, 1, (size, size, 3), np.float32)
    most = 1 if bounds else np.iinfo(dtype).max
    for value in (0, most):
        seen = made.encode(np.full(spec.shape, value, dtype))
        assert made.observation_space.contains(seen)
        assert seen.dtype == np.float32
        assert (seen == (value > 0)).all()
    seen = made.encode(spec.sample(np.random.default_rng(0)))
    assert made.observation_space.contains(seen)


def test_the_very_array_is_passed_on_where_it_is_canonical_already():
    value = np.zeros(4, np.float32)
    assert codec(Array((4,), "float32", -1, 1)).encode(value) is value


def test_bounds_beyond_float32_are_no_bounds_and_no_warning():
    most = np.finfo(np.float64).max
    made = codec(Array((2,), "float64", -most, most))
    assert np.isneginf(made.observation_space.low).all()
    assert made.observation_space.contains(made.encode(np.array([1.0, 2.0])))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (Array((1,), "int64"), "bounds"),
        (Array((1,), "int64", 0), "bounds"),
        (Array((1,), "int64", 0, 4096), "bounds"),
        (Array((0,), "float32"), "size"),
        ({}, "size"),
    ],
)
def test_integer_actions_without_usable_bounds_and_actions_of_nothing_are_refused(spec, field):
    with pytest.raises(LossyConversion) as caught:
        codec(action=spec)
    assert caught.value.field == field
    codec(action=Array((1,), "int64", 0, 4095))


def test_losses_name_every_leaf_that_narrows_or_is_refused_and_no_other():
    observation = {
        "exact": Array((2,), "float32"),
        "half": Array((2,), "float16"),
        "wide": Array((2,), "float64"),
        "byte": Array((2,), "uint8"),
        "long": Array((2,), "int64"),
        "short": Array((2,), "int64", -(2**24), 2**24),
        "longer": Array((2,), "int64", 0, 2**24 + 1),
        "few": Discrete(10, start=2**40),
        "many": Discrete(2**24 + 2),
        "some": MultiDiscrete([2**25, 2]),
        "nothing": Array((0,), "int64", 0, 0),
        "text": Text(3),
    }
    action = (Array((1,), "float32"), Array((1,), "float64"), Discrete(2**40), Sequence(Discrete(2)))
    found = losses(Shaped(observation, action), "rllib")
    assert [(loss.path, loss.field, loss.refused) for loss in found] == [
        ("observation['wide']", "precision", False),
        ("observation['long']", "precision", False),
        ("observation['longer']", "precision", False),
        ("observation['many']", "precision", False),
        ("observation['some']", "precision", False),
        ("observation['text']", "type", True),
        ("action[1]", "precision", False),
        ("action[3]", "type", True),
    ]
    assert all(isinstance(loss, Loss) and loss.target == "rllib" for loss in found)
    assert str(found[0]).startswith("observation['wide']: precision narrowed")


@examples(500)
@given(nested.numeric_specs, st.integers(0, 2**31))
def test_what_losses_does_not_report_reaches_the_network_exactly(spec, seed):
    env = Shaped(spec, Discrete(2))
    assume(all(loss.field == "shape" and not loss.refused for loss in losses(env, "rllib")))
    made, rng = Codec(env), np.random.default_rng(seed)
    one, two = sample(spec, rng), sample(spec, rng)
    same = all(np.array_equal(a, b) for a, b in zip(flat(one), flat(two), strict=True))
    assert np.array_equal(made.encode(one), made.encode(two)) == same


def flat(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    return [leaf for one in value for leaf in flat(one)] if isinstance(value, (list, tuple)) else [value]
