"""Scripted games of several agents, as core models and as PettingZoo sources."""

from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv
from traces import exact

import envoi
from envoi import Array, Discrete
from envoi.protocol.multi_env import COMMON


class Scene(NamedTuple):
    """One step of a script. The first scene of a script is its reset.

    Attributes:
        live: The agents in play from here on.
        turn: Those of them that act next; None for all.
        rewards: The rewards by agent; 0.0 for the others.
        terminated: The agents that terminated in this step.
        truncated: The agents that were truncated in this step.
        discounts: The discounts that are not the default, by agent.
        infos: The infos by agent, or under `"__common__"`.
        masks: The masks of the agents that act next.
        unseen: The agents that ended without a final observation.
    """

    live: tuple = ()
    turn: tuple | None = None
    rewards: dict = {}
    terminated: tuple = ()
    truncated: tuple = ()
    discounts: dict = {}
    infos: dict = {}
    masks: dict = {}
    unseen: tuple = ()


# Neither in alphabetical order, nor in the order in which they join.
AGENTS = ("zoe", "adam", "mia", "bob", "eve")

LEGAL = np.array([1, 0, 1, 0, 1, 1, 1], np.int8)
"""The longest mask; an agent's is its beginning."""


def mask(agent):
    """The mask of an agent in the scripts here: the first `Discrete` action is legal, the second is not."""
    return LEGAL[: 3 + AGENTS.index(agent)].copy()


PLAY = (
    Scene(("zoe", "adam"), infos={"zoe": {"hello": 1}, COMMON: {"round": 0}}, masks={"adam": mask("adam")}),
    Scene(
        ("zoe", "adam"),
        rewards={"zoe": 16777217.0, "adam": 2**40},
        discounts={"zoe": 0.5, "adam": 0},
        infos={"zoe": {"word": "no", "none": None, "mixed": 1.9, 3: True}, "adam": {"mixed": True, "word": {"a": 1}}},
    ),
    # One joins late, one dies without a last look.
    Scene(("zoe", "mia"), rewards={"adam": -2.5, "mia": 0.125}, terminated=("adam",), unseen=("adam",)),
    # Both flags for one, a discounted cut for the other, and others take over.
    Scene(
        ("bob", "eve"),
        rewards={"zoe": 0.1, "mia": -0.1},
        terminated=("zoe",),
        truncated=("zoe", "mia"),
        discounts={"mia": 0.99},
        infos={COMMON: {"round": 3}},
        masks={"bob": mask("bob"), "eve": mask("eve")},
    ),
    Scene(("bob", "eve"), rewards={"bob": np.float32(0.1)}, discounts={"eve": 0.99}),
    # A mixed end.
    Scene((), rewards={"bob": 1.0, "eve": -1.0}, terminated=("bob",), truncated=("eve",), infos={"eve": {"bye": 1}}),
)
"""All at once: staggered and mixed ends, a late joiner, a hand-over, a death unseen, both flags, discounts, masks."""

TURNS = (
    Scene(("zoe", "adam"), ("adam",), infos={"zoe": {"hello": 1}, COMMON: {"turn": 0}}, masks={"adam": mask("adam")}),
    Scene(("zoe", "adam"), ("zoe",), rewards={"zoe": 16777217.0, "adam": 2**40}, discounts={"adam": 0.5}),
    # The same agent again, with rewards that the waiting one collects.
    Scene(("zoe", "adam"), ("zoe",), rewards={"zoe": 0.25, "adam": 0.1}, infos={"adam": {"word": "no", 3: None}}),
    # One joins late, and the one that waits dies.
    Scene(
        ("zoe", "mia"), ("mia",), rewards={"adam": 0.2, "mia": 1.5}, terminated=("adam",), masks={"mia": mask("mia")}
    ),
    Scene(("zoe", "mia"), ("zoe",), rewards={"zoe": -3.0}),
    # A hand-over: both end, one of them unseen, and others take over.
    Scene(
        ("bob", "eve"),
        ("eve",),
        rewards={"zoe": 0.1, "mia": -0.1},
        terminated=("zoe",),
        truncated=("zoe", "mia"),
        discounts={"mia": 0.99},
        infos={COMMON: {"turn": 5}},
        unseen=("mia",),
    ),
    Scene(
        ("bob", "eve"), ("bob",), rewards={"bob": np.float32(0.1)}, discounts={"eve": 0.99}, masks={"bob": mask("bob")}
    ),
    Scene((), (), rewards={"bob": 1.0, "eve": -1.0}, terminated=("bob",), truncated=("eve",), infos={"eve": {"x": 1}}),
)
"""One acts at a time: with all of that too, and with agents that wait."""


