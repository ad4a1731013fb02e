"""Checks the values that an env returns: for NaN in every step, and against their specs in some or all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

import envoi
from envoi.wrappers.validated import Validated, ValidatedMulti

from .nan import find_nan, has_nan

FIRST_EPISODES = 2
FIRST_STEPS = 1000
"""With `check_specs="sample"` all steps of the first episodes of an env are checked, up to so many, …"""
EVERY = 1000
"""… and then one in so many, at random."""


class ValueChecks:
    """Checks the results of an env.

    Args:
        form: The env in RLlib's form, which has `core` and `last`.
        check_specs: True if the form checks all values against their specs itself, "sample" to check some here.
        of_lanes: True if the values have a leading axis of lanes.
    """

    def __init__(self, form: Any, check_specs: Literal[True, "sample"], of_lanes: bool) -> None:
        self._form, self._of_lanes = form, of_lanes
        self.validated: Any = None
        if check_specs == "sample":
            core = form.core
            self.validated = ValidatedMulti(core) if isinstance(core, envoi.MultiEnv) else Validated(core)
        self._sample = np.random.default_rng(0)
        self._checked = 0  # results that were checked against their specs while all are
        self._pause = 0  # results until the next one that is checked

    def check(
        self, observation: Any, reward: Any, *, step: int, episode: int, restarted: Mapping[str, Any] | None = None
    ) -> None:
        """Checks the latest result.

        Args:
            observation: The observation, in RLlib's form.
            reward: The reward, in RLlib's form; 0 for that of a reset.
            step: The number of the step in the episode; 0 for a reset.
            episode: The number of the episode.
            restarted: For a batch, `restart=` of `Validated.check`.

        Raises:
            envoi.SpecError: A value is NaN or outside its spec.
        """
        if has_nan(observation) or not _is_finite(reward):
            find_nan(self._form.last, self._of_lanes)
        if self.validated is None:
            return
        self._pause -= 1
        if self._pause < 0:
            self.check_specs(step=step, episode=episode, restarted=restarted)
            self._checked += 1
            if episode > FIRST_EPISODES or self._checked >= FIRST_STEPS:
                self._pause = int(self._sample.integers(2 * EVERY - 1))

    def check_specs(self, *, step: int, episode: int, restarted: Mapping[str, Any] | None = None) -> None:
        """Checks the latest result against its specs, unless the form itself checks all.

        Args:
            step: As in `check`.
            episode: As in `check`.
            restarted: As in `check`.

        Raises:
            envoi.SpecError: A value is outside its spec.
        """
        if self.validated is not None:
            self.validated.check(self._form.last, step=step, episode=episode, **(restarted or {}))


def _is_finite(reward: Any) -> bool:
    if isinstance(reward, (float, int)):
        return math.isfinite(reward)
    if isinstance(reward, Mapping):
        return all(map(_is_finite, reward.values()))
    return bool(np.isfinite(reward).all())
