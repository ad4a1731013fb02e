"""The parts of a core environment that Stable-Baselines3 has no place for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from envoi import Array, BatchEnv, Discrete, Env, Foreign, Graph, MultiDiscrete, MultiEnv, OneOf, Sequence, Text
from envoi.spec import Spec, SpecTree
from envoi.tree import children, leaves

from ..conversion import losses_for
from ..gymnasium import losses as space_losses
from ..gymnasium_vector import batch_of_agents
from ..shared.loss import Loss

NAME = "sb3"


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists what of a core environment would not survive the way to Stable-Baselines3 and back.

    Args:
        env: The core environment; several agents are lanes there.
    """
    return losses_for(env, _losses, lambda env: batch_of_agents(env, NAME) if isinstance(env, MultiEnv) else env)


def _losses(core: Env) -> list[Loss]:
    found = [replace(loss, target=NAME) for loss in space_losses(core)]
    found += [*_of_observations(core.observation_spec), *_of_actions(core.action_spec), *_of_rewards(core.reward_spec)]
    if isinstance(core, BatchEnv) and "reset" not in core.restarts:
        found.append(_refused("lanes", "restarts", core, "give the environments that it steps"))
    return found


def _refused(path: str, field: str, source: Any, hint: str) -> Loss:
    return Loss(path, field, repr(source), NAME, True, hint)


def _of_observations(spec: SpecTree) -> Iterator[Loss]:
    if not isinstance(spec, Spec):
        for part, _, sub in children(spec):
            if not isinstance(sub, Spec):
                yield _refused(f"observation{part}", "nesting", sub, "use envoi.FlattenObservation")
    yield from _of_leaves(spec, "observation")


def _of_actions(spec: SpecTree) -> Iterator[Loss]:
    if not isinstance(spec, Spec):
        yield _refused("action", "nesting", spec, "use envoi.FlattenAction")
    for path, leaf in leaves(spec, "action"):
        if isinstance(leaf, (Discrete, MultiDiscrete)) and np.any(leaf.start):
            # Its algorithms choose from 0, whatever the space says.
            yield _refused(path, "start", leaf, "use envoi.ActionOffset")
    yield from _of_leaves(spec, "action")


def _of_leaves(spec: SpecTree, what: str) -> Iterator[Loss]:
    for path, leaf in leaves(spec, what):
        if isinstance(leaf, (Text, Sequence, Graph, OneOf, Foreign)):
            yield _refused(path, "type", leaf, "only arrays of numbers have a place there")


def _of_rewards(spec: SpecTree) -> Iterator[Loss]:
    if not isinstance(spec, Array) or spec.shape:
        yield _refused("reward", "shape", spec, "use a rewarder that makes it one number")
    elif not np.can_cast(spec.dtype, np.float32):
        yield Loss("reward", "precision", str(spec.dtype), NAME, False, "its algorithms compute with float32")
