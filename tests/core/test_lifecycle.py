"""An episode is begun, lived through and ended, and continued from a snapshot; all else is refused in plain words."""

import copy
import pickle
from functools import partial

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import WALKS, Carts, Flock, Leaving, Steps, Walk
from traces import Player, exact, trace

import envoi
from envoi import Contextual, EpisodeError, History, SnapshotUnsupported, TimeLimit, Validated
from envoi.models import MODELS, Catch, make
from envoi.protocol.env import ENDED, NOT_RESET

ENVS = {**WALKS, "padded lanes": lambda: envoi.FixedLength(envoi.batch(Walk(), 3), 7)}
SINGLE = {name: make for name, make in ENVS.items() if make().batch_size is None}
BATCHES = {name: make for name, make in ENVS.items() if name not in SINGLE}


def over_makers(envs):
    return pytest.mark.parametrize("make", envs.values(), ids=envs)


def finish(env):
    env.reset(seed=0)
    while True:
        step = env.step(env.sample_action())
        if step.terminated or step.truncated:
            return step


@over_makers(ENVS)
def test_before_the_first_reset_there_is_nothing(make):
    env = make()
    with pytest.raises(EpisodeError, match=NOT_RESET.replace("(", r"\(").replace(")", r"\)")):
        env.step(env.sample_action())
    for look in ("state", "observation"):
        with pytest.raises(EpisodeError, match="the episode has not begun"):
            getattr(env, look)


@over_makers(BATCHES)
def test_a_batch_begins_all_lanes_before_it_begins_some(make):
    env = make()
    with pytest.raises(EpisodeError, match="has not begun"):
        env.reset(mask=np.array([True, False, False]))
    first = make().reset(seed=3, mask=np.ones(3, bool))
    assert exact(first) == exact(make().reset(seed=3))


@over_makers(SINGLE)
def test_after_the_end_the_last_state_stays(make):
    env = make()
    last = finish(env)
    before = exact((env.state, env.observation))
    for _ in range(2):
        with pytest.raises(EpisodeError, match=ENDED.replace("(", r"\(").replace(")", r"\)")):
            env.step(env.sample_action())
    assert exact((env.state, env.observation)) == before
    assert exact(env.observation) == exact(last.observation)
    env.reset()
    env.step(env.sample_action())


@over_makers(BATCHES)
def test_a_step_names_the_lanes_that_have_ended(make):
    env = make()
    env.reset(seed=0)
    over = np.zeros(3, bool)
    while not over.any():
        step = env.step(env.sample_action())
        over = step.terminated | step.truncated
    before = exact((env.state, env.observation))
    with pytest.raises(EpisodeError, match=f"in lanes \\{np.flatnonzero(over).tolist()}, the episode has ended"[:-1]):
        env.step(env.sample_action())
    assert exact((env.state, env.observation)) == before
    env.step(env.sample_action(), restart=over)


FUNCTIONS = ("transition", "observe", "reward", "terminal", "truncated", "discount", "info")


def fragile(kind):
    """Returns a model of which the function named by `broken` is interrupted."""

    def breaking(name):
        def function(self, *arguments):
            if self.broken == name:
                raise KeyboardInterrupt(name)
            return getattr(kind, name)(self, *arguments)

        return function

    return type("Fragile", (kind,), {"broken": None, **{name: breaking(name) for name in ("initial", *FUNCTIONS)}})()


FRAGILE = {
    "model": lambda: fragile(Walk),
    "batch model": lambda: fragile(Flock),
    "limited": lambda: TimeLimit(fragile(Walk), 9),
    "validated": lambda: Validated(fragile(Walk)),
    "lanes": lambda: envoi.batch(fragile(Walk), 3, compiled=False),
    "model batch": lambda: envoi.batch(fragile(Flock), 3),
    "limited batch": lambda: TimeLimit(envoi.batch(fragile(Flock), 3), 9),
}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        *(("step", name) for name in FUNCTIONS),
        *((call, name) for call in ("reset", "restart") for name in ("initial", "observe", "info")),
    ],
)
@over_makers(FRAGILE)
def test_an_error_of_the_author_changes_nothing(make, call, name):
    env, twin = make(), make()
    action = np.ones(env.batch_size or (), np.int64)[()]
    for one in (env, twin):
        one.reset(seed=0)
        one.step(action)
    before = exact((env.state, env.observation))
    model = getattr(env.unwrapped, "envs", [env.unwrapped])[-1]  # the last lane, when others have stepped
    model.broken = name
    restart = None if env.batch_size is None else partial(env.step, action, np.array([True, False, True]))
    with pytest.raises(KeyboardInterrupt, match=name):
        {"step": partial(env.step, action), "reset": env.reset, "restart": restart or env.reset}[call]()
    assert exact((env.state, env.observation)) == before
    model.broken = None
    env.step(action)
    if isinstance(env.unwrapped, envoi.Lanes):  # which give random numbers back
        twin.step(action)
        assert trace(env, 9) == trace(twin, 9)


