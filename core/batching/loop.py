"""`batch`, which makes a batch of any environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

from ..compiling.choice import Compiled, check_compiled
from ..errors import NotCompilable, SpecError
from ..protocol.batch_env import BatchEnv
from ..protocol.env import Env
from ..spec.base import shown
from ..structural_equality import structure
from ..wrapping.arguments import at_least
from ..wrapping.wrapper import Wrapper
from .batch_model import BatchModel, ModelBatch, are_models, why_interpreted
from .lanes import Lanes as Lanes
from .lanes import StreamsOf, lanes_difference


def batch(
    env: Env | Callable[[], Env],
    n: int,
    *,
    workers: int | None = None,
    timeout: float | None = None,
    restart: bool = False,
    start_method: str | None = None,
    compiled: Compiled = "auto",
    streams: StreamsOf | None = None,
) -> BatchEnv:
    """Makes a batch of n independent lanes of an environment.

    A `BatchModel`, with or without wrappers, steps all lanes in one call; other environments are stepped in a loop.
    Wrappers that support batches (`Lifted`) are applied once, around all lanes.

    Args:
        env: An environment (it is copied, not changed), or a function that makes one. If the function's first two
            results contain the same class of `BatchModel`, with equal specs and contexts, the first result serves all
            lanes. Wrappers made with equal arguments around models of one class are taken from the first result.
        n: The number of lanes.
        workers: The number of processes to divide the lanes over; see `WorkerLanes`, whose `send` and `recv` step some
            lanes at a time. None for a loop in this process, which gives the same values.
        timeout: With `workers`: the seconds that one reset or step may take, or None for no limit.
        restart: With `workers`: if True, lanes whose process or environment fails are truncated, and begin their next
            episode in a new environment; if False, this raises a `WorkerError`.
        start_method: With `workers`: `"spawn"`, `"fork"`, `"forkserver"`; None for the default of the platform.
        compiled: True to step the lanes of a scalar `Model` in a kernel that numba compiles; False to step in Python;
            `"auto"` to compile if possible, once it is worthwhile. The values are the same. A `BatchModel` always steps
            in numpy.
        streams: `"lanes"` for separate random streams, so that a lane behaves like a single environment with the lane's
            seed. `"batch"` for one set of streams that all lanes of a model share, taking numbers in lane order. None
            for the default: `"batch"` for a `BatchModel`, else `"lanes"`.

    Returns:
        A `BatchEnv`, or the same wrappers around one.

    Raises:
        SpecError: `n` is below 1; `env` is already a batch, or cannot be copied; the function makes environments with
            different specs; an argument for workers is given without `workers`; or the lanes do not support `streams`.
        NotCompilable: `compiled` is True, and `env` is not a scalar model that can be compiled.
        WorkerError: A worker process fails to make its environments.
    """
    check_compiled(compiled, workers)
    if streams not in (None, "lanes", "batch"):
        raise SpecError(f"streams: expected 'lanes', 'batch' or None, got {streams!r}")
    if streams == "batch" and workers is not None:
        raise SpecError("streams='batch': lanes in several processes cannot share streams; leave out workers")
    n = at_least(n, 1, "n")
    if isinstance(env, Env) and env.batch_size is not None:
        raise SpecError(f"env: expected an environment of one lane, got a batch of {env.batch_size}")
    settings: dict[str, Any] = {"timeout": timeout, "restart": restart, "start_method": start_method}
    if workers is None:
        given = [name for name, value in settings.items() if value]
        if given:
            raise SpecError(f"{given[0]}: expected none without workers; give their number, as in workers=2")
    settings["workers"] = workers
    from ..wrapping.lifted import Lifted  # imported here, so that `import envoi` stays fast

    if isinstance(env, Wrapper) and (isinstance(env, Lifted) or isinstance(env.unwrapped, BatchModel)):
        one_by_one = getattr(env, "one_by_one", False)
        inside = (
            _separate(env.env, n, settings, compiled, streams)
            if one_by_one
            else batch(env.env, n, **settings, compiled=compiled, streams=streams)
        )
        outside = env.over(inside)
        outside.made_by = env.made_by
        return outside
    if isinstance(env, BatchModel) and workers is None:
        if compiled is True:
            raise NotCompilable(f"compiled=True: {why_interpreted(env)}")
        if streams == "lanes":
            raise SpecError(
                f"streams='lanes': the lanes of {type(env).__name__} are stepped by one call of its functions, so they "
                "share streams; leave out streams, or loop over copies of it by envoi.Lanes"
            )
        lanes = ModelBatch(copy.deepcopy(env), n)
        lanes.made_by = env.made_by
        lanes.rng = copy.deepcopy(env.rng)  # reproducible for a seeded env, and different in each lane
        return lanes
    if isinstance(env, Env) or workers is not None:
        return _separate(env, n, settings, compiled, streams)
    made: list[Any] = [env() for _ in range(min(n, 2))] if callable(env) else [env]
    if not isinstance(made[0], Env):
        raise SpecError(
            f"env: expected a core environment of one agent or a function that makes one, got {shown(made[0])}; bring "
            "others by envoi.adapters.from_env, and agents as lanes by envoi.adapters.to_gymnasium_vector(game)"
        )
    if isinstance(made[0].unwrapped, BatchModel) and _one_serves_all(made):
        for other in made[1:]:
            other.close()
        return batch(made[0], n, compiled=compiled, streams=streams)
    return _together([*made, *(env() for _ in range(n - 2))], compiled, streams or "lanes")


def _separate(
    env: Env | Callable[[], Env], n: int, settings: dict[str, Any], compiled: Compiled, streams: StreamsOf | None
) -> Lanes:
    """Makes a batch of separate environments, in this process or in workers."""
    if settings["workers"] is None:
        return lanes_of(cast("Env", env), n, compiled, streams or "lanes")
    from .workers.lanes import WorkerLanes  # imported here, so that `import envoi` stays fast

    lanes = WorkerLanes(env, n, **settings)
    lanes.assign_lane(0)
    if isinstance(env, Env):
        lanes.rng = copy.deepcopy(env.rng)
    return lanes


def _one_serves_all(envs: Sequence[Env]) -> bool:
    """Returns True if all have the same wrappers around one class of model, with equal specs and contexts."""
    inside: list[Any] = list(envs)
    while True:
        first, *others = inside
        if any(type(one) is not type(first) for one in others):
            return False
        if not isinstance(first, Wrapper):
            break
        inside = [one.env for one in inside]
    contexts = [structure(one.context) for one in inside]
    return all(context == contexts[0] for context in contexts) and lanes_difference(envs) is None


def _together(envs: Sequence[Any], compiled: Compiled, streams: StreamsOf) -> BatchEnv:
    """Makes a batch of separate environments. Wrappers that all models share are applied once, around all lanes."""
    from ..wrapping.lifted import Lifted  # imported here, so that `import envoi` stays fast

    first = envs[0]
    if all(isinstance(one, Lifted) and not getattr(one, "one_by_one", False) for one in envs):
        alike = len({structure(one.construction) for one in envs}) == 1
        if alike and are_models([one.unwrapped for one in envs]):
            outside = first.over(_together([one.env for one in envs], compiled, streams))
            outside.made_by = first.made_by
            return outside
    return _lanes_over(envs, compiled, streams)


def lanes_of(env: Env, n: int, compiled: Compiled = False, streams: StreamsOf = "lanes") -> Lanes:
    """Makes a batch that loops over copies of an environment."""
    lanes = _lanes_over([_copied(env) for _ in range(n)], compiled, streams)
    lanes.rng = copy.deepcopy(env.rng)
    return lanes


def _lanes_over(envs: Sequence[Env], compiled: Compiled, streams: StreamsOf) -> Lanes:
    """Makes a batch of separate environments: `ModelLanes`, which can compile, or else a plain loop."""
    if not (is_held := are_models(envs)) and compiled is True:
        raise NotCompilable(f"compiled=True: {why_interpreted(envs[0])}")
    if is_held:
        from .model_lanes import ModelLanes  # imported here, so that `import envoi` stays fast

        lanes = ModelLanes(cast("Any", envs), compiled, streams)
    else:
        lanes = Lanes(envs, streams)
    lanes.assign_lane(0)
    return lanes


def _copied(env: Env) -> Env:
    try:
        return copy.deepcopy(env)
    except Exception as error:  # objects of an imported environment may raise any error
        raise SpecError(f"env: {env!r} cannot be copied ({error}); give a function that makes one") from error
