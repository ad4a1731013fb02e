"""Environments to dm_env and from it: the same steps, seeds and lifecycle."""

import pickle
import warnings
from collections import OrderedDict

import dm_env
import numpy as np
import pytest
import tree
from depth import examples
from dm_env import StepType, specs
from dm_sources import Made, Playing, Seeing, Wrapping
from forms import core_trace
from hypothesis import given
from hypothesis import strategies as st
from nested import DTYPES, plain
from scripted import Line, Scripted, Shaped
from strategies import INTEGERS, Pair, arrays, names, nested, shapes
from traces import exact

import envoi
from envoi import Array, Discrete, EpisodeError, LossyConversion, MultiBinary, MultiDiscrete, SpecError, Text
from envoi.adapters import from_dm_env, to_dm_env, to_gymnasium
from envoi.adapters.dm_env import FromDmEnv, UnseededWarning, from_spec, to_spec
from envoi.adapters.dm_env.specs import Strings
from envoi.adapters.shared.array_specs import array_form, decoder, encoder, origin

FIRST, MID, LAST = StepType
TO_THE_END = Line(terminated=True)


def through(core):
    """Core → our form → the importer, which reads from the form what a dm_env step cannot hold."""
    return FromDmEnv(to_dm_env(core))


def foreign(core):
    """Core → form → third-party wrapper → core."""
    return from_dm_env(Wrapping(to_dm_env(core)))


def same(a, b):
    assert exact(a) == exact(b)


MIXED = np.array([0.5, 0.0])
PAIR = Array((2,), "float64", 0, 1, "discount")


def last_step(line, **keywords):
    form = to_dm_env(Scripted(line, **keywords))
    form.reset()
    return form.step(5)


def test_nested_discounts_follow_the_rows_of_arrays():
    for line, said in (
        (Line(truncated=True, discount=MIXED), MIXED),
        (Line(truncated=True, discount=np.zeros(2)), np.ones(2)),
        (Line(terminated=True, discount=MIXED), np.zeros(2)),
    ):
        step = last_step(line._replace(discount={"a": [line.discount]}), discount_spec={"a": [PAIR]})
        assert step.step_type is LAST
        same(step.discount, {"a": [said]})


def test_a_number_of_another_type_than_its_spec_says_is_cast_where_that_loses_nothing():
    for reward, said in ((1, 1.0), (np.int64(2**40), float(2**40)), (np.float32(0.1), float(np.float32(0.1)))):
        step = last_step(Line(reward, discount=np.float32(0.5)))
        assert type(step.reward) in (float, np.float64)
        assert (step.reward, step.discount) == (said, 0.5)
        specs.Array((), float).validate(step.reward)
    assert last_step(Line(2**53 + 1)).reward == 2**53 + 1

    class Narrow(Scripted):
        reward_spec = Array((), "float32", name="reward")

    form = to_dm_env(Narrow(Line(0.5)))
    form.reset()
    form.reward_spec().validate(form.step(5).reward)


ROWS = [
    ((MID, 1.0, 1.0), (False, False)),
    ((MID, 1.0, 0.5), (False, False)),
    ((MID, 1.0, 0.0), (False, False)),
    ((LAST, 1.0, 0.0), (True, False)),
    ((LAST, 1.0, 0.99), (False, True)),
    ((LAST, 1.0, 1.0), (False, True)),
    ((LAST, 1.0, np.float32(0.5)), (False, True)),
    ((MID, 1.0, np.zeros(2)), (False, False)),
    ((LAST, 1.0, np.zeros(2)), (True, False)),
    ((LAST, 1.0, MIXED), (False, True)),
    ((LAST, 1.0, np.ones(2)), (False, True)),
    ((LAST, 1.0, {"a": 0.0, "b": [np.zeros(2)]}), (True, False)),
    ((LAST, 1.0, {"a": 0.0, "b": [MIXED]}), (False, True)),
    ((1, 0.0, 1.0), (False, False)),  # plain integers
    ((2, 0.0, 0.0), (True, False)),
]


