"""`batch`, which makes a batch of any environment, and `Lanes`, a loop over separate environments."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import tree
from ..compiling.choice import Compiled, check_compiled
from ..errors import ContextError, EpisodeError, NotCompilable, SnapshotUnsupported, SpecError
from ..lane_values import lane, stack
from ..protocol.batch_env import BatchEnv, Mask, as_mask, make_batch_reset, make_batch_step
from ..protocol.env import ENDED_LANES, Env, Reset, Step
from ..protocol.infos import Infos
from ..protocol.process import Info, Snapshot
from ..rewards.rewarder import Rewarder, RewardFunction
from ..seeding import Streams, lane_seeds
from ..spec import SpecTree, spec_difference
from ..spec.base import shown
from ..structural_equality import structure
from ..wrapping.wrapper import Wrapper
from .batch_model import BatchModel
from .compiled import model_batch
from .kernel_lanes import KernelLanes, can_be_kernel_lanes
from .model_batch import batch_streams

if TYPE_CHECKING:
    from ..context import ContextSpace


class Lanes(BatchEnv):
    """A batch that loops over n separate environments. Lane i behaves exactly as environment i alone.

    Args:
        envs: The environments, with equal specs; only the names may differ, and those of the first are used.

    Raises:
        SpecError: The specs of a lane differ from those of the first.
    """

    lanes_can_wait = True

    def __init__(self, envs: Sequence[Env]) -> None:
        super().__init__(len(envs))
        self.envs = tuple(envs)
        first = self.envs[0]
        self.observation_spec, self.action_spec = first.observation_spec, first.action_spec
        self.reward_spec, self.discount_spec = first.reward_spec, first.discount_spec
        _check_alike(self.envs)
        self.state_spec, self.metadata, self.render_mode = first.state_spec, first.metadata, first.render_mode
        self._over: Mask = np.zeros(self.batch_size, bool)  # lanes that have ended, as far as is known

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        seeds, mask = lane_seeds(seed, self.batch_size), as_mask(mask, self.batch_size, "mask")
        self._streams = batch_streams(seed, self.batch_size) or self._streams
        observations: list[Any] = []
        infos: list[Info] = []
        for index, env in enumerate(self.envs):
            chosen = mask is None or mask[index]
            observation, info = env.reset(seed=seeds[index], options=options) if chosen else (env.observation, {})
            observations.append(observation)
            infos.append(info)
        self._over = np.zeros(self.batch_size, bool) if mask is None else self._over & ~mask
        return make_batch_reset((stack(self.observation_spec, observations), Infos(infos)))

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        spec, restart = self.action_spec, as_mask(restart, self.batch_size, "restart")
        over = self._over if restart is None else self._over & ~restart
        if over.any():  # before any lane has acted
            raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        begin = [False] * self.batch_size if restart is None else restart.tolist()
        step, self._over = self._stacked(
            [
                self._first(env.reset()) if new else env.step(lane(spec, action, index))
                for index, (env, new) in enumerate(zip(self.envs, begin, strict=True))
            ]
        )
        return step

    def step_lanes(self, action: Any, lanes: Mask) -> Step:
        spec, chosen = self.action_spec, as_mask(lanes, self.batch_size, "lanes")
        if (self._over & chosen).any():
            raise EpisodeError(f"step: in lanes {np.flatnonzero(self._over & chosen).tolist()}, {ENDED_LANES}")
        step, over = self._stacked(
            [
                env.step(lane(spec, action, index)) if acts else self._first(Reset(env.observation, {}))
                for index, (env, acts) in enumerate(zip(self.envs, chosen.tolist(), strict=True))
            ]
        )
        self._over = np.where(chosen, over, self._over)
        return step

    def seeds_of_lanes(self, seed: int) -> list[int]:
        return cast("list[int]", lane_seeds(seed, self.batch_size))

    def _stacked(self, steps: list[Step]) -> tuple[Step, Mask]:
        """Returns the step of all lanes, and the lanes whose episode it ended."""
        observations, rewards, ends, cuts, discounts, infos = zip(*steps, strict=True)
        terminated, truncated = np.array(ends, bool), np.array(cuts, bool)
        values = (
            stack(self.observation_spec, observations),
            stack(self.reward_spec, rewards),
            terminated,
            truncated,
            stack(self.discount_spec, discounts),
            Infos(infos),
        )
        return make_batch_step(values), terminated | truncated

    def _first(self, reset: Reset) -> Step:
        reward = tree.map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self.reward_spec)
        discount = tree.map_leaves(lambda leaf: np.ones(leaf.shape, leaf.dtype), self.discount_spec)
        return Step(reset.observation, reward, False, False, discount, reset.info)

    @property
    def state(self) -> tuple[Any, ...]:
        """The state of each lane."""
        return tuple(env.state for env in self.envs)

    @property
    def observation(self) -> Any:
        return stack(self.observation_spec, [env.observation for env in self.envs])

    @property
    def rewarder(self) -> Rewarder:
        """The rewarder of the lanes; can be set for all of them."""
        return self.envs[0].rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        for env in self.envs:
            env.rewarder = rewarder
        self.reward_spec = self.envs[0].reward_spec

    @property
    def declared_reward_spec(self) -> SpecTree:
        return self.envs[0].declared_reward_spec

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        given = list(contexts)
        specs = [env.spec_under(given) for env in self.envs]  # called on every lane, to prepare it for the contexts
        return specs[0]

    @property
    def takes_options(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if the options of a reset reach the author's code in every lane."""
        return all(env.takes_options for env in self.envs)

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for env in self.envs for name, value in env.untaken(options).items()}

    @property
    def context_space(self) -> ContextSpace | None:
        """The features of the lanes' contexts; None if there are none."""
        return getattr(self.envs[0], "context_space", None)

    @property
    def context(self) -> dict[str, list[Any]]:
        """The contexts of the coming episodes, each feature a list of n values; can be set, also to one value for all.

        Raises:
            ContextError: It is set with a list of another length, or with a value that a lane refuses; no lane has
                changed then.
        """
        envs: tuple[Any, ...] = self.envs
        lanes = [env.context for env in envs]
        return {name: [context[name] for context in lanes] for name in lanes[0]}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        n = self.batch_size
        for name, value in context.items():
            if np.ndim(value) and len(value) != n:
                raise ContextError(
                    f"context[{name!r}]: expected one value, or one for each of {n} lanes, got {len(value)}"
                )
        envs: tuple[Any, ...] = self.envs
        before = [env.context for env in envs]
        try:
            for i, env in enumerate(envs):
                env.context = {name: value[i] if np.ndim(value) else value for name, value in context.items()}
        except ContextError:
            for env, held in zip(envs, before, strict=True):
                env.context = held
            raise

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        envs: tuple[Any, ...] = self.envs
        for index, chosen in enumerate(lanes):
            env = envs[chosen]
            env.context = {**env.context, **{name: values[index] for name, values in context.items()}}

    def assign_lane(self, number: int) -> None:
        for index, env in enumerate(self.envs):
            env.assign_lane(number + index)

    @property
    def rng(self) -> np.random.Generator:
        """A generator for the batch; setting it gives each lane a generator that is seeded from it."""
        return self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        for env, seed in zip(
            self.envs, lane_seeds(int(cast("Any", generator).integers(2**63)), self.batch_size), strict=True
        ):
            env.rng = np.random.default_rng(seed)

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), ([env.snapshot() for env in self.envs], self._over, self.streams.copy()))

    def restore(self, snapshot: Snapshot) -> None:
        lanes, over, streams = self._content(snapshot)
        if len(lanes) != self.batch_size:
            raise SnapshotUnsupported(f"restore: expected a snapshot of {self.batch_size} lanes, got {len(lanes)}")
        for env, held in zip(self.envs, lanes, strict=True):
            env.restore(held)
        self._over, self._streams = over, streams.copy()

    def render(self) -> Any:
        """Returns a tuple of the lanes' pictures; see `Process.render`."""
        return tuple(env.render() for env in self.envs)

    def close(self) -> None:
        for env in self.envs:
            env.close()

    @property
    def unwrapped(self) -> Any:
        return self


