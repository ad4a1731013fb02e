"""Spaces and specs say exactly the same, both ways, nested to any depth."""

import copy
import pickle

import cloudpickle
import gymnasium
import nested
import numpy as np
import pytest
from absent import optional
from depth import examples
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from hypothesis import assume, given
from hypothesis import strategies as st
from scripted import Ends, Returning
from strategies import Pair

import envoi
from envoi import LossyConversion, SpecError, sample, spec_equal, validate
from envoi.adapters import dm_env, from_env, tf_agents
from envoi.adapters.gymnasium import from_gymnasium, from_space, to_gymnasium, to_space
from envoi.adapters.gymnasium.specs import decoder, encoder
from envoi.adapters.gymnasium_vector import from_gymnasium_vector, to_gymnasium_vector
from envoi.adapters.gymnasium_vector.specs import batched_space
from envoi.adapters.pettingzoo import to_pettingzoo
from envoi.adapters.shared.arrival import incoming
from envoi.spec import Array, Discrete, Foreign, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text
from envoi.tree import leaves

to_rllib = optional("envoi.adapters", "to_rllib")


def encode(spec, value):
    convert = encoder(spec)
    return value if convert is None else convert(value)


def decode(spec, value):
    convert = decoder(spec)
    return value if convert is None else convert(value)


def forget(space):
    """A space as third-party code would make it, which does not remember a spec."""
    space = copy.deepcopy(space)
    stack = [space]
    while stack:
        one = stack.pop()
        vars(one).pop("_envoi_spec", None)
        stack += list(getattr(one, "spaces", {}).values()) if isinstance(one, spaces.Dict) else []
        stack += list(one.spaces) if isinstance(one, (spaces.Tuple, spaces.OneOf)) else []
        inner = [getattr(one, name, None) for name in ("feature_space", "node_space", "edge_space")]
        stack += [sub for sub in inner if sub is not None]
    return space


@examples(2000)
@given(nested.specs)
def test_specs_and_spaces_come_back_equal_in_every_field(spec):
    space = to_space(spec)
    assert spec_equal(from_space(space), spec)
    strange = forget(space)
    back = to_space(from_space(strange))
    assert back == strange
    assert repr(back) == repr(strange)  # order of keys too, which `==` does not see
    assert spec_equal(from_space(forget(back)), from_space(strange))


@examples(300)
@given(nested.specs)
def test_a_space_that_was_copied_or_pickled_still_remembers_its_spec(spec):
    space = to_space(spec)
    for copied in (copy.copy(space), copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert spec_equal(from_space(copied), spec)
    assert spec_equal(from_space(cloudpickle.loads(cloudpickle.dumps(space))), spec)


@examples(600)
@given(nested.specs, st.integers(0, 2**31))
@pytest.mark.filterwarnings("ignore:.*Casting input x:UserWarning")  # gymnasium iterates over rows of scalars
def test_a_value_of_a_spec_lies_in_its_space_and_comes_back_as_it_was(spec, seed):
    value = sample(spec, np.random.default_rng(seed))
    sent = encode(spec, value)
    with np.errstate(all="raise"):
        assert to_space(spec).contains(sent)
    back = incoming(spec)(decode(spec, sent))
    validate(spec, back)
    np.testing.assert_equal(back, value)


@examples(600)
@given(nested.specs, st.integers(0, 2**31))
@pytest.mark.filterwarnings("ignore:.*Casting input x:UserWarning")  # gymnasium iterates over rows of scalars
def test_what_a_space_samples_decodes_into_the_spec(spec, seed):
    assume(not any(is_beyond_gymnasium(leaf) for _, leaf in leaves(spec)))
    space = to_space(spec)
    space.seed(seed)
    value = decode(spec, space.sample())
    validate(spec, incoming(spec)(value))


def is_beyond_gymnasium(leaf):
    """Returns True if gymnasium's own sampling of such a space is wrong: wide integers, and graphs not from 0."""
    if isinstance(leaf, Array):
        finite = leaf.dtype.kind != "f" or leaf.dtype.itemsize > 2
        return leaf.dtype.kind in "iub" or not finite
    if isinstance(leaf, (Sequence, OneOf)):
        inner = [leaf.spec] if isinstance(leaf, Sequence) else leaf.specs
        return any(is_beyond_gymnasium(one) for sub in inner for _, one in leaves(sub))
    if isinstance(leaf, Graph):
        return any(part is not None and is_beyond_gymnasium(part) for part in (leaf.node, leaf.edge))
    return False


def test_a_foreign_unbounded_box_has_no_bounds_and_a_partly_bounded_one_keeps_infinity_per_element():
    infinite = Array((2,), low=-np.inf, high=np.inf)
    assert from_space(to_space(infinite)) == infinite != Array((2,))
    assert from_space(spaces.Box(-np.inf, np.inf, (2,))) == Array((2,))
    assert from_space(spaces.Box(-np.inf, np.inf, (2,), np.int8)) == Array((2,), "int8")
    assert from_space(spaces.Box(-128, 127, (2,), np.int8)) == Array((2,), "int8", -128, 127)
    assert from_space(spaces.Box(0, 1, (2,), bool)) == Array((2,), "bool", False, True)
    spec = from_space(spaces.Box(np.array([-np.inf, 0], np.float32), np.inf))
    assert spec.low.tolist() == [-np.inf, 0.0]
    assert spec.high is None


BOXED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "float32", "float64")


