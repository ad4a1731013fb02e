"""PettingZoo's AEC API, both ways.

| core | PettingZoo |
|---|---|
| specs, values, infos, discounts, masks, `state`, one agent | as in `envoi.adapters.pettingzoo` |
| the agents that act next, in their order | `agent_selection`, one by one; the core steps when the last has acted |
| a step's rewards | `rewards`; `last()` gives what an agent has collected since it acted |
| a step's flags | `terminations`, `truncations`; who has ended stays until its turn with None |
| observations, waiting agents' too | `observe(agent)` |
| the action mask | `info["action_mask"]`; of zeros for who does not act, where there are masks |

On the way here a step is one action of `agent_selection`, whose turn it is. The turns of the dead are run through: an
agent ends, with what `last()` says then, in the step after which the source gives it its turn with None, which most
sources do at once. Rewards are summed as `last()` sums them. With `simultaneous` a step is a whole cycle, in which
every agent in play acts once; a source that says that it is parallelizable promises that only the end of it is seen.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| rewards that are dicts, lists or tuples | type | refused |

Refused on the way here: environments without `possible_agents`; agents that return after their end, or leave without a
flag; with `simultaneous`, agents that end or lose their turn in the middle of a cycle.

Decided at construction: as in `envoi.adapters.pettingzoo`. Left for a step: to keep an action, or the core's own step;
the source's own step, and a look at flags, rewards and infos.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from sys import getrefcount
from typing import Any, NoReturn, cast

import numpy as np
from numpy import ndarray
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel_wrapper, turn_based_aec_to_parallel_wrapper
from pettingzoo.utils.wrappers import BaseWrapper

from envoi import Discrete, Env, EpisodeError, LossyConversion, MultiEnv, MultiReset, validate
from envoi.protocol.env import ENDED, NOT_RESET
from envoi.protocol.multi_env import COMMON, MASK, SYNTHETIC, RawMultiStep

from .agents import several_agents
from .discounts import with_discounts
from .losses import Loss
from .pettingzoo import from_pettingzoo
from .registry import from_env, is_of
from .spaces import from_space, to_space
from .values import HOLDERS, Copy, owned
from .zoo_forms import NAME, Form, acts_at_once, agents_infos
from .zoo_forms import losses as shared_losses
from .zoo_sources import FromZoo

__all__ = [
    "FromPettingZooAEC",
    "ToPettingZooAEC",
    "from_pettingzoo_aec",
    "from_space",
    "losses",
    "recognises",
    "to_pettingzoo_aec",
    "to_space",
]


def _refused_rewards(multi: MultiEnv) -> list[LossyConversion]:
    return [
        LossyConversion(f"reward[{agent!r}]", "type", repr(spec), NAME, "AEC rewards are summed; make it one array")
        for agent, spec in multi.reward_spec.items()
        if isinstance(spec, (dict, list, tuple))
    ]


class _AfterReset:
    """An attribute that a reset sets; unlike a `__getattr__`, it does not slow down the others."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, form: Any, owner: type) -> Any:
        raise AttributeError(f"{self._name}: {NOT_RESET}")