@pytest.mark.parametrize(("line", "flags"), ROWS)
def test_every_row_of_a_foreign_step_reads_as_it_should(line, flags):
    discount = line[2]
    spec = specs.BoundedArray((2,), float, 0, 1)
    spec = {"a": specs.Array((), float), "b": [spec]} if isinstance(discount, dict) else spec
    env = from_dm_env(Playing(line, discount_spec=spec if isinstance(discount, (dict, np.ndarray)) else None))
    first = env.reset()
    assert first.info == {}
    step = env.step(1)
    assert (step.terminated, step.truncated) == flags
    assert type(step.terminated) is type(step.truncated) is bool
    same((step.reward, step.discount, step.info), (line[1], discount, {}))


@pytest.mark.parametrize(
    ("line", "error", "match"),
    [
        *(((FIRST, *rest), EpisodeError, "by itself") for rest in ((None, None), (0.0, 1.0))),
        *(((MID, *rest), SpecError, "expected None in the first step") for rest in ((None, 1.0), (0.0, None))),
        *(((LAST, *rest), SpecError, "expected None in the first step") for rest in ((None, 0.0), (1.0, None))),
    ],
)
def test_a_first_step_in_the_middle_is_an_error_and_never_a_silent_reset(line, error, match):
    env = from_dm_env(Playing(line, (MID, 0.0, 1.0)))
    env.reset()
    with pytest.raises(error, match=match):
        env.step(0)
    with pytest.raises(EpisodeError, match="reset"):
        env.step(0)


discounts = st.sampled_from([None, 0.0, 0.5, 0.99, 1.0, np.float32(0.5)])
rewards = st.sampled_from([0.0, 1, -2.5, 16777217.0, 2**40, np.int64(2**40), np.float32(0.1), np.array(3.5)])
values = st.sampled_from([1, 1.9, True, 7, "a", None, {"b": (1, [2])}, np.float32(2), b"x"])
infos = st.dictionaries(st.sampled_from(["a", "discount", 3, ("t", 1), None]), values, max_size=3)
lines = st.builds(Line, rewards, st.booleans(), st.booleans(), discounts, infos)


@examples(300)
@given(st.lists(lines, min_size=1, max_size=4), st.integers(0, 99))
def test_third_party_wrapper_hides_only_info_and_what_a_dm_env_step_lacks(script, seed):
    script = [*script, TO_THE_END]
    envs = foreign(Scripted(*script)), Scripted(*script)
    for one, other in zip(*[core_trace(env, (seed, None), note=tuple) for env in envs], strict=True):
        same(one[0], other[0])
        if len(one) == 2:
            continue
        _, reward, terminated, truncated, discount, _ = other
        assert one[1] == reward
        assert one[2:4] == (terminated, truncated and not terminated)
        if not terminated and not (truncated and discount == 0):
            assert one[4] == discount


def test_a_choice_reaches_our_model_as_a_hashable_number():
    taken = []

    class Taking(Scripted):
        def transition(self, state, action, rng):
            taken.append({5: "five"}[action])
            return super().transition(state, action, rng)

    form = to_dm_env(Taking(*[Line()] * 4))
    form.reset()
    for action in (5, np.int32(5), np.array(5), np.asarray(5, np.int64)):
        form.step(action)
    assert taken == ["five"] * 4


def test_a_given_function_seeds_the_source_before_its_reset_and_wins_over_everything_else():
    source, asked = Playing((MID, 0.0, 1.0)), []
    env = from_dm_env(source, seed=lambda seed: asked.append((seed, source.resets)))
    assert not env.unseeded
    env.reset(seed=np.uint32(7))
    env.reset()
    env.reset(seed=2**40)
    assert asked == [(7, 0), (2**40, 2)]
    assert type(asked[0][0]) is int