@st.composite
def boxes(draw):
    """Foreign boxes, with infinite bounds of single elements, and with the ends of the dtype as bounds."""
    dtype = np.dtype(draw(st.sampled_from(BOXED)))
    shape = draw(st.sampled_from([(), (3,), (2, 2), (0,)]))
    if dtype.kind == "f":
        values, infinite = [-1000.0, -1.0, 0.0, 0.5, 77.25], True
    else:
        least, most = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        values, infinite = sorted({least, max(least, -3), 0, 1, most}), dtype.kind == "i"
    size = int(np.prod(shape))
    pairs = [sorted(draw(st.tuples(st.sampled_from(values), st.sampled_from(values)))) for _ in range(size)]
    low, high = (np.array([pair[side] for pair in pairs], dtype).reshape(shape) for side in (0, 1))
    box = spaces.Box(low, high, shape, dtype.type)
    masks = [
        np.array([not infinite or draw(st.booleans()) for _ in range(size)], bool).reshape(shape) for _ in range(2)
    ]
    # As gymnasium makes it of infinities, but exact for int64 too.
    least, most = (-np.inf, np.inf) if dtype.kind == "f" else (values[0], values[-1])
    box.low[~masks[0]], box.high[~masks[1]] = least, most
    box.bounded_below, box.bounded_above = masks
    box.low_repr, box.high_repr = (spaces.box.array_short_repr(side) for side in (box.low, box.high))
    return box


def same_box(box, other):
    """Returns True if two boxes are the same in all fields, including which elements are bounded."""
    assert (box.low.tolist(), box.high.tolist()) == (other.low.tolist(), other.high.tolist())
    assert (box.shape, box.dtype) == (other.shape, other.dtype)
    assert box.bounded_below.tolist() == other.bounded_below.tolist()
    assert box.bounded_above.tolist() == other.bounded_above.tolist()
    for manner in ("below", "above", "both"):
        assert box.is_bounded(manner) == other.is_bounded(manner)
    return True


def drawn(space):
    """The next samples of a space, in a form that can be compared; or the error that gymnasium itself raises."""
    try:
        with np.errstate(all="ignore"):  # gymnasium's own casts beyond int64
            return repr([space.sample() for _ in range(2)])
    except (ValueError, OverflowError) as error:
        return str(error)


def samples(space, seed):
    """The first samples of a space after `seed`."""
    space.seed(seed)
    return drawn(space)


