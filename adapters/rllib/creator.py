"""Env creators for `ray.tune.register_env`, and the callback that tells forms their env runner and lane."""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from envoi import ContextError, Env, MultiEnv, SpecError, batch

from ..loading import load
from ..registry import from_env
from ..shared.loss import warn_narrowed
from .codec import losses
from .form import ActionMasks, Canonical, Place, RLlibEnv, RLlibForm, RLlibVectorEnv
from .masks import has_masks

if TYPE_CHECKING:
    from .multi_form import RLlibMultiEnv

FORM = "envoi_form"
"""The entry of RLlib's `env_config` whose `canonical` and `action_masks` override those of the creator."""

OPTIONS = "envoi_options"
"""The entry of RLlib's `env_config` for the options of `envoi.integrations.rllib.EnvOptions`; not read here."""

RESERVED = ("in_evaluation", "num_envs", FORM, OPTIONS)
"""Entries of RLlib's `env_config` that are for envoi or RLlib, and not arguments of the environment."""


class _Made:
    """Records the forms that a creator made in this process. Copies and pickles are empty."""

    def __init__(self) -> None:
        self.warned = False  # of narrowed precision
        self.has_masks: bool | None = None  # None until the environment was asked
        self._context: Any = None
        self._forms: list[weakref.ref[RLlibForm]] = []

    def place(self, form: RLlibForm, context: Any) -> None:
        """Numbers the lanes of an env runner. RLlib makes all of its forms before it resets the first one."""
        before = [made for ref in self._forms if (made := ref()) is not None]
        if context is not self._context or any(made.last is not None for made in before):
            before = []
        lanes = [*before, form]
        self._context, self._forms = context, [weakref.ref(made) for made in lanes]
        for index, made in enumerate(lanes):
            made.place = replace(made.place, lane=made.seeds.worker * len(lanes) + index)

    def __reduce__(self) -> tuple[type[_Made], tuple[()]]:
        return _Made, ()


