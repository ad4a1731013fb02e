"""A batch is its lanes: nothing that happens in one is felt in another."""

import copy
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Carts, Count, Flock, Sums, Walk
from strategies import generators, specs
from traces import exact

import envoi
from envoi import Infos, Lanes, ModelBatch, SpecError, TimeLimit, Validated
from envoi.adapters import to_gymnasium_vector, to_tf_agents
from envoi.lane_values import lane, put, stack, take
from envoi.models import MODELS, CartPole, Catch, GridWorld, make
from envoi.protocol.batch_env import full_lanes_step
from envoi.protocol.fast_steps import fast_step

N = 4


def in_a_loop(make_env, n=N):
    return Lanes([make_env() for _ in range(n)])


KINDS = {"loop": lambda: in_a_loop(Walk), "model": lambda: envoi.batch(Flock(), N)}
every_kind = pytest.mark.parametrize("make_env", KINDS.values(), ids=KINDS)


def compare(spec, step, index, alone):
    """Lane `index` of a batched step against the step of one environment alone."""
    assert exact(lane(spec, step.observation, index)) == exact(alone.observation)
    assert np.array_equal(step.reward[index], alone.reward)
    assert (step.terminated[index], step.truncated[index]) == (alone.terminated, alone.truncated)
    assert np.array_equal(step.discount[index], np.broadcast_to(alone.discount, step.discount[index].shape))
    assert exact(step.info[index]) == exact(alone.info)


@settings(max_examples=6)
@given(st.integers(0, 2**32))
def test_from_equal_states_a_lane_does_what_the_model_does_alone(seed):
    n = 5
    batch = envoi.batch(Carts(), n)
    batch.reset(seed=seed)
    single = envoi.batch(Carts(), 1)
    over = np.zeros(n, bool)
    for _ in range(25):
        before, actions = batch.state, batch.sample_action()
        step = batch.step(actions, restart=over)
        for i in range(n):
            if not over[i]:
                single.state = take(before, np.array([i]))  # a batch of one, put into this lane's state
                own = single.step(actions[i : i + 1])
                assert exact(take(batch.state, np.array([i]))) == exact(single.state)
                compare(batch.observation_spec, step, i, envoi.Step(*(lane_of(part) for part in own)))
        over = step.terminated | step.truncated


def lane_of(part):
    return {key: value[0] for key, value in part.items()} if isinstance(part, dict) else part[0]


@pytest.mark.parametrize("model", [Carts, Flock])
@settings(max_examples=6)
@given(st.integers(0, 2**32))
def test_a_batch_model_alone_has_no_axis(model, seed):
    env, batch = model(), envoi.batch(model(), 1)
    assert exact(env.reset(seed=seed).observation) == exact(lane(env.observation_spec, batch.reset(seed=seed)[0], 0))
    for _ in range(20):
        action = env.sample_action()
        step, batched = env.step(action), batch.step(np.asarray(action)[None])
        compare(env.observation_spec, batched, 0, step)
        envoi.validate(env.observation_spec, step.observation)
        if step.terminated or step.truncated:
            return


@every_kind
@settings(max_examples=20)
@given(st.lists(st.booleans(), min_size=N, max_size=N), st.integers(0, 99))
def test_a_mask_touches_its_lanes_and_no_others(make_env, chosen, seed):
    mask, env = np.array(chosen), make_env()
    env.reset(seed=seed)
    env.step(env.sample_action(), restart=np.ones(N, bool))
    before = env.state if isinstance(env, Lanes) else [take(env.state, i) for i in range(N)]
    seen = env.observation
    begun = env.reset(mask=mask)
    after = env.state if isinstance(env, Lanes) else [take(env.state, i) for i in range(N)]
    mask_then = mask.copy()
    mask[:] = ~mask  # the caller's mask is the caller's
    for i in range(N):
        assert (exact(before[i]) == exact(after[i])) == (not mask_then[i])
        same = exact(lane(env.observation_spec, seen, i)) == exact(lane(env.observation_spec, begun.observation, i))
        assert same == (not mask_then[i])
        assert (begun.info[i] == {}) == (not mask_then[i])


