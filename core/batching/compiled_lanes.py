"""Lanes of a scalar `Model` that step by a kernel."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import tree
from ..compiling.choice import Choice, Compiled, check_equal
from ..errors import NotCompilable
from ..lane_values import lane, put, take
from ..protocol.batch_env import Mask, as_mask, full_lanes_step, make_batch_reset, step_masks
from ..protocol.env import Env, Reset, Step
from ..protocol.fast_steps import Count
from ..protocol.infos import Infos
from ..protocol.process import Snapshot
from .lanes import Lanes, StreamsOf

if TYPE_CHECKING:
    from ..compiling.plan import Plan
    from ..compiling.runner import Runner


MANY_LANES = 500
"""The number of lanes from which on other threads may run beside a kernel, as beside numpy's loops of this length."""


class CompiledLanes(Lanes):
    """Lanes of one scalar model whose steps are one call of a kernel, with the same values as `Lanes`.

    At rest, each lane's environment holds its episode. While the kernel steps, its records do; an access to `envs`
    brings the environments up to date. The kernel advances the streams of the environments themselves.

    Attributes:
        choice: The state of the decision to compile.
        is_watched: True while other functions stand in for the model's, which must not be compiled.
    """

    choice: Choice
    is_watched = False
    _lanes: tuple[Any, ...] = ()
    _runner: Runner | None = None
    _in_records = False  # True if the records of the runner hold the states
    _in_class = True  # True if the environments hold them
    _ended: Any = None  # the mask of the lanes that have ended, where the environments hold the states
    _observation: Any

    # What a kernel needs.
    _streams_of: list[Any]
    _kinds: Sequence[Any] = ()
    _steps_alone = False

    def __init__(self, envs: Sequence[Env], compiled: Compiled = "auto", streams: StreamsOf = "lanes") -> None:
        super().__init__(envs, streams)
        self.choice = Choice(compiled)
        if compiled is True:
            self.choice.compile(self._sized_plan, self._start)

    @property
    def has_kernel(self) -> bool:
        """True once the kernel is compiled."""
        return self._runner is not None

    def obstacle(self) -> str:
        """Returns why the lanes cannot be compiled; empty if they are or can be. numba itself is not asked."""
        if self.choice.is_open:
            try:
                self._make_plan()
            except NotCompilable as error:
                return str(error)
            return ""
        return self.choice.reason

    @property
    def envs(self) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The environments of the lanes."""
        self._out_of_records()
        self._in_records = False  # the caller may change them
        return self._lanes

    @envs.setter
    def envs(self, envs: Sequence[Env]) -> None:
        self._out_of_records()
        self._lanes, self._in_records = tuple(envs), False

    @property
    def _over(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._out_of_records()
        return self._ended

    @_over.setter
    def _over(self, over: Any) -> None:
        self._out_of_records()
        self._ended, self._in_records = over, False

    @property
    def observation(self) -> Any:
        """The latest observations."""
        return self._observation if self._in_records else Lanes.observation.__get__(self)

    def resume(self, states: Sequence[Any], observe: bool = True) -> None:
        """Continues all lanes from other states."""
        envs = self.envs
        if observe:
            for env, state in zip(envs, states, strict=True):
                env.state = state
        over = [bool(env.terminal(state) or env.truncated(state)) for env, state in zip(envs, states, strict=True)]
        self._over = np.array(over)

    def _out_of_records(self) -> None:
        """Gives the environments the states that the records hold."""
        runner = self._runner
        if self._in_class or runner is None:
            return
        self._in_class = True
        self._ended = runner.over.copy()
        leaves = [leaf for _, leaf in tree.leaves(runner.state())]
        for index, env in enumerate(self._lanes):
            parts = [
                leaf[index] if kind is np.ndarray else kind(leaf[index])
                for leaf, kind in zip(leaves, self._kinds, strict=True)
            ]
            state = runner.plan.states.rebuilt(parts)
            observation = tree.map_leaves(
                lambda leaf: leaf.copy(), lane(self.observation_spec, self._observation, index)
            )
            env.resume(state, observation, bool(self._ended[index]))

    def _leave_records(self) -> None:
        """Gives the states to the environments, which may change them."""
        self._out_of_records()
        self._in_records = False

    # Steps.

    def step(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> Step:
        return full_lanes_step(self.step_values(action, restart, hold), self.discount_spec, self.batch_size)

    def step_values(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> Any:
        """Returns the values of `step`, flags and discounts None for the defaults; see `full_lanes_step`.

        Args:
            action: As for `step`.
            restart: As for `step`.
            hold: As for `step`.
        """
        values = self.counted_step(action, restart, hold)
        return self._interpreted(action, restart, hold) if values is None else values[:6]

    def ended_step(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> tuple[Any, ...]:
        """Returns the values of `step_values`, and the mask of the lanes that have ended, or None."""
        values = self.counted_step(action, restart, hold)
        return (*self._interpreted(action, restart, hold), None) if values is None else values

    @property
    def counts_steps(self) -> bool:
        """True if a kernel takes the next step, and so can count it for a wrapper; see `counted_step`."""
        return self._usable() is not None

    def counted_step(
        self, action: Any, restart: Mask | None = None, hold: Mask | None = None, count: Count | None = None
    ) -> Any:
        """Returns the values of `ended_step`; None, before anything has changed, where that must be interpreted."""
        runner = self._usable()
        if runner is None:
            return None
        ask = None if runner.plan.begins else self._write_fresh
        if hold is not None:
            restart, hold = step_masks(self, restart, hold)
        if hold is None:
            values = runner.launch(runner, action, restart, count, ask)
            if values is not None:
                self._observation, self._in_class = values[0], False
            return values
        before = self._observation
        with runner.holding(hold):
            values = runner.launch(runner, action, restart, count, ask)
        if values is None:
            return None
        self._take_observation(before, values[0], hold)
        _, *middle, _, _ = values  # the last is a mask of all lanes that have ended, also of those that pause
        return (self._observation, *middle, Infos(columns={}, n=self.batch_size, mask=~hold), None)

    def step_alone(self, action: Any) -> Any:
        """Returns the values of `step_values` for a single lane, with infos None for an empty one.

        The arrays of all values but the observation are changed by the next step.
        """
        runner = self._usable()
        if runner is None or not self._steps_alone:
            return None
        ran = runner.step_alone(action)
        if ran is None:
            return None
        ended, self._observation, others = ran
        self._in_class = False
        ends = (runner.terminated, runner.truncated) if ended else (None, None)
        return self._observation, others[0], *ends, others[1] if len(others) > 1 else None, None

    def _interpreted(self, action: Any, restart: Mask | None, hold: Mask | None) -> Any:
        choice = self.choice
        self._leave_records()
        if not choice.is_open or self.is_watched:
            return super().step_values(action, restart, hold)
        started = perf_counter()
        values = super().step_values(action, restart, hold)
        choice.spent += perf_counter() - started
        if choice.spent > choice.limit:
            choice.advance(self._sized_plan, self._start)
        return values

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        chosen = as_mask(mask, self.batch_size, "mask")
        runner = None if seed is not None or options else self._usable()
        if runner is None:
            self._leave_records()
            return super().reset(seed=seed, options=options, mask=mask)
        if chosen is None:
            still, restart = runner.none, ~runner.none
        else:
            restart = chosen = chosen.copy()  # the infos keep it
            still = ~chosen
        before, ask = self._observation, None if runner.plan.begins else self._write_fresh
        with runner.holding(still):
            values: Any = runner.launch(runner, runner.idle, restart, None, ask)
        self._take_observation(before, values[0], still)
        return make_batch_reset((self._observation, Infos(columns={}, n=self.batch_size, mask=chosen)))

    def _take_observation(self, before: Any, observation: Any, still: Mask) -> None:
        """Stores new observations, and those before for lanes that pause: the kernel does not observe these."""
        self._in_class, index = False, np.flatnonzero(still)
        self._observation = put(observation, index, take(before, still)) if len(index) else observation

    # Compiling.

    def _make_plan(self) -> Plan:
        """Returns the plan of the kernel."""
        from ..compiling.scalar import plan_of_model  # imported here, so that `import envoi` stays fast

        plan = plan_of_model(self._lanes[0])
        if self.shares_streams and plan.uses_dynamics and not plan.begins:
            raise NotCompilable(
                f"{plan.title}.initial: it cannot be compiled, so with streams='batch' its random numbers would come "
                "before those of the other lanes' transitions"
            )
        return plan

    def _sized_plan(self) -> Plan:
        """Returns the plan of the kernel for this number of lanes."""
        plan = self._make_plan()
        plan.frees_gil = self.batch_size >= MANY_LANES
        return plan

    def _start(self, plan: Plan) -> None:
        """Compiles the kernel, compares it with the functions that it was made of, and uses it from here on."""
        self._prepare(plan)
        pair = [CompiledLanes([copy.copy(env) for env in self._lanes[:1] * 3], False) for _ in "ab"]
        for batch in pair:
            batch.rng = np.random.default_rng(0)
        pair[1]._prepare(plan)
        try:
            check_equal(plan.title, *pair)
        except Exception:
            self._runner = None
            raise

    def _prepare(self, plan: Plan) -> None:
        """Compiles the kernel, and starts to use it."""
        from ..compiling.runner import Runner

        env, runner = self._lanes[0], Runner(plan, self.action_spec, self.batch_size)
        self._streams_of = [None] * self.batch_size
        # The types of numbers in states, which follow from the functions and not from the records.
        rng = np.random.default_rng(0)
        begun = env.initial(rng, env.context)
        moved = env.transition(begun, lane(env.action_spec, runner.idle, 0), rng)
        self._kinds = [type(leaf) for _, leaf in tree.leaves(moved)]
        of_lane = [output.shape for output in plan.outputs[1:]]  # beside the observation
        single = not tree.is_branch(plan.observation) and not any(of_lane)
        self._steps_alone = self.batch_size == 1 and single and plan.begins
        self._out_of_records()
        self._runner, self._in_records, self._in_class = runner, False, True

    def _usable(self) -> Runner | None:
        """Returns the runner, with the states of all lanes in its records; None where steps must be interpreted."""
        runner = self._runner
        if runner is None or self._in_records:
            return runner
        return runner if self._into_records(runner) else None

    def _into_records(self, runner: Runner) -> bool:
        """Takes over the episodes of the environments; returns False if one cannot be stepped by the kernel."""
        plan, lanes = runner.plan, self._lanes
        kind = cast("Any", type(lanes[0]))
        if any(type(env) is not kind or env.given_rewarder is not None or not env.has_begun for env in lanes):
            return False
        if not plan.is_current(lanes):
            return False
        columns = list(zip(*([leaf for _, leaf in tree.leaves(env.state)] for env in lanes), strict=True))
        if not runner.load([np.array(values) for values in columns], self._ended):
            return False
        contexts = [env.context for env in lanes]
        pairs = (
            ("contexts", plan.context, [[context[name] for context in contexts] for name in plan.context.example]),
            ("settings", plan.own, [[getattr(env, name) for env in lanes] for name in plan.own.example]),
        )
        for name, records, values in pairs:
            arrays = [np.asarray(one) for one in values]
            if not records.holds(arrays, self.batch_size):
                return False
            records.write(runner.arrays[name], arrays)
        if plan.uses_dynamics or plan.uses_observation:
            self._find_streams(runner.arrays["bits"], lanes)
        self._observation = Lanes.observation.__get__(self)
        self._in_records = True
        return True

    def _find_streams(self, bits: Any, lanes: Sequence[Any]) -> None:
        from ..compiling.random_streams import addresses_of

        for index, env in enumerate(lanes):
            streams = env.streams
            if self._streams_of[index] is not streams:
                bits[index, :4] = addresses_of(streams.dynamics)
                bits[index, 4:] = addresses_of(streams.observation)
                self._streams_of[index] = streams

    def _write_fresh(self, runner: Runner, begins: Mask | None) -> None:
        """Gives the kernel the states in which lanes begin, where it cannot make them itself."""
        for row, index in enumerate([] if begins is None else begins.nonzero()[0].tolist()):
            env = self._lanes[index]
            state = env.initial(env.streams.dynamics, env.context)
            runner.write_fresh([np.asarray(leaf)[None] for _, leaf in tree.leaves(state)], row)

    # Copies.

    @property
    def _kind(self) -> type:
        return Lanes  # a snapshot of one kind can be restored into the other

    def snapshot(self) -> Snapshot:
        return Snapshot(self._kind, super().snapshot().content)

    def __getstate__(self) -> dict[str, Any]:
        # Without the kernel, which is not pickled but compiled or loaded again.
        self._out_of_records()
        dropped = {"_runner", "_in_records", "_in_class", "_streams_of", "_kinds", "_steps_alone"}
        state = {name: value for name, value in super().__getstate__().items() if name not in dropped}
        return {**state, "choice": Choice(self.choice.wanted)}
