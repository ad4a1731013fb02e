"""Features and context spaces: allowed values, sampling and encoding, in agreement with ConfigSpace."""

import copy
import inspect
import math
import pickle
import sys
import warnings
from dataclasses import dataclass

import ConfigSpace
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

import envoi
from envoi import Array, Categorical, ContextError, ContextSpace, Discrete, NormalFloat, UniformFloat, UniformInteger
from envoi.context import (
    CategoricalContextFeature,
    Feature,
    NormalFloatContextFeature,
    UniformFloatContextFeature,
    UniformIntegerContextFeature,
    features,
)

POLE = ContextSpace(
    [
        UniformFloat("gravity", 0.1, math.inf, default=9.8),
        UniformFloat("length", 0.05, 5, default=0.5),
        UniformInteger("poles", 1, 3),
        Categorical("floor", ("wood", "ice", None)),
    ]
)
DEFAULTS = {"gravity": 9.8, "length": 0.5, "poles": 2, "floor": "wood"}


def uniform(name="x", low=-math.inf, high=math.inf, default=8.0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ConfigSpace computes with the infinities that CARL gives it
        return ConfigSpace.UniformFloatHyperparameter(name, lower=low, upper=high, default_value=default)


PEERS = {
    "uniform": (ConfigSpace.UniformFloatHyperparameter("x", -1, 3), UniformFloat("x", -1, 3)),
    "log": (ConfigSpace.UniformFloatHyperparameter("x", 1e-3, 10, log=True), UniformFloat("x", 1e-3, 10, log=True)),
    "integers": (ConfigSpace.UniformIntegerHyperparameter("x", -3, 5), UniformInteger("x", -3, 5)),
    "log integers": (
        ConfigSpace.UniformIntegerHyperparameter("x", 1, 30, log=True),
        UniformInteger("x", 1, 30, log=True),
    ),
    "normal": (ConfigSpace.NormalFloatHyperparameter("x", 1, 2, -1, 4), NormalFloat("x", 1, 2, low=-1, high=4)),
    "weighted": (
        ConfigSpace.CategoricalHyperparameter("x", [1, 2, 3], weights=[1, 0, 3]),
        Categorical("x", (1, 2, 3), 3, weights=(1, 0, 3)),
    ),
    "ordinal": (ConfigSpace.OrdinalHyperparameter("x", [4, 5, 9], default_value=5), Categorical("x", (4, 5, 9), 5)),
    "constant": (ConfigSpace.Constant("x", 7), Categorical("x", (7,))),
}
every_peer = pytest.mark.parametrize(("theirs", "ours"), PEERS.values(), ids=PEERS)


@every_peer
def test_a_hyperparameter_of_configspace_is_the_feature_with_the_same_samples(theirs, ours):
    (feature,) = ContextSpace([theirs]).features.values()
    assert feature.default_value == theirs.default_value == pytest.approx(ours.default_value, abs=1e-9)
    assert type(feature) is type(ours)
    rng = np.random.default_rng(0)
    drawn = [feature.sample(rng) for _ in range(2000)]
    expected = theirs.sample_value(2000, seed=np.random.RandomState(1))
    if len(set(drawn)) == 1:
        assert set(drawn) == set(expected)
    else:
        assert stats.ks_2samp(drawn, expected).pvalue > 0.01
    again = np.random.default_rng(0)
    assert [ours.sample(again) for _ in range(50)] == pytest.approx(drawn[:50])


@pytest.mark.parametrize(
    "theirs",
    [
        ConfigSpace.BetaFloatHyperparameter("x", 2, 5, 0, 1),
        ConfigSpace.NormalIntegerHyperparameter("x", 3, 2, 0, 9),
        ConfigSpace.NormalFloatHyperparameter("x", 1, 2, 0.5, 9, log=True),
    ],
    ids=lambda hyperparameter: type(hyperparameter).__name__,
)
def test_a_hyperparameter_without_a_counterpart_is_asked_itself(theirs):
    space = ContextSpace([theirs])
    (feature,) = space.features.values()
    rng = np.random.default_rng(0)
    drawn = [feature.sample(rng) for _ in range(500)]
    assert stats.ks_2samp(drawn, theirs.sample_value(500, seed=np.random.RandomState(1))).pvalue > 0.01
    assert all(feature.allows(value) for value in drawn)
    assert not any(feature.allows(value) for value in (-1, 10.5, math.nan, "a", True, None))
    envoi.validate(space.spec(), space.encode(space.sample(seed=0)))
    assert space == ContextSpace([theirs])
    assert hash(space) == hash(ContextSpace([theirs]))
    assert space.sample(3, seed=4) == pickle.loads(pickle.dumps(space)).sample(3, seed=4)


def test_a_configuration_space_and_what_carl_has_are_taken_whole():
    configurations = ConfigSpace.ConfigurationSpace({"b": (0.0, 2.0), "a": ["x", "y"]})
    space = ContextSpace(configurations)
    assert space.defaults == dict(configurations.get_default_configuration())
    assert list(space.features) == list(configurations)
    # CARL's own class holds a dict of hyperparameters, and is known by its name.
    theirs = type("ContextSpace", (), {"__module__": "carl.context.context_space"})()
    theirs.context_space = {"g": uniform("g")}
    assert ContextSpace.of(theirs) == ContextSpace([UniformFloat("g", -math.inf, math.inf, default=8.0)])
    assert ContextSpace(theirs.context_space) == ContextSpace.of([uniform("g")])
    assert ContextSpace.of(POLE) is POLE


def test_a_space_comes_back_from_configspace(tmp_path):
    space = ContextSpace(
        [
            UniformFloat("length", 0.05, 5, default=0.5),
            UniformFloat("density", 1e-3, 10, log=True),
            UniformInteger("poles", 1, 30, log=True),
            NormalFloat("gravity", 9.8, 2.0, low=0.1, high=20),
            Categorical("floor", ("wood", "ice", "sand"), "ice", weights=(1, 0, 3)),
        ]
    )
    back = ContextSpace(space.to_configspace())
    assert back.subspace(space.features).defaults == pytest.approx(space.defaults)
    space.to_configspace().to_json(tmp_path / "space.json")
    again = ContextSpace(ConfigSpace.ConfigurationSpace.from_json(tmp_path / "space.json"))
    for held in (back, again):
        assert all(type(held.features[name]) is type(feature) for name, feature in space.features.items())
        assert held.subspace(["length", "poles"]).sample(5, seed=0) == space.subspace(["length", "poles"]).sample(
            5, seed=0
        )


def test_configspace_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "ConfigSpace", None)
    with pytest.raises(envoi.MissingBackend, match="ConfigSpace is not installed; pip install ConfigSpace"):
        POLE.to_configspace()


