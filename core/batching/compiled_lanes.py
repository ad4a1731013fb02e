"""Lanes of a scalar `Model` that step by a kernel."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import tree
from ..compiling.choice import Compiled
from ..errors import NotCompilable
from ..lane_values import lane
from ..protocol.batch_env import Mask
from ..protocol.env import Env
from .kernel_steps import KernelSteps
from .lanes import Lanes, StreamsOf

if TYPE_CHECKING:
    from ..compiling.plan import Plan
    from ..compiling.runner import Runner


class CompiledLanes(KernelSteps, Lanes):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Lanes of one scalar model whose steps are one call of a kernel, with the same values as `Lanes`.

    At rest, each lane's environment holds its episode. While the kernel steps, its records do; an access to `envs`
    brings the environments up to date. The kernel advances the streams of the environments themselves.
    """

    _lanes: tuple[Any, ...] = ()
    _kinds: Sequence[Any] = ()

    def __init__(self, envs: Sequence[Env], compiled: Compiled = "auto", streams: StreamsOf = "lanes") -> None:
        Lanes.__init__(self, envs, streams)
        self._use_kernels(compiled)

    @property
    def _kind(self) -> type:
        return Lanes  # a snapshot of one kind can be restored into the other

    def _class_step(self, action: Any, restart: Mask | None, hold: Mask | None) -> Any:
        return Lanes.step_values(self, action, restart, hold)

    @property
    def envs(self) -> tuple[Any, ...]:
        """The environments of the lanes."""
        self._out_of_records()
        self._in_records = False  # the caller may change them
        return self._lanes

    @envs.setter
    def envs(self, envs: Sequence[Env]) -> None:
        self._out_of_records()
        self._lanes, self._in_records = tuple(envs), False

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
        self._over = np.array(over)  # pyright: ignore[reportIncompatibleVariableOverride]

    def _out_of_records(self) -> None:
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

    # Compiling.

    def _make_plan(self) -> Plan:
        from ..compiling.scalar import plan_of_model  # imported here, so that `import envoi` stays fast

        plan = plan_of_model(self._lanes[0])
        if self.shares_streams and plan.uses_dynamics and not plan.begins:
            raise NotCompilable(
                f"{plan.title}.initial: it cannot be compiled, so with streams='batch' its random numbers would come "
                "before those of the other lanes' transitions"
            )
        return plan

    def _start(self, plan: Plan) -> None:
        from ..compiling.choice import check_equal

        self._prepare(plan)
        make: Any = type(self)
        pair: list[Any] = [make([copy.copy(env) for env in self._lanes[:1] * 3], False) for _ in "ab"]
        for batch in pair:
            batch.rng = np.random.default_rng(0)
        pair[1]._prepare(plan)
        try:
            check_equal(plan.title, *pair)
        except Exception:
            self._runner = None
            raise

    def _prepare(self, plan: Any) -> None:
        from ..compiling.runner import Runner

        env, runner = self._lanes[0], Runner(plan, self.action_spec, self.batch_size)
        self._streams_of: list[Any] = [None] * self.batch_size
        # The types of numbers in states, which follow from the functions and not from the records.
        rng = np.random.default_rng(0)
        begun = env.initial(rng, env.context)
        moved = env.transition(begun, lane(env.action_spec, runner.idle, 0), rng)
        self._kinds = [type(leaf) for _, leaf in tree.leaves(moved)]
        self._prepared = frozenset(("_streams_of", "_kinds"))
        self._fit(plan, runner)

    def _usable(self) -> Runner | None:
        runner = self._runner
        if runner is None or self._in_records:
            return runner
        return runner if self._into_records(runner) else None

    def _into_records(self, runner: Any) -> bool:
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

    def _changing(self, runner: Runner, begins: Mask | None) -> Sequence[Any]:
        for row, index in enumerate([] if begins is None else begins.nonzero()[0].tolist()):
            env = self._lanes[index]
            state = env.initial(env.streams.dynamics, env.context)
            runner.write_fresh([np.asarray(leaf)[None] for _, leaf in tree.leaves(state)], row)
        return ()
