"""The base of importers of several agents: `imported`, with specs, observations and rewards by agent.

| hook | purpose |
|---|---|
| `_agents` | the possible agents of the source |
| `_space`, `_spec` | the space of an agent, and the same as a spec |
| `_layers` | the layers of the source, whose attributes snapshots contain |
| `_source_seed` | the seed for the source's reset |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from envoi import EpisodeError, MultiEnv, SpecError, Streams
from envoi.protocol.episode import NOT_BEGUN
from envoi.protocol.roster import HasRoster, Roster
from envoi.rewards.native_reward import reward_step
from envoi.seeding import check_seed
from envoi.spec import SpecTree

from .arrival import Copy, incoming
from .copying import fresh
from .core_holder import MultiCoreHolder
from .imported import Imported


class ImportedMulti(HasRoster, Imported, MultiEnv):
    """Base of importers of several agents.

    Args:
        source: The framework's environment, possibly wrapped.
        copy: `True` to copy all observations, `False` to copy none, `"auto"` to copy those that the source still holds.

    Attributes:
        source: The framework's environment.
    """

    _memory = ("_roster", "_saw")
    _planned = ("_takes",)

    _form_inside: Any  # a `MultiCoreHolder`, or None

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        self._roster = Roster(())
        self._saw: dict[Any, Any] = {}
        super().__init__(source, copy)

    def _find_form(self) -> None:
        native = self.unwrapped
        self._form_inside = native if isinstance(native, MultiCoreHolder) else None

    @property
    def core_inside(self) -> MultiEnv | None:
        """The core environment of `form_inside`, as one of several agents; None where there is none."""
        form = self._form_inside
        return None if form is None else form.multi

    @abstractmethod
    def _agents(self) -> tuple[Any, ...]:
        """Returns the possible agents of the source."""

    @abstractmethod
    def _space(self, what: str, agent: Any) -> Any:
        """Returns the source's `"observation"` or `"action"` space of a possible agent."""

    @abstractmethod
    def _spec(self, what: str, agent: Any) -> SpecTree:
        """Returns the same as a spec."""

    @abstractmethod
    def _layers(self) -> list[Any]:
        """Returns the layers of the source, outermost first."""

    def native_space(self, what: str, agent: Any = None) -> Any:
        """Returns the source's space of an agent, or None for an unknown agent.

        Args:
            what: `"observation"` or `"action"`.
            agent: The agent.
        """
        return self._space(what, agent) if agent in self.possible_agents else None

    def _describe(self) -> None:
        source = self.source
        agents = self.possible_agents = self._agents()
        self._roster = Roster(agents)
        self.observation_spec = {agent: self._spec("observation", agent) for agent in agents}
        self.action_spec = {agent: self._spec("action", agent) for agent in agents}
        # Made here once; the class would make new ones at each look.
        self.reward_spec, self.discount_spec = self.reward_spec, self.discount_spec
        self.metadata = deepcopy(dict(getattr(source, "metadata", None) or {}))
        self.render_mode = getattr(source, "render_mode", None)

    def _plan(self) -> None:
        self._takes = {agent: incoming(spec, self._copy) for agent, spec in self.observation_spec.items()}

    def _parts(self) -> list[Any]:
        each = [self._space(what, agent) for agent in self.possible_agents for what in ("observation", "action")]
        return [*self._layers(), *{id(space): space for space in each}.values()]

    def _check_begun(self, what: str) -> None:
        if self._roster.phase is NOT_BEGUN:
            raise EpisodeError(f"{what}: {NOT_BEGUN}")

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> Any:
        """Resets the source, and returns its result; the roster is then one before an episode."""
        seed = check_seed(seed)
        if seed is not None:
            self._streams = Streams(seed)
        seed = self._source_seed(seed)
        result = self.source.reset(seed=seed, options=None if options is None else fresh(options))
        self._roster, self._saw = Roster(self.possible_agents), {}
        return result

    def _source_seed(self, seed: int | None) -> int | None:
        """Returns the seed for the source's reset, given that of the core's."""
        return seed

    @property
    def _seen(self) -> dict[Any, Any]:
        """The latest observation of each agent that has been in play."""
        return self._saw

    def observation(self, agent: Any) -> Any:
        seen = self._seen
        if agent not in seen:
            raise self._roster.unseen(agent)
        return seen[agent]

    def _source_state(self) -> Any:
        return dict(self._seen)

    def _rewarded(self, rewards: dict[Any, Any], before: Any, actions: Mapping[Any, Any]) -> dict[Any, Any]:
        """Returns rewards by the rewarder that is set, 0 for an agent that it leaves out; without one the source's.

        Args:
            rewards: The source's, by agent.
            before: The state before the step.
            actions: By agent.

        Raises:
            SpecError: The rewarder returns no mapping.
        """
        if self._rewarder is None:
            return rewards
        given = reward_step(self._rewarder, rewards, before, actions, self.state)
        if not isinstance(given, Mapping):
            raise SpecError(f"rewarder: expected a mapping from agents, got {given!r}")
        return {agent: given.get(agent, 0.0) for agent in rewards}