def observation(agent, draw, step):
    """The observation of an agent; each agent's has its own shape."""
    index = AGENTS.index(agent)
    return np.array([draw, step] + [index] * index, np.float64)


class ScriptedGame(envoi.MultiModel):
    """A core environment that plays a script; its state is the step and a random number.

    Args:
        scenes: The script.
        noise: True if observations are random each time they are made.
    """

    possible_agents = AGENTS
    observation_spec = {agent: Array((2 + i,), "float64", name="noise, step") for i, agent in enumerate(AGENTS)}
    action_spec = {agent: Discrete(3 + i, start=5, name="choice") for i, agent in enumerate(AGENTS)}
    state_spec = Array((2,), "float64", name="step and noise")

    def __init__(self, *scenes, noise=False):
        self.scenes, self.noise = scenes or PLAY, noise
        self.acted = []

    def scene(self, state):
        return self.scenes[int(state[0])]

    def initial(self, rng, context):
        return np.array([0, rng.random()])

    def transition(self, state, actions, rng):
        self.acted.append(dict(actions))
        return np.array([state[0] + 1, rng.random()])

    def observe(self, state, agent, rng):
        if agent in self.scene(state).unseen:
            return None
        return observation(agent, rng.random() if self.noise else state[1], state[0])

    def reward(self, state, actions, next_state):
        return dict(self.scene(next_state).rewards)

    def terminal(self, state):
        return self.scene(state).terminated

    def truncated(self, state):
        return self.scene(state).truncated

    def discount(self, state):
        return self.scene(state).discounts

    def live(self, state):
        return self.scene(state).live

    def mask(self, state, agent):
        return self.scene(state).masks.get(agent)

    def info(self, state):
        return {agent: dict(info) for agent, info in self.scene(state).infos.items()}

    def draw(self, state):
        return np.full((4, 5, 3), int(state[0]), np.uint8)


class TurnGame(ScriptedGame):
    """A `ScriptedGame` whose agents take turns."""

    def __init__(self, *scenes, noise=False):
        super().__init__(*(scenes or TURNS), noise=noise)

    def turn(self, state):
        return self.scene(state).turn


class _Script:
    """The base of both kinds of sources: spaces, reused buffers, and a record of resets and actions."""

    metadata = {"render_modes": ["ansi"], "render_fps": 7, "name": "scripted_v0"}
    render_mode = "ansi"
    state_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, *scenes, reuse=True):
        self.scenes, self.reuse, self.at = scenes, reuse, 0
        self.possible_agents, self.agents = list(AGENTS), []
        self._spaces = {
            agent: (spaces.Box(-np.inf, np.inf, (2 + i,), np.float64), spaces.Discrete(3 + i, start=5))
            for i, agent in enumerate(AGENTS)
        }
        self._buffers = {agent: np.zeros(2 + i) for i, agent in enumerate(AGENTS)}
        self.np_random, _ = seeding.np_random(0)
        self.resets, self.actions = [], []

    def observation_space(self, agent):
        return self._spaces[agent][0]

    def action_space(self, agent):
        return self._spaces[agent][1]

    def _begin(self, seed, options):
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        self.resets.append((seed, None if options is None else dict(options)))
        if options is not None:
            options["written"] = True
        self.at, self.drawn = 0, self.np_random.random()

    def _go_on(self, actions):
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), (agent, action)
        self.actions.append(dict(actions))
        self.at, self.drawn = self.at + 1, self.np_random.random()
        return self.scenes[self.at]

    def _look(self, agent):
        seen = observation(agent, self.drawn, self.at)
        if not self.reuse:
            return seen
        self._buffers[agent][:] = seen
        return self._buffers[agent]

    def _say(self, agent, scene):
        """An agent's info."""
        said = dict(scene.infos.get(agent, {}))
        if agent in scene.discounts:
            said["discount"] = scene.discounts[agent]
        if agent in scene.masks:
            said["action_mask"] = scene.masks[agent].copy()
        return said

    def state(self):
        return np.array([self.at, self.drawn])