@pytest.mark.parametrize("make_env", [Carts, CartPole, Catch, GridWorld])
def test_a_fast_step_leaves_out_the_usual(make_env):
    fast = TimeLimit(envoi.batch(make_env(), N, compiled=False), 9)
    fast.reset(seed=1)
    full, step, over, quiet = copy.deepcopy(fast), fast_step(fast), None, set()
    for _ in range(30):
        action = full.sample_action()
        values, expected = step(action, over), full.step(action, over)
        ends = expected.terminated | expected.truncated
        assert (values[2] is None) == (values[3] is None) == (not ends.any())
        assert exact(full_lanes_step(values, fast.discount_spec, N)) == exact(expected)
        over = ends
        quiet.add(values[2] is None)
    assert quiet == {True, False}


def test_what_batch_makes_of_what():
    assert isinstance(envoi.batch(Walk, 2), Lanes)
    assert isinstance(envoi.batch(Walk(), 2), Lanes)
    assert isinstance(envoi.batch(Flock, 2), ModelBatch)
    assert isinstance(envoi.batch(lambda: TimeLimit(Flock(), 5), 2), TimeLimit)
    limited = envoi.batch(Validated(TimeLimit(env=Flock(), max_episode_steps=5)), 2)
    assert isinstance(limited, Validated)
    assert isinstance(limited.env, TimeLimit)
    assert limited.env.max_episode_steps == 5
    assert isinstance(limited.env.env, ModelBatch)
    assert isinstance(envoi.batch(Validated(Walk()), 2).env, Lanes)
    for wrapped in (TimeLimit(Walk(), 5), lambda: TimeLimit(Walk(), 5)):
        limited = envoi.batch(wrapped, 2)
        assert isinstance(limited, TimeLimit)
        assert isinstance(limited.env, Lanes)
    made = []
    assert [env.unwrapped for env in envoi.batch(lambda: made.append(Walk()) or made[-1], 3).envs] == made
    limits = iter([5, 6])
    assert isinstance(envoi.batch(lambda: TimeLimit(Walk(), next(limits)), 2), Lanes)


class Plain(Sums):
    """Its functions say one thing for all lanes."""

    def discount(self, state):
        return 0.9


def test_one_answer_is_that_of_all_lanes():
    for env in (envoi.batch(Plain(), 3), Validated(envoi.batch(Plain(), 3))):
        env.reset()
        step = env.step(np.ones(3, int), restart=np.array([False, True, False]))
        assert step.reward.tolist() == [1, 0, 1]
        assert step.discount.tolist() == [0.9, 1, 0.9]
        assert exact([step.terminated, step.truncated]) == exact([np.zeros(3, bool)] * 2)
        assert step.reward.dtype == step.discount.dtype == env.reward_spec.dtype
        assert step.observation.tolist() == [1, 0, 1]
    alone = Validated(Plain())
    alone.reset()
    assert alone.step(1)[:5] == (1, 1, False, False, 0.9)


class Flags(Plain):
    """Its actions are arrays, its flags a plain list."""

    action_spec = envoi.Array((3,), "float64")

    def transition(self, state, action, rng):
        return state + action.sum(-1)

    def terminal(self, state):
        return [bool(one > 5) for one in state]


def test_lists_say_the_same_as_arrays():
    env = envoi.batch(Flags(), 2)
    env.reset()
    assert env.step(np.array([[1.0, 2, 3], [0, 0, 0]])).terminated.tolist() == [True, False]
    alone = Flags()
    alone.reset()
    assert alone.step([0.0, 1.0, 2.0]).observation == 3
    for model in (Catch, Carts):
        batch = envoi.batch(model(), 2)
        batch.reset()
        assert batch.step([0, 1], restart=np.array([True, False])).terminated.tolist() == [False, False]


@every_kind
def test_without_a_seed_in_any_lane_the_streams_continue(make_env):
    env, other = make_env(), make_env()
    for one in (env, other):
        one.reset(seed=5)
    first, goes_on = env.reset(seed=[None] * N), other.reset()
    assert exact(first.observation) == exact(goes_on.observation)
    assert exact(env.sample_action()) == exact(other.sample_action())
    assert exact(env.reset(seed=[None] * N).observation) != exact(first.observation)


