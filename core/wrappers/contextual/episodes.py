"""Episodes of contexts: each reset chooses some and puts them in force; one that is refused takes that back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ...batching.lane_contexts import LaneContexts
from ...context.set_columns import Places
from ...errors import ContextError
from ...protocol.batch_env import as_mask
from ...protocol.process import Snapshot
from ...protocol.reset_options import CONTEXT, CONTEXT_ID, refuse_misspelt
from ...seeding import Streams, batch_streams
from ...wrapping.delegate import Around
from ...wrapping.refusable import Refusable
from .attributes import ContextAttributes
from .schedule import Chosen, Mark
from .shown_context import entries

Indices: TypeAlias = Sequence[int] | NDArray[np.intp]
"""The indices of some lanes, in order."""


class ContextualEpisodes(ContextAttributes):
    """An environment with contexts, as its resets and steps choose them; see `Contextual`."""

    memory = ("_in_force", "_bound", "_episodes", "_total")

    _bound: Sequence[Mapping[str, Any]] | None = None  # those put in force last, by a binding of one lane
    _log: Any
    _episodes: int
    _total: int
    _shown_in_infos: Mapping[str, Any]

    # Resets.

    def reset(self, **arguments: Any) -> Any:
        options, seed = arguments.get("options"), arguments.get("seed")
        lanes: Indices = (0,)
        if self._lanes is not None:
            mask = as_mask(arguments.get("mask"), self._lanes, "mask")
            lanes = np.arange(self._lanes) if mask is None else mask.nonzero()[0]
        wish, values = None, None
        if options:
            options = dict(options)
            wish, values = self._take_wishes(options)
        if "options" in arguments:
            arguments["options"] = options or None
        with self._begin_episodes(lanes, wish, values, seed):
            if seed is None and self._binding.replaces:
                arguments["seed"] = self._seed_of_replaced()
            return super().reset(**arguments)

    def beginning(self, restart: NDArray[np.bool_]) -> Refusable:
        return self._begin_episodes(restart.nonzero()[0], in_step=True)

    def _begin_episodes(
        self,
        lanes: Indices,
        wish: Sequence[Chosen] | None = None,
        values: Mapping[str, Any] | None = None,
        seed: Any = None,
        in_step: bool = False,
    ) -> Refusable:
        """Chooses contexts for lanes that begin, and puts them in force, unless the reset or step is then refused.

        Args:
            lanes: The indices of the lanes.
            wish: As for `_choose`.
            values: As for `_choose`.
            seed: The seed of the reset, from which the choices follow.
            in_step: True if the lanes begin in a step of the others.
        """
        begun = self._refusable(lanes)
        try:
            if seed is not None:
                self._follow(seed, lanes)
            self._choose(lanes, wish, values)
            if in_step and self._binding.replaces:
                for lane in _listed(lanes):
                    self._env_inside.envs[lane].rng = np.random.default_rng(self._seed_of_replaced())
        except Exception:  # functions of the user choose contexts and put them in force
            begun.undo()
            raise
        return begun

    def _seed_of_replaced(self) -> int:
        """Returns the seed of an environment that replaces another one, so that it follows from the first seed."""
        return int(self._schedule.generator(self.env).integers(2**31))

    def _take_wishes(self, options: dict[str, Any]) -> tuple[list[Chosen] | None, dict[str, Any]]:
        """Takes contexts and features out of options.

        Returns:
            A context per lane, or None; and values by feature.
        """
        wish, known = None, self._schedule.features
        refuse_misspelt(options, known)
        for name in (CONTEXT_ID, CONTEXT):
            if name in options:
                wish = self._found_for_each(options.pop(name), f"options[{name!r}]")
        return wish, {name: options.pop(name) for name in list(options) if name in known}

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        taken = (CONTEXT, CONTEXT_ID, *self._schedule.features)
        return self.env.untaken({name: value for name, value in options.items() if name not in taken})

    def _follow(self, seed: Any, lanes: Indices) -> None:
        """Lets choices follow from the seed of a reset of these lanes; the selector begins if they are all."""
        streams = Streams(seed) if self._lanes is None else batch_streams(seed, self._lanes)
        if streams is not None:
            self._schedule.rng = streams.context
            if len(lanes) == (self._lanes or 1):
                self._schedule.begin()  # a seed fixes which contexts are chosen

    def _choose(
        self, lanes: Indices, wish: Sequence[Chosen] | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        """Chooses contexts for lanes that are about to begin, and puts them in force.

        Args:
            lanes: The indices of the lanes.
            wish: The contexts of all n lanes, for these episodes alone.
            values: Values by feature, over those of the contexts that are chosen.
        """
        schedule, n = self._schedule, self._lanes
        if not len(lanes):
            return
        if self._log is not None:
            memory = getattr(self, "_memory", getattr(self, "_common", None))  # the number of steps
            self._total += 0 if memory is None else int(np.atleast_1d(memory)[np.asarray(lanes, np.intp)].sum())
        rng = schedule.rng or schedule.generator(self.env)
        in_columns = n is not None and self._binding.sets_features and not values
        places = schedule.select_places(rng, len(lanes)) if in_columns and wish is None else None
        if places is not None:
            self._put_places(places, lanes)
            return
        lanes = _listed(lanes)
        chosen = schedule.choose(rng, lanes, n or 1, wish)
        if values:
            changed = [schedule.changed(one, values) for one in chosen]
            self._checked([new for new, old in zip(changed, chosen, strict=True) if new is not old], "options")
            chosen = changed
        places = schedule.columns.places_of(chosen) if in_columns else None
        if places is not None:
            self._put_places(places, np.asarray(lanes))
        else:
            self._put(chosen, lanes, bool(values) or wish is not None or schedule.fixed is not None)

    # Contexts in force.

    def _refusable(self, lanes: Indices) -> Refusable:
        """Returns the context of what may change the contexts of lanes, and may be refused."""
        binding = self._binding
        held = self._in_force, self._bound, self._episodes, self._total
        mark, replaced = self._schedule.mark(binding.replaces), binding.held(self._env_inside)
        return Refusable(self._settle, self._take_back, (lanes, held, mark, replaced))

    def _take_back(self, lanes: Indices, held: tuple[Any, ...], mark: Mark, replaced: Any) -> None:
        """Returns to the contexts in force and those to come of before, because a reset or step was refused.

        Args:
            lanes: The indices of the lanes whose contexts may have changed.
            held: The attributes of before.
            mark: Of the schedule before.
            replaced: What the binding held before.
        """
        tried = self._in_force
        self._in_force, self._bound, self._episodes, self._total = held
        self._schedule.go_back(mark)
        if tried is not self._in_force:
            env, contexts = self._env_inside, self._in_force.in_lanes()
            self._use(self._binding.put_back(env, replaced, contexts, None if self._lanes is None else _listed(lanes)))
            self._show()

    def _settle(self, lanes: Indices, held: tuple[Any, ...], mark: Mark, replaced: Any) -> None:
        """Completes a reset or step that was not refused; the arguments are those of `_take_back`."""
        if replaced is not None:
            self._binding.release(self._env_inside, replaced)
        if self._log is not None:
            for lane in _listed(lanes):
                self._log(self._episodes, self._total, dict(self._in_force.in_lanes()[lane]))
                self._episodes += 1

    def _put_places(self, places: Places, lanes: Indices) -> None:
        """Puts contexts of the set in force, in a batch that has features by itself.

        Args:
            places: The places in the set of a context for each of these lanes.
            lanes: The indices of the lanes.
        """
        before, columns = self._in_force, self._schedule.columns
        differ_in_few = before.columns is columns  # in the features that differ over the set
        if not differ_in_few and len(lanes) != self._lanes:
            self._put(columns.entries(columns.ids[places]), _listed(lanes), False)
            return
        self._in_force = now = before.with_places(places, lanes, columns, self._view)
        if differ_in_few:
            as_arrays = self._takes_arrays
            self._env_inside.put_context(columns.values(places, as_arrays), lanes if as_arrays else _listed(lanes))
        else:
            self._binding.apply(self.env, now.in_lanes(), _listed(lanes))
        self._show()

    @cached_property
    def _takes_arrays(self) -> bool:
        """True if the batch inside holds contexts as arrays."""
        inside: Any = self._env_inside
        passes_on = Around[Any].put_context
        while getattr(inside.__class__, "put_context", None) is passes_on:
            inside = inside.env
        return isinstance(inside, LaneContexts)

    def _put(self, chosen: Sequence[Chosen], lanes: Sequence[int], by_values: bool) -> None:
        """Puts contexts in force.

        Args:
            chosen: A context for each of these lanes.
            lanes: The indices of the lanes.
            by_values: True if some may have been given by their values.
        """
        before, view, given = self._in_force, self._view, []
        if by_values or before.unnamed:
            given = [lane for lane, one in zip(lanes, chosen, strict=True) if self._schedule.is_given(one)]
        if self._lanes is None:
            self._in_force = now = before.with_one(chosen[0], view, given)
        else:
            self._in_force = now = before.with_chosen(chosen, lanes, view, given)
        if self._lanes is None or not self._binding.sets_features:
            self._bind(now.in_lanes(), lanes)
        else:
            self._binding.apply(self.env, now.in_lanes(), lanes)
        self._show()

    def _bind(self, contexts: Sequence[Any], lanes: Sequence[int]) -> None:
        """Puts contexts in force by way of the binding, unless they are.

        Args:
            contexts: Of all lanes.
            lanes: The indices of those that begin.
        """
        binding, before = self._binding, self._bound
        if before is not None and not binding.reapplies:
            begin = [lane for lane in lanes if contexts[lane] is not before[lane] and contexts[lane] != before[lane]]
            is_one = self._lanes is None and binding.sets_features
            # Other code may have given the environment another context meanwhile.
            if begin or not is_one or self._env_inside.context == before[0]:
                lanes = begin
        if lanes:
            self._use(binding.apply(self.env, contexts, None if self._lanes is None else lanes))
            self._bound = contexts

    def _use(self, env: Any) -> None:
        """Takes an environment for the one inside."""
        if env is not self.env:
            self._env_inside = env
            self._plan()

    def _show(self) -> None:
        """Holds the part of the contexts in force that observations and infos show."""
        lanes, now = self._lanes is not None, self._in_force
        self._shown_in_infos = entries(now.ids, now.in_lanes, now.unnamed, lanes)
        self._view.hold(now.vectors if lanes else now.vectors[0])

    # Lanes, streams and snapshots.

    def assign_lane(self, number: int) -> None:
        """See `Process.assign_lane`: a selector that goes round begins there.

        Raises:
            ContextError: It is no integer of at least 0.
        """
        if isinstance(number, bool) or not isinstance(cast("object", number), (int, np.integer)) or number < 0:
            raise ContextError(f"assign_lane: expected a number of at least 0, got {number!r}")
        super().assign_lane(number)
        self.context_selector.lane = int(number)

    @property
    def rng(self) -> np.random.Generator:
        """The inner environment's generator; setting it sets it there, and the choice of contexts follows from it."""
        return self.env.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.env.rng = generator
        self._schedule.rng = None

    def snapshot(self) -> Snapshot:
        return Snapshot(self._kind, (super().snapshot().content, self._schedule.snapshot()))

    def restore(self, snapshot: Snapshot) -> None:
        content, schedule = self._content(snapshot)
        lanes = range(self._lanes or 1)
        with self._refusable(lanes):
            if self._binding.replaces:
                self._in_force, self._bound = content[1]["_in_force"], None
                self._bind(self._in_force.in_lanes(), lanes)
            super().restore(Snapshot(self._kind, content))
            self._schedule.restore(schedule)
            if self._in_force.columns is not None:
                self._in_force = self._in_force.of_the_set(self._schedule.columns)
            self._show()


def _listed(lanes: Indices) -> Sequence[int]:
    return lanes.tolist() if isinstance(lanes, np.ndarray) else lanes
