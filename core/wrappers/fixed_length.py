"""Episodes of one length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import tree
from ..errors import EpisodeError
from ..protocol.batch_env import as_mask
from ..protocol.env import Step
from ..protocol.episode import ENDED_LANES, OVER, RUNNING
from ..protocol.infos import Infos
from ..protocol.multi_env import COMMON, MultiReset, MultiStep
from ..protocol.process import Info
from ..protocol.roster import check_actions
from ..spec import SpecTree
from ..wrapping.arguments import at_least, check_waiting
from ..wrapping.bounds import with_zero
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted
from ..wrapping.lifted_multi import LiftedMultiEnv
from ..wrapping.lifted_single import LiftedEnv, zeroed

PADDING = "padding"
"""The key, in the info, that marks a step after the end of an episode inside a `FixedLength`."""


class _PaddedEnv(LiftedEnv):
    """One agent's episodes of one length, or those in the lanes of a batch."""

    fix_length: int

    memory = ("_elapsed", "_terminated", "_truncated")

    # How many steps the episode has had, and how it has ended inside; in a batch with one element a lane.
    _elapsed: Any = np.int64(0)
    _terminated: Any = np.False_
    _truncated: Any = np.False_

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        result = super().reset(seed=seed, options=options, mask=mask)
        began = self._lanes(True) if mask is None else np.asarray(mask)
        self._elapsed = np.where(began, 0, self._elapsed)
        self._terminated, self._truncated = self._terminated & ~began, self._truncated & ~began
        return result

    def step(self, action: Any, restart: Any = None) -> Step:
        if restart is None:
            return self._paced(action, self._lanes(True), None)
        began: Any = as_mask(restart, self.batch_size or 0, "restart")
        return self._paced(action, ~began, began)

    def step_lanes(self, action: Any, lanes: Any) -> Step:
        return self._paced(action, as_mask(lanes, self.batch_size, "lanes"), None, some=True)

    def _lanes(self, flag: bool) -> Any:
        """One flag for all lanes, or for the one agent."""
        return np.full(() if self.batch_size is None else self.batch_size, flag)

    def _paced(self, action: Any, acting: Any, restart: Any, some: bool = False) -> Step:
        """A step of the lanes `acting`; of them alone, as in `step_lanes`, where it is to be of `some`."""
        over = acting & (self._elapsed >= self.fix_length)
        if over.any():
            raise EpisodeError(
                f"step: {OVER}"
                if self.batch_size is None
                else f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}"
            )
        padding = acting & (self._terminated | self._truncated)
        if padding.any():
            step = self._padded(action, acting, restart, padding)
        else:
            step = super().step_lanes(action, acting) if some else super().step(action, restart)
        began = self._lanes(False) if restart is None else restart
        self._elapsed = np.where(began, 0, self._elapsed + acting)
        self._terminated = self._terminated & ~began | step.terminated
        self._truncated = self._truncated & ~began | step.truncated
        full = acting & (self._elapsed >= self.fix_length)
        terminated, truncated = full & self._terminated, full & (self._truncated | ~self._terminated)
        if self.batch_size is None:
            terminated, truncated = bool(terminated), bool(truncated)
        return step._replace(terminated=terminated, truncated=truncated)

    def _padded(self, action: Any, acting: Any, restart: Any, padding: Any) -> Step:
        """A step in which only those act inside that have not ended there."""
        if self.batch_size is None:
            reward, discount = (tree.map_leaves(_zero, spec) for spec in (self.reward_spec, self.discount_spec))
            return Step(self.observation, reward, False, False, discount, {PADDING: True})
        step = super().step_lanes(action, acting & ~padding)  # first, for it may be refused
        infos = [{PADDING: True, **own} if padded else own for padded, own in zip(padding, step.info, strict=True)]
        discount = zeroed(step.discount, padding, self.discount_spec, zero=0)
        observation = step.observation
        if restart is not None and restart.any():
            observation, first = super().reset(mask=restart)
            infos = [{**info, **own} for info, own in zip(infos, first, strict=True)]
        return step._replace(observation=observation, discount=discount, info=Infos(infos))


class _PaddedMultiEnv(LiftedMultiEnv):
    """Several agents' episodes of one length."""

    fix_length: int

    memory = ("_elapsed", "_ends")

    _elapsed = 0
    _ends: Mapping[Any, tuple[bool, bool]] = {}

    @property
    def agents(self) -> tuple[Any, ...]:
        if self._elapsed >= self.fix_length:
            return ()
        playing = self.env.agents
        return tuple(agent for agent in self.possible_agents if agent in playing or agent in self._ends)

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return self.env.turn if self.agents and self.env.agents else None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        result = super().reset(seed=seed, options=options)
        self._elapsed, self._ends = 0, {}
        return result

    def step(self, actions: Mapping[Any, Any], restart: None = None) -> MultiStep:
        length, ends = self.fix_length, self._ends
        if ends or self._elapsed >= length:
            check_actions(actions, self.acting, RUNNING if self.agents else OVER)
        inside = MultiStep({}, {}, {}, {}, {}, {})
        if self.env.agents or not ends:
            inside = super().step({agent: action for agent, action in actions.items() if agent not in ends})
        self._elapsed += 1
        self._ends = {
            **ends,
            **{a: (flag, inside.truncated[a]) for a, flag in inside.terminated.items() if flag or inside.truncated[a]},
        }
        known = [agent for agent in self.possible_agents if agent in inside.rewards or agent in ends]
        full = self._elapsed >= length
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


class FixedLength(Lifted, over_env=_PaddedEnv, over_multi_env=_PaddedMultiEnv):
    """Gives every episode exactly `fix_length` steps: longer ones are cut off, shorter ones padded.

    An episode that ends inside continues, and no flag shows it: the step in which it ended has its own reward and
    discount, and those after it repeat the last observation, whatever the action, with reward 0, discount 0 and
    `info["padding"]`; so its return stays what it was. The last step terminates an episode that has terminated inside,
    and truncates any other. (TF-Agents has the same values, but marks each step from the end inside on as the last.)

    The agents of several are padded each by itself, and end together. Where they take turns, those that have ended
    inside wait; once none is left there, all of them act.

    Args:
        env: The environment.
        fix_length: How many steps, at least 1.

    Raises:
        SpecError: The number is none, or the lanes of a batch cannot wait for each other.
    """

    def __init__(self, env: Any, fix_length: int) -> None:
        self.fix_length = at_least(fix_length, 1, "fix_length")
        super().__init__(env)
        check_waiting(self)

    def change(self, specs: Specs) -> Change:
        return Change(
            reward_spec=tree.map_leaves(with_zero, specs.reward),
            discount_spec=tree.map_leaves(with_zero, specs.discount),
        )


def _zero(spec: Any) -> Any:
    return np.zeros(spec.shape, spec.dtype)[()]
