"""Environments with one fault each, as they are met in the wild, and the requirement that each of them breaks."""

import random

import dm_env
import gymnasium
import numpy as np
from dm_env import specs
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

import envoi
from envoi import Array, BatchEnv, Discrete, Lanes, models

# gymnasium.


class Walk(gymnasium.Env):
    """A right one: a random walk that ends far out, or is cut off after 30 steps."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.at = np.zeros(2)
        self.time = 0

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


class AliasedBuffer(Walk):
    """It returns the same array each time, overwritten."""

    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(2, np.float32)

    def see(self):
        self.buffer[:] = super().see()
        return self.buffer


class AliasedInTheMiddle(Walk):
    """Only between a reset and an end it returns the same array each time."""

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        if not (terminated or truncated):
            if not hasattr(self, "buffer"):
                self.buffer = np.zeros(2, np.float32)
            self.buffer[:] = seen
            seen = self.buffer
        return seen, reward, terminated, truncated, info


class LateOverwrite(Walk):
    """It keeps the first observation of an episode, and zeroes it at the next reset."""

    kept = None

    def reset(self, *, seed=None, options=None):
        if self.kept is not None:
            self.kept[:] = 0
        self.kept, info = super().reset(seed=seed)
        return self.kept, info


class SeedIgnored(Walk):
    """It draws from a generator of its own that nothing seeds."""

    def __init__(self):
        super().__init__()
        self.own = np.random.default_rng()

    def draw(self):
        return self.own.normal(size=2)


class SeedOnlyOnce(Walk):
    """Only its first seed counts."""

    seeded = False

    def begin(self, seed):
        super().begin(None if self.seeded else seed)
        self.seeded = self.seeded or seed is not None


class SeedForOneEpisode(Walk):
    """A plain reset takes new entropy from the operating system."""

    def begin(self, seed):
        super().begin(seed)
        if seed is None:
            self.np_random = np.random.default_rng()


class ZeroIsNoSeed(Walk):
    """`if seed:` instead of `if seed is not None:`."""

    def begin(self, seed):
        super().begin(seed if seed else None)
        if not seed and self.time == 0:
            self.np_random = np.random.default_rng()


class OutOfSpaceAtTheEnd(Walk):
    """Where an episode is over, it shows what it never clips."""

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            seen = seen + np.array([0, 100], np.float32)
        return seen, reward, terminated, truncated, info


class WrongDtype(Walk):
    """float64 in a float32 space."""

    def see(self):
        return super().see().astype(np.float64)


class LimitTerminates(Walk):
    """Its time limit is told as a termination."""

    max_steps = 12

    def step(self, action):
        seen, reward, _, _, info = super().step(action)
        return seen, reward, self.time >= self.max_steps, False, info


class HiddenLimitTerminates(LimitTerminates):
    """The same, and it does not say that it has one."""

    max_steps = None

    def step(self, action):
        seen, reward, _, _, info = Walk.step(self, action)
        return seen, reward, self.time >= 60, False, info


class SharedState(Walk):
    """Its state is an attribute of the class."""

    place = np.zeros(2)

    @property
    def at(self):
        return SharedState.place

    @at.setter
    def at(self, value):
        SharedState.place = value


class GlobalNumpy(Walk):
    """It draws from `np.random`."""

    def draw(self):
        return np.random.normal(size=2)  # noqa: NPY002


class GlobalPython(Walk):
    """It draws from `random`."""

    def draw(self):
        return np.array([random.gauss(0, 1), random.gauss(0, 1)])


class SeedsGlobalNumpy(GlobalNumpy):
    """It seeds `np.random`, which is everybody's."""

    def begin(self, seed):
        super().begin(seed)
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002


class WritesAction(Walk):
    """It clips the action in place."""

    action_space = spaces.Box(-1, 3, (1,), np.float32)

    def step(self, action):
        np.clip(action, 0, 1, out=action)
        return super().step(action)


class WritesOptions(Walk):
    """It fills in the options that it was given."""

    def reset(self, *, seed=None, options=None):
        if options is not None:
            options.setdefault("size", 3)
        return super().reset(seed=seed)


