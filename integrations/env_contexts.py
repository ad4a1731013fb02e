"""The contexts of envs, their spaces, and the first lane of a batch, for training and evaluation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sized
from typing import Any, cast

import numpy as np

import envoi
from envoi import BatchEnv, Env, Reset, Step
from envoi.adapters.conversion import core_layers
from envoi.adapters.shared.loss import warn_user
from envoi.context import ContextRanges, read_contexts
from envoi.lane_values import lane, stack
from envoi.protocol.batch_env import step_of_lane
from envoi.protocol.process import Process
from envoi.wrapping.delegate import Around

MANY_CONTEXTS = 100_000
"""More contexts than these are seldom meant: a command line asks for --yes."""


def contextual_of(env: Any) -> envoi.Contextual | None:
    """Returns the outermost `Contextual` of an env, also inside wrappers and envoi's forms, or None."""
    while not isinstance(env, envoi.Contextual):
        if isinstance(env, Around):
            env = env.env
            continue
        native = env.unwrapped
        inner = getattr(native, "core", None)  # every form of envoi has one
        if native is env or not isinstance(inner, Process):
            return None
        env = inner
    return env


def read_set(given: Any, env: Any, seed: int = 0) -> Any:
    """Reads contexts by id from a dict, the path of a file, or a text such as `length=0.3..0.7`."""
    if isinstance(given, (str, os.PathLike)):
        given = read_contexts(cast("str", given), getattr(env, "context_space", None))
    if _count(given) > MANY_CONTEXTS:  # before they are made, which takes long
        warn_user(f"{_count(given):,} contexts, which each process holds; a coarser grid may do", UserWarning)
    return given.contexts(seed=seed) if isinstance(given, ContextRanges) else given


def confirm_many(option: str, given: Any, yes: bool) -> None:
    """Raises an error if a command line gives more than `MANY_CONTEXTS` contexts without --yes."""
    if _count(given) > MANY_CONTEXTS and not yes:
        raise envoi.EnvoiError(
            f"{option}: {_count(given):,} contexts; confirm so many by --yes, or give a coarser grid"
        )


def _count(given: Any) -> int:
    return given.cells if isinstance(given, ContextRanges) else len(given) if isinstance(given, Sized) else 0


def are_regions(given: Any) -> bool:
    """Returns True for contexts by region and id, as `envoi.context.regions` makes them."""
    parts = (
        [one for one in cast("Any", given).values() if isinstance(one, Mapping)] if isinstance(given, Mapping) else []
    )
    return any(isinstance(context, Mapping) for one in parts for context in cast("Any", one).values())


def with_contexts(env: Any, **changes: Any) -> Any:
    """Changes arguments of an env's `Contextual`. If it has none, adds a `Contextual` that hides the contexts."""
    inner = next((layer for layer in core_layers(env) if isinstance(layer, envoi.Contextual)), None)
    return envoi.Contextual(env, hide_context=True, **changes) if inner is None else _changed(env, inner, changes)


def _changed(env: Any, contextual: envoi.Contextual, changes: Mapping[str, Any]) -> Any:
    if env is not contextual:
        return env.over(_changed(env.env, contextual, changes))
    _, args, kwargs = contextual.construction
    given = {**dict(zip(("contexts",), args, strict=False)), **kwargs, "context_selector_kwargs": None, **changes}
    if "state_context_features" in changes:
        given["obs_context_features"] = None  # its other name
    return envoi.Contextual(contextual.env, **given)


def name_overlap(held_out: Mapping[Any, Any], trained: Iterable[Any], env: envoi.Contextual) -> str:
    """Returns the ids of held-out contexts that are also among the trained ones, as text; "" if there are none."""
    known = [*trained]
    both = [repr(key) for key, context in held_out.items() if env.fill_context_with_default(context) in known]
    return ", ".join(both[:5]) + (", …" if len(both) > 5 else "")


def fits(has: Any, wants: Any) -> bool:
    """Returns True for spaces of equal shapes, dtypes and counts; bounds may differ, as they do between contexts."""
    return _layout(has) == _layout(wants)


def _layout(space: Any) -> Any:
    inner = getattr(space, "spaces", None)
    if inner is not None:
        named = inner.items() if isinstance(inner, Mapping) else enumerate(inner)
        return {key: _layout(one) for key, one in named}
    counts = getattr(space, "n", None), np.asarray(getattr(space, "nvec", ())).tolist()
    return space.shape, str(space.dtype), counts


class FirstLane(Around[BatchEnv], Env):
    """The first lane of a batch as an env. The other lanes take the same actions; their results are dropped."""

    memory = ("_restart",)

    def __init__(self, env: BatchEnv) -> None:
        super().__init__(env)
        self._restart: Any = None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observation, infos = self.env.reset(seed=seed, options=options)
        self._restart = None
        return Reset(lane(self.observation_spec, observation, 0), dict(infos[0]))

    def step(self, action: Any) -> Step:
        actions = stack(self.action_spec, [action] * self.env.batch_size)
        step: Any = self.env.step(actions, self._restart)
        others = np.array(step.terminated | step.truncated)
        others[0] = False
        self._restart = others if others.any() else None
        return step_of_lane(self, step, 0)

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self.env.observation, 0)
