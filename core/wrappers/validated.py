"""Validation of every value that passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..env import Env, Reset, Step
from ..errors import SpecError
from ..lanes import lane
from ..spec import Array, Spec, SpecTree, validate
from ..spec.base import shown
from ..spec.nested import check_branch
from ..wrapper import Wrapper


class Validated(Wrapper):
    """Checks every action, observation, reward and discount against its spec; everything passes unchanged.

    Args:
        env: The environment.

    Raises:
        SpecError: On a reset or step whose value leaves its spec; the message names leaf, step and episode.
    """

    memory = ("_episode", "_step")

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._episode = self._step = 0

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        self._episode, self._step = self._episode + 1, 0
        result = super().reset(seed=seed, options=options, mask=mask)
        self._check(self.observation_spec, result.observation, "observation")
        return result

    def step(self, action: Any, restart: Any = None) -> Step:
        self._step += 1
        try:
            self._check(self.action_spec, action, "action", restart)
            result = super().step(action, restart)
        except Exception:
            self._step -= 1  # the episode stands where it stood
            raise
        self._check(self.observation_spec, result.observation, "observation")
        self._check(self.reward_spec, result.reward, "reward", restart)
        self._check(self.discount_spec, result.discount, "discount", restart)
        return result

    def _check(self, spec: SpecTree, value: Any, what: str, skip: Any = None) -> None:
        if self.batch_size is None:
            self._check_one(spec, value, what, f"of episode {self._episode}")
            return
        self._check_length(spec, value, what)
        for index in range(self.batch_size):
            if skip is None or not skip[index]:
                self._check_one(spec, lane(spec, value, index), what, f"in lane {index}")

    def _check_length(self, spec: SpecTree, value: Any, what: str) -> None:
        if not isinstance(spec, Spec):
            check_branch(spec, value, what)
            for part, key, sub in tree.children(spec):
                self._check_length(sub, value[key], what + part)
        elif not hasattr(value, "__len__") or len(value) != self.batch_size:
            raise SpecError(f"{what}: expected a leading axis of {self.batch_size} lanes, got {shown(value)}")

    def _check_one(self, spec: SpecTree, value: Any, what: str, where: str) -> None:
        if what in ("reward", "discount"):
            # Python numbers in many environments, while their specs speak of arrays.
            value = tree.map_leaves(_as_array, spec, value)
        try:
            validate(spec, value, what)
        except SpecError as error:
            at = f"step {self._step}" if self._step else "the reset"
            raise SpecError(f"{error} (at {at} {where})") from error


def _as_array(spec: Spec, value: Any) -> Any:
    if not (isinstance(spec, Array) and np.isscalar(value)):
        return value
    array = np.asarray(value)
    return array.astype(spec.dtype) if np.can_cast(array.dtype, spec.dtype, "same_kind") else array