class ToPettingZooAEC(Form, AECEnv[Any, Any, Any]):
    """A core environment as a PettingZoo AEC one.

    Args:
        core: The core environment, of one agent or of several.
        validate: Check every value against its spec.

    Attributes:
        core: The core environment.
        multi: The same, as one of several agents.
        agents: The agents in play, and those who have ended and not had their last turn; from the first reset on, as
            all that follow. PettingZoo's own code changes this list.
        agent_selection: Whose turn it is.
        rewards: Of the last step, by agent.
        terminations: By agent.
        truncations: By agent.
        infos: By agent.
    """

    agents = cast("list[Any]", _AfterReset())
    agent_selection = cast("Any", _AfterReset())
    rewards = cast("dict[Any, Any]", _AfterReset())
    terminations = cast("dict[Any, bool]", _AfterReset())
    truncations = cast("dict[Any, bool]", _AfterReset())
    infos = cast("dict[Any, Any]", _AfterReset())

    def __init__(self, core: Env | MultiEnv, validate: bool = False) -> None:
        multi = several_agents(core)
        for error in _refused_rewards(multi):
            raise error
        self._validate = validate
        super().__init__(core, validate, bool(acts_at_once(multi)))

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begins an episode; see `pettingzoo.AECEnv.reset`."""
        self._observations, infos = self._env.reset(seed=seed, options=options)
        multi = self.multi
        self.agents = agents = list(multi.agents)
        self.rewards = dict.fromkeys(agents, 0)
        self._cumulative_rewards = dict.fromkeys(agents, 0)
        self.terminations, self.truncations = dict.fromkeys(agents, False), dict.fromkeys(agents, False)
        self._acting, self._actions = multi.acting, {}
        self.infos = self._with_masks(agents_infos(infos))
        self.agent_selection = self._acting[0]
        self._skip_agent_selection = None
        self.metadata["is_parallelizable"] = multi.turn is None

    def step(self, action: Any) -> None:
        """Acts for `agent_selection`; see `pettingzoo.AECEnv.step`.

        Args:
            action: A value of its action space; None if it has ended.

        Raises:
            EpisodeError: Before the first reset, or after the end.
            ValueError: An agent that has ended acts.
        """
        if not getattr(self, "agents", None):
            raise EpisodeError(f"step: {ENDED if 'agents' in vars(self) else NOT_RESET}")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if agent in self._decoders:
            action = self._decoders[agent](action)
        if self._validate:  # now, and not when the last has acted
            validate(self.multi.action_spec[agent], action, f"action[{agent!r}]")
        actions, acting = self._actions, self._acting
        actions[agent] = action
        if len(actions) == len(acting):
            self._go_on(actions)
            return
        self.agent_selection = acting[len(actions)]
        self._cumulative_rewards[agent] = 0
        self.rewards = dict.fromkeys(self.rewards, 0)

    def _go_on(self, actions: dict[Any, Any]) -> None:
        """Steps the core with the actions that have been collected."""
        try:
            observations, rewards, terminated, truncated, discounts, infos = self._step(actions)
        except BaseException:
            self._actions = {**actions}  # a copy of its own; if the core refused an action, another can be given
            raise
        self._actions = {}
        self._observations = observations
        # In a quiet step the agents and their flags are still those of before.
        if terminated is not None:
            self.agents, self.terminations, self.truncations = [*rewards], terminated, truncated
            infos = with_discounts(infos, discounts, terminated)
        if COMMON in infos:
            infos = agents_infos(infos)
        collected, self._cumulative_rewards = self._cumulative_rewards, {**rewards}
        if len(actions) < len(collected):
            for waiting, before in collected.items():
                if waiting not in actions:
                    self._cumulative_rewards[waiting] = before + rewards[waiting]
        self._acting = acting = self.multi.acting
        if acting:
            self.agent_selection = acting[0]
        if len(acting) < len(infos):
            infos = self._with_masks(infos)
        self.rewards, self.infos = rewards, infos
        if terminated is not None and (True in terminated.values() or True in truncated.values()):
            # Own dicts: PettingZoo's code removes the dead from them.
            self.rewards, self.infos = {**rewards}, {**infos}
            self.terminations, self.truncations = {**terminated}, {**truncated}
            self._deads_step_first()

    def _with_masks(self, infos: Mapping[Any, Any]) -> dict[Any, Any]:
        """Infos in which, where there are masks, everybody has one: PettingZoo's wrappers look for it.

        Who does not act may do nothing.
        """
        if self._acting:
            self._has_masks = MASK in infos[self._acting[0]]
        specs = self.multi.action_spec if self._has_masks else {}
        nothing = {
            agent: {MASK: np.zeros(spec.n, np.int8)}
            for agent, spec in specs.items()
            if isinstance(spec, Discrete) and agent in infos and agent not in self._acting
        }
        return {agent: {**nothing.get(agent, {}), **info} for agent, info in infos.items()}

    def observe(self, agent: Any) -> Any:
        """What an agent sees now, or an ended one saw last."""
        seen = self._observations
        seen = seen[agent] if agent in seen else self.multi.observation(agent)
        return self._encoders[agent](seen) if agent in self._encoders else seen

    def last(self, observe: bool = True) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """What `agent_selection` has to know, the rewards summed since it acted; see `pettingzoo.AECEnv.last`."""
        agent = self.agent_selection
        return (
            self.observe(agent) if observe else None,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self.infos[agent],
        )

    def agent_iter(self, max_iter: int = 2**63) -> Iterator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Gives `agent_selection` until nobody is left, at most `max_iter` times."""
        while max_iter > 0 and self.agents:
            max_iter -= 1
            yield self.agent_selection

    def __repr__(self) -> str:
        return f"to_pettingzoo_aec({self.core!r})"


