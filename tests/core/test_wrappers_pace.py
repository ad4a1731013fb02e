"""How the steps of an agent go with those inside, and what is counted of them."""

import cProfile
import pstats

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Brittle, Flock, Leaving, Steps, Sums, Walk
from traces import exact

import envoi
from envoi import EpisodeError, Terminated
from envoi.models import Catch, Nim, Pendulum, RockPaperScissors
from envoi.protocol.multi_env import COMMON, MASK
from envoi.wrappers.episode_ends import PADDING


class Scripted(Steps):
    """Is paid as written, and ends with the last reward: in an end state, or cut off."""

    action_spec = envoi.Discrete(9)

    def __init__(self, rewards=(2.0, 3.0, 5.0, 7.0), cut=False, discounts=None, infos=None, reward_spec=None):
        self.rewards, self.cut, self.discounts, self.infos = rewards, cut, discounts, infos
        if reward_spec is not None:
            self.reward_spec = reward_spec
        self.told = []

    def transition(self, state, action, rng):
        self.told.append(int(action))
        return state + 1

    def reward(self, state, action, next_state):
        return self.rewards[state]

    def terminal(self, state):
        return not self.cut and state >= len(self.rewards)

    def truncated(self, state):
        return self.cut and state >= len(self.rewards)

    def discount(self, state):
        return None if self.discounts is None or not state else self.discounts[state - 1]

    def info(self, state):
        return dict(self.infos[state]) if self.infos else {}


def played(env, *actions):
    env.reset(seed=0)
    return [env.step(action)[:5] for action in actions]


def same(values, expected):
    for one, other in zip(values, expected, strict=True):
        assert [float(value) for value in one] == [float(value) for value in other]


def test_rewards_of_a_repeated_action_are_added_until_the_end():
    env = envoi.ActionRepeat(Scripted(), 3)
    same(played(env, 4, 5), [(3, 10, False, False, 1), (4, 7, True, False, 0)])
    assert env.env.told == [4, 4, 4, 5]


def test_discounts_of_a_repeated_action_are_multiplied():
    env = envoi.ActionRepeat(Scripted(discounts=(0.5, 0.9, 0.5, 0.8), cut=True), 2)
    same(played(env, 0, 0), [(2, 5, False, False, 0.45), (4, 12, False, True, 0.4)])


def test_infos_of_a_repeated_action_are_merged_but_for_the_mask_of_a_moment_that_is_gone():
    infos = [{}, {"goal": True, "at": 1, MASK: [1, 0]}, {"at": 2}, {"at": 3, MASK: [0, 1]}, {}]
    env = envoi.ActionRepeat(Scripted(infos=infos), 2)
    env.reset()
    assert env.step(0).info == {"goal": True, "at": 2}
    assert env.step(0).info == {"at": 3}


def test_what_several_rewards_make_together_lies_in_the_spec():
    spec = envoi.Array((2,), "float32", [-1, 0.1], [np.inf, 0.7], "pay")
    env = envoi.ActionRepeat(Scripted(reward_spec=spec), 3)
    third = np.float32(0.7)
    expected = envoi.Array((2,), "float32", [-3, 0.1], [np.inf, third + third + third], "pay")
    assert envoi.spec_equal(env.reward_spec, expected)
    assert env.reward_range == (-3, np.inf)
    few = envoi.ActionRepeat(Scripted(reward_spec=envoi.Discrete(4, -3)), 2)
    assert envoi.spec_equal(few.reward_spec, envoi.Array((), "int64", -6, 0))
    with pytest.raises(envoi.SpecError, match="fit int8"):
        envoi.ActionRepeat(Scripted(reward_spec=envoi.Array((), "int8", 0, 100)), 2)
    plain = envoi.ActionRepeat(Scripted(), 3)
    assert envoi.spec_equal(plain.reward_spec, Scripted().reward_spec)
    assert envoi.spec_equal(plain.discount_spec, Scripted().discount_spec)