@pytest.mark.parametrize("kind", [Walk, Flock])
def test_the_batch_of_a_seeded_environment_follows_from_it(kind):
    def begin(seed):
        env = kind()
        env.reset(seed=seed)
        return exact(envoi.batch(env, N).reset().observation)

    assert begin(1) == begin(1) != begin(2)


class Tenfold(envoi.Wrapper):
    """Shows other observations, takes other actions."""

    observation_spec = envoi.Array((), "float64")
    action_spec = envoi.Discrete(3, start=9)

    def reset(self, **arguments):
        observation, info = super().reset(**arguments)
        return envoi.Reset(10.0 * observation["time"], info)

    def step(self, action):
        result = super().step(action - 10)
        return result._replace(observation=10.0 * result.observation["time"])


def test_lanes_show_and_take_what_wrappers_declare():
    env = envoi.batch(Tenfold(Walk()), 2)
    assert env.reset(seed=0).observation.tolist() == [0, 0]
    for lanes in (Tenfold(Walk()), env):
        lanes.reset(seed=0)
        assert all(np.min(lanes.sample_action()) >= 9 for _ in range(20))
    assert env.step(env.sample_action()).observation.tolist() == [10, 10]


@given(specs(), generators(), st.integers(1, 4))
def test_lanes_come_out_of_a_stack_as_they_went_in(spec, rng, n):
    values = [envoi.sample(spec, rng) for _ in range(n)]
    stacked = stack(spec, values)
    for index, value in enumerate(values):
        out = lane(spec, stacked, index)
        envoi.validate(spec, out)
        assert exact_values(out) == exact_values(value)


def exact_values(value):
    """As `exact`, but a numpy scalar and an array of no axes are alike."""
    if isinstance(value, (np.ndarray, np.generic)):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return {key: exact_values(part) for key, part in value.items()}
    return [exact_values(part) for part in value] if isinstance(value, (list, tuple)) else value


@given(st.lists(st.booleans(), min_size=3, max_size=3), generators())
def test_put_replaces_the_chosen_lanes_in_a_copy(chosen, rng):
    index = np.flatnonzero(chosen)
    values, others = ({"a": rng.random((3, 2)), "b": (rng.random(3),)} for _ in range(2))
    was = exact(values)
    result = put(values, index, take(others, index))
    assert exact(values) == was
    for i in range(3):
        assert exact(take(result, i)) == exact(take(others if chosen[i] else values, i))


def test_infos_read_as_one_dict_a_lane():
    columns = Infos(columns={"time": np.array([3, 4]), 7: np.array(["a", "b"])}, n=2)
    assert list(columns) == columns[:] == [{"time": 3, 7: "a"}, {"time": 4, 7: "b"}]
    assert columns == Infos([{"time": 3, 7: "a"}, {"time": 4, 7: "b"}])
    assert columns[-1] == {"time": 4, 7: "b"}
    assert list(Infos(columns={"x": np.arange(2)}, n=2, mask=np.array([False, True]))) == [{}, {"x": 1}]
    mixed = [{"x": 1}, {"x": 1.9, "y": None}, {"x": True, 3: {}}]
    assert [exact(info) for info in Infos(mixed)] == [exact(info) for info in mixed]
    with pytest.raises(IndexError):
        columns[2]


class Declared(Count):
    """Has the specs that it is given."""

    observation_spec = envoi.Array((2,), "float32", 0, 1)
    action_spec = envoi.Discrete(3)

    def __init__(self, **specs):
        for what, spec in specs.items():
            setattr(self, what, spec)

    def observe(self, state, rng):
        return envoi.zeros(self.observation_spec)


