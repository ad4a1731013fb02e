"""Core specs as dm_env's and back, and dm_env's own as core specs and back; values too."""

import copy
import pickle
from collections import OrderedDict

import dm_env
import numpy as np
import pytest
import tree
from depth import examples
from dm_env import specs
from dm_sources import Playing, Seeing
from golden import Pair
from hypothesis import given
from hypothesis import strategies as st
from nested import DTYPES, Single, bounds, integers, names, plain, shapes, trees
from scripted import Line, Scripted, Shaped

import envoi
from envoi import Array, Discrete, LossyConversion, MultiBinary, MultiDiscrete, Sequence, Text
from envoi.adapters import from_dm_env, losses, to_dm_env, to_gymnasium
from envoi.adapters.dm_env import from_spec, to_spec
from envoi.adapters.dm_env.specs import Strings
from envoi.adapters.shared.array_specs import ArrayForm, decoder, encoder, origin

strings = st.builds(Strings, shapes, st.sampled_from([str, bytes]), names)
core_specs = trees(st.one_of(plain, plain, strings))


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
    name, shape = draw(names), draw(shapes)
    if kind == "string":
        return specs.StringArray(shape, draw(st.sampled_from([str, bytes])), name)
    if kind == "discrete":
        return specs.DiscreteArray(draw(st.integers(1, 100)), np.dtype(draw(integers)), name)
    dtype = draw(st.sampled_from(DTYPES))
    if kind is specs.Array:
        return specs.Array(shape, dtype, name)
    low, high = ArrayForm(shape, np.dtype(dtype), *draw(bounds(dtype, shape)), name).bounds
    return specs.BoundedArray(shape, dtype, low, high, name)


@examples(2000)
@given(trees(foreign_leaves()))
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


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda spec: pickle.loads(pickle.dumps(spec))])
def test_copies_and_pickles_of_a_spec_remember_what_it_was_made_from(how):
    for spec in (Array((2,), low=0), Discrete(3), Discrete(3, 1), Text(3, charset="ab"), Strings((2,)), MultiBinary(2)):
        made = to_spec(spec)
        copied = how(made)
        assert from_spec(copied) == spec
        assert said(copied) == said(made)
        assert isinstance(copied, type(made).__mro__[1])


def test_the_specs_of_a_form_are_dm_envs_own_to_dm_tree_and_to_equality():
    form = to_dm_env(Shaped({"z": Discrete(2), "a": Pair(Array((2,)), Single(MultiBinary(2)))}, Discrete(2)))
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


@pytest.mark.parametrize("where", ["reward_spec", "discount_spec"])
def test_a_reward_or_discount_that_dm_env_cannot_say_is_refused_too(where):
    env = Scripted(Line())
    setattr(env, where, {"a": Sequence(Array(()))})
    with pytest.raises(LossyConversion, match=r"\['a'\]"):
        to_dm_env(env)
    assert len(losses(env, "dm_env")) == 1


@pytest.mark.parametrize(
    "spec",
    [
        specs.Array((), object),
        specs.Array((2,), "datetime64[s]"),
        specs.BoundedArray((), float, np.nan, 1),
        "spec",
        None,
    ],
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
