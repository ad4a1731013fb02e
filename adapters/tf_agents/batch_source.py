"""Batched environments of TF-Agents as batches. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

import numpy as np

from envoi import BatchEnv, Env, EpisodeError, Lanes, Reset, Snapshot, Step, Streams
from envoi.batching.model_batch import batch_streams
from envoi.protocol.batch_env import as_mask
from envoi.protocol.env import ENDED_LANES, NOT_RESET, make_step
from envoi.rewards.rewarder import reward_step
from envoi.seeding import lane_seeds
from envoi.tree import map_leaves

from ..shared.arrival import Copy, incoming
from ..shared.reset_options import NoResetOptions
from .form import ToTFAgents
from .infos import unstacked
from .native import Source
from .source import FromTFAgents
from .specs import PyEnvironment, array_encoder, from_spec, lanes_of, zero_lanes


class FromTFAgentsBatch(NoResetOptions, BatchEnv):
    """A batched environment of TF-Agents as a batch.

    Its lanes begin anew when TF-Agents lets them: in the step after their end, or all at a reset. One of our own forms
    resets any lane at any time.

    Args:
        source: The batched TF-Agents environment, wrappers and all.
        seed: How to seed the source, see `from_tf_agents`.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The TF-Agents environment.
        restarts: How its lanes can begin anew, see `BatchEnv`.
    """

    def __init__(self, source: PyEnvironment, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> None:
        super().__init__(cast("int", source.batch_size))
        self.source = source
        self._copy: Copy = copy
        self._source = Source(source, seed)
        # No wrapper hands on a reset of single lanes.
        self.restarts = BatchEnv.restarts if self._source.form is source else frozenset({"step"})
        self.observation_spec = from_spec(source.observation_spec(), "observation_spec")
        self.action_spec = from_spec(source.action_spec(), "action_spec", action=True)
        self.reward_spec, self.discount_spec = self._source.reward_spec(), self._source.discount_spec()
        self.metadata, self.render_mode = self._source.pictures()
        self._over: Any = None  # a mask, once an episode has begun
        self._closed = False
        self._observation: Any = None
        self._plan()

    def _plan(self) -> None:
        n = self.batch_size
        self._form = self._source.form
        self._incoming = incoming(lanes_of(self.observation_spec, n), self._copy)
        self._take_reward = incoming(lanes_of(self.declared_reward_spec, n), self._copy)
        self._take_discount = incoming(lanes_of(self.discount_spec, n), self._copy)
        self._encode = array_encoder(lanes_of(self.action_spec, n), fresh=True)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Any = None,
    ) -> Reset:
        n, lanes = self.batch_size, as_mask(mask, self.batch_size, "mask")
        lane_seeds(seed, n)  # are they possible?
        if isinstance(seed, np.integer):  # a Python int, for a source may take no other
            seed = int(seed)
        if lanes is not None and not lanes.all():
            return self._reset_lanes(lanes, seed, options)
        self._give_options(options)
        if seed is not None:
            self._seed_source(seed)
        time_step = self.source.reset()
        self._streams = batch_streams(seed, n) or self._streams
        self._over = np.zeros(n, bool)
        form = self._form
        if form is not None and form._current_time_step is time_step:
            self._observation, infos = form.last.observation, form.last.info
        else:
            observation = time_step.observation
            self._observation, infos = self._incoming(observation), unstacked(self._source.info, self.batch_size)
        return Reset(self._observation, cast("Any", infos))

    def _seed_source(self, seed: Any) -> None:
        try:
            self._source.seed(seed)
        except TypeError:  # those in processes of their own take a seed a lane
            if self._form is not None or not isinstance(seed, int):
                raise
            self._source.seed(lane_seeds(seed, self.batch_size))

    def _reset_lanes(self, mask: Any, seed: Any, options: Mapping[str, Any] | None) -> Reset:
        form = self._form
        if self._over is None:
            raise EpisodeError(f"reset: {NOT_RESET} in all lanes first, without a mask")
        if form is None or form is not self.source:
            raise EpisodeError(
                "reset: TF-Agents begins an episode of single lanes only in the step after their end; "
                "use step(actions, restart=…), or reset all lanes"
            )
        form.reset_options = options
        form.reset_lanes(mask, seed)
        self._streams = batch_streams(seed, self.batch_size) or self._streams
        self._over = self._over & ~mask
        self._observation = form.last.observation
        return form.last

    def step(self, action: Any, restart: Any = None) -> Step:
        begin = as_mask(restart, self.batch_size, "restart")
        begin = np.zeros(self.batch_size, bool) if begin is None else begin
        self._check_lanes(begin)
        rewarder, form = self._rewarder, self._form
        before = None if rewarder is None else self.state
        sent = action if self._encode is None else self._encode(action)
        if form is not None:
            form._over = begin if begin.any() else None
            time_step = self.source.step(sent)
        else:
            # Some begin anew only when they are told.
            time_step = self.source.reset() if begin.all() else self.source.step(sent)
        if form is not None and form._current_time_step is time_step:
            result = form.last
        else:
            result = self._read(time_step, begin)
        self._observation = result.observation
        self._over = result.terminated | result.truncated
        if rewarder is None:
            return result
        reward = reward_step(rewarder, result.reward, before, action, self.state)
        return result._replace(reward=_filled(reward, begin, 0))

    def _check_lanes(self, begin: Any) -> None:
        if self._over is None:
            raise EpisodeError(f"step: {NOT_RESET}")
        left, early = self._over & ~begin, begin & ~self._over
        if left.any():
            raise EpisodeError(f"step: in lanes {np.flatnonzero(left).tolist()}, {ENDED_LANES}")
        if early.any() and self._form is None and not begin.all():
            raise EpisodeError(
                f"step: lanes {np.flatnonzero(early).tolist()} have not ended, and TF-Agents begins "
                "no new episode in a lane before its end"
            )

    def _read(self, time_step: Any, begin: Any) -> Step:
        kinds = np.asarray(time_step.step_type)
        wrong = (kinds == 0) != begin
        if wrong.any():
            lane = int(np.argmax(wrong))
            does = "went on" if begin[lane] else "began another episode by itself"
            raise EpisodeError(f"step: in lane {lane}, {self.source} {does}; call reset() first")
        observation, reward, discount = time_step.observation, time_step.reward, time_step.discount
        observation, reward = self._incoming(observation), self._take_reward(reward)
        discount = self._take_discount(discount)
        if begin.any():
            reward, discount = _filled(reward, begin, 0), _filled(discount, begin, 1)
        over = kinds == 2
        terminated = over & zero_lanes(discount, self.batch_size)
        flags: Any = (terminated, over & ~terminated)
        infos: Any = unstacked(self._source.info, self.batch_size)
        return make_step((observation, reward, *flags, discount, infos))

    @property
    def state(self) -> Any:
        """The core's state in a source of ours, else the observations."""
        if self._over is None:
            raise EpisodeError(f"state: {NOT_RESET}")
        return self._observation if self._form is None else self._form.core.state

    @property
    def observation(self) -> Any:
        if self._over is None:
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
        content, self._over, observation, streams = self._content(snapshot)
        self._source.put_back(content)
        self._observation = deepcopy(observation)
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