def test_conditions_and_forbidden_clauses_are_refused():
    configurations = ConfigSpace.ConfigurationSpace({"a": ["x", "y"], "b": (0.0, 1.0)})
    configurations.add(ConfigSpace.EqualsCondition(configurations["b"], configurations["a"], "x"))
    with pytest.raises(ContextError, match=r"has conditions, which a context space cannot express"):
        ContextSpace(configurations)
    configurations = ConfigSpace.ConfigurationSpace({"a": ["x", "y"]})
    configurations.add(ConfigSpace.ForbiddenEqualsClause(configurations["a"], "y"))
    with pytest.raises(ContextError, match=r"has forbidden clauses"):
        ContextSpace(configurations)


def test_carls_spelling_makes_our_features():
    assert UniformFloatContextFeature("a", lower=0, upper=1, default_value=0.25) == UniformFloat("a", 0, 1, 0.25)
    assert UniformFloatContextFeature("a", 1, 2, log=True) == UniformFloat("a", 1, 2, log=True)
    assert UniformIntegerContextFeature("a", 1, 4, default_value=2) == UniformInteger("a", 1, 4, 2)
    assert NormalFloatContextFeature("a", mu=9.8, sigma=0.0, default_value=9.8, upper=20, lower=1) == NormalFloat(
        "a", 9.8, 0.0, 9.8, 1, 20
    )
    assert CategoricalContextFeature("a", choices=np.arange(3), default_value=2) == Categorical("a", (0, 1, 2), 2)
    assert CategoricalContextFeature("a", ["l", "r"], weights=[1, 2]) == Categorical("a", ("l", "r"), weights=(1, 2))


