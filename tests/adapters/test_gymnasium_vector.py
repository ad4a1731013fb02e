"""gymnasium's vector environments, both ways: a lane is the environment alone, in every auto-reset mode."""

import copy
import gc
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from depth import examples
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import numeric_specs, specs
from scripted import TAXI, Ends, Line, Returning, Scripted, Shaped
from small_models import Carts, Flock
from test_gymnasium import discounts, exactly, infos

import envoi
from envoi import Array, Discrete, EpisodeError, LossyConversion, SnapshotUnsupported, SpecError, Text
from envoi.adapters import from_gymnasium_vector, losses, to_gymnasium, to_gymnasium_vector
from envoi.adapters.gymnasium.specs import to_space
from envoi.adapters.gymnasium_vector import FromGymnasiumVector, ToGymnasiumVector
from envoi.adapters.gymnasium_vector.specs import batched_decoder, batched_encoder, batched_space
from envoi.lane_values import lane, stack
from envoi.models import CartPole
from envoi.seeding import lane_seeds

NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = (NEXT, SAME, DISABLED)
every_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


@pytest.fixture
def other_processes():
    """Lets processes that are not forked, as by default from Python 3.14 on, have what this file defines."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


class Plays(envoi.Model):
    """Episodes of the lengths of a script, which end in all ways and say all kinds of things."""

    observation_spec = {"draw": Array((2,), "float64"), "step": Discrete(99, dtype="int32")}
    action_spec = Discrete(3, start=5)
    ways = ((True, False), (False, True), (True, True))

    def __init__(self, *lengths):
        self.lengths = lengths

    def initial(self, rng, context):
        episode = int(rng.integers(1000))
        return (episode, self.lengths[episode % len(self.lengths)], 0, rng.random(2))

    def transition(self, state, action, rng):
        return (*state[:2], state[2] + 1, rng.random(2) * (int(action) - 4))

    def observe(self, state, rng):
        return {"draw": np.array(state[3]), "step": np.int32(state[2])}

    def reward(self, state, action, next_state):
        return float(state[2] + next_state[3][0])

    def _way(self, state):
        return self.ways[state[0] % 3] if state[2] == state[1] else (False, False)

    def terminal(self, state):
        return self._way(state)[0]

    def truncated(self, state):
        return self._way(state)[1]

    def discount(self, state):
        return (None, 0.5, 1.0)[(state[0] + state[2]) % 3]

    def info(self, state):
        said = (1, 1.9, True, "a", None, {"b": 1}, np.float32(2))[(state[0] + state[2]) % 7]
        return {"mixed": said, "step": state[2], **({3: "odd"} if state[2] % 2 else {})}


class Plain(Plays):
    """The same, saying only what gymnasium's own loop can put into arrays."""

    def info(self, state):
        return {"step": state[2], "name": "odd" if state[2] % 2 else "even", "array": np.array(state[3])}


scripts = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=4)


def lanes_of(script, kind=Plays):
    return envoi.Lanes([kind(*lengths) for lengths in script])


def lived(env, seeds, mode, actions):
    """Every reset and step of a vector environment; ended lanes are reset by hand where it does not do so."""
    said = [env.reset(seed=list(seeds))]
    for row in actions:
        said.append(env.step(np.asarray(row)))
        over = said[-1][2] | said[-1][3]
        if mode is DISABLED and over.any():
            said.append((*env.reset(options={"reset_mask": over}), over))
    return said


played = st.lists(st.integers(5, 7), min_size=6, max_size=14)


def sync(script, mode, **arguments):
    made = [lambda lengths=lengths: to_gymnasium(Plain(*lengths)) for lengths in script]
    return SyncVectorEnv(made, autoreset_mode=mode, **arguments)


def same_arrays(one, other):
    assert one.keys() == other.keys()
    for key, column in one.items():
        if isinstance(column, dict):
            same_arrays(column, other[key])
        else:
            assert column.dtype == other[key].dtype
            np.testing.assert_equal(list(column), list(other[key]))


