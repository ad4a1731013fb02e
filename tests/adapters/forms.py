"""All forms of an environment as one table: how each is made, played by its own API, read back, and imitated.

A requirement that is the same for every framework is tested once, over this table. The environments here record all
arguments, and write into everything that a converter must not share.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import cloudpickle
import dm_env
import gymnasium
import numpy as np
from absent import is_absent, optional
from gymnasium.vector import VectorEnv
from traces import exact

import envoi
from envoi import Array, Discrete, MultiBinary, MultiDiscrete
from envoi.adapters.dm_env import FromDmEnv, ToDmEnv
from envoi.adapters.gymnasium import FromGymnasium, ToGymnasium, to_space
from envoi.adapters.gymnasium_vector import FromGymnasiumVector, ToGymnasiumVector
from envoi.adapters.rllib import RLlibEnv
from envoi.adapters.rllib.form import RLlibVectorEnv
from envoi.adapters.tf_agents import FromTFAgents, FromTFAgentsBatch, PyEnvironment, ToTFAgents, ToTFAgentsBatch
from envoi.lane_values import stack

AECEnv, ParallelEnv = (optional("pettingzoo", name) for name in ("AECEnv", "ParallelEnv"))
FromPettingZoo, ToPettingZoo = (optional("envoi.adapters.pettingzoo", f"{way}PettingZoo") for way in ("From", "To"))
FromPettingZooAEC, ToPettingZooAEC = (
    optional("envoi.adapters.pettingzoo_aec", f"{way}PettingZooAEC") for way in ("From", "To")
)
MultiAgentEnv = optional("ray.rllib.env.multi_agent_env", "MultiAgentEnv")
RLlibMultiEnv = optional("envoi.adapters.rllib.multi_form", "RLlibMultiEnv")
FromRLlibMulti = optional("envoi.adapters.rllib.multi_source", "FromRLlibMulti")
VecEnv = optional("stable_baselines3.common.vec_env", "VecEnv")
ToSB3, FromSB3 = (optional("envoi.adapters.sb3", name) for name in ("ToSB3", "FromSB3"))

LANES = 3


# Core environments.


class Walk(envoi.Model):
    """Episodes of a random length and kind of end; it empties every action mapping that it is given."""

    observation_spec = {"z": Array((2,), "float64", name="draws"), "a": Discrete(3, start=5)}
    action_spec = {"y": Discrete(3, start=-4), "b": MultiDiscrete([2, 3], [1, -4])}
    metadata = {"render_fps": 7, "deep": {"list": [1]}}

    def __init__(self):
        self.contexts, self.acted, self.closed = [], [], 0

    def initial(self, rng, context):
        self.contexts.append(dict(context))
        return (0, int(rng.integers(2, 6)), int(rng.integers(3)), rng.random())

    def transition(self, state, action, rng):
        envoi.validate(self.action_spec, action, "action")
        self.acted.append(deepcopy(action))
        spoil(action)
        return (state[0] + 1, *state[1:3], rng.random())

    def observe(self, state, rng):
        return {"z": np.array([state[3], rng.random()]), "a": np.int64(5 + state[0] % 3)}

    def reward(self, state, action, next_state):
        return 0.1 * next_state[0]

    def terminal(self, state):
        return state[0] == state[1] and state[2] != 1

    def truncated(self, state):
        return state[0] == state[1] and state[2] != 0

    def discount(self, state):
        return 0.5 if state[0] % 2 else None

    def info(self, state):
        return {"at": state[0], "kind": ("word", None, 1.5)[state[2]]}

    def draw(self, state):
        return np.full((4, 5, 3), state[0], np.uint8)

    def close(self):
        self.closed += 1


class PlainWalk(Walk):
    """A walk that counts from 0, with actions in one array, as Stable-Baselines3's algorithms take them."""

    observation_spec = {**Walk.observation_spec, "a": Discrete(3)}
    action_spec = MultiDiscrete([3, 2, 3])

    def observe(self, state, rng):
        return {**super().observe(state, rng), "a": np.int64(state[0] % 3)}


ZOE, ADAM, MIA = "zoe", "adam", "mia"


