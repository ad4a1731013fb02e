"""A wrapper that is written once holds for one agent, for several, and for batches."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Breakable, Diary, Flock, Leaving, Story, Walk
from traces import exact

import envoi
import envoi.models
from envoi.integrations.check import check_env
from envoi.lane_values import lane, stack
from envoi.protocol.fast_steps import fast_step
from envoi.seeding import lane_seeds


class Mirrored(envoi.Lifted):
    """Everything changed, and nothing remembered."""

    def change(self, specs):
        return envoi.Change(
            observation_spec=envoi.Array((3,), "float64"),
            reward_spec=envoi.Array((), "float64", low=0),
            action=lambda action: -np.asarray(action),
            observation=lambda seen: np.concatenate(
                [-seen["position"], np.asarray(seen["time"], float)[..., None]], axis=-1
            ),
            reward=lambda reward: -reward,
        )


WRAPPINGS = {
    "no memory": [Mirrored],
    "a memory": [Diary],
    "lane by lane": [lambda env: Diary(env, by_lane=True)],
    "an end": [lambda env: Diary(env, tires=True)],
    "an end lane by lane": [lambda env: Diary(env, by_lane=True, tires=True)],
    "a limit": [lambda env: envoi.TimeLimit(env, 4)],
    "several": [lambda env: envoi.TimeLimit(env, 7), Diary, lambda env: envoi.ActionRepeat(env, 2), envoi.RunStats],
    "a history": [lambda env: envoi.History(env, 3, include_actions=True)],
    "one length": [lambda env: envoi.FixedLength(env, 6)],
    "a goal": [Diary, lambda env: envoi.FixedLength(env, 9), lambda env: envoi.History(env, 2)],
}


MODELS = {"story": Story, "flock": Flock, **{name: partial(envoi.models.make, name) for name in envoi.models.MODELS}}


def wrapped(env, name):
    for wrap in WRAPPINGS.get(name, ()):
        env = wrap(env)
    return env


def lanes_and_alone(n, name):
    """n lanes of a random walk in wrappers, or of a model, and each of them alone in the same."""
    make = MODELS.get(name, Walk)
    return wrapped(envoi.Lanes([make() for _ in range(n)]), name), [wrapped(make(), name) for _ in range(n)]


def same_lane(batch, step, index, one):
    """Returns True if a lane's step in a batch is the same as its step alone."""
    specs = (batch.observation_spec, batch.reward_spec, None, None, batch.discount_spec)
    for spec, values, own in zip(specs, step[:5], one[:5], strict=True):
        value = values[index] if spec is None else lane(spec, values, index)
        np.testing.assert_equal(value, own)
    assert step.info[index] == one.info


masks = st.lists(st.booleans(), min_size=3, max_size=3).map(np.array)


