"""Specs describe sets of values, exactly; everything in envoi leans on that."""

import collections
import copy
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import FLOATS, INTEGERS, Pair, arrays, discretes, generators, leaves, multi_discretes, specs

import envoi
from envoi import Array, Discrete, Graph, GraphValue, MultiBinary, MultiDiscrete, OneOf, Sequence, SpecError, Text
from envoi.tree import leaves as spec_leaves


def every_array(value):
    return [np.asarray(leaf) for _, leaf in spec_leaves(value) if isinstance(leaf, (np.ndarray, np.generic))]


@given(specs(), generators())
def test_samples_and_zeros_lie_in_their_spec(spec, rng):
    value = envoi.sample(spec, rng)
    envoi.validate(spec, value)
    envoi.validate(spec, envoi.zeros(spec))
    assert all(np.isfinite(array).all() for array in every_array(value))


@given(arrays())
def test_zeros_are_zero_wherever_zero_is_allowed(spec):
    value = spec.zeros()
    low = np.full(spec.shape, True) if spec.low is None else spec.low <= np.zeros((), spec.dtype)
    high = np.full(spec.shape, True) if spec.high is None else spec.high >= np.zeros((), spec.dtype)
    assert (value[low & high] == 0).all()


@given(specs())
def test_pickle_and_deepcopy_give_an_equal_spec(spec):
    for other in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
        assert envoi.spec_equal(spec, other)


@given(leaves())
def test_a_spec_of_another_name_is_another_spec(spec):
    arguments = spec.__reduce__()[1]
    same = type(spec)(*arguments)
    assert (same, hash(same)) == (spec, hash(spec))
    assert type(spec)(*arguments[:-1], "another name") != spec


@given(arrays())
def test_bounds_are_equal_element_by_element(spec):
    full = [b if b is None else np.array(b) for b in (spec.low_or_inf, spec.high_or_inf)]
    assert Array(spec.shape, spec.dtype, *full, spec.name) == spec
    free, below, infinite = (
        Array((2,), spec.dtype, low, high) for low, high in ((None, None), (-np.inf, None), (-np.inf, [np.inf] * 2))
    )
    assert (free == below) == (below == infinite) == (spec.dtype.kind != "f")  # of floats, infinities are bounds


@given(arrays(FLOATS, (2, 3), finite=True), st.integers(0, 5))
def test_one_other_bound_makes_another_spec(spec, at):
    low = np.array(spec.low)
    low.flat[at] = -np.inf
    assert Array(spec.shape, spec.dtype, low, spec.high, spec.name) != spec


@given(arrays())
def test_bounds_are_read_only_and_not_those_of_the_caller(spec):
    for bound in (spec.low, spec.high):
        assert bound is None or not bound.flags.writeable
    low = np.zeros(3)
    mine = Array((3,), "float64", low)
    low[:] = 5
    assert (mine.low == 0).all()


@given(st.dictionaries(st.sampled_from("zam"), arrays(), min_size=2))
def test_the_order_of_keys_is_part_of_a_spec_and_of_its_values(spec):
    turned = dict(reversed(spec.items()))
    assert not envoi.spec_equal(spec, turned)
    assert list(envoi.zeros(turned)) == list(turned)
    assert envoi.contains(spec, envoi.zeros(turned))


@given(st.lists(leaves(), min_size=2, max_size=2))
def test_a_list_a_tuple_and_a_named_tuple_are_three_specs(parts):
    kinds = [list(parts), tuple(parts), Pair(*parts)]
    for i, spec in enumerate(kinds):
        for j, other in enumerate(kinds):
            assert envoi.spec_equal(spec, other) == (i == j)
            assert envoi.contains(spec, envoi.zeros(other)) == (i == j)


@given(leaves())
def test_repr_reads_as_the_constructor(spec):
    assume("..." not in repr(spec))  # long bounds are shortened
    assume("[]" not in repr(spec))  # which shape of no elements, a list cannot say
    names = {
        kind.__name__: kind for kind in (Array, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text)
    }
    assert eval(repr(spec), {**names, "inf": np.inf}) == spec