@over_makers(ENVS)
def test_with_closes_also_after_an_error(make):
    class Closing(envoi.Wrapper):
        def close(self):
            closed.append(super().close())

    env, closed = Closing(make()), []
    with env as same:
        assert same is env
        env.reset(seed=0)
    assert len(closed) == 1
    env.close()
    with pytest.raises(KeyError), env:
        raise KeyError
    assert len(closed) == 3


@over_makers(ENVS)
def test_an_observation_once_given_never_changes(make):
    env, kept = make(), []
    player = Player(env, seed=0)
    for _ in range(60):
        kept.append((env.observation, exact(env.observation), env.state, exact(env.state)))
        ((_, step),) = player.play(1)
        assert step[1][0] == exact(env.observation) == exact(env.observation)
    env.reset(seed=1)
    for observation, was, state, had in kept:
        assert exact(observation) == was
        assert exact(state) == had


@pytest.mark.parametrize(("limit", "ends"), [(3, (False, True, 1)), (9, (True, True, 0)), (10, (True, False, 0))])
def test_a_limit_and_a_termination_are_both_seen(limit, ends):
    last = finish(TimeLimit(Catch(), limit))  # which terminates at its ninth step
    assert (last.terminated, last.truncated, last.discount) == ends


class Stray(Walk):
    """A walk that leaves one of its specs at its third step."""

    which = "observation"

    def observe(self, state, rng):
        seen = super().observe(state, rng)
        stray = self.which == "observation" and state.time == 3
        return {**seen, "position": np.array([0.0, np.nan])} if stray else seen

    def reward(self, state, action, next_state):
        return 5.0 if self.which == "reward" and next_state.time == 3 else -0.5

    def discount(self, state):
        return 2.0 if self.which == "discount" and state.time == 3 else None

    def terminal(self, state):
        return False


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("observation", r"^observation\['position'\]\[1\]: expected a number, got nan \(at step 3 of episode 2\)"),
        ("reward", r"^reward: 5.0 is above its upper bound 0.0 \(at step 3 of episode 2\)"),
        ("discount", r"^discount: 2.0 is above its upper bound 1.0 \(at step 3 of episode 2\)"),
        ("action", r"^action: expected -1 … 1, got 2 \(at step 3 of episode 2\)"),
    ],
)
def test_a_stray_value_has_leaf_step_and_episode(which, message):
    model = Stray()
    env = Validated(model)
    env.reset()
    env.reset()
    model.which = which
    for _ in range(2):
        env.step(0)
    with pytest.raises(envoi.SpecError, match=message):
        env.step(2 if which == "action" else 0)


def test_in_a_batch_the_lane_is_named():
    env = Validated(envoi.batch(Walk(), 3))
    env.reset(seed=0)
    with pytest.raises(envoi.SpecError, match=r"action: expected -1 … 1, got 2 \(at step 1 in lane 1\)"):
        env.step(np.array([0, 2, 0]))
    env.step(np.array([0, 2, 0]), restart=np.array([False, True, False]))
    with pytest.raises(envoi.SpecError, match="action: expected a leading axis of 3 lanes"):
        env.step(np.zeros(4, int))


class Speaking(Walk):
    """A walk that says a word too."""

    observation_spec = {**Walk.observation_spec, "word": envoi.Text(5)}

    def observe(self, state, rng):
        return {**super().observe(state, rng), "word": "hello"}


def test_a_batch_has_one_text_a_lane():
    env = Validated(envoi.batch(Speaking(), 2))
    assert env.reset(seed=0).observation["word"] == ("hello", "hello")
    env = Validated(envoi.batch(Flock(), 2))
    env.observation_spec = Speaking.observation_spec
    with pytest.raises(envoi.SpecError, match=r"observation: expected keys .* missing \['word'\]"):
        env.reset(seed=0)


@over_makers(ENVS)
def test_validation_changes_nothing(make):
    assert trace(Validated(make()), 50, seed=5) == trace(make(), 50, seed=5)