class NoReward(Walk):
    """Now and then there is no reward."""

    def step(self, action):
        seen, reward, *rest = super().step(action)
        return seen, None if self.time == 3 else reward, *rest


class NanReward(Walk):
    """0 / 0."""

    def step(self, action):
        seen, reward, *rest = super().step(action)
        return seen, float("nan") if self.time == 3 else reward, *rest


class IntegerFlags(Walk):
    """0 and 1 for False and True."""

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, int(terminated), truncated, info


class NoInfo(Walk):
    """None for nothing to say."""

    def step(self, action):
        return *super().step(action)[:4], None


class ReusedInfo(Walk):
    """One dict for all infos, overwritten."""

    def __init__(self):
        super().__init__()
        self.info = {}

    def reset(self, *, seed=None, options=None):
        seen, _ = super().reset(seed=seed)
        self.info["time"] = 0
        return seen, self.info

    def step(self, action):
        *values, _ = super().step(action)
        self.info["time"] = self.time
        return *values, self.info


class SameInfo(ReusedInfo):
    """One dict for all infos, which never changes, until its receiver writes into it."""

    def step(self, action):
        *values, _ = Walk.step(self, action)
        return *values, self.info


class NewSpaces(Walk):
    """A property makes the space each time it is asked for."""

    @property
    def action_space(self):
        return spaces.Discrete(3)


class LookingDraws(Walk):
    """Rendering draws from the generator of the dynamics."""

    def __init__(self):
        super().__init__("rgb_array")

    def render(self):
        self.draw()
        return super().render()


class SamplingDraws(Walk):
    """Its action space samples from the generator of the dynamics."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(3)

    def begin(self, seed):
        super().begin(seed)
        self.action_space._np_random = self.np_random


class WritesMetadata(Walk):
    """Each new one writes into the metadata of the class."""

    metadata = {"render_modes": [], "made": 0}

    def __init__(self):
        super().__init__()
        self.metadata["made"] += 1


class ClosesOnce(Walk):
    """A second close() finds nothing to close."""

    window = "open"

    def close(self):
        del self.__dict__["open"]

    def reset(self, *, seed=None, options=None):
        self.open = True
        return super().reset(seed=seed)


class CopySharesItself(Walk):
    """A copy is the environment itself."""

    def __deepcopy__(self, memo):
        return self


class Unrenderable(Walk):
    """Its picture has its axes in another order."""

    def __init__(self):
        super().__init__("rgb_array")

    def render(self):
        return np.zeros((3, 4, 4), np.uint8)


class Raises(Walk):
    """A fault in its seventh step."""

    def step(self, action):
        if self.time == 6:
            raise ZeroDivisionError("nobody thought of that")
        return super().step(action)


class OldApi(Walk):
    """As it was before 2022."""

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, terminated or truncated, info


class Speechless(Walk):
    """Fit for gymnasium, and with a space that dm_env cannot express."""

    observation_space = spaces.Dict({"seen": Walk.observation_space, "more": spaces.Sequence(spaces.Discrete(3))})

    def see(self):
        return {"seen": super().see(), "more": (0, 1)}


# dm_env.


class Line(dm_env.Environment):
    """A right one: a random walk on a line that is seeded by its method."""

    def __init__(self):
        self.rng = np.random.default_rng()
        self.at, self.time = np.zeros(1), 0

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


class FreshLine(Line):
    """A right one, also before its first reset."""

    def __init__(self):
        super().__init__()
        self.time = -1


class LineAliased(FreshLine):
    """It returns the array in which it keeps its place."""

    def see(self):
        if not hasattr(self, "place"):
            self.place = np.zeros(1)
        self.place[:] = self.at
        return self.place


class LineNoReward(FreshLine):
    """A step in the middle without a reward."""

    def tell(self, reward):
        return super().tell(None if self.time == 4 else reward)


class LineDiscountTwo(FreshLine):
    """A discount above 1."""

    def tell(self, reward):
        return super().tell(reward)._replace(discount=2.0)


class LineUnseeded(FreshLine):
    """A function of the operating system's entropy, which no seed reaches."""

    seed = None

    def __init__(self):
        self.at, self.time = np.zeros(1), -1

    @property
    def rng(self):
        return np.random.default_rng()


