"""Models: environments written as pure functions over an explicit state.

An author writes the definition of a Markov decision process; everything with a memory (episodes, seeds,
snapshots, memoised observations) follows from it once, here. Because the functions are pure, a planner can call
them itself: `model.transition(model.state, action, rng)` looks ahead and changes nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..errors import EpisodeError
from ..protocol.env import ENDED, NOT_RESET, Env, Reset, Step, make_step
from ..protocol.fast_steps import Part
from ..protocol.process import Info, Snapshot
from ..protocol.reset_options import of_the_episode
from ..rewards.rewarder import ModelReward, Rewarder
from ..seeding import Streams

if TYPE_CHECKING:
    from ..context import ContextSpace

UNSET: Any = None
"""The state before the first reset."""


class Model(Env):
    """An environment by its definition; subclass it, set the specs, and write the functions.

        class Corridor(envoi.Model):
            observation_spec = envoi.Array((1,), "float32", 0, 10)    # or a dict, list or tuple of specs
            action_spec = envoi.Discrete(2)

    Required are `initial`, `transition`, `observe`, `reward` and `terminal`; `truncated`, `discount`, `info`, `draw`
    and `context_space` have defaults.

    A state is any value, and is never changed: `transition` makes a new one. All randomness comes from the `rng`
    that a function is given.

    Attributes:
        context_space: The features that a context of this model may set, with defaults and bounds, or None.
    """

    context_space: ContextSpace | None = None

    _state: Any = UNSET
    _observation: Any = None
    _over: str | None = NOT_RESET
    _context: Mapping[str, Any] = {}

    @abstractmethod
    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> Any:
        """The state in which an episode begins.

        Args:
            rng: Draws from the dynamics stream.
            context: The values of this episode: the defaults of `context_space`, then `env.context`, then
                the `options` of `reset`. What the dynamics need of it belongs in the state. Of a model with a
                `context_space`, `options={"context": {…}}` takes the place of `env.context`, and an option whose name
                is nearly that of a feature is a `ContextError`.
        """
        raise NotImplementedError

    @abstractmethod
    def transition(self, state: Any, action: Any, rng: np.random.Generator) -> Any:
        """The state that follows `state` under `action`."""
        raise NotImplementedError

    @abstractmethod
    def observe(self, state: Any, rng: np.random.Generator) -> Any:
        """What the agent sees of `state`: a value of `observation_spec`. Draws from a stream of its own."""
        raise NotImplementedError

    @abstractmethod
    def reward(self, state: Any, action: Any, next_state: Any) -> Any:
        """The reward of a transition, unless another rewarder is set."""
        raise NotImplementedError

    @abstractmethod
    def terminal(self, state: Any) -> Any:
        """Whether `state` ends the episode."""
        raise NotImplementedError

    def truncated(self, state: Any) -> Any:
        """Whether the episode is cut off at `state`."""
        return False

    def discount(self, state: Any) -> Any:
        """The factor on all that follows `state`; None for 0 after a termination and 1 otherwise."""
        return None

    def info(self, state: Any) -> Info:
        """What else there is to say of `state`; a fresh dict."""
        return {}

    def draw(self, state: Any) -> Any:
        """A picture of `state`: uint8 of shape (height, width, 3). A model that defines it can be rendered."""
        raise NotImplementedError

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "draw" in cls.__dict__ and cls.render_mode is None:
            cls.render_mode = "rgb_array"
            cls.metadata = {**cls.metadata, "render_modes": ["rgb_array"]}

    # From here on the episode, which no author needs to touch.

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        context = of_the_episode(self.context_space, self.context, options) if options else self.context
        if seed is not None:
            self._streams = Streams(seed)
        streams = self.streams
        state = self.initial(streams.dynamics, context)
        observation = self.observe(state, streams.observation)
        result = Reset(observation, self.info(state))
        # Only now, as in `step`.
        self._state, self._observation, self._over = state, observation, None
        return result

    def step(self, action: Any) -> Step:
        if self._over is not None:
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
            self._over = ENDED
        if discount is None:
            discount = 0.0 if terminated else 1.0
        return make_step((observation, reward, terminated, truncated, discount, info))

    def step_parts(self) -> tuple[Part, ...]:
        """Returns `step` as a part that leaves out the functions which the author did not write."""
        defaults: dict[str, Any] = {"truncated": False, "discount": None, "info": {}}
        constants = {name: value for name, value in defaults.items() if not self._overrides(name)}

        def result(name: str, call: str) -> str:
            return f"{name} = {constants[name]!r}" if name in constants else f"{name} = {call}"

        lines = [
            "if $model._over is not None:",
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
            "if terminated or truncated:",
            "    $model._over = $ENDED",
        ]
        names = {"model": self, "ENDED": ENDED}
        return (
            Part("Model: the functions that its author wrote", "", "\n".join(lines), names=names, constants=constants),
        )

    def _overrides(self, name: str) -> bool:
        """Returns True if an optional function is the author's own, be it of the class or of this instance."""
        return getattr(getattr(self, name), "__func__", None) is not getattr(Model, name)

    def _refuse(self) -> NoReturn:
        raise EpisodeError(f"step: {self._over}")

    @property
    def state(self) -> Any:
        """The state; settable, to any state of the model: the episode goes on (or has ended) from there.

        Raises:
            EpisodeError: On reading it before the first reset.
        """
        if self._over == NOT_RESET:
            raise EpisodeError(f"state: {NOT_RESET}")
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._observation = self.observe(state, self.streams.observation)
        self._state, self._over = state, ENDED if self.terminal(state) or self.truncated(state) else None

    @property
    def observation(self) -> Any:
        if self._over == NOT_RESET:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation

    @property
    def context(self) -> dict[str, Any]:
        """The context of the coming episodes, defaults filled in; settable, checked against `context_space`.

        Raises:
            ContextError: On setting a feature that the model does not have, or a value out of its bounds.
        """
        return {**(self.context_space.defaults if self.context_space else {}), **self._context}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        if self.context_space is not None:
            self.context_space.verify(context)
        self._context = dict(context)

    def _native_rewarder(self) -> Rewarder:
        return ModelReward(self)

    def snapshot(self) -> Snapshot:
        held = (self._state, self._observation, self._over, self._context, self.streams.copy())
        return Snapshot(type(self), held)

    def restore(self, snapshot: Snapshot) -> None:
        self._state, self._observation, self._over, self._context, streams = self._content(snapshot)
        self._streams = streams.copy()

    def render(self) -> Any:
        return self.draw(self.state) if self.render_mode == "rgb_array" else None