def _filled(values: Any, lanes: Any, number: float) -> Any:
    """A reward or discount of a batch, with `number` in some lanes; `values` stays as it is."""

    def fill(leaf: Any) -> Any:
        result = np.array(leaf)
        result[lanes] = number
        return result

    return map_leaves(fill, values)


class FromTFAgentsLanes(Lanes):
    """A `BatchedPyEnvironment` as a batch of the environments that it holds, each of which can be reset and seeded.

    Args:
        source: The batched environment.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The batched environment.
    """

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        super().__init__(
            [env.core if isinstance(env, ToTFAgents) else FromTFAgents(env, None, copy) for env in source.envs]
        )
        self.source = source
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    def __repr__(self) -> str:
        return f"from_tf_agents({self.source!r})"


def from_source(source: PyEnvironment, seed: Callable[[Any], Any] | None, copy: Copy) -> Env:
    """A TF-Agents environment as a core one, of one lane or a batch."""
    if not source.batched:
        return FromTFAgents(source, seed, copy)
    # A wrapper around one finds its `envs` too, but changes what they do.
    lanes = getattr(source, "envs", ()) if hasattr(type(source), "envs") else ()
    if seed is None and len(lanes) == source.batch_size and all(isinstance(env, PyEnvironment) for env in lanes):
        return FromTFAgentsLanes(source, copy)
    return FromTFAgentsBatch(source, seed, copy)
