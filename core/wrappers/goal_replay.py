"""A wrapper that adds goals to observations, and relabels episodes with other goals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..protocol.multi_env import MultiEnv
from ..spec import SpecTree
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class GoalReplay(Lifted):
    """Adds the goal of the episode to its observations, for hindsight experience replay (Andrychowicz et al., 2017).

    A subclass defines the three functions below to locate goals in observations, and overrides `state_with_goal` if its
    rewarder reads states that are not observations. The functions are pure. In a batch their values have a leading lane
    axis, unless the class sets `by_lane = True`.

        class Reach(envoi.GoalReplay):
            def desired(self, observation): return observation["target"]
            def achieved(self, observation): return observation["position"]
            def with_goal(self, observation, goal): return {**observation, "target": goal}

    Args:
        env: The environment.

    Attributes:
        by_lane: If True, the functions receive one lane of a batch at a time.
    """

    by_lane: bool = False

    @abstractmethod
    def desired(self, observation: Any) -> Any:
        """Returns the goal of an episode, given its first observation, as an array or nested arrays."""

    @abstractmethod
    def achieved(self, observation: Any) -> Any:
        """Returns the goal that this observation achieves."""

    @abstractmethod
    def with_goal(self, observation: Any, goal: Any) -> Any:
        """Replaces the goal of an observation.

        Args:
            observation: The inner environment's observation.
            goal: The goal.
        """

    def spec_with_goal(self, spec: SpecTree) -> SpecTree:
        """Returns the spec of the results of `with_goal`. The default is the inner observation spec."""
        return spec

    def state_with_goal(self, state: Any, goal: Any) -> Any:
        """Replaces the goal of a state, for the rewarder. The default treats the state as an observation.

        Args:
            state: The state.
            goal: The goal.
        """
        return self.with_goal(state, goal)

    def change(self, specs: Specs) -> Change:
        return Change(
            observation_spec=self.spec_with_goal(specs.observation),
            begin=self.desired,
            # A copy, because an agent may write into its observation, and the goal is that of the whole episode.
            observation=lambda observation, goal: self.with_goal(observation, deepcopy(goal)),
            by_lane=self.by_lane,
        )

    def relabel(
        self,
        observations: Sequence[Any],
        actions: Sequence[Any],
        states: Sequence[Any] | None = None,
        goal: Any = None,
        rng: np.random.Generator | None = None,
        agent: Any = None,
    ) -> tuple[list[Any], NDArray[Any]]:
        """Relabels a recorded episode, or a part of one, with another goal.

        Args:
            observations: The T + 1 observations of one agent, with or without a goal.
            actions: The T actions as the rewarder receives them; in a multi-agent environment, dicts by agent.
            states: The `env.state` at each observation, or None if observations are states.
            goal: The new goal, or None for the goal achieved at the end.
            rng: The random generator, for a rewarder that takes one.
            agent: The observing agent, in a multi-agent environment.

        Returns:
            The T + 1 observations with the goal, and the T rewards for it.

        Raises:
            SpecError: Only the imported environment can compute its reward, or the agent is unknown.
        """
        agents = self.possible_agents if isinstance(self, MultiEnv) else (None,)
        if agent not in agents:
            raise SpecError(f"agent: expected one of {list(agents)}, got {agent!r}")
        goal = self.achieved(observations[-1]) if goal is None else goal
        states = [self.state_with_goal(state, goal) for state in (observations if states is None else states)]
        seen = [self.with_goal(observation, goal) for observation in observations]
        rewards = self.rewarder.relabel(zip(states[:-1], actions, states[1:], strict=True), rng)
        return seen, rewards if agent is None else np.array([each[agent] for each in rewards])
