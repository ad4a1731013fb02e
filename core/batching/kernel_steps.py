"""Steps of a batch by a compiled kernel: what batches of both styles of models share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import tree
from ..compiling.choice import Choice, Compiled
from ..errors import NotCompilable
from ..lane_values import put, take
from ..protocol.batch_env import BatchEnv, Mask, as_mask, full_lanes_step, make_batch_reset, step_masks
from ..protocol.env import Reset, Step
from ..protocol.fast_steps import Count
from ..protocol.infos import Infos
from ..protocol.process import Snapshot

if TYPE_CHECKING:
    from ..compiling.plan import Plan
    from ..compiling.runner import Runner


MANY_LANES = 500
"""The number of lanes from which on other threads may run beside a kernel, as beside numpy's loops of this length."""


class KernelSteps(BatchEnv):
    """Steps by a kernel where there is one; a mixin before the class whose values it repeats.

    The states are in the records of a runner, or where the class below keeps them, or in both. All methods of that
    class work on its own states, so they take them out of the records first.

    Attributes:
        choice: The state of the decision to compile.
        is_watched: True while other functions stand in for the model's, which must not be compiled.
    """

    choice: Choice
    is_watched = False
    _runner: Runner | None = None
    _in_records = False  # True if the records of the runner hold the states
    _in_class = True  # True if the class below holds them
    _ended: Any = None  # the mask of the lanes that have ended, where the class below holds the states
    _observation: Any
    _prepared: frozenset[str] = frozenset()  # the names of the attributes that a kernel needs

    def _use_kernels(self, compiled: Compiled) -> None:
        """Decides when to compile; call it at the end of `__init__`."""
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
    def _over(self) -> Any:
        self._out_of_records()
        return self._ended

    @_over.setter
    def _over(self, over: Any) -> None:
        self._out_of_records()
        self._ended, self._in_records = over, False

    def _sized_plan(self) -> Plan:
        """Returns the plan of the kernel for this number of lanes."""
        plan = self._make_plan()
        plan.frees_gil = self.batch_size >= MANY_LANES
        return plan

    # What a subclass provides.

    def _make_plan(self) -> Plan:
        """Returns the plan of the kernel."""
        raise NotImplementedError

    def _start(self, plan: Plan) -> None:
        """Compiles the kernel, compares it with the functions that it was made of, and uses it from here on."""
        raise NotImplementedError

    def _class_step(self, action: Any, restart: Mask | None, hold: Mask | None) -> Any:
        """Runs the interpreted step of the class below. Returns a `Step` or a `step_values` tuple."""
        raise NotImplementedError

    def _usable(self) -> Runner | None:
        """Returns the runner, with the states of all lanes in its records; None where steps must be interpreted."""
        raise NotImplementedError

    def _changing(self, runner: Runner, begins: Mask | None) -> Sequence[Any]:
        """Returns the arrays of the kernel that differ from step to step; called where there are any."""
        raise NotImplementedError

    def _out_of_records(self) -> None:
        """Copies the states out of the records, for the class below."""
        raise NotImplementedError

    def _leave_records(self) -> None:
        """Gives the states to the class below, which may change them."""
        self._out_of_records()
        self._in_records = False

    # Steps.

    def _fit(self, plan: Plan, runner: Runner) -> None:
        """Starts to use a runner."""
        of_lane = [output.shape for output in plan.outputs[1:]]  # beside the observation
        single = not tree.is_branch(plan.observation) and not plan.info and not any(of_lane)
        self._steps_alone = self.batch_size == 1 and single and not runner.asks
        self._prepared = self._prepared | {"_steps_alone"}
        self._out_of_records()
        self._runner, self._in_records, self._in_class = runner, False, True

    def step(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> Step:
        values = self.step_values(action, restart, hold)
        return values if type(values) is Step else full_lanes_step(values, self.discount_spec, self.batch_size)

    def step_values(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> Any:
        """Returns the values of `step`, flags and discounts None for the defaults; see `full_lanes_step`."""
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
        ask = self._changing if runner.asks else None
        if hold is not None:
            restart, hold = step_masks(self, restart, hold)
        if hold is None:
            values = runner.launch(runner, action, restart, count, ask)
            if values is not None:
                self._observation, self._in_class = values[0], False
            return values
        before = self._observation
        with runner.holding(hold, True):
            values = runner.launch(runner, action, restart, count, ask)
        if values is None:
            return None
        self._observation, self._in_class = values[0], False
        self._hold_observation(before, hold)
        _, *middle, infos, _ = values  # the last is a mask of all lanes that have ended, also of those that pause
        return (self._observation, *middle, Infos(columns=infos.columns, n=self.batch_size, mask=~hold), None)

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
            return self._class_step(action, restart, hold)
        started = perf_counter()
        step = self._class_step(action, restart, hold)
        choice.spent += perf_counter() - started
        if choice.spent > choice.limit:
            choice.advance(self._sized_plan, self._start)
        return step

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
        before = self._observation
        with runner.holding(still, False):
            values: Any = runner.launch(runner, runner.idle, restart, None, self._changing if runner.asks else None)
        self._observation, self._in_class = values[0], False
        if chosen is not None:
            self._hold_observation(before, still)
        infos = Infos(columns=values[5].columns, n=self.batch_size, mask=chosen)
        return make_batch_reset((self._observation, infos))

    def _hold_observation(self, before: Any, still: Mask) -> None:
        """Keeps the observations of lanes that pause, which noise would change."""
        if self._runner is not None and self._runner.plan.holds_observations:
            self._observation = put(self._observation, np.flatnonzero(still), take(before, still))

    def snapshot(self) -> Snapshot:
        return Snapshot(self._kind, super().snapshot().content)

    def _content(self, snapshot: Snapshot) -> Any:
        own = snapshot.owner is type(self)
        return super()._content(Snapshot(self._kind, snapshot.content) if own else snapshot)

    def __getstate__(self) -> dict[str, Any]:
        # Without the kernel, which is not pickled but compiled or loaded again.
        self._out_of_records()
        dropped = {"_runner", "_in_records", "_in_class", "_prepared", *self._prepared}
        held = cast("dict[str, Any]", super().__getstate__())
        state = {name: value for name, value in held.items() if name not in dropped}
        return {**state, "choice": Choice(self.choice.wanted)}
