"""Lanes of a scalar `Model` that step by a kernel."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import tree
from ..compiling.choice import Choice, Compiled, check_equal
from ..errors import ContextError, NotCompilable
from ..lane_values import lane, put, take
from ..protocol.batch_env import Mask, as_mask, each_of, full_lanes_step, make_batch_reset, step_masks
from ..protocol.env import Env, Reset, Step
from ..protocol.fast_steps import Count
from ..protocol.infos import Infos
from ..protocol.process import Snapshot
from ..protocol.reset_options import CONTEXT, of_the_episode
from ..seeding import Streams, StreamStates, addresses, batch_streams, lane_seeds
from ..spec import Spec
from .context_table import Coming, ContextTable, Places, rows_of
from .lanes import Lanes, StreamsOf

if TYPE_CHECKING:
    from ..compiling.plan import Plan
    from ..compiling.runner import Runner


MANY_LANES = 500
"""The number of lanes from which on other threads may run beside a kernel, as beside numpy's loops of this length."""


class CompiledLanes(Lanes):
    """Lanes of one scalar model whose steps are one call of a kernel, with the same values as `Lanes`.

    While the kernel steps, its records hold the episodes, and what the lanes' environments hold is old: an access to
    `envs` brings them up to date. The kernel advances the streams of the environments themselves.

    Attributes:
        choice: The state of the decision to compile.
        is_watched: True while other functions stand in for the model's, which must not be compiled.
        in_records: True while the records hold the episodes.
        coming: For then: the contexts of the lanes that begin in the next step or reset; None for those that they have.
        place: The places of the lanes' contexts in the table of the last `coming`, an array that is never changed.
    """

    choice: Choice
    is_watched = False
    in_records = False
    coming: Coming | None = None
    place: Places
    _lanes: tuple[Any, ...] = ()
    _runner: Runner | None = None
    _in_class = True  # True if the environments hold them
    _ended: Any = None  # the mask of the lanes that have ended, where the environments hold the states
    _observation: Any

    # While the records hold the states.
    _table: ContextTable  # the contexts, whose places are `place`
    _own: Coming | None = None  # the same as coming ones, once they are asked for
    _lane_contexts: list[Any]  # those of the environments, as they are there
    _states: tuple[Any, ...] | None = None  # the states as the environments have them, once they are asked for
    _stream_states: StreamStates | None = None
    _last: Any = None  # what the last step of a kernel has replaced

    # What a kernel needs.
    _streams_of: list[Any]
    _kinds: Sequence[Any] = ()
    _steps_alone = False
    _is_plain = False  # True if the kernel needs nothing from outside for a step
    _unusual: list[Streams]  # streams of lanes whose states a kernel cannot save

    _passing = ("coming", "place", "_runner", "_unusual", "in_records", "_in_class", "_table", "_own",
                "_lane_contexts", "_states", "_stream_states", "_streams_of", "_kinds", "_steps_alone",
                "_is_plain", "_last")  # fmt: skip

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
        """Returns why the lanes cannot be compiled; empty if they are or can be. It compiles to find out."""
        if self.choice.is_open:
            try:
                self._sized_plan().compile()
            except NotCompilable as error:
                return str(error)
            return ""
        return self.choice.reason

    # The environments, and the records.

    @property
    def envs(self) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The environments of the lanes, which the caller may change."""
        self._leave_records()
        return self._lanes

    @envs.setter
    def envs(self, envs: Sequence[Env]) -> None:
        self._leave_records()
        self._lanes = tuple(envs)

    @property
    def members(self) -> tuple[Any, ...]:
        return self._lanes

    @property
    def _over(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return cast("Runner", self._runner).over.copy() if self.in_records else self._ended

    @_over.setter
    def _over(self, over: Any) -> None:
        self._leave_records()
        self._ended = over

    @property
    def observation(self) -> Any:
        """The latest observations."""
        return self._observation if self.in_records else Lanes.observation.__get__(self)

    @property
    def state(self) -> tuple[Any, ...]:
        """The state of each lane."""
        if not self.in_records:
            return tuple(env.state for env in self._lanes)
        if self._states is None:
            runner = cast("Runner", self._runner)
            self._states = tuple(rebuilt(runner.plan.states.example, self._kinds, runner.columns()))
        return self._states

    def resume(self, states: Sequence[Any], observe: bool = True) -> None:
        """Continues all lanes from other states."""
        envs = self.envs
        if observe:
            for env, state in zip(envs, states, strict=True):
                env.state = state
        over = [bool(env.terminal(state) or env.truncated(state)) for env, state in zip(envs, states, strict=True)]
        self._over = np.array(over)  # pyright: ignore[reportIncompatibleVariableOverride]

    def _bring_up_to_date(self) -> None:
        """Gives the environments the episodes and contexts that the records hold."""
        if self._in_class or not self.in_records:
            return
        states, over = self.state, self._over.tolist()
        held = tree.map_leaves(lambda leaf: leaf.copy(), self._observation)
        one = isinstance(self.observation_spec, Spec)
        for index, env in enumerate(self._lanes):
            observation = held[index] if one else lane(self.observation_spec, held, index)
            env.resume(states[index], observation, over[index])
        for index, (env, place) in enumerate(zip(self._lanes, self.place.tolist(), strict=True)):
            context = self._table.context(place)
            if context is not self._lane_contexts[index]:
                env.context = context
                self._lane_contexts[index] = context
        self._in_class = True

    def _leave_records(self) -> None:
        """Gives the episodes to the environments, which may change them."""
        if self.in_records:
            self._bring_up_to_date()
            self._ended = self._over
            self.in_records, self._states = False, None

    def _usable(self) -> Runner | None:
        """Returns the runner, with the states of all lanes in its records; None where steps must be interpreted."""
        runner = self._runner
        if runner is None:
            return None
        if self.in_records and not runner.plan.is_unchanged():
            self._leave_records()
        return runner if self.in_records or self._into_records(runner) else None

    def _into_records(self, runner: Runner) -> bool:
        """Takes over the episodes of the environments; returns False if one cannot be stepped by the kernel."""
        plan, lanes = runner.plan, self._lanes
        kind = cast("Any", type(lanes[0]))
        if any(type(env) is not kind or env.given_rewarder is not None or not env.has_begun for env in lanes):
            return False
        if not plan.is_current(lanes):
            return False
        columns = list(zip(*([leaf for _, leaf in tree.leaves(env.state)] for env in lanes), strict=True))
        settings = [np.asarray([getattr(env, name) for env in lanes]) for name in plan.own.example]
        given, place = rows_of([env.given_context for env in lanes])
        defaults: dict[str, Any] = {} if lanes[0].context_space is None else lanes[0].context_space.defaults
        table = ContextTable([{**defaults, **context} for context in given])
        if not plan.own.holds(settings, self.batch_size) or table.records(plan.context) is None:
            return False
        if not runner.load([np.array(values) for values in columns]):
            return False
        runner.over[:] = self._ended
        plan.own.write(runner.arrays["settings"], settings)
        self._observation = Lanes.observation.__get__(self)
        self._hold_contexts(table, place)
        self._lane_contexts = table.contexts(place)
        self._find_streams(runner)
        self.in_records, self._in_class, self._states = True, True, None
        return True

    def _find_streams(self, runner: Runner, lanes: Iterable[int] | None = None) -> None:
        """Tells the kernel where the streams of some lanes are, or of all."""
        bits, draws = runner.arrays["bits"], runner.plan.draws
        columns = [(0, "dynamics")] if draws - {"observe"} else []
        columns += [(1, "observation")] if "observe" in draws else []
        for index in range(self.batch_size) if lanes is None else lanes:
            streams, known = self._lanes[index].streams, self._streams_of[index]
            for k, name in columns:
                generator = getattr(streams, name)
                if known[k] is not generator:
                    known[k] = generator
                    found = addresses(generator)
                    bits[index, 4 * k : 4 * k + 4], bits[index, 8 + k] = found[:4], found[4]
        self._unusual = []
        for k, _ in columns:
            for index in np.flatnonzero(bits[:, 8 + k] == 0).tolist():
                self._unusual.append(self._lanes[index].streams)
        self._is_plain = runner.plan.begins and not self._unusual

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
        if hold is not None:
            restart, hold = step_masks(self, restart, hold)
            if restart is None and self.coming is not None:
                restart = runner.none  # so that places of its table are held
        if hold is not None:
            with runner.holding(hold):
                values = self._launch(runner, action, restart, count)
        elif restart is None and self._is_plain:
            values = runner.launch(runner, action, None, count, None, None)
        elif self.coming is not None and self._is_plain:
            values = runner.launch(runner, action, restart, count, self.coming, None)
        else:
            values = self._launch(runner, action, restart, count)
        if values is None:
            return None
        observation = values[0]
        if hold is not None:
            index = hold.nonzero()[0]
            observation, *middle, _, _ = values  # the last is a mask of all that have ended, also of those that pause
            observation = put(observation, index, take(self._observation, index))
            values = (observation, *middle, Infos(columns={}, n=self.batch_size, mask=~hold), None)
        self._commit(runner, observation, restart)
        return values

    def _launch(
        self, runner: Runner, action: Any, restart: Any, count: Count | None, coming: Coming | None = None
    ) -> Any:
        """Computes a step, which `_commit` makes that of the lanes. Returns None where it must be interpreted."""
        if restart is not None and coming is None:
            coming = self.coming or self._own
            if coming is None:
                coming = self._own = Coming(self._table, self.place, self.place)
        if self._is_plain:
            return runner.launch(runner, action, restart, count, coming, None)
        undo: list[StreamStates] = []
        try:
            ask = partial(self._prepare_step, runner, coming, undo)
            return runner.launch(runner, action, restart, count, coming, ask)
        except Exception:
            for states in undo:
                states.put_back()
            raise

    def _prepare_step(self, runner: Runner, coming: Coming | None, undo: list[StreamStates], begins: Mask) -> None:
        """Makes the states in which lanes begin, where the kernel cannot, and saves streams that it cannot save."""
        lanes = begins.nonzero()[0]
        envs = [self._lanes[index] for index in lanes.tolist()]
        undo.append(StreamStates([*(env.streams for env in envs), *self._unusual], ("dynamics", "observation")))
        if runner.plan.begins or coming is None:
            return
        for row, (env, place) in enumerate(zip(envs, coming.of_lanes(lanes).tolist(), strict=True)):
            state = env.initial(env.streams.dynamics, dict(coming.table.context(place)))
            runner.write_fresh([np.asarray(leaf)[None] for _, leaf in tree.leaves(state)], row)

    def _commit(self, runner: Runner, observation: Any, restart: Any) -> None:
        """Makes the computed step that of the lanes."""
        self._last = runner, self._observation, self._table, self.place, self._own, self.coming, restart
        runner.exchange()
        self._observation, self._in_class, self._states = observation, False, None
        coming = self.coming
        if restart is not None and coming is not None:
            if coming.first >= 0:
                coming.first += runner.progress.item(1)
            self._table, self.place, self._own = coming.table, runner.place.copy(), None

    def undo_step(self) -> None:
        if self._last is None:
            super().undo_step()
            return
        runner, self._observation, self._table, self.place, self._own, coming, restart = self._last
        runner.exchange()
        runner.take_back()
        self._last, self._in_class, self._states = None, False, None
        if restart is not None and coming is not None and coming.first >= 0:
            coming.first -= runner.progress.item(1)

    def step_alone(self, action: Any) -> Any:
        """Returns the values of `step_values` for a single lane, with infos None for an empty one.

        The arrays of all values but the observation are changed by the next step.
        """
        runner = self._usable()
        if runner is None or not self._steps_alone or not self._is_plain:
            return None
        ran = runner.step_alone(action)
        if ran is None:
            return None
        ended, self._observation, others = ran
        self._in_class, self._states = False, None
        ends = (runner.terminated, runner.truncated) if ended else (None, None)
        return self._observation, others[0], *ends, others[1] if len(others) > 1 else None, None

    def _interpreted(self, action: Any, restart: Mask | None, hold: Mask | None) -> Any:
        choice, self._last = self.choice, None
        with self._contexts_put(restart):
            if not choice.is_open or self.is_watched:
                return super().step_values(action, restart, hold)
            started = perf_counter()
            values = super().step_values(action, restart, hold)
        choice.spent += perf_counter() - started
        if choice.spent > choice.limit:
            choice.advance(self._sized_plan, self._start)
        return values

    # Resets.

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        n, chosen = self.batch_size, as_mask(mask, self.batch_size, "mask")
        runner = self._usable()
        if runner is None or not self._takes(runner, options):
            with self._contexts_put(np.ones(n, bool) if chosen is None else chosen):
                return super().reset(seed=seed, options=options, mask=mask)
        if chosen is None:
            still, restart = runner.none, ~runner.none
        else:
            restart = chosen = chosen.copy()  # the infos keep it
            still = ~chosen
        seeded = None if seed is None else self._seed(runner, seed, restart)
        try:
            under = self._under(runner, options, restart) if options else None
            with runner.holding(still):
                values: Any = self._launch(runner, runner.idle, restart, None, under)
        except Exception:
            if seeded is not None:
                self._return_to(runner, *seeded)
            raise
        index = still.nonzero()[0]
        observation = put(values[0], index, take(self._observation, index)) if len(index) else values[0]
        self._commit(runner, observation, restart)
        if under is not None:  # for this episode alone
            runner.turn_to(Coming(self._table, self.place, self.place))
        return make_batch_reset((observation, Infos(columns={}, n=n, mask=chosen)))

    def _takes(self, runner: Runner, options: Mapping[str, Any] | None) -> bool:
        """Returns True if the kernel can begin episodes with these options."""
        if not options:
            return True
        space = self._lanes[0].context_space
        return space is not None and all(name in runner.plan.context.example or name == CONTEXT for name in options)

    def _under(self, runner: Runner, options: Mapping[str, Any], restart: Mask) -> Coming:
        """Returns the contexts of lanes whose reset has options."""
        coming, space = self.coming, self._lanes[0].context_space
        table, places = (self._table, self.place) if coming is None else (coming.table, coming.held.copy())
        if coming is not None:
            lanes = restart.nonzero()[0]
            places[lanes] = coming.of_lanes(lanes)
        rows, index = rows_of(table.contexts(places))
        contexts = ContextTable([of_the_episode(space, dict(row), options) for row in rows])
        if contexts.records(runner.plan.context) is None:
            raise ContextError(f"options: expected numbers of the types that the model was compiled for, got {options}")
        return Coming(contexts, index, index)

    def _seed(self, runner: Runner, seed: Any, restart: Mask) -> tuple[Any, dict[int, Streams]]:
        """Gives lanes that begin other streams; returns those before, of the batch and of these lanes."""
        seeds, streams = lane_seeds(seed, self.batch_size), batch_streams(seed, self.batch_size) or self._streams
        seeded = [index for index in restart.nonzero()[0].tolist() if seeds[index] is not None]
        changed = range(self.batch_size) if self.shares_streams else seeded
        before = self._streams, {index: self._lanes[index].streams for index in changed}
        self._streams = streams
        if self.shares_streams:
            self._share(streams or self.streams)
        else:
            for index in seeded:
                self._lanes[index].use_streams(Streams(seeds[index]))
        self._find_streams(runner, changed)
        return before

    def _return_to(self, runner: Runner, of_batch: Any, of_lanes: Mapping[int, Streams]) -> None:
        """Gives lanes the streams of before."""
        self._streams = of_batch
        for index, streams in of_lanes.items():
            self._lanes[index].use_streams(streams)
        self._find_streams(runner, of_lanes)

    def _streams_changed(self) -> None:
        if self.in_records:
            self._find_streams(cast("Runner", self._runner))

    # Contexts.

    @contextmanager
    def _contexts_put(self, restart: Any) -> Generator[None]:
        """Gives the environments of lanes that begin their `coming` contexts, for an interpreted step or reset."""
        self._leave_records()
        coming = self.coming
        if coming is None or restart is None:
            yield
            return
        lanes = np.flatnonzero(restart)
        place, envs = coming.held.copy(), [self._lanes[lane] for lane in lanes.tolist()]
        place[lanes] = coming.of_lanes(lanes)
        before = [env.given_context for env in envs]
        try:
            for env, context in zip(envs, coming.table.contexts(place[lanes]), strict=True):
                env.context = context
            yield
        except Exception:
            for env, context in zip(envs, before, strict=True):
                env.context = context
            raise
        if coming.first >= 0:
            coming.first += len(lanes)
        self.place = place

    @property
    def context(self) -> dict[str, list[Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The contexts of the coming episodes; see `Lanes.context`."""
        if not self.in_records:
            return Lanes.context.__get__(self)
        lanes = self._table.contexts(self.place)
        return {name: [context[name] for context in lanes] for name in lanes[0]}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        if not self.in_records:
            Lanes.context.__set__(self, context)
            return
        n = self.batch_size
        self._check_counts(context)
        if any(np.ndim(value) for value in context.values()):
            each = [{name: value[i] if np.ndim(value) else value for name, value in context.items()} for i in range(n)]
        else:
            each = [context] * n
        self._set_contexts(each, range(n), any(map(np.ndim, context.values())))

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        if not self.in_records:
            super().put_context(context, lanes)
            return
        given, held = each_of(context, len(lanes)), self._table.contexts(self.place)
        each: list[Mapping[str, Any]] = [
            {**held[number], **{name: values[index] for name, values in given.items()}}
            for index, number in enumerate(lanes)
        ]
        self._set_contexts(each, lanes, True)

    def _set_contexts(self, each: Sequence[Mapping[str, Any]], lanes: Sequence[int], named: bool) -> None:
        """Sets the contexts of some lanes."""
        space, held = self._lanes[0].context_space, self._table.contexts(self.place)
        known: dict[int, Any] = {}
        for number, context in zip(lanes, each, strict=True):
            if id(context) not in known:
                try:
                    if space is not None:
                        space.verify(context)
                except ContextError as error:
                    if not named:
                        raise
                    raise ContextError(f"{error} in lane {number}") from error
                known[id(context)] = {**({} if space is None else space.defaults), **context}
            held[number] = known[id(context)]
        rows, place = rows_of(held)
        self._hold_contexts(ContextTable(rows), place)
        self._in_class = False
        if self._table.records(cast("Runner", self._runner).plan.context) is None:
            self._leave_records()

    def _hold_contexts(self, table: ContextTable, place: Places) -> None:
        self._table, self.place, self._own = table, place, None

    # Compiling.

    def _make_plan(self) -> Plan:
        """Returns the plan of the kernel."""
        from ..compiling.scalar import plan_of_model  # imported here, so that `import envoi` stays fast

        plan = plan_of_model(self._lanes[0])
        if self.shares_streams and not plan.begins and plan.draws & {"transition"}:
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
            self._leave_records()
            self._runner = None
            raise

    def _prepare(self, plan: Plan) -> None:
        """Compiles the kernel, and starts to use it."""
        from ..compiling.runner import Runner

        env, runner = self._lanes[0], Runner(plan, self.action_spec, self.batch_size)
        self._streams_of, self._unusual = [[None, None] for _ in self._lanes], []
        # The types of numbers in states, which follow from the functions and not from the records.
        rng = np.random.default_rng(0)
        begun = env.initial(rng, env.context)
        moved = env.transition(begun, lane(env.action_spec, runner.idle, 0), rng)
        self._kinds = [type(leaf) for _, leaf in tree.leaves(moved)]
        of_lane = [output.shape for output in plan.outputs[1:]]  # beside the observation
        single = not tree.is_branch(plan.observation) and not any(of_lane)
        self._steps_alone = self.batch_size == 1 and single and plan.begins
        self._leave_records()
        self._runner = runner

    # Copies.

    @property
    def _kind(self) -> type:
        return Lanes  # a snapshot of one kind can be restored into the other

    def snapshot(self) -> Snapshot:
        if not self.in_records:
            return Snapshot(self._kind, super().snapshot().content)
        streams = [env.streams for env in self._lanes]
        if self._stream_states is None or not self._stream_states.cover(streams):
            self._stream_states = StreamStates(streams)
        runner = cast("Runner", self._runner)
        held: dict[str, Any] = {"observation": self._observation, "table": self._table, "place": self.place}
        states = self._stream_states.now()
        lanes = _Rows(self._lanes[0], runner.plan, self._kinds, runner.snapshot(), streams=states, **held)
        return Snapshot(self._kind, (lanes, lanes.over, StreamStates([self.streams])))

    def restore(self, snapshot: Snapshot) -> None:
        lanes, _, streams = self._content(snapshot)
        runner = self._runner
        fits = type(lanes) is _Rows and runner is not None and lanes.fits(runner, self.batch_size)
        if not fits or not self.in_records or runner is None:
            super().restore(snapshot)
            return
        runner.restore(lanes.rows)
        self._observation, self._in_class, self._states = lanes.observation, False, None
        self._hold_contexts(lanes.table, lanes.place)
        own, states = [env.streams for env in self._lanes], lanes.streams
        if states.are_of(own):
            states.put_back()
        else:
            for env, copied in zip(self._lanes, states.copies(), strict=True):
                env.use_streams(copied)
        self._streams = own[0] if self.shares_streams else streams.copies()[0]
        if self.shares_streams and not states.are_of(own):
            self._share(self._lanes[0].streams)
        self._find_streams(runner)

    def __getstate__(self) -> dict[str, Any]:
        # Without the kernel, which is not pickled but compiled or loaded again.
        self._bring_up_to_date()
        state = {name: value for name, value in super().__getstate__().items() if name not in self._passing}
        return {**state, "_ended": self._over, "choice": Choice(self.choice.wanted)}


