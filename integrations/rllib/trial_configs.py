"""The configs of a job's trials: one `AlgorithmConfig`, and the entries of it in which they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from ray import tune

import envoi

from .overrides import apply_overrides
from .search_space import format_value
from .settings import Settings

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


class TrialConfigs:
    """The configs of trials that differ by their seed and by some settings.

    Args:
        base: The config that they have in common; its settings of the sweep are not set.
        settings: The settings of the job.
        overrides: The settings of RLlib of each trial, by the trial's seed.

    Raises:
        envoi.EnvoiError: RLlib refuses the settings of a trial.
    """

    def __init__(self, base: AlgorithmConfig, settings: Settings, overrides: Mapping[int, Mapping[str, Any]]) -> None:
        self._base, self._settings = base, settings
        self._plain = _plain_entries(base)
        entries = {seed: self.entries(values) for seed, values in overrides.items()}
        names: Sequence[str] = list(dict.fromkeys(name for own in entries.values() for name in own))
        whole = base.to_dict()
        self._of_seed = {
            name: {seed: own.get(name, whole.get(name)) for seed, own in entries.items()} for name in names
        }

    def entries(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the entries of a config's dict that overrides change; checks them as RLlib does.

        Args:
            overrides: Settings of RLlib by name.

        Raises:
            envoi.EnvoiError: RLlib refuses them.
        """
        config = self._base.copy(copy_frozen=False)
        apply_overrides(config, overrides, self._settings.algo)
        try:
            config.copy(copy_frozen=False).validate()
        except Exception as error:
            given = ", ".join(f"{name}={format_value(value)}" for name, value in overrides.items())
            reason = " ".join(str(error).split()).partition(" To suppress all validation errors")[0]
            raise envoi.EnvoiError(f"RLlib refuses these settings ({given or 'no --set'}): {reason}") from error
        plain, whole = _plain_entries(config), config.to_dict()
        return {name: whole[name] for name, value in plain.items() if value != self._plain.get(name)}

    def param_space(self) -> dict[str, Any]:
        """Returns the search space for `ray.tune.Tuner`: a grid of the seeds, which fix all else."""
        space: dict[str, Any] = self._base.to_dict()
        for name, values in self._of_seed.items():
            space[name] = tune.sample_from(_OfSeed(values))
        first = next(iter(self._of_seed.values()), {})
        return space | {"seed": tune.grid_search(list(first or [self._settings.seed]))}


class _OfSeed:
    """Returns the value of a setting in the trial of a seed."""

    def __init__(self, values: Mapping[int, Any]) -> None:
        self._values = values

    def __call__(self, spec: Any) -> Any:
        return self._values[spec.config.seed]


def _plain_entries(config: AlgorithmConfig) -> dict[str, str]:
    """Returns the entries of a config's dict that are plain values, as text to compare."""
    entries: dict[str, str] = {}
    for name, value in config.to_dict().items():
        try:
            entries[name] = json.dumps(asdict(value) if is_dataclass(value) else value, sort_keys=True)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            continue
    return entries