@given(arrays((*INTEGERS, *FLOATS), (2, 3), finite=True), st.integers(0, 5))
def test_an_error_names_the_element_that_is_out_of_bounds(spec, at):
    biggest = np.iinfo(spec.dtype).max if spec.dtype.kind in "iu" else np.inf
    assume(spec.high.flat[at] < biggest)
    value = spec.zeros()
    value.flat[at] = biggest
    with pytest.raises(SpecError) as caught:
        envoi.validate({"cart": [spec]}, {"cart": [value]}, "observation")
    index = "".join(f"[{i}]" for i in np.unravel_index(at, spec.shape))
    assert str(caught.value).startswith(f"observation['cart'][0]{index}: ")


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        ({"cart": Array((3,), "float32", 0, 1)}, {"cart": np.float32([0, 1, 2])}, r"observation\['cart'\]\[2\]: 2.0"),
        ([Array((), "int8")], [np.int16(1)], r"observation\[0\]: expected dtype int8, got int16; cast with"),
        (Array((2,), "float32"), np.float32([0, np.nan]), r"observation\[1\]: expected a number, got nan"),
        (Array((), "float64"), 0.5, r"observation: expected an array .* got 0.5 \(float\); make it with np.asarray"),
        ({"a": Discrete(2), "b": Discrete(2)}, {"a": 0, "c": 0}, r"missing \['b'\], too many \['c'\]"),
        ({"a": Discrete(2)}, [0], r"observation: expected a dict with keys \['a'\], got \[0\]"),
        (Text(3, charset="ab"), "abc", r"expected characters of 'ab', got 'c' too"),
        (Sequence({"a": Discrete(3)}), ({"a": 1}, {"a": 3}), r"observation\[1\]\['a'\]: expected 0 … 2, got 3"),
        (Sequence(Discrete(3), stack=True), np.array([0, 3]), r"observation\[1\]: 3 is above its upper bound 2"),
        (OneOf([Discrete(2), Text(3)]), (1, 0), r"observation\[1\]: expected a string, got 0"),
        (
            Graph(Discrete(2), Discrete(2)),
            GraphValue(np.array([0, 1]), np.array([0]), np.array([[0, 2]])),
            r"observation\.edge_links\[0\]\[1\]: 2 is above its upper bound 1",
        ),
        (MultiBinary((2, 1)), np.int8([[0], [2]]), r"observation\[1\]\[0\]: 2 is above its upper bound 1"),
    ],
)
def test_an_error_names_the_leaf_what_was_expected_and_what_came(spec, value, message):
    with pytest.raises(SpecError, match=message):
        envoi.validate(spec, value, "observation")
    assert not envoi.contains(spec, value)


JUNK = [None, "x", 1.5, (), {}, [], object(), (0, 1, 2), b"", True]
JUNK += [np.array("a"), np.array([None]), np.zeros((1, 0, 2))]


@given(specs(), st.sampled_from(JUNK))
def test_validation_answers_about_anything_with_a_spec_error_or_yes(spec, junk):
    # `contains` turns a SpecError to False and lets every other exception through.
    assert envoi.contains(spec, junk) in (True, False)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_full_range_of_an_integer_dtype_is_reached(dtype):
    info = np.iinfo(dtype)
    spec = Array((), dtype, info.min, info.max)
    for edge in (info.min, info.max):
        spec.validate(np.array(edge, dtype))
    values = np.array([spec.sample(np.random.default_rng(i)) for i in range(300)], dtype)
    middle = info.min // 2 + info.max // 2
    assert (values > middle).any()
    assert (values < middle).any()
    assert Array((2,), dtype, [info.min, info.max], info.max).low.tolist() == [info.min, info.max]


@given(discretes(), generators())
def test_discrete_values_run_from_start_to_start_plus_n_minus_1(spec, rng):
    last = spec.start + spec.n - 1
    assert spec.start <= int(spec.sample(rng)) <= last
    assert spec.sample(rng).dtype == spec.dtype
    for value, inside in ((spec.start, True), (last, True), (spec.start - 1, False), (last + 1, False)):
        assert spec.contains(value) == inside


