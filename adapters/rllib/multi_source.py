"""Environments of several agents written for RLlib, as core ones.

| RLlib | core |
|---|---|
| the keys of the observations | the agents that act next |
| an agent's own flag, or where it has none that of `"__all__"` | how it ended |
| all agents ended, `"__all__"` or not | the end of the episode |
| `agents`, and every agent with an observation or reward | the agents in play, until they end |
| no reward, or None | 0 |
| `infos["__common__"]` | the same |
| no final observation | the last one again, or zeros where there was none, marked `info["synthetic_observation"]` |

An agent that disappears from `agents` without an end waits until the episode ends, as it does for RLlib.

What is refused: spaces that `envoi.adapters.gymnasium` refuses, agents that are not among the possible ones, and data
for an agent after its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from sys import getrefcount
from typing import Any, cast

import gymnasium
import numpy as np

from envoi import Discrete, EpisodeError, MultiEnv, MultiReset, MultiStep, Snapshot, SpecError, Streams
from envoi.protocol.episode import NOT_BEGUN
from envoi.protocol.multi_env import COMMON, MASK, SYNTHETIC
from envoi.protocol.process import Info
from envoi.protocol.roster import HasRoster, Roster
from envoi.rewards.rewarder import reward_step
from envoi.seeding import check_seed
from envoi.spec import zeros

from ..gymnasium.specs import encoder, from_space
from ..shared.arrival import IN_LOCAL, Copy, incoming
from ..shared.copying import fresh, owned
from ..shared.discounts import is_number
from ..shared.introspection import Content
from ..shared.reset_options import ResetOptions
from .multi_form import ALL, RLlibMultiEnv

__all__ = ["FromRLlibMulti", "from_multi_agent"]


class FromRLlibMulti(HasRoster, ResetOptions, MultiEnv):
    """A `MultiAgentEnv` as a core environment of several agents.

    Where the source is a form of envoi, maybe inside gymnasium's wrappers, its `last` gives what RLlib's step has no
    place for: how each agent ended, discounts, infos of waiting agents.

    Args:
        source: The environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The environment.
    """

    def __init__(self, source: gymnasium.Env[Any, Any], copy: Copy = "auto") -> None:
        self.source = source
        native = source.unwrapped
        self.possible_agents = _possible(native)
        self.observation_spec = {
            agent: from_space(_space(native, agent, "observation"), f"observation_space[{agent!r}]")
            for agent in self.possible_agents
        }
        self.action_spec = {
            agent: from_space(_space(native, agent, "action"), f"action_space[{agent!r}]")
            for agent in self.possible_agents
        }
        if isinstance(native, RLlibMultiEnv):
            self.reward_spec = dict(native.core.reward_spec)
            self.discount_spec = dict(native.core.discount_spec)
            self.state_spec = native.core.state_spec
        self.metadata = deepcopy(dict(source.metadata or {}))
        self.render_mode = source.render_mode
        self._copy: Copy = copy
        self._roster = Roster(self.possible_agents)
        self._closed = False
        self._last: dict[Any, Any] = {}
        self._plan()

    def native_space(self, what: str, agent: Any = None) -> Any:
        """The source's `"observation"` or `"action"` space of an agent; None of an agent that it does not know."""
        return _space(self.source.unwrapped, agent, what) if agent in self.possible_agents else None

    def _plan(self) -> None:
        native = self.source.unwrapped
        self._ours = native if isinstance(native, RLlibMultiEnv) else None
        self._incoming = {agent: incoming(spec, self._copy) for agent, spec in self.observation_spec.items()}
        # The source may keep an action, or change it.
        encoders = {agent: encoder(spec, fresh=True) for agent, spec in self.action_spec.items()}
        self._encode = {agent: encode for agent, encode in encoders.items() if encode}
        self._masked = frozenset() if self._ours else frozenset(filter(self._shows_mask, self.possible_agents))

    def _shows_mask(self, agent: Any) -> bool:
        """Returns whether an agent's observation holds the mask of its actions, as RLlib's masking modules expect."""
        spec, action = self.observation_spec[agent], self.action_spec[agent]
        if not isinstance(spec, dict) or MASK not in spec or not isinstance(action, Discrete):
            return False
        return getattr(spec[MASK], "shape", None) == (action.n,)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        seed = check_seed(seed)
        if seed is not None:
            self._streams = Streams(seed)
            if self._ours:
                self._ours.forget_seeds()  # here an equal seed always replays
        observations, infos = self.source.reset(seed=seed, options=fresh(options) if options else None)
        held = getrefcount(observations) > IN_LOCAL
        unbegun = self._roster = Roster(self.possible_agents)
        if self._ours:
            begun = cast("MultiReset", self._ours.last)
            self._roster = unbegun.begin(self._ours.core.agents, self._ours.core.turn)
            seen, infos = self._taken(self._ours.seen(*begun), True), begun.infos
        else:
            unbegun.check_possible(observations, "reset")
            seen = self._taken(observations, held)
            playing = unbegun.order({*self._listed(), *seen})
            self._roster = unbegun.begin(playing, _turn_of(playing, seen))
        infos = self._infos(infos, self._roster.playing, seen)
        self._last = dict(seen)
        return MultiReset(seen, infos)

    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        self._roster.check_actions(actions)
        rewarder, encode = self._rewarder, self._encode
        before = None if rewarder is None else self.state
        sent = {agent: encode[agent](action) if agent in encode else action for agent, action in actions.items()}
        observations, *others = cast("Any", self.source.step(cast("Any", sent)))
        held = getrefcount(observations) > IN_LOCAL
        result = self._step_of_form() if self._ours else self._step_of_foreign(observations, *others, held=held)
        self._last.update(result.observations)
        if rewarder is not None:
            given = reward_step(rewarder, result.rewards, before, actions, self.state)
            result = result._replace(rewards={agent: given.get(agent, 0.0) for agent in result.rewards})
        return result

    def _step_of_form(self) -> MultiStep:
        form = cast("RLlibMultiEnv", self._ours)
        step = cast("MultiStep", form.last)
        ended = [agent for agent in step.terminated if step.terminated[agent] or step.truncated[agent]]
        core, roster = form.core, self._roster
        playing = core.agents
        self._roster = roster.after(None if playing == roster.playing else playing, ended, core.turn)
        infos = {key: dict(info) for key, info in step.infos.items()}
        seen = self._taken(form.seen(step.observations, step.infos), True)
        return step._replace(observations=seen, infos=infos)

    def _step_of_foreign(
        self,
        observations: dict[Any, Any],
        rewards: dict[Any, Any],
        terminateds: dict[Any, bool],
        truncateds: dict[Any, bool],
        infos: dict[Any, Info],
        held: bool,
    ) -> MultiStep:
        roster = self._roster
        spoken = roster.playing
        if new := {*observations, *rewards, *self._listed()}.difference(spoken):
            heard = [agent for agent in (*observations, *rewards) if agent in new]
            roster.check_possible(heard, "step")
            roster.check_not_ended(heard, "step")
            spoken = roster.order(new.union(spoken))
        seen = self._taken(observations, held)
        of_all = bool(terminateds.get(ALL, False)), bool(truncateds.get(ALL, False))
        terminated: dict[Any, bool] = {}
        truncated: dict[Any, bool] = {}
        for agent in spoken:
            own = bool(terminateds.get(agent, False)), bool(truncateds.get(agent, False))
            terminated[agent], truncated[agent] = own if True in own else of_all
        said = self._infos(infos, spoken, seen)
        gone = [agent for agent in spoken if terminated[agent] or truncated[agent]]
        for agent in gone:
            if agent not in seen:
                # RLlib repeats the last one too.
                has_one = agent in self._last
                seen[agent] = self._last[agent] if has_one else zeros(self.observation_spec[agent])
                said[agent][SYNTHETIC] = True
        discounts: dict[Any, Any] = {}
        for agent in spoken:
            discounts[agent] = 0.0 if terminated[agent] else 1.0
            if "discount" in said[agent] and is_number(said[agent]["discount"]):
                discounts[agent] = said[agent].pop("discount")
        playing = tuple(agent for agent in spoken if agent not in gone) if gone else spoken
        self._roster = roster.after(None if playing is roster.playing else playing, gone, _turn_of(playing, seen))
        given = {agent: rewards.get(agent) for agent in spoken}
        return MultiStep(
            {agent: seen[agent] for agent in roster.order(seen)} if gone else seen,
            {agent: 0.0 if reward is None else owned(reward) for agent, reward in given.items()},
            terminated,
            truncated,
            discounts,
            said,
        )

    def _listed(self) -> set[Any]:
        """Returns the agents that the source lists and that have not ended; some sources list all, always."""
        listed: Iterable[Any] = getattr(self.source.unwrapped, "agents", None) or ()
        return set(listed).intersection(self.possible_agents).difference(self._roster.ended)

    def _taken(self, observations: dict[Any, Any], held: bool) -> dict[Any, Any]:
        take = self._incoming
        agents = tuple(observations)
        if agents != self._roster.playing:
            agents = self._roster.order(agents)
        return {agent: take[agent](observations[agent], held) for agent in agents}

    def _infos(self, infos: Mapping[Any, Info], spoken: tuple[Any, ...], seen: Mapping[Any, Any]) -> dict[Any, Info]:
        said: dict[Any, Info] = {agent: dict(infos.get(agent) or ()) for agent in spoken}
        for info in said.values():
            if MASK in info:
                info[MASK] = owned(info[MASK])
        for agent in self._masked:
            if agent in seen and agent in said:
                said[agent].setdefault(MASK, np.array(seen[agent][MASK], np.int8))
        if COMMON in infos:
            said[COMMON] = dict(infos[COMMON])
        return said

    def observation(self, agent: Any) -> Any:
        if self._ours and agent in self._roster.playing:
            return self._ours.observation(agent) if agent not in self.acting else self._last[agent]
        if agent in self._last:
            return self._last[agent]
        if agent in self._roster.playing:
            raise EpisodeError(f"observation: {agent!r} waits for its first one; RLlib's environments give it in time")
        raise self._roster.unseen(agent)

    @property
    def state(self) -> Any:
        """The source's own `state`, an attribute or a method, where it has one, else the last observations."""
        if self._roster.phase is NOT_BEGUN:
            raise EpisodeError(f"state: {NOT_BEGUN}")
        if self._ours:
            return self._ours.core.state
        state = getattr(self.source.unwrapped, "state", None)
        if callable(state):
            state = state()
        return dict(self._last) if state is None else deepcopy(state)

    @property
    def rng(self) -> np.random.Generator:
        """The source's `np_random`; settable."""
        return self.source.unwrapped.np_random

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        self.source.unwrapped.np_random = generator

    def snapshot(self) -> Snapshot:
        streams = None if self._streams is None else self._streams.copy()
        return Snapshot(type(self), (Content(self._parts()), self._roster, deepcopy(self._last), streams))

    def restore(self, snapshot: Snapshot) -> None:
        content, self._roster, last, streams = self._content(snapshot)
        content.put_back(self._parts())
        self._last = deepcopy(last)
        self._streams = None if streams is None else streams.copy()

    def _parts(self) -> list[Any]:
        """Returns the source's layers, outermost first, and its spaces: the objects that `restore` keeps."""
        layers = [self.source]
        while isinstance(layers[-1], gymnasium.Wrapper):
            layers.append(layers[-1].env)
        if self._ours:
            return layers
        native = layers[-1]
        each = [_space(native, agent, what) for agent in self.possible_agents for what in ("observation", "action")]
        return [*layers, *{id(space): space for space in each}.values()]

    def render(self) -> Any:
        return self.source.render()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        return self.source.unwrapped

    def __getstate__(self) -> dict[str, Any]:
        planned = ("_incoming", "_encode", "_ours", "_masked")
        return {name: value for name, value in vars(self).items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()

    def __repr__(self) -> str:
        return f"from_rllib({self.source})"


def _turn_of(playing: tuple[Any, ...], seen: Mapping[Any, Any]) -> tuple[Any, ...] | None:
    """The agents in play that act next, which are those that are observed; None for all."""
    acting = tuple(agent for agent in playing if agent in seen)
    return None if acting == playing else acting


def _possible(native: Any) -> tuple[Any, ...]:
    """The possible agents of an environment, in the order in which it declares them."""
    declared = getattr(native, "observation_spaces", None) or getattr(
        getattr(native, "observation_space", None), "spaces", None
    )
    ids = getattr(native, "_agent_ids", None) or set()
    agents = getattr(native, "possible_agents", None) or getattr(native, "agents", None) or ()
    if isinstance(ids, set) and set(agents) <= ids and ids:
        # RLlib made the list of a set, whose order differs from process to process.
        agents = sorted(ids, key=str)
    if not agents and isinstance(declared, Mapping):
        agents = tuple(declared)
    if not agents:
        raise SpecError(f"{native}: expected possible_agents, or observation_spaces of each agent; it says neither")
    return tuple(agents)


def _space(native: Any, agent: Any, what: str) -> gymnasium.Space[Any]:
    try:
        space = getattr(native, f"get_{what}_space")(agent)
    except KeyError:
        space = None
    if space is None:
        raise SpecError(f"{native}: expected a space in {what}_spaces for the possible agent {agent!r}, got none")
    return space


def from_multi_agent(env: Any) -> MultiEnv:
    """Returns a `MultiAgentEnv` as a core environment; of a form of envoi its core.

    Args:
        env: The environment, also inside gymnasium's wrappers.
    """
    return env.core if isinstance(env, RLlibMultiEnv) else FromRLlibMulti(env)