class Crowd(envoi.MultiModel):
    """Three agents of different kinds that end at random times, each in its own way; one joins in the second step."""

    possible_agents = (ZOE, ADAM, MIA)
    observation_spec = {
        ZOE: {"z": Array((2,), "float64", name="draws"), "a": Discrete(3, start=5)},
        ADAM: Array((3,), "float32"),
        MIA: MultiBinary((2,)),
    }
    action_spec = {
        ZOE: Discrete(3, start=5),
        ADAM: {"y": Discrete(3, start=-4), "b": MultiDiscrete([2, 3], [1, -4])},
        MIA: MultiDiscrete([2, 2]),
    }
    state_spec = Array((7,), "float64", name="step, ends, ways, noise")
    metadata = {"render_fps": 7, "deep": {"list": [1]}, "name": "crowd_v0"}

    def __init__(self):
        self.contexts, self.acted, self.closed = [], [], 0

    def initial(self, rng, context):
        self.contexts.append(dict(context))
        return np.array([0, *rng.integers(3, 7, 3), *rng.integers(2, size=2), rng.random()], float)

    def transition(self, state, actions, rng):
        for agent, action in actions.items():
            envoi.validate(self.action_spec[agent], action, agent)
        self.acted.append(deepcopy(actions))
        for action in (*actions.values(), actions):
            if isinstance(action, dict):
                action.clear()
        return np.array([state[0] + 1, *state[1:6], rng.random()])

    def observe(self, state, agent, rng):
        if agent == ZOE:
            return {"z": np.array([state[6], rng.random()]), "a": np.int64(5 + state[0] % 3)}
        if agent == ADAM:
            return np.array([state[0], state[6], rng.random()], np.float32)
        return np.array([state[0] % 2, 1], np.int8)

    def _ends(self, state):
        return {agent: state[0] == state[1 + i] for i, agent in enumerate(self.possible_agents)}

    def reward(self, state, actions, next_state):
        return {ZOE: 0.1 * next_state[0], ADAM: -0.1 * next_state[0], MIA: 2.0**40}

    def terminal(self, state):
        ends = self._ends(state)
        return [agent for agent, way in ((ZOE, 1), (ADAM, state[4]), (MIA, 0)) if ends[agent] and way]

    def truncated(self, state):
        ends = self._ends(state)
        return [agent for agent, way in ((ZOE, state[5]), (ADAM, not state[4]), (MIA, 1)) if ends[agent] and way]

    def live(self, state):
        return [a for i, a in enumerate(self.possible_agents) if state[0] < state[1 + i] and (a != MIA or state[0])]

    def discount(self, state):
        return {ZOE: 0.5} if state[0] % 2 else None

    def info(self, state):
        at = int(state[0])
        return {ZOE: {"at": at, "mixed": (None, "word")[at % 2]}, "__common__": {"round": at}}

    def mask(self, state, agent):
        return np.array([1, 0, state[0] % 2], np.int8) if agent == ZOE else None

    def draw(self, state):
        return np.full((4, 5, 3), int(state[0]), np.uint8)

    def close(self):
        self.closed += 1


class Paid(Walk):
    """Rewards are two numbers."""

    reward_spec = Array((2,), "float64", name="two")

    def reward(self, state, action, next_state):
        return np.array([next_state[0], next_state[3]])


class PaidCrowd(Crowd):
    """Rewards are two numbers for each."""

    reward_spec = dict.fromkeys(Crowd.possible_agents, Paid.reward_spec)

    def reward(self, state, actions, next_state):
        return {agent: np.array([next_state[0], next_state[6]]) for agent in self.possible_agents}


def lanes(env=None):
    return envoi.batch(Walk() if env is None else env, LANES)


CORES = {"one": Walk, "several": Crowd, "lanes": lanes}


def models(core):
    """The models inside of a core environment."""
    core = core.env if isinstance(core, envoi.ActionOffset) else core
    return list(core.envs) if isinstance(core, envoi.Lanes) else [core]


# Third-party environments of each framework, not recognised as forms, which behave as the core inside.