def test_a_discrete_takes_integers_of_any_width_but_no_float_and_no_bool():
    for value in (1, np.int8(1), np.uint64(1), np.array(1)):
        assert Discrete(3).contains(value)
    for value in (1.0, np.float32(1), True, np.True_, np.array([1]), "1", None):
        assert not Discrete(3).contains(value)


@given(multi_discretes(), generators())
def test_the_largest_multi_discrete_value_is_nvec_minus_1_plus_start(spec, rng):
    assert spec.last.tolist() == (spec.nvec - 1 + spec.start.astype("int64")).tolist()
    spec.validate(np.array(spec.last))
    spec.validate(np.array(spec.start))
    draws = np.array([spec.sample(rng) for _ in range(3)])
    assert (draws >= spec.start).all()
    assert (draws <= spec.last).all()
    if spec.nvec.size:
        over = np.array(spec.last)
        over.flat[-1] += 1
        assert not spec.contains(over)


def test_every_value_of_small_specs_is_sampled():
    rng = np.random.default_rng(0)
    assert {int(Discrete(3, -1).sample(rng)) for _ in range(200)} == {-1, 0, 1}
    assert {tuple(MultiDiscrete([2, 2], [5, 0]).sample(rng)) for _ in range(200)} == {(5, 0), (5, 1), (6, 0), (6, 1)}
    assert {tuple(MultiBinary(2).sample(rng)) for _ in range(200)} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert {bool(Array((), "bool").sample(rng)) for _ in range(99)} == {False, True}
    assert {len(Text(3, 1).sample(rng)) for _ in range(200)} == {1, 2, 3}
    assert {int(OneOf([Discrete(2), Text(2)]).sample(rng)[0]) for _ in range(99)} == {0, 1}
    assert {len(Sequence(Discrete(2)).sample(rng)) for _ in range(200)} >= {0, 1, 2, 3}


@pytest.mark.parametrize(
    "impossible",
    [
        lambda: Array((-1,)),
        lambda: Array((2.5,)),
        lambda: Array((2,), "U3"),
        lambda: Array((2,), object),
        lambda: Array((2,), low=np.nan),
        lambda: Array((2,), low=[0, 2], high=1),
        lambda: Array((2,), "uint8", low=-1),
        lambda: Array((2,), "int8", high=-np.inf),
        lambda: Array((2,), "int8", low=[-np.inf, 0.5]),
        lambda: Array((2,), "int8", low=np.array([-np.inf, None])),
        lambda: Array((2,), "int8", high=0.5),
        lambda: Array((2,), "complex64", 0, 1),
        lambda: Discrete(0),
        lambda: Discrete(True),
        lambda: Discrete(2, 0.5),
        lambda: Discrete(257, dtype="uint8"),
        lambda: Discrete(2, dtype="float32"),
        lambda: MultiDiscrete([2, 0]),
        lambda: MultiDiscrete([2, 3], [1, 2, 3]),
        lambda: MultiDiscrete([200], [100], "uint8"),
        lambda: MultiBinary(-1),
        lambda: Text(2, 3),
        lambda: Text(2, charset=""),
        lambda: Sequence(3),
        lambda: Sequence(Text(2), stack=True),
        lambda: Sequence(Sequence(Discrete(2)), stack=True),
        lambda: Graph(Discrete(2), MultiBinary(2)),
        lambda: OneOf([]),
    ],
)
def test_an_impossible_spec_is_refused(impossible):
    with pytest.raises(SpecError):
        impossible()


def test_an_ordered_dict_of_specs_gives_ordered_dicts():
    spec = collections.OrderedDict(z=Discrete(2), a=Text(2))
    assert type(envoi.zeros(spec)) is collections.OrderedDict
    with pytest.raises(SpecError, match=r"spec\['a'\]\[1\]: expected a spec .* got 3"):
        envoi.spec.check_spec({"a": [Discrete(2), 3]})
    assert envoi.contains(spec, {"a": "xy", "z": 1})


