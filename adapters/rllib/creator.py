"""Env creators for `ray.tune.register_env`."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from envoi import BatchEnv, Env, MultiEnv, SpecError, batch

from ..loading import load
from ..registry import from_env
from ..shared.loss import warn_narrowed
from .codec import losses

if TYPE_CHECKING:
    from .multi_form import RLlibMultiEnv
    from .vector_form import RLlibVectorEnv

from .form import RLlibEnv
from .form_base import Place, RLlibForm

RESERVED = ("in_evaluation", "num_envs")
"""Entries of RLlib's `env_config` that are ours or RLlib's, and not arguments of the environment."""


class _Made:
    """Record of what a creator has done in this process. A copy, here or in another process, knows nothing of it.

    Attributes:
        warned: Whether it has warned of what is narrowed.
    """

    def __init__(self) -> None:
        self.warned = False
        self._context: Any = None
        self._forms: list[weakref.ref[RLlibForm]] = []

    def place(self, form: RLlibForm, context: Any) -> None:
        """Numbers the forms that RLlib asks for one by one, by one context, before it resets the first of them."""
        before = [made for ref in self._forms if (made := ref()) is not None]
        if context is not self._context or any(made.last is not None for made in before):
            before = []
        lanes = [*before, form]
        self._context, self._forms = context, [weakref.ref(made) for made in lanes]
        for index, made in enumerate(lanes):
            worker, in_evaluation = made.seeds.worker, made.seeds.in_evaluation
            made.place = Place(worker, worker * len(lanes) + index, in_evaluation)

    def __reduce__(self) -> tuple[type[_Made], tuple[()]]:
        return _Made, ()


@dataclass(frozen=True)
class EnvCreator:
    """What Tune registers: makes an environment in RLlib's form on a worker.

    Args:
        env: A name for `envoi.adapters.load`, something callable that makes an environment, or an environment, of
            which each lane gets a copy.
        validate: Check every value against its spec.
        arguments: For `load` or the callable; RLlib's `env_config` goes there too, and wins.
        canonical: Give spaces that RLlib's networks train on; otherwise gymnasium's.
        action_masks: Put each observation beside the mask of its actions.
        num_envs: Make a batch of so many lanes, also where RLlib does not ask for one.
    """

    env: Any
    validate: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    canonical: bool = True
    action_masks: bool = False
    num_envs: int | None = None
    _made: _Made = field(default_factory=_Made, init=False, repr=False, compare=False)

    def __call__(self, env_context: Mapping[str, Any] | None = None) -> RLlibEnv | RLlibMultiEnv | RLlibVectorEnv:
        config = dict(env_context or {})
        arguments = {
            **self.arguments,
            **{name: value for name, value in config.items() if name not in RESERVED},
        }
        core = self._core(arguments, self._lanes(config.get("num_envs")))
        if self.canonical and not self._made.warned:
            self._made.warned = True
            warn_narrowed(losses(core))
        worker = int(getattr(env_context, "worker_index", 0) or 0)
        in_evaluation = bool(config.get("in_evaluation", False))
        settings = (worker, in_evaluation, self.validate, self.canonical, self.action_masks)
        if isinstance(core, MultiEnv):
            from .multi_form import RLlibMultiEnv

            form = RLlibMultiEnv(core, *settings)
        elif core.batch_size is not None:
            from .vector_form import RLlibVectorEnv

            form = RLlibVectorEnv(cast("BatchEnv", core), *settings)
            form.place = Place(worker, worker * core.batch_size, in_evaluation)
            return form
        else:
            form = RLlibEnv(core, *settings)
        if hasattr(env_context, "worker_index"):
            self._made.place(form, env_context)
        return form

    def _lanes(self, asked: int | None) -> int | None:
        """How many lanes: as the creator says, or as RLlib asks where it makes vector environments."""
        if asked is not None and self.num_envs not in (None, asked):
            raise SpecError(f"num_envs: expected {self.num_envs}, as in to_rllib; RLlib asks for {asked} lanes")
        return self.num_envs if asked is None else asked

    def _core(self, arguments: Mapping[str, Any], lanes: int | None) -> Env | MultiEnv:
        core = self._make(arguments)
        if lanes is None:
            return core
        if isinstance(core, MultiEnv):
            raise SpecError(
                "num_envs: RLlib steps environments of several agents one by one; leave gym_env_vectorize_mode='sync'"
            )
        if core.batch_size is not None:
            if core.batch_size != lanes:
                raise SpecError(f"num_envs: expected {core.batch_size}, the lanes of the batch, got {lanes}")
            return core
        if not isinstance(self.env, str) and not callable(self.env):
            return batch(core, lanes)
        first = [core]
        return batch(lambda: first.pop() if first else cast("Env", self._make(arguments)), lanes)

    def _make(self, arguments: Mapping[str, Any]) -> Env | MultiEnv:
        if isinstance(self.env, str):
            return load(self.env, **arguments)
        if callable(self.env):
            return from_env(self.env(**arguments))
        if arguments:
            raise SpecError(f"env_config: expected nothing for a ready-made environment, got {list(arguments)}")
        made = copy.deepcopy(from_env(self.env))
        made.rng = np.random.default_rng()  # until RLlib seeds it, each copy goes its own way
        return made
