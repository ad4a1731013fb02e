"""The attributes by which users see, choose and fix the contexts of an environment; names are those of CARL."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

from ...context.binding import Binding
from ...context.selectors import Selector
from ...errors import ContextError
from ...wrapping.lifted import Lifted
from .in_force import InForce
from .schedule import Chosen, Schedule
from .shown_context import View


class ContextAttributes(Lifted):
    """An environment with contexts, as its users see it; see `Contextual`."""

    _binding: Binding
    _schedule: Schedule
    _view: View
    _lanes: int | None
    _in_force: InForce

    # Of coming episodes.

    def select_next(self) -> tuple[Hashable, dict[str, Any]]:
        """Chooses the context of the next episode now; the selector moves on.

        Returns:
            Its id and the full context, before noise.
        """
        key, context = self._schedule.select_next(self.env)
        return key, dict(context)

    def peek(self) -> tuple[Hashable, dict[str, Any]]:
        """Returns the id and the context (before noise) of the next episode, or of the next lane that begins.

        The selector stays where it is.
        """
        key, context = self._schedule.peek(self.env)
        return key, dict(context)

    def set(self, context: Hashable | Mapping[str, Any] | Sequence[Any] | None) -> None:
        """Fixes the context of all coming episodes; the selector stays where it is.

        Args:
            context: An id, or `{feature: value}`, with the default for what it leaves out and the id None; in a batch
                also a list of one per lane. None lets the selector choose again.

        Raises:
            ContextError: There is no such context.
        """
        self._schedule.fixed = None if context is None else cast("Any", self._found_for_each(context, "set"))

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        fixed: list[Chosen | None] = list(self._schedule.fixed or [None] * (self._lanes or 1))
        for index, lane in enumerate(lanes):
            before, new = fixed[lane], {name: column[index] for name, column in context.items()}
            full = new if before is None else {**before[1], **new}
            fixed[lane] = self._checked([self._schedule.found(full, "put_context")], "put_context")[0]
        self._schedule.fixed = fixed

    def _found_for_each(self, context: Any, what: str) -> list[Chosen]:
        return self._checked(self._schedule.found_for_each(context, self._lanes or 1, what), what)

    def _checked(self, chosen: list[Chosen], what: str) -> list[Chosen]:
        """Checks that the observation spec holds under contexts that are not in the set."""
        given = [context for key, context in chosen if key is None]
        for context in given[:1] if all(context is given[0] for context in given) else given:
            self._view.check(context, what)
            if not self._binding.sets_features:
                continue
            reachable = self._schedule.reachable()
            under = self.env.spec_under([*reachable, context])
            if under != self.env.spec_under(reachable):
                raise ContextError(
                    f"{what}: under {context} an observation could lie outside of its spec; let the set of contexts "
                    "(Contextual(env, contexts=…)) reach as far"
                )
        return chosen

    # The set, and how it is used.

    @property
    def contexts(self) -> dict[Any, dict[str, Any]]:
        """The full contexts by id.

        Raises:
            ContextError: On setting them, because specs, snapshots and batches follow from the set.
        """
        return self._schedule.contexts

    @contexts.setter
    def contexts(self, contexts: Any) -> None:
        raise ContextError(
            "contexts: the set of a Contextual stays as it is; make a new one, Contextual(env.env, contexts), or fix "
            "the context of coming episodes by env.set(context)"
        )

    @property
    def default_context(self) -> dict[str, Any] | None:
        """The full default context, or None where there are no defaults."""
        return self._schedule.default_context

    @property
    def context_selector(self) -> Selector:
        """The selector; settable."""
        return self._schedule.selector

    @context_selector.setter
    def context_selector(self, selector: Selector) -> None:
        self._schedule.selector = selector

    @property
    def state_context_features(self) -> list[str]:
        """The names of the features that the agent sees, in order; none where the context is hidden."""
        return list(self._view.visible.names)

    @property
    def obs_context_features(self) -> list[str]:
        """Newer CARL's name of `state_context_features`."""
        return self.state_context_features

    def fill_context_with_default(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a context with the default values of the features that it leaves out; `context` itself stays.

        Args:
            context: Values of some features.

        Returns:
            A new dict, in the order of the features.

        Raises:
            ContextError: There is no such feature, or a feature cannot have its value.
        """
        return self._schedule.with_defaults(context)

    # In force.

    @property
    def context(self) -> Any:
        """The full context in force, with its noise; in a batch a tuple of one per lane. Setting it is `set`."""
        contexts = self._in_force.in_lanes()
        return tuple(map(dict, contexts)) if self._lanes is not None else dict(contexts[0])

    @context.setter
    def context(self, context: Any) -> None:
        self.set(context)

    @property
    def context_id(self) -> Any:
        """The id of the context in force; in a batch a tuple of one per lane."""
        ids = self._in_force.ids
        return tuple(ids.tolist()) if self._lanes is not None else ids[0]

    @property
    def context_key(self) -> Any:
        """CARL's name of `context_id`."""
        return self.context_id