class CompiledLanes(KernelLanes, Lanes):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Lanes of one scalar model that a kernel steps, with the same values.

    Args:
        envs: The models, all of one class.
        compiled: True to compile before the first step; `"auto"` to compile when that is worth its time.

    Raises:
        NotCompilable: `compiled` is True, and the model cannot be compiled.
    """

    def __init__(self, envs: Sequence[Env], compiled: Compiled = "auto") -> None:
        Lanes.__init__(self, envs)
        self._use_kernels(compiled)

    @property
    def _kind(self) -> type:
        return Lanes  # a snapshot of one kind can be restored into the other


def lanes_over(envs: Sequence[Env], compiled: Compiled) -> Lanes:
    """Makes a batch of some environments.

    Args:
        envs: The environments.
        compiled: As for `batch`.

    Raises:
        NotCompilable: `compiled` is True, and they are not models that can be compiled.
    """
    if can_be_kernel_lanes(envs, compiled):
        return CompiledLanes(envs, compiled)
    if compiled is True:
        raise NotCompilable(f"compiled=True: expected a model, got {shown(envs[0])}; only models can be compiled")
    return Lanes(envs)


def _check_alike(envs: Sequence[Env]) -> None:
    found = _difference(envs)
    if found is not None:
        index, path, expected, came = found
        raise SpecError(
            f"lane {index}: {path}: expected {expected!r} as in lane 0, got {came!r}; give all lanes equal specs"
        )


def _difference(envs: Sequence[Env]) -> tuple[int, str, SpecTree, SpecTree] | None:
    """Returns the first lane whose specs differ from those of lane 0, and the difference; None if all are equal."""
    for index, env in enumerate(envs):
        for what in ("observation", "action", "reward", "discount"):
            found = spec_difference(getattr(envs[0], f"{what}_spec"), getattr(env, f"{what}_spec"), what)
            if found is not None:
                return index, *found
    return None


def batch(env: Env | Callable[[], Env], n: int, compiled: Compiled = "auto") -> BatchEnv:
    """Makes a batch of n independent lanes of an environment.

    A `BatchModel`, also inside wrappers, steps all lanes in one call; any other environment is looped over. Wrappers
    that support batches (`Lifted`) are applied once, around all lanes.

    Args:
        env: An environment, which is copied and not changed, or a function that makes one. If the first two results of
            the function contain the same class of `BatchModel`, with equal specs and contexts, the first of them serves
            all lanes.
        n: The number of lanes.
        compiled: True to step the lanes of a model by a kernel that numba compiles; False not to; `"auto"` to do so
            where it can be compiled, as soon as that is worth the time. The values are the same.

    Returns:
        A `BatchEnv`, or the same wrappers around one.

    Raises:
        SpecError: `n` is below 1; `env` is already a batch, or cannot be copied; or the function makes environments
            with different specs.
        NotCompilable: `compiled` is True, and `env` is no model that can be compiled.
    """
    check_compiled(compiled)
    if n < 1:
        raise SpecError(f"n: expected at least 1 lane, got {n}")
    if isinstance(env, Env) and env.batch_size is not None:
        raise SpecError(f"env: expected an environment of one lane, got a batch of {env.batch_size}")
    from ..wrapping.lifted import Lifted  # imported here, so that `import envoi` stays fast

    if isinstance(env, Wrapper) and (isinstance(env, Lifted) or isinstance(env.unwrapped, BatchModel)):
        inside = lanes_of(env.env, n) if getattr(env, "one_by_one", False) else batch(env.env, n, compiled)
        outside = env.over(inside)
        outside.made_by = env.made_by
        return outside
    if isinstance(env, BatchModel):
        lanes = model_batch(copy.deepcopy(env), n, compiled)
        lanes.made_by = env.made_by
    elif isinstance(env, Env):
        return lanes_of(env, n, compiled)
    else:
        if not callable(env):
            raise SpecError(
                f"env: expected a core environment or a function that makes one, got {shown(env)}; "
                "bring it by envoi.adapters.from_env(env)"
            )
        made = [env() for _ in range(min(n, 2))]
        if isinstance(made[0].unwrapped, BatchModel) and _one_serves_all(made):
            for other in made[1:]:
                other.close()
            return batch(made[0], n, compiled)
        lanes = lanes_over([*made, *(env() for _ in range(n - 2))], compiled)
        lanes.assign_lane(0)
        return lanes
    lanes.rng = copy.deepcopy(env.rng)  # reproducible for a seeded env, and different in each lane
    return lanes


def _one_serves_all(envs: Sequence[Env]) -> bool:
    """Returns True if these are the same wrappers around the same class of model, with equal specs and contexts."""
    inside: list[Any] = list(envs)
    while True:
        first, *others = inside
        if any(type(one) is not type(first) for one in others):
            return False
        if not isinstance(first, Wrapper):
            break
        inside = [one.env for one in inside]
    contexts = [structure(one.context) for one in inside]
    return all(context == contexts[0] for context in contexts) and _difference(envs) is None


def lanes_of(env: Env, n: int, compiled: Compiled = False) -> Lanes:
    """Makes a batch that loops over copies of an environment.

    Args:
        env: The environment; it is not changed.
        n: The number of lanes.
        compiled: As for `batch`.

    Returns:
        The batch, whose random streams are derived from those of `env`.

    Raises:
        SpecError: The environment cannot be copied.
    """
    lanes = lanes_over([_copied(env) for _ in range(n)], compiled)
    lanes.assign_lane(0)
    lanes.rng = copy.deepcopy(env.rng)
    return lanes


def _copied(env: Env) -> Env:
    try:
        return copy.deepcopy(env)
    except Exception as error:  # objects of an imported environment may raise any error
        raise SpecError(f"env: {env!r} cannot be copied ({error}); give a function that makes one") from error
