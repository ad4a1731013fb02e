"""qgym's environments: as they are alone, but seeded, and with a rewarder that is a value of its own."""

import copy
import math
import os
import pickle
import random

import gymnasium
import networkx
import numpy as np
import pytest
from traces import exact, trace

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
pytest.importorskip("qgym", reason="make installs it, without the pygame that it asks for")

from qgym.custom_types import Gate
from qgym.envs import InitialMapping, Routing, Scheduling, initial_mapping, routing, scheduling
from qgym.envs.scheduling import MachineProperties
from qgym.generators.circuit import BasicCircuitGenerator
from qgym.generators.graph import BasicGraphGenerator, GraphGenerator
from qgym.generators.interaction import BasicInteractionGenerator
from qgym.spaces import Discrete
from qgym.templates import Environment, Rewarder, State

import envoi
from envoi.adapters import from_env, from_gymnasium, to_gymnasium
from envoi.adapters.gymnasium.qgym import FromQgym, QgymReward


def machine():
    properties = MachineProperties(3)
    properties.add_gates({"x": 2, "y": 2, "z": 1, "cnot": 4, "measure": 10, "prep": 3})
    return properties


class Shuffled(GraphGenerator):
    """Samples from the standard library's generator, and from numpy's old one, somewhere deep inside."""

    finite = False

    def __init__(self):
        self.tools = {"dice": [random.Random()], "old": np.random.RandomState()}

    def set_state_attributes(self, **attributes):
        self.n = attributes["connection_graph"].number_of_nodes()

    def __next__(self):
        edges, chance = networkx.complete_graph(self.n).edges, self.tools["old"].random_sample()
        graph = networkx.empty_graph(self.n)
        graph.add_edges_from(edge for edge in edges if self.tools["dice"][0].random() < chance)
        return graph


class Ladder(State):
    """Climbs or slips, by the state's own generator."""

    def __init__(self):
        self.rung = self.steps_done = 0

    def reset(self, *, seed=None, rung=0):
        if seed is not None:
            self.seed(seed)
        self.rung, self.steps_done = rung, 0
        return self

    def update_state(self, action):
        self.rung = min(9, max(0, self.rung + int(self.rng.integers(-1, 2)) + int(action)))
        self.steps_done += 1
        return self

    def obtain_observation(self):
        return self.rung

    def is_done(self):
        return self.rung == 9

    def obtain_info(self):
        return {}

    def create_observation_space(self):
        return Discrete(10)


class Higher(Rewarder):
    def compute_reward(self, *, old_state, action, new_state):
        return float(new_state.rung - old_state.rung)


class Climb(Environment):
    """A user's own environment, of qgym's template, whose rewarder has no `reward_range`."""

    metadata = {"render_modes": []}

    def __init__(self):
        self._state, self._rewarder = Ladder(), Higher()
        self.observation_space, self.action_space = self._state.create_observation_space(), Discrete(2, rng=self.rng)

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)


SOURCES = {
    "mapping": lambda **kwargs: InitialMapping((2, 3), **kwargs),
    "routing": lambda **kwargs: Routing((2, 2), observe_connection_graph=True, **kwargs),
    "scheduling": lambda **kwargs: Scheduling(machine(), max_gates=12, **kwargs),
}
DRAWN = {
    **SOURCES,
    "mapping, its own generator": lambda: InitialMapping((2, 3), BasicGraphGenerator(0.3, seed=5)),
    "mapping, other generators": lambda: InitialMapping((2, 3), Shuffled()),
    "routing, its own generator": lambda: Routing((2, 2), BasicInteractionGenerator(7, seed=5)),
    "scheduling, its own generator": lambda: Scheduling(
        machine(), max_gates=12, circuit_generator=BasicCircuitGenerator(seed=5)
    ),
    "a user's own": Climb,
}
REWARDERS = {
    "mapping": [
        initial_mapping.BasicRewarder(),
        initial_mapping.SingleStepRewarder(),
        initial_mapping.EpisodeRewarder(-7, 3, -2),
    ],
    "routing": [routing.BasicRewarder(), routing.SwapQualityRewarder(), routing.EpisodeRewarder()],
    "scheduling": [scheduling.BasicRewarder(), scheduling.EpisodeRewarder()],
}

every_source = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
every_draw = pytest.mark.parametrize("make", DRAWN.values(), ids=DRAWN)


def as_declared(observation, spec):
    return {key: np.asarray(observation[key]).astype(leaf.dtype) for key, leaf in spec.items()}


