"""Objects inside, arrays outside: what represents a state or an observation, and when it is asked."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from small_models import Flock, Sums, Walk

import envoi
from envoi import Array, Discrete, Foreign, MultiDiscrete, NotRepresented, Representation, Represented, SpecError
from envoi.adapters.gymnasium import to_gymnasium


@dataclass(frozen=True)
class Thing:
    """A number that is an object."""

    number: int


class Things(envoi.Model):
    """Adds up its actions; an observation is noisy."""

    observation_spec = Foreign(Thing)
    action_spec = Discrete(3)

    def initial(self, rng, context):
        return Thing(int(rng.integers(10)))

    def transition(self, state, action, rng):
        return Thing(state.number + int(action))

    def observe(self, state, rng):
        return Thing(100 * state.number + int(rng.integers(100)))

    def reward(self, state, action, next_state):
        return float(next_state.number - state.number)

    def terminal(self, state):
        return state.number >= 20


class Crowd(envoi.MultiModel):
    """Two agents, of which one acts at a time."""

    possible_agents = ("ann", "ben")
    observation_spec = dict.fromkeys(possible_agents, Foreign(Thing))
    action_spec = dict.fromkeys(possible_agents, Discrete(3))

    def initial(self, rng, context):
        return Thing(0)

    def transition(self, state, actions, rng):
        return Thing(state.number + 1)

    def turn(self, state):
        return (self.possible_agents[state.number % 2],)

    def observe(self, state, agent, rng):
        return Thing(state.number + (100 if agent == "ben" else 0))

    def reward(self, state, actions, next_state):
        return {"ann": 1.0, "ben": -1.0}

    def terminal(self, state):
        return state.number >= 4


class Live(envoi.Env):
    """Holds one state that it changes in place, and shows that itself."""

    observation_spec = action_spec = Discrete(9)

    def reset(self, *, seed=None, options=None):
        self.cells = [0]
        return envoi.Reset(self.cells, {})

    def step(self, action):
        self.cells[0] += 1
        return envoi.Step(self.cells, 0.0, False, False, 1.0, {})

    @property
    def state(self):
        return self.cells

    observation = state


class Counted:
    """Represents a `Thing` as an array, and counts how often."""

    spec = Array((1,), "int64")

    def __init__(self):
        self.calls = 0

    def __call__(self, thing):
        self.calls += 1
        return np.array([thing.number])


DIGITS = Representation(
    lambda thing: np.array([thing.number // 1000 % 10, thing.number // 100 % 10]), MultiDiscrete([10, 10])
)
SHARE = Representation(lambda thing: np.array(thing.number / 3000), Array((), "float64", 0, 1))


def test_observations_and_states_are_shown_as_arrays_and_objects_stay_inside():
    env = Represented(Things(), state=DIGITS, observation={"digits": DIGITS, "share": SHARE})
    assert env.observation_spec == {"digits": DIGITS.spec, "share": SHARE.spec}
    assert env.state_spec == DIGITS.spec
    observation = env.reset(seed=0).observation
    for step in range(3):
        inside = env.env.observation
        assert isinstance(inside, Thing)
        assert isinstance(env.env.state, Thing)
        assert observation["share"] == inside.number / 3000
        assert observation["digits"].tolist() == [inside.number // 1000, inside.number // 100 % 10]
        assert env.state.tolist() == [0, 0]
        envoi.validate(env.observation_spec, observation)
        observation = env.step(step % 3).observation


@pytest.mark.parametrize("spec", [Discrete(9), MultiDiscrete([3, 3]), Array((2,), "int64", 0, 9), Array((), "float32")])
def test_categorical_discrete_and_continuous_representations_stay_what_they_are(spec):
    env = Represented(Things(), observation=Representation(lambda thing: spec.zeros(), spec))
    assert env.observation_spec is spec
    assert envoi.batch(env, 2).observation_spec is spec
    space = to_gymnasium(env).observation_space
    assert type(space).__name__ == {"Array": "Box"}.get(type(spec).__name__, type(spec).__name__)
    assert space.dtype == spec.dtype


def test_an_observation_is_represented_once_a_step_and_stays_the_same_object():
    shown = Counted()
    env = Represented(Things(), observation=shown)
    first = env.reset(seed=0).observation
    assert env.observation is first
    assert env.observation is first
    assert shown.calls == 1
    step = env.step(1)
    assert env.observation is step.observation is not first
    assert shown.calls == 2
    to_gymnasium(env).reset(seed=1)
    assert shown.calls == 3


def test_a_state_is_represented_when_it_is_asked_for_once_until_the_next_step():
    shown = Counted()
    env = Represented(Things(), state=shown, observation=Counted())
    env.reset(seed=0)
    env.step(1)
    assert shown.calls == 0
    state = env.state
    assert env.state is state
    assert shown.calls == 1
    held = env.snapshot()
    env.step(2)
    assert env.state == state + 2
    env.restore(held)
    assert env.state == state
    assert shown.calls == 3
    env.reset(seed=1)
    assert env.state.tolist() == [env.env.state.number]
    env.state = Thing(7)
    assert env.state.tolist() == [7]
    assert env.observation[0] // 100 == 7
    assert env.observation == env.env.observation.number


def test_a_state_that_is_taken_back_is_represented_again():
    env = Represented(Things(), state=Counted())
    env.reset(seed=0)
    before, take_back = env.state, env.hold_episode()
    env.step(2)
    assert env.state == before + 2
    take_back()
    assert env.state == before


def test_what_is_changed_in_place_inside_is_represented_again_after_every_step():
    cells = Representation(lambda cells: np.array(cells), Array((1,), "int64"))
    env = Represented(Live(), cells, cells)
    assert env.reset().observation.tolist() == [0]
    assert env.state.tolist() == [0]
    assert env.step(0).observation.tolist() == env.observation.tolist() == env.state.tolist() == [1]


def test_without_a_representation_an_observation_stays_and_a_state_is_not_available():
    env = Represented(Things())
    assert env.reset(seed=0).observation is env.env.observation is env.observation
    assert env.observation_spec == Foreign(Thing)
    with pytest.raises(NotRepresented, match=r"state: representation not available; .*\.env\.state"):
        _ = env.state
    described = Things()
    described.state_spec = Array((), "int64")
    other = Represented(described, observation=SHARE)
    other.reset(seed=0)
    assert other.state is described.state
    with pytest.raises(envoi.EpisodeError):
        _ = Represented(Things(), state=SHARE).state


def test_rewarders_are_given_the_states_inside():
    env = Represented(Things(), SHARE, SHARE)
    env.rewarder = lambda state, action, next_state: 10.0 * (next_state.number - state.number)
    env.reset(seed=0)
    assert env.step(2).reward == 20.0


def test_a_batch_is_represented_lane_by_lane():
    env = envoi.batch(Represented(Things(), Counted(), Counted()), 3)
    observation = env.reset(seed=[4, 5, 6]).observation
    assert observation.shape == (3, 1)
    alone = [Represented(Things(), Counted(), Counted()) for _ in range(3)]
    for lane, one in enumerate(alone):
        assert one.reset(seed=4 + lane).observation == observation[lane]
    step = env.step(np.array([0, 1, 2]))
    for lane, one in enumerate(alone):
        assert one.step(lane).observation == step.observation[lane]
        assert one.state == env.state[lane]
    assert env.state is env.state
    begun = env.step(np.array([0, 0, 0]), np.array([False, True, False]))
    assert np.array_equal(begun.observation, env.observation)
    assert begun.observation[1] == env.env.observation[1].number
    assert env.state[:, 0].tolist() == [one.number for one in env.env.state]
    moved = env.step(np.array([2, 2, 2]), hold=~np.array([True, False, False]))
    assert moved.observation[1] == begun.observation[1]
    assert env.state[:, 0].tolist() == [one.number for one in env.env.state]


@pytest.mark.parametrize("by_lane", [True, False])
def test_a_representation_of_many_lanes_says_what_those_of_single_lanes_say(by_lane):
    place = Representation(lambda value: 2 * value["position"], Array((2,), "float64"))
    time = Representation(lambda state: np.asarray(state.time), Array((), "int64"))
    for model in (Walk, Flock):
        if model is Walk and not by_lane:
            time = Representation(lambda states: np.array([state.time for state in states]), Array((), "int64"))
        env = Represented(envoi.batch(model(), 4), time, place, by_lane=by_lane)
        env.reset(seed=0)
        over = np.zeros(4, bool)
        for _ in range(12):
            step = env.step(env.sample_action(), over)
            inside = env.env.observation
            assert np.array_equal(step.observation, 2 * inside["position"])
            assert np.array_equal(env.state, inside["time"])
            assert env.state.dtype == np.int64
            over = step.terminated | step.truncated
        time = Representation(lambda state: np.asarray(state.time), Array((), "int64"))


class Tuples(Sums):
    """Its state is a plain tuple, of as many arrays as there are lanes."""

    def initial(self, rng, context, size):
        return np.zeros(size), np.arange(size), np.ones(size)

    def transition(self, state, action, rng):
        return state[0] + action, state[1], state[2]

    def observe(self, state, rng):
        return state[0]


def test_a_state_that_is_a_tuple_of_arrays_is_not_taken_for_one_of_states():
    time = Representation(lambda state: np.asarray(state[1]), Array((), "int64"))
    env = Represented(envoi.batch(Tuples(), 3), time)
    env.reset(seed=0)
    assert env.state.tolist() == [0, 1, 2]


def test_agents_may_be_shown_different_things():
    everybody = Represented(Crowd(), observation=Counted())
    assert everybody.reset(seed=0).observations["ann"].tolist() == [0]
    assert everybody.observation("ben").tolist() == [100]
    assert everybody.step({"ann": 0}).observations["ben"].tolist() == [101]
    one = Represented(Crowd(), state=SHARE, observation={"ben": {"digits": DIGITS}})
    assert one.observation_spec == {"ann": Foreign(Thing), "ben": {"digits": DIGITS.spec}}
    one.reset(seed=0)
    assert one.observation("ann") == Thing(0)
    step = one.step({"ann": 0})
    assert step.observations["ben"]["digits"].tolist() == [0, 1]
    assert one.observation("ben") is step.observations["ben"]
    assert one.state == 1 / 3000
    assert one.state is one.state
    with pytest.raises(SpecError, match=r"observation: there is no agent 'bem'; did you mean 'ben'\?"):
        Represented(Crowd(), observation={"bem": SHARE})


def test_a_representation_is_a_function_and_a_spec():
    assert Representation(len, Discrete(3)) == Representation(len, Discrete(3)) != Representation(len, Discrete(4))
    with pytest.raises(SpecError, match="function: expected a function of one value, got 3"):
        Representation(3, Discrete(3))
    with pytest.raises(SpecError, match=r"spec\['a'\]: expected a spec"):
        Representation(len, {"a": int})


def test_a_class_of_objects_is_a_spec():
    spec = Foreign(Thing, "thing")
    envoi.validate(spec, Thing(3))
    with pytest.raises(SpecError, match=r"value: expected an object of class Thing, got 3"):
        envoi.validate(spec, 3)
    with pytest.raises(SpecError, match="objects of class Thing cannot be sampled"):
        envoi.sample(spec, np.random.default_rng(0))
    with pytest.raises(SpecError, match="got its class"):
        Foreign(type("Space", (), dict.fromkeys(("contains", "seed", "sample"), len)))
    assert spec == Foreign(Thing, "thing") != Foreign(Counter, "thing")
    with pytest.raises(envoi.LossyConversion):
        to_gymnasium(Things())
    with pytest.raises(SpecError, match=r"observation: expected an array of numbers"):
        envoi.FlattenObservation(Things())