class LineStays(FreshLine):
    """After the end it stays there."""

    def step(self, action):
        if self.time >= 10:
            return dm_env.truncation(0.0, self.see())
        return super().step(action)


# Core.


class Steps(envoi.Model):
    """A right one."""

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


class WritesState(Steps):
    """Its transition changes the state that it is given, which a snapshot holds."""

    def transition(self, state, action, rng):
        state[:] = super().transition(state, action, rng)
        return state


class CoreDtype(Steps):
    """float64 in a float32 spec."""

    def observe(self, state, rng):
        return np.array([state[0]], np.float64)


class CoreGoesOn(envoi.Wrapper):
    """A wrapper that begins the next episode by itself."""

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


class AllLanesAnew(Lanes):
    """A reset of some lanes is one of all."""

    def reset(self, *, seed=None, options=None, mask=None):
        return super().reset(seed=seed, options=options)


class LanesShareAStream(Lanes):
    """All lanes draw from the generator of the first."""

    def step(self, action, restart=None):
        for env in self.envs[1:]:
            env.streams.dynamics = self.envs[0].streams.dynamics
        return super().step(action, restart)


# PettingZoo.

AGENTS = ("anna", "bert", "cleo", "dora")


class Party(ParallelEnv):
    """A right one: guests leave one by one, and a reward goes round in a circle."""

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
        told = self.told(playing, gone)
        rewards = dict.fromkeys(told, 0.0)
        if len(playing) > 1:
            rewards[playing[0]], rewards[playing[1]] = self.gain, -1.0
        return (
            {agent: self.see(agent) for agent in self.seen(told, gone)},
            rewards,
            {agent: agent in gone for agent in told},
            dict.fromkeys(told, False),
            {agent: {"action_mask": self.mask(agent)} for agent in told},
        )

    gain = 1.0

    def told(self, playing, gone):
        return playing

    def seen(self, told, gone):
        return told


class PartyReversed(Party):
    """Its agents come in another order than it declares."""

    def order(self, agents):
        return list(reversed(agents))


class PartyOfASet(Party):
    """Its agents come in the order of a set."""

    def __init__(self):
        super().__init__()
        self.possible_agents = list(set(AGENTS))


class PartyGhosts(Party):
    """It goes on telling of guests that have left."""

    def told(self, playing, gone):
        self.left += [agent for agent in gone if agent not in self.left]
        return [agent for agent in self.possible_agents if agent in playing or agent in self.left]


class PartyNoFarewell(Party):
    """Who leaves sees nothing any more."""

    def seen(self, told, gone):
        return [agent for agent in told if agent not in gone]


class PartyStuck(Party):
    """Nothing is legal for a guest that may not pass."""

    def mask(self, agent):
        return np.zeros(3, np.int8) if self.time == 4 and agent == "cleo" else np.ones(3, np.int8)


class PartyGenerous(Party):
    """A zero-sum game, as it says, in which somebody gets more than another pays."""

    gain = 1.5


class PartyVanishing(Party):
    """A guest vanishes without an end."""

    def step(self, actions):
        seen, rewards, terminated, truncated, infos = super().step(actions)
        terminated["dora"] = False
        return seen, rewards, terminated, truncated, infos