class ParallelSource(_Script, ParallelEnv):
    """A PettingZoo Parallel environment that plays a script in which all act at once.

    Its dicts are in the reverse order of the agents and lack default entries, and its infos have an entry of no
    specific agent.
    """

    def __init__(self, *scenes, reuse=True):
        super().__init__(*(scenes or PLAY), reuse=reuse)

    def reset(self, seed=None, options=None):
        self._begin(seed, options)
        scene = self.scenes[0]
        self.agents = list(scene.live)
        return {agent: self._look(agent) for agent in reversed(scene.live)}, self._infos(scene, scene.live)

    def step(self, actions):
        assert set(actions) == set(self.agents), (list(actions), self.agents)
        scene = self._go_on(actions)
        actions.clear()  # each step has a dict of its own
        spoken = [a for a in reversed(AGENTS) if a in self.agents or a in scene.live]
        self.agents = list(scene.live)
        return (
            {agent: self._look(agent) for agent in spoken if agent not in scene.unseen},
            {agent: scene.rewards.get(agent, 0.0) for agent in spoken},
            {agent: agent in scene.terminated for agent in spoken},
            {agent: agent in scene.truncated for agent in spoken},
            self._infos(scene, spoken),
        )

    def _infos(self, scene, spoken):
        infos = {agent: self._say(agent, scene) for agent in spoken}
        infos = {agent: info for agent, info in infos.items() if info}
        if COMMON in scene.infos:
            infos[COMMON] = dict(scene.infos[COMMON])
        return infos


class AECSource(_Script, AECEnv):
    """A PettingZoo AEC environment that plays a script.

    In a scene without a turn, all agents in play act in a cycle, and the next scene follows the last of them.
    """

    def __init__(self, *scenes, reuse=True):
        super().__init__(*(scenes or TURNS), reuse=reuse)
        self.metadata = {**self.metadata, "is_parallelizable": all(scene.turn is None for scene in self.scenes)}

    def reset(self, seed=None, options=None):
        self._begin(seed, options)
        scene = self.scenes[0]
        self.agents = list(scene.live)
        self._skip_agent_selection = None
        self._tell(scene, self.agents)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self._give_turn(scene)

    def observe(self, agent):
        return None if agent in self.scenes[self.at].unseen else self._look(agent)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self._clear_rewards()
        self._collected[agent] = action
        if self._waiting:
            self.agent_selection = self._waiting.pop(0)
            return
        scene = self._go_on(self._collected)
        self.agents = [a for a in AGENTS if a in self.agents or a in scene.live]
        self._tell(scene, self.agents)
        self._cumulative_rewards = {a: self._cumulative_rewards.get(a, 0) for a in self.agents}
        self._accumulate_rewards()
        self._give_turn(scene)
        self._deads_step_first()

    def _tell(self, scene, agents):
        self.rewards = {a: scene.rewards.get(a, 0.0) for a in agents}
        self.terminations = {a: a in scene.terminated for a in agents}
        self.truncations = {a: a in scene.truncated for a in agents}
        common = {COMMON: dict(scene.infos[COMMON])} if COMMON in scene.infos else {}
        self.infos = {a: {**self._say(a, scene), **common} for a in agents}

    def _give_turn(self, scene):
        self._collected = {}
        order = [a for a in AGENTS if a in scene.live and (scene.turn is None or a in scene.turn)]
        if order:
            self.agent_selection, *self._waiting = order


def legal(spec, allowed, rng):
    """A random action that a mask allows."""
    if allowed is None or not isinstance(spec, Discrete):
        return envoi.sample(spec, rng)
    return spec.dtype.type(spec.start + rng.choice(np.flatnonzero(allowed)))


def played(env, seeds=(0, None, None, 1, 0), options=None, rng=0, most=10_000):
    """The trace of a core environment over whole episodes under random actions; `seeds` has one for each reset."""
    actions, said = np.random.default_rng(rng), []
    for seed in seeds:
        observations, infos = env.reset(seed=seed, options=options)
        said.append((env.turn, env.agents, exact(observations), exact(infos)))
        for _ in range(most):
            if not env.agents:
                break
            given = {a: legal(env.action_spec[a], infos[a].get("action_mask"), actions) for a in env.acting}
            step = env.step(given)
            infos = step.infos
            # A discount is the number that it is, of whatever type.
            discounts = {agent: np.asarray(factor, np.float64) for agent, factor in step.discounts.items()}
            said.append((exact(given), env.turn, env.agents, [*map(exact, step._replace(discounts=discounts))]))
    return said
