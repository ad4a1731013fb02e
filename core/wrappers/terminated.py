"""Ends of episodes that an environment does not have itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..batching.loop import Lanes
from ..errors import EpisodeError
from ..protocol.env import Step
from ..protocol.multi_env import MultiEnv, MultiStep
from ..rewards.termination import Termination, TerminationFunction, as_termination
from ..wrapping.lifted import Lifted


class Terminated(Lifted):
    """Terminates episodes where a termination is true, besides where the environment ends them itself.

        env = Terminated(env, caught | out_of_time & ~has_key)

    The discount is 0 there. Several agents end together. Random numbers of a termination come from the environment's
    stream for rewards.

    Args:
        env: The environment; the termination reads its `state`.
        termination: A `Termination`, or a function `(state, action, next_state) -> bool`. Of a batch that is one model
            it takes all lanes at once; of one that is a loop over environments, each by itself.
    """

    def __init__(self, env: Any, termination: Termination | TerminationFunction) -> None:
        self.termination = as_termination(termination)
        super().__init__(env)

    def step(self, action: Any, restart: Any = None) -> Any:
        before = self._state_before()
        result: Any = super().step(action, restart)
        if isinstance(self, MultiEnv):
            return self._of_several(before, action, result)
        if self.batch_size is None:
            return self._of_one(before, action, result)
        return self._of_lanes(before, action, result, True if restart is None else ~np.asarray(restart))

    def step_lanes(self, action: Any, lanes: Any) -> Step:
        before, cut = self._state_before(), self._cut
        step = self._of_lanes(before, action, super().step_lanes(action, lanes), np.asarray(lanes))
        self._cut = np.where(lanes, self._cut, cut)
        return step

    def _of_lanes(self, before: Any, action: Any, step: Step, acted: Any) -> Step:
        verdict = self._verdicts(before, action) & acted
        self._cut = verdict
        discount = tree.map_leaves(lambda leaf: _zero_where(verdict, leaf), step.discount)
        return step._replace(terminated=step.terminated | verdict, discount=discount)

    def _state_before(self) -> Any:
        try:
            return self.env.state
        except EpisodeError:  # before the first reset; the step itself raises this
            return None

    def _verdict(self, before: Any, action: Any, after: Any) -> Any:
        return self.termination.drawn(before, action, after, self.streams.reward)

    def _verdicts(self, before: Any, action: Any) -> Any:
        after = self.env.state
        inner: Any = self.env
        while hasattr(inner, "env"):
            inner = inner.env
        if not isinstance(inner, Lanes):
            return np.broadcast_to(self._verdict(before, action, after), self.batch_size)
        from ..lane_values import lane

        each = [lane(self.action_spec, action, index) for index in range(len(after))]
        return np.array([self._verdict(*one) for one in zip(before, each, after, strict=True)], bool)

    def _of_one(self, before: Any, action: Any, step: Step) -> Step:
        self._cut = bool(self._verdict(before, action, self.env.state))
        return step._replace(terminated=True, discount=0.0 * step.discount) if self._cut else step

    def _of_several(self, before: Any, actions: Any, step: MultiStep) -> MultiStep:
        self._cut = bool(self._verdict(before, actions, self.env.state))
        if not self._cut:
            return step
        agents = step.rewards
        seen = {a: step.observations[a] if a in step.observations else self.env.observation(a) for a in agents}
        discounts = {agent: 0.0 * discount for agent, discount in step.discounts.items()}
        return step._replace(observations=seen, terminated=dict.fromkeys(agents, True), discounts=discounts)


def _zero_where(verdict: Any, discounts: Any) -> Any:
    result = np.array(discounts)
    result[verdict] = 0
    return result
