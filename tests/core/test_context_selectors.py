"""Selectors choose contexts in order, at random, a fixed one, by a function of the user, or sample new ones."""

import copy
import re

import ConfigSpace
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envoi
from envoi import Categorical, ContextError, ContextSpace, NormalFloat, UniformFloat, UniformInteger
from envoi.context import (
    AbstractSelector,
    Custom,
    CustomSelector,
    Random,
    RandomSelector,
    RoundRobin,
    RoundRobinSelector,
    Sampled,
    Selector,
    Static,
    StaticSelector,
)

CONTEXTS = {"a": {"g": 1.0}, "b": {"g": 2.0}, 7: {"g": 3.0}}
SPACE = [UniformFloat("g", 0, 1), UniformInteger("n", 0, 1000)]


def last_but_one(selector):
    return selector.contexts_keys[-2]


def any_of_them(selector):
    return selector.contexts_keys[selector.rng.integers(len(selector.contexts))]


SELECTORS = {
    "round robin": RoundRobin,
    "random": Random,
    "static": lambda: Static("b"),
    "custom": lambda: Custom(any_of_them),
    "sampled": lambda: Sampled(SPACE),
    "sampled, a few": lambda: Sampled(SPACE, 3),
}
every_selector = pytest.mark.parametrize("make", SELECTORS.values(), ids=SELECTORS)


def begun(make, contexts=CONTEXTS):
    selector = make() if callable(make) else make
    selector.begin(dict(list(contexts.items())[:1]) if isinstance(selector, Sampled) else contexts)
    return selector


def ids(selector, n, seed=0):
    rng = np.random.default_rng(seed)
    return [selector.select(rng)[0] for _ in range(n)]


def test_random_takes_all_alike_and_follows_the_seed():
    drawn = ids(begun(Random), 3000)
    assert drawn == ids(begun(Random), 3000)
    assert drawn != ids(begun(Random), 3000, seed=1)
    assert all(abs(drawn.count(key) - 1000) < 100 for key in CONTEXTS)


@every_selector
def test_a_selector_counts_and_remembers_the_last(make):
    selector, rng = begun(make), np.random.default_rng(0)
    assert (selector.n_calls, selector.context_id) == (0, None)
    for n in range(1, 6):
        key, context = selector.select(rng)
        assert (selector.n_calls, selector.context_id, selector.context_key) == (n, key, key)
        if not isinstance(selector, Sampled):
            assert context is CONTEXTS[key]
    assert selector.contexts_keys == list(selector.contexts)
    assert selector.context_ids == list(range(len(selector.contexts)))


@every_selector
@given(steps=st.lists(st.booleans(), max_size=8))
def test_looking_ahead_moves_nothing(make, steps):
    selector, untouched = begun(make), begun(make)
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    for look in steps:
        if look:
            seen = selector.peek(rng)
            assert seen == selector.peek(rng)
            assert (selector.position, rng.bit_generator.state) == (untouched.position, same.bit_generator.state)
            assert seen == copy.deepcopy(selector).select(copy.deepcopy(rng))
        assert selector.select(rng) == untouched.select(same)


@every_selector
def test_beginning_again_goes_to_the_start(make):
    selector, rng = begun(make), np.random.default_rng(0)
    first = [selector.select(rng) for _ in range(4)]
    selector.begin(selector.contexts)
    rng = np.random.default_rng(0)
    assert (selector.n_calls, selector.context_id) == (0, None)
    assert [selector.select(rng) for _ in range(4)] == first


def test_carls_names_and_its_way_of_giving_contexts_first():
    assert (AbstractSelector, RoundRobinSelector, RandomSelector) == (Selector, RoundRobin, Random)
    assert (StaticSelector, CustomSelector) == (Static, Custom)
    assert ids(RoundRobinSelector(CONTEXTS), 4) == ["a", "b", 7, "a"]
    assert ids(RoundRobinSelector(contexts=CONTEXTS), 2) == ["a", "b"]
    assert ids(StaticSelector(CONTEXTS), 2) == ids(StaticSelector(contexts=CONTEXTS), 2) == ["a", "a"]
    assert ids(Static(CONTEXTS, 7), 1) == ids(Static(7, CONTEXTS), 1) == [7]
    assert set(ids(RandomSelector(CONTEXTS), 50)) == set(CONTEXTS)
    assert RandomSelector(CONTEXTS).contexts == CONTEXTS


