"""The callback that tells forms their env runner and lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium.vector import AsyncVectorEnv

from envoi import ContextError

from .form_base import Place, RLlibForm


def bind_worker(*, env: Any, env_context: Any, env_runner: Any = None, **_: Any) -> None:
    """Sets worker and lane of envoi's forms; for `config.callbacks(on_environment_created=bind_worker)`.

    RLlib calls it when an env runner has made its environments, before the first reset. It finds forms in every
    `gym_env_vectorize_mode` and inside wrappers.

    Args:
        env: The vector environment of the env runner.
        env_context: RLlib's `EnvContext`, with the index of the env runner.
        env_runner: The env runner, whose config shows if it evaluates.
        **_: Other arguments of the callback, which are ignored.

    Raises:
        ContextError: RLlib would add the training contexts in `env_config` to those of `evaluation_config`.
    """
    config = getattr(env_runner, "config", None)
    _refuse_merged_contexts(getattr(config, "env_config", None), getattr(config, "evaluation_config", None))
    worker = int(getattr(env_context, "worker_index", 0) or 0)
    evaluates = bool(getattr(config, "in_evaluation", False))

    def place(form: RLlibForm, lane: int) -> None:
        form.place = Place(worker, lane, evaluates or form.seeds.in_evaluation)

    native = getattr(env, "unwrapped", env)
    if isinstance(native, RLlibForm):
        place(native, worker * int(getattr(native, "num_envs", 1)))
    elif isinstance(native, AsyncVectorEnv):  # its environments are in other processes
        if all(native.call("has_wrapper_attr", "place")):
            before, n = native.get_attr("place"), native.num_envs
            native.set_attr(
                "place", [Place(worker, worker * n + i, evaluates or before[i].in_evaluation) for i in range(n)]
            )
    else:
        envs = getattr(native, "envs", ())
        for index, one in enumerate(envs):
            if isinstance(one.unwrapped, RLlibForm):
                place(one.unwrapped, worker * len(envs) + index)


def _refuse_merged_contexts(training: Any, evaluation: Any) -> None:
    """Refuses plain sets of contexts that RLlib would merge into one, as it merges mappings at any depth.

    Only a training config has both sets; the `env_config` of an evaluation env is already merged.

    Args:
        training: The `env_config` of a training config.
        evaluation: Its `evaluation_config`; None in an evaluation config itself.

    Raises:
        ContextError: A training context, or a feature of one, would be in the evaluation environment too.
    """
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
