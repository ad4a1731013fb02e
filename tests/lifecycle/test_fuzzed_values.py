"""Random nested actions and observations go through every form and back; wrong ones are refused by the leaf's path.

Values are of the corners of their specs: bounds, the largest and smallest numbers, -0.0, infinities, empty arrays.
"""

from functools import partial

import forms
import numpy as np
import pytest
import strategies
from depth import examples
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from small_models import Count
from traces import exact

import envoi
from envoi import Array, Discrete, MultiDiscrete, tree
from envoi.adapters import convert
from envoi.lane_values import stack

pytestmark = [
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
    pytest.mark.filterwarnings("ignore:.*Casting input x:UserWarning"),  # gymnasium iterates over rows of scalars
]

LANES = 2
FUZZED = partial(examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


class Echo(Count):
    """Shows given observations one after the other, and keeps the actions."""

    def __init__(self, seen, done, shown):
        self.observation_spec, self.action_spec = seen, done
        self.shown, self.acted = shown, []

    def transition(self, state, action, rng):
        self.acted.append(action)
        return state + 1

    def observe(self, state, rng):
        return self.shown[state % len(self.shown)]


def corners(spec):
    """Returns a strategy of values of a nested spec, which are at its corners."""
    return st.tuples(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 5), min_size=12, max_size=12)).map(
        lambda given: _corner(spec, np.random.default_rng(given[0]), iter(given[1] * 10))
    )


def _corner(spec, rng, choices):
    def of_leaf(leaf):
        value = envoi.sample(leaf, rng)
        if isinstance(leaf, Discrete):
            value = {0: leaf.start, 1: leaf.start + leaf.n - 1}.get(next(choices), value)
            return leaf.dtype.type(value)
        if not isinstance(leaf, Array) or leaf.dtype.kind not in "iuf":
            return value
        limits = np.finfo(leaf.dtype) if leaf.dtype.kind == "f" else np.iinfo(leaf.dtype)
        low = limits.min if leaf.low is None else leaf.low
        high = limits.max if leaf.high is None else leaf.high
        corner = {0: low, 1: high, 2: -0.0, 3: limits.max, 4: np.inf}.get(next(choices))
        with np.errstate(all="ignore"):
            made = value if corner is None else np.broadcast_to(np.asarray(corner), leaf.shape)
            if leaf.dtype.kind != "f" and not np.isfinite(np.asarray(made, float)).all():
                return value
            made = np.array(made).astype(leaf.dtype)
        try:
            envoi.validate(leaf, made)
        except envoi.SpecError:
            return value
        return made

    return tree.map_leaves(of_leaf, spec)


nested = strategies.nested(strategies.array_leaves(), max_leaves=4)


@st.composite
def echoes(draw):
    """An environment, and actions for it."""
    seen, done = draw(nested), draw(nested)
    return Echo(seen, done, [draw(corners(seen)) for _ in range(3)]), [draw(corners(done)) for _ in range(2)]


def plain(spec, value):
    """The leaves of a value as arrays of their specs' dtypes, since numpy's scalars may stand for them."""
    return exact(tree.map_leaves(lambda leaf, one: np.asarray(one, leaf.dtype), spec, value))


@pytest.mark.parametrize("name", [name for name, row in forms.FORMS.items() if row.kind == "one"])
@FUZZED(150, least=2)
@given(case=echoes())
def test_values_of_one_agent_survive_every_form_and_the_way_back(name, case):
    env, actions = case
    try:
        back = forms.FORMS[name].read(forms.FORMS[name].make(env))
    except envoi.LossyConversion:
        assume(False)
    seen = [back.reset(seed=0).observation, *(back.step(action).observation for action in actions)]
    spec = env.observation_spec
    assert [plain(spec, one) for one in seen] == [plain(spec, one) for one in env.shown]
    assert [plain(env.action_spec, one) for one in env.acted] == [plain(env.action_spec, one) for one in actions]


@pytest.mark.parametrize("name", ["vector next step", "vector disabled", "tf_agents batch", "rllib batch"])
@FUZZED(100, least=2)
@given(case=echoes())
def test_values_of_lanes_survive_every_form_and_the_way_back(name, case):
    env, actions = case
    lanes = envoi.batch(env, LANES, compiled=False)
    try:
        back = forms.FORMS[name].read(forms.FORMS[name].make(lanes))
    except envoi.LossyConversion:
        assume(False)
    back.reset(seed=0)
    back.step(stack(env.action_spec, actions))
    expected = stack(env.observation_spec, [env.shown[1]] * LANES)
    assert plain(env.observation_spec, back.observation) == plain(env.observation_spec, expected)
    for lane, action in zip(lanes.envs, actions, strict=True):
        assert plain(env.action_spec, lane.acted[0]) == plain(env.action_spec, action)


# Wrong actions.

VALIDATED = {
    "core": envoi.Validated,
    **{
        name: partial(convert, target=name, validate=True)
        for name in ("gymnasium", "dm_env", "tf_agents", "pettingzoo", "pettingzoo_aec")
    },
}


def wrong(leaf, kind):
    """Returns a value that a leaf does not have; None if there is none of this kind."""
    if kind == "shape":
        return np.zeros((*leaf.shape, 7), leaf.dtype)
    if kind == "nan":
        return np.full(leaf.shape, np.nan, leaf.dtype) if leaf.dtype.kind == "f" and np.prod(leaf.shape) else None
    if isinstance(leaf, Discrete) and leaf.start + leaf.n <= np.iinfo(leaf.dtype).max:
        return leaf.dtype.type(leaf.start + leaf.n)
    if isinstance(leaf, MultiDiscrete) and np.prod(leaf.shape):
        return np.asarray(leaf.nvec + leaf.start, leaf.dtype)
    return None


@pytest.mark.parametrize("name", VALIDATED)
@FUZZED(100, least=2)
@given(case=echoes(), which=st.integers(0, 9), kind=st.sampled_from(["shape", "nan", "beyond"]))
def test_a_wrong_action_is_refused_by_the_path_of_its_leaf_and_changes_nothing(name, case, which, kind):
    env, actions = case
    paths = list(tree.leaves(env.action_spec, "action"))
    assume(paths)
    path, leaf = paths[which % len(paths)]
    bad = wrong(leaf, kind)
    assume(bad is not None)
    try:
        form = VALIDATED[name](env)
    except envoi.LossyConversion:
        assume(False)
    form.reset()
    before = env.state, exact(env.observation)
    step = partial(_step, form)
    spoilt = iter([bad if one == path else value for one, value in tree.leaves(actions[0], "action")])
    with pytest.raises(envoi.SpecError) as error:
        step(tree.map_leaves(lambda _: next(spoilt), env.action_spec))
    assert path.removeprefix("action") in str(error.value)
    assert env.acted == []
    assert (env.state, exact(env.observation)) == before
    step(actions[0])
    assert [plain(env.action_spec, one) for one in env.acted] == [plain(env.action_spec, actions[0])]


def _step(form, action):
    """Steps a form of one agent, also where it is the only one of several."""
    if hasattr(form, "agent_selection"):
        return form.step(action)
    return form.step({form.agents[0]: action} if hasattr(form, "possible_agents") else action)
