"""Models: environments written as pure functions over an explicit state.

An author writes the definition of a Markov decision process; the base class adds everything that has a state
(episodes, seeds, snapshots, the latest observation). Because the functions are pure, a planner can call them directly:
`model.transition(model.state, action, rng)` looks ahead and changes nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from ..errors import EpisodeError
from ..protocol.env import Env, Reset, Step, make_step
from ..protocol.episode import NOT_BEGUN, OVER, RUNNING, EpisodeState
from ..protocol.fast_steps import LayerPlan, Part
from ..protocol.process import Info, Process, Snapshot
from ..protocol.reset_options import of_the_episode
from ..rewards.rewarder import ModelReward, Rewarder
from ..seeding import Streams

if TYPE_CHECKING:
    from ..context import ContextSpace

UNSET: Any = None
"""The value of a model's state before the first reset."""

_DEFAULTS: dict[str, Any] = {"truncated": False, "discount": None, "info": {}}
"""The results of the optional functions where the author did not write them."""

_functions = attrgetter(*(f"{name}.__func__" for name in _DEFAULTS))


class AnyModel(Process):
    """Base of models of one agent and of several: their contexts, pictures, and own rewards."""

    context_space: ContextSpace | None = None

    _context: Mapping[str, Any] = {}

    def draw(self, state: Any) -> Any:
        """Returns a picture of `state`: uint8 of shape (height, width, 3). A model that defines it can be rendered."""
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
        """The context of the coming episodes, with defaults filled in; can be set, and is checked by `context_space`.

        Raises:
            ContextError: It is set to a value that its feature does not allow, or has a feature that does not exist.
        """
        return {**(self.context_space.defaults if self.context_space else {}), **self._context}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        if self.context_space is not None:
            self.context_space.verify(context)
        self._context = dict(context)

    @property
    def given_context(self) -> Mapping[str, Any]:
        """The features that were set, without defaults; empty if none were."""
        return self._context


