"""Models: environments written as pure functions over an explicit state.

An author writes the definition of a Markov decision process; the base class adds everything that has a state
(episodes, seeds, snapshots, the latest observation). Because the functions are pure, a planner can call them directly:
`model.transition(model.state, action, rng)` looks ahead and changes nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import EpisodeError
from ..protocol.env import Env, Reset, Step, as_step, refuse_masks
from ..protocol.process import Info, Process, Snapshot
from ..protocol.reset_options import of_the_episode
from ..rewards.rewarder import ModelReward, Rewarder
from ..seeding import Streams
from ..steps.flat import flat_step
from ..steps.program import Program, Stage
from ..steps.record import NOT_BEGUN, OVER, Record

if TYPE_CHECKING:
    from ..context import ContextSpace

UNSET: Any = None
"""The value of a model's state before the first reset."""

_OPTIONAL = ("truncated", "discount", "info")
"""The optional functions. A step omits the ones that the author did not write."""

_functions = attrgetter(*(f"{name}.__func__" for name in _OPTIONAL))


class AnyModel(Process):
    """Base class of `Model` and `MultiModel`: contexts, rendering, and the model's own rewards."""

    context_space: ContextSpace | None = None

    _context: Mapping[str, Any] = {}
    _written_step: Any = None  # the step by the program of its stages; None before the first one

    def draw(self, state: Any) -> Any:
        """Returns an image of `state`: uint8 of shape (height, width, 3). Define it to make the model renderable."""
        raise NotImplementedError

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "draw" in cls.__dict__ and cls.render_mode is None:
            cls.render_mode = "rgb_array"
            cls.metadata = {**cls.metadata, "render_modes": ["rgb_array"]}

    def render(self) -> Any:
        return self.draw(self.state) if self.render_mode == "rgb_array" else None

    def _native_rewarder(self) -> Rewarder:
        return ModelReward(self)

    @property
    def context(self) -> dict[str, Any]:
        """The context of coming episodes, with defaults filled in. Setting it validates it with `context_space`.

        Raises:
            ContextError: The new context has an unknown feature, or a value that its feature does not allow.
        """
        return {**(self.context_space.defaults if self.context_space else {}), **self._context}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        if self.context_space is not None:
            self.context_space.verify(context)
        self._context = dict(context)

    @property
    def given_context(self) -> Mapping[str, Any]:
        """The features that were set explicitly, without defaults."""
        return self._context

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        if not isinstance(state, dict):  # a tuple, if the class has slots
            return state
        # Copies do not contain the step function, which refers to this model.
        return {k: v for k, v in cast("dict[str, Any]", state).items() if not k.startswith("_written_")} or None