class Stranger:
    """Records its arguments, and writes into all that it may consider its own.

    It returns the same containers and arrays again and again, and empties the mappings of actions after use.
    """

    def __init__(self, held):
        self.held, self.store, self.resets, self.given, self.closed = held, {}, [], [], 0
        space = getattr(getattr(held, "core", None), "reward_spec", None)
        if isinstance(space, Array) and space.shape:
            self.reward_space = to_space(space)  # MO-gymnasium's convention

    def begin(self, seed=None, options=None):
        self.resets.append((seed, deepcopy(options)))
        result = self.held.reset(seed=seed, options=deepcopy(options))
        if options is not None:
            options["written"] = True
            options.get("a", {}).clear()
        return result

    def take(self, action):
        """A copy of an action for the environment inside; what was given is spoilt."""
        self.given.append(deepcopy(action))
        spoil(action)
        return deepcopy(self.given[-1])

    def lend(self, value, key=()):
        """A value in containers and arrays that are used again each time."""
        if isinstance(value, dict):
            held = self.store.setdefault(key, type(value)())
            for stale in [k for k in held if k not in value]:
                del held[stale]
            held.update({k: self.lend(v, (*key, k)) for k, v in value.items()})
            return held
        if isinstance(value, np.ndarray) and value.dtype != object:
            held = self.store.setdefault((key, value.shape), np.zeros_like(value))
            held[...] = value
            return held
        return value

    def render(self):
        return self.held.render()

    def close(self):
        self.closed += 1


def forwarded(*names):
    """Methods that call those of the environment inside."""
    return [lambda self, *args, name=name, **rest: getattr(self.held, name)(*args, **rest) for name in names]


def of_held(*names):
    """Properties that read those of the environment inside."""
    return [property(lambda self, name=name: getattr(self.held, name)) for name in names]


def spoil(value):
    """Empties a mapping, and those in it."""
    if isinstance(value, dict):
        for part in value.values():
            spoil(part)
        value.clear()


class StrangeGym(Stranger, gymnasium.Env):
    def __init__(self, held):
        super().__init__(held)
        self.observation_space, self.action_space = held.observation_space, held.action_space
        self.metadata, self.render_mode = deepcopy(held.metadata), held.render_mode
        self._np_random_seed = -1

    @property
    def _np_random(self):
        return self.held.core.rng

    @_np_random.setter
    def _np_random(self, generator):
        self.held.core.rng = generator

    def reset(self, *, seed=None, options=None):
        observation, info = self.begin(seed, options)
        return self.lend(observation), info

    def step(self, action):
        observation, reward, *rest = self.held.step(self.take(action))
        return self.lend(observation), self.lend(reward, ("reward",)), *rest


class StrangeVector(Stranger, VectorEnv):
    def __init__(self, held):
        super().__init__(held)
        self.num_envs, self.render_mode = held.num_envs, held.render_mode
        self.observation_space, self.action_space = held.observation_space, held.action_space
        self.single_observation_space = held.single_observation_space
        self.single_action_space = held.single_action_space
        self.metadata = deepcopy(held.metadata)
        self._np_random_seed = -1

    _np_random = StrangeGym._np_random

    reset = StrangeGym.reset

    def step(self, actions):
        observation, reward, *rest, infos = self.held.step(self.take(actions))
        if "final_obs" in infos:
            own = self.store.setdefault("final_obs", np.full(self.num_envs, None, object))
            own[:] = [None if f is None else self.lend(f, ("final", i)) for i, f in enumerate(infos["final_obs"])]
            infos = {**infos, "final_obs": own}
        return self.lend(observation), self.lend(reward, ("reward",)), *rest, infos


SPECS = ("observation_spec", "action_spec", "reward_spec", "discount_spec")


class StrangeDmEnv(Stranger, dm_env.Environment):
    observation_spec, action_spec, reward_spec, discount_spec = forwarded(*SPECS)

    def seed(self, seed):
        self.held.seed(seed)
        self.resets.append((seed, None))

    def reset(self):
        return self._lent(self.held.reset())

    def step(self, action):
        return self._lent(self.held.step(self.take(action)))

    def _lent(self, step):
        reward = self.lend(step.reward, ("reward",))
        return step._replace(observation=self.lend(step.observation), reward=reward)


