"""A batch of a `BatchModel` that steps by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..compiling.choice import Choice, Compiled, check_equal
from ..compiling.plan import Plan
from ..compiling.random_streams import addresses_of
from ..compiling.runner import Runner
from ..compiling.vectorised import LANES, plan_of_batch_model
from ..protocol.batch_env import Mask
from .kernel_steps import KernelSteps
from .model_batch import ModelBatch

COMPARED = LANES + 5
"""The number of lanes of which kernels are compared with the interpreted functions: a block, and part of another."""


class CompiledModelBatch(KernelSteps, ModelBatch):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A `ModelBatch` whose steps are one call of a kernel, with the same values.

    While another rewarder is set, and for states and actions of other dtypes than declared, it steps as a `ModelBatch`.
    """

    _tree: Any = None

    def __init__(self, model: Any, n: int, compiled: Compiled = "auto") -> None:
        ModelBatch.__init__(self, model, n)
        self._use_kernels(compiled)

    @property
    def _kind(self) -> type:
        return ModelBatch  # a snapshot of one kind can be restored into the other

    def _class_step(self, action: Any, restart: Mask | None, hold: Mask | None) -> Any:
        return ModelBatch.step_values(self, action, restart, hold)

    # The attributes of `ModelBatch` that the records replace.

    def _out_of_records(self) -> None:
        if not self._in_class and self._runner is not None:
            self._tree, self._ended, self._in_class = self._runner.state(), self._runner.over.copy(), True
            self._some_over = bool(self._ended.any())

    @property
    def _state(self) -> Any:
        self._out_of_records()
        return self._tree

    @_state.setter
    def _state(self, state: Any) -> None:
        self._out_of_records()
        self._tree, self._in_records = state, False

    # Compiling.

    def _make_plan(self) -> Plan:
        return plan_of_batch_model(self.model, self._columns)

    def _start(self, plan: Plan) -> None:
        self._prepare(plan)
        interpreted, compiled = ModelBatch(self.model, COMPARED), CompiledModelBatch(self.model, COMPARED, False)
        compiled._prepare(plan)
        try:
            check_equal(plan.title, interpreted, compiled)
        except Exception:
            self._runner = None
            raise

    def _prepare(self, plan: Plan) -> None:
        n, rng = self.batch_size, np.random.default_rng(0)
        groups = (plan.transition_calls, plan.observe_calls, plan.initial_calls)
        changing = [] if plan.generates else [_numbers(call, rng, 2) for calls in groups for call in calls]
        runner = Runner(plan, self.action_spec, n, changing)
        if plan.loops:
            runner.arrays["loops"][:] = plan.addresses
        for number, table in enumerate(plan.tables):
            runner.arrays[f"table{number}"][...] = table
        self._contexts_of, self._streams_of = None, None
        # Numbers in the place of those that a step does not need.
        self._no_calls = [_numbers(call, rng, n) for call in plan.transition_calls]
        self._no_first = [_numbers(call, rng, n) for call in plan.initial_calls]
        self._settings = dict(vars(self.model))
        self._prepared = frozenset(("_contexts_of", "_streams_of", "_no_calls", "_no_first", "_settings"))
        self._fit(plan, runner)

    def _usable(self) -> Runner | None:
        runner = self._runner
        if runner is None or self._rewarder is not None or not self._begun:
            return None
        settings: Any = self.model.__dict__  # `vars` takes twice the time
        try:
            is_current = settings == self._settings
        except ValueError:  # of arrays, which cannot be compared
            is_current = False
        if not is_current:
            self._drop()
            return None
        if self._in_records and self._contexts_of is self._columns and self._streams_of is self._streams:
            return runner
        return runner if self._into_records(runner) else None

    def _into_records(self, runner: Runner) -> bool:
        """Gives the kernel what has changed outside of it; returns False if it cannot step with that."""
        plan = runner.plan
        if not self._in_records:
            if not runner.load([leaf for _, leaf in tree.leaves(self._tree)], self._ended):
                return False
            self._in_records = True
        if self._contexts_of is not self._columns:
            now, before = self._columns, self._contexts_of or {}
            changed = [None if before.get(name) is now[name] else now[name] for name in plan.context.example]
            if not plan.context.holds(changed, self.batch_size):
                self._drop()
                return False
            if plan.begins:
                plan.context.write(runner.arrays["contexts"], changed)
            self._contexts_of = now
        streams = self.streams
        if plan.generates and self._streams_of is not streams:
            runner.arrays["bits"][:] = (*addresses_of(streams.dynamics), *addresses_of(streams.observation))
        self._streams_of = streams
        return True

    def _drop(self) -> None:
        """Gives up the kernel, because the model has changed; another one may be compiled."""
        self._out_of_records()
        self._runner, self._in_records = None, False
        self.choice = Choice(self.choice.wanted)
        if self.choice.wanted is True:
            self.choice.compile(self._sized_plan, self._start)

    def _changing(self, runner: Runner, begins: Mask | None) -> Sequence[Any]:
        # Random numbers are generated in the order in which the model's functions ask for them.
        n, plan = self.batch_size, runner.plan
        transition, first = self._no_calls, self._no_first
        if runner.acts and plan.transition_calls:
            rng = self.streams.dynamics
            transition = [_numbers(call, rng, n) for call in plan.transition_calls]
        if begins is not None:
            index = begins.nonzero()[0]
            if not len(index):
                pass
            elif not plan.begins:
                runner.write_fresh([leaf for _, leaf in tree.leaves(self._initial(index))])
            elif plan.initial_calls:
                rng, size = self.streams.dynamics, len(index)
                first = [_numbers(call, rng, size) for call in plan.initial_calls]
        noise = [_numbers(call, self.streams.observation, n) for call in plan.observe_calls]
        return [*transition, *noise, *first]


def _numbers(call: Any, rng: np.random.Generator, size: int) -> np.ndarray[Any, Any]:
    """Returns the numbers of a call for some lanes, as the kernel takes them."""
    return np.ascontiguousarray(call(rng, size))
