"""The light types beside TF-Agents' own: equal where they are asked the same."""

import pickle

import numpy as np
import pytest
from depth import examples
from hypothesis import given
from hypothesis import strategies as st
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step

from envoi.adapters.tf_agents import types as tf_types

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
KINDS = ("ArraySpec", "BoundedArraySpec")
FIELDS = ("shape", "dtype", "name", "minimum", "maximum")


def told(spec):
    """All that a spec says."""
    values = [getattr(spec, field) for field in FIELDS if hasattr(spec, field)]
    return [(v.dtype, v.shape, v.tolist(), v.flags.writeable) if isinstance(v, np.ndarray) else v for v in values]


def both(kind, *args, **kwargs):
    """The results of the light class and TF-Agents' own for the same arguments; None for an error."""
    made = []
    for module in (tf_types, array_spec):
        try:
            made.append(getattr(module, kind)(*args, **kwargs))
        except (TypeError, ValueError) as error:
            made.append(ValueError if isinstance(error, ValueError) else TypeError)  # gin makes a subclass of its own
    return made


@st.composite
def arguments(draw):
    dtype, shape = np.dtype(draw(st.sampled_from(DTYPES))), draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]))
    if dtype.kind == "f":
        values = [-np.inf, float(np.finfo(dtype).min), -1.5, 0.0, 0.5, float(np.finfo(dtype).max), np.inf]
        make = dtype.type
    else:
        info = np.iinfo(dtype)
        values, make = [info.min, 0, 1, 100, info.max], int
    bound = st.none() | st.sampled_from(values).map(make)
    whole = st.lists(st.sampled_from(values).map(make), min_size=3, max_size=3).map(lambda v: np.array(v, dtype))
    return shape, dtype, draw(bound | whole), draw(bound | whole), draw(st.sampled_from([None, "a", ""]))


@examples(1000)
@given(arguments(), st.data())
def test_specs_say_the_same(args, data):
    light, own = both("BoundedArraySpec", *args)
    if isinstance(own, type):
        assert light is own
        return
    assert told(light) == told(own)
    assert told(pickle.loads(pickle.dumps(light))) == told(own)
    assert told(light.replace(name="b")) == told(own.replace(name="b"))
    assert repr(light) == repr(own)
    shape, dtype, *_ = args
    for value in (np.zeros(shape, dtype), np.ones(shape, dtype), np.zeros((4,), dtype), 0, 1.0, [0]):
        assert light.check_array(value) == bool(own.check_array(value))
    other = data.draw(arguments())
    light_other, own_other = both("BoundedArraySpec", *other)
    if not isinstance(own_other, type) and light_other.minimum.shape == light.minimum.shape:
        assert (light == light_other) == bool(own == own_other)


@pytest.mark.parametrize("dtype", [*DTYPES, "bool", "complex64"])
def test_specs_without_bounds_say_the_same(dtype):
    light, own = both("ArraySpec", (2, 3), dtype, "a")
    assert told(light) == told(own)
    assert repr(light) == repr(own)
    assert light == tf_types.ArraySpec((2, 3), dtype, "b")
    assert light != tf_types.ArraySpec((2,), dtype, "a")
    light, own = both("BoundedArraySpec", (2, 3), dtype)
    assert light is own or told(light) == told(own)


@pytest.mark.parametrize("kinds", [np.int32(0), np.int32(1), np.int32(2), np.array([0, 1, 2], np.int32)])
def test_time_steps_say_the_same(kinds):
    light, own = (module.TimeStep(kinds, 0, 1, None) for module in (tf_types, time_step))
    assert light._fields == own._fields
    for name in ("is_first", "is_mid", "is_last"):
        np.testing.assert_array_equal(getattr(light, name)(), getattr(own, name)())
    for number in (0, 1, 2):
        light, own = (module.StepType(number) for module in (tf_types, time_step))
        assert (light.dtype, light.shape, light) == (own.dtype, own.shape, own)
    with pytest.raises(ValueError, match="conversion"):
        tf_types.StepType(3)


def public(kind):
    return {name for name in vars(kind) if not name.startswith("_")} | {"_step", "_reset"} & set(vars(kind))


def test_every_method_is_there_that_forms_need():
    assert public(tf_types.PyEnvironment) == public(py_environment.PyEnvironment) - {"should_reset"}
    for kind in KINDS:
        missing = public(getattr(array_spec, kind)) - set(dir(getattr(tf_types, kind)))
        assert missing <= {"from_array", "from_spec", "num_values"}
    assert set(tf_types.PyEnvironment.__abstractmethods__) == set(py_environment.PyEnvironment.__abstractmethods__)


def environment(types, specs, steps):
    """A small environment on some types."""

    class Small(types.PyEnvironment):
        def observation_spec(self):
            return specs.ArraySpec((), np.int64)

        def action_spec(self):
            return specs.BoundedArraySpec((), np.int64, 0, 1)

        def _tell(self, kind):
            return steps.TimeStep(np.int32(kind), np.float32(0), np.float32(1), np.array(self.at))

        def _reset(self):
            self.at = 0
            return self._tell(0)

        def _step(self, action):
            self.at += 1
            return self._tell(1)

    return Small()


def test_environments_behave_the_same():
    light = environment(tf_types, tf_types, tf_types)
    own = environment(py_environment, array_spec, time_step)
    for env in (light, own):
        with pytest.raises(ValueError, match="not initialized"):
            env.current_time_step()
        for name in ("render", "get_info", "get_state"):
            with pytest.raises(NotImplementedError):
                getattr(env, name)()
        with pytest.raises(NotImplementedError):
            env.seed(1)
        with pytest.raises(NotImplementedError):
            env.set_state(1)
        with env:
            assert (env.batched, env.batch_size) == (False, None)
    seen = [[tuple(env.step(0)) for _ in range(7)] + [tuple(env.current_time_step())] for env in (light, own)]
    assert seen[0] == seen[1]
    for mine, theirs in zip(light.time_step_spec(), own.time_step_spec(), strict=True):
        assert told(mine) == told(theirs)
    assert told(light.reward_spec()) == told(own.reward_spec())
    assert told(light.discount_spec()) == told(own.discount_spec())
