"""Games of two agents of PettingZoo that do nothing for 200 steps."""

from __future__ import annotations

import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from .null_envs import AGENTS, BOX, CHOICE, EPISODE


class TwoAgents:
    """The spaces and agents of both games."""

    possible_agents = AGENTS
    render_mode = None

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return CHOICE


class NullParallel(TwoAgents, ParallelEnv):
    metadata = {"name": "null"}

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, AGENTS[:]
        return {agent: np.zeros(4, np.float32) for agent in AGENTS}, {agent: {} for agent in AGENTS}

    def step(self, actions):
        self.time += 1
        over = self.time >= EPISODE
        if over:
            self.agents = []
        return (
            {agent: np.zeros(4, np.float32) for agent in AGENTS},
            dict.fromkeys(AGENTS, 1.0),
            dict.fromkeys(AGENTS, over),
            dict.fromkeys(AGENTS, False),
            {agent: {} for agent in AGENTS},
        )


class NullAEC(TwoAgents, AECEnv):
    metadata = {"name": "null", "is_parallelizable": True}

    def observe(self, agent):
        return np.zeros(4, np.float32)

    def reset(self, seed=None, options=None):
        self.time, self.agents, self._at = 0, AGENTS[:], 0
        self.agent_selection = AGENTS[0]
        self.rewards, self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0), dict.fromkeys(AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self.infos = {agent: {} for agent in AGENTS}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._at ^= 1
        if self._at:
            self._clear_rewards()
        else:
            self.time += 1
            self.rewards = dict.fromkeys(AGENTS, 1.0)
            if self.time >= EPISODE:
                self.terminations = dict.fromkeys(AGENTS, True)
        self.agent_selection = AGENTS[self._at]
        self._accumulate_rewards()
        self._deads_step_first()