def test_options_reach_the_initial_state_unchanged():
    options = {"at": [2.0, -2.0], "drift": 0.5}
    was = copy.deepcopy(options)
    for env in (Walk(), TimeLimit(Walk(), 3), Validated(Walk())):
        plain = env.reset(seed=0) and env.state
        env.reset(seed=0, options=options)
        assert np.allclose(env.state.position - plain.position, [2, -2])
        assert (env.state.drift, plain.drift) == (0.5, 0.25)
        assert options == was
        env.reset()  # for options are for one episode
        assert env.state.drift == 0.25


KEPT = {**ENVS, **{name: partial(make, name) for name in MODELS}}


@over_makers(KEPT)
@settings(max_examples=6)
@given(st.integers(0, 30), st.integers(1, 40), st.integers(0, 25))
def test_after_a_restore_everything_follows_again(make, before, after, away):
    env, other = make(), make()
    player = Player(env, seed=0)
    player.play(before)
    over, snapshot = player.over, env.snapshot()
    was = pickle.dumps(snapshot)
    then = player.play(after, over=over)
    for _ in range(2):  # the same snapshot any number of times
        Player(env, seed=99).play(away)
        env.restore(snapshot)
        assert player.play(after, over=over) == then
    assert pickle.dumps(snapshot) == was
    other.restore(pickle.loads(was))
    assert player.play(after, env=other, over=over) == then


@over_makers(KEPT)
def test_a_snapshot_before_the_first_reset_has_streams(make):
    env = make()
    snapshot = env.snapshot()
    first = trace(env, 20)
    env.restore(snapshot)
    with pytest.raises(envoi.EpisodeError):
        _ = env.state
    assert trace(env, 20) == first


@over_makers(KEPT)
def test_a_snapshot_of_anything_else_is_refused(make):
    env = make()
    env.reset(seed=0)
    before = exact(env.state)
    strangers = [make_other() for name, make_other in KEPT.items() if KEPT[name] is not make]
    for stranger in [*strangers, envoi.batch(Walk(), 2), envoi.batch(Flock(), 2), envoi.batch(Catch(), 3)]:
        stranger.reset(seed=1)
        with pytest.raises(SnapshotUnsupported, match="restore: expected a snapshot of"):
            env.restore(stranger.snapshot())
        assert exact(env.state) == before


def test_a_snapshot_of_older_versions_says_so():
    env = make("catch")
    old = env.snapshot()
    vars(old).pop("fixed")  # as 0.2.0 pickled them
    with pytest.raises(SnapshotUnsupported, match=r"is from envoi 0\.2\.0 or older; restore it with that version"):
        env.restore(pickle.loads(pickle.dumps(old)))


class Delayed(TimeLimit):
    fixed = ("max_episode_steps",)


def of_contexts(**lengths):
    return Contextual(make("pendulum"), {name: {"l": length} for name, length in lengths.items()})


UNLIKE = [  # what keeps something, what keeps something else, and what differs
    (History(Walk(), 3), History(Walk(), 5), "observation_spec"),
    (TimeLimit(History(Leaving(), 3), 9), TimeLimit(History(Leaving(), 5), 9), r"observation_spec\['first'\]"),
    (envoi.batch(History(Walk(), 3), 2), envoi.batch(History(Walk(), 5), 2), "History with observation_spec"),
    (of_contexts(a=1.0, b=0.5), of_contexts(a=1.0, b=2.0), r"contexts\['b'\]\['l'\] 2\.0 .* with 0\.5"),
    (envoi.batch(of_contexts(a=1.0), 2), envoi.batch(of_contexts(b=1.0), 2), r"contexts \['b'\] .* with \['a'\]"),
    (Delayed(Walk(), 1), Delayed(Walk(), 2), "Delayed with max_episode_steps 2 .* got one with 1"),
    (envoi.Lanes([Flock(), Flock()]), envoi.Lanes([Flock()]), "batch_size 1 .* got one with 2"),
]


@pytest.mark.parametrize(("env", "other", "differs"), UNLIKE)
def test_a_snapshot_of_other_memories_is_refused(env, other, differs):
    for one in (env, other):
        one.reset(seed=0)
    snapshot, before = pickle.loads(pickle.dumps(env.snapshot())), exact(other.observation)
    with pytest.raises(SnapshotUnsupported, match=differs):
        other.restore(snapshot)
    assert exact(other.observation) == before
    env.restore(snapshot)


@pytest.mark.parametrize("make", [make for name, make in KEPT.items() if name not in ("catch", "maze")])
def test_a_snapshot_holds_the_context(make):
    env = TimeLimit(make(), 9)
    name = next(iter(env.context))
    env.context = {name: 0.5}
    env.reset(seed=0)
    snapshot = env.snapshot()
    env.context = {}
    assert not np.all(np.equal(env.context[name], 0.5))
    env.env.observation_spec = None  # which a context may change
    env.restore(snapshot)
    assert np.all(np.equal(env.context[name], 0.5))


