"""Wrappers that end episodes: at a time limit, by a condition, or all after the same number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import tree
from ..batching.loop import Lanes
from ..errors import EpisodeError
from ..lane_values import splitter
from ..protocol.batch_env import either, step_masks
from ..protocol.env import Step
from ..protocol.infos import Infos
from ..protocol.multi_env import COMMON, MultiStep
from ..protocol.process import Info
from ..protocol.roster import check_actions
from ..rewards.termination import Termination, TerminationFunction, as_termination
from ..spec import SpecTree
from ..steps.lanes import zeroed
from ..steps.record import ENDED_LANES, OVER, RUNNING
from ..wrapping.arguments import acting, at_least, check_waiting, with_zero
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class TimeLimit(Lifted):
    """Truncates every episode at step `max_episode_steps`. A step that also terminates sets both flags.

    In a multi-agent environment, all agents are truncated together.

    Args:
        env: The environment.
        max_episode_steps: The largest number of steps of an episode, at least 1.

    Raises:
        SpecError: The limit is not an integer of at least 1.
    """

    def __init__(self, env: Any, max_episode_steps: int) -> None:
        self._max_episode_steps = at_least(max_episode_steps, 1, "max_episode_steps")
        super().__init__(env)

    @property
    def max_episode_steps(self) -> int:
        """The limit. A new value takes effect at once, even during an episode."""
        return self._max_episode_steps

    @max_episode_steps.setter
    def max_episode_steps(self, limit: int) -> None:
        self._max_episode_steps = at_least(limit, 1, "max_episode_steps")
        self._plan()

    def change(self, specs: Specs) -> Change:
        return Change(limit=self._max_episode_steps)


class Terminated(Lifted):
    """Terminates episodes when a condition holds, in addition to the environment's own terminations.

        env = Terminated(env, caught | out_of_time & ~has_key)

    The discount of such a step is 0. In a multi-agent environment, all agents end together. A random termination uses
    the environment's reward stream.

    Args:
        env: The environment; the termination reads its `state`.
        termination: A `Termination`, or a function `(state, action, next_state) -> bool`. In a batch of a `Model` or of
            separate environments, it receives one lane at a time; in other batches, all lanes at once.
    """

    def __init__(self, env: Any, termination: Termination | TerminationFunction) -> None:
        self.termination = as_termination(termination)
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        draws = self.termination.draws
        n = specs.lanes
        if n is None:
            return Change(terminated=self._verdict if draws else self.termination)
        split = splitter(specs.action, n) if isinstance(self.env.unwrapped, Lanes) else None

        def verdicts(before: Any, action: Any, after: Any) -> Any:
            if split is None:
                found: Any = np.broadcast_to(self._verdict(before, action, after), n)
            elif draws:
                found = np.fromiter(map(self._verdict, before, split(action), after), bool, n)
            else:
                found = self.termination.of_lanes(before, split(action), after)
            return found if np.count_nonzero(found) else None

        return Change(terminated=verdicts)

    def _verdict(self, before: Any, action: Any, after: Any) -> Any:
        return self.termination.drawn(before, action, after, self.streams.reward)


PADDING = "padding"
"""The key, in the info, that marks a step after the end of an episode inside a `FixedLength`."""


class FixedLength(Lifted):
    """Gives every episode exactly `fix_length` steps: truncates longer episodes and pads shorter ones.

    When the inner episode ends, that step keeps its reward and discount, but sets no flag. Later steps ignore their
    actions and repeat the last observation, with reward 0, discount 0 and `info["padding"]`, so the return does not
    change. The last step terminates if the inner episode terminated, and truncates otherwise. (TF-Agents gives the same
    values, but marks all steps from the inner end onwards as last.)

    In a multi-agent environment, each agent is padded separately, and all end together. In a turn-based game, agents
    that have ended in the inner environment wait; once all have ended there, all of them act.

    Args:
        env: The environment.
        fix_length: The number of steps of every episode, at least 1.

    Raises:
        SpecError: `fix_length` is not an integer of at least 1, or the lanes of a batch cannot wait for each other.
    """

    memory = ("_elapsed", "_terminated", "_truncated", "_ends")

    # How many steps the episode has had, and how it has ended inside; in a batch with one element a lane.
    _elapsed: Any = np.int64(0)
    _terminated: Any = np.False_
    _truncated: Any = np.False_
    _ends: Mapping[Any, tuple[bool, bool]] = {}  # of several agents

    def __init__(self, env: Any, fix_length: int) -> None:
        self.fix_length = at_least(fix_length, 1, "fix_length")
        super().__init__(env)
        check_waiting(self)

    def change(self, specs: Specs) -> Change:
        return Change(
            reward_spec=tree.map_leaves(with_zero, specs.reward),
            discount_spec=tree.map_leaves(with_zero, specs.discount),
        )

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        result = super().reset(seed=seed, options=options, mask=mask)
        if self.is_several:
            self._elapsed, self._ends = 0, {}
            return result
        began = self._lanes(True) if mask is None else np.asarray(mask)
        self._elapsed = np.where(began, 0, self._elapsed)
        self._terminated, self._truncated = self._terminated & ~began, self._truncated & ~began
        return result

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Any:
        if self.is_several:
            return self._step_agents(action)
        if self.batch_size is not None:
            restart, hold = step_masks(self, restart, hold)
        return self._paced(action, self._lanes(True) & acting(restart, hold), restart, hold)

    def _lanes(self, flag: bool) -> Any:
        """Returns the flag for each lane, or a single one if there are no lanes."""
        return np.full(() if self.batch_size is None else self.batch_size, flag)

    def _paced(self, action: Any, acts: Any, restart: Any, hold: Any) -> Step:
        """Steps the lanes in `acts`, and pads or truncates their episodes."""
        over = acts & (self._elapsed >= self.fix_length)
        if over.any():
            raise EpisodeError(
                f"step: {OVER}"
                if self.batch_size is None
                else f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}"
            )
        padding = acts & (self._terminated | self._truncated)
        if padding.any():
            step = self._padded(action, restart, hold, padding)
        else:
            step = super().step(action, restart, hold)
        began = self._lanes(False) if restart is None else restart
        self._elapsed = np.where(began, 0, self._elapsed + acts)
        self._terminated = self._terminated & ~began | step.terminated
        self._truncated = self._truncated & ~began | step.truncated
        full = acts & (self._elapsed >= self.fix_length)
        if (cut := full & ~(self._terminated | self._truncated)).any():
            self.ended_outside(cut)
        terminated, truncated = full & self._terminated, full & (self._truncated | ~self._terminated)
        if self.batch_size is None:
            terminated, truncated = bool(terminated), bool(truncated)
        return step._replace(terminated=terminated, truncated=truncated)

    def _padded(self, action: Any, restart: Any, hold: Any, padding: Any) -> Step:
        """Steps the lanes whose inner episode has not ended; lanes in `padding` repeat their last observation."""
        if self.batch_size is None:
            reward, discount = (tree.map_leaves(_zero, spec) for spec in (self.reward_spec, self.discount_spec))
            return Step(self.observation, reward, False, False, discount, {PADDING: True})
        step = super().step(action, restart, either(hold, padding))
        infos = [{PADDING: True, **own} if padded else own for padded, own in zip(padding, step.info, strict=True)]
        return step._replace(discount=zeroed(step.discount, padding, self.discount_spec, zero=0), info=Infos(infos))

    # Several agents.

    @property
    def agents(self) -> tuple[Any, ...]:
        playing = super().agents
        if self._elapsed >= self.fix_length:
            return ()
        return tuple(agent for agent in self.possible_agents if agent in playing or agent in self._ends)

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return super().turn if self.agents and self._env_inside.agents else None

    def _step_agents(self, actions: Mapping[Any, Any]) -> MultiStep:
        length, ends = self.fix_length, self._ends
        if ends or self._elapsed >= length:
            check_actions(actions, self.acting, RUNNING if self.agents else OVER)
        inside = MultiStep({}, {}, {}, {}, {}, {})
        if self._env_inside.agents or not ends:
            inside = super().step({agent: action for agent, action in actions.items() if agent not in ends})
        self._elapsed += 1
        self._ends = {
            **ends,
            **{a: (flag, inside.truncated[a]) for a, flag in inside.terminated.items() if flag or inside.truncated[a]},
        }
        known = [agent for agent in self.possible_agents if agent in inside.rewards or agent in ends]
        full = self._elapsed >= length
        if full and self._env_inside.agents:
            self.ended_outside()
        seeing = known if full else [agent for agent in known if agent in self.acting]
        terminated = {agent: full and self._ends.get(agent, (False, True))[0] for agent in known}
        truncated = {agent: full and self._ends.get(agent, (False, True))[1] for agent in known}

        def padded(values: Mapping[Any, Any], specs: Mapping[Any, SpecTree]) -> dict[Any, Any]:
            return {a: values[a] if a in values else tree.map_leaves(_zero, specs[a]) for a in known}

        infos: dict[Any, Info] = {a: inside.infos.get(a, {PADDING: True}) for a in known}
        return MultiStep(
            {a: inside.observations[a] if a in inside.observations else self.observation(a) for a in seeing},
            padded(inside.rewards, self.reward_spec),
            terminated,
            truncated,
            padded(inside.discounts, self.discount_spec),
            {**infos, **{key: info for key, info in inside.infos.items() if key == COMMON}},
        )


def _zero(spec: Any) -> Any:
    return np.zeros(spec.shape, spec.dtype)[()]