def play(env, alone, rng, steps):
    """Both from where they are to the end of the episode, or for so many steps; how many that took."""
    taken = 0
    while taken < steps:
        taken += 1
        action = envoi.sample(env.action_spec, rng)
        step, other = env.step(action), alone.step(copy.deepcopy(action))
        assert exact(step.observation) == exact(as_declared(other[0], env.observation_spec))
        assert (step.reward, step.terminated, step.truncated) == other[1:4]
        assert exact(step.info) == exact(other[4])
        assert exact(env.state.obtain_observation()) == exact(alone._state.obtain_observation())
        if step.terminated or step.truncated:
            break
    return taken


@every_source
def test_it_plays_as_it_does_alone(make):
    source = make()
    env, rng = envoi.Validated(from_env(source)), np.random.default_rng(1)
    steps = 0
    # Never seeded: with the generators that both began with.
    alone = copy.deepcopy(source)
    for _ in range(4):
        assert exact(env.reset().observation) == exact(as_declared(alone.reset()[0], env.observation_spec))
        steps += play(env, alone, rng, 80)
    # Seeded: the first episode begins from a seed, which qgym alone cannot do, and the second continues.
    for seed in range(4):
        observation, info = env.reset(seed=seed)
        alone = copy.deepcopy(source)
        assert exact(observation) == exact(as_declared(alone._state.obtain_observation(), env.observation_spec))
        assert exact(info) == exact(alone._state.obtain_info())
        steps += play(env, alone, rng, 80)
        assert exact(env.reset().observation) == exact(as_declared(alone.reset()[0], env.observation_spec))
        steps += play(env, alone, rng, 80)
    assert steps > 100


@every_draw
def test_a_seed_fixes_everything(make):
    one, other = from_env(make()), from_env(make())
    for seed in (0, 1, 7):
        first = trace(one, 120, seed=seed)
        assert trace(other, 120, seed=seed) == first
        assert trace(one, 120, seed=seed) == first
        assert trace(one, 120, seed=seed + 100) != first


@every_draw
def test_a_new_generator_reaches_everything(make):
    first, second, other = (from_env(make()) for _ in range(3))
    for env, seed in ((first, 3), (second, 3), (other, 4)):
        env.reset(seed=int(seed == 3))
        env.rng = generator = np.random.default_rng(seed)
        assert env.rng is env.source.rng is generator
    assert trace(first, 120) == trace(second, 120) != trace(other, 120)


@every_source
def test_what_was_seen_stays_as_it_was(make):
    env, rng = from_env(make()), np.random.default_rng(0)
    observation, info = env.reset(seed=0)
    seen, live = [observation, info, env.state.obtain_observation()], env.source._state.obtain_observation()
    before, at_first = copy.deepcopy(seen), copy.deepcopy(live)
    for _ in range(12):
        step = env.step(envoi.sample(env.action_spec, rng))
        seen += [step.observation, step.info, env.state.obtain_observation()]
        before += copy.deepcopy(seen[-3:])
        if step.terminated:
            break
    assert exact(seen) == exact(before)
    if isinstance(env.source, InitialMapping):  # what would have happened
        assert exact(live) != exact(at_first)


@every_source
def test_a_snapshot_continues_exactly(make):
    env = from_env(make())
    env.reset(seed=3)
    env.step(env.sample_action())
    held = env.snapshot()
    first = trace(env, 60)
    for _ in range(2):
        env.restore(held)
        assert trace(env, 60) == first
    env.restore(held)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert exact(twin.observation) == exact(env.observation)
        assert trace(twin, 60) == first
    env.restore(held)
    action = env.sample_action()
    after = exact(env.step(action))
    env.restore(held)
    assert exact(env.step(action)) == after


def test_options_reach_the_state_and_stay_the_callers():
    graph = networkx.path_graph(4)
    options = {"interaction_graph": graph}
    matrix = from_env(InitialMapping((2, 2))).reset(seed=0, options=options).observation["interaction_matrix"]
    assert matrix.tolist() == networkx.to_numpy_array(graph, dtype=int).flatten().tolist()
    assert options == {"interaction_graph": graph}

    env = from_env(Routing((2, 2)))
    env.reset(options={"interaction_circuit": [[0, 3], [1, 2]]})
    assert env.state.interaction_circuit.tolist() == [[0, 3], [1, 2]]
    assert env.reset(options={"interaction_circuit": [[1, 2]]}).info["Interaction gates ahead"].tolist() == [[1, 2]]

    env, circuit = from_env(Scheduling(machine(), max_gates=5)), [Gate("prep", 0, 0), Gate("cnot", 0, 1)]
    env.reset(options={"circuit": circuit})
    assert env.source.get_circuit() == circuit


