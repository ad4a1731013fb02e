"""Wrappers: environments made from another environment.

A wrapper forwards everything that it does not change. One class serves single environments and batches alike: values
of a batch have a leading lane axis, `mask` and `restart` select the lanes that begin a new episode, and `hold` those
that pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..errors import SpecError
from ..protocol.batch_env import BatchEnv, Mask, Seeds
from ..protocol.env import Env, Reset, Step, refuse_masks
from ..protocol.fast_steps import record_of
from ..spec.base import shown
from ..steps.record import Record
from .delegate import Around, Inner


class Wrapper(Around[Env], Env):
    """An environment that behaves like `env`. Subclass it and override the differences.

    A subclass calls `super().__init__(env)`, and sets the specs that it changes.

    Args:
        env: The environment inside.
    """

    batch_size: Any = Inner()
    restarts: Any = Inner()
    lanes_can_wait: Any = Inner()

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        if not isinstance(cast("object", env), Env):
            raise SpecError(
                f"env: expected an environment of one agent, or a batch, got {shown(env)} of several agents; "
                "make the wrapper a Lifted or a MultiWrapper"
            )

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None, mask: Mask | None = None) -> Reset:
        if mask is None:
            return self._env_inside.reset(seed=seed, options=options)
        return self._env_inside.reset(seed=seed, options=options, mask=mask)

    def step(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> Step:
        if (restart is not None or hold is not None) and self.batch_size is None:
            refuse_masks(restart, hold)
        if hold is not None:
            return self._env_inside.step(action, restart, hold)
        if restart is None:
            return self.env.step(action)
        return self._env_inside.step(action, restart)

    step_program = Around[Any].program_inside  # beside `step`, see `program_of`

    @property
    def step_record(self) -> Record:
        return record_of(self.env) if type(self).step is Wrapper.step else self.outer_record

    @property
    def observation(self) -> Any:
        return self.env.observation

    def sample_action(self) -> Any:
        if self.action_spec is self.env.action_spec:
            return self.env.sample_action()
        return Env.sample_action(self) if self.batch_size is None else BatchEnv.sample_action(cast("Any", self))
