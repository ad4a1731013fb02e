"""Models of several agents with a leading lane axis, and their batches, in which one call steps all lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.multi_model import MultiModel
from ..errors import EpisodeError, SpecError
from ..lane_values import put, take
from ..protocol.batch_env import Mask, as_mask
from ..protocol.env import ENDED_LANES, NOT_RESET
from ..protocol.multi_env import COMMON, MASK
from ..protocol.process import Info
from ..protocol.roster import Roster
from ..seeding import Streams
from ..spec import zeros
from ..structural_equality import structure
from ..tree import AnyArray, map_leaves


class MultiBatchModel(MultiModel):
    """A model of several agents whose functions also take a leading lane axis, so that one call steps many lanes.

    States are arrays, or dicts, lists, tuples or named tuples of arrays; in a batch of n lanes all of them are of shape
    (n, …). Functions index from the end (`state[..., 0]`), and so accept a single state as well. All agents act in each
    step, and the episode of a lane ends for all of them at once: `terminal` and `truncated` return a flag, or an array
    of shape (n,). Rewards, masks and the entries of infos are of shape (n, …) in a batch.

    A class that derives from such a model and overrides one of its functions names `MultiBatchModel` among its own
    bases too, to say that its functions take the lane axis; otherwise its lanes are stepped one by one.
    """

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int | None = None) -> Any:
        """Returns the state in which an episode begins, or those of `size` lanes.

        Args:
            rng: The dynamics stream.
            context: The values of this episode, see `Model.initial`; for lanes an array of shape (size,) per feature.
            size: The number of lanes; None for a single state without the lane axis.
        """
        raise NotImplementedError

    def _enter(self, state: Any, is_over: bool, seen: Mapping[Any, Any]) -> None:
        """Shows a state that a batch has reached, as if the model itself had."""
        begun = Roster(self.possible_agents).begin(self.possible_agents)
        self._state, self._seen = state, dict(seen)
        self._roster = begun.abandoned() if is_over else begun


class MultiLanesStep(NamedTuple):
    """The result of a step of n lanes.

    Attributes:
        observations: The observations of each agent, with leaves of shape (n, …).
        rewards: The rewards of each agent, of shape (n,).
        terminated: The lanes whose episode reached an end state, of shape (n,).
        truncated: The lanes whose episode was cut off, of shape (n,).
        infos: The infos by agent of each lane; None if no lane has any.
    """

    observations: dict[Any, Any]
    rewards: dict[Any, NDArray[Any]]
    terminated: Mask
    truncated: Mask
    infos: list[dict[Any, Info]] | None


class MultiModelBatch:
    """n lanes of a `MultiBatchModel`, stepped by one call of its functions. All lanes share one set of random streams.

    Args:
        models: The model of each lane, all equal but for their contexts, which each episode reads when it begins. The
            functions are those of the first.

    Attributes:
        models: The model of each lane.
        streams: The random streams; at first those of the first model.

    Raises:
        SpecError: The models are not of one class, or agents join, wait, or have discounts of their own.
    """

    def __init__(self, models: Sequence[MultiBatchModel]) -> None:
        if reason := why_not_together(models):
            raise SpecError(f"models: {reason}")
        self.models = list(models)
        self.streams = models[0].streams
        self._n = len(models)
        self._idle = {agent: zeros(spec) for agent, spec in models[0].action_spec.items()}
        self._state: Any = None
        self._seen: dict[Any, Any] = {}
        self._over = np.ones(self._n, bool)

    @property
    def over(self) -> Mask:
        """The lanes whose episode is over or has not begun, of shape (n,); a copy."""
        return self._over.copy()

    def reset(self, *, seed: int | None = None) -> tuple[dict[Any, Any], list[dict[Any, Info]] | None]:
        """Begins an episode in all lanes.

        Args:
            seed: Seeds all random streams; None continues them.

        Returns:
            The observations of each agent, with leaves of shape (n, …), and the infos by agent of each lane, or None.
        """
        self._check_rewards()
        if seed is not None:
            self.streams = Streams(seed)
        state = self._initial(range(self._n))
        seen = self._observed(state)
        infos = self._infos(state)
        self._state, self._seen, self._over = state, seen, np.zeros(self._n, bool)
        return seen, infos

    def step(self, actions: Mapping[Any, Any], restart: Mask | None = None) -> MultiLanesStep:
        """Acts once in each lane; lanes in `restart` begin an episode instead, with rewards of 0.

        Args:
            actions: The actions of each agent, with leaves of shape (n, …); those of lanes in `restart` do not count.
            restart: A mask of shape (n,), or None for no lane.

        Raises:
            EpisodeError: There was no reset yet, or the episode of another lane is over.
        """
        self._check_rewards()
        restart = as_mask(restart, self._n, "restart")
        over = self._over if restart is None else self._over & ~restart
        if self._state is None:
            raise EpisodeError(f"step: {NOT_RESET}")
        if over.any():
            raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        index = np.zeros(0, np.intp) if restart is None else np.flatnonzero(restart)
        if len(index):
            # The dynamics also run in lanes that restart, with a valid action; the result is discarded.
            with_idle = partial(_with, index=index)
            actions = {agent: map_leaves(with_idle, actions[agent], self._idle[agent]) for agent in actions}
        model, before = self.models[0], self._state
        state = model.transition(before, actions, self.streams.dynamics)
        rewards = model.reward(before, actions, state)
        if len(index):
            state = put(state, index, self._initial(index.tolist()))
        columns = {agent: self._lanes(rewards.get(agent, 0.0)) for agent in model.possible_agents}
        terminated = self._lanes(model.terminal(state)).astype(bool)
        truncated = self._lanes(model.truncated(state)).astype(bool)
        for column in (*columns.values(), terminated, truncated):
            column[index] = 0
        seen, infos = self._observed(state), self._infos(state)
        # Only now, so that an error in a function of the author leaves the episodes where they were.
        self._state, self._seen, self._over = state, seen, terminated | truncated
        return MultiLanesStep(seen, columns, terminated, truncated, infos)

    def failing_lane(self, actions: Mapping[Any, Any] | None, restart: Mask | None = None) -> int | None:
        """Returns the first lane that also fails when it steps alone; None if no lane does.

        Random numbers of a lane alone differ from those in the batch, so a failure by chance may not be found.

        Args:
            actions: The actions of the step that failed; None if a reset failed.
            restart: As for `step`.
        """
        for lane, model in enumerate(self.models):
            alone, own = MultiModelBatch([model]), slice(lane, lane + 1)
            alone.streams = self.streams.copy()
            try:
                if actions is None:
                    alone.reset()
                    continue
                alone._state, alone._over = take(self._state, own), self._over[own].copy()
                alone.step(
                    {agent: take(values, own) for agent, values in actions.items()},
                    None if restart is None else restart[own],
                )
            except Exception:
                return lane
        return None

    def show(self, lane: int) -> dict[Any, Any]:
        """Gives a lane's model the state and observations of its lane, for readers of the model.

        Returns:
            The latest observation of each agent in the lane.
        """
        seen = {agent: take(values, lane) for agent, values in self._seen.items()}
        model = self.models[lane]
        model._enter(take(self._state, lane), bool(self._over[lane]), seen)  # pyright: ignore[reportPrivateUsage]
        return seen

    def content(self) -> Any:
        """Returns the episodes and random streams of all lanes, for `put_back`."""
        return self._state, self._seen, self._over.copy(), self.streams.copy()

    def put_back(self, content: Any) -> None:
        """Restores what `content` returned.

        Args:
            content: The result of `content`.
        """
        self._state, self._seen, over, streams = content
        self._over, self.streams = over.copy(), streams.copy()

    def _initial(self, lanes: Sequence[int]) -> Any:
        """Returns initial states of some lanes, each with the context of its model."""
        contexts = [self.models[lane].context for lane in lanes]
        columns = {name: np.array([context[name] for context in contexts]) for name in contexts[0]}
        return self.models[0].initial(self.streams.dynamics, columns, len(contexts))

    def _observed(self, state: Any) -> dict[Any, Any]:
        model, rng = self.models[0], self.streams.observation
        return {agent: model.observe(state, agent, rng) for agent in model.possible_agents}

    def _infos(self, state: Any) -> list[dict[Any, Info]] | None:
        model, agents = self.models[0], self.models[0].possible_agents
        columns = {key: dict(info) for key, info in model.info(state).items()}
        for agent in agents:
            if (mask := model.mask(state, agent)) is not None:
                columns[agent] = {**columns.get(agent, {}), MASK: mask}
        if not columns:
            return None
        keys = [*agents, *([COMMON] if COMMON in columns else [])]
        return [
            {key: {name: take(values, lane) for name, values in columns.get(key, {}).items()} for key in keys}
            for lane in range(self._n)
        ]

    def _lanes(self, values: Any) -> NDArray[Any]:
        """Returns a new array with a value for each lane."""
        return values.copy() if isinstance(values, AnyArray) and values.shape else np.full(self._n, values)

    def _check_rewards(self) -> None:
        if not all(model.is_unchanged for model in self.models):
            raise SpecError(
                "rewarder: expected the model's own rewards, as lanes that step together share them; step "
                "the models one by one instead (under RLlib, register the environment with vectorize=False)"
            )


def why_not_together(models: Sequence[Any]) -> str | None:
    """Returns why models cannot be the lanes of a `MultiModelBatch`; None if they can.

    Args:
        models: The environments of the lanes.
    """
    first = models[0]
    if not isinstance(first, MultiBatchModel):
        return f"expected a MultiBatchModel in each lane, got {first!r}"
    if any(type(model) is not type(first) or _settings(model) != _settings(first) for model in models):
        return f"expected equal models in all lanes, got {first!r} beside others"
    own = [name for name in _NOT_TOGETHER if getattr(type(first), name) is not getattr(MultiModel, name)]
    if own:
        return f"expected all agents to act together from the beginning to the end, got {own[0]!r} of {first!r}"
    for cls in type(first).__mro__[: type(first).__mro__.index(MultiBatchModel)]:
        single = [name for name in _WITH_LANES if name in vars(cls)]
        if single and MultiBatchModel not in cls.__bases__:
            return (
                f"expected functions that take a lane axis, got {single[0]!r} of {cls.__name__}; if it does, add "
                f"MultiBatchModel to the bases of {cls.__name__}"
            )
    if not all(model.is_unchanged for model in models):
        return "expected the model's own rewards, got a rewarder"
    return None


_NOT_TOGETHER = ("turn", "live", "discount", "reset", "step", "step_values")
"""Functions that make agents differ in when they act, join or end, or a step of the author's own."""

_WITH_LANES = ("initial", "transition", "observe", "reward", "terminal", "truncated", "mask", "info")
"""Functions that a batch calls with a lane axis."""

_OWN = frozenset({"_state", "_roster", "_seen", "_context", "_streams", "made_by"})
"""Attributes in which equal models may differ: those of an episode, and the context."""


def _settings(model: MultiBatchModel) -> Any:
    return structure({name: value for name, value in vars(model).items() if name not in _OWN})


def _with(values: Any, idle: Any, index: NDArray[np.intp]) -> NDArray[Any]:
    """Returns an array with another value at some indices."""
    result = np.array(values)
    result[index] = idle
    return result