@pytest.mark.parametrize("name", [*WRAPPINGS, *MODELS])
@settings(max_examples=15)
@given(data=st.data())
def test_a_wrapped_batch_is_each_lane_alone(name, data):
    n = 3
    batch, alone = lanes_and_alone(n, name)
    seed = data.draw(st.integers(0, 2**32) | st.lists(st.integers(0, 99), min_size=n, max_size=n), "seed")
    first = batch.reset(seed=seed)
    over = np.zeros(n, bool)
    for index, (env, own_seed) in enumerate(zip(alone, lane_seeds(seed, n), strict=True)):
        own = env.reset(seed=own_seed)
        np.testing.assert_equal(lane(batch.observation_spec, first.observation, index), own.observation)
        assert first.info[index] == own.info
    for _ in range(data.draw(st.integers(1, 12), "steps")):
        kinds = data.draw(st.sampled_from([(), ("restart",), ("hold",), ("restart", "hold"), ("reset",)]), "kinds")
        action = stack(batch.action_spec, [alone[0].sample_action() for _ in range(n)])
        if kinds == ("reset",):
            begins = data.draw(masks, "reset") | over
            result = batch.reset(mask=begins)
            for index in np.flatnonzero(begins):
                own = alone[index].reset()
                np.testing.assert_equal(lane(batch.observation_spec, result.observation, index), own.observation)
                assert result.info[index] == own.info
            over[:] = False
            continue
        hold = data.draw(masks, "hold") if "hold" in kinds else np.zeros(n, bool)
        restart = (data.draw(masks, "restart") if "restart" in kinds else np.zeros(n, bool)) | over
        step = batch.step(action, restart & ~hold, hold)
        for index, env in enumerate(alone):
            if not (restart | hold)[index]:
                same_lane(batch, step, index, env.step(lane(batch.action_spec, action, index)))
                over[index] = step.terminated[index] | step.truncated[index]
                continue
            observation, info = (env.observation, {}) if hold[index] else env.reset()
            none, one = np.zeros(env.reward_spec.shape), np.ones(env.discount_spec.shape)
            same_lane(batch, step, index, envoi.Step(observation, none, False, False, one, info))
            over[index] &= hold[index]
        for index, env in enumerate(alone):
            np.testing.assert_equal(lane(batch.observation_spec, batch.observation, index), env.observation)


def test_only_the_lanes_that_are_chosen_act():
    env, second = envoi.batch(Flock(), 3), np.array([False, True, False])
    assert env.lanes_can_wait
    before = env.reset(seed=1).observation["position"]
    step = env.step(np.array([1, 1, 1]), hold=~second)
    assert (before != step.observation["position"]).any(-1).tolist() == second.tolist()
    assert step.reward[[0, 2]].tolist() == [0, 0]
    assert step.discount[[0, 2]].tolist() == [1, 1]
    assert [bool(info) for info in step.info] == second.tolist()


def test_lanes_that_do_not_act_may_get_any_action():
    for inner in (envoi.Lanes([envoi.models.Pendulum() for _ in range(2)]), envoi.batch(envoi.models.Pendulum(), 2)):
        env = envoi.History(envoi.ActionDiscretize(inner, 3), 2, include_actions=True)
        env.reset(seed=0)
        step = env.step(np.array([2, 99]), restart=np.array([False, True]))
        assert step.observation["action"].tolist() == [[0, 2], [0, 0]]
        step = env.step(np.array([-7, 1]), hold=~np.array([False, True]))
        assert step.observation["action"].tolist() == [[0, 2], [0, 1]]


def test_agents_that_are_lanes_share_a_context():
    contexts = {"short": {"rounds": 3}, "long": {"rounds": 5}}
    with pytest.raises(envoi.ContextError, match="share its context; apply Contextual to the MultiEnv"):
        envoi.Contextual(envoi.AgentLanes(envoi.models.RockPaperScissors()), contexts, hide_context=True)
    inside = envoi.Contextual(envoi.models.RockPaperScissors(), contexts, hide_context=True)
    infos = [envoi.AgentLanes(inside).reset().info for _ in range(2)]
    assert [[info["context_id"] for info in each] for each in infos] == [["short"] * 2, ["long"] * 2]


def test_a_step_without_hold_is_refused_where_lanes_wait():
    class Own(envoi.Lifted):
        def step(self, action, restart=None):
            return super().step(action, restart)

    for wrap in (envoi.ActionRepeat, envoi.FixedLength):
        wrap(Own(envoi.models.CartPole()), 2)
        with pytest.raises(envoi.SpecError, match=r"Own\.step has no parameter hold"):
            wrap(Own(envoi.batch(envoi.models.CartPole(), 2)), 2)


def test_lanes_that_act_together_cannot_wait():
    class Together(envoi.BatchEnv):
        observation_spec, action_spec = envoi.Discrete(2), envoi.Discrete(2)
        observation = state = None

    batch = Together(2)
    assert not envoi.TimeLimit(batch, 3).lanes_can_wait
    with pytest.raises(envoi.SpecError, match="none of them can pause"):
        envoi.TimeLimit(batch, 3).step(np.zeros(2), hold=np.array([True, False]))


