"""Lanes of one scalar `Model`, whose episodes are columns that a loop or a kernel steps.

`compiled` makes such a batch of one lane, as an environment.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import tree
from ..authoring.model import Model, optional_functions, written_functions
from ..compiling.choice import Choice, Compiled, check_compiled, check_equal
from ..errors import ContextError, EpisodeError, NotCompilable, SnapshotUnsupported, SpecError
from ..lane_values import lane, put_lanes, splitter, stack
from ..protocol.batch_env import LANES_VALUES, Mask, as_mask, check_count, either, masks_of, step_masks
from ..protocol.env import NOT_RESET, Env
from ..protocol.infos import Infos
from ..protocol.process import Snapshot, taking_back
from ..protocol.reset_options import CONTEXT, of_the_episode
from ..seeding import Streams, StreamStates, batch_streams, lane_seeds
from ..spec import zeros
from ..spec.base import shown
from ..steps.program import Program, Stage
from ..wrapping.wrapper import Wrapper
from .batch_model import BatchModel, are_models, why_interpreted
from .context_table import Coming, ContextTable, Places, rows_of
from .lanes import GIVEN, LaneColumns, Lanes, Stacking, StreamsOf
from .model_lane import ModelLane

if TYPE_CHECKING:
    from ..compiling.plan import Plan
    from ..compiling.runner import Runner


MANY_LANES = 500
"""The number of lanes from which a kernel lets other threads run, as numpy does for loops of this length."""


class ModelLanes(LaneColumns, Lanes):
    """Lanes of one scalar model, stepped in a loop or by one call of a kernel, with the same values.

    The batch stores their episodes as columns: states, observations, steps, and indices of contexts. The models of
    the lanes have the rest: attributes, functions, rewarders and random streams. A step computes new columns, and
    commits them at its end, so that an error anywhere leaves all lanes as they were.

    Args:
        models: The models, of one class.
        compiled: True to compile the kernel now; `"auto"` to compile once it is worthwhile; False for the loop.
        streams: As for `Lanes`.

    Attributes:
        choice: Decides when to compile.
        is_watched: True while other functions replace the model's; they must not be compiled.
        coming: The contexts of lanes that begin in the next step or reset; None if they keep theirs.
    """

    choice: Choice
    is_watched = False
    coming: Coming | None = None

    _states: Sequence[Any] | None = None  # None while they are only in the kernel's rows
    _elapsed: Any  # the steps of each lane's episode; None while they are only in the kernel's rows
    _table: ContextTable
    _place: Places
    _own: Coming | None = None  # the contexts in force as `Coming`, for lanes that keep theirs

    # Copies do not contain these attributes.
    _runner: Runner | None = None
    _in_rows = False  # True while all columns are in the kernel's rows
    _kinds: Sequence[Any] = ()  # the types of the numbers in states
    _stream_states: StreamStates | None = None
    _stacking: Stacking | None = None
    _written: frozenset[str] | None = None  # the optional functions that the loop calls
    _is_lent = False  # True if a user may have set the contexts of models
    _given: tuple[Any, Any] | None = None  # the table and rows of the contexts that the models have
    _views: tuple[ModelLane, ...] = ()

    _passing = ("coming", "_own", "_next", "_written_step", "_runner", "_in_rows", "_kinds", "_stream_states",
                "_stacking", "_written", "_given", "_is_lent", "_views")  # fmt: skip

    def __init__(self, models: Sequence[Model], compiled: Compiled = "auto", streams: StreamsOf = "lanes") -> None:
        self._models, self._elapsed = tuple[Any, ...](models), np.zeros(len(models), np.int64)
        super().__init__(models, streams)
        space = self.context_space
        given, self._place = rows_of([model.given_context for model in models])
        self._table = ContextTable([{**({} if space is None else space.defaults), **one} for one in given])
        self._given = self._table, self._place
        self.choice, self._none = Choice(compiled), np.zeros(len(models), bool)
        if compiled is True:
            self.choice.compile(self._make_plan, self._start)

    @property
    def has_kernel(self) -> bool:
        """True if the kernel is compiled, and no lane has a rewarder in place of the model's rewards."""
        return self._runner is not None and all(model._rewarder is None for model in self._models)

    def kernel_source(self) -> str:
        """Returns the source of the kernel; empty without one."""
        return cast("Runner", self._runner).plan.source if self.has_kernel else ""

    @property
    def has_begun(self) -> bool:
        """True after the first reset of all lanes."""
        return self._begun

    def obstacle(self) -> str:
        """Returns why the lanes cannot be compiled, or an empty string. Compiles the kernel to find out."""
        if self.choice.is_open:
            try:
                self._make_plan().compile()
            except NotCompilable as error:
                return str(error)
            return ""
        return self.choice.reason

    # The lanes.

    @property
    def members(self) -> tuple[Any, ...]:
        """The models, which do not contain the episodes of their lanes; see `envs`."""
        return self._models

    @property
    def envs(self) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The lanes as environments; see `ModelLane`."""
        if not self._views:
            self._views = tuple(ModelLane(self, index) for index in range(self.batch_size))
        return self._views

    @envs.setter
    def envs(self, envs: Sequence[Any]) -> None:
        models = tuple(vars(env)["_model"] if isinstance(env, ModelLane) else env for env in envs)
        for index, (old, new) in enumerate(zip(self._models, models, strict=True)):
            if type(new) is not type(old):
                raise SpecError(
                    f"envs: expected a {type(old).__name__} in lane {index}, as before, got {shown(new)}; make a loop "
                    "of different environments by envoi.Lanes([…])"
                )
        new = [index for index, (own, model) in enumerate(zip(self._models, models, strict=True)) if own is not model]
        self.use_states()
        if new:
            self._give_contexts(self._table, self._place)  # to models that may come back
        views, self._models = self._views, models
        self._views = tuple(
            view if vars(view)["_model"] is model else ModelLane(self, index)
            for index, (view, model) in enumerate(zip(views, models, strict=False))
        )
        self._given = self._written = None
        if new:
            self._set_contexts([models[index].given_context for index in new], new, True)

    def use_states(self) -> None:
        """Copies the columns out of the kernel's rows, so that other code can change them or the models."""
        if self._in_rows:
            runner = cast("Runner", self._runner)
            self._states, self._elapsed, self._in_rows = self.state, runner.before[-1].copy(), False
            self._over = self._over.copy()

    def lend(self, index: int) -> Any:
        """Copies a lane's episode into its model, and returns the model, for a user to read or change."""
        model = self._models[index]
        self._give_contexts(self._table, self._place)
        self._is_lent = True
        self.distrust()
        if self._begun:
            seen = copy.deepcopy(lane(self.observation_spec, self._observation, index))
            model.resume(self.state[index], seen, bool(self._over[index]))
        return model

    def distrust(self) -> None:
        """Makes the next step check the constants and attributes of the kernel, because a model may change."""
        if self._runner is not None:
            self._runner.is_unchanged = bool

    def take_over(self, index: int) -> None:
        """Copies the episode of a model that was set from outside into its lane."""
        model = self._models[index]
        self.use_states()
        states, seen, n = [None], [None], self.batch_size
        if self._begun:
            states, seen = [*self.state], [lane(self.observation_spec, self._observation, i) for i in range(n)]
        elif n > 1:
            raise EpisodeError(f"restore: {NOT_RESET} in all lanes first")
        states[index], seen[index] = model.state, model.observation
        self._states, self._observation = tuple(states), stack(self.observation_spec, seen, "observation")
        self._over, self._begun = self._over.copy(), True
        self._over[index] = model.step_record.halt is not None
        self.put_context(model.context, [index])

    @property
    def state(self) -> tuple[Any, ...]:
        """The state of each lane."""
        if not self._begun:
            raise EpisodeError(f"state: {NOT_RESET}")
        if self._states is None:
            runner = cast("Runner", self._runner)
            self._states = tuple(rebuilt(runner.plan.states.example, self._kinds, runner.columns()))
        return tuple(self._states)

    @property
    def next_state(self) -> tuple[Any, ...]:
        """The state of each lane after the step that `advance` has computed."""
        observation, over, saved, states, *others = self._next
        if states is None:
            runner = cast("Runner", self._runner)
            states = tuple(rebuilt(runner.plan.states.example, self._kinds, runner.columns(is_next=True)))
            self._next = observation, over, saved, states, *others
        return states

    # Steps.

    def step_program(self) -> Program:
        """Returns the stages of a step: one that calls the author's functions for all lanes."""
        how = "in a kernel, for all lanes" if self.has_kernel else "one lane after the other"
        stage = Stage(
            f"Model: the functions that its author wrote, {how}",
            f"{GIVEN}\n{LANES_VALUES} = batch.advance(action, restart, hold, limit)",
            {"batch": self, "limit": 0, "check_count": check_count},
            guarded=True,
            commit="batch.commit()",
            undo="batch.take_back()",
            source=self.kernel_source,
        )
        return Program((stage,), self.step_record, state="batch.next_state", opening=masks_of(self))

    def advance(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, action: Any, restart: Mask | None, hold: Mask | None, limit: int = 0, under: Coming | None = None
    ) -> tuple[Any, ...]:
        """Computes a step without storing it; see `commit`.

        Args:
            action: As for `step`; None if no lane acts, and masks have been checked.
            restart: As for `step`.
            hold: As for `step`.
            limit: The number of steps after which episodes are truncated; 0 for no limit.
            under: Contexts of lanes that begin, for this step only; None to use `coming`.

        Returns:
            The six values of a step, with None for all-False flags and default discounts, and a mask of the lanes that
            ended, or None.
        """
        if self._is_lent:
            self._take_contexts()
        if self._runner is None and self.choice.is_due and self._begun and not self.is_watched:
            self.choice.advance(self._make_plan, self._start)  # between steps, so that Ctrl-C interrupts none
        runner = self._runner
        if runner is not None and not (self._in_rows and runner.is_unchanged()) and not self._usable(runner):
            runner = None
        if (hold is not None or (runner is None and restart is not None)) and action is not None:  # or the kernel does
            restart, hold = step_masks(self, restart, hold)
        if runner is None:
            return self._advance_loop(action, restart, hold, limit, under)
        coming, saved = self.coming, None
        used = under or coming
        if used is None and restart is not None:
            used = self._own = self._own or Coming(self._table, self._place, self._place)
        if hold is None and runner.is_plain and (used is None or used is runner.coming or runner.knows(used)):
            values = runner.launch(runner, action if action is not None else runner.idle, restart, limit, used)
        else:
            values, saved = self._launch_with(runner, action, restart, hold, limit, used)
        if values is None:  # an action or a context that a kernel cannot have
            restart, hold = step_masks(self, restart, hold)
            return self._advance_loop(action, restart, hold, limit, under)
        observation = values[0]
        if hold is not None:
            tree.map_leaves(lambda new, old: np.copyto(new.T, old.T, where=hold), observation, self._observation)
            told = Infos(columns={}, n=self.batch_size, mask=~hold)
            values = (observation, *values[1:5], told, values[6])
        over = runner.none if values[6] is None and hold is None else runner.after[-3]  # until the next step but one
        contexts = None if coming is None else (coming.table, runner.after[-2].copy(), runner.progress.item(1), coming)
        self._next = observation, over, saved, None, None, contexts
        return values

    def commit(self) -> None:
        """Stores the step that `advance` has computed."""
        self._observation, self._over, _, self._states, self._elapsed, contexts = self._next
        self._next = None
        if self._elapsed is None:
            self._runner.exchange()  # pyright: ignore[reportOptionalMemberAccess]
        else:
            self._in_rows, self._begun = False, True
        if contexts is not None:
            (self._table, self._place, begun, coming), self._own = contexts, None
            coming.held = self._place  # for a wrapper that steps again before others look
            coming.first += begun if coming.first >= 0 else 0

    def take_back(self) -> None:
        """Drops the step that `advance` has computed, because a wrapper has failed."""
        saved, self._next = self._next[2], None
        if saved is None:
            cast("Runner", self._runner).take_back()
        else:
            saved.put_back()

    @property
    def place(self) -> Places:
        """The index of each lane's context in the table of the last `coming`, also after `advance`."""
        return self._place if self._next is None or self._next[5] is None else self._next[5][1]

    def _contexts_after(self, restart: Any) -> tuple[ContextTable, Places, int]:
        """Returns the table and the lanes' rows in it after a restart, and the number of lanes that begin."""
        coming = self.coming
        if coming is None:
            return self._table, self._place, 0
        place, lanes = coming.held.copy(), cast("Any", [] if restart is None else restart.nonzero()[0])
        place[lanes] = coming.of_lanes(lanes)
        return coming.table, place, len(lanes)

    def _states_of_streams(self) -> StreamStates:
        """Saves the states of all streams, to restore them after an error."""
        saved = self._stream_states
        if saved is not None and saved.cover([model._streams for model in self._models]):
            saved.take()
        else:
            streams = [model.streams for model in self._models]
            self._stream_states = saved = StreamStates(streams, ("dynamics", "observation"))
        return saved

    # A loop.

    def _advance_loop(
        self, action: Any, restart: Any, hold: Any, limit: int = 0, under: Coming | None = None
    ) -> tuple[Any, ...]:
        """Computes a step lane by lane in Python. `under` are contexts for this step only."""
        n, stacking, idle = self.batch_size, self._stacking, either(restart, hold)
        started = perf_counter() if self.choice.is_open else 0.0
        if self._over is not self._none and (self._begun or restart is None or np.count_nonzero(restart) < n):
            self._refuse(self._over if idle is None else self._over & ~idle)
        if stacking is None or stacking.reward_spec is not self.reward_spec:
            self._stacking = stacking = Stacking(self)
        actions = [None] * n if action is None else stacking.split(action)
        check_count("action", actions, n)
        coming, (table, place, begun) = self.coming, self._contexts_after(restart)
        contexts: Any = None
        if restart is not None:
            lanes, used = restart.nonzero()[0], (table, place) if under is None else (under.table, under.places)
            contexts = put_lanes(None, (None,) * n, lanes, used[0].contexts(used[1][lanes]))
        saved, acts, moved = self._states_of_streams(), None if hold is None else ~hold, list[Any]()
        try:
            self._give_contexts(table, place)
            begins = (False,) * n if restart is None else restart.tolist()
            before = self._states or (self.state if self._begun else actions)
            each = zip(self._models, saved.streams, before, actions, begins, contexts or begins)  # noqa: B905 (counted)
            each, size = (each, n) if acts is None else (compress(each, acts.tolist()), int(acts.sum()))
            states, observations, rewards, ends, cuts, discounts, infos = self._step_lanes(moved, each, size)
            if acts is None:
                observation, reward = stacking.stack_observations(observations), stacking.stack_rewards(rewards)
            else:  # lanes that pause keep what they have
                lanes = acts.nonzero()[0]
                observation = put_lanes(self.observation_spec, self._observation, lanes, observations)
                reward = put_lanes(self.reward_spec, stacking.stack_rewards([stacking.nothing] * n), lanes, rewards)
                held: Any = before, (False,) * n, (False,) * n, (None,) * n, ({},) * n
                news = states, ends, cuts, discounts, infos
                states, ends, cuts, discounts, infos = (
                    put_lanes(None, old, lanes, new) for old, new in zip(held, news, strict=True)
                )
            factors = stacking.stack_discounts(discounts, ends)
        except BaseException as error:
            saved.put_back()
            error.envoi_lane = [*(range(n) if acts is None else acts.nonzero()[0].tolist()), n][len(moved)]  # type: ignore[attr-defined]
            raise
        since = cast("Runner", self._runner).before[-1] if self._elapsed is None else self._elapsed
        elapsed = since + 1
        if restart is not None:
            elapsed[restart] = 0
        if hold is not None:
            elapsed[hold] = since[hold]
        terminated = truncated = ended = None
        if any(ends) or any(cuts):
            terminated, truncated = np.array(ends, bool), np.array(cuts, bool)
        if limit and np.count_nonzero(cut := elapsed >= limit if hold is None else (elapsed >= limit) & ~hold):
            terminated = np.zeros(n, bool) if terminated is None else terminated
            truncated = cut if truncated is None else truncated | cut
        if terminated is not None:
            ended = terminated | cast("Any", truncated)
        over = self._none if ended is None else ended.copy()
        if hold is not None:
            over = over | (self._over & hold)
        changed = None if coming is None else (table, place, begun, coming)
        self._next = observation, over, saved, tuple(states), elapsed, changed
        if started:
            self.choice.spent += perf_counter() - started
        # By lane where some pause, because wrappers add entries to those of other lanes only.
        told = Infos([one or {} for one in infos]) if hold is not None or any(infos) else Infos(columns={}, n=n)
        return observation, reward, terminated, truncated, factors, told, ended

    def _step_lanes(self, states: list[Any], each: Iterable[tuple[Any, ...]], size: int) -> tuple[Any, ...]:
        """Steps or begins each lane and appends its state to `states`; returns these and the other columns."""
        nothing, written = cast("Stacking", self._stacking).nothing, self._written
        if written is None:
            written = frozenset(name for model in self._models for name in written_functions(model))
        self._written, known = written, ()
        seen, rewards, ends = list[Any](), list[Any](), list[bool]()
        cuts, discounts, infos = [False] * size, [None] * size, [None] * size
        others = [(name, column) for name, column in (("discount", discounts), ("info", infos)) if name in written]
        has_cuts = "truncated" in written
        for model, streams, before, action, begins, context in each:
            model._state = before  # its functions may read it, although they are given it
            if not begins:
                state = model.transition(before, action, streams.dynamics)
                seen.append(model.observe(state, streams.observation))
                ends.append(True if model.terminal(state) else False)  # noqa: SIM210 (a call of `bool` takes longer)
                if has_cuts:
                    cuts[len(states)] = bool(model.truncated(state))  # here, because it may fail
                given = model._rewarder  # `or model.reward` would make a method object
                rewards.append(model.reward(before, action, state) if given is None else given(before, action, state))
                for name, column in others:
                    column[len(states)] = getattr(model, name)(state)
            else:
                state = model.initial(streams.dynamics, dict(context))
                seen.append(model.observe(state, streams.observation))
                if (functions := optional_functions(model)) != known:
                    known, self._written = functions, self._written | written_functions(model)
                rewards.append(nothing)
                ends.append(False)
                infos[len(states)] = model.info(state)
                model.step_record.halt = None
            states.append(state)
        return states, seen, rewards, ends, cuts, discounts, infos

    def _take_contexts(self) -> None:
        """Copies contexts that users have set on lent models into the lanes."""
        is_lent, self._is_lent, given = self._is_lent, False, self._given
        if is_lent and given is not None and given[0] is self._table and given[1] is self._place:
            pairs = enumerate(zip(self._models, self._table.contexts(self._place), strict=True))
            new = [index for index, (model, context) in pairs if model.given_context is not context]
            if new:
                self._set_contexts([self._models[index].given_context for index in new], new, True)

    def _give_contexts(self, table: ContextTable, place: Places) -> None:
        """Sets the models' contexts, for functions of the author that read `self.context`."""
        given = self._given
        if given is None or given[0] is not table or given[1] is not place:
            self._given = None
            for model, context in zip(self._models, table.contexts(place), strict=True):
                model._context = context
            self._given = table, place

    # A kernel.

    def _usable(self, runner: Runner) -> bool:
        """Copies all columns into the kernel's rows; returns False, and none are there, if it cannot step them."""
        plan, models, n = runner.plan, self._models, self.batch_size
        if self._begun and self.has_kernel and runner.functions.is_current(models):
            settings = [np.asarray([getattr(model, name) for model in models]) for name in plan.own.example]
            if plan.own.holds(settings, n) and self._table.records(plan.context) is not None and self._fill(runner):
                plan.own.write(runner.arrays["settings"], settings)
                runner.find_streams([model.streams for model in models], range(n))
                self._in_rows, runner.is_unchanged = True, runner.functions.is_unchanged
                return True
        self.use_states()
        return False

    def _fill(self, runner: Runner) -> bool:
        """Copies the episodes into the kernel's rows unless they are there; returns False if it cannot hold them."""
        if self._in_rows:
            return True
        columns = zip(*([leaf for _, leaf in tree.leaves(state)] for state in self.state), strict=True)
        return runner.load([np.array(values) for values in columns], self._over, self._place, self._elapsed)

    def _launch_with(self, runner: Runner, action: Any, restart: Any, hold: Any, limit: int, used: Any) -> Any:
        """Launches the kernel if some lanes pause, or if `initial` must be called in Python for lanes that begin.

        Returns the values, None if the kernel cannot compute them; and saved streams, None if the kernel saves them.
        """
        if not runner.knows(used):
            return None, None
        saved, values = None if runner.is_plain else self._states_of_streams(), None
        pausing = runner.arrays["hold"]
        pausing[:] = False if hold is None else hold
        try:
            restart = as_mask(restart, self.batch_size, "restart")
            if not runner.plan.begins and restart is not None:
                lanes = restart.nonzero()[0]
                for row, (index, place) in enumerate(zip(lanes.tolist(), used.of_lanes(lanes).tolist(), strict=True)):
                    model = self._models[index]
                    state = model.initial(model.streams.dynamics, dict(used.table.context(place)))
                    if not runner.write_fresh([leaf for _, leaf in tree.leaves(state)], row):
                        return None, None
            values = runner.launch(runner, runner.idle if action is None else action, restart, limit, used)
        finally:
            pausing[:] = False
            if values is None and saved is not None:
                saved.put_back()
        return values, saved

    # Resets.

    def _begin(self, restart: Mask, hold: Mask | None, options: Mapping[str, Any] | None) -> tuple[Any, ...]:
        if not options:
            return self.advance(None, restart, hold)
        known, coming = self._context_of(0), self._coming_under(options, restart)
        is_known = all(name in known or name == CONTEXT for name in options)
        advance = self.advance if is_known else self._advance_loop  # kernels have no other values
        return advance(None, restart, hold, 0, coming)

    def _coming_under(self, options: Mapping[str, Any], restart: Mask) -> Coming:
        """Returns the contexts of the episodes that begin in a reset with options."""
        table, place, _ = self._contexts_after(restart)
        begun = place[restart].tolist()
        rows = {one: row for row, one in enumerate(dict.fromkeys(begun or place.tolist()))}
        contexts = [of_the_episode(self.context_space, dict(table.context(one)), options) for one in rows]
        places = np.zeros(self.batch_size, np.intp)
        if len(rows) > 1:
            places[restart] = [rows[one] for one in begun]
        return Coming(ContextTable(contexts), places, places)

    def _seed(self, seed: Any, restart: Mask) -> tuple[Any, dict[int, Streams]]:
        seeds = lane_seeds(seed, self.batch_size)
        chosen = [index for index in restart.nonzero()[0].tolist() if seeds[index] is not None]
        of_batch = batch_streams(seed, self.batch_size) or self._streams
        changed = range(self.batch_size) if self.shares_streams else chosen
        before = self._streams, {index: self._models[index].streams for index in changed}
        self._streams = of_batch
        shared = self.streams if self.shares_streams else None
        self._use_streams({index: shared or Streams(seeds[index]) for index in changed})
        return before

    def _unseed(self, before: Any) -> None:
        self._streams = before[0]
        self._use_streams(before[1])

    def _use_streams(self, streams: Mapping[int, Streams]) -> None:
        """Gives some lanes other streams."""
        for index, one in streams.items():
            self._models[index].use_streams(one)
        self._streams_changed(streams)

    def _streams_changed(self, streams: Mapping[int, Streams] | None = None) -> None:
        if self._in_rows:
            own = {i: model.streams for i, model in enumerate(self._models)} if streams is None else streams
            cast("Runner", self._runner).find_streams(own, own)

    # Contexts.

    def _context_of(self, index: int) -> Mapping[str, Any]:
        self._take_contexts()
        return self._table.context(int(self._place[index]))

    def _set_contexts(self, each: Sequence[Mapping[str, Any]], lanes: Sequence[int], named: bool) -> None:
        self._take_contexts()
        space, held = self.context_space, self._table.contexts(self._place)
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
        rows, self._place = rows_of(held)
        self._table, self._own = ContextTable(rows), None

    # Compiling.

    def _make_plan(self) -> Plan:
        """Returns the plan of the kernel for these lanes."""
        from ..compiling.plan import plan_of_model  # imported here, so that `import envoi` stays fast

        plan = plan_of_model(self.lend(0))
        if self.shares_streams and not plan.begins and plan.draws & {"transition"}:
            raise NotCompilable(
                f"{plan.title}.initial: it cannot be compiled, so with streams='batch' its random numbers would come "
                "before those of the other lanes' transitions"
            )
        plan.frees_gil = self.batch_size >= MANY_LANES
        return plan

    def _start(self, plan: Plan) -> None:
        """Compiles the kernel and uses it if it agrees with Python in enough lanes for its vectorized loop."""
        self._prepare(plan)
        pair = [ModelLanes([copy.copy(self._models[0]) for _ in range(17)], False) for _ in "ab"]
        for batch in pair:
            batch.rng = np.random.default_rng(0)
        pair[1]._prepare(plan)
        try:
            check_equal(plan.title, *pair)
        except BaseException:
            self.use_states()
            self._runner = None
            raise
        self.step_record.stale()

    def _prepare(self, plan: Plan) -> None:
        """Compiles the kernel and sets it up."""
        from ..compiling.runner import Runner

        runner = Runner(plan, self.action_spec, self.batch_size)
        # The types of numbers in states depend on the functions, not on the records.
        model, rng = self._models[0], np.random.default_rng(0)
        begun = model.initial(rng, model.context)
        (action,) = splitter(model.action_spec, 1)(stack(model.action_spec, [zeros(model.action_spec)]))
        moved = model.transition(begun, action, rng)
        self._kinds = [type(leaf) for _, leaf in tree.leaves(moved)]
        self._runner = runner

    # Copies.

    def hold_episode(self) -> Callable[[], None]:
        held, shared, streams = self._held(None), self._streams, [model._streams for model in self._models]

        def take_back() -> None:
            self._return_to(held)
            pairs = enumerate(zip(self._models, streams, strict=True))
            self._use_streams({i: own for i, (model, own) in pairs if own is not None and own is not model._streams})
            self._streams = shared

        return take_back

    def hold_step(self) -> Callable[[], None]:
        """Returns a function that undoes one step; it costs less than `hold_episode`."""
        in_rows, step = self._in_rows, taking_back(self, ("_states", "_elapsed", "_observation", "_over", "_in_rows"))

        def take_back() -> None:
            if in_rows and self._in_rows:
                cast("Runner", self._runner).exchange()
            step()

        return take_back

    def _held(self, streams: Any) -> _Episodes:
        self._take_contexts()
        return _Episodes(self, (self._observation, self._over.copy(), self._table, self._place, self._begun), streams)

    def _return_to(self, held: _Episodes) -> None:
        runner = self._runner
        if self._in_rows and runner is not None and held.plan is runner.plan:
            runner.load(held.rows[:-3], *held.rows[-3:])
            self._states = self._elapsed = None
        else:
            self._states, self._elapsed, self._in_rows = held.states, held.elapsed, False
        self._observation, self._over, self._table, self._place, self._begun = held.columns
        self._own = None

    def snapshot(self) -> Snapshot:
        held = self._held(self._states_of_streams().now())
        return Snapshot(type(self), (held, StreamStates([self.streams])))

    def restore(self, snapshot: Snapshot) -> None:
        held, streams = self._content(snapshot)
        n, kind = len(held.place), self._models[0].__class__
        if (n, held.kind) != (self.batch_size, kind):
            raise SnapshotUnsupported(
                f"restore: expected a snapshot of {self.batch_size} lanes of {kind.__name__}, got one of {n} of "
                f"{held.kind.__name__}"
            )
        self._return_to(held)
        own, states = [model.streams for model in self._models], held.streams
        if states.streams == own:
            states.put_back()
        else:
            own = states.copies()
            self._use_streams({i: own[i] for i in range(n)})
        self._streams = own[0] if self.shares_streams else streams.copies()[0]

    def __getstate__(self) -> dict[str, Any]:
        # Without the kernel, which is not pickled but compiled or loaded again.
        self._take_contexts()
        self.use_states()
        return {**super().__getstate__(), "choice": Choice(self.choice.wanted)}