def _baseline() -> int:
    (alone,) = ([],)
    return getrefcount(alone)


_ALONE = _baseline()
"""The count of what nobody holds but a local variable."""


class FromPettingZooAEC(FromZoo):
    """A PettingZoo AEC environment as a core one.

    Args:
        source: The PettingZoo environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.
        simultaneous: Whether a step is a whole cycle, in which every agent in play acts once.

    Attributes:
        source: The PettingZoo environment.
    """

    source: AECEnv[Any, Any, Any]

    _memory = (*FromZoo._memory, "_listed", "_current")
    _planned = (*FromZoo._planned, "_selected")

    def __init__(self, source: AECEnv[Any, Any, Any], copy: Copy = "auto", simultaneous: bool = False) -> None:
        super().__init__(source, copy, simultaneous)
        self._listed: list[Any] | None = None
        self._current: tuple[Any, ...] = ()  # those whose last observation is of now

    def _plan(self) -> None:
        super()._plan()
        self._native: Any = self._holder()

    def _await(self) -> None:
        super()._await()
        self._selected: Any = self._acting[0] if self._acting else None

    def _holder(self) -> Any:
        """The innermost layer from which `rewards` and the like can be read, which is faster than through wrappers."""
        layer: Any = self.source
        names = ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos")
        while isinstance(layer, BaseWrapper):
            if any(name in vars(layer) or hasattr(type(layer), name) for name in names):
                return self.source
            layer = layer.env
        return layer

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return None if self.at_once else self._acting

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        self._begin(seed, options)
        self._native = native = self._holder()
        now = self._in_play(native.agents)
        self._stand_at(now, native.agents)
        seen = {agent: self._observed(agent) for agent in self._acting}
        self._saw, self._current = dict(seen), tuple(seen)
        return MultiReset(seen, self._heard(native.infos, now))

    def raw_step(self, actions: Mapping[Any, Any]) -> RawMultiStep:
        return self._cycle_step(actions) if self.at_once else self.five_step(actions, None)

    def five_step(self, actions: Mapping[Any, Any], flags: Mapping[Any, bool] | None) -> Any:
        """`raw_step`, or with flags what `envoi.protocol.multi_env.five_step` says."""
        if self.at_once:
            return self._cycle_step(actions)
        native, source, agent = self._native, self.source, self._selected
        if len(actions) != self._awaited or agent not in actions:
            self._sorted(actions)
        before = None if self._rewarder is None else self.state
        source.step(actions[agent] if agent not in self._encoders else self._encoders[agent](actions[agent]))
        rewards, false = native.rewards, self._false
        if (
            native.terminations != false
            or native.truncations != false
            or native.agents != self._listed
            or len(rewards) != len(false)
            or before is not None
        ):
            return self._any_step(rewards, before, actions)
        agent = native.agent_selection
        # The common case of `take`, as in `FromPettingZoo`.
        one = source.observe(agent)
        if (
            type(one) is not ndarray
            or one.dtype is not self._dtypes[agent]
            or getrefcount(one) > _ALONE
            or not one.flags.owndata
        ):
            one = self._takes[agent](one)
        self._selected, self._saw[agent] = agent, one
        self._acting = self._current = (agent,)
        earned: dict[Any, Any] = {}
        heard: dict[Any, Any] = {}
        for each in self._agents:
            paid = rewards[each]
            earned[each] = paid if type(paid) not in HOLDERS else owned(paid)
            heard[each] = {}
        if native.infos != self._silent:
            return self._quiet({agent: one}, earned, native.infos)
        if flags is None:
            return {agent: one}, earned, None, None, None, heard
        return {agent: one}, earned, {**flags}, {**flags}, heard

    def _cycle_step(self, actions: Mapping[Any, Any]) -> RawMultiStep:
        """`raw_step` where all act at once."""
        native, look = self._native, self.source.observe
        if len({**self._slots, **actions}) != self._awaited or len(actions) != self._awaited:
            self._sorted(actions)
        before = None if self._rewarder is None else self.state
        rewards, false = self._cycle(actions), self._false
        if (
            native.terminations != false
            or native.truncations != false
            or native.agents != self._listed
            or len(rewards) != len(false)
            or before is not None
        ):
            return self._any_step(rewards, before, actions)
        seen: dict[Any, Any] = {}
        earned: dict[Any, Any] = {}
        heard: dict[Any, Any] = {}
        for agent, dtype in self._each:
            one = look(agent)
            if type(one) is not ndarray or one.dtype is not dtype or getrefcount(one) > _ALONE or not one.flags.owndata:
                one = self._takes[agent](one)
            paid = rewards[agent]
            seen[agent], heard[agent] = one, {}
            earned[agent] = paid if type(paid) not in HOLDERS else owned(paid)
        self._saw |= seen
        self._current = self._acting
        if native.infos != self._silent:
            return self._quiet(seen, earned, native.infos)
        return seen, earned, None, None, None, heard

    def _any_step(self, rewards: Mapping[Any, Any], before: Any, actions: Mapping[Any, Any]) -> RawMultiStep:
        """The core's step for what has become of the source, whatever it is."""
        playing, native = self._agents, self._native
        collected = {agent: owned(reward) for agent, reward in rewards.items()}  # the source may clear its own
        ended = self._buried(collected)
        listed = native.agents
        now = self._in_play(listed)
        self._check_standing(playing, now, ended)
        spoken = self._spoken(playing, now, ended)
        self._stand_at(now, listed)
        infos = {**native.infos, **{agent: told for agent, (_, _, _, told) in ended.items()}}
        terminated, truncated = dict.fromkeys(spoken, False), dict.fromkeys(spoken, False)
        discounts = dict.fromkeys(spoken, 1.0)
        seen: dict[Any, Any] = {}
        for agent in spoken:
            if agent in ended:
                final, dead, cut, _ = ended[agent]
                seen[agent] = self._last_look(agent) if final is None else final
                terminated[agent], truncated[agent], discounts[agent] = dead, cut, 0.0 if dead else 1.0
            elif agent in self._acting:
                seen[agent] = self._observed(agent)
        self._ended.update(ended)
        self._seen.update(seen)
        self._current = tuple(seen)
        earned = {agent: collected.get(agent, 0.0) for agent in spoken}
        if before is not None:
            earned = self._rewarded(earned, before, actions)
        heard = self._heard(infos, spoken, discounts)
        for agent, (final, *_) in ended.items():
            if final is None:
                heard[agent][SYNTHETIC] = True
        return seen, earned, terminated, truncated, discounts, heard

    def _observed(self, agent: Any) -> Any:
        seen = self.source.observe(agent)  # `take` counts on a local variable
        return self._takes[agent](seen)

    def _heard(
        self, infos: Mapping[Any, Any], spoken: Sequence[Any], discounts: dict[Any, Any] | None = None
    ) -> dict[Any, Any]:
        heard = super()._heard(infos, spoken, discounts)
        if self._form is not None:
            for agent in spoken:
                if agent not in self._acting and MASK in heard[agent] and not np.any(heard[agent][MASK]):
                    del heard[agent][MASK]  # our form's own addition
        return heard

    def _cycle(self, actions: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The rewards that follow the actions of all, each in its turn."""
        native, encoders, step = self._native, self._encoders, self.source.step
        waiting = {**actions}
        earlier: dict[Any, Any] = {}
        begun = False
        try:
            while True:
                agent = native.agent_selection
                if agent not in waiting or native.terminations[agent] or native.truncations[agent]:
                    self._refuse_cycle(agent, waiting)
                action = waiting.pop(agent)
                step(encoders[agent](action) if agent in encoders else action)
                begun = True
                if not waiting:
                    return _sum(earlier, native.rewards) if earlier else native.rewards
                try:
                    brought = any(native.rewards.values())
                except ValueError:  # arrays
                    brought = True
                if earlier or brought:
                    earlier = _sum(earlier, native.rewards)
        except BaseException:
            if begun:  # a cycle that was begun anew would not be one of the source's
                self._stand((), ())
            raise

    def _refuse_cycle(self, agent: Any, waiting: Collection[Any]) -> NoReturn:
        expected = [one for one in self._agents if one in waiting]
        self._stand((), ())
        raise EpisodeError(
            f"step: expected the turn of one of {expected} in this cycle of {self.source}, got that of {agent!r}; "
            "import it without `simultaneous`"
        )

    def _buried(self, collected: dict[Any, Any]) -> dict[Any, Any]:
        """Runs through the turns of the dead.

        Args:
            collected: Rewards by agent; what a dead agent's turn brings is added.

        Returns:
            By agent the last observation (or None), both flags, and the info.
        """
        native, ended = self._native, {}
        while native.agents:
            agent = native.agent_selection
            dead, cut = native.terminations[agent], native.truncations[agent]
            if not (dead or cut):
                break
            if agent in self._ended:
                break  # it has come back, and is refused as such
            if agent in ended:
                self._stand((), ())
                raise EpisodeError(f"agents: {agent!r} is still in play in {self.source} after its last turn")
            final = self.source.observe(agent)
            if final is not None:
                final = self._takes[agent](final, True)
            ended[agent] = final, bool(dead), bool(cut), native.infos.get(agent)
            self.source.step(None)
            if any(np.any(reward) for reward in native.rewards.values()):
                own = {agent: reward for agent, reward in native.rewards.items() if agent not in ended}
                collected.update(_sum(collected, own))
        return ended

    def _stand_at(self, agents: tuple[Any, ...], listed: Collection[Any]) -> None:
        """Notes who is in play, and whose turn it is."""
        selected = agents if self.at_once else (self._native.agent_selection,)
        self._listed = list(listed)  # the source changes its own
        self._stand(agents, selected if agents else ())

    def observation(self, agent: Any) -> Any:
        # What a waiting agent has seen is not what it would see now.
        if agent in self._agents and agent not in self._current:
            self._seen[agent] = self._observed(agent)
            self._current = (*self._current, agent)
        return super().observation(agent)

    def __repr__(self) -> str:
        return f"from_pettingzoo_aec({self.source})"


def _sum(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """The sums of rewards by agent. The 0 of a turn that brings nothing leaves the other's type as it is."""
    total = {**one}
    for agent, reward in other.items():
        before = total.get(agent, 0)
        total[agent] = owned(reward) if type(before) is int and before == 0 else before + reward
    return total


def recognises(env: object) -> bool:
    """Whether `env` is an environment of this API."""
    return isinstance(env, AECEnv)


def to_pettingzoo_aec(env: Any, *, validate: bool = False) -> AECEnv[Any, Any, Any]:
    """Any environment as a PettingZoo AEC one.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises. A Parallel
            environment comes as `from_pettingzoo_aec` says.
        validate: Check every value against its spec, with an error that names agent, leaf, step and episode.

    Returns:
        An `AECEnv` with `.core`; the very same object for what came from this API.

    Raises:
        LossyConversion: PettingZoo cannot express a part of it.
    """
    if is_of(env, "pettingzoo_aec") and not validate:
        return env
    core = from_pettingzoo_aec(env) if isinstance(env, ParallelEnv) else from_env(env)
    multi = several_agents(core)
    if isinstance(multi, FromPettingZooAEC) and multi._rewarder is None and not validate:
        return multi.source
    return ToPettingZooAEC(core, validate)


def from_pettingzoo_aec(env: Any, *, copy: Copy = "auto", simultaneous: bool = False) -> Env | MultiEnv:
    """A PettingZoo environment as a core one, seen through the AEC API.

    Args:
        env: An AEC environment, wrappers and all. Or a Parallel one, which is imported as such; what PettingZoo's own
            `aec_to_parallel` and `turn_based_aec_to_parallel` made is taken out of it.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.
        simultaneous: Whether a step of the core is a whole cycle, in which every agent in play acts once. This is
            exact for a source whose metadata say `is_parallelizable`.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: The source does not say which agents may appear, or a space is of a kind that nobody but its
            author knows.
    """
    if isinstance(env, ToPettingZooAEC):
        return env.core
    if isinstance(env, (aec_to_parallel_wrapper, turn_based_aec_to_parallel_wrapper)):
        return from_pettingzoo_aec(env.aec_env, copy=copy, simultaneous=simultaneous)
    return FromPettingZooAEC(env, copy, simultaneous) if isinstance(env, AECEnv) else from_pettingzoo(env, copy=copy)


def losses(env: Env | MultiEnv) -> list[Loss]:
    """What of a core environment would not survive the way to the AEC API and back."""
    return shared_losses(env) + [Loss.of(error) for error in _refused_rewards(several_agents(env))]