# One of several.


# Several agents do not end each by itself.
TOGETHER = [name for name in WRAPPINGS if "an end" not in name]


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("seed", range(2))
def test_one_of_several_is_one(name, seed):
    one, several = wrapped(Walk(), name), wrapped(envoi.as_multi(Walk(), "me"), name)
    assert isinstance(several, envoi.MultiEnv)
    for what in ("observation_spec", "action_spec", "reward_spec", "discount_spec"):
        assert envoi.spec_equal(getattr(several, what), {"me": getattr(one, what)})
    assert several.reward_range == one.reward_range
    first, firsts = one.reset(seed=seed), several.reset(seed=seed)
    assert exact(firsts) == exact(envoi.MultiReset({"me": first.observation}, {"me": first.info}))
    for _ in range(60):
        action = one.sample_action()
        assert exact(several.sample_actions()) == exact({"me": action})
        step, steps = one.step(action), several.step({"me": action})
        assert exact(list(steps)) == exact([{"me": value} for value in step])
        assert exact(several.observation("me")) == exact(one.observation)
        if step.terminated or step.truncated:
            assert several.agents == ()
            first, firsts = one.reset(), several.reset()
            assert exact(firsts.observations) == exact({"me": first.observation})


KINDS = {
    "one": Walk,
    "lanes": lambda: envoi.Lanes([Walk(), Walk()]),
    "a model of lanes": lambda: envoi.batch(Flock(), 2),
    "several": lambda: envoi.as_multi(Walk()),
}


def test_a_wrapper_is_of_its_class_whatever_is_inside():
    class Ours(envoi.TimeLimit):
        pass

    for env in (Walk(), envoi.batch(Flock(), 2), envoi.models.Nim()):
        limited, ours = envoi.TimeLimit(env, max_episode_steps=3), Ours(env, 3)
        assert isinstance(limited, envoi.TimeLimit)
        assert not isinstance(limited, Ours)
        assert isinstance(ours, Ours)
        assert isinstance(ours, envoi.TimeLimit)
        assert isinstance(limited, envoi.MultiEnv) == isinstance(env, envoi.MultiEnv)
        assert isinstance(limited, envoi.Env) != isinstance(env, envoi.MultiEnv)
        assert repr(limited) == f"TimeLimit({env!r}, max_episode_steps=3)"
        assert repr(ours) == f"Ours({env!r}, 3)"
        assert limited.unwrapped is env.unwrapped
        other = copy.deepcopy(env)
        again = limited.over(other)
        assert again.env is other
        assert again.max_episode_steps == 3
        assert type(again) is type(limited)