class Turns(AECEnv):
    """A right one: two take turns for a while."""

    metadata = {"name": "turns", "is_parallelizable": False, "render_modes": []}

    def __init__(self):
        super().__init__()
        self.possible_agents = ["one", "two"]
        self._see, self._do = spaces.Box(-100, 100, (2,), np.float32), spaces.Discrete(2)

    def observation_space(self, agent):
        return self._see

    def action_space(self, agent):
        return self._do

    def observe(self, agent):
        return np.array([self.place, self.time], np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.place, self.time = float(self.rng.normal()), 0
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def step(self, action):
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        agent = self.agent_selection
        self._cumulative_rewards[agent] = 0.0
        self.place, self.time = self.place + float(action), self.time + 1
        self.rewards = {one: 1.0 if one == agent else -1.0 for one in self.agents}
        self.agent_selection = self.agents[(self.agents.index(agent) + 1) % 2]
        if self.time >= 9:
            self.truncations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()


class TurnsLookingDraws(Turns):
    """Whoever observes moves the world."""

    def observe(self, agent):
        if hasattr(self, "looks"):
            self.looks += 1
        else:
            self.looks = 0
        return np.array([self.place + self.looks % 2, self.time], np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.looks = 0


def core_that_goes_on():
    """A core environment that needs no reset."""
    return CoreGoesOn(Steps())


def lanes_all_anew() -> BatchEnv:
    """A batch whose lanes begin anew together."""
    return AllLanesAnew([models.make("cartpole") for _ in range(3)])


def lanes_that_share() -> BatchEnv:
    """A batch whose lanes know of each other."""
    return LanesShareAStream([Steps() for _ in range(3)])


RIGHT = {
    "gymnasium": Walk,
    "dm_env": FreshLine,
    "core": Steps,
    "parallel": Party,
    "aec": Turns,
}
"""Those that the wrong ones are made of."""

WRONG = {
    AliasedBuffer: {"observation-stays"},
    AliasedInTheMiddle: {"observation-stays"},
    LateOverwrite: {"observation-stays"},
    SeedIgnored: {"repeats-anew", "seed-repeats"},
    SeedOnlyOnce: {"seed-repeats"},
    SeedForOneEpisode: {"repeats-anew", "seed-lasts"},
    ZeroIsNoSeed: {"seed-zero"},
    OutOfSpaceAtTheEnd: {"observation-in-spec"},
    WrongDtype: {"observation-dtype"},
    SharedState: {"instances-apart"},
    GlobalNumpy: {"no-global-generator"},
    GlobalPython: {"no-global-generator"},
    SeedsGlobalNumpy: {"no-global-generator"},
    WritesAction: {"action-stays"},
    WritesOptions: {"options-stay"},
    NoReward: {"reward-given"},
    NanReward: {"reward-given"},
    IntegerFlags: {"flags-are-bools"},
    NoInfo: {"info-is-dict"},
    ReusedInfo: {"info-stays"},
    SameInfo: {"info-stays"},
    NewSpaces: {"same-spaces"},
    LookingDraws: {"looking-is-free"},
    SamplingDraws: {"sampling-is-free"},
    WritesMetadata: {"metadata-stays"},
    ClosesOnce: {"closes-twice"},
    CopySharesItself: {"copies"},
    Unrenderable: {"renders"},
    Raises: {"plays"},
    OldApi: {"plays"},
    LineAliased: {"observation-stays"},
    LineNoReward: {"reward-given"},
    LineDiscountTwo: {"discount-in-spec"},
    WritesState: {"snapshots"},
    CoreDtype: {"observation-dtype"},
    core_that_goes_on: {"after-the-end"},
    lanes_all_anew: {"lanes-apart"},
    lanes_that_share: {"lanes-like-alone"},
    PartyReversed: {"agents-in-order"},
    PartyOfASet: {"hash-order"},
    PartyGhosts: {"ended-are-silent"},
    PartyNoFarewell: {"final-observation"},
    PartyStuck: {"mask-legal"},
    PartyGenerous: {"zero-sum"},
    PartyVanishing: {"agents-complete"},
    TurnsLookingDraws: {"looking-is-free"},
    LimitTerminates: {"limit-truncates"},
}
"""What makes a wrong environment, and exactly the requirements that it breaks."""

REMARKED = {
    HiddenLimitTerminates: "limit-truncates",
    LineUnseeded: "seed-reaches",
    LineStays: "after-the-end",
}
"""What makes one that may be meant so, and what is remarked of it."""
