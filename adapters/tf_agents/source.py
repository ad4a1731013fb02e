"""Imports environments of TF-Agents of one lane. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envoi import EpisodeError, SpecError, Step
from envoi.protocol.env import make_step
from envoi.protocol.episode import OVER, RUNNING
from envoi.protocol.process import Info
from envoi.rewards.native_reward import reward_step

from ..shared.arrival import Copy, incoming
from ..shared.imported_env import ImportedEnv
from .infos import lane_info
from .source_base import FromTFSource, number_reader
from .specs import PyEnvironment, array_encoder, is_zero


class FromTFAgents(FromTFSource, ImportedEnv):
    """An environment of TF-Agents as a core one.

    Args:
        source: The TF-Agents environment of one lane, possibly wrapped.
        seed: A function that seeds the source, see `from_tf_agents`.
        copy: Which observations to copy, see `from_tf_agents`.

    Attributes:
        source: The TF-Agents environment.
    """

    def __init__(self, source: PyEnvironment, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> None:
        if source.batched:
            raise SpecError(f"FromTFAgents: expected one environment, got a batch of {source.batch_size} lanes")
        self._seeder = seed
        super().__init__(source, copy)

    def _plan(self) -> None:
        self._form: Any = self.form_inside
        self._incoming = incoming(self.observation_spec, self._copy)
        self._take_reward = number_reader(self.declared_reward_spec, self._copy)
        self._take_discount = number_reader(self.discount_spec, self._copy)
        # A copy, because the source may keep an action, or change it in place.
        self._encode = array_encoder(self.action_spec, fresh=True)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        time_step, form = self.source.reset(), self._form
        if form is not None and form.has_returned(time_step):
            return form.last.observation, {**form.last.info}
        observation, info = time_step.observation, lane_info(self._source_info())
        return self._incoming(observation), info

    def step(self, action: Any) -> Step:
        if self._episode_state is not RUNNING:
            self._refuse()
        rewarder = self._rewarder
        before = None if rewarder is None else self.state
        time_step, form = self.source.step(action if self._encode is None else self._encode(action)), self._form
        kind = int(time_step.step_type)
        if kind == 0:
            raise EpisodeError(f"step: {self.source} began another episode by itself; call reset() first")
        if form is not None and form.has_returned(time_step):
            observation, reward, terminated, truncated, discount, info = form.last
            info = {**info}
        else:
            observation = time_step.observation
            observation = self._incoming(observation)
            reward, discount = self._take_reward(time_step.reward), self._take_discount(time_step.discount)
            terminated = kind == 2 and is_zero(discount)
            truncated = kind == 2 and not terminated
            info = lane_info(self._source_info())
        self._observation = observation
        if kind == 2:
            self._episode_state = OVER
        if rewarder is not None:
            reward = reward_step(rewarder, reward, before, action, self.state)
        return make_step((observation, reward, terminated, truncated, discount, info))