def test_a_wrapper_knows_its_kind_before_it_is_made():
    class Early(envoi.TimeLimit):
        def __init__(self, env):
            self.kinds = isinstance(self, envoi.Env), isinstance(self, envoi.MultiEnv)
            super().__init__(env, 3)

    assert Early(Walk()).kinds == Early(env=envoi.batch(Flock(), 2)).kinds == (True, False)
    assert Early(envoi.models.Nim()).kinds == (False, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrapper_may_have_its_own_step(kind):
    class Own(Mirrored):
        def step(self, action, restart=None):
            return called.append(1) or super().step(action, restart)

    plain, own, called = Mirrored(KINDS[kind]()), Own(KINDS[kind]()), []
    assert exact(plain.reset(seed=1)) == exact(own.reset(seed=1))
    action = plain.sample_actions() if kind == "several" else plain.sample_action()
    assert exact(plain.step(action)) == exact(own.step(action))
    assert called == [1]


class LengthAndDiary(envoi.FixedLength, Diary):
    """Two wrappers in one, of which one has code for each kind."""

    def __init__(self, env):
        Diary.__init__(self, env)

    by_lane = tires = False
    fix_length = 6
    change = Diary.change


def is_over(env, step):
    return not env.agents if isinstance(env, envoi.MultiEnv) else np.all(step.terminated | step.truncated)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrapper_is_one_class_for_each_kind(kind):
    env, both = Diary(KINDS[kind]()), LengthAndDiary(KINDS[kind]())
    assert type(env) is type(pickle.loads(pickle.dumps(env))) is Diary
    assert isinstance(env, envoi.MultiWrapper if kind == "several" else envoi.Wrapper)
    assert hasattr(env, "agents") == (kind == "several") != hasattr(env, "batch_size")
    both.reset(seed=0)
    for _ in range(6):
        step = both.step(both.sample_actions() if kind == "several" else both.sample_action())
    assert is_over(both, step)


def test_what_cannot_be_wrapped_or_stepped_is_refused():
    for wrap in (lambda env: envoi.TimeLimit(env, 3), envoi.History, envoi.ActionClip, envoi.RunStats):
        with pytest.raises(envoi.SpecError, match=r"expected a core environment, got .*from_env"):
            wrap(object())
    with pytest.raises(TypeError, match="abstract"):
        envoi.GoalReplay(Walk())
    flock, pole, nim = Flock(), envoi.compiled(envoi.models.CartPole()), envoi.models.Nim()
    for env in (Walk(), flock, pole, nim, envoi.Wrapper(Walk()), envoi.TimeLimit(Walk(), 3), envoi.Validated(nim)):
        for name in ("restart", "hold"):
            with pytest.raises(envoi.SpecError, match=f"{name}: expected None, .* no lanes; .*or make lanes by"):
                env.step({}, **{name: np.array([True])})


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"reward": 3}, "change: reward: expected a function, got 3"),
        ({"reward_spec": float}, "change: reward_spec: expected specs of envoi, got <class 'float'>"),
        ({"remember": lambda memory, action, seen, reward: memory}, "expected begin beside remember"),
        (None, "change: expected an envoi.Change, got None"),
    ],
)
@pytest.mark.parametrize("make", [Walk, envoi.models.Nim])
def test_a_wrong_change_says_so(make, parts, message):
    class Wrong(envoi.Lifted):
        def change(self, specs):
            return None if parts is None else envoi.Change(**parts)

    with pytest.raises(envoi.SpecError, match=message):
        Wrong(make())


def test_misspelt_names_are_answered_with_near_ones():
    near_names = {
        "HistoryWrapper": "History",
        "Discret": "Discrete",
        "CARLEnv": "envoi.Contextual",
        "Box": "envoi.Array",
        "load": "envoi.adapters.load",
        "make": "envoi.adapters.load",
        "to_gymnasium": "envoi.adapters.to_gymnasium",
        "from_dm_env": "envoi.adapters.from_dm_env",
        "configure": "envoi.integrations.rllib.configure",
    }
    for name, near in near_names.items():
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'; did you mean .*'{near}'"):
            getattr(envoi, name)
    assert not hasattr(envoi, "nothing_like_it_at_all_anywhere")


class Penalty(envoi.Rewarder):
    reward_range = (-2.0, 0.5)

    def __call__(self, state, action, next_state):
        return np.clip(-np.abs(next_state.position[..., 0]), -2.0, 0.5)


class Doubled(envoi.Lifted):
    """Rewards twice as large, with the bounds that follow."""

    def change(self, specs):
        inner = specs.reward
        low, high = (None if bound is None else 2 * bound for bound in (inner.low, inner.high))
        spec = envoi.Array(inner.shape, inner.dtype, low, high, inner.name)
        return envoi.Change(reward_spec=spec, reward=lambda reward: 2 * reward)