@given(st.lists(st.floats(0, 0.1), min_size=1, max_size=9), st.integers(2, 9))
def test_rounding_does_not_lead_out_of_the_spec(rewards, times):
    env = envoi.ActionRepeat(Scripted(rewards=rewards, reward_spec=envoi.Array((), "float64", 0, 0.1)), times)
    for _, reward, *_ in played(env, *range(-(-len(rewards) // times))):
        env.reward_spec.validate(np.float64(reward))


class Joint(Leaving):
    """Everybody acts at first; then one leaves, then the others take turns, then one more joins and all act."""

    possible_agents = ("a", "b", "c", "d")
    observation_spec = dict.fromkeys(possible_agents, envoi.Discrete(99))
    action_spec = dict.fromkeys(possible_agents, envoi.Discrete(9))

    def reward(self, state, actions, next_state):
        return {agent: float(10**index) for index, agent in enumerate(self.possible_agents)}

    def live(self, state):
        return [a for a in self.possible_agents if (a != "c" or state < 3) and (a != "d" or state >= 6)]

    def terminal(self, state):
        return ["c"] if state == 3 else state >= 12

    def turn(self, state):
        return None if state < 4 or state >= 7 else ("a",) if state < 6 else ("b",)

    def discount(self, state):
        return {"b": 0.5}

    def info(self, state):
        return {"a": {"state": state}, COMMON: {f"s{state}": 1}}


def test_several_repeat_while_the_same_act_and_no_agent_ends():
    env = envoi.ActionRepeat(Joint(), 4)
    env.reset()
    step = env.step(dict.fromkeys("abc", 0))  # c leaves at 3
    assert env.state == 3
    assert step.rewards == {"a": 3, "b": 30, "c": 300}
    assert step.discounts == {"a": 1, "b": 0.125, "c": 0}
    assert step.terminated == {"a": False, "b": False, "c": True}
    assert step.infos["a"] == {"state": 3}
    assert step.infos[COMMON] == {"s1": 1, "s2": 1, "s3": 1}
    step = env.step(dict.fromkeys("ab", 0))  # the turn passes to a alone
    assert env.state == 4
    step = env.step({"a": 0})  # and to b, when d joins
    assert env.state == 6
    assert step.rewards == {"a": 2, "b": 20, "d": 1000}
    assert set(step.observations) == {"b"}
    step = env.step({"b": 0})  # and to all
    assert env.state == 7
    step = env.step(dict.fromkeys("abd", 0))
    assert env.state == 11
    assert step.rewards == {"a": 4, "b": 40, "d": 4000}


@pytest.mark.parametrize("number", [0, -1, 2.5, "5", None, True])
def test_a_number_of_steps_is_an_integer(number):
    for wrap, least in ((envoi.ActionRepeat, 2), (envoi.FixedLength, 1), (envoi.TimeLimit, 1), (envoi.History, 1)):
        with pytest.raises(envoi.SpecError, match=f"expected an integer of at least {least}, got"):
            wrap(envoi.models.Catch(), number)


def test_what_cannot_be_repeated_says_why():
    together = envoi.AgentLanes(envoi.models.RockPaperScissors())
    for wrap in (envoi.ActionRepeat, envoi.FixedLength):
        with pytest.raises(envoi.SpecError, match="lanes that can wait for each other"):
            wrap(together, 3)


@pytest.mark.parametrize("cut", [False, True])
def test_a_shorter_episode_is_padded_and_says_at_its_last_step_how_it_ended(cut):
    env = envoi.FixedLength(Scripted((2.0, 3.0), cut=cut), 4)
    same(
        played(env, 1, 2, 3, 4),
        [(1, 2, False, False, 1), (2, 3, False, False, float(cut)), (2, 0, False, False, 0), (2, 0, not cut, cut, 0)],
    )
    assert env.env.told == [1, 2]
    assert env.observation == 2
    with pytest.raises(envoi.EpisodeError, match="ended"):
        env.step(0)


def test_an_episode_of_just_that_length_keeps_its_end():
    same(played(envoi.FixedLength(Scripted((2.0,)), 1), 0), [(1, 2, True, False, 0)])
    same(played(envoi.FixedLength(Scripted((2.0,), cut=True), 1), 0), [(1, 2, False, True, 1)])
    both = envoi.FixedLength(envoi.TimeLimit(Scripted((2.0,)), 1), 2)
    same(played(both, 0, 0), [(1, 2, False, False, 0), (1, 0, True, True, 0)])


def test_padding_says_so_and_lies_in_the_specs():
    inner = Scripted((-2.0,), reward_spec=envoi.Array((), "float64", -5, -1))
    inner.discount_spec = envoi.Array((), "float64", 0.5, 1)
    env = envoi.FixedLength(inner, 2)
    assert envoi.spec_equal(env.reward_spec, envoi.Array((), "float64", -5, 0))
    assert envoi.spec_equal(env.discount_spec, envoi.Array((), "float64", 0, 1))
    env.reset()
    assert env.step(0).info == {}
    assert env.step(0).info == {PADDING: True}


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=6), st.booleans(), st.integers(1, 9))
def test_every_episode_has_that_length_and_the_return_that_it_had(rewards, cut, length):
    env = envoi.FixedLength(Scripted(rewards, cut=cut), length)
    for _ in range(2):
        env.reset()
        total, factor, steps = 0.0, 1.0, 0
        while True:
            step = env.step(0)
            total, factor, steps = total + factor * step.reward, factor * step.discount, steps + 1
            if step.terminated or step.truncated:
                break
        assert steps == length
        assert total == sum(rewards[:length])
        assert step.terminated == (not cut and len(rewards) <= length)


@pytest.mark.parametrize("model", [Walk, Flock])
def test_a_refused_step_of_padded_lanes_restarts_none(model):
    env, other = (envoi.FixedLength(envoi.batch(model(), 3, compiled=False), 7) for _ in range(2))
    assert exact(env.reset(seed=3)) == exact(other.reset(seed=3))
    rng, padded, over = np.random.default_rng(0), 0, np.zeros(3, bool)
    for _ in range(200):
        some = rng.random(3) < 0.2
        with pytest.raises((envoi.SpecError, envoi.EpisodeError)):
            env.step(np.zeros(2, int), some & [True, True, False])
        assert exact(env.observation) == exact(other.observation)
        restart, actions = some | over, rng.integers(-1, 2, 3)
        step = env.step(actions, restart)
        assert exact(step) == exact(other.step(actions, restart))
        over = step.terminated | step.truncated
        padded += restart.any() and any(PADDING in info for info in step.info)
    assert padded > 5


def test_agents_are_padded_each_by_itself_and_end_together():
    env = envoi.FixedLength(Joint(), 14)
    env.reset()
    infos, told = None, []
    for _ in range(14):
        assert env.agents
        acting = env.acting
        step = env.step(dict.fromkeys(acting, 0))
        told.append(("".join(acting), "".join(step.rewards), "".join(step.observations), dict(step.rewards)))
        assert set(step.observations) == set(env.acting) or not env.agents
        infos = step.infos
    assert [acting for acting, *_ in told] == [*["abc"] * 4, "a", "a", "b", *["abcd"] * 7]
    assert [agents for _, agents, *_ in told] == ["abc"] * 5 + ["abcd"] * 9
    assert told[2][3] == {"a": 1, "b": 10, "c": 100}
    assert told[3][3] == {"a": 1, "b": 10, "c": 0}
    assert told[-1][3] == dict.fromkeys("abcd", 0)
    assert step.terminated == dict.fromkeys("abcd", True)
    assert step.truncated == dict.fromkeys("abcd", False)
    assert step.observations == {"a": 12, "b": 12, "c": 3, "d": 12}
    assert all(infos[agent][PADDING] for agent in "abcd")
    assert env.agents == ()
    with pytest.raises(envoi.EpisodeError, match="ended"):
        env.step(dict.fromkeys("abcd", 0))
    env.reset()
    assert env.agents == ("a", "b", "c")


def test_agents_that_are_cut_off_see_the_end_also_when_they_wait():
    env = envoi.FixedLength(envoi.models.Nim(), 2)
    env.reset(options={"sticks": 9})
    env.step({"first": 0})
    step = env.step({"second": 0})
    assert step.observations == {"first": 7, "second": 7}
    assert step.truncated == {"first": True, "second": True}
    assert step.terminated == {"first": False, "second": False}


def test_steps_and_episodes_are_counted():
    env = envoi.RunStats(Scripted((1.0, 1.0)))
    for _ in range(2):
        played(env, 0, 0)
    env.reset()
    env.step(0)
    assert (env.episodes, env.resets, env.total_steps, env.episode_steps) == (2, 3, 5, 1)
    held = env.snapshot()
    env.step(0)
    assert (env.episodes, env.episode_steps) == (3, 2)
    env.restore(held)
    assert (env.episodes, env.total_steps, env.episode_steps) == (3, 6, 1)
    env = envoi.RunStats(envoi.models.Nim())  # whose agents' steps count once
    env.step(env.sample_actions(env.reset(options={"sticks": 1}).infos))
    assert (env.episodes, env.resets, env.total_steps, env.episode_steps) == (1, 1, 1, 1)


def test_all_lanes_are_counted():
    env = envoi.RunStats(envoi.Lanes([Scripted((1.0,) * n) for n in (1, 2, 3)]))
    env.reset()
    actions = np.zeros(3, int)
    env.step(actions)
    assert (env.episodes, env.resets, env.total_steps, env.episode_steps.tolist()) == (1, 3, 3, [1, 1, 1])
    env.step(actions, restart=np.array([True, False, False]))
    assert (env.episodes, env.resets, env.total_steps, env.episode_steps.tolist()) == (2, 4, 5, [0, 2, 2])
    env.step(actions, hold=~np.array([False, False, True]))
    assert (env.episodes, env.resets, env.total_steps, env.episode_steps.tolist()) == (3, 4, 6, [0, 2, 3])
    env.reset(mask=np.array([False, True, True]))
    assert (env.resets, env.episode_steps.tolist()) == (6, [0, 0, 0])
    assert {type(total) for total in (env.episodes, env.resets, env.total_steps)} == {int}  # as JSON has


@pytest.mark.parametrize("make", [Walk, lambda: envoi.batch(Walk(), 2)])
def test_what_was_taken_back_is_not_counted(make):
    env = envoi.RunStats(envoi.ActionRepeat(make(), 2))
    outer = Brittle(envoi.FixedLength(env, 9))
    outer.reset(seed=0)
    outer.step(outer.sample_action())
    held = env.resets, env.episodes, env.total_steps
    outer.broken = "observation"
    for call in (outer.reset, lambda: outer.step(outer.sample_action())):
        with pytest.raises(ZeroDivisionError):
            call()
        assert (env.resets, env.episodes, env.total_steps) == held


@pytest.mark.parametrize("make", [Walk, lambda: envoi.batch(Flock(), 2), lambda: envoi.as_multi(Walk())])
def test_who_watches_changes_nothing(make):
    plain, profiles = make(), []
    env = envoi.RunStats(envoi.PerformanceProfiler(make(), profiles.append, 4))
    assert exact(env.reset(seed=2)) == exact(plain.reset(seed=2))
    for _ in range(9):
        action = plain.sample_actions() if isinstance(plain, envoi.MultiEnv) else plain.sample_action()
        step, own = env.step(action), plain.step(action)
        assert exact(step) == exact(own)
        over = not plain.agents if isinstance(plain, envoi.MultiEnv) else own.terminated | own.truncated
        if np.any(over):
            arguments = {"mask": over} if np.ndim(over) else {}
            assert exact(env.reset(**arguments)) == exact(plain.reset(**arguments))
    assert len(profiles) == 2
    assert env.total_steps == 9 * (getattr(env, "batch_size", None) or 1)


def test_a_profile_is_of_what_is_inside_every_so_many_steps():
    profiles = []
    env = envoi.PerformanceProfiler(envoi.TimeLimit(Walk(), 3), profiles.append, 2)
    played(env, 0, 0)
    played(env, 0)
    (profile,) = profiles
    assert isinstance(profile, cProfile.Profile)
    calls = {name: count for (_, _, name), (count, *_) in pstats.Stats(profile).stats.items()}
    assert calls["transition"] == 2
    assert calls["initial"] == 1
    env.step(0)
    calls = {name: count for (_, _, name), (count, *_) in pstats.Stats(profiles[1]).stats.items()}
    assert calls["transition"] == 2


def fast(state, action, next_state):
    return abs(getattr(next_state, "speed", next_state)) > 1.5


def late(state, action, next_state):
    return next_state.row >= 4


def test_an_episode_ends_where_the_termination_says_so():
    env = Terminated(Catch(), late)
    for seed in range(2):
        env.reset(seed=seed)
        steps = [env.step(env.sample_action()) for _ in range(4)]
        assert [step.terminated for step in steps] == [False, False, False, True]
        assert [step.discount for step in steps] == [1, 1, 1, 0]
        with pytest.raises(EpisodeError, match="has ended"):
            env.step(env.sample_action())


@pytest.mark.parametrize(("model", "action"), [(Sums, np.ones(5)), (Pendulum, np.full((5, 1), 2.0, np.float32))])
def test_lanes_end_each_by_itself_also_where_others_pause(model, action):
    env = Terminated(envoi.batch(model(), 5), fast)
    env.reset(seed=1)
    over, seen = np.zeros(5, bool), 0
    for turn in range(60):
        restart = over & (turn % 3 == 0)
        hold = ~restart & (over | (np.arange(5) % 2 == turn % 2))
        step = env.step(action, restart, hold)
        ended = ~(restart | hold) & (np.abs(np.asarray(env.observation).reshape(5, -1)[:, -1]) > 1.5)
        assert step.terminated.tolist() == ended.tolist()
        assert step.discount.tolist() == (~ended).astype(float).tolist()
        over, seen = (over & ~restart) | ended, seen + ended.sum()
        if over.any():
            with pytest.raises(EpisodeError, match=rf"in lanes \[{int(np.flatnonzero(over)[0])}"):
                env.step(action)
    assert seen > 5


@pytest.mark.parametrize("make", [Nim, RockPaperScissors])
def test_several_agents_end_together(make):
    env = Terminated(make(), lambda state, actions, next_state: True)
    for _ in range(2):
        observations, _ = env.reset(seed=0)
        step = env.step(env.sample_actions())
        assert step.terminated == dict.fromkeys(env.possible_agents, True)
        assert set(step.observations) == set(env.possible_agents)
        assert set(step.discounts.values()) == {0.0}
        assert env.agents == ()
        with pytest.raises(EpisodeError):
            env.step({})
        assert observations


def test_terminations_compose_and_use_the_seeded_stream_without_touching_the_dynamics():
    def sometimes(state, action, next_state, *, rng):
        return rng.random() < 0.2

    def run(env, seed):
        env.reset(seed=seed)
        found = []
        while not found or not found[-1][1]:
            step = env.step(env.sample_action())
            found.append((step.observation["position"].tolist(), step.terminated or step.truncated))
        return found

    env = Terminated(Walk(), envoi.FunctionTermination(sometimes))
    runs = [run(env, seed) for seed in (1, 1, 2, 3, 4, 5)]
    assert runs[0] == runs[1]
    assert len({len(one) for one in runs}) > 1
    plain = run(Walk(), 1)
    assert [seen for seen, _ in plain][: len(runs[0])] == [seen for seen, _ in runs[0]]
