"""Regions of training and test contexts, and contexts that are written as one text."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envoi
from envoi import Categorical, ContextError, ContextSpace, UniformFloat, UniformInteger
from envoi.context import Regions, parse_contexts, read_contexts, regions, save_contexts

CARL = {"gravity": (9, 9.5, 10, 11), "length": (0.4, 0.5, 0.6, 0.8)}
SPACE = ContextSpace(
    [UniformFloat("length", 0.05, 5), UniformInteger("size", 3, 13), Categorical("floor", ("wood", "ice"))]
)


OUTSIDE = {"extrapolation_one": 0.4, "extrapolation_all": 0.2}


@pytest.mark.parametrize(
    ("protocol", "areas"),
    [
        ("A", {"train": 0.2, "interpolation": 0.2, **OUTSIDE}),
        ("B", {"train": 0.15, "interpolation": 0.15, "combinatorial": 0.05, **OUTSIDE}),
        ("C", {"train": 0, "interpolation": 0, "combinatorial": 0.2, **OUTSIDE}),
    ],
)
def test_areas_are_those_of_carl(protocol, areas):
    found = regions(CARL, protocol)
    assert isinstance(found, Regions)
    assert list(found) == list(found.areas) == list(areas)
    assert found.areas == pytest.approx(areas)


INSIDE = {
    "A": {
        "train": lambda *levels: all(level <= 2 for level in levels),
        "extrapolation_one": lambda *levels: sorted(level > 2 for level in levels)[-2:] == [False, True],
        "extrapolation_all": lambda *levels: all(level > 2 for level in levels),
    },
    "B": {
        "train": lambda *levels: all(level <= 2 for level in levels) and min(levels) <= 1,
        "combinatorial": lambda *levels: all(level == 2 for level in levels),
    },
    "C": {
        "train": lambda *levels: sorted(levels)[:-1] == [0] * (len(levels) - 1) and max(levels) <= 2,
        "combinatorial": lambda *levels: all(0 < level <= 2 for level in levels),
    },
}

numbers = st.lists(st.integers(-50, 50), min_size=4, max_size=4, unique=True).map(sorted)


@given(st.lists(numbers, min_size=2, max_size=4), st.sampled_from("ABC"), st.integers(0, 2**32))
def test_contexts_lie_in_their_region(bounds, protocol, seed):
    train = {f"f{index}": given for index, given in enumerate(bounds)}
    found = regions(train, protocol, n=12, seed=seed)
    tests = {**INSIDE["A"], **INSIDE[protocol]}
    for name, contexts in found.items():
        inside = tests["train" if name == "interpolation" else name]
        for context in contexts.values():
            levels = [int(np.searchsorted(train[feature], value)) for feature, value in context.items()]
            assert inside(*levels), (name, context)
            assert all(train[feature][0] <= value <= train[feature][3] for feature, value in context.items())
    ids = [key for contexts in found.values() for key in contexts]
    assert len({*ids}) == len(ids) == 12 * len(found)
    trained = [*found["train"].values()]
    assert not any(context in trained for context in found["interpolation"].values())


@pytest.mark.parametrize("protocol", ["B", "C"])
def test_each_bar_has_equally_many_contexts(protocol):
    found = regions(CARL, protocol, n=40)["train"].values()
    at = [[np.searchsorted(CARL[name], value) for name, value in context.items()] for context in found]
    if protocol == "C":
        assert sum(gravity == 0 for gravity, _ in at) == sum(length == 0 for _, length in at) == 20
    else:
        assert all(gravity <= 1 for gravity, _ in at[::2])
        assert all(length <= 1 for _, length in at[1::2])


def test_more_contexts_keep_the_first():
    few, many, other = (regions(CARL, "B", n=n, seed=seed) for n, seed in ((5, 3), (9, 3), (5, 4)))
    for name, contexts in few.items():
        assert [*contexts.items()] == [*many[name].items()][:5]
        assert contexts != other[name]


def test_one_feature_has_protocol_a():
    found = regions({"length": (0.4, 0.5, 0.6, 0.8)}, n=3)
    assert found.areas == pytest.approx(dict.fromkeys(found.areas, 0.2))
    with pytest.raises(ContextError, match="'combinatorial' is empty"):
        regions({"length": (0.4, 0.5, 0.6, 0.8)}, "B")


@pytest.mark.parametrize(
    ("train", "settings", "message"),
    [
        ({"length": (0.4, 0.5, 0.6, 0.6)}, {}, r"train\['length'\]: the region between mid and high is empty"),
        ({"length": (0.5, 0.5, 0.6, 0.7)}, {}, "between low and constraint is empty"),
        ({"length": (0.4, 0.7, 0.6, 0.8)}, {}, "between constraint and mid is empty"),
        ({"length": (0.4, 0.6)}, {}, r"train\['length'\]: expected four numbers"),
        ({"length": (0.4, 0.5, 0.6, math.inf)}, {}, "expected four numbers"),
        ({"length": 3}, {}, "expected four numbers"),
        ({}, {}, "train: expected"),
        (CARL, {"protocol": "D"}, "protocol: expected 'A', 'B' or 'C', got 'D'"),
        (CARL, {"n": 0}, "n: expected how many contexts"),
        ({"lenght": (0.4, 0.5, 0.6, 0.8)}, {"space": SPACE}, "did you mean 'length'"),
        ({"length": (1, 2, 3, 9)}, {"space": SPACE}, "expected a number from 0.05 to 5"),
    ],
)
def test_impossible_regions_are_refused(train, settings, message):
    with pytest.raises(ContextError, match=message):
        regions(train, **settings)


def test_regions_are_contexts_of_an_env():
    found = regions(CARL, "B", n=4)
    env = envoi.Contextual(envoi.models.CartPole(), found["train"])
    assert {**env.contexts}.keys() == found["train"].keys()
    assert env.contexts["train-1"]["length"] == found["train"]["train-1"]["length"]


def test_text_is_a_range_a_grid_or_values():
    read = parse_contexts("length=0.3..0.7:5; floor=ice", SPACE)
    assert read.contexts() == {
        index: {"length": pytest.approx(0.3 + 0.1 * index), "floor": "ice"} for index in range(5)
    }
    assert parse_contexts("length=0.3,0.5").contexts() == {0: {"length": 0.3}, 1: {"length": 0.5}}
    assert parse_contexts("size=3..13:6", SPACE).values == {"size": [3, 5, 7, 9, 11, 13]}
    both = parse_contexts("length=0.1..0.2:1000;gravity=-1e1..1e1:1000")
    assert both.cells == 10**6
    drawn = parse_contexts("length=0.3..0.7;floor=wood,ice", SPACE)
    contexts = drawn.contexts(6, seed=1)
    assert [*contexts] == [*range(6)]
    assert [context["floor"] for context in contexts.values()] == ["wood", "ice"] * 3
    assert all(0.3 <= context["length"] <= 0.7 for context in contexts.values())
    assert contexts == drawn.contexts(6, seed=1) != drawn.contexts(6, seed=2)
    assert [feature.name for feature in drawn.features] == ["length", "floor"]


def test_range_of_an_integer_gives_integers():
    contexts = parse_contexts("size=3..5", SPACE).contexts(30)
    assert {context["size"] for context in contexts.values()} == {3, 4, 5}


@given(
    st.dictionaries(
        st.sampled_from(["length", "mass", "wind"]),
        st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=4, unique=True),
        min_size=1,
    )
)
def test_values_of_a_text_are_read_exactly(values):
    text = ";".join(f"{name}={','.join(map(repr, found))}" for name, found in values.items())
    assert parse_contexts(text).values == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("length=0.7..0.3", "'length=0.7..0.3' is empty"),
        ("length=0.5..0.5", "is empty"),
        ("length=", "expected feature=low..high"),
        (" ", "got an empty text"),
        ("length=0.3;length=0.4", "each feature once, got 'length' twice"),
        ("length=0.3,0.3", "has a value twice"),
        ("length=0.3..0.7:1", "expected how many values, from 2 to a million, got '1'"),
        ("length=0.3..0.7:1e3", "expected how many values"),
        ("length=a..b", "expected a finite number on each side"),
        ("length=0..inf", "expected a finite number on each side"),
        ("lenght=0.3..0.7", "did you mean 'length'"),
        ("length=0.3..7", "expected to sample a number from 0.05 to 5"),
        ("length=0.3,7", "expected a number from 0.05 to 5, got 7"),
        ("floor=wood,mud", "expected one of 'wood', 'ice', got 'mud'"),
        ("size=3..5:6", "has a value twice"),
    ],
)
def test_text_that_gives_no_contexts_is_refused(text, message):
    with pytest.raises(ContextError, match=message):
        parse_contexts(text, SPACE)


def test_file_differs_from_a_text(tmp_path):
    file = tmp_path / "length=3..4.csv"
    save_contexts(file, {"a": {"length": 3.0}})
    assert read_contexts(str(file), SPACE) == {"a": {"length": 3.0}}
    for text, message in (("length", "expected feature=low..high"), ("", "got an empty text")):
        with pytest.raises(ContextError, match=message):
            read_contexts(text, SPACE)
    assert read_contexts("length=3..4:2", SPACE).contexts() == {0: {"length": 3.0}, 1: {"length": 4.0}}