def test_specs_of_all_layers_follow_a_rewarder():
    for env in (Walk(), envoi.batch(Flock(), 2)):
        plain, wrapped_env = copy.deepcopy(env), Doubled(Doubled(envoi.TimeLimit(env, 100)))
        assert wrapped_env.reward_range == (-np.inf, 0)
        wrapped_env.rewarder = plain.rewarder = Penalty()
        assert wrapped_env.rewarder == env.rewarder == Penalty()
        assert plain.reward_range == (-2, 0.5)
        assert wrapped_env.reward_range == (-8, 2)
        assert envoi.spec_equal(wrapped_env.reward_spec, envoi.Array((), "float64", -8, 2, "reward"))
        for each in (plain, wrapped_env):
            each.reset(seed=4)
        action = plain.sample_action()
        np.testing.assert_array_equal(wrapped_env.step(action).reward, 4 * plain.step(action).reward)


@pytest.mark.parametrize("game", ["nim", "rps", "pursuit"])
def test_a_time_limit_cuts_all_agents_off_together_and_each_sees_the_end(game):
    plain = envoi.models.make(game)
    env = envoi.TimeLimit(envoi.models.make(game), 3)
    infos = env.reset(seed=0).infos
    plain.reset(seed=0)
    for number in (1, 2, 3):
        actions = env.sample_actions(infos)
        step, inner = env.step(actions), plain.step(actions)
        infos = step.infos
        assert step.terminated == inner.terminated
        assert step.truncated == dict.fromkeys(env.possible_agents, number == 3)
    assert plain.agents
    assert env.agents == ()
    assert env.turn is None
    assert exact(step.observations) == exact({agent: plain.observation(agent) for agent in env.possible_agents})
    with pytest.raises(envoi.EpisodeError, match="ended"):
        env.step(actions)
    for agent in env.possible_agents:
        assert exact(env.observation(agent)) == exact(step.observations[agent])
    env.reset()
    assert env.agents == plain.agents


def test_a_waiting_agent_remembers_when_it_sees_again():
    env = envoi.History(envoi.models.Nim(), 3, include_actions=True)
    env.reset(options={"sticks": 10})
    for agent in ("first", "second"):
        assert env.observation(agent)["observation"].tolist() == [0, 0, 10]
    for agent, action, other, sticks, actions in (
        ("first", 0, "second", [0, 0, 9], [0, 0, 0]),
        ("second", 1, "first", [0, 10, 7], [0, 0, 0]),
        ("first", 2, "second", [0, 9, 4], [0, 0, 1]),
        ("second", 0, "first", [10, 7, 3], [0, 0, 2]),
    ):
        step = env.step({agent: action})
        assert list(step.observations) == [other]
        assert step.observations[other]["observation"].tolist() == sticks
        assert step.observations[other]["action"].tolist() == actions
        # The waiting one would see this now; having looked it remembers no more than before.
        for _ in range(2):
            assert env.observation(agent)["observation"].tolist()[-1] == sticks[-1]


def test_who_has_ended_sees_the_end():
    env = envoi.History(Leaving(), 3)
    env.reset()
    env.step({"first": 0, "second": 0})
    last = env.step({"first": 0, "second": 0}).observations["first"]
    assert last.tolist() == [0, 1, 2]
    env.step({"second": 0})
    assert env.observation("first").tolist() == [0, 1, 2]
    assert env.observation("second").tolist() == [1, 2, 3]
    env.step({"second": 0})
    assert env.observation("first").tolist() == [0, 1, 2]


class Paid(envoi.Lifted):
    """Shows all that an agent was paid, and tells it."""

    def change(self, specs):
        return envoi.Change(
            observation_spec=envoi.Array((), "float64"),
            begin=lambda seen: 0.0,
            remember=lambda total, action, seen, reward: total + reward,
            observation=lambda seen, total: np.float64(total),
            reward=lambda reward, total: reward + 100 * total,
            info=lambda total: {"total": total},
        )


class Wages(Leaving):
    """One acts at a time, and everybody is paid at each step."""

    def turn(self, state):
        return (self.possible_agents[state % 2],)

    def reward(self, state, actions, next_state):
        return dict.fromkeys(self.possible_agents, 1.0)

    def terminal(self, state):
        return state >= 4