@dataclass(frozen=True)
class EnvCreator:
    """Env creator to register with Tune; makes an RLlib form on each worker. Takes the arguments of `to_rllib`."""

    env: Any
    validate: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    canonical: Canonical = True
    action_masks: ActionMasks = False
    num_envs: int | None = None
    _made: _Made = field(default_factory=_Made, init=False, repr=False, compare=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        keep_worker_index()

    def __call__(self, env_context: Mapping[str, Any] | None = None) -> RLlibEnv | RLlibMultiEnv | RLlibVectorEnv:
        config = dict(env_context or {})
        arguments = {**self.arguments, **arguments_of(config)}
        core = self._core(arguments, config.get("num_envs"))
        form_settings = config.get(FORM) or {}
        canonical: Canonical = form_settings.get("canonical", self.canonical)
        masks: ActionMasks = form_settings.get("action_masks", self.action_masks)
        if masks == "auto":
            masks = self._has_masks(arguments)
        if canonical and not self._made.warned:
            self._made.warned = True
            warn_narrowed(losses(core))
        worker = int(getattr(env_context, "worker_index", 0) or 0)
        in_evaluation = bool(config.get("in_evaluation", False))
        settings = (worker, in_evaluation, self.validate, canonical, masks)
        if isinstance(core, MultiEnv):
            from .multi_form import RLlibMultiEnv

            form = RLlibMultiEnv(core, *settings)
        elif core.batch_size is not None:
            form = RLlibVectorEnv(core, *settings)
            form.place = Place(worker, worker * core.batch_size, in_evaluation)
            return form
        else:
            form = RLlibEnv(core, *settings)
        if hasattr(env_context, "worker_index"):
            self._made.place(form, env_context)
        return form

    def _has_masks(self, arguments: Mapping[str, Any]) -> bool:
        """Returns True if the environment has action masks. Makes one environment per process to find out."""
        if self._made.has_masks is None:
            with make_core(self.env, arguments) as probe:
                self._made.has_masks = has_masks(probe)
        return self._made.has_masks

    def _core(self, arguments: Mapping[str, Any], asked: int | None) -> Env | MultiEnv:
        """Makes the core environment; a batch if the creator or RLlib has set a number of lanes."""
        if asked is not None and self.num_envs not in (None, asked):
            raise SpecError(f"num_envs: expected {self.num_envs}, as in to_rllib; RLlib asks for {asked} lanes")
        lanes = self.num_envs if asked is None else asked
        core = make_core(self.env, arguments)
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
        return batch(lambda: first.pop() if first else cast("Env", make_core(self.env, arguments)), lanes)


def keep_worker_index() -> None:
    """Lets RLlib's `EnvContext` keep its worker when RLlib adds the number of lanes to it for a vector entry point.

    RLlib adds it by `|`, which makes a plain dict, so that the lanes of all workers would begin at the same places.
    Called where a creator is loaded, which RLlib does in each env runner.
    """
    module = sys.modules.get("ray.rllib.env.env_context")  # without it there are no such contexts
    if module is not None:
        module.EnvContext.__or__ = _added


def _added(context: Any, more: Any) -> Any:
    added = context.copy_with_overrides()
    added.update(more)
    return added


def arguments_of(env_config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the environment in an `env_config`."""
    return {name: value for name, value in env_config.items() if name not in RESERVED}


def make_core(env: Any, arguments: Mapping[str, Any]) -> Env | MultiEnv:
    """Makes the core environment of an env creator."""
    if isinstance(env, str):
        return load(env, **arguments)
    if callable(env):
        return from_env(env(**arguments))
    if arguments:
        raise SpecError(f"env_config: expected nothing for a ready-made environment, got {list(arguments)}")
    made = copy.deepcopy(from_env(env))
    made.rng = np.random.default_rng()  # copies differ until RLlib seeds them
    return made


def bind_worker(*, env: Any, env_context: Any, env_runner: Any = None, **_: Any) -> None:
    """Tells envoi's forms their worker and lane; use `config.callbacks(on_environment_created=bind_worker)`.

    RLlib calls it when an env runner has made its environments, before the first reset. It finds forms in every
    `gym_env_vectorize_mode` and inside wrappers.

    Args:
        env: The vector environment of the env runner.
        env_context: RLlib's `EnvContext`, with the index of the env runner.
        env_runner: The env runner; its config shows whether it evaluates.
        **_: Other arguments of the callback, which are ignored.

    Raises:
        ContextError: RLlib would add the training contexts in `env_config` to those of `evaluation_config`.
    """
    config = getattr(env_runner, "config", None)
    _refuse_merged_contexts(getattr(config, "env_config", None), getattr(config, "evaluation_config", None))
    worker = int(getattr(env_context, "worker_index", 0) or 0)
    evaluates = bool(getattr(config, "in_evaluation", False))

    native = getattr(env, "unwrapped", env)
    if isinstance(native, AsyncVectorEnv):  # its environments are in other processes
        if all(native.call("has_wrapper_attr", "place")):
            before, n = native.get_attr("place"), native.num_envs
            native.set_attr(
                "place", [Place(worker, worker * n + i, evaluates or before[i].in_evaluation) for i in range(n)]
            )
        return
    lanes = int(getattr(native, "num_envs", 1))
    for form, lane in forms_of(native):
        form.place = Place(worker, worker * lanes + lane, evaluates or form.seeds.in_evaluation)


def forms_of(env: Any) -> Iterator[tuple[RLlibForm, int]]:
    """Yields envoi's forms in an env runner's environment, each with the index of its first lane."""
    native = getattr(env, "unwrapped", env)
    envs: Any = [native] if isinstance(native, RLlibForm) else getattr(native, "envs", ())
    for index, one in enumerate(envs):
        if isinstance(one.unwrapped, RLlibForm):
            yield one.unwrapped, index


def _refuse_merged_contexts(training: Any, evaluation: Any) -> None:
    """Refuses plain sets of contexts that RLlib would merge into one, as it merges mappings at any depth."""
    # Only a training config has both sets; the `env_config` of an evaluation env is already merged.
    if not isinstance(evaluation, Mapping) or not isinstance(training, Mapping):
        return
    given: Mapping[str, Any] = evaluation.get("env_config") or {}
    for name, ours in training.items():
        theirs: Any = given.get(name)
        if not (_is_plain_set(ours) and _is_plain_set(theirs)):
            continue
        for key, context in ours.items():
            missing = [repr(key)] if key not in theirs else [f"{key!r}][{f!r}" for f in context if f not in theirs[key]]
            if missing:
                raise ContextError(
                    f"env_config[{name!r}][{missing[0]}]: expected in training alone, but RLlib merges the "
                    f"env_config[{name!r}] of evaluation_config into it, so that the evaluation env has it too; give "
                    "both as envoi.context.ContextSet(contexts), which RLlib replaces as a whole (or, if these are "
                    "no contexts, give evaluation_config every entry)"
                )


def _is_plain_set(value: Any) -> bool:
    """Returns True if a value looks like a dict of contexts by id; RLlib merges only dicts."""
    if not isinstance(value, dict):
        return False
    contexts = value.values()
    return all(isinstance(c, dict) and not any(isinstance(v, dict) for v in c.values()) for c in contexts)
