"""A batch of a `BatchModel` that steps by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..compiling.choice import Choice, Compiled
from ..compiling.comparison import check_equal
from ..compiling.plan import Plan
from ..compiling.random_streams import addresses_of
from ..compiling.runner import Runner
from ..compiling.vectorised import example_arguments, fixed_arguments, plan_of_batch_model
from ..protocol.batch_env import Mask
from .kernel_steps import KernelSteps
from .model_batch import ModelBatch


class CompiledModelBatch(KernelSteps, ModelBatch):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A `ModelBatch` whose steps are one call of a kernel, with the same values.

    While another rewarder is set, and for states and actions of other dtypes than declared, it steps as a `ModelBatch`.

    Args:
        model: The model.
        n: The number of lanes.
        compiled: True to compile before the first step; `"auto"` to compile when that is worth its time.

    Raises:
        NotCompilable: `compiled` is True, and the model cannot be compiled.
    """

    _tree: Any = None

    def __init__(self, model: Any, n: int, compiled: Compiled = "auto") -> None:
        ModelBatch.__init__(self, model, n)
        self._use_kernels(compiled)

    @property
    def _kind(self) -> type:
        return ModelBatch  # a snapshot of one kind can be restored into the other

    def _class_step(self, action: Any, restart: Mask | None) -> Any:
        return ModelBatch.step_values(self, action, restart)

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
        interpreted, compiled = ModelBatch(self.model, 5), CompiledModelBatch(self.model, 5, False)
        compiled._prepare(plan)
        try:
            check_equal(plan.title, interpreted, compiled)
        except Exception:
            self._runner = None
            raise

    def _prepare(self, plan: Plan) -> None:
        n = self.batch_size
        runner = Runner(plan, self.action_spec, n, example_arguments(plan))
        rng = np.random.default_rng(0)
        self._contexts, self._contexts_of = plan.context.empty(n), None
        self._fresh = plan.layout.empty(n)
        self._fixed = fixed_arguments(plan, self._contexts, self._fresh)
        self._bits, self._bits_of = np.zeros(9, np.int64), None
        groups = (plan.transition_calls, plan.observe_calls, plan.initial_calls)
        bits = [self._bits] if plan.generates else []
        self._quiet = [*self._fixed, *bits, *(call(rng, n) for calls in groups for call in calls)]
        self._no_calls = [call(rng, n) for call in plan.transition_calls]
        self._no_first = [call(rng, n) for call in plan.initial_calls]
        self._settings = dict(vars(self.model))
        self._prepared = frozenset(
            (
                "_contexts",
                "_contexts_of",
                "_fresh",
                "_fixed",
                "_bits",
                "_bits_of",
                "_quiet",
                "_no_calls",
                "_no_first",
                "_settings",
            )
        )
        self._fit(plan, runner)

    def _usable(self) -> Runner | None:
        runner = self._runner
        if runner is None or self._rewarder is not None or not self._begun:
            return None
        if not self._is_current():
            self._drop()
            return None
        if not self._in_records:
            if not runner.load([leaf for _, leaf in tree.leaves(self._tree)], self._ended):
                return None
            self._in_records = True
        if self._contexts_of is not self._columns:
            layout = runner.plan.context
            columns = layout.converted([self._columns[name] for name in layout.example], self.batch_size)
            if columns is None:
                self._drop()
                return None
            layout.write(self._contexts, columns)
            self._contexts_of = self._columns
        return runner

    def _is_current(self) -> bool:
        """Returns True if the settings of the model are those that the kernel was made for."""
        try:
            return vars(self.model) == self._settings
        except ValueError:  # of arrays, which cannot be compared
            return False

    def _drop(self) -> None:
        """Gives up the kernel, because the model has changed; another one may be compiled."""
        self._out_of_records()
        self._runner, self._in_records = None, False
        self.choice = Choice(self.choice.wanted)
        if self.choice.wanted is True:
            self.choice.compile(self._make_plan, self._start)

    def _find_streams(self) -> None:
        streams = self.streams
        self._bits[:8] = (*addresses_of(streams.dynamics), *addresses_of(streams.observation))
        self._bits_of = streams

    def _given(self, runner: Runner, begins: Mask | None, acts: bool) -> list[Any]:
        # Random numbers are generated in the order in which the model's functions ask for them.
        n, plan, given = self.batch_size, runner.plan, self._fixed
        if plan.generates:
            if self._bits_of is not self._streams or self._streams is None:
                self._find_streams()
            self._bits[8] = acts
            return self._quiet
        if begins is None and not plan.transition_calls and not plan.observe_calls:
            return self._quiet
        if plan.transition_calls:
            rng = self.streams.dynamics
            given = [*given, *([call(rng, n) for call in plan.transition_calls] if acts else self._no_calls)]
        first = self._no_first
        if begins is not None:
            index = begins.nonzero()[0]
            if not plan.begins:
                plan.layout.write(self._fresh[: len(index)], [leaf for _, leaf in tree.leaves(self._initial(index))])
            elif plan.initial_calls and len(index):
                rng, size = self.streams.dynamics, len(index)
                first = [call(rng, size) for call in plan.initial_calls]
        if plan.observe_calls:
            rng = self.streams.observation
            given = [*given, *(call(rng, n) for call in plan.observe_calls)]
        return [*given, *first]