def test_a_waiting_agent_is_paid():
    env = Paid(Wages())
    first = env.reset()
    assert first.observations == {"first": 0}
    assert first.infos["second"]["total"] == 0  # who has seen nothing yet remembers nothing yet
    seen = []
    for acting in ("first", "second", "first", "second"):
        step = env.step({acting: 0})
        seen.append({agent: float(total) for agent, total in step.observations.items()})
    assert seen == [{"second": 0}, {"first": 2}, {"second": 2}, {"first": 4, "second": 3}]
    assert step.rewards == {"first": 401.0, "second": 301.0}
    assert step.infos["first"]["total"] == 4


def test_wrong_agents_and_ends_of_one_are_refused():
    with pytest.raises(envoi.SpecError, match="expected a shared memory"):
        Diary(envoi.as_multi(Walk()), tires=True)
    env = envoi.OneHotAction(envoi.models.Nim())
    with pytest.raises(envoi.EpisodeError, match="not begun"):
        env.step({"first": np.array([1, 0, 0])})
    env.reset(seed=0)
    with pytest.raises(envoi.EpisodeError, match="missing \\['first'\\], not to act now \\['second'\\]"):
        env.step({"second": np.array([1, 0, 0])})
    assert env.turn == ("first",)


FORMS = {
    "limit of a walk": lambda: envoi.TimeLimit(Walk(), 9),
    "a diary": lambda: envoi.TimeLimit(Diary(Walk()), 9),
    "limit of nim": lambda: envoi.TimeLimit(envoi.models.Nim(), 3),
    "limit of rps": lambda: envoi.TimeLimit(envoi.models.RockPaperScissors(), 4),
    "history of nim": lambda: envoi.History(envoi.models.Nim(), 2),
    "history of catch": lambda: envoi.History(envoi.models.Catch(), 3, include_actions=True),
    "repeated": lambda: envoi.ActionRepeat(envoi.models.Catch(), 2),
    "fixed": lambda: envoi.FixedLength(envoi.models.Catch(), 14),
    "fixed in turns": lambda: envoi.FixedLength(envoi.models.Nim(), 12),
    "repeated together": lambda: envoi.ActionRepeat(envoi.models.RockPaperScissors(), 2),
    "stats": lambda: envoi.RunStats(envoi.models.Catch()),
    "discretized": lambda: envoi.TimeLimit(envoi.ActionDiscretize(envoi.ActionClip(envoi.models.Pendulum()), 5), 9),
    "one-hot": lambda: envoi.OneHotAction(envoi.models.Catch()),
    "extra": lambda: envoi.ExtraDisabledActions(envoi.models.Nim(), 2),
    "offset": lambda: envoi.ActionOffset(envoi.TimeLimit(Walk(), 9)),
    "filter": lambda: envoi.ObservationFilter(envoi.models.CartPole(), [0, -1]),
    "history of pursuit": lambda: envoi.History(envoi.TimeLimit(envoi.models.Pursuit(), 9), 2, include_actions=True),
}


@pytest.mark.parametrize("name", FORMS)
def test_wrapped_environments_pass_all_suites(name):
    check_env(FORMS[name]).raise_if_failed()


@pytest.mark.parametrize("make", [envoi.Wrapper, lambda env: envoi.TimeLimit(env, 5), envoi.Validated])
def test_the_environment_inside_is_not_replaced(make):
    env = make(Walk())
    env.env = env.env  # the same
    with pytest.raises(AttributeError, match=r"env: \w+ keeps the one that it was made with; make a new wrapper"):
        env.env = Walk()