class Model(AnyModel, Env):
    """An environment defined by pure functions. Subclass it, set the specs, and write the functions.

        class Corridor(envoi.Model):
            observation_spec = envoi.Array((1,), "float32", 0, 10)
            action_spec = envoi.Discrete(2)

    Define `initial`, `transition`, `observe`, `reward` and `terminal`. `truncated`, `discount`, `info`, `draw` and
    `context_space` are optional.

    A state is any value, and is never modified: `transition` returns a new one. All randomness comes from the `rng`
    that a function receives.

    Attributes:
        context_space: The features of this model's contexts, with defaults and bounds, or None without contexts.
    """

    _state: Any = UNSET
    _observation: Any = None
    _of_episode = ("_state", "_observation", "_halt", "_streams")
    _written_without: tuple[Any, ...] | None = None  # the optional functions that written steps rely on

    @abstractmethod
    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> Any:
        """Returns the initial state of an episode.

        Args:
            rng: The dynamics stream.
            context: The values of this episode: the defaults of `context_space`, overridden by `env.context`,
                overridden by the `options` of `reset`. Store values that the dynamics need in the state. If the model
                has a `context_space`, `options={"context": {…}}` replaces `env.context`, and an option whose name is a
                likely misspelling of a feature raises a `ContextError`.
        """
        raise NotImplementedError

    @abstractmethod
    def transition(self, state: Any, action: Any, rng: np.random.Generator) -> Any:
        """Returns the next state.

        Args:
            state: The current state.
            action: A value of `action_spec`.
            rng: The dynamics stream.
        """
        raise NotImplementedError

    @abstractmethod
    def observe(self, state: Any, rng: np.random.Generator) -> Any:
        """Returns the observation of a state, a value of `observation_spec`.

        Args:
            state: The state.
            rng: The observation stream, which is separate from the dynamics stream.
        """
        raise NotImplementedError

    @abstractmethod
    def reward(self, state: Any, action: Any, next_state: Any) -> Any:
        """Returns the reward of a transition. It is not called while another rewarder is set.

        Args:
            state: The state before the action.
            action: The action.
            next_state: The state after it.
        """
        raise NotImplementedError

    @abstractmethod
    def terminal(self, state: Any) -> Any:
        """Returns True if `state` is terminal."""
        raise NotImplementedError

    def truncated(self, state: Any) -> Any:
        """Returns True if the episode is truncated at `state`."""
        return False

    def discount(self, state: Any) -> Any:
        """Returns the discount of rewards after `state`, or None for the default (0 after termination, otherwise 1)."""
        return None

    def info(self, state: Any) -> Info:
        """Returns the info dict of `state`. Make a new dict each time."""
        return {}

    # The rest runs the episode; authors do not override it.

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        context = of_the_episode(self.context_space, self.context, options) if options else self.context
        streams = self.streams if seed is None else Streams(seed)
        state = self.initial(streams.dynamics, context)
        observation = self.observe(state, streams.observation)
        if self._written_without is not None and self._written_without != (functions := optional_functions(self)):
            self._written_without = functions
            self.step_record.stale()
        result = Reset(observation, self.info(state))
        # Only now, so that an error in a function of the author leaves the episode where it was.
        self._state, self._observation, self.step_record.halt, self._streams = state, observation, None, streams
        return result

    if TYPE_CHECKING:  # a subclass may define `step(self, action)`

        def step(self, action: Any) -> Step: ...

    else:

        def step(self, action, restart=None, hold=None):
            if restart is not None or hold is not None:
                refuse_masks(restart, hold)
            if self._written_step is None:
                self._written_step = flat_step(Model.step_program, as_step, self)
            return self._written_step(self, action)

    def step_program(self) -> Program:
        """Returns the stages of a step: calls to the functions that the author wrote."""
        self._written_without = optional_functions(self)
        written = [name for name in _OPTIONAL if name in written_functions(self)]
        names: dict[str, Any] = {"model": self}
        rewarder = "model.reward"
        if self._rewarder is not None:
            rewarder, names["rewarder"] = "rewarder", self._rewarder

        def stage(name: str, call: str) -> Stage:
            return Stage("Model: the functions that its author wrote", f"{name} = {call}", names)

        def flag(name: str) -> str:
            return f"True if model.{name}(state) else False"

        stages = [
            stage("streams", "model._streams or model.streams"),
            stage("state", "model.transition(before, action, streams.dynamics)"),
            stage("observation = seen", "model.observe(state, streams.observation)"),
            stage("terminated", flag("terminal")),
            *([stage("truncated", flag("truncated"))] if "truncated" in written else []),
            stage("reward", f"{rewarder}(before, action, state)"),
            *(stage(name, f"model.{name}(state)") for name in written if name != "truncated"),
        ]
        kept = {"before": "model._state", "state": "model._state", "seen": "model._observation"}
        return Program(tuple(stages), self.step_record, kept, state="state")

    @property
    def step_record(self) -> Record:
        if self._step_record is None:
            self._step_record = Record()
        return self._step_record

    def use_streams(self, streams: Streams) -> None:
        """Replaces the random streams. Several environments may share the same streams."""
        self._streams = streams

    @property
    def state(self) -> Any:
        """The state. Setting it continues the episode from that state, or ends the episode if the state is terminal.

        Raises:
            EpisodeError: The state is read before the first reset.
        """
        if self.step_record.halt is NOT_BEGUN:
            raise EpisodeError(f"state: {NOT_BEGUN}")
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._observation = self.observe(state, self.streams.observation)
        self._state = state
        self.step_record.halt = OVER if self.terminal(state) or self.truncated(state) else None

    def resume(self, state: Any, observation: Any, over: bool) -> None:
        """Restores an episode for code that steps the model itself, such as compiled lanes.

        Args:
            state: The state.
            observation: Its observation.
            over: True if the episode has ended.
        """
        self._state, self._observation = state, observation
        self.step_record.halt = OVER if over else None

    @property
    def observation(self) -> Any:
        if self.step_record.halt is NOT_BEGUN:
            raise EpisodeError(f"observation: {NOT_BEGUN}")
        return self._observation

    def snapshot(self) -> Snapshot:
        held = (self._state, self._observation, self.step_record.halt, self._context, self.streams.copy())
        return Snapshot(type(self), held)

    def restore(self, snapshot: Snapshot) -> None:
        self._state, self._observation, self.step_record.halt, self._context, streams = self._content(snapshot)
        self._streams = streams.copy()


def written_functions(model: Model) -> frozenset[str]:
    """Returns the names of the optional functions that the model's author wrote."""
    functions = zip(_OPTIONAL, optional_functions(model), strict=True)
    return frozenset(name for name, function in functions if function is not getattr(Model, name))


def optional_functions(model: Model) -> tuple[Any, ...]:
    """Returns the model's present optional functions, in the order of `_OPTIONAL`."""
    try:
        return _functions(model)  # in half the time, because each reset asks
    except AttributeError:  # one is no method
        found = (getattr(model, name) for name in _OPTIONAL)
        written = (getattr(function, "__wrapped__", function) for function in found)  # what `unchanged_states` watches
        return tuple(getattr(function, "__func__", function) for function in written)
