"""Wrappers around multi-agent environments; a module of its own, so that `import envoi` stays fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..errors import SpecError
from ..protocol.env import refuse_masks
from ..protocol.fast_steps import record_of
from ..protocol.multi_env import MultiEnv, MultiReset, MultiStep
from ..spec.base import shown
from ..steps.record import Record
from .delegate import Around, Inner


class MultiWrapper(Around[MultiEnv], MultiEnv):
    """A multi-agent environment that behaves like `env`. Subclass it and override the differences.

    Args:
        env: The environment inside.
    """

    possible_agents: Any = Inner()
    agents: Any = Inner()
    turn: Any = Inner()

    def __init__(self, env: MultiEnv) -> None:
        super().__init__(env)
        if not isinstance(cast("object", env), MultiEnv):
            raise SpecError(
                f"env: expected an environment of several agents, got {shown(env)} of one; "
                "make the wrapper a Lifted or a Wrapper, or give it as_multi(env)"
            )

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Mapping[Any, Any], *masks: Any, **named: Any) -> MultiStep:
        refuse_masks(*masks, **named)
        return self.env.step(actions)

    step_program = Around[Any].program_inside  # beside `step`, see `program_of`

    @property
    def step_record(self) -> Record:
        return record_of(self.env) if type(self).step is MultiWrapper.step else self.outer_record

    def observation(self, agent: Any) -> Any:
        return self.env.observation(agent)