def test_stacked_sequences_put_the_elements_on_a_new_first_axis():
    spec = Sequence({"x": Array((2,), "float32"), "n": Discrete(4)}, stack=True)
    value = {"x": np.zeros((3, 2), "f4"), "n": np.zeros(3, "i8")}
    spec.validate(value)
    stacked = envoi.spec.structured.of_length(Array((2,), "int64", [-np.inf, 0], [5, np.inf]), 3)
    assert stacked == Array((3, 2), "int64", [[-np.inf, 0]] * 3, [[5, np.inf]] * 3)
    with pytest.raises(SpecError, match=r"leaves of one length, got lengths \[2, 3\]"):
        spec.validate({**value, "n": np.zeros(2, "i8")})


@st.composite
def partly_bounded_integers(draw):
    """(shape, dtype, low, high): Python's integers beside infinities, in lists of one axis."""
    dtype = draw(st.sampled_from(("bool", *INTEGERS)))
    least, most = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    numbers = st.integers(least, most) | st.sampled_from([least, most])
    pairs = draw(st.lists(st.tuples(numbers, numbers).map(sorted), min_size=1, max_size=4))
    low, high = (
        [infinity if draw(st.booleans()) else pair[side] for pair in pairs]
        for side, infinity in enumerate((-np.inf, np.inf))
    )
    return (len(pairs),), dtype, low, high


@given(partly_bounded_integers(), generators())
def test_an_integer_without_a_bound_is_not_one_bounded_by_the_end_of_its_dtype(parts, rng):
    shape, dtype, low, high = parts
    spec = Array(shape, dtype, low, high)
    least, most = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    assert spec.bounded_below.tolist() == [bound != -np.inf for bound in low]
    assert spec.bounded_above.tolist() == [bound != np.inf for bound in high]
    closed_low = [least if bound == -np.inf else bound for bound in low]
    closed_high = [most if bound == np.inf else bound for bound in high]
    assert spec.low is None or (spec.low.tolist() == closed_low and spec.low.dtype == spec.dtype)
    assert spec.high is None or (spec.high.tolist() == closed_high and spec.high.dtype == spec.dtype)
    assert (spec == Array(shape, dtype, closed_low, closed_high)) == (low == closed_low and high == closed_high)
    for again in (
        Array(shape, dtype, spec.low_or_inf, spec.high_or_inf),
        pickle.loads(pickle.dumps(spec)),
        copy.deepcopy(spec),
        eval(repr(spec), {"Array": Array, "inf": np.inf}),
    ):
        assert (again, hash(again)) == (spec, hash(spec))
        assert again.bounded_below.tolist() == spec.bounded_below.tolist()
        assert again.bounded_above.tolist() == spec.bounded_above.tolist()
    value = spec.sample(rng)
    spec.validate(value)
    assert all(a <= x <= b for a, x, b in zip(closed_low, value.tolist(), closed_high, strict=True))
    spec.validate(spec.zeros())


def test_bounds_of_other_precision_than_the_dtype_keep_their_infinities():
    spec = Array((2, 2), "int64", np.array([-np.inf, 2**53]), np.array([[np.inf], [2**53 + 2]], object))
    assert spec.bounded_below.tolist() == [[False, True]] * 2
    assert spec.bounded_above.tolist() == [[False, False], [True, True]]
    assert spec.high.tolist() == [[2**63 - 1] * 2, [2**53 + 2] * 2]
    assert Array((2,), "uint64", [-np.inf, 2**64 - 1]).low.tolist() == [0, 2**64 - 1]
    floats = Array((2,), ">f4", [-np.inf, 0])
    assert floats == Array((2,), "float32", [-np.inf, 0])  # the byte order is that of the machine
    assert floats.bounded_below.tolist() == [False, True]
    assert floats.bounded_above.tolist() == [False, False]


@pytest.mark.parametrize("dtype", ["int8", "float32", "bool"])
def test_bounds_that_are_one_number_take_no_memory_for_each_element(dtype):
    spec = envoi.Array((10**15,), dtype, 0, 1)  # more elements than any machine holds
    assert spec.bounded_below.shape == spec.high.shape == (10**15,)
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec
    assert hash(spec) == hash(envoi.Array((10**15,), dtype, [0], [1]))
    with pytest.raises(envoi.SpecError, match=r"low\[0\]: .* is above its upper bound"):
        envoi.Array((10**15,), dtype, 1, 0)