class StrangeTF(Stranger, PyEnvironment):
    observation_spec, action_spec, reward_spec, discount_spec, get_info = forwarded(*SPECS, "get_info")
    batched, batch_size = of_held("batched", "batch_size")
    seed, _reset, _step, _lent = StrangeDmEnv.seed, StrangeDmEnv.reset, StrangeDmEnv.step, StrangeDmEnv._lent

    def __init__(self, held):
        PyEnvironment.__init__(self)
        Stranger.__init__(self, held)

    def render(self, mode="rgb_array"):
        return self.held.render(mode)


class _StrangeZoo(Stranger):
    observation_space, action_space = forwarded("observation_space", "action_space")

    def __init__(self, held):
        super().__init__(held)
        self.possible_agents = held.possible_agents
        self.metadata, self.render_mode = deepcopy(held.metadata), held.render_mode
        if hasattr(held, "state_space"):
            self.state_space = held.state_space

    def state(self):
        return self.lend(self.held.state(), ("state",))


class StrangeParallel(_StrangeZoo, ParallelEnv):
    def reset(self, seed=None, options=None):
        observations, infos = self.begin(seed, options)
        self.agents = self.held.agents
        return self.lend(observations), infos

    def step(self, actions):
        observations, rewards, *rest = self.held.step(self.take(actions))
        self.agents[:] = self.held.agents  # in place, as many do
        return self.lend(observations), self.lend(rewards, ("reward",)), *rest


class StrangeAEC(_StrangeZoo, AECEnv):
    agents, agent_selection, terminations, truncations, infos, _cumulative_rewards = of_held(
        "agents", "agent_selection", "terminations", "truncations", "infos", "_cumulative_rewards"
    )

    @property
    def rewards(self):
        return self.lend(self.held.rewards, ("reward",))

    def reset(self, seed=None, options=None):
        self.begin(seed, options)

    def step(self, action):
        self.held.step(None if action is None else self.take(action))

    def observe(self, agent):
        return self.lend(self.held.observe(agent), (agent,))


class StrangeRLlib(Stranger, MultiAgentEnv):
    def __init__(self, held):
        Stranger.__init__(self, held)
        MultiAgentEnv.__init__(self)
        self.possible_agents = list(held.possible_agents)
        self.observation_spaces, self.action_spaces = held.observation_spaces, held.action_spaces
        self.metadata, self.render_mode = deepcopy(held.metadata), held.render_mode
        self._np_random_seed = -1

    _np_random = StrangeGym._np_random

    @property
    def agents(self):
        return list(self.held.core.agents)

    @agents.setter
    def agents(self, agents):
        pass

    (state,) = forwarded("state")
    reset, step = StrangeGym.reset, StrangeGym.step


class StrangeSB3(Stranger, VecEnv):
    get_attr, set_attr, env_method, env_is_wrapped = forwarded("get_attr", "set_attr", "env_method", "env_is_wrapped")

    def __init__(self, held):
        Stranger.__init__(self, held)
        VecEnv.__init__(self, held.num_envs, held.observation_space, held.action_space)
        self.metadata = deepcopy(held.metadata)

    def reset(self):
        seed, options = self._seeds[0], self._options[0] or None
        self.resets.append((seed, deepcopy(options)))
        self.held._seeds = self._seeds
        self.held.set_options(deepcopy(self._options))
        for given in self._options:
            spoil(given)
        self._reset_seeds()
        self._reset_options()
        observation = self.held.reset()
        self.reset_infos = self.held.reset_infos
        return self.lend(observation)

    def step_async(self, actions):
        self.held.step_async(self.take(actions))

    def step_wait(self):
        observation, reward, over, infos = self.held.step_wait()
        self.reset_infos = self.held.reset_infos
        infos = [self.lend(info, ("info", index)) for index, info in enumerate(infos)]
        return self.lend(observation), self.lend(reward, ("reward",)), self.lend(over, ("over",)), infos


# Playing each form by its own API.


class Told(NamedTuple):
    """The result of a step: of one agent, or mappings, or with a lane axis. For AEC, that of `last()`."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


def begin_gym(form, seed=None, options=None):
    return form.reset(seed=seed, options=options)


def step_gym(form, rng):
    return Told(*form.step(act(form.core, rng)))


def act(core, rng):
    """A random action, of the core's spec, whichever way the core is stepped."""
    if isinstance(core, envoi.MultiEnv):
        return {agent: envoi.sample(core.action_spec[agent], rng) for agent in core.acting}
    if core.batch_size is None:
        return envoi.sample(core.action_spec, rng)
    return stack(core.action_spec, [envoi.sample(core.action_spec, rng) for _ in range(core.batch_size)])


