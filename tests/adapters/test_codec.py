"""RLlib's canonical values: every observation fits its space, every action comes back; with images, and with masks."""

import itertools

import nested
import numpy as np
import pytest
from absent import optional
from depth import examples
from gymnasium import spaces
from hypothesis import assume, given
from hypothesis import strategies as st
from scripted import Ends, Shaped
from strategies import Pair

import envoi
from envoi import LossyConversion, SpecError, sample, validate
from envoi.adapters import Loss, from_env, load, losses
from envoi.adapters.rllib.codec import Codec
from envoi.adapters.rllib.masks import Masks, has_masks
from envoi.adapters.rllib.observations import IMAGE_SIZES, VECTOR, WORD_BINS, is_image, words
from envoi.lane_values import lane, stack
from envoi.spec import Array, Discrete, MultiBinary, MultiDiscrete, Sequence, Text

to_rllib = optional("envoi.adapters", "to_rllib")

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
    made, rng = Codec(env), np.random.default_rng(seed)
    values = [sample(spec, rng) for _ in range(3)]
    each, together = [made.encode(value) for value in values], made.encode_batch(stack(spec, values))
    for seen in each:
        assert type(seen) is np.ndarray
        assert seen.dtype == together.dtype == np.float32
        assert made.observation_space.contains(seen)
    np.testing.assert_array_equal(together, np.stack(each))


@examples(1500)
@given(nested.numeric_specs, st.integers(0, 2**31))
def test_every_action_that_rllib_may_send_lies_in_the_spec(spec, seed):
    env = Shaped(Array((1,)), spec)
    if refusals(env):
        with pytest.raises(LossyConversion, match=r"^action.*(size|bounds)"):
            Codec(env)
        return
    made = Codec(env)
    space = made.action_space
    assert isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.Box, spaces.Tuple))
    space.seed(seed)
    actions = [space.sample() for _ in range(3)]
    is_pair = isinstance(space, spaces.Tuple)
    together = tuple(np.stack(side) for side in zip(*actions, strict=True)) if is_pair else np.stack(actions)
    for given_as in (together, actions):  # RLlib sends arrays, or a list with one a lane
        decoded = made.decode_batch(given_as)
        for index, action in enumerate(actions):
            one = made.decode(action)
            validate(spec, one, "action")
            np.testing.assert_equal(lane(spec, decoded, index), one)
            validate(spec, lane(spec, decoded, index), "action")


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
    Array((1,), "int64", 0, 4095),
    Array((1,), "uint64", 2**64 - 3, 2**64 - 1),
    Array((2,), "bool"),
    Array((2,), "bool", [True, False], [True, True]),
    {"a": Discrete(2, start=3), "b": [MultiBinary(1), Discrete(2)]},
    Pair(Discrete(2), Discrete(3, start=1)),
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


# With images, for networks of envoi's own.


def structured(observation):
    return Codec(Shaped(observation, Discrete(2)), structured=True)


LEAVES = st.sampled_from(
    [
        Array((7, 7, 3), "uint8"),
        Array((3, 9, 8), "uint8", 0, 10),
        Array((8, 9), "uint8"),
        Array((5, 4, 1), "float64", -1, 3),
        Array((6, 5, 2), "uint16"),
        Array((2, 3), "float32"),
        Discrete(3, start=5),
        MultiBinary(2),
        Text(5),
    ]
)


@examples(200)
@given(st.dictionaries(st.sampled_from("abcd"), LEAVES | st.tuples(LEAVES, LEAVES), min_size=1), st.integers(0, 2**31))
def test_observations_with_images_lie_in_their_space_and_those_of_lanes_are_the_same(spec, seed):
    made, rng = structured(spec), np.random.default_rng(seed)
    values = [sample(spec, rng) for _ in range(3)]
    each = [made.encode(value) for value in values]
    together = made.encode_batch(stack(spec, values))
    for index, seen in enumerate(each):
        assert made.observation_space.contains(seen)
        for name in seen if isinstance(seen, dict) else [None]:
            one, all_lanes = (seen, together) if name is None else (seen[name], together[name])
            np.testing.assert_array_equal(all_lanes[index], one)
            assert all_lanes.dtype == one.dtype


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((210, 160, 3), (210, 160, 3)),
        ((84, 84), (84, 84, 1)),
        ((4, 84, 96), (84, 96, 4)),
        ((7, 7, 3), (7, 7, 3)),
        ((8, 8, 20), (8, 8, 20)),
        ((1, 1, 1), (1, 1, 1)),
    ],
)
def test_images_of_any_size_keep_their_bytes(shape, seen):
    spec = Array(shape, "uint8")
    made = structured(spec)
    assert made.observation_space == spaces.Box(0, 255, seen, np.uint8)
    pixels = sample(spec, np.random.default_rng(0))
    shown = made.encode(pixels)
    back = shown[..., 0] if len(shape) == 2 else np.moveaxis(shown, -1, 0) if shape != seen else shown
    np.testing.assert_array_equal(back, pixels)
    assert np.shares_memory(shown, pixels)