class Fragile(Breakable, envoi.Lifted):
    """Remembers all, and fails in the function that is named."""

    def change(self, specs):
        def part(name, function):
            return lambda *values: self.may_break(name) or function(*values)

        functions = {
            "action": lambda action: action,
            "remember": lambda memory, action, seen, reward: memory + 1,
            "note": lambda memory, info: memory + 10,
            "observation": lambda seen, memory: seen,
            "reward": lambda reward, memory: reward + memory,
            "info": lambda memory: {"memory": memory},
        }
        return envoi.Change(begin=lambda seen: 0, **{name: part(name, made) for name, made in functions.items()})


@pytest.mark.parametrize("broken", ["action", "remember", "note", "observation", "reward", "info"])
def test_a_failed_step_of_several_agents_changes_nothing(broken):
    env, plain = (envoi.TimeLimit(Fragile(envoi.History(Wages(), 2)), 9) for _ in range(2))
    for each in (env, plain):
        each.reset(seed=0)
    env.step({"first": 1})
    plain.step({"first": 1})
    while plain.agents:
        actions = dict.fromkeys(plain.acting, 1)
        env.env.broken = broken
        with pytest.raises(ZeroDivisionError):
            env.step(actions)
        env.env.broken = None
        assert (env.agents, env.turn) == (plain.agents, plain.turn)
        assert exact(env.step(actions)) == exact(plain.step(actions))
        for agent in env.possible_agents:
            assert exact(env.observation(agent)) == exact(plain.observation(agent))


@pytest.mark.parametrize("by_lane", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_infos_that_are_no_mappings_are_refused(kind, by_lane):
    class Mute(envoi.Lifted):
        def change(self, specs):
            return envoi.Change(begin=lambda seen: 0, info=lambda memory: "no word", by_lane=by_lane)

    where = r"\['\w+'\]" if kind == "several" else " in lane 0" if by_lane and "lanes" in kind else ""
    with pytest.raises(envoi.SpecError, match=f"^Mute: info{where}: expected a mapping from names, got 'no word'"):
        Mute(KINDS[kind]()).reset()


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrapper_made_within_an_episode_begins_there(kind):
    inside = KINDS[kind]()
    inside.reset(seed=0)
    env = envoi.TimeLimit(envoi.History(Diary(inside), 2), 2)
    for number in (1, 2):
        step = env.step(env.sample_actions() if kind == "several" else env.sample_action())
        assert is_over(env, step) == (number == 2)
    with pytest.raises(envoi.EpisodeError, match="not begun"):
        envoi.TimeLimit(env := KINDS[kind](), 2).step({} if kind == "several" else env.sample_action())


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_written_before_the_episode_begins_there(kind):
    inside = KINDS[kind](), KINDS[kind]()
    envs = [envoi.History(Diary(one), 2) for one in inside]
    step = fast_step(envs[0])
    with pytest.raises(envoi.EpisodeError, match="not begun"):
        step(dict.fromkeys(inside[0].possible_agents, 1) if kind == "several" else inside[0].sample_action())
    for one in inside:
        one.reset(seed=0)
    actions = envs[1].sample_actions() if kind == "several" else envs[1].sample_action()
    values, plain = step(actions), envs[1].step(actions)
    for place in (0, 1, 5):
        assert exact(values[place]) == exact(plain[place])


def test_a_first_reset_of_some_lanes_begins_the_others():
    inside = KINDS["lanes"]()
    inside.reset(seed=0)
    env, mask = envoi.History(inside, 2), np.arange(inside.batch_size) == 0
    seen = env.reset(mask=mask).observation
    assert exact(seen) == exact(env.observation) == exact(envoi.History(inside, 2).observation)


@pytest.mark.parametrize("undo", [lambda env: env.restore(env.snapshot()), lambda env: env.hold_episode()()])
def test_a_wrapper_put_back_before_its_first_reset_begins_within(undo):
    env = envoi.History(envoi.models.CartPole(), 2)
    undo(env)
    seen = env.env.reset(seed=0).observation
    assert env.step(1).observation[0].tolist() == seen.tolist()