def begin_dm(form, seed=None, options=None):
    if seed is not None:
        form.seed(seed)
    if options is not None:
        form.reset_options = options  # of the next reset only
    return form.reset().observation, info_of(form)


def info_of(form):
    """The info of a form of dm_env or TF-Agents, or of each lane."""
    if isinstance(form, ToDmEnv):
        return form.info
    return form.infos if isinstance(form, ToTFAgentsBatch) else form.get_info()


def step_dm(form, rng):
    kind, reward, discount, observation = form.step(act(form.core, rng))
    last, zero = np.asarray(kind) == 2, np.asarray(discount) == 0
    return Told(observation, reward, last & zero, last & ~zero, info_of(form))


def begin_sb3(form, seed=None, options=None):
    if seed is not None:  # `VecEnv.seed(None)` takes a random one
        form.seed(seed)
    form.set_options(options)
    return form.reset(), form.reset_infos


def step_sb3(form, rng):
    observation, reward, over, infos = form.step(act(form.core, rng))
    cut = np.array([info["TimeLimit.truncated"] for info in infos])
    return Told(observation, reward, over & ~cut, cut, infos)


def begin_aec(form, seed=None, options=None):
    form.reset(seed=seed, options=options)
    return form.observe(form.agent_selection), form.infos


def step_aec(form, rng):
    agent = form.agent_selection
    if form.terminations[agent] or form.truncations[agent]:
        form.step(None)
    else:
        form.step(envoi.sample(form.multi.action_spec[agent], rng))
    if not form.agents:
        return None
    return Told(*form.last())


class Form(NamedTuple):
    """A row of the table.

    Attributes:
        kind: `one` agent, `several` agents, or many `lanes`.
        make: The form of a core environment.
        read: The importing class, also for envoi's own form.
        strange: A third-party environment that behaves as the form given to it.
        begin: `(form, seed=None, options=None) -> observation, info`.
        step: `(form, rng) -> Told`; None from an AEC form without agents left.
        resets_itself: True if a step after the end begins an episode.
        takes_options: True if third-party environments of this framework take options.
        tells_info: True if third-party environments of this framework have infos.
        core: The function that makes its core environment; None for that of its kind.
        counts_from_0: True if the framework refuses actions that count from another number.
    """

    kind: str
    make: Callable[[Any], Any]
    read: Callable[[Any], Any]
    strange: Callable[[Any], Any]
    begin: Callable[..., Any] = begin_gym
    step: Callable[..., Any] = step_gym
    resets_itself: bool = False
    takes_options: bool = True
    tells_info: bool = True
    core: Callable[[], Any] | None = None
    counts_from_0: bool = False


def rllib_one(core):
    return RLlibEnv(core, canonical=False, in_evaluation=True)


def rllib_several(core):
    return RLlibMultiEnv(core, canonical=False, in_evaluation=True)


def rllib_lanes(core):
    return RLlibVectorEnv(core, canonical=False, in_evaluation=True)


def plain_lanes():
    return lanes(PlainWalk())


def vector(mode):
    return partial(ToGymnasiumVector, autoreset_mode=mode)


FORMS = {
    "gymnasium": Form("one", ToGymnasium, FromGymnasium, StrangeGym),
    "dm_env": Form("one", ToDmEnv, FromDmEnv, StrangeDmEnv, begin_dm, step_dm, True, False, False),
    "tf_agents": Form("one", ToTFAgents, FromTFAgents, StrangeTF, begin_dm, step_dm, True, False),
    "rllib": Form("one", rllib_one, FromGymnasium, StrangeGym),
    "vector next step": Form("lanes", vector("NextStep"), FromGymnasiumVector, StrangeVector, resets_itself=True),
    "vector same step": Form("lanes", vector("SameStep"), FromGymnasiumVector, StrangeVector, resets_itself=True),
    "vector disabled": Form("lanes", vector("Disabled"), FromGymnasiumVector, StrangeVector),
    "rllib batch": Form("lanes", rllib_lanes, FromGymnasiumVector, StrangeVector, resets_itself=True),
    "tf_agents batch": Form("lanes", ToTFAgentsBatch, FromTFAgentsBatch, StrangeTF, begin_dm, step_dm, True, False),
    "sb3": Form("lanes", ToSB3, FromSB3, StrangeSB3, begin_sb3, step_sb3, True, core=plain_lanes, counts_from_0=True),
    "pettingzoo": Form("several", ToPettingZoo, FromPettingZoo, StrangeParallel),
    "pettingzoo_aec": Form("several", ToPettingZooAEC, FromPettingZooAEC, StrangeAEC, begin_aec, step_aec),
    "rllib several": Form("several", rllib_several, FromRLlibMulti, StrangeRLlib),
}
"""Every form; `rllib` in the spaces of gymnasium, which narrow nothing."""
PRESENT = [name for name, row in FORMS.items() if not is_absent(row.read)]