@given(st.floats(-3, 3), st.floats(0.1, 5), st.floats(-3, 3), st.floats(0.1, 3), st.integers(0, 2**32))
def test_a_bounded_normal_stays_within_its_bounds(mu, sigma, low, width, seed):
    mass = stats.norm.cdf(low + width, mu, sigma) - stats.norm.cdf(low, mu, sigma)
    assume(abs(mass - 0.001) > 1e-6)
    if mass < 0.001:
        with pytest.raises(ContextError, match=r"expected bounds that hold at least 0.1% of the distribution"):
            NormalFloat("n", mu, sigma, low=low, high=low + width)
        return
    feature = NormalFloat("n", mu, sigma, low=low, high=low + width)
    rng = np.random.default_rng(seed)
    assert all(low <= feature.sample(rng) <= low + width for _ in range(5))
    assert feature.default_value == min(max(mu, low), low + width)


@pytest.mark.parametrize(
    ("impossible", "message"),
    [
        (lambda: UniformFloat("x", "a", 1), r"x: low: expected a number, or infinity for no bound, got 'a'"),
        (lambda: UniformFloat("x", 0, 1, log=True), r"x: log: expected a low above 0, got 0"),
        (lambda: UniformFloat("x", 1, 0), r"x: expected low ≤ high, got 1 and 0"),
        (lambda: UniformFloat("x", 0, 1, default=2), r"x: the default 2 is not a number from 0 to 1"),
        (lambda: UniformInteger("x", 0, 3, default=0.5), r"x: the default 0.5 is not an integer from 0 to 3"),
        (lambda: UniformFloat("x", 0, math.inf).sample(np.random.default_rng(0)), r"x: cannot sample uniformly from"),
        (lambda: Categorical("x", ()), r"x: expected at least one choice, got none"),
        (lambda: ContextSpace([UniformFloat("x", 0, 1)] * 2), r"x: there are two features of this name"),
        (lambda: UniformFloat("", 0, 1), r"a feature's name: expected a string that is not empty"),
        (lambda: UniformInteger("x", 0.5, 3), r"x: low: expected an integer, got 0.5"),
        (lambda: NormalFloat("x", math.inf, 1), r"x: mu: expected a finite number, got inf"),
        (lambda: NormalFloat("x", 0, -1), r"x: sigma: expected at least 0, got -1"),
        (lambda: NormalFloat("x", 0, 0, low=1), r"x: expected bounds that hold at least 0.1%"),
        (lambda: Categorical("x", "ab", weights=(1,)), r"x: weights: expected one for each of 2 choices, got 1"),
        (lambda: Categorical("x", "ab", weights=(0, 0)), r"x: weights: expected numbers of at least 0, one above"),
        (lambda: ContextSpace("abc"), r"features: expected a list of features, a mapping or a ConfigurationSpace"),
        (lambda: ContextSpace([3]), r"features: expected a feature, such as UniformFloat\('length', 0.1, 2\)"),
        (lambda: ContextSpace({"y": UniformFloat("x", 0, 1)}), r"features\['y'\]: expected a feature of this name"),
        (lambda: POLE.subspace(["lenth"]), r"features\['lenth'\]: no such feature; did you mean 'length'\?"),
        (lambda: POLE.sample(-1), r"n: expected how many contexts, at least 0"),
        (lambda: POLE.insert_defaults({}, ["pole"]), r"context_keys\['pole'\]: no such .* did you mean 'poles'\?"),
        (lambda: POLE.insert_defaults([1]), r"context: expected a mapping of feature names to values, got \[1\]"),
    ],
)
def test_what_cannot_be_is_refused_by_name(impossible, message):
    with pytest.raises(ContextError, match=message):
        impossible()


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"gravity": math.nan}, r"expected a finite number of at least 0.1, got nan"),
        ({"gravity": True}, r"got True"),
        ({"gravity": np.array([1.0])}, r"got array\(\[1.\]\)"),
        ({"length": 5.0000001}, r"expected a number from 0.05 to 5, got 5.0000001"),
        ({"length": np.float32(0.05) - np.float32(1e-8)}, r"got 0.0499999\d+ \(float32\)"),
        ({"poles": 2.5}, r"expected an integer from 1 to 3, got 2.5"),
        ({"floor": "steel"}, r"expected one of 'wood', 'ice', None, got 'steel'"),
        ({"graviti": 1}, r"\['graviti'\]: no such feature; did you mean 'gravity'\?"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(context, message):
    for check in (POLE.verify, POLE.insert_defaults, POLE.encode, POLE.vector):
        with pytest.raises(ContextError, match="^context" + ("" if message[0] == "\\" else ".*") + message):
            check(context)
    with pytest.raises(ContextError, match=r"contexts\['a'\]\["):
        POLE.verify(context, "contexts['a']")


@dataclass(frozen=True)
class Power:
    by: int

    def __call__(self, x):
        return x**self.by


def test_messages_name_objects_and_not_their_addresses():
    space = ContextSpace([Categorical("rule", (len, Categorical, object()))])
    with pytest.raises(ContextError, match=r"expected one of len, Categorical, <object>, got print$"):
        space.verify({"rule": print})
    space = ContextSpace([Categorical("rule", (Power(2), Power(3)))])
    with pytest.raises(ContextError, match=r"expected one of Power\(by=2\), Power\(by=3\), got 1"):
        space.verify({"rule": 1})
    assert "0x" not in str(inspect.signature(Categorical))


def test_defaults_are_inserted_for_all_features_or_for_some():
    assert POLE.insert_defaults({}) == DEFAULTS
    assert list(POLE.insert_defaults({"floor": None, "gravity": 1})) == list(DEFAULTS)
    assert POLE.insert_defaults({"poles": 3}, ["length"]) == {"length": 0.5, "poles": 3}
    assert POLE.insert_defaults({"poles": 3}, []) == {"poles": 3}


def test_the_spec_keeps_finite_bounds_and_counts_choices():
    assert POLE.spec() == {
        "gravity": Array((), "float64", low=0.1),
        "length": Array((), "float64", 0.05, 5),
        "poles": Array((), "int64", 1, 3),
        "floor": Discrete(3),
    }
    assert ContextSpace([NormalFloat("n", 0, 1, high=2)]).spec() == {"n": Array((), "float64", high=2)}


values = st.fixed_dictionaries(
    {},
    optional={
        "gravity": st.floats(0.1, 1e300) | st.integers(1, 10),
        "length": st.floats(0.05, 5),
        "poles": st.sampled_from([1, 2.0, np.int8(3)]),
        "floor": st.sampled_from(["wood", "ice", None, np.str_("ice")]),
    },
)


@given(values)
def test_an_encoded_context_lies_in_the_spec_and_is_the_vector(context):
    was = copy.deepcopy(context)
    encoded = POLE.encode(context)
    envoi.validate(POLE.spec(), encoded)
    assert list(encoded) == list(POLE.features)
    vector = POLE.vector(context)
    assert vector.dtype == np.float64
    assert vector.tolist() == [float(number) for number in encoded.values()]
    assert POLE.vector(context, ["poles", "gravity"]).tolist() == [vector[2], vector[0]]
    assert ("wood", "ice", None)[int(encoded["floor"])] == context.get("floor", "wood")
    assert context == was


def test_a_vector_refuses_an_integer_that_it_would_round():
    space = ContextSpace([UniformInteger("seed", 0, 2**63 - 1)])
    assert space.vector({"seed": 2**53}).tolist() == [2**53]
    with pytest.raises(ContextError, match=r"context\['seed'\]: expected an integer that float64 holds"):
        space.vector({"seed": 2**53 + 1})
    with pytest.raises(ContextError, match=r"seed: expected an integer of 64 bits"):
        ContextSpace([UniformInteger("seed", 0, math.inf, default=1)]).encode({"seed": 2**70})


def test_some_features_vary_while_the_others_keep_their_defaults():
    for context in POLE.sample(20, seed=0, features=["poles", "length"]):
        assert {**context, "poles": 2, "length": 0.5} == DEFAULTS
        assert list(context) == list(DEFAULTS)
    assert len({context["length"] for context in POLE.sample(20, seed=0, features=["length"])}) == 20
    normal = NormalFloat("gravity", 9.8, 0.0)
    hyperparameter = ConfigSpace.UniformFloatHyperparameter("gravity", 1, 2)
    assert POLE.sample(2, seed=0, features=[normal]) == [DEFAULTS, DEFAULTS]
    assert POLE.sample(seed=0, features={"gravity": normal}) == DEFAULTS
    for given_as in ([hyperparameter, "poles"], ContextSpace([hyperparameter]), [UniformFloat("gravity", 1, 2)]):
        drawn = POLE.sample(5, seed=3, features=given_as)
        assert all(1 <= context["gravity"] <= 2 for context in drawn)
        assert drawn == POLE.sample(5, seed=3, features=given_as)


def test_a_normal_distribution_takes_the_bounds_that_it_lacks_from_the_feature():
    drawn = POLE.sample(300, seed=0, features=[NormalFloat("length", 0.5, 1.0)])
    assert min(context["length"] for context in drawn) >= 0.05
    low = POLE.distributions([NormalFloat("length", 0.5, 1.0, high=1)])["length"]
    assert (low.low, low.high) == (0.05, 1)
    wide = NormalFloat("n", 0, 1)
    assert ContextSpace([NormalFloat("n", 5, 1)]).distributions([wide])["n"] == wide


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (UniformFloat("length", 0, 5), r"features\['length'\]: expected to sample a number from 0.05 to 5, got a Unif"),
        (UniformFloat("poles", 1, 3), r"expected to sample an integer from 1 to 3, got a UniformFloat of a number"),
        (Categorical("length", (1, 6)), r"expected to sample a number from 0.05 to 5, got a Categorical of one of 1,"),
        (NormalFloat("gravity", 0.0, 0.0), r"expected to sample a finite number of at least 0.1, got a NormalFloat"),
        ("floors", r"features\['floors'\]: no such feature; did you mean 'floor'\?"),
    ],
)
def test_a_distribution_that_leaves_its_feature_is_refused_before_it_is_sampled(distribution, message):
    with pytest.raises(ContextError, match=message):
        POLE.sample(seed=0, features=[distribution])
    with pytest.raises(ContextError, match=r"features: expected each feature once, got 'poles' twice"):
        POLE.sample(seed=0, features=["poles", UniformInteger("poles", 1, 2)])


