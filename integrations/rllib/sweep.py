"""The trials of a sweep: what each samples from the search spaces, fixed by the seed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import envoi
from envoi.errors import UnknownName, nearest

from .search_space import SearchSpace
from .setting_table import MODEL

SAMPLES = 8
"""Trials of a sweep that samples, unless `samples` is given."""
SCHEDULERS = ("asha", "pbt", "median")
"""The schedulers of Ray Tune that can stop or change the trials of a sweep."""
FIXED = frozenset({"num_envs_per_env_runner", "replay_buffer_config", "gym_env_vectorize_mode"})
"""Settings that population based training cannot change, because a checkpoint depends on them; `model.` is another."""


@dataclass(frozen=True)
class Trial:
    """One training run of a sweep.

    Args:
        index: Its number in the sweep, from 0.
        seed: Fixes the initial weights, the exploration and the envs; differs from trial to trial.
        overrides: Settings of RLlib that differ from envoi's defaults, by name.
    """

    index: int
    seed: int
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lr(self) -> float | None:
        """The learning rate; None is the algorithm's own."""
        return self.overrides.get("lr")


def sample_trials(
    values: Mapping[str, Any], spaces: Mapping[str, SearchSpace], samples: int, seed: int
) -> tuple[Trial, ...]:
    """Returns the trials of a sweep: every combination of the grids, with samples of the other spaces.

    Args:
        values: Settings of RLlib by name; those in `spaces` are left out.
        spaces: Search spaces by name.
        samples: Trials for each combination of the grids.
        seed: Seed of the first trial; the next have the numbers after it.
    """
    fixed = {name: value for name, value in values.items() if name not in spaces}
    grids = {name: space.values for name, space in spaces.items() if space.kind == "grid"}
    trials: list[Trial] = []
    for _ in range(samples):
        for combination in itertools.product(*grids.values()):
            index = len(trials)
            rng = np.random.default_rng([seed, index])
            chosen = dict(zip(grids, combination, strict=True))
            chosen |= {name: space.sample(rng) for name, space in spaces.items() if name not in grids}
            trials.append(Trial(index, seed + index, fixed | {name: chosen[name] for name in spaces}))
    return tuple(trials)


def check_scheduler(name: str, spaces: Mapping[str, SearchSpace], trials: int) -> None:
    """Checks that a scheduler is known and fits a sweep.

    Args:
        name: Name of the scheduler.
        spaces: Search spaces of the sweep by name.
        trials: Number of its trials.

    Raises:
        envoi.EnvoiError: It is unknown, or does not fit.
    """
    check_known("scheduler", name, SCHEDULERS)
    if trials < 2:
        raise envoi.EnvoiError(
            f"--scheduler {name} compares trials, and this job has one; give a search space, such as "
            "--set lr=log(1e-5,1e-3), or more --samples"
        )
    if name != "pbt":
        return
    if not spaces:
        raise envoi.EnvoiError("--scheduler pbt changes settings; give a search space: --set lr=log(1e-5,1e-3)")
    for setting in spaces:
        if setting.startswith(MODEL) or setting.partition(".")[0] in FIXED:
            raise envoi.EnvoiError(
                f"--scheduler pbt cannot change {setting} while training, as the checkpoints of the trials would no "
                "longer fit one another; use --scheduler asha, or give it one value"
            )


def check_known(kind: str, name: str, known: Mapping[str, Any] | tuple[str, ...]) -> None:
    """Checks that a name is one of those that are known.

    Args:
        kind: The kind of thing that the name is for, such as "scheduler".
        name: The name.
        known: The known names.

    Raises:
        envoi.EnvoiError: It is none of them.
    """
    if name not in known:
        near = nearest(name, known)
        listing = f" There are: {', '.join(known)}" if near.endswith("?") else ""
        raise UnknownName(f"no {kind} is called {name!r}; {near}{listing}")