def same_lives(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        for key in ("draw", "step"):
            exactly(one[0][key], other[0][key])
        if len(one) == 5:
            for i in (1, 2, 3):
                exactly(one[i], other[i])
        same_arrays(*((said[4] if len(said) == 5 else said[1]) for said in (one, other)))


# Sources.


class Passing(VectorWrapper):
    """A third-party wrapper around a form of envoi, or gymnasium's own environment, which takes masks."""


class Written(VectorEnv):
    """A vector environment written by hand: no sub-environments to reach, no masks, one seed for all."""

    def __init__(self, inner):
        self._inner = inner
        self.num_envs = inner.num_envs
        for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
            setattr(self, name, getattr(inner, name))
        self.metadata = {"autoreset_mode": inner.autoreset_mode, "render_fps": 9}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        masked = inner_options = None
        if self._inner.autoreset_mode is DISABLED and options:
            masked = options.get("reset_mask")
            inner_options = {"reset_mask": masked}
        return self._inner.reset(seed=None if seed is None else [seed] * self.num_envs, options=inner_options)

    def step(self, actions):
        return self._inner.step(actions)


SOURCES = {
    "loop": lambda script, mode: sync(script, mode),
    "wrapped loop": lambda script, mode: Passing(sync(script, mode)),
    "wrapped form": lambda script, mode: Passing(to_gymnasium_vector(lanes_of(script, Plain), autoreset_mode=mode)),
    "by hand": lambda script, mode: Written(sync(script, mode)),
}
every_source = pytest.mark.parametrize("kind", SOURCES)

EXACT = {(kind, source, target) for kind in SOURCES for source in MODES for target in MODES}
"""Which ways there are, as section 3 of the contract has them."""
for target in MODES:
    if target is not NEXT:
        EXACT -= {("by hand", NEXT, target)}  # no lane can be reset by itself
    for source in (SAME, DISABLED):
        if target is NEXT:  # no lane can wait
            EXACT -= {(kind, source, target) for kind in SOURCES if kind != "loop"}
EXACT -= {("by hand", SAME, DISABLED)}


@pytest.mark.parametrize("kind", ["core", *SOURCES])
@every_mode
@pytest.mark.parametrize("target", MODES, ids=lambda mode: f"to {mode.name}")
@settings(max_examples=12, deadline=None)
@given(scripts, played, st.integers(0, 99))
def test_every_mode_comes_exactly_from_every_source_or_is_refused(kind, mode, target, script, acts, seed):
    core = lanes_of(script, Plain) if kind == "core" else from_gymnasium_vector(SOURCES[kind](script, mode))
    n = len(script)
    # An own class of the same core, so that the way is never short.
    make = lambda: ToGymnasiumVector(core, target)  # noqa: E731
    if kind != "core" and (kind, mode, target) not in EXACT:
        with pytest.raises(LossyConversion, match=rf"autoreset_mode: .* in mode {target.name} cannot express .* use"):
            make()
        return
    seeds = [seed] * n if kind == "by hand" else lane_seeds(seed, n)
    actions = [[act] * n for act in acts]
    same_lives(lived_from(make(), kind, seeds, target, actions), lived(sync(script, target), seeds, target, actions))


def lived_from(env, kind, seeds, mode, actions):
    if kind != "by hand":
        return lived(env, seeds, mode, actions)
    reset = env.reset
    env.reset = lambda seed=None, options=None: reset(seed=None if seed is None else seed[0], options=options)
    return lived(env, seeds, mode, actions)


@every_source
@every_mode
def test_from_there_and_to_there_is_the_same_object(kind, mode):
    source = SOURCES[kind]([[2], [3]], mode)
    core = from_gymnasium_vector(source)
    assert core.source is source
    for asked in (None, mode, mode.value):
        assert to_gymnasium_vector(core, autoreset_mode=asked) is source
    assert to_gymnasium_vector(source) is source
    assert core.mode is mode
    form = to_gymnasium_vector(core, autoreset_mode=mode, validate=True)
    assert form is not source
    assert from_gymnasium_vector(form) is core
    assert form.core is core
    other = to_gymnasium_vector(to_gymnasium_vector(envoi.batch(CartPole(), 3)), autoreset_mode=SAME)
    assert other.unwrapped is other


@every_source
def test_a_source_of_mode_next_step_restarts_those_that_ended_and_no_others(kind):
    core = from_gymnasium_vector(SOURCES[kind]([[1], [3]], NEXT))
    core.reset(seed=3)
    act, none = np.array([5, 5]), np.zeros(2, bool)
    over = core.step(act)
    assert (over.terminated | over.truncated).tolist() == [True, False]
    with pytest.raises(EpisodeError, match=r"lanes \[0\]"):
        core.step(act)
    with pytest.raises(EpisodeError, match=r"lanes \[0\]"):
        core.step(act, none)
    if kind == "loop":
        core.step(act, np.array([True, True]))
        return
    with pytest.raises(EpisodeError, match=r"lanes \[1\].*have not ended"):
        core.step(act, np.array([True, True]))
    if kind == "by hand":
        with pytest.raises(EpisodeError, match=r"lanes \[0\].*reset all"):
            core.reset(mask=np.array([True, False]))
    begun = core.step(act, np.array([True, False]))
    assert begun.reward[0] == 0
    assert begun.discount[0] == 1
    assert begun.observation["step"].tolist() == [0, 2]
    core.reset(mask=np.ones(2, bool))


@pytest.mark.parametrize("kind", ["wrapped loop", "wrapped form", "by hand"])
@pytest.mark.parametrize("mode", [SAME, DISABLED])
def test_where_all_lanes_act_a_step_restarts_none(kind, mode):
    core = from_gymnasium_vector(SOURCES[kind]([[1], [3]], mode))
    with pytest.raises(EpisodeError, match="reset"):
        core.step(np.array([5, 5]))
    with pytest.raises(EpisodeError, match="reset"):
        core.reset(mask=np.array([True, False]))
    core.reset(seed=3)
    with pytest.raises(EpisodeError, match=f"{mode.name}.*use reset"):
        core.step(np.array([5, 5]), np.array([True, False]))
    step = core.step(np.array([5, 5]), np.zeros(2, bool))
    assert step.observation["step"].tolist() == [1, 1]
    with pytest.raises(EpisodeError, match=r"lanes \[0\]"):
        core.step(np.array([5, 5]))
    begun = core.reset(mask=np.array([True, False]))
    assert begun.observation["step"].tolist() == [0, 1]
    np.testing.assert_equal(begun.observation, core.observation)
    assert begun.info[1] == {}
    assert core.step(np.array([5, 5])).observation["step"].tolist() == [1, 2]


def test_a_beginning_that_was_kept_is_not_served_where_another_seed_is_asked_for():
    core = from_gymnasium_vector(Passing(sync([[1], [3]], SAME)))
    core.reset(seed=3)
    core.step(np.array([5, 5]))
    first = core.reset(mask=np.array([True, False]), seed=[8, None])
    env = to_gymnasium(Plays(1))
    exactly(lane(Plays.observation_spec, first.observation, 0)["draw"], env.reset(seed=8)[0]["draw"])
    core.step(np.array([5, 5]))
    again = [core.reset(mask=np.array([True, False])).observation["draw"] for _ in range(2)]
    assert again[0][0].tolist() != again[1][0].tolist()  # it is served once
    assert again[0][1].tolist() == again[1][1].tolist()
    core.step(np.array([5, 5]))
    fresh = core.reset(seed=[8, 9])
    exactly(lane(Plays.observation_spec, fresh.observation, 0)["draw"], env.reset(seed=8)[0]["draw"])
    assert fresh.observation["step"].tolist() == [0, 0]


def test_a_source_in_same_step_mode_without_final_observations_is_refused():
    source = Written(sync([[1]], NEXT))
    source.metadata["autoreset_mode"] = "SameStep"
    core = from_gymnasium_vector(source)
    core.reset(seed=0)
    with pytest.raises(SpecError, match="final_obs"):
        core.step(np.array([5]))


def test_lanes_of_different_spaces_are_refused():
    def make(high):
        env = to_gymnasium(Ends())
        env.observation_space = spaces.Box(0, high, (3,))
        return env

    env = SyncVectorEnv([lambda: make(1), lambda: make(2)], observation_mode="different")
    with pytest.raises(LossyConversion, match=r"(?s)observation_space.*same space"):
        from_gymnasium_vector(Passing(env))

    makes = [lambda high=high: Returning(spaces.Box(0, high, (3,)), None) for high in (1, 2)]
    env = SyncVectorEnv(makes, observation_mode="different")
    with pytest.raises(
        LossyConversion, match=r"envs: .*lane 1: observation: expected .*high=1.0\) as in lane 0, got .*high=2.0"
    ):
        from_gymnasium_vector(env)


@pytest.mark.parametrize("said", ["NextStep", None, NEXT])
def test_a_mode_that_is_written_as_text_or_not_at_all_is_understood(said):
    source = Written(sync([[1]], NEXT))
    source.metadata = {} if said is None else {"autoreset_mode": said}
    assert from_gymnasium_vector(source).mode is NEXT
    assert "autoreset_mode" not in from_gymnasium_vector(source).metadata


# Resets.


@pytest.mark.usefixtures("other_processes")
def test_a_manual_reset_of_a_worker_that_resets_again_clears_it_too():
    source = AsyncVectorEnv([lambda: to_gymnasium(Plain(1))] * 2, shared_memory=False)
    core = from_gymnasium_vector(source)
    core.reset(seed=1)
    core.step(np.array([5, 5]))
    core.reset()
    assert core.step(np.array([5, 5])).observation["step"].tolist() == [1, 1]
    core.close()


def test_the_caller_keeps_its_options_its_mask_and_its_infos():
    seen = []

    class Noting(Plays):
        def initial(self, rng, context):
            seen.append(dict(context))
            return super().initial(rng, context)

    env = to_gymnasium_vector(envoi.Lanes([Noting(2), Noting(3)]), autoreset_mode=DISABLED)
    env.reset(seed=0, options={"a": 1})
    mask = np.array([True, False])
    options = {"reset_mask": mask, "a": 2}
    _, info = env.reset(options=options)
    assert options == {"reset_mask": mask, "a": 2}
    assert seen == [{"a": 1}, {"a": 1}, {"a": 2}]
    info["mine"] = 3
    info.pop("step")
    assert env.infos[0]["step"] == 0
    mask[:] = False
    for wrong in (3, {"reset_mask": np.array([True])}, {"reset_mask": [True]}, {"reset_mask": np.array([1, 0])}):
        with pytest.raises(SpecError, match=r"reset_mask|options: expected a mapping"):
            env.reset(options=wrong)


# Infos.


def plays(*scripts):
    return envoi.Lanes([Scripted(*script, Line(terminated=True)) for script in scripts])


line = st.builds(Line, st.just(0.0), st.booleans(), st.booleans(), discounts.filter(lambda d: np.ndim(d) == 0), infos)


@every_mode
@examples(100)
@given(st.lists(st.lists(line, min_size=1, max_size=3), min_size=2, max_size=3))
def test_infos_keep_their_types_lane_by_lane_and_through_third_party_wrapper(mode, script):
    direct, form = plays(*script), to_gymnasium_vector(plays(*script), autoreset_mode=mode)
    back = FromGymnasiumVector(Passing(form))
    wrapped = FromGymnasiumVector(to_gymnasium_vector(plays(*script), autoreset_mode=mode))
    n = direct.batch_size
    act, over = np.full(n, 5), np.zeros(n, bool)
    for env in (direct, back, wrapped):
        env.reset(seed=1)
    for _ in range(5):
        restart = over if mode is NEXT and over.any() else None
        expected = direct.step(act, restart)
        for env in (back, wrapped):
            step = env.step(act, restart)
            exactly(list(step.info), list(expected.info))
            exactly(step.discount, expected.discount)
            exactly(tuple(step[1:4]), tuple(expected[1:4]))
        over = expected.terminated | expected.truncated
        if mode is not SAME or not over.any():
            exactly(list(form.infos), list(expected.info))
        else:
            exactly(list(form.last.info), list(expected.info))
        exactly(list(form.last[:5]), list(expected[:5]))
        if mode is not NEXT and over.any():
            begun = direct.reset(mask=over)
            for env in (back, wrapped):
                exactly(list(env.reset(mask=over).info), list(begun.info))


def test_columns_pass_as_they_are():
    class Timed(Carts):
        def info(self, state):
            return {"angle": state.motion[..., 2], 4: np.arange(len(state.motion))}

    env = to_gymnasium_vector(envoi.TimeLimit(Timed(), 3), 3)
    _, info = env.reset(seed=0)
    assert info["angle"].dtype == np.float64
    assert info["_angle"].all()
    back = FromGymnasiumVector(Passing(env))
    back.reset(seed=0)
    for _ in range(3):
        step = back.step(np.ones(3, int))
    exactly(list(step.info), list(env.infos))
    exactly(step.info[1]["angle"], env.core.state.motion[1, 2])
    masked = env.reset(options={"reset_mask": np.array([True, False, False])})[1]
    assert masked["_angle"].tolist() == [True, False, False]


def test_third_party_infos_are_read_lane_by_lane():
    class Says(Written):
        said = {}

        def step(self, actions):
            return (*super().step(actions)[:4], self.said)

    core = from_gymnasium_vector(Says(sync([[9], [9]], NEXT)))
    core.reset(seed=0)
    ones = np.ones(2, bool)
    buffer = np.array([1, 2])
    for said, expected in (
        ({}, [{}, {}]),
        ({"a": buffer}, [{"a": 1}, {"a": 2}]),
        ({"a": buffer, "_a": np.array([True, False])}, [{"a": 1}, {}]),
        ({"s": 4, "l": ["x", "y"]}, [{"s": 4, "l": "x"}, {"s": 4, "l": "y"}]),
        ({"e": {"r": np.array([0.5, 1.5])}, "_e": np.array([False, True])}, [{}, {"e": {"r": 1.5}}]),
        ({"_own": buffer, 3: buffer, "_3": ones}, [{"_own": 1, 3: 1}, {"_own": 2, 3: 2}]),
    ):
        core.source.said = said
        held = copy.deepcopy(said)
        info = core.step(np.array([5, 5])).info
        assert list(info) == expected
        np.testing.assert_equal(said, held)
        buffer += 10  # what the source does with its arrays later
        assert list(info) == expected
        buffer -= 10
    rows = np.zeros((2, 3))
    core.source.said = {"rows": rows, "_rows": np.array([True, False])}
    info = core.step(np.array([5, 5])).info
    rows += 1
    assert info[0]["rows"].tolist() == [0, 0, 0]
    assert info[1] == {}
    core.source.said = {"discount": np.array([0.5, 0.0]), "_discount": np.array([True, False]), "a": buffer}
    step = core.step(np.array([5, 5]))
    exactly(step.discount, np.array([0.5, 1.0]))
    assert list(step.info) == [{"a": 1}, {"a": 2}]
    assert "discount" in core.source.said


# Spaces.


# Fewer than of other properties, because gymnasium copies generators by the dozen for what no array holds.
@pytest.mark.filterwarnings("ignore:.*Casting input x:UserWarning")  # gymnasium iterates over rows of scalars
@pytest.mark.parametrize("drawn", [numeric_specs, specs], ids=["arrays", "all"])
@examples(500)
@given(st.data(), st.integers(1, 3), st.integers(0, 2**31))
def test_batched_values_lie_in_the_batched_space_and_come_back(drawn, data, n, seed):
    spec, rng = data.draw(drawn), np.random.default_rng(seed)
    values = [envoi.sample(spec, rng) for _ in range(n)]
    batched, encode = stack(spec, values), batched_encoder(spec)
    said = batched if encode is None else encode(batched)
    assert batched_space(to_space(spec), n).contains(said)
    back = batched_decoder(spec, n)(said)
    for i, value in enumerate(values):
        envoi.validate(spec, lane(spec, back, i))
        np.testing.assert_equal(lane(spec, back, i), value)


@pytest.mark.parametrize(
    ("spec", "actions", "message"),
    [
        (Discrete(3), np.zeros(3, int), r"actions: expected shape \(2,\).*each of 2 lanes, got \(3,\)"),
        (Discrete(3), 1, r"actions: expected shape"),
        ({"a": Array((2,))}, {"a": np.zeros(2)}, r"actions\['a'\]: expected shape \(2, 2\)"),
        ({"a": Array((2,))}, {"b": np.zeros(2)}, r"actions: expected keys \['a'\]; missing \['a'\], too many \['b'\]"),
        ((Text(3), Discrete(2)), (("a",), [0, 0]), r"actions\[0\]: expected a tuple with one entry for each of 2"),
    ],
)
def test_actions_of_another_number_of_lanes_are_refused_by_leaf(spec, actions, message):
    env = to_gymnasium_vector(Shaped(Discrete(2), spec), 2)
    env.reset()
    with pytest.raises(SpecError, match=message):
        env.step(actions)


def test_validation_names_the_lane():
    env = to_gymnasium_vector(lanes_of([[3], [3]]), validate=True)
    env.reset()
    env.step([5, 6])  # a list or tuple will do
    env.reset()
    with pytest.raises(SpecError, match=r"action: expected 5 … 7, got 0.*step 1 in lane 1"):
        env.step(np.array([5, 0]))


def test_a_mode_that_lanes_do_not_support_is_refused_and_listed():
    limited = envoi.TimeLimit(from_gymnasium_vector(Passing(sync([[2]], SAME))), 3)
    with pytest.raises(LossyConversion, match="NEXT_STEP"):
        to_gymnasium_vector(limited)
    assert [loss.field for loss in losses(limited, "gymnasium_vector")] == ["restarts"]
    assert losses(from_gymnasium_vector(Passing(sync([[2]], SAME))), "gymnasium_vector") == []
    assert to_gymnasium_vector(limited, autoreset_mode="SameStep").metadata["autoreset_mode"] is SAME


# What may become lanes.


def test_a_core_environment_a_factory_and_a_foreign_one_become_lanes():
    env = Plays(2)
    env.reset(seed=1)
    form = to_gymnasium_vector(env, 3)
    assert form.num_envs == 3
    assert to_gymnasium_vector(env).num_envs == 1
    assert env not in form.core.envs
    made = []

    def factory():
        made.append(to_gymnasium(Plays(2)))
        return made[-1]

    form = to_gymnasium_vector(factory, 3)
    assert [env.core for env in made] == [env.unwrapped for env in form.core.envs]
    assert to_gymnasium_vector(Flock, 2).core.unwrapped.__class__ is Flock
    assert to_gymnasium_vector(gymnasium.make("CartPole-v1"), 2).num_envs == 2
    assert to_gymnasium_vector(lambda: envoi.batch(Plays(2), 4)).num_envs == 4
    for batched in (envoi.batch(Plays(2), 4), sync([[2]] * 4, NEXT), lambda: sync([[2]] * 4, NEXT)):
        assert to_gymnasium_vector(batched, 4).num_envs == 4
        with pytest.raises(SpecError, match=r"4.*got 3"):
            to_gymnasium_vector(batched, 3)
    with pytest.raises(SpecError, match="at least 1"):
        to_gymnasium_vector(env, 0)
    with pytest.raises(SpecError, match="expected a batch"):
        ToGymnasiumVector(env)
    with pytest.raises(envoi.UnknownName, match="NEXT_STEP or 'NextStep'"):
        to_gymnasium_vector(env, autoreset_mode="next")


# Aliasing.


def test_without_copying_the_sources_own_array_comes_through():
    script = [[3], [3]]
    for policy, shared in (("auto", False), (True, False), (False, True)):
        source = Passing(sync(script, NEXT, copy=False))
        core = from_gymnasium_vector(source, copy=policy)
        draw = core.reset(seed=0).observation["draw"]
        assert np.shares_memory(draw, source.unwrapped._observations["draw"]) is shared


def test_a_final_observation_is_not_shared():
    env = to_gymnasium_vector(envoi.TimeLimit(CartPole(), 1), 2, SAME)
    env.reset(seed=0)
    _, _, _, _, info = env.step(np.array([0, 0]))
    held = env.last.observation.copy()
    info["final_obs"][0][:] = 9
    np.testing.assert_equal(env.last.observation, held)


# Lifecycle.


def test_environments_of_different_modes_coexist():
    # gymnasium's own classes write their mode into metadata that the class shares; modes are still distinguished.
    sources = [sync([[1]], mode) for mode in MODES]
    assert [from_gymnasium_vector(source).mode for source in sources] == list(MODES)
    assert [from_gymnasium_vector(Passing(source)).mode for source in sources] == list(MODES)


def taxi():
    return gymnasium.make(TAXI, max_episode_steps=2)


def test_forgetting_a_form_closes_nothing():
    closed = []
    core = envoi.Lanes([Plays(2)])
    core.envs[0].close = lambda: closed.append(True)
    to_gymnasium_vector(core)
    gc.collect()
    assert not closed


@pytest.mark.usefixtures("other_processes")
def test_a_source_in_other_processes_has_no_snapshots():
    core = from_gymnasium_vector(AsyncVectorEnv([taxi] * 2))
    core.reset(seed=0)
    with pytest.raises(SnapshotUnsupported, match="cannot be copied"):
        core.snapshot()
    core.step(np.zeros(2, int))
    core.close()
    core.close()


# Rewards.


def test_a_rewarder_of_lanes_that_only_step_together_sees_final_observations():
    core = from_gymnasium_vector(Passing(sync([[1], [3]], SAME)))
    core.rewarder = lambda state, action, next_state: next_state["step"] - state["step"] + 10.0 * action
    core.reset(seed=0)
    assert core.step(np.array([5, 6])).reward.tolist() == [51, 61]


# Real environments and the ecosystem.


def acted(env, n, seed=0, steps=60):
    rng = np.random.default_rng(seed)
    actions = [[int(rng.integers(env.single_action_space.n)) for _ in range(n)] for _ in range(steps)]
    return [env.reset(seed=seed), *(env.step(np.array(row)) for row in actions)]


def made(name):
    if name.startswith("MiniGrid"):
        import minigrid  # noqa: F401
        from minigrid.wrappers import ImgObsWrapper

        return ImgObsWrapper(gymnasium.make(name, max_episode_steps=9))
    return gymnasium.make(name, max_episode_steps=9)


@pytest.mark.parametrize(("name", "mode"), [("MiniGrid-Empty-5x5-v0", NEXT), (TAXI, SAME)])
@pytest.mark.usefixtures("other_processes")
def test_environments_in_other_processes_live_as_they_do_alone(name, mode):
    def source():
        return AsyncVectorEnv([lambda: made(name)] * 2, autoreset_mode=mode)

    core, alone = from_gymnasium_vector(source()), source()
    expected = acted(alone, 2, steps=25)
    form = ToGymnasiumVector(core, mode)
    found = acted(form, 2, steps=25)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_equal(one[:-1], other[:-1])
        assert one[-1].keys() == other[-1].keys()
    form.close()
    form.close()
    alone.close()
    assert not core.source.processes[0].is_alive()


def test_the_wrappers_of_gymnasium_work_on_a_form():
    wrappers = gymnasium.wrappers.vector
    env = to_gymnasium_vector(envoi.TimeLimit(CartPole(), 7), 3)
    env = wrappers.NormalizeReward(wrappers.NormalizeObservation(wrappers.ClipReward(env, 0, 0.5)))
    env.reset(seed=0)
    for _ in range(30):
        env.step(env.action_space.sample())
    env = wrappers.DictInfoToList(to_gymnasium_vector(lanes_of([[2], [3]], Plain), autoreset_mode=SAME))
    assert [info["step"] for info in env.reset(seed=0)[1]] == [0, 0]
    for _ in range(6):
        *_, over, cut, said = env.step(np.array([5, 5]))
        assert [("final_obs" in info) for info in said] == (over | cut).tolist()
    recorded = wrappers.RecordEpisodeStatistics(to_gymnasium_vector(lanes_of([[2], [3]], Plain), autoreset_mode=SAME))
    back = from_gymnasium_vector(recorded)
    back.reset(seed=0)
    back.step(np.array([5, 5]))
    step = back.step(np.array([5, 5]))
    assert [sorted(info) for info in step.info] == [["array", "name", "step"]] * 2
    begun = back.reset(mask=np.array([True, False])).info
    assert sorted(begun[0]) == ["array", "episode", "name", "step"]


def seeded():
    """An environment with random numbers from its own generator."""
    return Returning(spaces.Box(0, 1, (1,), np.float64), lambda env: env.np_random.random(1))


@pytest.mark.parametrize("wrap", [lambda core: envoi.TimeLimit(core, 9), lambda core: core])
@pytest.mark.parametrize("kind", [SyncVectorEnv, lambda makes: Passing(SyncVectorEnv(makes))])
def test_the_seeds_of_the_lanes_are_those_that_gymnasium_tells(kind, wrap):
    makes = [seeded] * 3
    alone, source = kind(makes), kind(makes)
    form = to_gymnasium_vector(wrap(from_gymnasium_vector(source)), validate=True)
    first = form.np_random_seed
    assert isinstance(first, tuple)
    assert all(isinstance(seed, int) for seed in first)
    assert first == form.np_random_seed == source.np_random_seed
    for seed in (5, [3, 1, 2], None):
        assert alone.reset(seed=seed)[0].shape == form.reset(seed=seed)[0].shape
        assert form.np_random_seed == alone.np_random_seed == source.np_random_seed
    form.np_random = np.random.default_rng(0)
    assert form.np_random_seed == (-1, -1, -1)