class _Episodes:
    """The saved columns of all lanes. States that were rows of a kernel are only rebuilt when read."""

    def __init__(self, lanes: Any, columns: tuple[Any, ...], streams: StreamStates | None) -> None:
        self.columns, self.streams, self.place, self.kind = columns, streams, columns[3], lanes.members[0].__class__
        in_rows, runner = lanes._in_rows, lanes._runner
        self.plan, self.kinds = (runner.plan, lanes._kinds) if in_rows else (None, ())
        self.rows: Any = [row.copy() for row in runner.before] if in_rows else ()
        self._states, self._elapsed = (None, None) if in_rows else (lanes._states, lanes._elapsed)

    @property
    def states(self) -> Any:
        """The state of each lane; None before the first reset."""
        if self._states is None and self.plan is not None:
            layout = self.plan.states
            self._states = tuple(rebuilt(layout.example, self.kinds, [row.copy() for row in self.rows[:-3]]))
        return self._states

    @property
    def elapsed(self) -> Any:
        """The steps of each lane's episode."""
        return self.rows[-1].copy() if self._elapsed is None else self._elapsed

    def __getstate__(self) -> dict[str, Any]:
        states, elapsed = self.states, self.elapsed
        return {**vars(self), "plan": None, "kinds": (), "rows": (), "_states": states, "_elapsed": elapsed}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Episodes:
        return self  # never changed