# The rewarder.


@pytest.mark.parametrize(("name", "rewarder"), [(name, one) for name in REWARDERS for one in REWARDERS[name]])
def test_the_rewarder_can_be_read_called_and_compared(name, rewarder):
    env = from_env(SOURCES[name](rewarder=rewarder))
    own = env.rewarder
    assert isinstance(own, QgymReward)
    assert own == QgymReward(copy.deepcopy(rewarder)) == from_env(SOURCES[name](rewarder=rewarder)).rewarder
    assert hash(own) == hash(QgymReward(copy.deepcopy(rewarder)))
    assert all((own == QgymReward(other)) == (other is rewarder) for others in REWARDERS.values() for other in others)
    assert own.reward_range == env.reward_range == rewarder.reward_range
    transitions, rewards = [], []
    for seed in range(3):
        env.reset(seed=seed)
        for _ in range(60):
            state, action = env.state, env.sample_action()
            step = env.step(action)
            transitions.append((state, action, env.state))
            rewards.append(step.reward)
            if step.terminated or step.truncated:
                break
    assert own.relabel(transitions).tolist() == rewards
    assert len({round(reward, 6) for reward in rewards}) > 1


FULL, EMPTY = np.ones((3, 3)) - np.eye(3), np.zeros((3, 3))


@pytest.mark.parametrize(
    ("rewarder", "connection", "expected"),
    [
        (initial_mapping.BasicRewarder(), FULL, [0, 5, 15]),
        (initial_mapping.BasicRewarder(), EMPTY, [0, -1, -3]),
        (initial_mapping.SingleStepRewarder(), FULL, [0, 5, 10]),
        (initial_mapping.SingleStepRewarder(), EMPTY, [0, -1, -2]),
        (initial_mapping.EpisodeRewarder(), FULL, [0, 0, 15]),
        (initial_mapping.EpisodeRewarder(), EMPTY, [0, 0, -3]),
    ],
)
def test_a_rewarder_of_qgym_takes_the_place_of_the_sources(rewarder, connection, expected):
    env = from_env(InitialMapping(connection, rewarder=initial_mapping.BasicRewarder(-1, 9, -9)))
    env.rewarder = rewarder
    assert env.source.rewarder is rewarder
    assert env.rewarder == QgymReward(rewarder)
    options = {"interaction_graph": networkx.complete_graph(3)}
    env.reset(seed=0, options=options)
    assert [env.step(np.array([i, i])).reward for i in range(3)] == expected
    env.reset(options=options)
    env.step(np.array([0, 0]))
    assert env.step(np.array([0, 1])).reward == -100
    assert to_gymnasium(env) is env.source


def test_the_reward_spec_follows_the_rewarder():
    env = from_env(InitialMapping((2, 2)))
    assert env.reward_range == (-math.inf, math.inf)
    for arguments, bounds in (((-1, 0, 0), (-math.inf, 0)), ((0, 1, 0), (0, math.inf))):
        env.rewarder = initial_mapping.BasicRewarder(*arguments)
        assert env.reward_range == env.source.reward_range == bounds
        assert env.reward_spec == env.rewarder.spec == env.declared_reward_spec
    env.rewarder = QgymReward(initial_mapping.EpisodeRewarder(-1, 0, 0))
    assert isinstance(env.source.rewarder, initial_mapping.EpisodeRewarder)
    assert env.reward_range == (-math.inf, 0)


@every_source
def test_a_rewarder_of_the_core_sees_the_states_of_qgym_and_leaves_the_source_as_it_is(make):
    env, plain = from_env(make()), from_env(make())
    own = env.rewarder
    env.rewarder = 0.5 * own + (lambda state, action, next_state: 100.0 * (next_state.steps_done - state.steps_done))
    assert env.source.rewarder is own.rewarder
    assert env.reward_range == (-math.inf, math.inf)
    for one in (env, plain):
        one.reset(seed=1)
    for _ in range(10):
        action = env.sample_action()
        step, other = env.step(action), plain.step(action)
        assert step.reward == 0.5 * other.reward + 100
        assert exact(step._replace(reward=0)) == exact(other._replace(reward=0))
        if step.terminated:
            break
    env.rewarder = own
    assert env.rewarder == plain.rewarder
    env.reset(seed=1)
    plain.reset(seed=1)
    assert env.step(action).reward == plain.step(action).reward


