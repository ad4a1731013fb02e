"""An episode is begun, lived through and ended; whatever else is asked of an environment is refused in plain words."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Flock, Walk
from traces import Player, exact, trace

import envoi
from envoi import EpisodeError, TimeLimit, Validated
from envoi.models import Catch, make
from envoi.protocol.env import ENDED, NOT_RESET

ENVS = {
    "model": Walk,
    "batch model": Flock,
    "limited": lambda: TimeLimit(Walk(), 7),
    "validated": lambda: Validated(TimeLimit(Flock(), 7)),
    "lanes": lambda: envoi.batch(Walk, 3),
    "model batch": lambda: envoi.batch(Flock(), 3),
    "limited lanes": lambda: TimeLimit(envoi.batch(Walk(), 3), 7),
    "validated batch": lambda: envoi.batch(Validated(TimeLimit(Flock(), 7)), 3),
}
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
def test_before_the_first_reset_there_is_nothing_to_act_on_or_look_at(make):
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
def test_after_the_end_a_step_is_refused_and_the_last_state_stays(make):
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
def test_a_step_of_a_batch_names_the_lanes_that_have_ended_and_moves_none(make):
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


class Fragile(Walk):
    """A walk of which the function named by `broken` raises an error."""

    broken = None

    def _maybe(self, name):
        if self.broken == name:
            raise ZeroDivisionError(name)

    def initial(self, rng, context):
        self._maybe("initial")
        return super().initial(rng, context)

    def transition(self, state, action, rng):
        self._maybe("transition")
        return super().transition(state, action, rng)

    def observe(self, state, rng):
        self._maybe("observe")
        return super().observe(state, rng)

    def reward(self, state, action, next_state):
        self._maybe("reward")
        return super().reward(state, action, next_state)

    def terminal(self, state):
        self._maybe("terminal")
        return super().terminal(state)

    def truncated(self, state):
        self._maybe("truncated")
        return super().truncated(state)

    def discount(self, state):
        self._maybe("discount")
        return super().discount(state)

    def info(self, state):
        self._maybe("info")
        return super().info(state)


class FragileFlock(Flock):
    """The same over a lane axis."""

    broken = None


for _name in ("initial", "transition", "observe", "reward", "terminal", "truncated", "discount", "info"):

    def _breaking(self, *args, _name=_name):
        if self.broken == _name:
            raise ZeroDivisionError(_name)
        return getattr(Flock, _name)(self, *args)

    setattr(FragileFlock, _name, _breaking)

STEPS = ("transition", "observe", "reward", "terminal", "truncated", "discount", "info")
FRAGILE = {
    "model": Fragile,
    "batch model": FragileFlock,
    "limited": lambda: TimeLimit(Fragile(), 9),
    "validated": lambda: Validated(Fragile()),
    "model batch": lambda: envoi.batch(FragileFlock(), 3),
    "limited batch": lambda: TimeLimit(envoi.batch(FragileFlock(), 3), 9),
}


@pytest.mark.parametrize("name", STEPS)
@over_makers(FRAGILE)
def test_an_error_in_a_function_of_the_author_during_a_step_leaves_the_episode_where_it_was(make, name):
    env = make()
    env.reset(seed=0)
    before = exact((env.state, env.observation, getattr(env, "_elapsed", 0), getattr(env, "_step", 0)))
    env.unwrapped.broken = name
    with pytest.raises(ZeroDivisionError, match=name):
        env.step(env.sample_action())
    assert exact((env.state, env.observation, getattr(env, "_elapsed", 0), getattr(env, "_step", 0))) == before
    env.unwrapped.broken = None
    env.step(env.sample_action())


@pytest.mark.parametrize("name", ["initial", "observe", "info"])
@over_makers(FRAGILE)
def test_an_error_in_a_function_of_the_author_during_a_reset_leaves_the_episode_where_it_was(make, name):
    env = make()
    env.reset(seed=0)
    env.step(env.sample_action())
    before = exact((env.state, env.observation))
    env.unwrapped.broken = name
    with pytest.raises(ZeroDivisionError, match=name):
        env.reset()
    assert exact((env.state, env.observation)) == before
    env.unwrapped.broken = None
    env.step(env.sample_action())


@over_makers(ENVS)
def test_close_may_be_called_again_and_with_closes(make):
    class Closing(envoi.Wrapper):
        closed = 0

        def close(self):
            self.closed += 1
            super().close()

    env = Closing(make())
    with env as same:
        assert same is env
        env.reset(seed=0)
    assert env.closed == 1
    env.close()
    env.close()


@over_makers(ENVS)
def test_with_closes_after_an_error_and_lets_it_through(make):
    class Closing(envoi.Wrapper):
        closed = 0

        def close(self):
            self.closed += 1

    env = Closing(make())

    def fails():
        with env:
            env.reset(seed=0)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert env.closed == 1


@over_makers(ENVS)
def test_an_info_belongs_to_its_receiver(make):
    env, quiet = make(), make()
    for clear, run in ((True, env), (False, quiet)):
        infos = []
        for seed in range(5):
            first = run.reset(seed=seed).info
            second = run.step(run.sample_action()).info
            for info in (first, second):
                infos.append(exact(info))
                for one in ([info] if run.batch_size is None else info) if clear else ():
                    one.clear()
        if clear:
            cleared = infos
    assert cleared == infos
    assert all("time" in str(info) for info in infos)


@over_makers(ENVS)
def test_the_observation_is_the_last_one_given_however_often_one_looks(make):
    env = make()
    for seed in range(20):
        for call in (lambda seed=seed: env.reset(seed=seed), lambda: env.step(env.sample_action())):
            given_ = call()
            assert exact(env.observation) == exact(env.observation) == exact(given_.observation)


@over_makers(ENVS)
def test_an_observation_once_given_never_changes(make):
    env = make()
    player = Player(env, seed=0)
    kept = [(env.observation, exact(env.observation), env.state, exact(env.state))]
    for _ in range(60):
        player.play(1)
        kept.append((env.observation, exact(env.observation), env.state, exact(env.state)))
    env.reset(seed=1)
    for observation, was, state, had in kept:
        assert exact(observation) == was
        assert exact(state) == had


@over_makers(BATCHES)
def test_the_observations_of_a_batch_survive_resets_of_some_lanes(make):
    env = make()
    seen = env.reset(seed=0).observation
    was = exact(seen)
    mask = np.array([True, False, True])
    now = env.reset(mask=mask).observation
    assert exact(seen) == was
    assert exact(now["position"][1]) == exact(seen["position"][1])
    assert (now["position"][mask] != seen["position"][mask]).all()


@given(st.integers(1, 12))
def test_a_time_limit_truncates_at_exactly_that_step(limit):
    env = TimeLimit(envoi.batch(Walk(), 4), limit)
    for seed in range(3):
        env.reset(seed=seed)
        elapsed, over = np.zeros(4, int), np.zeros(4, bool)
        for _ in range(30):
            step = env.step(env.sample_action(), restart=over)
            elapsed = np.where(over, 0, elapsed + 1)
            over = step.terminated | step.truncated
            assert (step.truncated == (elapsed >= limit)).all()


@pytest.mark.parametrize("limit", [9, 10])
def test_a_termination_at_the_limit_is_both(limit):
    env = TimeLimit(Catch(), limit)
    last = finish(env)
    assert (last.terminated, last.truncated) == (limit >= 9, limit <= 9)
    assert last.discount == 0


def test_a_truncation_keeps_the_discount():
    last = finish(TimeLimit(Catch(), 3))
    assert (last.terminated, last.truncated, last.discount) == (False, True, 1)


@pytest.mark.parametrize("limit", [0, -1, 2.5, "5", None, True])
def test_a_limit_that_is_no_integer_of_at_least_one_is_refused(limit):
    with pytest.raises(envoi.SpecError, match="expected an integer of at least 1, got"):
        TimeLimit(Catch(), limit)


def test_a_bundled_model_has_the_limit_that_is_asked_for():
    assert make("cartpole").max_episode_steps == 500
    assert make("cartpole", 3).max_episode_steps == 3
    with pytest.raises(envoi.SpecError, match="at least 1, got 0"):
        make("cartpole", 0)


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
def test_a_value_that_leaves_its_spec_is_reported_with_leaf_step_and_episode(which, message):
    model = Stray()
    env = Validated(model)
    env.reset()
    env.reset()
    model.which = which
    for _ in range(2):
        env.step(0)
    with pytest.raises(envoi.SpecError, match=message):
        env.step(2 if which == "action" else 0)


def test_in_a_batch_the_lane_is_named_and_the_number_of_lanes_checked():
    env = Validated(envoi.batch(Walk(), 3))
    env.reset(seed=0)
    with pytest.raises(envoi.SpecError, match=r"action: expected -1 … 1, got 2 \(at step 1 in lane 1\)"):
        env.step(np.array([0, 2, 0]))
    env.step(np.array([0, 2, 0]), restart=np.array([False, True, False]))
    with pytest.raises(envoi.SpecError, match="action: expected a leading axis of 3 lanes"):
        env.step(np.zeros(4, int))


class Speaking(Walk):
    """A walk that says a word too, or forgets to."""

    observation_spec = {**Walk.observation_spec, "word": envoi.Text(5)}

    def observe(self, state, rng):
        return {**super().observe(state, rng), "word": "hello"}


def test_in_a_batch_text_is_one_string_a_lane():
    env = Validated(envoi.batch(Speaking(), 2))
    assert env.reset(seed=0).observation["word"] == ("hello", "hello")


def test_in_a_batch_a_missing_leaf_is_named():
    env = Validated(envoi.batch(Flock(), 2))
    env.observation_spec = Speaking.observation_spec
    with pytest.raises(envoi.SpecError, match=r"observation: expected keys .* missing \['word'\]"):
        env.reset(seed=0)


@over_makers(ENVS)
def test_validation_changes_nothing(make):
    assert trace(Validated(make()), 50, seed=5) == trace(make(), 50, seed=5)


def test_options_reach_the_initial_state_and_the_callers_dicts_stay_as_they_were():
    options = {"at": [2.0, -2.0], "drift": 0.5}
    was = copy.deepcopy(options)
    for env in (Walk(), TimeLimit(Walk(), 3), Validated(Walk())):
        plain = env.reset(seed=0) and env.state
        env.reset(seed=0, options=options)
        assert np.allclose(env.state.position - plain.position, [2, -2])
        assert (env.state.drift, plain.drift) == (0.5, 0.25)
        assert options == was
    lanes = envoi.batch(Walk(), 2)
    lanes.reset(options=options)
    assert [state.drift for state in lanes.state] == [0.5, 0.5]
    assert options == was


def test_options_speak_of_one_episode():
    for env in (Walk(), Flock()):
        env.reset(options={"drift": 0.5})
        env.reset()
        assert env.state.drift == 0.25


def test_options_of_a_reset_of_some_lanes_reach_these_lanes():
    some = np.array([True, False, True])
    for lanes in (envoi.batch(Walk(), 3, compiled=False), envoi.batch(Flock(), 3, compiled=False)):
        lanes.reset(seed=0)
        lanes.reset(mask=some, options={"drift": 0.5})
        drifts = lanes.state.drift if isinstance(lanes, envoi.ModelBatch) else [one.drift for one in lanes.state]
        assert np.array_equal(drifts, [0.5, 0.25, 0.5])


@pytest.mark.parametrize("model", [Walk, Flock])
@pytest.mark.parametrize("action", [np.zeros(1, int), np.zeros(4, int), [0, 0]])
def test_actions_of_another_number_than_that_of_the_lanes_are_refused(model, action):
    lanes = envoi.batch(model(), 3, compiled=False)
    lanes.reset(seed=0)
    before = exact(lanes.observation)
    with pytest.raises(envoi.SpecError, match="action: expected one for each of 3 lanes, got"):
        lanes.step(action)
    assert exact(lanes.observation) == before