def test_images_stand_beside_the_vector_of_all_other_leaves_under_their_paths():
    spec = {"cams": (Array((7, 7, 3), "uint8"), Array((8, 8), "uint8")), "n": Discrete(2), "at": Array((2, 2))}
    made = structured(spec)
    assert {name: space.shape for name, space in made.observation_space.spaces.items()} == {
        "cams/0": (7, 7, 3),
        "cams/1": (8, 8, 1),
        VECTOR: (6,),
    }
    clash = structured({VECTOR: Array((7, 7, 3), "uint8"), "n": Discrete(2)})
    assert set(clash.observation_space.spaces) == {"['vector']", VECTOR}
    assert structured({"only": Array((7, 7, 3), "uint8")}).observation_space.shape == (7, 7, 3)


def test_tables_of_numbers_are_no_images_and_losses_list_whatever_is_flattened():
    spec = {
        "unbounded": Array((4, 4, 3), "float32"),
        "integers": Array((4, 4, 3), "int64", 0, 5),
        "table": Array((3, 9), "uint8"),
        "image": Array((4, 4, 3), "float32", 0, 1),
    }
    assert [name for name, leaf in spec.items() if is_image(leaf)] == ["image"]
    found = [loss for loss in losses(Shaped(spec, Discrete(2)), "rllib") if loss.field == "shape"]
    assert [loss.path for loss in found] == [f"observation['{name}']" for name in spec]
    assert "flattened" in str(found[0])
    alone = losses(Shaped(Array((84, 84, 3), "uint8"), Discrete(2)), "rllib")
    assert not alone  # it stays an image


def test_an_image_of_bytes_that_is_flattened_is_scaled():
    made = Codec(Shaped({"cam": Array((7, 7, 3), "uint8"), "n": Array((2,), "uint8")}, Discrete(2)))
    seen = made.encode({"cam": np.full((7, 7, 3), 255, np.uint8), "n": np.array([3, 255], np.uint8)})
    assert seen.tolist() == [1.0] * 147 + [3.0, 255.0]
    assert made.observation_space.contains(seen)


def test_words_are_counted_whatever_their_order():
    seen = words("go to the red door")
    assert seen.shape == (WORD_BINS,)
    assert seen.sum() == 5
    np.testing.assert_array_equal(seen, words("door red the to GO"))
    assert (seen != words("go to the blue door")).any()


def test_what_has_no_canonical_form_is_refused_beside_images_too():
    with pytest.raises(LossyConversion, match=r"observation\['x'\]\[0\]"):
        structured({"cam": Array((7, 7, 3), "uint8"), "x": (envoi.Sequence(Array(1)),)})


@pytest.mark.parametrize("lanes", [None, 3])
def test_forms_with_images_are_stepped_and_come_back(lanes):
    spec = {"cam": Array((9, 8, 3), "uint8"), "n": Discrete(3)}
    creator = to_rllib(lambda: Shaped(spec, Discrete(2)), canonical="structured", num_envs=lanes)
    form = creator()
    seen, _ = form.reset(seed=0)
    assert seen["cam"].dtype == np.uint8
    assert form.observation_space.contains(seen)
    seen = form.step(form.action_space.sample())[0]
    assert form.observation_space.contains(seen)
    assert from_env(form) is form.core


# Masks.


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "int64", "float64"])
def test_masks_of_any_dtype_are_the_same(dtype):
    seen = Masks(Discrete(3)).beside("seen", {"action_mask": np.array([1, 0, 1], dtype)})
    assert seen["action_mask"].tolist() == [1, 0, 1]
    assert seen["action_mask"].dtype == np.float32


