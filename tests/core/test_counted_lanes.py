"""A `ModelBatch` counts the steps of a time limit around it, as a wrapper that counts them by itself would."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Flock
from traces import exact

import envoi
from envoi import Discrete, EnvoiError, TimeLimit, tree
from envoi.models import CartPole
from envoi.wrapping.change import Change

N, LIMIT = 4, 5


class Counted(envoi.Lifted):
    """A time limit with a memory of its own, to which no batch inside attends."""

    def __init__(self, env, limit):
        self.limit = limit
        super().__init__(env)

    def change(self, specs):
        return Change(
            begin=lambda observation: np.zeros(specs.lanes, int),
            remember=lambda elapsed, action, observation, reward: elapsed + 1,
            truncated=lambda flag, elapsed: flag | (elapsed >= self.limit),
        )


class Toll(envoi.BatchModel):
    """Lanes that end by chance, by model and by number: of two actions, with rewards and discounts of all lanes."""

    observation_spec = envoi.Array((), "float64")
    action_spec = {"left": Discrete(3), "right": Discrete(2)}

    def initial(self, rng, context, size):
        return {"place": rng.normal(size=size), "time": (np.zeros(size, int), np.ones((size, 2)))}

    def transition(self, state, action, rng):
        time, others = state["time"]
        moved = state["place"] + action["left"] - action["right"] + rng.normal(size=len(time))
        return {"place": moved, "time": (time + 1, others)}

    def observe(self, state, rng):
        return state["place"] + rng.normal(size=len(state["place"]))

    def reward(self, state, action, next_state):
        return 1

    def terminal(self, state):
        return state["place"] > 4

    def truncated(self, state):
        return state["place"] < -2

    def discount(self, state):
        return 0.9


MODELS = {"cartpole": CartPole, "flock": Flock, "toll": Toll}
masks = st.lists(st.booleans(), min_size=N, max_size=N).map(np.array)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.sampled_from(["ended", "written", "no mask", "few actions"])),
        st.tuples(st.just("step"), st.just("ended")),
        st.tuples(st.just("step"), masks | st.just(np.ones(N + 1, bool)) | st.just(np.zeros(N))),
        st.tuples(st.just("hold"), masks),
        st.tuples(st.just("reset"), st.none() | masks),
        st.tuples(st.sampled_from(["keep", "restore", "state", "inside", "copy", "pickle"]), st.none()),
    ),
    min_size=5,
    max_size=40,
)


def outcome(call, *args, **kwargs):
    """The result of a call and its values, or the error that it raises."""
    try:
        result = call(*args, **kwargs)
    except (EnvoiError, ValueError) as error:  # ValueError: of numpy, in a function of a model
        return None, str(error)
    *values, info = result
    return result, (exact(tuple(values)), exact(info))


def kept(batch):
    """All that a batch keeps: states, observations, counts, ended lanes and streams."""
    counts = batch._memory.counts() if isinstance(batch, TimeLimit) else batch._memory
    streams = [str(getattr(batch.streams, name).bit_generator.state) for name in ("dynamics", "observation")]
    arrays = [batch.state, batch.observation, np.asarray(batch._cut), np.asarray(batch.env._over)]
    return exact(arrays), counts.tolist(), streams


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), OPERATIONS)
def test_whatever_is_done_the_batch_counts_as_a_wrapper_does(make, seed, operations):
    pair = [kind(envoi.batch(make(), N, compiled=False), LIMIT) for kind in (TimeLimit, Counted)]
    assert [batch._step_counted is None for batch in pair] == [False, True]
    states, held, given_out = [], [], []
    for batch in pair:
        batch.reset(seed=seed)
    for name, argument in operations:
        action = pair[0].sample_action()
        pair[1].sample_action()
        if name == "step":
            way = argument if isinstance(argument, str) else "mask"
            over = pair[0]._cut | pair[0].env._over
            restart = {"mask": argument, "ended": over, "written": over}.get(way)
            if way == "few actions":
                action = tree.map_leaves(lambda leaf: leaf[:-1], action)
            (step, one), (other, two) = (outcome(batch.step, action, restart) for batch in pair)
            if step is not None and way == "written":
                for each in (step, other):
                    each.terminated[:], each.truncated[:], each.reward[:] = True, True, 7
            elif step is not None:
                given_out.append((step[:5], exact(step[:5])))
        elif name == "hold":
            (_, one), (_, two) = (outcome(batch.step, action, None, ~argument) for batch in pair)
        elif name == "reset":
            (_, one), (_, two) = (outcome(batch.reset, mask=argument) for batch in pair)
        elif name == "inside":
            (_, one), (_, two) = (outcome(batch.env.step, action) for batch in pair)
        else:
            one = two = None
            if name == "keep":
                held.append([batch.snapshot() for batch in pair])
                states.append(pair[0].state)
            elif name == "restore" and held:
                for batch, snapshot in zip(pair, held[-1], strict=True):
                    batch.restore(snapshot)
            elif name == "state" and states:
                for batch in pair:
                    batch.state = states[-1]
            elif name in ("copy", "pickle"):
                pair = [copy.deepcopy(each) if name == "copy" else pickle.loads(pickle.dumps(each)) for each in pair]
        assert one == two
        assert kept(pair[0]) == kept(pair[1])
    assert all(exact(now) == then for now, then in given_out)  # later steps change nothing


PUSHES = np.array([-1, 1])


class Fuse(envoi.BatchModel):
    """Lanes without chance, whose rewards are always the same array; they go from 3 to 0 or to 6."""

    observation_spec = envoi.Array((), "int64")
    action_spec = Discrete(2)
    rewards = np.full(N, 2.0)

    def initial(self, rng, context, size):
        return np.full(size, 3)

    def transition(self, state, action, rng):
        return state + PUSHES[action]

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return self.rewards

    def terminal(self, state):
        return state == 0

    def truncated(self, state):
        return state == 6


@given(
    st.booleans(),
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([0, 0, 0, 1]), min_size=N, max_size=N),
            st.sampled_from([None, None, None, *range(N)]),  # a lane that restarts unless it has ended
        ),
        min_size=10,
        max_size=40,
    ),
)
def test_each_lane_steps_as_its_definition_says(limited, steps):
    batch = envoi.batch(TimeLimit(Fuse(), LIMIT) if limited else Fuse(), N, compiled=False)
    batch.reset(seed=0)
    places, elapsed, over = [3] * N, [0] * N, [False] * N
    for action, lane in steps:
        restart = [ended != (index == lane) for index, ended in enumerate(over)]
        refused = any(ended and not begins for ended, begins in zip(over, restart, strict=True))
        actions = np.array([99 if begins else own for own, begins in zip(action, restart, strict=True)])
        if refused:
            with pytest.raises(envoi.EpisodeError):
                batch.step(actions, np.array(restart))
            assert batch.state.tolist() == places
            continue
        step = batch.step(actions, np.array(restart))
        for i in range(N):
            places[i], elapsed[i] = (3, 0) if restart[i] else (places[i] + PUSHES[action[i]], elapsed[i] + 1)
        terminated = [place == 0 for place in places]
        truncated = [place == 6 or (limited and count == LIMIT) for place, count in zip(places, elapsed, strict=True)]
        over = [one or other for one, other in zip(terminated, truncated, strict=True)]
        assert step.observation.tolist() == places
        assert step.reward.tolist() == [0 if begins else 2 for begins in restart]
        assert (step.terminated.tolist(), step.truncated.tolist()) == (terminated, truncated)
        assert step.discount.tolist() == [0 if one else 1 for one in terminated]
        step.terminated[:], step.truncated[:], step.discount[:] = True, True, 5  # they are the caller's
    assert Fuse.rewards.tolist() == [2] * N
