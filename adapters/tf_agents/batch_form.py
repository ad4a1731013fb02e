"""Exports batches as TF-Agents' batched environments. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from envoi import BatchEnv, Infos
from envoi.protocol.batch_env import as_mask
from envoi.seeding import lane_seeds
from envoi.tree import map_leaves

from ..shared.array_specs import decoder
from .form import ToTFAgents, make_time_step
from .infos import stacked
from .specs import TimeStep, array_encoder, lanes_of, zero_lanes


class ToTFAgentsBatch(ToTFAgents):
    """A batch as a batched environment of TF-Agents. A lane begins a new episode in the step after its `LAST`.

    Args:
        core: A `BatchEnv`, or a wrapper of one.
        validate: If True, every value is checked against its spec.
        exact: If True, rewards and discounts keep the core's dtypes; otherwise they become float32.
    """

    core: BatchEnv

    _of_lanes = True

    def _codecs(self) -> tuple[Any, Any]:
        n, core, exact = self.core.batch_size, self.core, self._env is not self.core
        decode = decoder(lanes_of(core.action_spec, n), exact=exact)
        return array_encoder(lanes_of(core.observation_spec, n)), decode

    @property
    def batched(self) -> bool:
        """Always True."""
        return True

    @property
    def batch_size(self) -> int:
        """The number of lanes."""
        return self.core.batch_size

    def seed(self, seed: int | Sequence[int | None] | None) -> None:
        """Seeds the next reset of all lanes.

        Args:
            seed: One integer of at least 0 for all lanes, a sequence of one (or None) per lane, or None.

        Raises:
            SpecError: A seed is not an integer of at least 0, or the number of seeds is not that of lanes.
        """
        lane_seeds(seed, self.batch_size)
        self._seed = seed

    @property
    def infos(self) -> Sequence[dict[Any, Any]]:
        """The infos of the last reset or step, one dict per lane with values of their own types; empty before."""
        return Infos([{} for _ in range(self.batch_size)]) if self.last is None else cast("Any", self.last.info)

    def get_info(self) -> Any:
        """Returns the infos of the last reset or step, stacked over the lanes as in TF-Agents' `BatchedPyEnvironment`.

        Returns:
            A dict of arrays of shape (n, …), nested as the infos are; empty before the first reset. `infos` has them
            lane by lane, which lanes whose keys differ need.

        Raises:
            SpecError: The infos of the lanes differ in their keys or shapes, or only some have text; names them.
        """
        return stacked(self.infos)

    def _reset(self) -> TimeStep:
        observation = self._begin()
        return make_time_step((np.zeros(self.batch_size, np.int32), self._no_reward(), self._all(), observation))

    def reset_lanes(self, mask: Any, seed: int | Sequence[int | None] | None = None) -> TimeStep:
        """Starts an episode in some lanes immediately, which TF-Agents' own environments do only in a step.

        Args:
            mask: The lanes to reset: shape (n,), bool.
            seed: One seed for all lanes, one per lane, or None.

        Returns:
            The time step of all n lanes, which is `FIRST` in those of `mask`.

        Raises:
            ValueError: No reset of all lanes came before.
        """
        if self._current_time_step is None:
            raise ValueError("Current timestep not initialized.")
        mask = as_mask(mask, self.batch_size, "mask")
        self.last = last = self._env.reset(seed=seed, mask=mask)  # pyright: ignore[reportCallIssue, reportArgumentType]
        observation = last.observation if self._encode is None else self._encode(last.observation)
        kinds, reward, discount, _ = self._current_time_step

        def first(value: Any) -> Callable[[Any], Any]:
            return lambda leaf: np.where(mask.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf.dtype.type(value), leaf)

        self._over = None if self._over is None or not (self._over & ~mask).any() else self._over & ~mask
        values = (first(0)(kinds), map_leaves(first(0), reward), map_leaves(first(1), discount), observation)
        self._current_time_step = make_time_step(values)
        return self._current_time_step

    def restart(self, mask: Any) -> None:
        """Sets the lanes that begin an episode in the next step, which are those that have ended otherwise.

        Args:
            mask: Bools of shape (n,), which lanes.
        """
        self._over = mask if mask.any() else None

    def _step(self, action: Any) -> TimeStep:
        begin = self._over
        sent = action if self._decode is None else self._decode(action)
        self.last = last = self._env.step(sent, begin)
        observation, reward, terminated, truncated, discount, _ = last
        if self._encode is not None:
            observation = self._encode(observation)
        over = terminated | truncated
        kinds = np.add(over, 1, dtype=np.int32)
        if begin is not None:
            kinds[begin] = 0
        discount = self._to_discount(discount)
        if over.any():
            self._over = over
            self._mark_ends(discount, terminated, truncated)
        else:
            self._over = None
        return make_time_step((kinds, self._to_reward(reward), discount, observation))

    def _mark_ends(self, discount: Any, terminated: Any, truncated: Any) -> None:
        """Sets the form's own discount to 0 in terminated lanes, and to 1 in truncated lanes where it is 0."""
        if terminated.any():
            map_leaves(lambda leaf: leaf.__setitem__(terminated, 0), discount)
        cut = truncated & ~terminated
        if cut.any():
            zero = cut & zero_lanes(discount, len(cut))
            map_leaves(lambda leaf: leaf.__setitem__(zero, 1), discount)

    def render(self, mode: str = "rgb_array") -> Any:
        """Returns the pictures of all lanes, of shape (n, height, width, 3).

        Args:
            mode: The core's `render_mode`.
        """
        return np.stack(super().render(mode))
