"""A change lifted onto an environment of several agents: it holds for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import tree
from ..errors import SpecError
from ..protocol.fast_steps import fast_multi_step
from ..protocol.multi_env import (
    MultiEnv,
    MultiReset,
    MultiStep,
    MultiStepValues,
    full_multi_step,
    make_multi_step,
)
from ..protocol.process import Info
from ..protocol.roster import check_actions
from ..spec import Spec, zeros
from ..steps.record import OVER
from .change import SPECS, Change, Specs
from .changing import Changing
from .multi_wrapper import MultiWrapper


class LiftedMultiEnv(Changing[MultiEnv], MultiWrapper):
    """A lifted wrapper over an environment of several agents."""

    memory = ("_memories", "_common", "_acted", "_paid", "_fresh", "_cut")

    _memories: Any = None
    _acted: dict[Any, Any]
    _paid: dict[Any, Any]
    _fresh: frozenset[Any]
    _common: Any = None
    _cut: bool = False

    def _plan(self) -> None:
        env = self.env
        changes: dict[Any, Change] = {}
        for agent in env.possible_agents:
            each = (env.observation_spec[agent], env.action_spec[agent], env.reward_spec[agent])
            specs = Specs(*each, env.discount_spec[agent], None, agent)
            changes[agent] = self._checked_change(specs)
        for name in SPECS:
            own = {agent: getattr(change, name) for agent, change in changes.items()}
            if any(spec is not None for spec in own.values()):
                inner = getattr(env, name)
                setattr(self, name, {a: inner[a] if spec is None else spec for a, spec in own.items()})
        self._inner_step = fast_multi_step(env)
        some = next(iter(changes.values()), Change())
        self._shared = some if some.shared else None
        if any(change.truncated is not None and not change.shared for change in changes.values()):
            raise SpecError("change: expected a shared memory to truncate by, for several agents end together")
        self._end, self._watch = some.truncated, some.watch
        self._act, self._see, self._pay, self._tell = (
            {agent: getattr(change, name) for agent, change in changes.items() if getattr(change, name) is not None}
            for name in ("action", "observation", "reward", "info")
        )
        self._begin = {agent: c.begin for agent, c in changes.items() if c.begin is not None and not c.shared}
        self._remember = {agent: c.remember for agent, c in changes.items() if c.remember is not None and not c.shared}
        self._note = {agent: c.note for agent, c in changes.items() if c.note is not None and not c.shared}
        if self._memories is None:
            self._memories, self._acted, self._paid, self._fresh = {}, {}, {}, frozenset()

    @property
    def agents(self) -> tuple[Any, ...]:
        return () if self._cut else self.env.agents

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return None if self._cut else self.env.turn

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observations, infos = self.env.reset(seed=seed, options=options)
        self._common = self._shared.begin(None) if self._shared and self._shared.begin else None
        self._memories, self._acted, self._paid, self._cut = {}, {}, {}, False
        self._fresh = frozenset()
        self._recall(observations, infos)
        return MultiReset(self._seen(observations), self._told(infos))

    def step(self, actions: Mapping[Any, Any], restart: None = None, hold: None = None) -> MultiStep:
        """Acts once; see `MultiEnv.step`."""
        return full_multi_step(self.step_values(actions))

    def step_values(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        if self._cut:
            check_actions(actions, (), OVER)
        inner = actions
        if self._act:
            acting = self.acting
            if len(actions) != len(acting) or any(agent not in actions for agent in acting):
                if not acting:
                    self._inner_step(actions)  # which raises the reason
                check_actions(actions, acting)
            inner = {a: self._act[a](action) if a in self._act else action for a, action in actions.items()}
        values = self._inner_step(inner)
        observations, rewards, terminated, truncated, discounts, infos = values
        if self._shared is not None and self._shared.remember is not None:
            self._common = self._shared.remember(self._common, None, None, None)
        if self._end is not None and self._end(False, self._common):
            observations, rewards, terminated, _, discounts, infos = full_multi_step(values)
            truncated, self._cut = dict.fromkeys(rewards, True), True
            observations = {a: observations[a] if a in observations else self.env.observation(a) for a in rewards}
            super().ended_outside()
        if self._begin:
            self._acted = {**self._acted, **actions}
            self._paid = {**self._paid, **{a: self._with_earlier(a, own) for a, own in rewards.items()}}
            # Later steps leave out an agent that has ended: its memory holds its last observation.
            self._fresh = self._fresh.difference(rewards)
            self._recall(observations, infos)
        seen = self._seen(observations)
        if self._pay:
            rewards = {
                a: self._with_memory(a, self._pay[a], own) if a in self._pay else own for a, own in rewards.items()
            }
        infos = self._told(infos)
        if self._watch is not None:
            self._watch(rewards, terminated, truncated, infos)
        return make_multi_step((seen, rewards, terminated, truncated, discounts, infos))

    def _with_earlier(self, agent: Any, reward: Any) -> Any:
        """Returns an agent's reward, with the rewards from while it waited."""
        if agent not in self._paid:
            return reward

        def added(leaf: Spec, one: Any, other: Any) -> Any:
            return one + other

        return tree.map_leaves(added, self.env.reward_spec[agent], self._paid[agent], reward)

    def _recall(self, observations: Mapping[Any, Any], infos: Mapping[Any, Info]) -> None:
        """Updates the memories of the agents that observe now."""
        if not self._begin:
            return
        self._memories = {**self._memories, **{a: self._memory_of(a, seen) for a, seen in observations.items()}}
        self._acted = {agent: action for agent, action in self._acted.items() if agent not in observations}
        self._paid = {agent: reward for agent, reward in self._paid.items() if agent not in observations}
        self._fresh = self._fresh.union(observations)
        told = {a: n(self._memories[a], infos[a]) for a, n in self._note.items() if a in infos and a in self._memories}
        self._memories = {**self._memories, **told}

    def _memory_of(self, agent: Any, observation: Any) -> Any:
        if agent not in self._begin:
            return None
        if agent not in self._memories:
            return self._begin[agent](observation)
        memory = self._memories[agent]
        if agent not in self._remember:
            return memory
        action = self._acted[agent] if agent in self._acted else zeros(self.action_spec[agent])
        return self._remember[agent](memory, action, observation, self._paid.get(agent, 0.0))

    def _memory(self, agent: Any) -> Any:
        """Returns an agent's memory; one without any yet begins with the observation that it would get."""
        if self._shared is not None:
            return self._common
        return self._memories[agent] if agent in self._memories else self._begin[agent](self.env.observation(agent))

    def _with_memory(self, agent: Any, function: Any, value: Any) -> Any:
        has_memory = agent in self._begin if self._shared is None else self._shared.begin is not None
        return function(value, self._memory(agent)) if has_memory else function(value)

    def _seen(self, observations: dict[Any, Any]) -> dict[Any, Any]:
        if not self._see:
            return observations
        return {
            agent: self._with_memory(agent, self._see[agent], value) if agent in self._see else value
            for agent, value in observations.items()
        }

    def _told(self, infos: dict[Any, Info]) -> dict[Any, Info]:
        if not self._tell:
            return infos
        return {a: {**info, **self._entries(a)} if a in self._tell else info for a, info in infos.items()}

    def _entries(self, agent: Any) -> Mapping[str, Any]:
        has_memory = agent in self._begin if self._shared is None else self._shared.begin is not None
        return self._tell[agent](self._memory(agent)) if has_memory else self._tell[agent]()

    def observation(self, agent: Any) -> Any:
        value = self.env.observation(agent)
        if agent not in self._see:
            return value
        if agent in self._fresh or agent not in self._begin:
            return self._with_memory(agent, self._see[agent], value)
        return self._see[agent](value, self._memory_of(agent, value))  # as if it observed now; nothing is remembered