def test_a_wrapper_that_changes_rewards_keeps_the_source_out_of_it():
    wrapped = gymnasium.wrappers.TransformReward(InitialMapping((2, 2)), lambda reward: reward + 1000)
    env = from_gymnasium(wrapped)
    assert isinstance(env, FromQgym)
    assert isinstance(env.rewarder, envoi.NativeReward)
    env.reset(seed=0)
    assert env.step(np.array([0, 0])).reward == 1000
    held = wrapped.unwrapped.rewarder
    env.rewarder = initial_mapping.BasicRewarder(-3)
    assert wrapped.unwrapped.rewarder is held
    assert env.step(np.array([0, 1])).reward == -3

    limited = from_env(gymnasium.wrappers.TimeLimit(InitialMapping((2, 2)), 2))
    limited.rewarder = initial_mapping.BasicRewarder(-3)
    assert limited.source.unwrapped.rewarder == initial_mapping.BasicRewarder(-3)
    limited.reset(seed=0)
    assert limited.step(np.array([0, 0])).reward == 0
    assert limited.step(np.array([0, 0]))[1:4] == (-3, False, True)


def test_a_rewarder_of_qgym_composes_wherever_it_may_be_set():
    env, other = from_env(InitialMapping((2, 2))), initial_mapping.BasicRewarder(-3, 7, -9)
    own = env.rewarder
    as_core = QgymReward(other)
    for composed, expected in (
        (own + other, own + as_core),
        (other + own, as_core + own),
        (own - other, own - as_core),
        (other - own, as_core - own),
        (0.5 * own + other, 0.5 * own + as_core),
        (envoi.Sum(own, other), own + as_core),
        (envoi.Scaled(other, 2), 2 * as_core),
    ):
        assert composed == expected
        env.rewarder = composed
        env.reset(seed=0)
        before, action = env.state, np.array([0, 0])
        assert env.step(action).reward == expected(before, action, env.state)


class Counted(initial_mapping.BasicRewarder):
    """Counts how often it is asked."""

    asked = 0

    def compute_reward(self, *, old_state, action, new_state):
        self.asked += 1
        return super().compute_reward(old_state=old_state, action=action, new_state=new_state)


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: gymnasium.wrappers.TimeLimit(env, 9)])
def test_a_replaced_rewarder_of_qgym_can_be_put_back(wrap):
    source = wrap(InitialMapping((2, 2)))
    env, native = from_env(source), source.unwrapped
    kept, action = env.rewarder, np.array([0, 0])
    env.rewarder = lambda state, action, next_state: 7.0
    env.reset(seed=0)
    before = env.snapshot()
    for _ in range(2):
        assert env.step(action).reward == 7
        env.restore(before)
    assert copy.deepcopy(env).step(action).reward == 7
    assert native.rewarder == kept.rewarder
    env.rewarder = kept
    assert native.rewarder is kept.rewarder
    env.reset(seed=0)
    state = env.state
    assert env.step(action).reward == kept(state, action, env.state)


def test_restoring_leaves_the_rewarder_that_was_set_since_and_brings_back_what_another_held():
    env, other = from_env(InitialMapping((2, 2), rewarder=Counted())), initial_mapping.BasicRewarder(-3, 0, 0)
    own = env.rewarder
    env.reset(seed=0)
    before = env.snapshot()
    env.step(np.array([0, 0]))
    assert env.source.rewarder.asked == 1
    for _ in range(2):
        env.restore(before)
        assert env.source.rewarder.asked == 0
        env.step(np.array([0, 0]))
    env.rewarder = other
    env.restore(before)
    assert env.source.rewarder == other
    assert env.rewarder.spec == env.reward_spec
    env.rewarder = own
    assert env.reward_spec == own.spec


# The visualiser.


@every_source
def test_it_renders_its_state_and_closes_once(make):
    env = from_env(make(render_mode="rgb_array"))
    assert env.render_mode == "rgb_array"
    env.reset(seed=1)  # seed 0 gives a circuit of one gate, which qgym cannot render
    picture = env.render()
    assert (picture.ndim, picture.shape[-1], picture.dtype) == (3, 3, np.uint8)
    assert picture.std() > 0
    # A window is no part of a snapshot.
    held, action = env.snapshot(), env.sample_action()
    after = exact(env.step(action))
    env.restore(held)
    assert exact(env.step(action)) == after
    assert env.render().shape == picture.shape
    env.close()
    env.close()
    assert env.render() is None
    assert from_env(make()).render_mode is None