def core_of(name):
    """A new core environment that a form can take."""
    return (FORMS[name].core or CORES[FORMS[name].kind])()


def made(name):
    """A form of a new core environment."""
    return FORMS[name].make(core_of(name))


def stranger(name):
    """A third-party environment."""
    return FORMS[name].strange(made(name))


def imported(name):
    """An import of a third-party environment."""
    return FORMS[name].read(stranger(name))


def ends(form, told):
    """Returns True if the episode is over after a step."""
    if told is None:
        return True
    if isinstance(form, ToPettingZooAEC):
        return False
    if hasattr(form, "possible_agents"):
        return not form.core.agents
    return bool(np.all(np.asarray(told.terminated) | np.asarray(told.truncated)))


def native_trace(name, form, seeds=(0, None, None), rng=0, steps=7):
    """The trace of a form over episodes, played by its own API; lanes for so many steps each, whatever ends."""
    row, rng, said = FORMS[name], np.random.default_rng(rng), []
    for seed in seeds:
        said.append(exact(row.begin(form, seed)))
        said += native_steps(name, form, rng, steps)
    return said


def native_steps(name, form, rng, steps=7):
    """The steps to the end of the episode; of lanes, so many."""
    row, said = FORMS[name], []
    for _ in range(50 if row.kind != "lanes" else steps):
        told = row.step(form, rng)
        said.append(exact(told))
        if ends(form, told) if row.kind != "lanes" else name == "vector disabled" and any_over(told):
            break
    return said


def any_over(told):
    return bool(np.any(told.terminated | told.truncated))


def core_trace(env, seeds=(0, None, None), rng=0, steps=7, options=None, note=exact):
    """The trace of a core environment over episodes: of each result, what `note` gives of it."""
    rng, said = np.random.default_rng(rng), []
    for seed in seeds:
        said.append(note(env.reset(seed=seed, options=options)))
        said += core_steps(env, rng, steps, note)
    return said


def core_steps(env, rng, steps=7, note=exact):
    """The steps to the end of the episode; of lanes, so many."""
    said = []
    if isinstance(env, envoi.MultiEnv):
        while env.agents:
            said.append(note(env.step(act(env, rng))))
    elif env.batch_size is None:
        over = False
        while not over:
            step = env.step(act(env, rng))
            said.append(note(step))
            over = step.terminated or step.truncated
    else:
        over = np.zeros(env.batch_size, bool)
        for _ in range(steps):
            step = env.step(act(env, rng), over if over.any() and "step" in env.restarts else None)
            said.append(note(step))
            over = step.terminated | step.truncated
            if over.any() and "step" not in env.restarts:
                said.append(note(env.reset(mask=over)))
    return said


# What another process is asked for.


def digest():
    """The traces of every form and every import, made in this process."""
    return {name: (native_trace(name, made(name)), core_trace(imported(name))) for name in PRESENT}


def carried_on(parcel):
    """The further traces of environments that were pickled in mid-episode."""
    return {key: go_on(key, env) for key, env in cloudpickle.loads(parcel).items()}


def go_on(key, env):
    """The further trace of an environment in mid-episode, and of the next episode; `key` is (side, name)."""
    side, name = key
    rng = np.random.default_rng(5)
    if side == "import":
        return [core_steps(env, rng), core_trace(env, (None,))]
    return [native_steps(name, env, rng), native_trace(name, env, (None,))]
