"""The golden environment of one agent: in a few short episodes, everything that a converter can get wrong."""

from dataclasses import replace

import numpy as np
from scripted import Line, Scripted
from strategies import Pair
from traces import exact

import envoi
from envoi import Array, Discrete, MultiBinary, MultiDiscrete
from envoi.lane_values import lane, stack
from envoi.tree import leaves, map_leaves

MIXED = {"word": "no", "none": None, "number": 1.9, 3: True, ("a", 1): {"deep": [1, 2]}, "array": np.arange(3)}

EPISODES = (
    # Every discount in the middle, and a termination.
    (
        Line(16777217.0, discount=1.0, info={"number": 1}),
        Line(-0.1, discount=0.99, info=MIXED),
        Line(1e-300, discount=0.5, info={"number": True}),
        Line(2.0**40, discount=0.0),
        Line(1.0, terminated=True, info={"last": "word"}),
    ),
    (Line(0.1), Line(-5.5, truncated=True, discount=0.99)),
    (Line(0.2, terminated=True, truncated=True, info=MIXED),),
    (Line(), Line(truncated=True)),
    (Line(3.0, truncated=True, discount=0.5),),
    (Line(discount=0.0), Line(terminated=True, discount=0.0)),
)


class Golden(Scripted):
    """Plays the script, one episode after the other; its observation is nested, and reuses one buffer.

    The canaries: int64 beyond float32 and float64's integers, float64 beyond float32, integers that do not start at 0,
    keys out of order, lists beside tuples beside named tuples, partly bounded and unbounded arrays, scalars.
    """

    observation_spec = {
        "z": Array((2,), "float64", [-np.inf, 0.0], [np.inf, 1.0], "partly"),
        "a": [Discrete(3, start=5, name="five"), MultiDiscrete([2, 3], [-4, 7])],
        "m": Pair(MultiBinary((2, 2)), (Array((), "int64", name="canary"), Array((3,), "float32"))),
        "b": Array((1,), "uint8", 0, 255),
    }
    action_spec = {"move": Discrete(3, start=5, name="move"), "force": Array((2,), "float64", -1, [0.5, 1.0], "force")}
    reward_spec = Array((), "float64", name="return")

    def __init__(self, episodes=EPISODES):
        self.episodes, self.buffer = episodes, np.zeros(3, np.float32)

    def initial(self, rng, context):
        return (int(context.get("episode", rng.integers(len(self.episodes)))), 0, rng.random())

    def transition(self, state, action, rng):
        envoi.validate(self.action_spec, action, "action")
        return (state[0], state[1] + 1, rng.random())

    def observe(self, state, rng):
        episode, step, draw = state
        self.buffer[:] = (episode, step, draw)
        return {
            "z": np.array([1e300 * draw, draw]),
            "a": [np.int64(5 + step % 3), np.array([-4 + step % 2, 7 + step % 3])],
            "m": Pair(
                np.array([[step % 2, 1], [0, episode % 2]], np.int8), (np.array(2**53 + 1 + step), self.buffer.copy())
            ),
            "b": np.array([250 + step], np.uint8),
        }

    def line(self, state):
        return self.episodes[state[0]][state[1] - 1] if state[1] else Line(info={"reset": state[0], **MIXED})


def seen(observation):
    """An observation as a value that compares exactly; a scalar may be a numpy scalar or an array of shape ()."""
    return exact(map_leaves(np.asarray, observation))


def told(step):
    """A step as values that compare exactly. A reward is the number that it is, of whatever Python or numpy type."""
    observation, reward, terminated, truncated, discount, info = step
    numbers = [np.asarray(number, np.float64).tobytes() for number in (reward, discount)]
    return (seen(observation), numbers, bool(terminated), bool(truncated), sorted(map(repr, exact(info))))


def played(env, seeds=(0, None, None, 1, 0), options=None, rng=0):
    """The trace of an environment over whole episodes under random actions; `seeds` has one for each reset."""
    actions, said = np.random.default_rng(rng), []
    for seed in seeds:
        observation, info = env.reset(seed=seed, options=options)
        said.append((seen(observation), sorted(map(repr, exact(info)))))
        assert seen(env.observation) == said[-1][0]
        over = False
        while not over:
            step = env.step(envoi.sample(env.action_spec, actions))
            said.append(told(step))
            over = step.terminated or step.truncated
    return said


class Changed(envoi.Env):
    """An environment with other values: a wrapper that is no wrapper of the core's."""

    def __init__(self, env):
        self.env = env
        self.reward_spec, self.discount_spec = env.reward_spec, env.discount_spec

    def reset(self, *, seed=None, options=None):
        observation, info = self.env.reset(seed=seed, options=options)
        return envoi.Reset(self.see(observation), info)

    def step(self, action):
        step = self.env.step(self.act(action))
        return step._replace(observation=self.see(step.observation))

    @property
    def state(self):
        return self.env.state

    @property
    def observation(self):
        return self.see(self.env.observation)

    @property
    def rng(self):
        return self.env.rng

    @rng.setter
    def rng(self, generator):
        self.env.rng = generator


class Shallow(Changed):
    """An environment for frameworks without nesting: observations are a dict of plain leaves, actions an array."""

    def __init__(self, env):
        super().__init__(env)
        self.whole = env.observation_spec, env.action_spec
        self.observation_spec = {path: self._plain(leaf) for path, leaf in leaves(env.observation_spec)}
        size = sum(int(np.prod(leaf.shape)) for _, leaf in leaves(env.action_spec))
        self.action_spec = Array((size,), "float64")

    def _plain(self, leaf):
        if isinstance(leaf, Array) and not leaf.shape:
            return Array((1,), leaf.dtype, name=leaf.name)
        return replace(leaf, start=0) if hasattr(leaf, "start") else leaf

    def see(self, observation):
        starts = [getattr(leaf, "start", 0) for _, leaf in leaves(self.whole[0])]
        values = [value - start for (_, value), start in zip(leaves(observation), starts, strict=True)]
        each = zip(self.observation_spec.items(), values, strict=True)
        return {path: np.reshape(value, leaf.shape) for (path, leaf), value in each}

    def act(self, action):
        left = action.tolist()

        def part(leaf):
            numbers = [left.pop(0) for _ in range(int(np.prod(leaf.shape)))]
            return np.array(numbers).astype(leaf.dtype).reshape(leaf.shape)[()]

        return map_leaves(part, self.env.action_spec)


class Deep(Changed):
    """An environment that `Shallow` has simplified, with its original specs."""

    def __init__(self, env, observation_spec, action_spec):
        super().__init__(env)
        self.observation_spec, self.action_spec = observation_spec, action_spec

    def see(self, observation):
        left = iter(observation.values())
        return map_leaves(lambda one: next(left).reshape(one.shape) + getattr(one, "start", 0), self.observation_spec)

    def act(self, action):
        return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for _, leaf in leaves(action)])


class OneLane(Changed):
    """The one lane of a batch as an environment."""

    def __init__(self, batch):
        super().__init__(batch)
        self.observation_spec, self.action_spec = batch.observation_spec, batch.action_spec

    def see(self, observation):
        return lane(self.observation_spec, observation, 0)

    def act(self, action):
        return stack(self.action_spec, [action])

    def reset(self, *, seed=None, options=None):
        observation, infos = super().reset(seed=None if seed is None else [seed], options=options)
        return envoi.Reset(observation, infos[0])

    def step(self, action):
        observation, *others = super().step(action)
        reward, terminated, truncated, discount, info = (value[0] for value in others)
        return envoi.Step(observation, reward, bool(terminated), bool(truncated), discount, info)