class _Rows(Sequence[Snapshot]):
    """The snapshots of lanes, as the rows of their records; they are made when one is asked for."""

    def __init__(self, model: Any, plan: Plan, kinds: Sequence[Any], rows: Sequence[Any], **held: Any) -> None:
        self.model, self.plan, self.kinds, self.rows, self.over = model, plan, kinds, rows, rows[-2]
        self.observation, self.table, self.place = held["observation"], held["table"], held["place"]
        self.streams: StreamStates = held["streams"]
        self._made: list[Snapshot] | None = None

    def fits(self, runner: Runner, n: int) -> bool:
        """Returns True if a runner has such rows."""
        return self.plan is runner.plan and len(self) == n

    def __len__(self) -> int:
        return len(self.place)

    def __getitem__(self, index: Any) -> Any:
        if self._made is None:
            model, states = copy.deepcopy(self.model), self.plan.states
            columns = rebuilt(states.example, self.kinds, states.read(self.rows))
            each = zip(columns, self.over.tolist(), self.table.contexts(self.place), self.streams.copies(), strict=True)
            made: list[Snapshot] = []
            for i, (state, over, context, streams) in enumerate(each):
                seen = tree.map_leaves(lambda leaf: leaf.copy(), lane(model.observation_spec, self.observation, i))
                model.context = context
                model.use_streams(streams)
                model.resume(state, seen, over)
                made.append(model.snapshot())
            self._made = made
        return cast("Any", self._made)[index]

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Rows:
        return self  # never changed


def rebuilt(example: Any, kinds: Sequence[Any], leaves: Sequence[Any]) -> Iterator[Any]:
    """Yields the states of lanes: trees like `example`, with numbers of the given types."""
    columns = [
        column.tolist() if kind in (float, int, bool) else column if kind is np.ndarray else map(kind, column)
        for kind, column in zip(kinds, leaves, strict=True)
    ]
    if not isinstance(example, tuple):
        return iter(columns[0])
    made = zip(*columns, strict=True)
    make = partial(cast("Any", tuple).__new__, cast("Any", example).__class__)
    return map(make, made) if hasattr(cast("Any", example), "_fields") else made
