"""A batch of a `BatchModel` that steps by a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from .. import tree
from ..compiling.choice import Choice, Compiled
from ..compiling.comparison import check_equal
from ..compiling.plan import Plan
from ..compiling.runner import OtherDtype, Runner
from ..compiling.structures import rebuilder
from ..compiling.vectorised import plan_of_batch_model
from ..lane_values import put, take
from ..protocol.batch_env import Mask, as_mask, full_lanes_step, make_batch_reset, make_batch_step
from ..protocol.env import Reset, Step
from ..protocol.infos import Infos
from ..protocol.process import Snapshot
from .model_batch import ModelBatch


class CompiledModelBatch(ModelBatch):
    """A `ModelBatch` whose steps are one call of a kernel, with the same values.

    While another rewarder is set, and for states and actions of other dtypes than declared, it steps as a `ModelBatch`.

    Args:
        model: The model.
        n: The number of lanes.
        compiled: True to compile before the first step; `"auto"` to compile when that is worth its time.

    Attributes:
        choice: The state of the decision to compile.

    Raises:
        NotCompilable: `compiled` is True, and the model cannot be compiled.
    """

    _runner: Runner | None = None
    _in_records = False  # True if the records of the runner hold the states
    _in_tree = True  # True if `_tree` and `_ended` hold them
    _tree: Any = None
    _ended: Any = None

    def __init__(self, model: Any, n: int, compiled: Compiled = "auto") -> None:
        super().__init__(model, n)
        self.choice = Choice(compiled)
        if compiled is True:
            self.choice.compile(self._plan, self._start)

    @property
    def _kind(self) -> type:
        return ModelBatch  # a snapshot of one kind can be restored into the other

    # The states are in the records of the runner, in a tree of arrays, or in both.

    def _to_tree(self) -> None:
        if not self._in_tree and self._runner is not None:
            self._tree, self._ended, self._in_tree = self._runner.state(), self._runner.over.copy(), True

    @property
    def _state(self) -> Any:
        self._to_tree()
        return self._tree

    @_state.setter
    def _state(self, state: Any) -> None:
        self._to_tree()
        self._tree, self._in_records = state, False

    @property
    def _over(self) -> Any:
        self._to_tree()
        return self._ended

    @_over.setter
    def _over(self, over: Any) -> None:
        self._to_tree()
        self._ended, self._in_records = over, False

    # Compiling.

    def _plan(self) -> Plan:
        return plan_of_batch_model(self.model, self._columns)

    def _start(self, plan: Plan) -> None:
        """Compiles the kernel, compares it with the functions that it was made of, and uses it from here on."""
        self._prepare(plan)
        interpreted, compiled = ModelBatch(self.model, 5), CompiledModelBatch.__new__(CompiledModelBatch)
        ModelBatch.__init__(compiled, self.model, 5)
        compiled.choice = Choice("auto")
        compiled.choice.is_open = False
        compiled._prepare(plan)
        check_equal(plan.title, interpreted, compiled)

    def _prepare(self, plan: Plan) -> None:
        n = self.batch_size
        runner = Runner(plan, self.action_spec, n, _examples(plan))
        self._fixed = [plan.addresses]
        self._tables = [table.copy() for table in plan.tables]
        self._contexts, self._contexts_of = plan.context.empty(n), None
        self._fresh = plan.layout.empty(n)
        rng = np.random.default_rng(0)
        self._no_draws = [draw(rng, n) for draw in plan.draws]
        self._no_first = [draw(rng, n) for draw in plan.first]
        self._observed = rebuilder(plan.observation)
        self._informed = rebuilder(plan.info) if plan.info else None
        self._no_infos = Infos(columns={}, n=n)
        count = len(list(tree.leaves(plan.observation)))
        self._places = (count, count + 1 + any(output.name == "discount" for output in plan.outputs))
        self._settings = dict(vars(self.model))
        self._runner, self._in_records = runner, False

    def _is_current(self) -> bool:
        """Returns True if the settings of the model are those that the kernel was made for."""
        try:
            return vars(self.model) == self._settings
        except ValueError:  # of arrays, which cannot be compared
            return False

    def _usable(self) -> Runner | None:
        """Returns the runner, with the states and contexts of all lanes in its records; None to interpret."""
        runner = self._runner
        if runner is None or self._rewarder is not None or not self._begun:
            return None
        if not self._is_current():
            self._drop()
            return None
        if not self._in_records:
            if not runner.load(self._tree, self._ended):
                return None
            self._in_records = True
        if self._contexts_of is not self._columns:
            names: list[str] = list(runner.plan.context.example)
            columns = [self._columns[name] for name in names]
            if not runner.plan.context.fits(columns, self.batch_size):
                self._drop()
                return None
            runner.plan.context.write(self._contexts, columns)
            self._contexts_of = self._columns
        return runner

    def _drop(self) -> None:
        """Gives up the kernel, because the model has changed; another one may be compiled."""
        self._to_tree()
        self._runner, self._in_records = None, False
        self.choice = Choice(self.choice.wanted)
        if self.choice.wanted is True:
            self.choice.compile(self._plan, self._start)

    # Steps.

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        values = self.step_values(action, restart)
        return values if type(values) is Step else full_lanes_step(values, self.discount_spec, self.batch_size)

    def step_values(self, action: Any, restart: Mask | None = None) -> Any:
        """Returns the values of `step`, flags and discounts None for the defaults; see `full_lanes_step`."""
        runner = self._usable()
        if runner is None:
            return self._interpreted(action, restart)
        if restart is not None:
            restart = as_mask(restart, self.batch_size, "restart")
            if not restart.flags.carray:
                restart = restart.copy()
        try:
            ended, outputs = self._run(runner, action, runner.none if restart is None else restart, runner.none, restart)
        except OtherDtype:
            return self._interpreted(action, restart)
        terminated = truncated = None
        if ended:
            terminated, truncated = runner.flags.copy()
        count, after = self._places
        discount = outputs[count + 1] if after > count + 1 else None
        if discount is not None and terminated is None:
            terminated = truncated = np.zeros(self.batch_size, bool)
            truncated = terminated.copy()
        infos = self._no_infos
        if self._informed is not None:
            infos = Infos(columns=self._informed(outputs[after:]), n=self.batch_size)
        return self._observation, outputs[count], terminated, truncated, discount, infos

    def _run(
        self, runner: Runner, action: Any, restart: Mask, hold: Mask, begins: Mask | None, acts: bool = True
    ) -> tuple[int, list[Any]]:
        """Runs the kernel; draws the random numbers in the order in which the model's functions do."""
        n, plan = self.batch_size, runner.plan
        given = [*self._fixed, self._contexts, self._fresh, *self._tables]
        if plan.draws:
            rng = self.streams.dynamics
            given += [draw(rng, n) for draw in plan.draws] if acts else self._no_draws
        first = self._no_first
        if begins is not None:
            index = begins.nonzero()[0]
            if not plan.begins:
                leaves = [leaf for _, leaf in tree.leaves(self._initial(index))]
                plan.layout.write(self._fresh[: len(index)], leaves)
            elif plan.first and len(index):
                rng = self.streams.dynamics
                first = [draw(rng, len(index)) for draw in plan.first]
        if plan.noise:
            noise = self.streams.observation
            given += [draw(noise, n) for draw in plan.noise]
        ended, outputs = runner.run(action, restart, hold, [*given, *first])
        self._observation = self._observed(outputs)
        self._in_tree, self._some_over = False, True
        return ended, outputs

    def _interpreted(self, action: Any, restart: Mask | None) -> Step:
        choice = self.choice
        if not choice.is_open:
            return super().step(action, restart)
        started = perf_counter()
        step = super().step(action, restart)
        choice.spent += perf_counter() - started
        if choice.spent > choice.limit:
            choice.advance(self._plan, self._start)
        return step

    def step_lanes(self, action: Any, lanes: Mask) -> Step:
        chosen = as_mask(lanes, self.batch_size, "lanes")
        runner = self._usable()
        if runner is None:
            return super().step_lanes(action, lanes)
        still, before = ~chosen, self._observation
        try:
            _, outputs = self._run(runner, action, runner.none, still, None)
        except OtherDtype:
            return super().step_lanes(action, lanes)
        self._hold_observation(before, still)
        count, after = self._places
        terminated, truncated = runner.flags.copy()
        discount = outputs[count + 1] if after > count + 1 else 1.0 - terminated
        infos = self._no_infos
        if self._informed is not None:
            columns = self._informed(outputs[after:])
            infos = Infos(columns=columns, n=self.batch_size, mask=chosen.copy())
        return make_batch_step((self._observation, outputs[count], terminated, truncated, discount, infos))

    def _hold_observation(self, before: Any, still: Mask) -> None:
        """Keeps the observations of lanes that pause; without noise they are the same anyway."""
        if self._runner is not None and self._runner.plan.noise:
            self._observation = put(self._observation, np.flatnonzero(still), take(before, still))

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        chosen = as_mask(mask, self.batch_size, "mask")
        runner = None if seed is not None or options or chosen is None else self._usable()
        if runner is None or chosen is None:
            return super().reset(seed=seed, options=options, mask=mask)
        chosen = chosen.copy()  # the infos keep it
        still, before = ~chosen, self._observation
        _, outputs = self._run(runner, self._idle_actions(), chosen, still, chosen, acts=False)
        self._hold_observation(before, still)
        columns = {} if self._informed is None else self._informed(outputs[self._places[1] :])
        return make_batch_reset((self._observation, Infos(columns=columns, n=self.batch_size, mask=chosen)))

    def _idle_actions(self) -> Any:
        n = self.batch_size
        return tree.map_leaves(lambda leaf: np.repeat(np.asarray(leaf)[None], n, 0), self._idle)

    def snapshot(self) -> Snapshot:
        snapshot = super().snapshot()
        return Snapshot(self._kind, snapshot.content)

    def __getstate__(self) -> dict[str, Any]:
        self._to_tree()
        dropped = ("_runner", "_in_records", "_in_tree", *_PREPARED)
        state = {name: value for name, value in vars(self).items() if name not in dropped}
        return {**state, "choice": Choice(self.choice.wanted)}


_PREPARED = (
    "_fixed", "_tables", "_contexts", "_contexts_of", "_fresh", "_no_draws", "_no_first", "_observed", "_informed",
    "_no_infos", "_places", "_settings",
)  # fmt: skip
"""The attributes that `_prepare` sets."""


def _examples(plan: Plan) -> list[Any]:
    """Returns the kernel's own arguments for two lanes."""
    rng = np.random.default_rng(0)
    draws = [draw(rng, 2) for calls in (plan.draws, plan.noise, plan.first) for draw in calls]
    return [plan.addresses, plan.context.empty(2), plan.layout.empty(2), *plan.tables, *draws]
