"""Environments with one common fault each, and the requirements that each of them breaks."""

import random
import time

import dm_env
import gymnasium
import numpy as np
from dm_env import specs
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec_wrapper

import envoi
from envoi import Array, BatchEnv, Discrete, Lanes, models

WRONG = {}
"""Makers of wrong environments, with exactly the requirements that each breaks."""


def breaks(*keys):
    """Decorates the maker of an environment that breaks these requirements."""
    return lambda make: WRONG.setdefault(make, {*keys}) and make


def faulty(base, name, keys, then=None, **attributes):
    """Makes a subclass that breaks some requirements; `then` returns wrong values for the right ones of a step."""

    def step(self, action):
        return then(self, *base.step(self, action))

    made = type(name, (base,), attributes | {"__module__": __name__} | ({} if then is None else {"step": step}))
    globals()[name] = breaks(*keys.split("/"))(made) if keys else made
    return made


# gymnasium.


class Walk(gymnasium.Env):
    """Correct: a random walk that terminates far out, and is truncated after 30 steps."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    mode = None

    def __init__(self, render_mode=None):
        self.render_mode = render_mode or self.mode
        self.at = np.zeros(2)
        self.time = 0
        self.info, self.buffer = {}, np.zeros(2, np.float32)

    def draw(self):
        return self.np_random.normal(size=2)

    def see(self):
        return np.clip(self.at, -10, 10).astype(np.float32)

    def begin(self, seed):
        gymnasium.Env.reset(self, seed=seed)

    def reset(self, *, seed=None, options=None):
        self.begin(seed)
        self.at, self.time = self.draw(), 0
        return self.see(), {}

    def step(self, action):
        self.at = self.at + 0.3 * self.draw() + 0.3 * (np.asarray(action).sum() - 1)
        self.time += 1
        terminated = bool(np.abs(self.at).max() > 3)
        return self.see(), -float(np.abs(self.at).sum()), terminated, self.time >= 30, {"time": self.time}

    def render(self):
        return None if self.render_mode is None else np.zeros((4, 4, 3), np.uint8)


class Speechless(Walk):
    """Correct in gymnasium, with a space that dm_env cannot express."""

    observation_space = spaces.Dict({"seen": Walk.observation_space, "more": spaces.Sequence(spaces.Discrete(3))})

    def see(self):
        return {"seen": super().see(), "more": (0, 1)}


class Slow(Walk):
    """Correct, but takes its time."""

    def step(self, action):
        time.sleep(0.05)
        return super().step(action)


@breaks("observation-stays")
class LateOverwrite(Walk):
    """Keeps the first observation of an episode, and zeroes it at the next reset."""

    kept = np.ones(1)

    def reset(self, *, seed=None, options=None):
        self.kept[:] = 0
        self.kept, info = super().reset(seed=seed)
        return self.kept, info


@breaks("resets-twice")
class Once(Walk):
    """Raises an error in the second of two resets in a row."""

    fresh = False

    def reset(self, *, seed=None, options=None):
        if self.fresh:
            raise RuntimeError("was reset already")
        self.fresh = True
        return super().reset(seed=seed)

    def step(self, action):
        self.fresh = False
        return super().step(action)


@breaks("seed-zero")
class ZeroIsNoSeed(Walk):
    """Tests `if seed:` instead of `if seed is not None:`."""

    def begin(self, seed):
        super().begin(seed if seed else None)
        if not seed and self.time == 0:
            self.np_random = np.random.default_rng()


def sampling_draws(env, seed):
    """Lets actions be sampled by the generator of the dynamics."""
    Walk.begin(env, seed)
    env.action_space = spaces.Discrete(3) if env.action_space is Walk.action_space else env.action_space
    env.action_space._np_random = env.np_random


def begin_by_chance(env, seed):
    """Takes new entropy from the operating system in a plain reset."""
    Walk.begin(env, seed)
    if seed is None:
        env.np_random = np.random.default_rng()


def write_options(env, *, seed=None, options=None):
    if options is not None:
        options.setdefault("size", 3)
    return Walk.reset(env, seed=seed)


def write_metadata(env):
    Walk.__init__(env)
    env.metadata["made"] += 1


faulty(Walk, "WritesOptions", "options-stay", reset=write_options)
faulty(Walk, "WritesMetadata", "metadata-stays", metadata={"render_modes": [], "made": 0}, __init__=write_metadata)
faulty(Walk, "SamplingDraws", "sampling-is-free", begin=sampling_draws)
faulty(Walk, "SeedForOneEpisode", "repeats-anew/seed-lasts", begin=begin_by_chance)
faulty(
    Walk, "LookingDraws", "looking-is-free", mode="rgb_array", render=lambda env: (env.draw(), Walk.render(env))[1]
)  # fmt: skip
faulty(
    Walk, "WritesAction", "action-stays", action_space=spaces.Box(-1, 3, (1,), np.float32),
    step=lambda env, action: Walk.step(env, np.clip(action, 0, 1, out=action)),
)  # fmt: skip
faulty(
    Walk, "AliasedBuffer", "observation-stays",
    see=lambda env: np.clip(env.at, -10, 10, out=env.buffer, casting="unsafe"),
)  # fmt: skip
faulty(Walk, "NoReward", "reward-given", lambda env, seen, gain, *rest: (seen, None if env.time == 3 else gain, *rest))
faulty(
    Walk, "NanReward", "reward-given", lambda env, seen, gain, *rest: (seen, np.nan if env.time == 3 else gain, *rest)
)
faulty(Walk, "IntegerFlags", "flags-are-bools", lambda env, seen, gain, over, *rest: (seen, gain, int(over), *rest))
faulty(Walk, "NoInfo", "info-is-dict", lambda env, *values: (*values[:4], None))
faulty(Walk, "SameInfo", "info-stays", lambda env, *values: (*values[:4], env.info))
faulty(Walk, "ReusedInfo", "info-stays", lambda env, *values: (*values[:4], env.info.update(values[4]) or env.info))
faulty(Walk, "OldApi", "plays", lambda env, seen, gain, over, cut, info: (seen, gain, over or cut, info))
faulty(
    Walk, "LimitTerminates", "limit-truncates", max_steps=12,
    then=lambda env, *values: (*values[:2], env.time >= 12, False, {}),
)  # fmt: skip
faulty(
    Walk, "OutOfSpaceAtTheEnd", "observation-in-spec",
    lambda env, seen, reward, *flags: (seen + np.array([0, 100 * any(flags[:2])], np.float32), reward, *flags),
)  # fmt: skip
faulty(Walk, "Raises", "plays", lambda env, *values: values if env.time < 7 else 1 / 0)
faulty(Walk, "WrongDtype", "observation-dtype", see=lambda env: Walk.see(env).astype(np.float64))
faulty(Walk, "SeedIgnored", "repeats-anew/seed-repeats", draw=lambda env: np.random.default_rng().normal(size=2))
faulty(
    Walk, "SeedOnlyOnce", "seed-repeats", begin=lambda env, seed: Walk.begin(env, None if env._np_random else seed)
)  # fmt: skip
faulty(Walk, "GlobalNumpy", "no-global-generator", draw=lambda env: np.random.normal(size=2))  # noqa: NPY002
faulty(
    Walk, "GlobalPython", "no-global-generator", draw=lambda env: np.array([random.gauss(0, 1), random.gauss(0, 1)])
)  # fmt: skip
faulty(
    Walk, "SeedsGlobalNumpy", "no-global-generator", draw=lambda env: np.random.normal(size=2),  # noqa: NPY002
    begin=lambda env, seed: None if seed is None else np.random.seed(seed),  # noqa: NPY002
)  # fmt: skip
faulty(Walk, "NewSpaces", "same-spaces", action_space=property(lambda env: spaces.Discrete(3)))
faulty(
    Walk, "SharedState", "instances-apart", place=np.zeros(2),
    at=property(lambda env: type(env).place, lambda env, value: setattr(type(env), "place", value)),
)  # fmt: skip
faulty(Walk, "CopySharesItself", "copies", __deepcopy__=lambda env, memo: env)
faulty(Walk, "ClosesOnce", "closes-twice", close=lambda env: env.__dict__.pop("at"))
faulty(Walk, "Unrenderable", "renders", mode="rgb_array", render=lambda env: np.zeros((3, 4, 4), np.uint8))
HiddenLimitTerminates = faulty(
    Walk, "HiddenLimitTerminates", "", lambda env, *values: (*values[:2], env.time >= 60, False, {})
)  # fmt: skip


# dm_env.


class Line(dm_env.Environment):
    """Correct: a random walk on a line with a method `seed`."""

    def __init__(self):
        self.rng = np.random.default_rng()
        self.at, self.time = np.zeros(1), -1  # before the first reset

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def observation_spec(self):
        return specs.BoundedArray((1,), np.float64, -100, 100, name="place")

    def action_spec(self):
        return specs.DiscreteArray(2, name="way")

    def see(self):
        return self.at.copy()

    def reset(self):
        self.at, self.time = self.rng.normal(size=1), 0
        return dm_env.restart(self.see())

    def step(self, action):
        if self.time >= 10 or self.time < 0:
            return self.reset()
        self.at = self.at + self.rng.normal() + action
        self.time += 1
        return self.tell(float(self.at[0]))

    def tell(self, reward):
        return dm_env.truncation(reward, self.see()) if self.time >= 10 else dm_env.transition(reward, self.see())


faulty(
    Line, "LineNoReward", "reward-given",
    tell=lambda env, reward: Line.tell(env, None if env.time == 4 else reward),
)  # fmt: skip
faulty(
    Line, "LineDiscountTwo", "discount-in-spec",
    tell=lambda env, reward: Line.tell(env, reward)._replace(discount=2.0),
)  # fmt: skip
LineStays = faulty(
    Line, "LineStays", "", step=lambda env, action: (
        dm_env.truncation(0.0, env.see()) if env.time >= 10 else Line.step(env, action)
    ),
)  # fmt: skip
LineUnseeded = faulty(
    Line, "LineUnseeded", "", seed=None,
    rng=property(lambda env: np.random.default_rng(), lambda env, value: None),
)  # fmt: skip


# Core.


class Steps(envoi.Model):
    """Correct."""

    observation_spec = Array((1,), "float32", 0, 100)
    action_spec = Discrete(2)

    def initial(self, rng, context):
        return [int(rng.integers(3)), 0]

    def transition(self, state, action, rng):
        return [state[0] + int(action) * int(rng.integers(2)), state[1] + 1]

    def observe(self, state, rng):
        return np.array([state[0]], np.float32)

    def reward(self, state, action, next_state):
        return float(next_state[0])

    def terminal(self, state):
        return state[0] >= 20

    def truncated(self, state):
        return state[1] >= 15


faulty(Steps, "Generous", "reward-in-spec", reward_spec=Array((), "float64", 0, 1))
Endless = faulty(
    Steps, "Endless", "", truncated=lambda env, state: False, terminal=lambda env, state: False,
    observe=lambda env, state, rng: np.array([state[0] % 50], np.float32),
)  # fmt: skip


@breaks("snapshots", "state-stays")
class WritesState(Steps):
    """Changes the state that is passed to its transition, which a snapshot holds."""

    def transition(self, state, action, rng):
        state[:] = super().transition(state, action, rng)
        return state


class SilentlyRestarting(envoi.Wrapper):
    """Starts the next episode itself."""

    over = False

    def reset(self, **arguments):
        self.over = False
        return super().reset(**arguments)

    def step(self, action, restart=None):
        if self.over:
            self.reset()
        step = super().step(action)
        self.over = step.terminated or step.truncated
        return step


class ResetsAllLanes(Lanes):
    """Resets all lanes where only some are to be reset."""

    def reset(self, *, seed=None, options=None, mask=None):
        return super().reset(seed=seed, options=options)


class LanesShareAStream(Lanes):
    """Uses the generator of the first lane for all lanes."""

    def step(self, action, restart=None):
        for env in self.envs[1:]:
            env.streams.dynamics = self.envs[0].streams.dynamics
        return super().step(action, restart)


# PettingZoo.

AGENTS = ("anna", "bert", "cleo", "dora")


class Party(ParallelEnv):
    """Correct: guests leave one by one, and rewards sum to zero."""

    metadata = {"name": "party", "zero_sum": True}

    def __init__(self):
        self.possible_agents = list(AGENTS)
        self._spaces = {agent: (spaces.Box(-100, 100, (2,), np.float32), spaces.Discrete(3)) for agent in AGENTS}
        self.agents = []

    def observation_space(self, agent):
        return self._spaces[agent][0]

    def action_space(self, agent):
        return self._spaces[agent][1]

    def order(self, agents):
        return list(agents)

    def mask(self, agent):
        return np.ones(3, np.int8)

    def see(self, agent):
        return np.array([self.place[agent], self.time], np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.time, self.agents = 0, self.order(self.possible_agents)
        self.place = {agent: float(self.rng.normal()) for agent in self.possible_agents}
        self.left = []
        return {a: self.see(a) for a in self.agents}, {a: {"action_mask": self.mask(a)} for a in self.agents}

    def step(self, actions):
        self.time += 1
        playing = self.agents
        for agent, action in actions.items():
            self.place[agent] += float(action) - 1
        gone = {agent for index, agent in enumerate(self.possible_agents) if self.time == 3 + 2 * index}
        self.agents = [agent for agent in playing if agent not in gone]
        reported = self.reported(playing, gone)
        rewards = dict.fromkeys(reported, 0.0)
        if len(playing) > 1:
            rewards[playing[0]], rewards[playing[1]] = self.gain, -1.0
        return (
            {agent: self.see(agent) for agent in self.seen(reported, gone)},
            rewards,
            {agent: agent in gone for agent in reported},
            dict.fromkeys(reported, False),
            {agent: {"action_mask": self.mask(agent)} for agent in reported},
        )

    gain = 1.0

    def reported(self, playing, gone):
        return playing

    def seen(self, reported, gone):
        return reported


faulty(Party, "PartyReversed", "agents-in-order", order=lambda env, agents: agents[::-1])
faulty(
    Party, "PartyOfASet", "hash-order",
    possible_agents=property(lambda env: list(set(AGENTS)), lambda env, value: None),
)  # fmt: skip
faulty(
    Party, "PartyWithoutFinalObservation", "final-observation",
    seen=lambda env, reported, gone: [one for one in reported if one not in gone],
)  # fmt: skip
faulty(
    Party, "PartyStuck", "mask-legal",
    mask=lambda env, agent: np.full(3, not (env.time == 4 and agent == "cleo"), np.int8),
)  # fmt: skip
faulty(Party, "PartyGenerous", "zero-sum", gain=1.5)
faulty(
    Party, "PartyVanishing", "agents-complete",
    lambda env, seen, rewards, terminated, *rest: (seen, rewards, terminated | {"dora": False}, *rest),
)  # fmt: skip


@breaks("ended-are-silent")
class PartyGhosts(Party):
    """Returns values for guests that have left."""

    def reported(self, playing, gone):
        self.left += [agent for agent in gone if agent not in self.left]
        return [agent for agent in self.possible_agents if agent in playing or agent in self.left]


class Turns(parallel_to_aec_wrapper):
    """Correct: the same guests act in turn."""

    def __init__(self):
        super().__init__(Party())


@breaks("looking-is-free")
class ObserveAdvances(Turns):
    """Advances the world in observe()."""

    looks = 0

    def observe(self, agent):
        self.looks += 1
        seen = super().observe(agent)
        return None if seen is None else seen + np.float32(self.looks % 2)

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.looks = 0


@breaks("after-the-end")
def silently_restarting():
    """A core environment that can be stepped without a reset."""
    return SilentlyRestarting(Steps())


@breaks("lanes-apart")
def resets_all_lanes() -> BatchEnv:
    """A batch that resets all lanes where only some are to be reset."""
    return ResetsAllLanes([models.make("cartpole") for _ in range(3)])


@breaks("lanes-like-alone")
def lanes_sharing_a_stream() -> BatchEnv:
    """A batch in which all lanes share one random stream."""
    return LanesShareAStream([Steps() for _ in range(3)])


RIGHT = {"gymnasium": Walk, "dm_env": Line, "core": Steps, "parallel": Party, "aec": Turns}
"""The correct environments that the wrong ones are made from."""

REMARKED = {
    HiddenLimitTerminates: "limit-truncates",
    LineUnseeded: "seed-reaches",
    LineStays: "after-the-end",
    Endless: "ends",
}
"""Makers of environments with a possible fault, with the requirement of the remark."""