def test_environments_without_snapshots_say_so():
    class Opaque(envoi.Env):
        reset = step = state = observation = None

    for call in (Opaque().snapshot, lambda: Opaque().restore(None)):
        with pytest.raises(SnapshotUnsupported, match="Opaque does not support snapshots"):
            call()


# pickle finds classes by name
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: cloudpickle.loads(cloudpickle.dumps(env))])
def test_environments_of_local_classes_can_be_copied(duplicate):
    class Local(Walk):
        def __init__(self, step):
            self.step_size = step

    env = TimeLimit(Local(2), max_episode_steps=3)
    twin = duplicate(env)
    assert twin.unwrapped.step_size == 2
    assert trace(twin, 20, seed=0) == trace(env, 20, seed=0)


@given(st.integers(0, 2**32), st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=6))
def test_a_plan_is_what_the_episode_does(seed, actions):
    env = Walk()
    env.reset(seed=seed)
    state, rng = env.state, env.streams.copy().dynamics
    for action in actions:
        otherwise = env.transition(state, action - 1, env.streams.copy().dynamics)
        following = env.transition(state, action, rng)
        assert np.allclose(following.position - otherwise.position, 0.3)  # by the same noise
        reward = env.reward(state, action, following)
        step = env.step(action)
        assert exact(env.state) == exact(following)
        assert (step.reward, step.terminated) == (reward, env.terminal(following))
        state = following
        if step.terminated:
            return


@pytest.mark.parametrize("model", [Carts, *(kind for kind, *_ in MODELS.values())])
def test_an_environment_put_into_a_state_continues_from_there(model):
    env, other = model(), model()
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.sample_action())
    other.reset(seed=2)
    other.state = env.state
    assert exact((other.state, other.observation)) == exact((env.state, env.observation))
    action = env.sample_action()
    assert exact(env.step(action)[:4]) == exact(other.step(action)[:4])


def test_an_environment_put_into_an_end_state_has_ended():
    env = envoi.models.Catch()
    env.reset(seed=0)
    env.state = env.state._replace(row=9)
    with pytest.raises(envoi.EpisodeError, match="has ended"):
        env.step(1)
    batch = envoi.batch(Carts(), 3)
    batch.reset(seed=0)
    motion = np.zeros((3, 4))
    motion[1, 2] = 1.0
    batch.state = batch.state._replace(motion=motion)
    with pytest.raises(envoi.EpisodeError, match=r"lanes \[1\]"):
        batch.step(np.array([1, 1, 1]))


class Writes(Steps):
    """Its function `at_fault` writes into the state that it is given."""

    observation_spec = envoi.Array((1,), "float64")

    def __init__(self, at_fault):
        self.at_fault = at_fault

    def touched(self, state, function):
        if function == self.at_fault:
            state["places"][0] += 1
        return state["places"]

    def initial(self, rng, context):
        return {"places": np.zeros(2)}

    def transition(self, state, action, rng):
        return {"places": self.touched(state, "transition").copy()}

    def observe(self, state, rng):
        return self.touched(state, "observe")[:1].copy()

    def reward(self, state, action, next_state):
        return float(self.touched(next_state, "reward")[0])

    def terminal(self, state):
        return self.touched(state, "terminal")[1] > 0


@pytest.mark.parametrize(
    "wrap", [lambda env: env, lambda env: envoi.TimeLimit(env, 2), lambda env: envoi.batch(env, 2)]
)
@pytest.mark.parametrize("function", ["transition", "observe", "reward", "terminal"])
def test_a_state_changed_in_place_is_found(function, wrap):
    env = envoi.Validated(wrap(Writes(function)))
    leaf = "next_state" if function == "reward" else "state"
    with pytest.raises(envoi.SpecError, match=rf"Writes\.{function}: changes {leaf}\['places'\] in place"):  # noqa: PT012
        env.reset(seed=0)
        env.step(env.sample_action())


@pytest.mark.parametrize("name", MODELS)
def test_bundled_models_leave_their_states(name):
    env = envoi.Validated(envoi.models.make(name))
    env.reset(seed=0)
    env.step(env.sample_action())
    pytest.importorskip("numba")
    lanes = envoi.Lanes([envoi.compiled(envoi.models.make(name)) for _ in range(2)])
    for batch in (envoi.batch(env, 2), envoi.Validated(lanes)):  # what watches is not compiled
        batch.reset(seed=0)
        batch.step(batch.sample_action())