def test_a_method_seed_of_the_source_is_called_with_the_integer():
    class Seeded(Playing):
        def seed(self, seed):
            self.asked = seed

    source = Seeded()
    from_dm_env(Wrapping(source)).reset(seed=3)
    assert source.asked == 3


def test_generators_are_seeded_as_their_owners_constructor_would():
    class Held:
        pass

    for make in (np.random.RandomState, np.random.default_rng):
        source = Playing((MID, 0.0, 1.0))
        source._rng = make()
        source._see = lambda source=source: np.array([source._rng.random(), source.at])
        source._task = Held()
        source._task._random = np.random.RandomState()
        env = from_dm_env(source)
        assert env.reset(seed=5).observation[0] == make(5).random()
        assert source._task._random.random() == np.random.RandomState(5).random()
        first, again, other = (env.reset(seed=seed).observation[0] for seed in (2**40 + 7, 2**40 + 7, 2**41 + 7))
        assert first == again != other


def test_a_factory_makes_a_new_source_for_every_seed_and_closes_the_old_one():
    env = from_dm_env(Made)
    old = env.source
    env.reset()
    assert env.source is old
    assert env.reset(seed=4).observation[0] == np.random.default_rng(4).random()
    assert env.source is not old
    assert old.closed == 1


def test_a_source_that_nothing_can_seed_says_so_once_and_is_reported():
    env = from_dm_env(Seeing(specs.Array((), float), lambda env: 1.0))
    assert env.unseeded
    (loss,) = env.arrival_losses
    assert loss.field == "reach"
    assert not loss.refused
    env.reset()
    with pytest.warns(UnseededWarning, match="from_dm_env"):
        env.reset(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(seed=1)


def drawn(env, seed):
    """The random number in the observation of a reset with a generator."""
    env.rng = np.random.default_rng(seed)
    return env.reset().observation[0]


def test_the_generator_can_be_read_and_set():
    for env in (through(Scripted(Line())), foreign(Scripted(Line()))):
        assert drawn(env, 9) == np.random.default_rng(9).random()
        assert env.rng is env.unwrapped.core.rng
    source = Playing()
    env = from_dm_env(Wrapping(source))
    env.rng = np.random.Generator(np.random.MT19937(9))
    assert env.reset().observation[0] == np.random.RandomState(np.random.MT19937(9)).random_sample()
    assert env.rng is env.streams.dynamics  # a `RandomState` is no `Generator`
    assert drawn(env, 1) == drawn(env, 1) != drawn(env, 2)
    source._rng = np.random.default_rng()
    source._see = lambda: np.array([source._rng.random(), 0.0])
    assert drawn(env, 9) == np.random.default_rng(9).random()
    asked = []
    hooked = from_dm_env(Playing(), seed=asked.append)
    for _ in range(2):
        drawn(hooked, 9)
    assert len(set(asked)) == 1


strings = st.builds(Strings, shapes(), st.sampled_from([str, bytes]), names())
core_specs = nested(st.one_of(plain, plain, strings))


def said(spec):
    """All that a dm_env spec says, for `==` of dm_env's own ignores names and more."""
    if isinstance(spec, dict):
        return (type(spec), [(key, said(sub)) for key, sub in spec.items()])
    if isinstance(spec, (list, tuple)):
        return (type(spec), [said(sub) for sub in spec])
    kind = next(cls for cls in type(spec).__mro__ if cls.__module__ == "dm_env.specs")
    found = [kind, spec.shape, spec.dtype, spec.name, getattr(spec, "string_type", None)]
    if isinstance(spec, specs.BoundedArray):
        found += [np.broadcast_to(bound, spec.shape).tolist() for bound in (spec.minimum, spec.maximum)]
    return found


@examples(2000)
@given(core_specs)
def test_a_core_spec_comes_back_equal_name_and_kind_of_branch_included(spec):
    assert envoi.spec_equal(from_spec(to_spec(spec)), spec)


@st.composite
def foreign_leaves(draw):
    kind = draw(st.sampled_from([specs.Array, specs.BoundedArray, specs.BoundedArray, "discrete", "string"]))
    name, shape = draw(names()), draw(shapes())
    if kind == "string":
        return specs.StringArray(shape, draw(st.sampled_from([str, bytes])), name)
    if kind == "discrete":
        return specs.DiscreteArray(draw(st.integers(1, 100)), np.dtype(draw(st.sampled_from(INTEGERS))), name)
    dtype = draw(st.sampled_from(DTYPES))
    if kind is specs.Array:
        return specs.Array(shape, dtype, name)
    low, high = array_form(draw(arrays([dtype], shape)), "spec", "dm_env").bounds
    return specs.BoundedArray(shape, dtype, low, high, name)


@examples(2000)
@given(nested(foreign_leaves()))
def test_a_foreign_spec_comes_back_saying_the_same_name_and_class_included(spec):
    assert said(to_spec(from_spec(spec))) == said(spec)


@examples(300)
@given(core_specs, st.integers(0, 2**32 - 1))
def test_a_value_of_the_core_spec_conforms_to_dm_envs_and_what_that_generates_to_the_core(spec, seed):
    made = to_spec(spec)
    value = envoi.sample(spec, np.random.default_rng(seed))
    encode, decode = encoder(spec), decoder(spec)
    sent = value if encode is None else encode(value)
    for (_, leaf), (_, one) in zip(envoi.tree.leaves(made), envoi.tree.leaves(sent), strict=True):
        leaf.validate(one)
    back = sent if decode is None else decode(sent)
    envoi.validate(spec, back)
    np.testing.assert_equal(_plainly(back), _plainly(value))


def _plainly(value):
    return envoi.tree.map_leaves(lambda leaf: np.asarray(leaf, object).tolist(), value)


def test_each_spec_becomes_the_class_of_dm_env_that_says_it():
    for spec, kind in (
        (Array((2,)), specs.Array),
        (Array((2,), "int8"), specs.Array),
        (Array((2,), low=0), specs.BoundedArray),
        (Array((2,), low=-np.inf, high=np.inf), specs.BoundedArray),
        (Array((), "complex64"), specs.Array),
        (Discrete(3), specs.DiscreteArray),
        (Discrete(3, start=1), specs.BoundedArray),
        (MultiDiscrete([2, 3]), specs.BoundedArray),
        (MultiBinary(3), specs.BoundedArray),
        (Text(3), specs.StringArray),
    ):
        made = to_spec(spec)
        assert type(made).__mro__[1] is kind
        assert repr(made) == repr(kind(*made.__reduce__()[1][1]))


def test_bounds_are_inclusive_partly_missing_ones_infinite_and_per_element():
    half = to_spec(Array((2,), "float32", low=[0, -np.inf]))
    assert half.minimum.tolist() == [0, -np.inf]
    assert half.maximum.tolist() == [np.inf, np.inf]
    assert to_spec(Array((2,), "int8", high=3)).minimum.tolist() == [-128, -128]
    several = to_spec(MultiDiscrete([2, 3], start=[-1, 5]))
    assert (several.minimum.tolist(), several.maximum.tolist()) == ([-1, 5], [0, 7])
    assert to_spec(Discrete(3, start=5)).maximum == 7
    assert to_spec(Array((), "bool", low=True)).maximum == np.True_


def test_a_foreign_scalar_bounded_integer_is_a_choice_as_an_action_and_a_quantity_as_an_observation():
    spec = specs.BoundedArray((), np.int16, -2, 3, "n")
    assert from_spec(spec) == Array((), "int16", -2, 3, "n")
    assert from_spec({"a": [spec]}, action=True) == {"a": [Discrete(6, -2, "int16", "n")]}
    # Ours is what it was, either way.
    ours = Array((), "int16", -2, 3, "n")
    assert from_spec(to_spec(ours), action=True) == ours
    whole = specs.BoundedArray((), np.int8, -128, 127)
    assert from_spec(whole, action=True) == Array((), "int8", -128, 127)
    assert from_spec(specs.DiscreteArray(3)) == Discrete(3, dtype="int32")
    env = from_dm_env(Playing(action_spec=specs.BoundedArray((), np.int64, 1, 3)))
    assert env.action_spec == Discrete(3, 1)


def test_a_spec_that_was_changed_since_says_what_it_says_now():
    made = to_spec(Array((2,), "float32", 0, None, "a"))
    changed = made.replace(name="b")
    assert origin(changed) is None
    assert from_spec(changed) == Array((2,), "float32", 0, np.inf, "b")
    assert made.replace(maximum=[1, 1]).maximum.tolist() == [1, 1]
    assert origin(pickle.loads(pickle.dumps(changed))) is None
    choice = to_spec(Discrete(3, name="a")).replace(num_values=4)
    assert from_spec(choice) == Discrete(4, name="a")


def test_the_specs_of_a_form_are_dm_envs_own_to_dm_tree_and_to_equality():
    form = to_dm_env(Shaped({"z": Discrete(2), "a": Pair(Array((2,)), Pair(MultiBinary(2), Discrete(3)))}, Discrete(2)))
    made = form.observation_spec()
    assert form.observation_spec() is made
    assert list(made) == ["z", "a"]
    tree.assert_same_structure(made, form.reset().observation)
    assert made["z"] == specs.DiscreteArray(2, np.int64)
    assert specs.DiscreteArray(2, np.int64) == made["z"]
    with pytest.raises(ValueError, match="within bounds"):
        made["z"].validate(np.int64(2))


def test_kinds_of_dicts_come_through():
    spec = OrderedDict(b=specs.Array((1,), float), a=specs.Array((), int))
    found = from_spec(spec)
    assert type(found) is OrderedDict
    assert list(found) == ["b", "a"]
    env = from_dm_env(Seeing(spec, lambda env: OrderedDict(a=1, b=np.zeros(1))))
    assert list(env.reset().observation) == ["b", "a"]
    envoi.validate(env.observation_spec, env.observation)


# Specs that dm_env does not have.


@pytest.mark.parametrize(
    "spec", [specs.Array((), object), specs.Array((2,), "datetime64[s]"), specs.BoundedArray((), float, np.nan, 1), 3]
)
def test_a_foreign_spec_of_an_unknown_class_is_refused_by_path(spec):
    with pytest.raises(LossyConversion, match=r"observation_spec\['a'\]"):
        from_dm_env(Seeing({"a": spec}, lambda env: 0))


def test_an_imported_array_of_strings_is_copied_checked_and_refused_by_gymnasium():
    words = np.array(["a", "b"], object)
    env = from_dm_env(Seeing({"words": specs.StringArray((2,), str, "w")}, lambda env: {"words": words}))
    first = env.reset().observation
    words[0] = "changed"
    assert first["words"].tolist() == ["a", "b"]
    envoi.validate(env.observation_spec, first)
    for wrong in (["a", "b", "c"], ["a", 1], "a"):
        with pytest.raises(envoi.SpecError, match=r"\['words'\]"):
            envoi.validate(env.observation_spec, {"words": wrong})
    with pytest.raises(LossyConversion, match=r"\['words'\]"):
        to_gymnasium(env)
    scalar = from_spec(specs.StringArray((), bytes))
    assert scalar.zeros() == b""
    assert scalar.contains(scalar.sample(np.random.default_rng(0)))


def test_dm_envs_default_reward_and_discount_are_the_cores():
    env = from_dm_env(Playing())
    assert env.reward_spec == envoi.Env.reward_spec
    assert env.discount_spec == envoi.Env.discount_spec
    form = to_dm_env(Scripted(Line()))
    assert said(form.reward_spec()) == said(dm_env.Environment.reward_spec(form))
    assert said(form.discount_spec()) == said(dm_env.Environment.discount_spec(form))
