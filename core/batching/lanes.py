"""`Lanes`, a batch that loops over separate environments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from .. import tree
from ..authoring.model import Model
from ..errors import ContextError, EpisodeError, SpecError
from ..lane_values import lane, splitter, stack, stacker
from ..protocol.batch_env import (
    BatchEnv,
    Mask,
    Seeds,
    as_mask,
    check_count,
    default_discounts,
    each_of,
    make_batch_reset,
)
from ..protocol.env import ENDED, ENDED_LANES, NOT_RESET, Env, Reset
from ..protocol.fast_steps import fast_step
from ..protocol.infos import Infos
from ..protocol.process import Info, Snapshot
from ..protocol.reset_options import as_mapping
from ..rewards.rewarder import Rewarder, RewardFunction
from ..seeding import Streams, StreamStates, batch_streams, lane_seeds
from ..spec import Array, SpecTree, spec_difference
from ..spec.base import shown

if TYPE_CHECKING:
    from ..context import ContextSpace


class Lanes(BatchEnv):
    """A batch that loops over n separate environments. Lane i behaves exactly like environment i on its own.

    Steps of environments cannot be undone: if a lane raises an error, the lanes before it have already acted. For lanes
    that `envoi.batch` makes from a model, an error changes nothing.

    Args:
        envs: The environments. Their specs must be equal except for names, which are taken from the first.
        streams: `"lanes"` for separate random streams per lane. `"batch"` for one set of streams that all lanes share,
            as in a `ModelBatch`: within a step, lanes take random numbers in lane order. The environments must then be
            models, possibly wrapped.

    Attributes:
        shares_streams: True if all lanes share one set of streams.

    Raises:
        SpecError: A lane's specs differ from the first lane's, or `streams="batch"` is used without models.
    """

    lanes_can_wait = True
    shares_streams: bool = False

    _passing = ("_written_step", "_plan")
    _plan: _LoopPlan | None = None  # made at the first step, and again by copies
    _all_begun: bool = False  # True if all lanes have begun, as far as is known

    def __init__(self, envs: Sequence[Env], streams: StreamsOf = "lanes") -> None:
        super().__init__(len(envs))
        self.envs = tuple(envs)
        first = envs[0]
        self.observation_spec, self.action_spec = first.observation_spec, first.action_spec
        self.reward_spec, self.discount_spec = first.reward_spec, first.discount_spec
        check_alike(envs)
        check_separate(dict(enumerate(envs)))
        self.state_spec, self.metadata, self.render_mode = first.state_spec, first.metadata, first.render_mode
        self._over: Mask = np.zeros(self.batch_size, bool)  # lanes that have ended, as far as is known
        if streams == "batch":
            check_models(envs)
            self._share(Streams())

    def _share(self, streams: Streams) -> None:
        """Makes all lanes use one set of random streams."""
        self.shares_streams, self._streams = True, streams
        for env in self.members:
            cast("Model", env.unwrapped).use_streams(streams)

    @property
    def members(self) -> tuple[Any, ...]:
        """The environment of each lane, or its model if the batch itself keeps the episodes."""
        return self.envs

    def _streams_changed(self) -> None:
        """Called after lanes have received other random streams."""

    def use_states(self) -> None:
        """Prepares the batch for external code that modifies its members."""

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None, mask: Mask | None = None) -> Reset:
        seeds, mask = lane_seeds(seed, self.batch_size), as_mask(mask, self.batch_size, "mask")
        streams = batch_streams(seed, self.batch_size) or self._streams
        infos: list[Info] = [{} for _ in self.envs]
        if mask is not None and not mask.all():
            self._check_all_begun("reset", " in all lanes first, without a mask")
        observations: list[Any] = []
        if self.shares_streams:
            seeds = [None] * self.batch_size
            self._share(streams or self.streams)
        for index, env in enumerate(self.envs):
            if mask is None or mask[index]:
                try:
                    observation, infos[index] = env.reset(seed=seeds[index], options=options)
                except Exception as error:
                    error.envoi_lane = index  # type: ignore[attr-defined]
                    raise
            else:
                observation = env.observation
            observations.append(observation)
        self._streams, self._all_begun = streams, True
        self._over = np.zeros(self.batch_size, bool) if mask is None else self._over & ~mask
        return make_batch_reset((stack(self.observation_spec, observations, "observation"), Infos(infos)))

    def _check_all_begun(self, what: str, advice: str = "") -> None:
        """Checks that every lane has been reset once; raises an EpisodeError otherwise."""
        if self._all_begun:
            return
        try:
            for env in self.envs:
                _ = env.observation
        except EpisodeError as error:
            raise EpisodeError(f"{what}: {NOT_RESET}{advice}") from error
        self._all_begun = True

    def advance(
        self, action: Any, restart: Mask | None, hold: Mask | None, idle: Mask | None
    ) -> tuple[Any, Any, Any, Any, Any, Infos]:
        over = self._over if idle is None else self._over & ~idle
        if np.count_nonzero(over):  # before any lane has acted
            raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        plan = self._planned()
        calls: Sequence[LaneCall] = plan.steps
        if idle is not None:
            self._check_all_begun("step")
            calls = list(calls)
            for mask, others in ((restart, plan.restarts), (hold, plan.pauses)):
                for index in [] if mask is None else np.flatnonzero(mask).tolist():
                    calls[index] = others[index]
        *values, infos = self._stacked(plan, calls, action)
        over = np.zeros(self.batch_size, bool) if values[2] is None else values[2] | values[3]
        if hold is not None:
            over = over | self._over & hold
            infos = Infos(list(infos))  # by lane, because wrappers add entries to those of other lanes only
        self._over = over
        return (*values, infos)  # pyright: ignore[reportReturnType]

    def seeds_of_lanes(self, seed: int) -> list[int]:
        if self.shares_streams:
            return super().seeds_of_lanes(seed)
        return cast("list[int]", lane_seeds(seed, self.batch_size))

    def _planned(self) -> _LoopPlan:
        plan = self._plan
        # A context's binding may replace environments, and a rewarder the spec of rewards.
        if plan is None or plan.envs is not self.envs or plan.reward_spec is not self.reward_spec:
            self._plan = plan = _LoopPlan(self)
        return plan

    def _stacked(
        self, plan: _LoopPlan, calls: Sequence[LaneCall], action: Any
    ) -> tuple[Any, Any, Any, Any, Any, Infos]:
        """Calls one function for each lane with its action, and returns the six values of all lanes."""
        n = self.batch_size
        actions = plan.split(action)
        check_count("action", actions, n)
        steps: list[Any] = []
        try:
            for call, one in zip(calls, actions):  # noqa: B905 (they are counted)
                steps.append(call(one))
        except Exception as error:
            error.envoi_lane = len(steps)  # type: ignore[attr-defined]
            raise
        observations, rewards, ends, cuts, discounts, infos = zip(*steps)  # noqa: B905 (six values each)
        quiet = not (any(ends) or any(cuts))
        return (
            plan.stack_observations(observations),
            plan.stack_rewards(rewards),
            None if quiet else np.array(ends, bool),
            None if quiet else np.array(cuts, bool),
            plan.stack_discounts(discounts, ends),
            Infos(infos) if any(infos) else Infos(columns={}, n=n),
        )

    @property
    def state(self) -> tuple[Any, ...]:
        """The state of each lane."""
        return tuple(env.state for env in self.envs)

    @property
    def observation(self) -> Any:
        return stack(self.observation_spec, [env.observation for env in self.envs], "observation")

    @property
    def rewarder(self) -> Rewarder:
        """The lanes' rewarder. Setting it sets the rewarder of all lanes."""
        return self.members[0].rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.use_states()
        for env in self.members:
            env.rewarder = rewarder
        self.reward_spec = self.members[0].reward_spec

    @property
    def declared_reward_spec(self) -> SpecTree:
        return self.members[0].declared_reward_spec

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        given = list(contexts)
        specs = [env.spec_under(given) for env in self.members]  # called on every lane, to prepare it for the contexts
        return specs[0]

    @property
    def takes_options(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if reset options reach the author's code in every lane."""
        return all(env.takes_options for env in self.members)

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for env in self.members for name, value in env.untaken(options).items()}

    @property
    def context_space(self) -> ContextSpace | None:
        """The lanes' context space, or None for lanes without contexts."""
        return getattr(self.members[0], "context_space", None)

    @property
    def context(self) -> dict[str, list[Any]]:
        """The contexts of coming episodes: n values per feature. A single value is set in all lanes.

        Raises:
            ContextError: A list has the wrong length, or a lane rejects a value. No lane changes then.
        """
        lanes = [self._context_of(index) for index in range(self.batch_size)]
        return {name: [context[name] for context in lanes] for name in lanes[0]}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        n, by_lane = self.batch_size, any(map(np.ndim, as_mapping(context, "context").values()))
        for name, value in context.items():
            if np.ndim(value) and len(value) != n:
                raise ContextError(
                    f"context[{name!r}]: expected one value, or one for each of {n} lanes, got {len(value)}"
                )
        given = each_of(context, n)
        each = [{name: values[i] for name, values in given.items()} if by_lane else context for i in range(n)]
        self._set_contexts(each, range(n), by_lane)

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        given = each_of(context, len(lanes))
        each = [
            {**self._context_of(number), **{name: values[index] for name, values in given.items()}}
            for index, number in enumerate(lanes)
        ]
        self._set_contexts(each, lanes, True)

    def _context_of(self, index: int) -> Mapping[str, Any]:
        """Returns the context of a lane's coming episodes. Do not modify it."""
        return cast("Any", self.envs[index]).context

    def _set_contexts(self, each: Sequence[Mapping[str, Any]], lanes: Sequence[int], named: bool) -> None:
        """Sets contexts in lanes, or in none if one is rejected. The error names the lane if `named`."""
        envs: tuple[Any, ...] = self.envs
        before, number = [envs[lane].context for lane in lanes], 0
        try:
            for number, context in zip(lanes, each, strict=True):
                envs[number].context = context
        except ContextError as error:
            for lane, held in zip(lanes, before, strict=True):
                envs[lane].context = held
            if not named:
                raise
            raise ContextError(f"{error} in lane {number}") from error

    def ask(self, function: Callable[[Any], Any], lanes: Sequence[int]) -> list[Any]:
        """Calls a function on the environment of each selected lane, in the process that runs it.

        Args:
            function: Takes the environment. For lanes in workers, the function and its result must be picklable.
            lanes: The indices of the lanes.

        Returns:
            One result per lane.
        """
        return [function(self.envs[lane]) for lane in lanes]

    def assign_lane(self, number: int) -> None:
        for index, env in enumerate(self.members):
            env.assign_lane(number + index)

    @property
    def reports_ends(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return any(env.reports_ends for env in self.members)

    def ended_outside(self, lanes: Any = None, terminated: bool = False) -> None:
        for index in range(self.batch_size) if lanes is None else np.flatnonzero(lanes).tolist():
            self.members[index].ended_outside(None, terminated)

    @property
    def rng(self) -> np.random.Generator:
        """The batch's random generator. Setting it seeds the lanes' generators, or replaces a shared one."""
        return self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        if self.shares_streams:
            self._share(self.streams)
        else:
            seeds = lane_seeds(int(cast("Any", generator).integers(2**63)), self.batch_size)
            for env, seed in zip(self.members, seeds, strict=True):
                env.rng = np.random.default_rng(seed)
        self._streams_changed()

    def snapshot(self) -> Snapshot:
        lanes = [env.snapshot() for env in self.envs]
        return Snapshot(type(self), (lanes, self._over, StreamStates([self.streams])), {"batch_size": len(lanes)})

    def restore(self, snapshot: Snapshot) -> None:
        lanes, over, streams = self._content(snapshot)
        for env, held in zip(self.envs, lanes, strict=True):
            env.restore(held)
        self._over, self._all_begun = over, False
        (self._streams,) = streams.copies()
        if self.shares_streams:
            self._share(self.streams)

    def render(self) -> Any:
        """Renders each lane and returns a tuple; see `Process.render`."""
        return tuple(env.render() for env in self.envs)

    def close(self) -> None:
        for env in self.members:
            env.close()

    @property
    def unwrapped(self) -> Any:
        return self


GIVEN = "if action is None:\n    check_count('action', None, batch.batch_size)"
"""The lines of a stage before `advance`, for which None means a reset."""


class LaneColumns(BatchEnv):
    """A batch of one model that stores the episodes of its lanes as columns.

    `advance` computes a step or a reset, and `commit` stores it, so that an error leaves all lanes unchanged.
    """

    lanes_can_wait = True

    _begun = False
    _observation: Any = None
    _next: Any = None  # what a computed step makes of the columns
    advance: Callable[..., tuple[Any, ...]]
    commit: Callable[[], None]

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None, mask: Mask | None = None) -> Reset:
        n, chosen = self.batch_size, as_mask(mask, self.batch_size, "mask")
        restart = np.ones(n, bool) if chosen is None else chosen.copy()  # the infos keep it
        hold = None if chosen is None or np.count_nonzero(restart) == n else ~restart
        if hold is not None and not self._begun:
            raise EpisodeError(f"reset: {NOT_RESET} in all lanes first, without a mask")
        before = None if seed is None else self._seed(seed, restart)
        try:
            values = self._begin(restart, hold, options)
        except BaseException:
            if before is not None:
                self._unseed(before)
            raise
        self.commit()
        return make_batch_reset((values[0], values[5]))

    def _begin(self, restart: Mask, hold: Mask | None, options: Mapping[str, Any] | None) -> tuple[Any, ...]:
        """Computes a reset."""
        raise NotImplementedError

    def _seed(self, seed: Any, restart: Mask) -> Any:
        """Seeds the lanes that begin. Returns what `_unseed` needs to restore the old streams."""
        before, self._streams = self._streams, batch_streams(seed, self.batch_size) or self._streams
        return before

    def _unseed(self, before: Any) -> None:
        """Restores the streams after a reset that failed."""
        self._streams = before

    def _refuse(self, over: Mask) -> None:
        """Raises an error if lanes that act have ended or have not been reset."""
        if not self._begun:
            raise EpisodeError(f"step: {NOT_RESET}")
        if np.count_nonzero(over):
            lanes = np.flatnonzero(over).tolist()
            raise EpisodeError(f"step: {ENDED}" if len(over) == 1 else f"step: in lanes {lanes}, {ENDED_LANES}")

    @property
    def observation(self) -> Any:
        if not self._begun:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation


