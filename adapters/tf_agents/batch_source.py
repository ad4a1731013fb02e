"""Imports batched environments of TF-Agents. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from envoi import BatchEnv, Env, EpisodeError, Reset, Step
from envoi.protocol.batch_env import as_mask
from envoi.protocol.env import ENDED_LANES, NOT_RESET, make_step
from envoi.rewards.native_reward import reward_step
from envoi.seeding import batch_streams, lane_seeds
from envoi.tree import map_leaves

from ..shared.arrival import Copy, incoming
from ..shared.imported_batch import ImportedBatch, ImportedLanes
from .form import ToTFAgents
from .infos import unstacked
from .source import FromTFAgents
from .source_base import FromTFSource
from .specs import NAME, PyEnvironment, array_encoder, lanes_of, zero_lanes


class FromTFAgentsBatch(FromTFSource, ImportedBatch):
    """A batched environment of TF-Agents as a batch.

    Its lanes are reset as TF-Agents permits: each in the step after its end, or all by `reset`. A form of envoi resets
    any lane at any time.

    Args:
        source: The batched TF-Agents environment, possibly wrapped.
        seed: A function that seeds the source, see `from_tf_agents`.
        copy: Which observations to copy, see `from_tf_agents`.

    Attributes:
        source: The TF-Agents environment.
        restarts: The ways in which its lanes can be reset, see `BatchEnv`.
    """

    def __init__(self, source: PyEnvironment, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> None:
        self._seeder = seed
        super().__init__(source, cast("int", source.batch_size), copy)
        # Wrappers of TF-Agents do not pass on a reset of single lanes.
        self.restarts = BatchEnv.restarts if self.form_inside is source else frozenset({"step"})

    def _plan(self) -> None:
        n = self.batch_size
        self._form: Any = self.form_inside
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
        lane_seeds(seed, n)  # raises an error if they are not valid
        if isinstance(seed, np.integer):  # sources may accept only Python integers
            seed = int(seed)
        if lanes is not None and not lanes.all():
            return self._reset_lanes(lanes, seed, options)
        self._give_options(options)
        if seed is not None:
            self.seed_source(seed)
        time_step = self.source.reset()
        self._streams = batch_streams(seed, n) or self._streams
        self._over, self._begun = np.zeros(n, bool), True
        form = self._form
        if form is not None and form.has_returned(time_step):
            self._observation, infos = form.last.observation, form.last.info
        else:
            observation = time_step.observation
            self._observation, infos = self._incoming(observation), unstacked(self._source_info, self.batch_size)
        return Reset(self._observation, cast("Any", infos))

    def _call_seed_method(self, seed: Any) -> bool:
        try:
            return super()._call_seed_method(seed)
        except TypeError:  # lanes in processes of their own take a list of one seed per lane
            if self._form is not None or not isinstance(seed, int):
                raise
            return super()._call_seed_method(lane_seeds(seed, self.batch_size))

    def _reset_lanes(self, mask: Any, seed: Any, options: Mapping[str, Any] | None) -> Reset:
        form = self._form
        if not self._begun:
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
            form.restart(begin)
            time_step = self.source.step(sent)
        else:
            # Some sources start a new episode only by `reset`, even if all lanes have ended.
            time_step = self.source.reset() if begin.all() else self.source.step(sent)
        if form is not None and form.has_returned(time_step):
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
        self._check_begun("step")
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
        infos: Any = unstacked(self._source_info, self.batch_size)
        return make_step((observation, reward, *flags, discount, infos))


def _filled(values: Any, lanes: Any, number: float) -> Any:
    """Returns a copy of a batch's rewards or discounts, with `number` in some lanes."""

    def fill(leaf: Any) -> Any:
        result = np.array(leaf)
        result[lanes] = number
        return result

    return map_leaves(fill, values)


class FromTFAgentsLanes(ImportedLanes):
    """A `BatchedPyEnvironment` as a batch of the environments inside it, each of which can be reset and seeded.

    Args:
        source: The batched environment.
        copy: Which observations to copy, see `from_tf_agents`.

    Attributes:
        source: The batched environment.
    """

    _framework = NAME

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        lanes = [env.core if isinstance(env, ToTFAgents) else FromTFAgents(env, None, copy) for env in source.envs]
        super().__init__(source, lanes)


def from_source(source: PyEnvironment, seed: Callable[[Any], Any] | None, copy: Copy) -> Env:
    """Imports a TF-Agents environment, of one lane or batched.

    Args:
        source: The environment.
        seed: A function that seeds the source, or None.
        copy: Which observations to copy, see `from_tf_agents`.
    """
    if not source.batched:
        return FromTFAgents(source, seed, copy)
    # A wrapper's `__getattr__` finds `envs` too, but the wrapper changes their values, so the class is asked.
    lanes = getattr(source, "envs", ()) if hasattr(type(source), "envs") else ()
    if seed is None and len(lanes) == source.batch_size and all(isinstance(env, PyEnvironment) for env in lanes):
        return FromTFAgentsLanes(source, copy)
    return FromTFAgentsBatch(source, seed, copy)
