"""Environments of TF-Agents of one lane as core ones. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from envoi import Env, EpisodeError, Reset, Snapshot, SpecError, Step, Streams
from envoi.protocol.env import ENDED, NOT_RESET, make_step
from envoi.rewards.rewarder import reward_step
from envoi.seeding import check_seed

from ..shared.arrival import Copy, incoming
from ..shared.reset_options import NoResetOptions
from .infos import lane_info
from .native import Source, number_reader
from .specs import PyEnvironment, array_encoder, from_spec, is_zero


class FromTFAgents(NoResetOptions, Env):
    """An environment of TF-Agents as a core one.

    Args:
        source: The TF-Agents environment of one lane, wrappers and all.
        seed: How to seed the source, see `from_tf_agents`.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The TF-Agents environment.
    """

    def __init__(self, source: PyEnvironment, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> None:
        if source.batched:
            raise SpecError(f"FromTFAgents: expected one environment, got a batch of {source.batch_size} lanes")
        self.source = source
        self._copy: Copy = copy
        self._source = Source(source, seed)
        self.observation_spec = from_spec(source.observation_spec(), "observation_spec")
        self.action_spec = from_spec(source.action_spec(), "action_spec", action=True)
        self.reward_spec, self.discount_spec = self._source.reward_spec(), self._source.discount_spec()
        self.metadata, self.render_mode = self._source.pictures()
        self._over: str | None = NOT_RESET
        self._closed = False
        self._observation: Any = None
        self._plan()

    def _plan(self) -> None:
        # What it kept of a step holds for a time step that no wrapper made anew.
        self._form = self._source.form
        self._incoming = incoming(self.observation_spec, self._copy)
        self._take_reward = number_reader(self.declared_reward_spec, self._copy)
        self._take_discount = number_reader(self.discount_spec, self._copy)
        # The source may keep an action, or change it.
        self._encode = array_encoder(self.action_spec, fresh=True)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        seed = check_seed(seed)
        self._give_options(options)
        if seed is not None:
            self._source.seed(seed)
            self._streams = Streams(seed)
        time_step, form = self.source.reset(), self._form
        if form is not None and form._current_time_step is time_step:
            observation, info = form.last.observation, {**form.last.info}
        else:
            observation, info = time_step.observation, lane_info(self._source.info())
            observation = self._incoming(observation)
        self._observation = observation
        self._over = None
        return Reset(observation, info)

    def step(self, action: Any) -> Step:
        if self._over is not None:
            raise EpisodeError(f"step: {self._over}")
        rewarder = self._rewarder
        before = None if rewarder is None else self.state
        time_step, form = self.source.step(action if self._encode is None else self._encode(action)), self._form
        kind = int(time_step.step_type)
        if kind == 0:
            raise EpisodeError(f"step: {self.source} began another episode by itself; call reset() first")
        if form is not None and form._current_time_step is time_step:
            observation, reward, terminated, truncated, discount, info = form.last
            info = {**info}
        else:
            observation = time_step.observation
            observation = self._incoming(observation)
            reward, discount = self._take_reward(time_step.reward), self._take_discount(time_step.discount)
            terminated = kind == 2 and is_zero(discount)
            truncated = kind == 2 and not terminated
            info = lane_info(self._source.info())
        self._observation = observation
        if kind == 2:
            self._over = ENDED
        if rewarder is not None:
            reward = reward_step(rewarder, reward, before, action, self.state)
        return make_step((observation, reward, terminated, truncated, discount, info))

    @property
    def state(self) -> Any:
        """The core's state in a source of ours, else the observation: a source's own token is opaque."""
        if self._over == NOT_RESET:
            raise EpisodeError(f"state: {NOT_RESET}")
        return self._observation if self._form is None else self._form.core.state

    @property
    def observation(self) -> Any:
        if self._over == NOT_RESET:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation

    @property
    def unseeded(self) -> bool:
        """Whether there is no known way to seed the source; then a seed reaches only the sampled actions."""
        return self._source.is_unseeded

    @property
    def rng(self) -> np.random.Generator:
        """The source's generator where it has one; settable, see `from_tf_agents`."""
        return self._source.rng() or self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        self._source.replace_rng(generator)

    def snapshot(self) -> Snapshot:
        streams = None if self._streams is None else self._streams.copy()
        return Snapshot(type(self), (self._source.hold(), self._over, deepcopy(self._observation), streams))

    def restore(self, snapshot: Snapshot) -> None:
        content, over, observation, streams = self._content(snapshot)
        self._source.put_back(content)
        self._over, self._observation = over, deepcopy(observation)
        self._streams = None if streams is None else streams.copy()

    def render(self) -> Any:
        return None if self.render_mode is None else self.source.render(self.render_mode)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> Any:
        return self._source.native

    def __getstate__(self) -> dict[str, Any]:
        planned = ("_form", "_incoming", "_take_reward", "_take_discount", "_encode")
        return {name: value for name, value in vars(self).items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()

    def __repr__(self) -> str:
        return f"from_tf_agents({self.source!r})"