@examples(600)
@given(boxes(), st.integers(0, 2**31))
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_a_box_comes_back_with_the_same_bounded_elements_and_the_same_samples(box, seed):
    spec = from_space(box)
    back = to_space(spec)
    assert same_box(box, back)
    assert same_box(box, forget(back))
    assert samples(copy.deepcopy(box), seed) == samples(back, seed)
    assert spec.bounded_below.tolist() == box.bounded_below.tolist()
    assert spec.bounded_above.tolist() == box.bounded_above.tolist()
    for to, read in ((dm_env.to_spec, dm_env.from_spec), (tf_agents.to_spec, tf_agents.from_spec)):
        there = to({"box": spec})
        assert same_box(box, to_space(read(there))["box"])
        assert same_box(box, to_space(read(pickle.loads(pickle.dumps(there))))["box"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize(
    ("framework", "name"), [(dm_env, "BoundedArray"), (tf_agents, "BoundedArraySpec")], ids=["dm_env", "tf_agents"]
)
def test_specs_of_arrays_say_bounds_where_a_box_has_some(framework, name, dtype):
    kind, ends = np.dtype(dtype).type, np.iinfo(dtype)
    bounded = from_space(spaces.Box(ends.min, ends.max, (2,), kind))
    for spec in (bounded, Array((2,), dtype, [-np.inf, 0], [5, np.inf]), Array((2,), dtype, 0)):
        told = framework.to_spec(spec)
        assert type(told).__name__ == name
        assert told.minimum.dtype == told.maximum.dtype == dtype
        # A copy with another name remembers nothing, and has bounds all the same.
        low, high = (np.broadcast_to(side, (2,)).tolist() for side in (told.minimum, told.maximum))
        assert framework.from_spec(told.replace(name="other")) == Array((2,), dtype, low, high, "other")
    free = framework.to_spec(Array((2,), dtype))
    assert type(free).__name__ == name.replace("Bounded", "")
    if not dtype.startswith("u"):  # gymnasium has no unsigned integers without bounds
        assert from_space(spaces.Box(-np.inf, np.inf, (2,), kind)) == Array((2,), dtype)


@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (3, np.inf), (-np.inf, 5), ([-np.inf, 0], [7, np.inf])])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_partly_bounded_integers_of_several_lanes_are_sampled_within_their_bounds(dtype, low, high):
    space = batched_space(to_space(Array((2,), dtype, low, high)), 3)
    assert space.bounded_below.tolist() == [np.broadcast_to(np.array(low) > -np.inf, (2,)).tolist()] * 3
    assert space.bounded_above.tolist() == [np.broadcast_to(np.array(high) < np.inf, (2,)).tolist()] * 3
    for seed in range(20):
        space.seed(seed)
        drawn = space.sample()
        assert ((drawn >= np.array(low)) & (drawn <= np.array(high))).all()
        assert space.contains(drawn)


def test_the_order_of_a_dict_is_kept_both_ways():
    spec = {"z": Array(1), "a": Array(2), "m": {"y": Array(3), "b": Array(4)}}
    space = to_space(spec)
    assert list(space.spaces) == ["z", "a", "m"]
    assert list(space["m"].spaces) == ["y", "b"]
    assert list(from_space(forget(space))) == ["z", "a", "m"]
    assert list(decode(spec, dict(reversed(space.sample().items())))) == ["z", "a", "m"]


def test_a_space_that_was_changed_no_longer_counts_as_the_spec_it_came_from():
    box = to_space(Array((2,), low=0, high=1e-9, name="small"))
    box.high[1] = 2e-9  # gymnasium finds the two equal
    assert from_space(box) == Array((2,), low=0, high=np.array([1e-9, 2e-9], np.float32))
    made = to_space({"a": Discrete(2, name="first"), "b": Discrete(3, name="second")})
    made["c"] = spaces.Discrete(4)
    assert from_space(made) == {"a": Discrete(2, name="first"), "b": Discrete(3, name="second"), "c": Discrete(4)}