def carls_function(inst):
    # The example of CARL's documentation.
    context_id = 1 if inst.n_calls == 0 else 0
    return inst.contexts[inst.contexts_keys[context_id]], context_id


@pytest.mark.parametrize("contexts", [CONTEXTS, {1: {"g": 0}, 0: {"g": 1}, 2: {"g": 1}}], ids=["names", "numbers"])
def test_carls_function_says_a_place_and_ours_an_id(contexts):
    first, second, _ = contexts
    for selector in (
        CustomSelector(contexts=contexts, selector_function=carls_function),
        CustomSelector(contexts, carls_function),
        begun(lambda: Custom(carls_function), contexts),
        begun(lambda: Custom(selector_function=carls_function), contexts),
    ):
        assert ids(selector, 3) == [second, first, first]
    by_id = {key: begun(lambda key=key: Custom(lambda s: (s.contexts[key], key)), contexts) for key in contexts}
    assert {key: ids(selector, 1)[0] for key, selector in by_id.items()} == {key: key for key in contexts}


def test_an_id_is_given_back_as_it_was_written():
    key, _ = begun(lambda: Custom(lambda selector: np.int64(7))).select(np.random.default_rng(0))
    assert type(key) is int
    assert ids(begun(lambda: Custom(lambda selector: (1, 2)), {(1, 2): {}}), 1) == [(1, 2)]


def test_a_selector_of_ones_own_is_one_function():
    class Heaviest(envoi.Selector):
        def choose(self, rng):
            return max(self.contexts, key=lambda context_id: self.contexts[context_id]["g"])

    assert ids(begun(Heaviest), 2) == [7, 7]
    assert repr(Heaviest()).endswith("Heaviest()")
    with pytest.raises(TypeError, match="choose"):
        Selector()


def test_a_few_sampled_contexts_repeat_whatever_else_is_sampled_in_between():
    selector = begun(lambda: Sampled(SPACE, 3))
    rng = np.random.default_rng(0)
    first = [selector.select(rng) for _ in range(3)]
    assert [key for key, _ in first] == [0, 1, 2]
    assert len({context["g"] for _, context in first}) == 3
    rng.random(5)
    assert [selector.select(rng) for _ in range(3)] == first
    other = begun(lambda: Sampled(SPACE, 3))
    assert other.select(np.random.default_rng(1)) != first[0]


def test_sampled_takes_whatever_is_a_space_and_defaults_of_its_own():
    configurations = ConfigSpace.ConfigurationSpace({"g": (0.0, 1.0)})
    for space in (configurations, list(configurations.values()), {"g": UniformFloat("g", 0, 1)}, ContextSpace(SPACE)):
        key, context = begun(lambda space=space: Sampled(space, defaults={"mass": 2})).select(np.random.default_rng(0))
        assert key == 0
        assert 0 <= context["g"] <= 1
        assert context["mass"] == 2


def test_what_is_sampled_fits_the_environments_features():
    space = ContextSpace([UniformFloat("g", 0.5, 5), UniformInteger("n", 0, 3)])
    selector = Sampled([NormalFloat("g", 1, 1)])
    selector.begin({0: space.defaults}, space)
    rng = np.random.default_rng(0)
    assert min(selector.select(rng)[1]["g"] for _ in range(200)) >= 0.5
    for wrong, message in (
        (UniformFloat("g", 0, 5), r"features\['g'\]: expected to sample a number from 0.5 to 5"),
        (UniformFloat("gg", 1, 2), r"features\['gg'\]: no such feature; did you mean 'g'\?"),
    ):
        with pytest.raises(ContextError, match=message):
            Sampled([wrong]).begin({0: space.defaults}, space)