def rebuilt(example: Any, kinds: Sequence[Any], leaves: Sequence[Any]) -> Iterator[Any]:
    """Yields each lane's state, structured like `example`, with numbers of the given types."""
    columns = [
        column.tolist() if kind in (float, int, bool) else column if kind is np.ndarray else map(kind, column)
        for kind, column in zip(kinds, leaves, strict=True)
    ]
    if not isinstance(example, tuple):
        return iter(columns[0])
    made = zip(*columns)  # noqa: B905 (of the lanes, and it takes its time)
    kind: Any = cast("Any", example).__class__
    return map(cast("Any", tuple).__new__, repeat(kind), made) if hasattr(kind, "_fields") else made


class CompiledModel(ModelLane):
    """A compiled model: each step is one kernel call and returns the same values as the original.

    It exposes the model's functions, state, context and rewarder.

    Args:
        model: The scalar model.
        compiled: True to compile before the first step; `"auto"` to compile once it is worthwhile.

    Attributes:
        lanes: A batch of one lane.

    Raises:
        NotCompilable: `compiled` is True, and the model cannot be compiled.
    """

    def __init__(self, model: Model, compiled: Compiled = True) -> None:
        super().__init__(ModelLanes([model], compiled), 0)


def compiled(model: Env, compiled: Compiled = True) -> Env:
    """Compiles a model, so that each step runs in a kernel and returns the same values. See also `batch`.

    Args:
        model: A scalar `Model`, with or without wrappers. It is copied, not changed.
        compiled: True to compile now; `"auto"` to compile if possible, once it is worthwhile.

    Returns:
        A `CompiledModel`, or the same wrappers around one.

    Raises:
        NotCompilable: `model` is not a scalar `Model` or cannot be compiled, or numba is not installed.
    """
    check_compiled(compiled)
    wrappers: list[Wrapper] = []
    while isinstance(model, Wrapper):
        wrappers.append(model)
        model = model.env
    if not isinstance(model, Model) or isinstance(model, BatchModel) or not are_models([model]):
        raise NotCompilable(f"compiled: {why_interpreted(model)}")
    result: Env = CompiledModel(copy.deepcopy(model), compiled)
    for wrapper in reversed(wrappers):
        result = wrapper.over(result)
        result.made_by = wrapper.made_by
    return result