def test_a_text_space_samples_the_same_strings_in_every_process():
    import subprocess
    import sys

    code = (
        "from envoi import Text; from envoi.adapters.gymnasium import to_space\n"
        "space = to_space(Text(20, 20)); space.seed(3); print(space.sample())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


REFUSED = {
    "complex": (Array((2,), "complex64"), ""),
    "empty binary": (MultiBinary((2, 0)), ""),
    "narrow n": (Discrete(256, dtype="uint8"), ""),
    "narrow start": (Discrete(100, 28, "int8"), ""),
    "narrow nvec": (MultiDiscrete([2, 256], dtype="uint8"), ""),
    "complex in a sequence": (Sequence(Array((2,), "complex64")), "[…]"),
    "complex node": (Graph(Array((2,), "complex64")), ".nodes"),
    "complex edge": (Graph(Array((2,)), Array((2,), "complex64")), ".edges"),
    "complex alternative": (OneOf([Array(1), Array((2,), "complex64")]), "[1]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_gymnasium_cannot_say_is_refused_by_the_path_of_the_leaf(name):
    spec, inside = REFUSED[name]
    tree = {"outer": (Array(1), Pair(Discrete(2), [spec]))}
    with pytest.raises(LossyConversion) as caught:
        to_space(tree, "observation")
    assert caught.value.path == f"observation['outer'][1].right[0]{inside}"
    assert caught.value.target == "gymnasium"
    assert str(caught.value).startswith(caught.value.path)


class Own(spaces.Space):
    """Even numbers."""

    def sample(self, mask=None, probability=None):
        return 2 * int(self.np_random.integers(5))

    def contains(self, x):
        return x % 2 == 0

    def __eq__(self, other):
        return isinstance(other, Own)


def test_a_kind_of_space_that_only_its_author_knows_comes_back_as_it_was():
    space = spaces.Dict({"own": Own(), "box": spaces.Box(0, 1)})
    spec = from_space(space)
    assert isinstance(spec["own"], Foreign)
    assert to_space(spec) == space
    assert type(to_space(spec)["own"]) is Own
    assert from_space(to_space(spec)) == spec
    assert hash(spec["own"]) == hash(from_space(Own()))
    validate(spec["own"], 4)
    with pytest.raises(SpecError, match=r"observation\['own'\]: expected a value that .* contains, got 3"):
        validate(spec, {"box": np.zeros(1, np.float32), "own": 3}, "observation")
    drawn = [sample(spec["own"], np.random.default_rng(seed)) for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_a_stacked_sequence_of_what_no_array_holds_is_refused_by_its_path():
    with pytest.raises(LossyConversion) as caught:
        from_space(spaces.Dict({"a": spaces.Sequence(spaces.Text(3), stack=True)}), "observation_space")
    assert caught.value.path == "observation_space['a']"


def test_what_is_no_spec_is_refused():
    with pytest.raises((LossyConversion, SpecError)):
        to_space({"a": 3})


def test_integers_of_another_width_than_their_space_are_cast_for_it():
    assert to_space(Discrete(5, dtype="int8")).contains(encode(Discrete(5, dtype="int8"), np.int64(3)))
    assert to_space(OneOf([Discrete(2)])).contains(encode(OneOf([Discrete(2)]), (np.int32(0), 1)))


@given(st.permutations("zya b"), st.integers(0, 2**31))
def test_a_text_space_comes_back_with_the_order_of_its_characters_and_the_same_samples(letters, seed):
    charset = "".join(letters)
    space = spaces.Text(6, min_length=2, charset=charset)
    spec = from_space(space)
    assert spec.letters == charset
    back = to_space(spec)
    for other in (back, to_space(pickle.loads(pickle.dumps(spec))), to_space(dm_env.from_spec(dm_env.to_spec(spec)))):
        assert other == space
        assert other.character_list == space.character_list
        assert samples(other, seed) == samples(copy.deepcopy(space), seed)
    # Which strings there are does not depend on it.
    plain = Text(6, 2, set(letters))
    assert (spec, hash(spec), repr(spec)) == (plain, hash(plain), repr(plain))
    assert spec.sample(np.random.default_rng(seed)) == plain.sample(np.random.default_rng(seed))


def test_a_text_space_of_a_set_of_characters_gives_the_same_samples_in_one_process():
    space = spaces.Text(9, min_length=9)
    assert samples(to_space(from_space(space)), 3) == samples(copy.deepcopy(space), 3)


def sampled(action_space):
    """An environment that shows samples of a space which is equal to that of its actions."""
    source = Returning(copy.deepcopy(action_space), lambda env: env.observation_space.sample())
    source.action_space = action_space
    return source


def random_spaces():
    leaf = st.one_of(
        boxes(),
        st.builds(spaces.Discrete, st.integers(1, 9), start=st.integers(-3, 3)),
        st.just(spaces.Text(5, charset="zab")),
        st.builds(lambda n: spaces.MultiDiscrete([n, 2]), st.integers(1, 5)),
        st.just(spaces.Sequence(spaces.Discrete(3))),
    )
    return st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=2).map(spaces.Tuple)
            | st.dictionaries(st.sampled_from("za"), inner, min_size=1).map(lambda d: spaces.Dict(dict(d)))
        ),
        max_leaves=3,
    )


@examples(150)
@given(random_spaces(), st.integers(0, 2**31), st.booleans())
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_the_random_state_of_a_sources_spaces_is_carried_over(space, seed, before):
    source = sampled(space)
    core = from_gymnasium(source) if not before else None
    source.action_space.seed(seed)
    source.observation_space.seed(seed + 1)
    drawn(source.action_space)
    core = core or from_gymnasium(source)
    held = pickle.dumps(source.action_space)
    forms = [
        to_gymnasium(envoi.TimeLimit(envoi.RunStats(core), 3)),
        to_pettingzoo(envoi.TimeLimit(core, 3)),
        to_gymnasium(from_env(to_pettingzoo(envoi.TimeLimit(core, 3)))),
        to_gymnasium_vector(envoi.TimeLimit(core, 3), 2),
    ]
    one = [forms[0].action_space, forms[1].action_space(forms[1].possible_agents[0]), forms[2].action_space]
    one.append(forms[3].single_action_space)
    seen = [forms[0].observation_space, forms[3].single_observation_space]
    assert pickle.dumps(source.action_space) == held  # not advanced
    expected, seen_expected = drawn(source.action_space), drawn(source.observation_space)
    assert [drawn(other) for other in one] == [expected] * 4
    assert [drawn(other) for other in seen] == [seen_expected] * 2
    assert all(from_space(other) is not None and other is not source.action_space for other in one)


def test_the_random_state_of_a_vector_sources_spaces_is_carried_over():
    def make():
        return SyncVectorEnv([lambda: sampled(spaces.Discrete(1000))] * 2)

    for wrap in (lambda core: core, lambda core: envoi.TimeLimit(core, 5)):
        for source in (make(), gymnasium.vector.VectorWrapper(make())):
            source.action_space.seed(5)
            source.single_action_space.seed(6)
            form = to_gymnasium_vector(wrap(from_gymnasium_vector(source)), validate=True)
            assert form.action_space is not source.action_space
            assert form.action_space.sample().tolist() == source.action_space.sample().tolist()
            assert form.single_action_space.sample() == source.single_action_space.sample()
            assert form.observation_space == source.observation_space


def test_the_random_state_of_an_action_space_reaches_rllibs_forms():
    source = sampled(spaces.Discrete(1000))
    source.observation_space = spaces.Box(-1, 1, (3,))
    source.action_space.seed(5)
    form = to_rllib(lambda: envoi.TimeLimit(from_gymnasium(source), 5))()
    exact = to_rllib(lambda: envoi.TimeLimit(from_gymnasium(source), 5), canonical=False)()
    several = to_rllib(lambda: envoi.as_multi(envoi.TimeLimit(from_gymnasium(source), 5), "me"))()
    expected = [source.action_space.sample() for _ in range(3)]
    for space in (form.action_space, exact.action_space, several.action_spaces["me"]):
        assert [space.sample() for _ in range(3)] == expected


BOX = spaces.Box(-1, 1, (1,))


METHODS = ("initial", "transition", "observe", "reward", "terminal")
Unfinished = type("Unfinished", (envoi.Model,), {name: vars(Ends)[name] for name in METHODS})
"""Everything but specs."""


class Spaced(Unfinished):
    observation_space = BOX
    action_spec = envoi.Discrete(2)


def test_a_space_in_place_of_a_spec_is_named():
    with pytest.raises(AttributeError, match=r"`observation_space` is `observation_spec` here.*from_space"):
        to_gymnasium(Spaced())
    with pytest.raises(AttributeError, match=r"Unfinished declares no action_spec$"):
        Unfinished().sample_action()
    with pytest.raises(SpecError, match=r"Late.observation_spec\['a'\]: expected a spec, got Box.*from_space"):

        class Late(Unfinished):
            observation_spec = {"a": BOX}


def test_a_space_that_an_instance_sets_is_named():
    env = Spaced()
    env.observation_spec = BOX
    for use in (to_gymnasium, lambda env: envoi.Validated(env).reset(seed=0)):
        with pytest.raises(SpecError, match=r"expected a spec .*got Box.*gymnasium.from_space"):
            use(env)
    env.observation_spec = from_space(env.observation_spec)
    assert to_gymnasium(env).observation_space == BOX
