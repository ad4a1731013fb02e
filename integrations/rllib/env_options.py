"""The options of an env under RLlib, which `register`, `configure`, `Settings` and the command line share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import envoi
from envoi.errors import UnknownName, nearest

CHOICES: Mapping[str, tuple[Any, ...]] = {
    "action_masks": ("auto", True, False),
    "vectorize": ("auto", True, False),
    "check_specs": ("sample", True, False),
    "on_env_error": ("stop", "restart"),
}
"""The values of the options that have few."""


@dataclass(frozen=True, kw_only=True)
class EnvOptions:
    """The options of an env under RLlib.

    Args:
        action_masks: True puts the action mask into each observation, for modules that mask; "auto" does so if the env
            has masks and `configure` sets such a module.
        vectorize: True steps the lanes of a runner as one batch (`gym_env_vectorize_mode="vector_entry_point"`), False
            one by one; "auto" as a batch if the env can step many lanes together.
        check_specs: True checks each value against its spec, "sample" when one of a lane's first two episodes begins
            or ends and in one step of a thousand, False never. NaN is found in all steps unless this is False.
        on_env_error: "stop" ends the training with the env's own error; "restart" makes the envs of that worker again
            and discards their unfinished episodes.
        max_env_restarts: How many times in a row a worker's envs, or its process, may be restarted before an error is
            raised; ten minutes without a restart set the count back to 0.
        step_timeout: Seconds after which a step or reset counts as hanging, which is an error.

    Raises:
        envoi.EnvoiError: A value is not one of those above.
    """

    action_masks: bool | Literal["auto"] = "auto"
    vectorize: bool | Literal["auto"] = "auto"
    check_specs: bool | Literal["sample"] = "sample"
    on_env_error: Literal["stop", "restart"] = "stop"
    max_env_restarts: int = 3
    step_timeout: float = 60.0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
                near = nearest(str(value), [one for one in choices if isinstance(one, str)])
                hint = f"; {near}" if near.endswith("?") else ""
                raise UnknownName(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}{hint}")
        restarts, seconds = self.max_env_restarts, self.step_timeout
        if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
            raise envoi.EnvoiError(f"max_env_restarts: expected a whole number, at least 0, got {restarts!r}")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise envoi.EnvoiError(
                f"step_timeout: expected a number of seconds above 0, got {seconds!r}; inf for no limit"
            )

    @classmethod
    def of(cls, holder: object) -> EnvOptions:
        """Collects the options from a function's `locals()`, or from an object's attributes."""
        held: Mapping[str, Any] = holder if isinstance(holder, Mapping) else vars(holder)
        return cls(**{field.name: held[field.name] for field in fields(cls)})

    def changes(self) -> dict[str, Any]:
        """Returns the options that differ from the defaults, by name."""
        defaults = asdict(EnvOptions())
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}
