"""The ranges of RLlib's settings that RLlib itself does not check, or only once a job runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import envoi
from envoi.errors import nearest

from .search_space import format_value


@dataclass(frozen=True)
class _Range:
    """A range of numbers.

    Args:
        low: The lower end.
        high: The upper end; None for no end.
        is_open: True if the lower end itself is too low.
    """

    low: float
    high: float | None = None
    is_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.is_open else value >= self.low
        return above and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.high is not None:
            return f"a number from {self.low:g} to {self.high:g}"
        return f"a number above {self.low:g}" if self.is_open else f"at least {self.low:g}"


_SHARE, _POSITIVE, _COUNT = _Range(0, 1), _Range(0, is_open=True), _Range(1)
_RANGES: Mapping[str, _Range] = {
    **dict.fromkeys(("gamma", "lambda_", "tau", "replay_proportion"), _SHARE),
    **dict.fromkeys(("replay_buffer_config.alpha", "replay_buffer_config.beta"), _SHARE),
    **dict.fromkeys(("clip_param", "vf_clip_param", "grad_clip"), _POSITIVE),
    **dict.fromkeys(("train_batch_size_per_learner", "minibatch_size", "num_epochs", "n_step"), _COUNT),
    **dict.fromkeys(("replay_buffer_config.capacity", "num_atoms", "n_quantiles", "n_critics"), _COUNT),
    **dict.fromkeys(("model.fcnet_hiddens", "model.head_fcnet_hiddens", "model.lstm_cell_size"), _COUNT),
    **dict.fromkeys(("model.max_seq_len", "broadcast_interval"), _COUNT),
    **dict.fromkeys(("entropy_coeff", "vf_loss_coeff", "kl_coeff", "target_network_update_freq"), _Range(0)),
    **dict.fromkeys(("lr", "actor_lr", "critic_lr", "alpha_lr"), _Range(0)),
    "num_steps_sampled_before_learning_starts": _Range(0),
}
SCHEDULES = frozenset({"lr", "actor_lr", "critic_lr", "alpha_lr", "entropy_coeff", "epsilon"})
"""Settings that take a list of [env steps, value] pairs as well, between which RLlib interpolates."""
ACTIVATIONS = ("relu", "tanh", "elu", "silu", "swish", "softmax", "linear")
"""Activations that RLlib has a name for; the classes of `torch.nn`, such as GELU, are others."""


def check_range(name: str, value: Any) -> None:
    """Checks a value of a setting against its range.

    Args:
        name: The name of the setting.
        value: The value, of a kind that the setting takes.

    Raises:
        envoi.EnvoiError: It is out of range, a schedule that is none, or an unknown activation.
    """
    if name.startswith("model.") and name.endswith("_activation"):
        _check_activation(name, value)
    if isinstance(value, list) and name in SCHEDULES:
        _check_schedule(name, value)
        value = [pair[1] for pair in value]
    bounds = _RANGES.get(name)
    for one in value if isinstance(value, list) else [value]:
        is_number = isinstance(one, int | float) and not isinstance(one, bool)
        if bounds is not None and is_number and one not in bounds:
            inside = f" in {format_value(value)}" if isinstance(value, list) else ""
            raise envoi.EnvoiError(f"{name}: expected {bounds}, got {format_value(one)}{inside}")


def _check_schedule(name: str, value: list[Any]) -> None:
    pairs = [one for one in value if isinstance(one, list) and len(one) == 2]
    if len(value) < 2 or len(pairs) < len(value) or pairs[0][0] != 0:
        raise envoi.EnvoiError(
            f"{name}: expected a number, or a schedule of [env steps, value] pairs from step 0, such as "
            f"[[0,1e-3],[100000,1e-4]]; got {format_value(value)}"
        )


def _check_activation(name: str, value: Any) -> None:
    # Names with a capital are classes of torch, which is slow to import.
    if isinstance(value, str) and value == value.lower() and value not in ACTIVATIONS:
        raise envoi.EnvoiError(f"{name}: no activation is called {value!r}; {nearest(value, ACTIVATIONS)}")