def test_all_that_is_sampled_lies_between_the_corners():
    features = [UniformFloat("g", 1, 2), NormalFloat("m", 0, 1, high=2), Categorical("c", ("x", "y", "z"))]
    corners = begun(lambda: Sampled(features)).corners({"other": 1})
    assert {c["other"] for c in corners} == {1}
    lowest, *between, highest = [(c["g"], c["m"], c["c"]) for c in corners]
    assert (lowest, highest) == ((1, -8, "x"), (2, 2, "z"))
    assert between == [(2, -8, "x"), (1, 2, "x"), (1, -8, "y"), (1, -8, "z")]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: begun(lambda: Static("c")), r"Static: there is no context 'c'; there are: 7, a, b"),
        (lambda: begun(lambda: Static("7")), r"Static: there is no context '7', but 7 \(int\)"),
        (lambda: Static("gravitie", {"gravity": {}}), r"no context 'gravitie'; did you mean 'gravity'\?"),
        (lambda: ids(begun(lambda: Custom(lambda s: "c")), 1), r"Custom: there is no context 'c'; there are: 7, a, b"),
        (lambda: ids(begun(lambda: Custom(lambda s: ({"g": 1.0}, 0))), 1), "Custom: expected one of selector.context"),
        (lambda: ids(begun(lambda: Custom(lambda s: (s.contexts["a"], 1))), 1), r"Custom: expected one of .* and 1;"),
        (lambda: Custom(), r"Custom: expected one function \(selector\) -> context id, got \[\]"),
        (lambda: ids(RoundRobin(), 1), r"RoundRobin: there are no contexts yet; call begin\(contexts\) first"),
        (lambda: RoundRobin().begin({}), r"contexts: expected at least one, got none"),
        (lambda: Sampled(SPACE, 0), r"Sampled: n: expected how many contexts, at least 1, or None, got 0"),
        (lambda: Sampled(SPACE, True), r"Sampled: n: expected how many contexts"),
        (lambda: Sampled(SPACE).begin(CONTEXTS), r"Sampled: makes its own contexts, .* never use \['a', 'b', 7\]"),
    ],
)
def test_a_wrong_selector_or_choice_is_refused(wrong, message):
    with pytest.raises(ContextError, match=message):
        wrong()


def test_contexts_given_twice_must_be_the_same():
    selector = RoundRobin(CONTEXTS)
    selector.begin({key: {**context, "default": 1} for key, context in CONTEXTS.items()})
    assert selector.contexts["a"] == {"g": 1.0, "default": 1}
    with pytest.raises(ContextError, match=r"the selector was made with \['a', 'b', 7\], the environment has \['a'\]"):
        selector.begin({"a": {"g": 1.0}})
    with pytest.raises(ContextError, match=r"contexts\['b'\]\['g'\]: the selector was made with 2.0, .* has 5.0; give"):
        RoundRobin(CONTEXTS).begin({**CONTEXTS, "b": {"g": 5.0}})
    with pytest.raises(ContextError, match=r"contexts\['b'\]\['g'\]: the selector was made with 2.0, .* has None"):
        RoundRobin(CONTEXTS).begin({**CONTEXTS, "b": {}})


def test_an_error_in_a_function_leaves_the_selector_where_it_was():
    selector = begun(lambda: Custom(lambda s: {}[s.n_calls]))
    for call in (selector.select, selector.peek):
        with pytest.raises(KeyError):
            call(np.random.default_rng(0))
    assert (selector.position, selector.rng) == ({"n_calls": 0, "context_id": None}, None)


def test_the_repr_says_how_it_was_made():
    assert repr(begun(RoundRobin)) == "RoundRobin()"
    assert repr(Static("a")) == "Static(context_id='a')"
    assert repr(RoundRobin({0: {"g": 1}})) == "RoundRobin(contexts={0: {'g': 1}})"
    assert re.fullmatch(r"Custom\(function=<function last_but_one at .*>\)", repr(Custom(last_but_one)))
    assert repr(Sampled([Categorical("c", "ab")], 3)) == (
        "Sampled(space=ContextSpace([Categorical(name='c', choices=('a', 'b'), default='a', weights=None)]), n=3)"
    )