def test_a_feature_of_ones_own_is_four_functions():
    class Even(Feature):
        default_value = 0

        def allows(self, value):
            return features.is_number(value) and value % 2 == 0

        def sample(self, rng):
            return int(rng.integers(100)) * 2

        def __str__(self):
            return "an even number"

    space = ContextSpace([Even("e"), UniformFloat("x", 0, 1)])
    assert all(context["e"] % 2 == 0 for context in space.sample(20, seed=0))
    assert space.vector({"e": 4}).tolist() == [4, 0.5]
    with pytest.raises(ContextError, match=r"context\['e'\]: expected an even number, got 3"):
        space.verify({"e": 3})
    with pytest.raises(ContextError, match=r"a sampled context\['x'\]: expected a number from 0 to 1, got"):
        space.sample(seed=0, features=[type("Far", (Even,), {"sample": lambda self, rng: 7})("x")])


def test_a_grid_has_every_combination_once():
    contexts = POLE.grid({"length": [1, 2], "poles": [1, 2, 3]})
    assert list(contexts) == list(range(6))
    assert [(c["length"], c["poles"]) for c in contexts.values()] == [(a, b) for a in (1, 2) for b in (1, 2, 3)]
    assert all(list(context) == list(DEFAULTS) for context in contexts.values())
    with pytest.raises(ContextError, match=r"context\['poles'\]: expected an integer from 1 to 3, got 4"):
        POLE.grid({"poles": [4]})


def test_numpys_scalars_are_numbers_of_python_in_a_feature():
    feature = UniformFloat("x", np.float64(0), np.float32(1), default=np.float64(0.5))
    assert repr(feature) == "UniformFloat(name='x', low=0.0, high=1.0, default=0.5, log=False)"
    assert repr(Categorical("c", np.arange(2))) == "Categorical(name='c', choices=(0, 1), default=0, weights=None)"
