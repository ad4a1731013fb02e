"""The parts of a core environment that Stable-Baselines3 has no place for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from envoi import Array, BatchEnv, Discrete, Env, Foreign, Graph, MultiDiscrete, MultiEnv, OneOf, Sequence, Text
from envoi.spec import Spec
from envoi.tree import children, leaves

from ..conversion import losses_for
from ..gymnasium import losses as space_losses
from ..gymnasium_vector import batch_of_agents
from ..shared.loss import Loss

NAME = "sb3"


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that are lost on the way to Stable-Baselines3 and back.

    Args:
        env: The core environment; if it is multi-agent, its agents become lanes.
    """
    return losses_for(env, _losses, lambda env: batch_of_agents(env, NAME) if isinstance(env, MultiEnv) else env)


def _losses(core: Env) -> list[Loss]:
    return [*(replace(loss, target=NAME) for loss in space_losses(core)), *_own_losses(core)]


def _own_losses(core: Env) -> Iterator[Loss]:
    """Yields the losses that gymnasium, which has the same spaces, does not have."""
    seen, done, reward = core.observation_spec, core.action_spec, core.reward_spec
    for part, _, sub in () if isinstance(seen, Spec) else children(seen):
        if not isinstance(sub, Spec):
            yield _refused(f"observation{part}", "nesting", sub, "use envoi.FlattenObservation")
    if not isinstance(done, Spec):
        yield _refused("action", "nesting", done, "use envoi.FlattenAction")
    for spec, what, offset in ((seen, "observation", "FlattenObservation"), (done, "action", "ActionOffset")):
        for path, leaf in leaves(spec, what):
            if isinstance(leaf, (Text, Sequence, Graph, OneOf, Foreign)):
                yield _refused(path, "type", leaf, "only arrays of numbers have a place there")
            elif isinstance(leaf, (Discrete, MultiDiscrete)) and np.any(leaf.start):
                # Its algorithms choose from 0, and its policies see choices from 0, whatever the space says.
                yield _refused(path, "start", leaf, f"use envoi.{offset}")
            elif (isinstance(leaf, MultiDiscrete) and len(leaf.shape) != 1) or (
                spec is seen and isinstance(leaf, Array) and not leaf.shape
            ):
                yield _refused(path, "shape", leaf, f"use envoi.Flatten{what.title()}")
    if not isinstance(reward, Array) or reward.shape:
        yield _refused("reward", "shape", reward, "use a rewarder that makes it one number")
    elif not np.can_cast(reward.dtype, np.float32):
        yield Loss("reward", "precision", str(reward.dtype), NAME, False, "its algorithms compute with float32")
    if isinstance(core, BatchEnv) and "reset" not in core.restarts:
        yield _refused("lanes", "restarts", core, "give the environments that it steps")


def _refused(path: str, field: str, source: Any, hint: str) -> Loss:
    return Loss(path, field, repr(source), NAME, True, hint)
