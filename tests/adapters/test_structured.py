"""The canonical form with images, and action masks beside observations, for networks of envoi's own."""

import numpy as np
import pytest
from absent import optional
from depth import examples
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from scripted import Ends, Shaped

import envoi
from envoi import Array, Discrete, LossyConversion, MultiBinary, MultiDiscrete, SpecError, Text, sample
from envoi.adapters import from_env, load, losses
from envoi.adapters.rllib import Codec
from envoi.adapters.rllib.masks import Masks, has_masks
from envoi.adapters.rllib.observations import VECTOR, WORD_BINS, is_image, words

to_rllib = optional("envoi.adapters", "to_rllib")


def structured(observation):
    return Codec(Shaped(observation, Discrete(2)), structured=True)


# Images.

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
    together = made.encode_batch(envoi.lane_values.stack(spec, values))
    for lane, seen in enumerate(each):
        assert made.observation_space.contains(seen)
        for name in seen if isinstance(seen, dict) else [None]:
            one, all_lanes = (seen, together) if name is None else (seen[name], together[name])
            np.testing.assert_array_equal(all_lanes[lane], one)
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


@pytest.mark.parametrize("lanes", [None, 3])
def test_a_mask_in_the_observation_moves_beside_it(lanes):
    form = to_rllib(MaskedObservation, action_masks=True, num_envs=lanes)()
    seen, _ = form.reset(seed=0)
    assert seen["observations"].shape[-1] == 3  # the network does not see the mask
    assert (seen["action_mask"] == np.array([0, 1])).all()
    assert (form.step(form.action_space.sample())[0]["action_mask"] == np.array([0, 1])).all()