@pytest.mark.parametrize(
    ("spec", "mask", "flat"),
    [
        (Discrete(3, start=5), [0, 1, 1], [0, 1, 1]),
        (MultiDiscrete([2, 3]), (np.array([1, 0]), np.array([0, 0, 1])), [1, 0, 0, 0, 1]),
        (MultiDiscrete([2, 3]), np.array([1, 0, 0, 0, 1], bool), [1, 0, 0, 0, 1]),
        (MultiDiscrete([2, 3]), (None, np.array([0, 1, 1])), [1, 1, 0, 1, 1]),
        (Discrete(3), [1, 0, 0.5], [1, 0, 1]),
        (MultiDiscrete([[2], [2]]), ((np.array([1, 0]),), (np.array([0, 1]),)), [1, 0, 0, 1]),
        (MultiDiscrete([2, 2]), np.array([[1, 0], [0, 1]]), [1, 0, 0, 1]),
        (MultiBinary(3), np.array([0, 1, 2]), [1, 0, 0, 1, 1, 1]),
        ({"a": Discrete(2), "b": (Discrete(2),)}, {"a": [1, 0], "b": (None,)}, [1, 0, 1, 1]),
        (Discrete(2), None, [1, 1]),
    ],
    ids=str,
)
def test_masks_are_given_as_gymnasium_samples_with_them_or_flat(spec, mask, flat):
    masks = Masks(spec)
    assert masks.size == len(flat)
    assert masks.beside(0, {"action_mask": mask})["action_mask"].tolist() == flat


def test_a_mask_of_the_wrong_length_is_an_error_that_says_so():
    with pytest.raises(SpecError, match=r"info\['action_mask'\]: expected 3 elements"):
        Masks(Discrete(3)).beside(0, {"action_mask": np.ones(4)})
    with pytest.raises(SpecError, match="expected a mask for 'b'"):
        Masks({"a": Discrete(2), "b": Discrete(2)}).beside(0, {"action_mask": {"a": [1, 0]}})
    with pytest.raises(LossyConversion, match="masks are for Discrete"):
        Masks({"a": Discrete(2), "b": Array((1,), "float32", 0, 1)})


class MaskedInfo(Ends):
    def info(self, state):
        return {"action_mask": np.array([1, 0], np.int8)}


class MaskedObservation(Ends):
    observation_spec = {"action_mask": Array((2,), "int8", 0, 1), "at": Array((3,), "float32")}

    def observe(self, state, rng):
        return {"action_mask": np.array([0, 1], np.int8), "at": np.zeros(3, np.float32)}


@pytest.mark.parametrize(
    ("env", "has"),
    [
        (MaskedInfo, True),
        (MaskedObservation, True),
        (Ends, False),
        (lambda: load("envoi:nim"), True),
        (lambda: load("envoi:pursuit"), False),
        (lambda: load("pettingzoo:classic/tictactoe_v3"), True),
        (lambda: Shaped({"action_mask": Array((2,)), "x": Array((1,))}, Array((2,), "float32", 0, 1)), False),
        (lambda: envoi.batch(MaskedInfo(), 2), True),
    ],
)
def test_auto_finds_the_masks_that_an_environment_has(env, has):
    assert has_masks(env()) is has
    form = to_rllib(env, action_masks="auto")()
    space = getattr(form, "single_observation_space", form.observation_space)
    agents = space.spaces.values() if hasattr(form, "observation_spaces") else [space]
    for one in agents:
        assert (isinstance(one, spaces.Dict) and list(one.spaces) == ["action_mask", "observations"]) is has


class MaskedAtTimes(Ends):
    def info(self, state):
        return {"action_mask": np.array([1, 0], np.int8)} if state[1] % 2 else {}


@pytest.mark.parametrize("lanes", [None, 3])
@pytest.mark.parametrize(("env", "expected"), [(MaskedObservation, [[0, 1]] * 2), (MaskedAtTimes, [[1, 1], [1, 0]])])
def test_masks_are_beside_observations(env, expected, lanes):
    form = to_rllib(env, action_masks=True, num_envs=lanes)()
    actions = np.zeros(lanes or (), int)
    for seen, mask in zip((form.reset(seed=0)[0], form.step(actions)[0]), expected, strict=True):
        assert seen in form.observation_space
        assert list(seen) == ["action_mask", "observations"]
        assert seen["observations"].shape == (*actions.shape, 3)  # the network does not see the mask
        np.testing.assert_array_equal(seen["action_mask"], np.broadcast_to(mask, (*actions.shape, 2)))