StreamsOf: TypeAlias = Literal["lanes", "batch"]
"""`"lanes"` if each lane has its own random streams; `"batch"` if all lanes share one set."""


LaneCall: TypeAlias = Callable[[Any], tuple[Any, Any, bool, bool, Any, Info]]
"""`action -> six values` of a lane, with the discount None for the default."""


class Stacking:
    """Functions that split actions by lane and stack the lanes' values, made for their specs.

    Attributes:
        reward_spec: The reward spec for which it was made.
        nothing: The reward of a lane that does not act.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.reward_spec, self._discount_spec = lanes.reward_spec, lanes.discount_spec
        self._is_one_discount = isinstance(lanes.discount_spec, Array) and lanes.discount_spec.shape == ()
        self.nothing = tree.map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype)[()], lanes.reward_spec)
        self.split = splitter(lanes.action_spec, lanes.batch_size)
        self.stack_observations = stacker(lanes.observation_spec, "observation")
        self.stack_rewards = stacker(lanes.reward_spec, "reward")

    def stack_discounts(self, discounts: Sequence[Any], terminated: Sequence[bool]) -> Any:
        """Returns the discounts of all lanes, or None if all have the default."""
        n = len(discounts)
        if self._is_one_discount and discounts.count(None) == n:  # arrays do not compare with None
            return None
        usual = default_discounts(self._discount_spec, np.array(terminated, bool))
        each = enumerate(discounts)
        return stack(
            self._discount_spec, [lane(self._discount_spec, usual, i) if one is None else one for i, one in each]
        )


class _LoopPlan(Stacking):
    """The functions that each step of a loop calls: for splitting, stepping and stacking lanes.

    Attributes:
        envs: The environments for which it was made.
        steps: The step of each lane.
        restarts: For each lane, a function in place of its step that resets it and returns its first step.
        pauses: For each lane, a function in place of its step that leaves it where it is.
    """

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self.envs = lanes.envs
        self.steps: tuple[LaneCall, ...] = tuple(fast_step(env) for env in lanes.envs)
        self.restarts: tuple[LaneCall, ...] = tuple(partial(self._restart, env) for env in lanes.envs)
        self.pauses: tuple[LaneCall, ...] = tuple(partial(self._pause, env) for env in lanes.envs)

    def _restart(self, env: Env, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        observation, info = env.reset()
        return observation, self.nothing, False, False, None, info

    def _pause(self, env: Env, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        return env.observation, self.nothing, False, False, None, {}


def check_alike(envs: Sequence[Env]) -> None:
    """Checks that environments have equal specs, names apart."""
    found = lanes_difference(envs)
    if found is not None:
        index, path, expected, came = found
        raise SpecError(
            f"lane {index}: {path}: expected {expected!r} as in lane 0, got {came!r}; give all lanes equal specs"
        )


def lanes_difference(envs: Sequence[Env]) -> tuple[int, str, SpecTree, SpecTree] | None:
    """Returns the first lane whose specs differ from lane 0, and the difference; None if all are equal."""
    for index, env in enumerate(envs):
        for what in ("observation", "action", "reward", "discount"):
            found = spec_difference(getattr(envs[0], f"{what}_spec"), getattr(env, f"{what}_spec"), what)
            if found is not None:
                return index, *found
    return None


def check_separate(envs: Mapping[int, Env]) -> None:
    """Checks that lanes do not share an environment, which would then be stepped more than once."""
    first: dict[int, int] = {}
    for index, env in envs.items():
        other = first.setdefault(id(env.unwrapped), index)
        if other != index:
            raise SpecError(
                f"lanes {other} and {index} are the same environment, {shown(env.unwrapped)}; give a function that "
                "makes a new one at each call, or the environment itself, which is copied"
            )


def check_models(envs: Sequence[Env]) -> None:
    """Checks that environments are models, possibly wrapped, so that they can share random streams."""
    for env in envs:
        if not isinstance(env.unwrapped, Model):
            raise SpecError(
                f"streams='batch': expected models, which take their random numbers as an argument, got {shown(env)}; "
                "leave out streams"
            )