FLOAT = envoi.Array((), "float32")
DIFFERENT = {
    "wider": (
        "observation_spec",
        {"a": FLOAT, "b": [FLOAT]},
        {"a": FLOAT, "b": [envoi.Array((), "float64")]},
        r"observation\['b'\]\[0\]: expected Array\(\(\), dtype='float32'\) as in lane 0, got .*float64",
    ),
    "bounds": (
        "observation_spec",
        envoi.Array((2,), "float32", 0, 1),
        envoi.Array((2,), "float32", 0, 2),
        r"observation: expected .*high=1.0\) as in lane 0, got .*high=2.0\)",
    ),
    "open": (
        "observation_spec",
        envoi.Array((2,), "int8", [-np.inf, 0]),
        envoi.Array((2,), "int8", [-128, 0]),
        r"observation: expected .*-inf",
    ),
    "keys": ("observation_spec", {"a": FLOAT}, {"b": FLOAT}, r"observation: expected \{'a'"),
    "branch": ("observation_spec", [FLOAT], (FLOAT,), r"observation: expected \[Array.* got \(Array"),
    "leaf": ("action_spec", {"a": envoi.Discrete(2)}, {"a": {}}, r"action\['a'\]: expected Discrete\(2.* got \{\}"),
    "start": ("action_spec", envoi.Discrete(2), envoi.Discrete(2, 1), r"action: expected Discrete\(2.*start=1"),
    "reward": ("reward_spec", FLOAT, envoi.Array((2,), "float32"), r"reward: expected .* got Array\(\(2,\)"),
    "discount": ("discount_spec", FLOAT, envoi.Array((), "float64"), r"discount: expected .*float32.*float64"),
}


@pytest.mark.parametrize("case", list(DIFFERENT))
def test_lanes_of_different_specs_are_refused_by_lane_and_leaf(case):
    what, first, other, message = DIFFERENT[case]
    specs = [first, first, other]

    def factory():
        return Declared(**{what: remaining.pop(0)})

    for made in (
        lambda: Lanes([Declared(**{what: spec}) for spec in specs]),
        lambda: envoi.batch(factory, 3),
        lambda: envoi.Lanes([envoi.TimeLimit(Declared(**{what: spec}), 3) for spec in specs]),
        lambda: to_gymnasium_vector(factory, 3),
        lambda: to_tf_agents(envoi.batch(factory, 3)),
    ):
        remaining = list(specs)
        with pytest.raises(envoi.SpecError, match="lane 2: " + message):
            made()


def test_lanes_have_the_names_of_the_first():
    def named(name):
        inner = envoi.OneOf([envoi.Sequence(envoi.Array((), name=name)), envoi.Discrete(2, name=name)], name)
        return Declared(observation_spec={"a": envoi.Text(3, name=name), "b": inner}, action_spec=envoi.Discrete(3))

    lanes = Lanes([named("one"), named("two"), named(None)])
    assert envoi.spec_equal(lanes.observation_spec, named("one").observation_spec)
    lanes.reset(seed=0)


def test_lanes_may_be_in_different_contexts():
    def contextual(gravity):
        return envoi.Contextual(Carts(), {0: {"gravity": gravity}})

    lanes = Lanes([contextual(9.0), contextual(20.0)])
    assert lanes.reset(seed=0).info[1]["context_id"] == 0


Whatever = type("Whatever", (), dict.fromkeys(("contains", "seed", "sample"), lambda self, *given: True))
"""A set of values of its own, which does not say when two such sets are equal."""


def test_foreign_sets_are_alike_by_class():
    def seeing(origin):
        return Declared(observation_spec={"a": envoi.Foreign(origin)})

    assert Lanes([seeing(Whatever()), seeing(Whatever())]).batch_size == 2
    assert envoi.batch(seeing(Whatever()), 2).batch_size == 2
    with pytest.raises(envoi.SpecError, match=r"lane 1: observation\['a'\]"):
        Lanes([seeing(Whatever()), seeing(type("Other", (Whatever,), {})())])


@pytest.mark.parametrize("around", [lambda env: env, lambda env: TimeLimit(env, 5)])
def test_a_factory_of_different_models_is_refused(around):
    models = iter([Carts(), Catch(), Carts(), Carts()])
    with pytest.raises(SpecError, match=r"lane 1: observation: expected .* as in lane 0, got .*give all lanes equal"):
        envoi.batch(lambda: around(next(models)), 2)
    alike = envoi.batch(lambda: around(next(models)), 2)
    assert not isinstance(alike, Lanes)
    assert alike.batch_size == 2


