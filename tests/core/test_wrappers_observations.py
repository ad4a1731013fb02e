"""Wrappers of observations: parts of them, earlier ones, and goals."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Echo, Steps, Walk
from strategies import array_leaves, generators, nested

import envoi
import envoi.models
from envoi.adapters import to_gymnasium
from envoi.integrations.check import check_env
from envoi.lane_values import lane

Drawn = partial(Echo, action_spec=envoi.Discrete(3, start=4))


def seen(env, *actions):
    return [env.reset().observation, *(env.step(action).observation for action in actions)]


def test_filter_keeps_the_chosen_elements_in_their_order_with_their_bounds():
    spec = envoi.Array((4,), "float32", [0, -1, -2, -3], [0, 1, 2, 3], "state")
    env = envoi.ObservationFilter(Drawn(spec), [2, 0, -1, 2])
    assert envoi.spec_equal(env.observation_spec, envoi.Array((4,), "float32", [-2, 0, -3, -2], [2, 0, 3, 2], "state"))
    inner, step = env.env, (env.reset(seed=0), env.step(4))[1]
    np.testing.assert_array_equal(step.observation, inner.observation[[2, 0, 3, 2]])
    for other, kept in (
        (envoi.MultiDiscrete([2, 3, 4], [0, 1, 2]), envoi.MultiDiscrete([4, 2], [2, 0])),
        (envoi.MultiBinary(3), envoi.MultiBinary(2)),
    ):
        assert envoi.spec_equal(envoi.ObservationFilter(Drawn(other), [2, 0]).observation_spec, kept)


def test_filter_takes_the_same_elements_of_every_lane():
    env = envoi.ObservationFilter(envoi.batch(envoi.models.CartPole(), 3), [0, 2])
    assert env.reset(seed=0).observation.shape == (3, 2)
    np.testing.assert_array_equal(env.observation, env.env.observation[:, [0, 2]])


POLE = envoi.models.CartPole()


@pytest.mark.parametrize(
    ("env", "indices", "message"),
    [
        *((POLE, indices, "expected a row of at least one integer") for indices in ([], [[0]], 0, [0.5], "a")),
        (POLE, [4, 0, -5], r"indices: \[4, -5\] are outside of the observation, which has 4"),
        *((env, [0], "one axis.*FlattenObservation") for env in (Walk(), envoi.models.Catch())),
    ],
)
def test_what_cannot_be_filtered_says_why(env, indices, message):
    with pytest.raises(envoi.SpecError, match=message):
        envoi.ObservationFilter(env, indices)


def test_history_starts_again_with_an_episode():
    env = envoi.History(envoi.TimeLimit(Steps(), 5), 3)
    seen(env, 0, 0, 0, 0, 0)
    assert env.reset().observation.tolist() == [0, 0, 0]
    one = envoi.History(Steps(), 1)
    assert [row.tolist() for row in seen(one, 0, 0)] == [[0], [1], [2]]


@pytest.mark.parametrize("wrap", [lambda env: env, to_gymnasium, lambda env: envoi.batch(env, 2)])
def test_who_writes_into_a_history_does_not_write_into_the_next(wrap):
    ours, theirs = (wrap(envoi.History(envoi.models.CartPole(), 3, include_actions=True)) for _ in range(2))
    action = np.zeros(getattr(ours, "batch_size", None) or (), np.int64)[()]
    shown, expected = ours.reset(seed=1)[0], theirs.reset(seed=1)[0]
    for _ in range(3):
        shown["observation"][...] = -7
        del shown["action"]
        shown, expected = ours.step(action)[0], theirs.step(action)[0]
        np.testing.assert_array_equal(shown["observation"], expected["observation"])
        np.testing.assert_array_equal(shown["action"], expected["action"])


def test_history_allows_the_zeros_before_the_beginning_and_no_more():
    spec = envoi.Array((2,), "float32", [3, -1], [4, -0.5], "x")
    padded = envoi.History(Drawn(spec), 3).observation_spec
    assert envoi.spec_equal(
        padded, envoi.Array((3, 2), "float32", [[0, -1], [0, -1], [3, -1]], [[4, 0], [4, 0], [4, -0.5]], "x")
    )
    tiled = envoi.History(Drawn(spec), 3, tile_first_step_obs=True).observation_spec
    assert envoi.spec_equal(tiled, envoi.Array((3, 2), "float32", [[3, -1]] * 3, [[4, -0.5]] * 3, "x"))
    actions = envoi.History(Drawn(spec), 2, include_actions=True).observation_spec["action"]
    assert envoi.spec_equal(actions, envoi.MultiDiscrete([7, 7], 0))
    assert envoi.History(Drawn(envoi.Array((), "float32")), 2).observation_spec.low is None


@given(nested(array_leaves()), st.integers(1, 3), st.booleans(), st.booleans(), generators())
def test_what_a_history_shows_lies_in_its_spec_and_is_what_was_seen(spec, n, actions, tiles, rng):
    env = envoi.History(Drawn(spec), n, actions, tiles)
    inner, done = [], []
    for index in range(n + 2):
        if index == 0:
            shown = env.reset(seed=int(rng.integers(99))).observation
        else:
            done.append(env.sample_action())
            shown = env.step(done[-1]).observation
        inner.append(env.env.observation)
        envoi.validate(env.observation_spec, shown)
        if actions:
            last = ([0] * n + done)[-n:]
            assert shown["action"].tolist() == last
            shown = shown["observation"]
        for back in range(min(n, len(inner))):
            np.testing.assert_equal(
                envoi.tree.map_leaves(lambda leaf, rows, row=-1 - back: rows[row], spec, shown), inner[-1 - back]
            )
        if tiles:
            np.testing.assert_equal(lane(spec, shown, 0), inner[max(0, len(inner) - n)])


class Reach(Steps):
    """Walks towards a target; the reward is for being there."""

    observation_spec = {"position": envoi.Array((1,), "float64"), "target": envoi.Array((1,), "float64", -9, 9)}
    action_spec = envoi.Array((1,), "float64", -1, 1)

    def initial(self, rng, context):
        return {"position": np.zeros(1), "target": rng.integers(2, 5, 1).astype(float)}

    def transition(self, state, action, rng):
        return {**state, "position": state["position"] + action}

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return float(np.abs(next_state["position"] - next_state["target"]).item() < 0.5)


class WithGoal(envoi.GoalReplay):
    """Shows what is missing to the goal, too."""

    def desired(self, observation):
        return observation["target"]

    def achieved(self, observation):
        return observation["position"]

    def with_goal(self, observation, goal):
        return {"position": observation["position"], "target": goal, "missing": goal - observation["position"]}

    def spec_with_goal(self, spec):
        return {**spec, "missing": envoi.Array((1,), "float64")}


class WithGoalLaneByLane(WithGoal):
    by_lane = True


def test_the_goal_of_the_episode_is_in_every_observation():
    env = WithGoal(Reach())
    first = env.reset(seed=0).observation
    step = env.step(np.ones(1))
    envoi.validate(env.observation_spec, step.observation)
    assert step.observation["target"] == first["target"]
    assert step.observation["missing"] == first["target"] - 1
    assert env.observation == step.observation


def test_who_writes_into_the_goal_it_sees_does_not_change_the_goal():
    for env in (WithGoal(Reach()), envoi.batch(WithGoal(Reach()), 2)):
        first = env.reset(seed=0).observation
        goal = first["target"].copy()
        for _ in range(2):
            step = env.step(np.ones((*np.shape(goal)[:-1], 1)))
            assert (step.observation["target"] == goal).all()
            step.observation["target"][...] = 99


def test_an_episode_is_relabelled_for_another_goal_with_the_rewards_for_it():
    env = WithGoal(Reach())
    observations, actions = [env.reset(seed=0).observation], [np.ones(1)] * 2 + [np.zeros(1)]
    rewards = []
    for action in actions:
        step = env.step(action)
        observations.append(step.observation)
        rewards.append(step.reward)
    told, same = env.relabel(observations, actions, goal=env.desired(observations[0]))
    np.testing.assert_equal(told, observations)
    assert same.tolist() == rewards
    told, paid = env.relabel(observations, actions)  # what was achieved in the end had been the goal
    assert [float(one["target"].item()) for one in told] == [2] * 4
    assert [float(one["missing"].item()) for one in told] == [2, 1, 0, 0]
    assert paid.tolist() == [0, 1, 1]
    env.rewarder = envoi.FunctionReward(lambda state, action, next_state: -next_state["target"].item())
    assert env.relabel(observations, actions, goal=np.array([7.0]))[1].tolist() == [-7] * 3


def test_states_that_are_no_observations_get_the_goal():
    class Hidden(Reach):
        def observe(self, state, rng):
            return {"position": state["position"] * 10, "target": state["target"] * 10}

    class WithHiddenGoal(WithGoal):
        def state_with_goal(self, state, goal):
            return {**state, "target": goal / 10}

    env = WithHiddenGoal(Hidden())
    observations, states = [env.reset(seed=0).observation], [env.state]
    for _ in range(2):
        observations.append(env.step(np.ones(1)).observation)
        states.append(env.state)
    told, paid = env.relabel(observations, [np.ones(1)] * 2, states)
    assert told[0]["target"] == 20
    assert paid.tolist() == [0, 1]


@pytest.mark.parametrize("kind", [WithGoal, WithGoalLaneByLane])
def test_each_lane_has_its_own_goal(kind):
    env, alone = kind(envoi.Lanes([Reach() for _ in range(4)])), [kind(Reach()) for _ in range(4)]
    first = env.reset(seed=range(4)).observation
    assert first["target"].tolist() == [
        one.reset(seed=seed).observation["target"].tolist() for seed, one in enumerate(alone)
    ]
    chosen = np.array([True, False, True, False])
    step = env.step(np.ones((4, 1)), restart=chosen)
    for index, one in enumerate(alone):
        expected = one.reset().observation if chosen[index] else one.step(np.ones(1)).observation
        np.testing.assert_equal(lane(env.observation_spec, step.observation, index), expected)


def test_each_agent_has_its_own_goal():
    env = WithGoal(envoi.as_multi(Reach(), "walker"))
    first = env.reset(seed=0).observations["walker"]
    step = env.step({"walker": np.ones(1)})
    assert step.observations["walker"]["missing"] == first["target"] - 1
    seen, done = [first, step.observations["walker"]], [{"walker": np.ones(1)}]
    told, paid = env.relabel(seen, done, agent="walker")
    assert told[0]["target"] == 1
    assert paid.tolist() == [1]
    with pytest.raises(envoi.SpecError, match=r"agent: expected one of \['walker'\], got None"):
        env.relabel(seen, done)


def test_goals_pass_the_suites_of_all_frameworks():
    check_env(lambda: WithGoal(envoi.TimeLimit(Reach(), 6))).raise_if_failed()


def test_wrappers_of_observations_and_rewards_keep_which_integers_have_bounds():
    spec = envoi.Array((3,), "int64", [-np.inf, 1, -4], [5, np.inf, 7])
    open_below, open_above = [False, True, True], [True, False, True]
    env = Drawn(spec)
    kept = envoi.ObservationFilter(env, [2, 0, 1]).observation_spec
    assert kept == envoi.Array((3,), "int64", [-4, -np.inf, 1], [7, 5, np.inf])
    history = envoi.History(env, 2).observation_spec
    assert history.bounded_below.tolist() == [open_below] * 2
    assert history.bounded_above.tolist() == [open_above] * 2
    env.reward_spec = spec
    repeated = envoi.ActionRepeat(env, 2).reward_spec
    assert repeated == envoi.Array((3,), "int64", [-np.inf, 1, -8], [10, np.inf, 14])
    assert envoi.FixedLength(env, 2).reward_spec == envoi.Array((3,), "int64", [-np.inf, 0, -4], [5, np.inf, 7])
