"""Episodes of contexts: each reset chooses some and puts them in force; one that is refused takes that back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...batching.model_batch import batch_streams
from ...errors import ContextError
from ...protocol.batch_env import as_mask
from ...protocol.process import Snapshot
from ...protocol.reset_options import CONTEXT, CONTEXT_ID, refuse_misspelt
from ...seeding import Streams
from ...wrapping.refusable import Refusable
from .attributes import ContextAttributes
from .schedule import Chosen, Mark
from .shown_context import entries


class ContextualEpisodes(ContextAttributes):
    """An environment with contexts, as its resets and steps choose them; see `Contextual`."""

    memory = ("_in_force", "_bound", "_episodes", "_total")

    _bound: list[Mapping[str, Any]] | None = None  # the contexts that were put in force last, by a binding of one lane
    _log: Any
    _episodes: int
    _total: int
    _shown_in_infos: Mapping[str, Any]

    # Resets.

    def reset(self, **arguments: Any) -> Any:
        mask, options, seed = arguments.get("mask"), arguments.get("options"), arguments.get("seed")
        if self._lanes is not None:
            mask = as_mask(mask, self._lanes, "mask")
        wish, values = None, None
        if options:
            options = dict(options)
            wish, values = self._take_wishes(options)
        if "options" in arguments:
            arguments["options"] = options or None
        lanes = range(self._lanes or 1) if mask is None else np.flatnonzero(mask).tolist()
        with self._begin_episodes(lanes, wish, values, seed):
            if seed is None and self._binding.replaces:
                arguments["seed"] = self._seed_of_replaced()
            return super().reset(**arguments)

    def beginning(self, restart: NDArray[np.bool_]) -> Refusable:
        lanes = restart.nonzero()[0].tolist()
        return self._begin_episodes(lanes, in_step=True)

    def _begin_episodes(
        self,
        lanes: Sequence[int],
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
                for lane in lanes:
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

    def _follow(self, seed: Any, lanes: Sequence[int]) -> None:
        """Lets choices follow from the seed of a reset of these lanes; the selector begins if they are all."""
        streams = Streams(seed) if self._lanes is None else batch_streams(seed, self._lanes)
        if streams is not None:
            self._schedule.rng = streams.context
            if len(lanes) == (self._lanes or 1):
                self._schedule.begin()  # a seed fixes which contexts are chosen

    def _choose(
        self, lanes: Sequence[int], wish: Sequence[Chosen] | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        """Chooses contexts for lanes that are about to begin, and puts them in force.

        Args:
            lanes: The indices of the lanes.
            wish: The contexts of all n lanes, for these episodes alone.
            values: Values by feature, over those of the contexts that are chosen.
        """
        schedule = self._schedule
        if not lanes:
            return
        if self._log is not None:
            memory = getattr(self, "_memory", getattr(self, "_common", None))  # the number of steps
            self._total += 0 if memory is None else int(np.atleast_1d(memory)[np.asarray(lanes, np.intp)].sum())
        selecting = wish is None and schedule.fixed is None
        chosen = schedule.choose(schedule.generator(self.env), lanes, self._lanes or 1, wish)
        if values:
            changed = [schedule.changed(one, values) for one in chosen]
            self._checked([new for new, old in zip(changed, chosen, strict=True) if new is not old], "options")
            chosen = changed
        of_the_set = selecting and not (values or schedule.noise.names or schedule.is_sampled)
        self._put(chosen, lanes, of_the_set, bool(values) or not selecting)

    # Contexts in force.

    def _refusable(self, lanes: Sequence[int]) -> Refusable:
        """Returns the context of what may change the contexts of lanes, and may be refused."""
        binding = self._binding
        held = self._in_force, self._bound, self._episodes, self._total
        mark, replaced = self._schedule.mark(binding.replaces), binding.held(self._env_inside)
        return Refusable(self._settle, self._take_back, (lanes, held, mark, replaced))

    def _take_back(self, lanes: Sequence[int], held: tuple[Any, ...], mark: Mark, replaced: Any) -> None:
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
            env, contexts = self._env_inside, self._in_force.contexts
            self._use(self._binding.put_back(env, replaced, contexts, None if self._lanes is None else lanes))
            self._show()

    def _settle(self, lanes: Sequence[int], held: tuple[Any, ...], mark: Mark, replaced: Any) -> None:
        """Completes a reset or step that was not refused; the arguments are those of `_take_back`."""
        if replaced is not None:
            self._binding.release(self._env_inside, replaced)
        if self._log is not None:
            for lane in lanes:
                self._log(self._episodes, self._total, dict(self._in_force.contexts[lane]))
                self._episodes += 1

    def _put(self, chosen: Sequence[Chosen], lanes: Sequence[int], of_the_set: bool, by_values: bool) -> None:
        """Puts contexts in force.

        Args:
            chosen: A context for each of these lanes.
            lanes: The indices of the lanes.
            of_the_set: True if the contexts are of the set.
            by_values: True if some may have been given by their values.
        """
        before = self._in_force
        self._in_force = now = before.with_chosen(chosen, lanes, self._view, of_the_set, by_values)
        if self._lanes is None or not self._binding.sets_features:
            self._bind(now.contexts, lanes)
        elif of_the_set and before.all_of_the_set:
            # New contexts differ from those before only in the features that differ over the set.
            self._env_inside.put_context(self._schedule.columns_of(chosen), lanes)
        else:
            self._binding.apply(self.env, now.contexts, lanes)
        self._show()

    def _bind(self, contexts: list[Any], lanes: Sequence[int]) -> None:
        """Puts contexts in force by way of the binding, unless they are.

        Args:
            contexts: Of all lanes.
            lanes: The indices of those that begin.
        """
        binding, before = self._binding, self._bound
        if before is not None and not binding.reapplies:
            # Other code may have given the environment another context meanwhile.
            is_one = self._lanes is None and binding.sets_features
            in_force = not is_one or self._env_inside.context == before[0]
            lanes = [lane for lane in lanes if contexts[lane] != before[lane]] if in_force else lanes
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
        self._shown_in_infos = entries(now.ids, now.contexts, now.unnamed, lanes)
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
                self._bind(self._in_force.contexts, lanes)
            super().restore(Snapshot(self._kind, content))
            self._schedule.restore(schedule)
            self._show()