def test_other_models_keep_their_own_dynamics():
    class Doubled(Carts):
        def reward(self, *transition):
            return 2 * super().reward(*transition)

    heavy = Carts()
    heavy.context = {"gravity": 20.0}
    for other in (heavy, Doubled()):
        made = iter([Carts(), other, Carts()])
        batch = envoi.batch(lambda made=made: next(made), 3)
        assert isinstance(batch, Lanes)
        assert batch.envs[1] is other


def test_a_column_added_to_infos_has_all_lanes():
    infos = Infos(columns={"x": np.array([1, 2])}, n=2, masks={"x": np.array([True, False])})
    assert list(infos) == [{"x": 1}, {}]
    assert list(infos.adding({"x": np.array([3, 4])})) == [{"x": 3}, {"x": 4}]
    assert list(infos.adding({"y": np.array([3, 4])})) == [{"x": 1, "y": 3}, {"y": 4}]


NO, YES = {"a": np.arange(3.0)}, np.array([False, True, True])


@pytest.mark.parametrize("one", [NO, {}, {"a": np.arange(3)}, {"b": np.array([{}, None, 2], object)}])
@pytest.mark.parametrize("other", [{}, NO, {"a": np.ones((3, 2)), "c": np.arange(3)}])
@pytest.mark.parametrize("masks", [None, {"a": np.array([True, False, True])}])
def test_infos_of_some_lanes_are_replaced(one, other, masks):
    before = Infos(columns=one, n=3, mask=np.array([True, True, False]))
    after = Infos(columns=other, n=3, masks=masks)
    expected = [new if chosen else old for chosen, new, old in zip(YES, after, before, strict=True)]
    found = list(before.replaced(YES, after))
    assert repr(found) == repr([{**info} for info in expected])
    assert repr(list(Infos(list(before)).replaced(YES, after))) == repr(expected)


class ReadsItself(Count):
    def reward(self, state, action, next_state):
        return float(self.state)


def test_a_model_that_reads_its_own_state_does_so_in_lanes():
    lanes = envoi.batch(ReadsItself(), 2)
    lanes.reset(seed=0)
    for _ in range(2):
        _ = lanes.envs[1].unwrapped  # which is given the lane's episode
        before = lanes.state
        assert lanes.step(np.ones(2, int)).reward.tolist() == [float(state) for state in before]


def test_a_rewarder_set_after_a_step_applies_in_loops():
    batch = in_a_loop(Walk)
    batch.reset(seed=0)
    batch.step(batch.sample_action())
    batch.rewarder = lambda state, action, next_state: 7.0
    assert batch.step(batch.sample_action()).reward.tolist() == [7.0] * N


@pytest.mark.parametrize("end", [lambda is_over: np.array([is_over]), lambda is_over: "end" if is_over else None])
def test_ends_may_be_whatever_is_true(end):
    class Ending(Count):
        def terminal(self, state):
            return end(state >= 2)

        def truncated(self, state):
            return end(state >= 3)

    batch = envoi.batch(Ending(), N, compiled=False)
    batch.reset(seed=0)
    flags = [batch.step(batch.sample_action())[2:4] for _ in range(2)]
    assert exact(flags) == exact([(np.full(N, over), np.zeros(N, bool)) for over in (False, True)])
    assert not batch.step(batch.sample_action(), restart=np.ones(N, bool)).terminated.any()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("make_env", [*(partial(make, name) for name in MODELS), Carts])
def test_a_reset_of_no_lanes_changes_nothing(make_env, compiled):
    if compiled:
        pytest.importorskip("numba")
    batch = envoi.batch(make_env(), 3, compiled=compiled and make_env is not Carts)
    batch.reset(seed=0)
    first = batch.step(batch.sample_action())
    result = batch.reset(mask=np.zeros(3, bool))
    assert exact(result.observation) == exact(first.observation)
    assert list(result.info) == [{}] * 3
    assert not batch.step(batch.sample_action()).terminated.all()