class Model(AnyModel, Env):
    """An environment defined by pure functions. Subclass it, set the specs, and write the functions.

        class Corridor(envoi.Model):
            observation_spec = envoi.Array((1,), "float32", 0, 10)
            action_spec = envoi.Discrete(2)

    Required are `initial`, `transition`, `observe`, `reward` and `terminal`; `truncated`, `discount`, `info`, `draw`
    and `context_space` have defaults.

    A state is any value, and is never modified: `transition` returns a new one. All randomness comes from the `rng`
    that a function receives.

    Attributes:
        context_space: The features of this model's contexts, with defaults and bounds; None if it has none.
    """

    _state: Any = UNSET
    _observation: Any = None
    _episode_state: EpisodeState = NOT_BEGUN
    _layer_plan: LayerPlan | None = None  # of the steps that are assembled without the functions not written here

    @abstractmethod
    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> Any:
        """Returns the state in which an episode begins.

        Args:
            rng: The dynamics stream.
            context: The values of this episode: the defaults of `context_space`, overridden by `env.context`,
                overridden by the `options` of `reset`. Values that the dynamics need belong in the state. If the model
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
            rng: The observation stream, which is separate from that of the dynamics.
        """
        raise NotImplementedError

    @abstractmethod
    def reward(self, state: Any, action: Any, next_state: Any) -> Any:
        """Returns the reward of a transition; not used while another rewarder is set.

        Args:
            state: The state before the action.
            action: The action.
            next_state: The state after it.
        """
        raise NotImplementedError

    @abstractmethod
    def terminal(self, state: Any) -> Any:
        """Returns True if `state` is an end state."""
        raise NotImplementedError

    def truncated(self, state: Any) -> Any:
        """Returns True if the episode is cut off at `state`."""
        return False

    def discount(self, state: Any) -> Any:
        """Returns the factor on all rewards after `state`; None for 0 after a termination and 1 otherwise."""
        return None

    def info(self, state: Any) -> Info:
        """Returns a new dict of additional entries about `state`."""
        return {}

    # The rest runs the episode; authors do not override it.

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        context = of_the_episode(self.context_space, self.context, options) if options else self.context
        if seed is not None:
            self._streams = Streams(seed)
        streams = self.streams
        state = self.initial(streams.dynamics, context)
        observation = self.observe(state, streams.observation)
        if self._layer_plan is not None:
            self._layer_plan.follow(_optional_functions(self))
        result = Reset(observation, self.info(state))
        # Only now, as in `step`.
        self._state, self._observation, self._episode_state = state, observation, RUNNING
        return result

    def step(self, action: Any) -> Step:
        if self._episode_state is not RUNNING:
            self._refuse()
        before, streams, rewarder = self._state, self.streams, self._rewarder or self.reward
        state = self.transition(before, action, streams.dynamics)
        observation = self.observe(state, streams.observation)
        terminated, truncated = bool(self.terminal(state)), bool(self.truncated(state))
        reward = rewarder(before, action, state)
        discount, info = self.discount(state), self.info(state)
        # Only now, so that an error in a function of the author leaves the episode where it was.
        self._state, self._observation = state, observation
        if terminated or truncated:
            self._episode_state = OVER
        if discount is None:
            discount = 0.0 if terminated else 1.0
        return make_step((observation, reward, terminated, truncated, discount, info))

    def step_parts(self) -> tuple[Part, ...]:
        """Returns `step` as a part that leaves out the functions which the author did not write."""
        functions = _optional_functions(self)
        written = zip(_DEFAULTS, functions, strict=True)
        constants = {name: _DEFAULTS[name] for name, function in written if function is getattr(Model, name)}

        def result(name: str, call: str) -> str:
            return f"{name} = {constants[name]!r}" if name in constants else f"{name} = {call}"

        lines = [
            "if $model._episode_state is not $RUNNING:",
            "    $model._refuse()",
            "$before = $model._state",
            "$streams = $model._streams or $model.streams",
            "$rewarder = $model._rewarder",
            "$state = $model.transition($before, action, $streams.dynamics)",
            "observation = $model.observe($state, $streams.observation)",
            "terminated = True if $model.terminal($state) else False",
            result("truncated", "True if $model.truncated($state) else False"),
            "if $rewarder is None:",
            "    reward = $model.reward($before, action, $state)",
            "else:",
            "    reward = $rewarder($before, action, $state)",
            result("discount", "$model.discount($state)"),
            result("info", "$model.info($state)"),
            # Only now, as in `step`.
            "$model._state = $state",
            "$model._observation = observation",
            "if terminated:" if "truncated" in constants else "if terminated or truncated:",
            "    $model._episode_state = $OVER",
        ]
        if self._layer_plan is None:
            self._layer_plan = LayerPlan()
        self._layer_plan.follow(functions)
        part = Part(
            "Model: the functions that its author wrote",
            outward="\n".join(lines),
            names={"model": self, "RUNNING": RUNNING, "OVER": OVER},
            constants=constants,
            plan=self._layer_plan,
        )
        return (part,)

    def use_streams(self, streams: Streams) -> None:
        """Replaces the random streams; environments may share them."""
        self._streams = streams

    def _refuse(self) -> NoReturn:
        raise EpisodeError(f"step: {self._episode_state}")

    @property
    def state(self) -> Any:
        """The state; can be set to any state of the model, from which the episode continues (or has ended).

        Raises:
            EpisodeError: It is read before the first reset.
        """
        if self._episode_state is NOT_BEGUN:
            raise EpisodeError(f"state: {NOT_BEGUN}")
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._observation = self.observe(state, self.streams.observation)
        self._state, self._episode_state = state, OVER if self.terminal(state) or self.truncated(state) else RUNNING

    @property
    def has_begun(self) -> bool:
        """True from the first reset on."""
        return self._episode_state is not NOT_BEGUN

    def resume(self, state: Any, observation: Any, over: bool) -> None:
        """Continues an episode from a state whose observation is known, for code that steps the model itself.

        Args:
            state: The state.
            observation: Its observation.
            over: True if the episode has ended.
        """
        self._state, self._observation, self._episode_state = state, observation, OVER if over else RUNNING

    @property
    def observation(self) -> Any:
        if self._episode_state is NOT_BEGUN:
            raise EpisodeError(f"observation: {NOT_BEGUN}")
        return self._observation

    def snapshot(self) -> Snapshot:
        held = (self._state, self._observation, self._episode_state, self._context, self.streams.copy())
        return Snapshot(type(self), held)

    def restore(self, snapshot: Snapshot) -> None:
        self._state, self._observation, self._episode_state, self._context, streams = self._content(snapshot)
        self._streams = streams.copy()

    def __getstate__(self) -> Any:
        # Without the plan, which steps of this very model hold.
        state: Any = super().__getstate__()
        if not isinstance(state, dict):  # of slots, too
            return state
        return {name: value for name, value in cast("dict[str, Any]", state).items() if name != "_layer_plan"} or None


def _optional_functions(model: Model) -> tuple[Any, ...]:
    """Returns the optional functions of a model as they are now, in the order of `_DEFAULTS`."""
    try:
        return _functions(model)
    except AttributeError:  # one is no method
        found = (getattr(model, name) for name in _DEFAULTS)
        return tuple(getattr(function, "__func__", function) for function in found)
