"""Wrappers of observations: parts of them, arrays for objects, histories, and goals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..batching.batch_model import BatchModel
from ..errors import NotRepresented, SpecError, nearest
from ..lane_values import stack, take
from ..protocol.env import Reset
from ..protocol.multi_env import MultiEnv
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete, SpecTree, check_spec
from ..spec.arrays import bounds_or_inf
from ..spec.base import shown
from ..structural_equality import Structured
from ..tree import AnyMapping
from ..wrapping.arguments import at_least, counts
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class ObservationFilter(Lifted):
    """Keeps some elements of a vector observation, in the order of `indices`.

    Args:
        env: The environment; its observation is an array of one axis.
        indices: The elements to keep; negative ones count from the end, as in numpy.

    Raises:
        SpecError: The observation is not a vector (flatten a nested one with `FlattenObservation` first), or `indices`
            is empty, not a vector of integers, or out of range.
    """

    def __init__(self, env: Any, indices: Any) -> None:
        given = np.asarray(indices)
        if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
            raise SpecError(f"indices: expected a row of at least one integer, got {indices!r}")
        self.indices = given.astype(np.int64)
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        spec, indices = specs.observation, self.indices
        if not isinstance(spec, (Array, MultiDiscrete, MultiBinary)) or len(spec.shape) != 1:
            raise SpecError(
                f"ObservationFilter: expected an observation that is an array of one axis, got {spec!r}; "
                "use FlattenObservation inside of it"
            )
        (n,) = spec.shape
        if outside := [int(index) for index in indices if not -n <= index < n]:
            raise SpecError(f"indices: {outside} are outside of the observation, which has {n} elements")
        if isinstance(spec, Array):
            low, high = (None if bound is None else bound[indices] for bound in (spec.low_or_inf, spec.high_or_inf))
            kept: Any = Array(indices.shape, spec.dtype, low, high, spec.name)
        elif isinstance(spec, MultiDiscrete):
            kept = MultiDiscrete(spec.nvec[indices], spec.start[indices], spec.dtype, spec.name)
        else:
            kept = MultiBinary(indices.shape, spec.name)
        return Change(observation_spec=kept, observation=lambda observation: observation[..., indices])


class Representation(Structured):
    """A function from objects to arrays with the spec of its results. Any callable with a `spec` works too.

    Args:
        function: `(value) -> representation`. It must be deterministic and must not modify the value.
        spec: The spec of its results, possibly nested: `Discrete` or `MultiDiscrete` for categorical values, an `Array`
            of integers for discrete values, an `Array` of floats for continuous values.

    Raises:
        SpecError: `spec` is not a spec, or `function` cannot be called.
    """

    def __init__(self, function: Callable[[Any], Any], spec: SpecTree) -> None:
        if not callable(function):
            raise SpecError(f"function: expected a function of one value, got {shown(function)}")
        check_spec(spec)
        self.function, self.spec = function, spec

    def __call__(self, value: Any) -> Any:
        return self.function(value)


def joined(given: Any, what: str) -> Representation:
    """Combines a tree of representations into one."""
    for path, one in tree.leaves(given, what):
        if isinstance(one, type) or not callable(one) or not hasattr(one, "spec"):
            raise SpecError(
                f"{path}: expected something with a spec that can be called, got {shown(one)}; "
                "give a function its spec by Representation(function, spec)"
            )
        check_spec(cast("Any", one).spec, f"{path}.spec")
    spec = tree.map_leaves(attrgetter("spec"), given)
    if tree.is_branch(given):
        return Representation(partial(_each, given), spec)
    return given if type(given) is Representation else Representation(given, spec)


def _each(representations: Any, value: Any) -> Any:
    return tree.map_leaves(lambda one: one(value), representations)


class Represented(Lifted):
    """Converts states and observations that are objects to arrays.

    The inner environment keeps its objects: `env.env.state` returns them, and rewarders receive them. Arrays are not
    converted back, so set `state` to an object.

    Each observation is converted once, when it is made; a state is converted when it is read, once per step. An
    observation without a representation does not change. A state without one can be read only if the environment has a
    `state_spec`.

    Args:
        env: The environment.
        state: The representation of the state: a `Representation`, or a dict, list or tuple of them, each of which
            receives the whole state.
        observation: The representation of observations, in the same form. In a multi-agent environment it may be a dict
            by agent; other agents see their observations unchanged.
        by_lane: If True, representations receive the value of one lane; if False, those of all lanes of a batch.

    Attributes:
        state_spec: The spec of the represented state.

    Raises:
        SpecError: A representation cannot be called or has no `spec`, or an agent is unknown.
    """

    cached = "_shown"

    def __init__(self, env: Any, state: Any = None, observation: Any = None, *, by_lane: bool = True) -> None:
        self.by_lane = by_lane
        self._shown: tuple[Any] | None = None
        self._of_state = None if state is None else joined(state, "state")
        self._of_observation: dict[Any, Representation] = {}
        if observation is not None:
            agents = _agents(env)
            by_agent = bool(agents) and isinstance(observation, AnyMapping)
            given: Mapping[Any, Any] = observation if by_agent else {None: observation}
            for agent, one in given.items():
                if by_agent and agent not in agents:
                    near = nearest(str(agent), map(str, agents))
                    raise SpecError(f"observation: there is no agent {agent!r}; {near}")
                where = f"observation[{agent!r}]" if by_agent else "observation"
                self._of_observation[agent] = joined(one, where)
        super().__init__(env)
        if self._of_state is not None:
            self.state_spec = self._of_state.spec

    def change(self, specs: Specs) -> Change:
        represent = self._of_observation.get(specs.agent, self._of_observation.get(None))
        if represent is None:
            return Change()
        spec, function = represent.spec, represent.function  # whose call costs less
        if specs.lanes is not None:
            return Change(observation_spec=spec, observation=function, by_lane=self.by_lane)

        def seen(value: Any, memory: tuple[Any, Any]) -> Any:
            return memory[1] if memory[0] is value else function(value)  # the state may have been set since

        return Change(
            observation_spec=spec,
            begin=lambda value: (value, function(value)),
            remember=lambda memory, action, value, reward: (value, function(value)),
            observation=seen,
        )

    def reset(self, **arguments: Any) -> Reset:
        self._shown = None
        return super().reset(**arguments)

    def _put_back(self, held: Mapping[str, Any]) -> None:
        self._shown = None
        super()._put_back(held)

    @property
    def state(self) -> Any:
        """The represented state. Setting it takes a state of the inner environment.

        Raises:
            NotRepresented: The state has no representation and no `state_spec`.
            EpisodeError: The environment has not been reset yet.
        """
        if self._of_state is None:
            if self.env.state_spec is None:
                raise NotRepresented(
                    "state: representation not available; give Represented a state=Representation(function, spec), "
                    "or look at the object itself, .env.state"
                )
            return self.env.state
        if self._shown is None:
            self._shown = (self._represented(self._of_state.function, self._env_inside.state),)
        return self._shown[0]

    @state.setter
    def state(self, state: Any) -> None:
        self._shown = None
        self._env_inside.state = state

    def _represented(self, represent: Callable[[Any], Any], state: Any) -> Any:
        if not self.has_lanes or not self.by_lane:
            return represent(state)
        # Lanes that are looped over have a tuple of states; others have arrays with a leading axis.
        is_each = type(state) is tuple and not isinstance(self.env.unwrapped, BatchModel)
        values = [represent(state[lane] if is_each else take(state, lane)) for lane in range(self.batch_size)]
        return stack(self.state_spec, values)


def _agents(env: Any) -> tuple[Any, ...]:
    """Returns the agents of a multi-agent environment; an empty tuple for a single-agent one."""
    return tuple(env.possible_agents) if isinstance(env, MultiEnv) else ()


class History(Lifted):
    """Stacks the last observations along a new first axis of each leaf, the newest last.

    Zeros fill the time before the first step, and the bounds of the specs extend to include them.

    Args:
        env: The environment.
        history_length: The number of observations, at least 1.
        include_actions: If True, an observation becomes a dict of `"observation"` and `"action"`. `"action"` stacks the
            actions that led to the observations, with zeros for the first observation.
        tile_first_step_obs: If True, repeat the first observation in place of zeros.

    Raises:
        SpecError: `history_length` is not an integer of at least 1, or the values of a leaf are not arrays.
    """

    def __init__(
        self, env: Any, history_length: int = 3, include_actions: bool = False, tile_first_step_obs: bool = False
    ) -> None:
        self.history_length = at_least(history_length, 1, "history_length")
        self.include_actions, self.tile_first_step_obs = include_actions, tile_first_step_obs
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        n, tiles, with_actions = self.history_length, self.tile_first_step_obs, self.include_actions
        lanes, all_lanes = ((), ()) if specs.lanes is None else ((specs.lanes,), (slice(None),))
        last, older, newer = ((*all_lanes, part) for part in (-1, slice(None, -1), slice(1, None)))
        kept: Any = specs.observation
        shown: Any = _stacked(specs.observation, "observation", n, 0 if tiles else n - 1)
        if with_actions:
            kept = {"observation": specs.observation, "action": specs.action}
            shown = {"observation": shown, "action": _stacked(specs.action, "action", n, n)}

        def none(spec: Any) -> NDArray[Any]:
            return np.zeros((*lanes, n, *spec.shape), spec.dtype)

        def first(spec: Any, value: Any) -> NDArray[Any]:
            held = none(spec)
            for index in range(n) if tiles else (-1,):
                held[*all_lanes, index] = value
            return held

        def next_one(spec: Any, old: NDArray[Any], value: Any) -> NDArray[Any]:
            held = np.empty(old.shape, old.dtype)
            held[older], held[last] = old[newer], value
            return held

        def begin(observation: Any) -> Any:
            seen = tree.map_leaves(first, specs.observation, observation)
            return {"observation": seen, "action": tree.map_leaves(none, specs.action)} if with_actions else seen

        def remember(held: Any, action: Any, observation: Any, reward: Any) -> Any:
            values = {"observation": observation, "action": action} if with_actions else observation
            return tree.map_leaves(next_one, kept, held, values)

        # Copies, because an agent may write into its observation, and the next one is made from the memory.
        return Change(
            observation_spec=shown,
            begin=begin,
            remember=remember,
            observation=lambda observation, held: tree.map_leaves(np.copy, held),
        )


def _stacked(spec: SpecTree, path: str, n: int, padded: int) -> Any:
    """Returns the spec of n stacked values, where the first `padded` may be zeros."""
    if tree.is_branch(spec):
        return tree.rebuild(spec, [_stacked(sub, path + part, n, padded) for part, _, sub in tree.children(spec)])
    if isinstance(spec, MultiBinary):
        return MultiBinary((n, *spec.shape), spec.name)
    if not isinstance(spec, (Array, Discrete, MultiDiscrete)):
        raise SpecError(f"{path}: expected a spec whose values are arrays to stack, got {spec!r}")
    below, above = bounds_or_inf(spec)
    low = None if below is None else np.repeat(below[None], n, 0)
    high = None if above is None else np.repeat(above[None], n, 0)
    if low is not None:
        low[:padded] = np.minimum(low[:padded], 0)
    if high is not None:
        high[:padded] = np.maximum(high[:padded], 0)
    if isinstance(spec, Array):
        return Array((n, *spec.shape), spec.dtype, low, high, spec.name)
    return _between(spec, cast("Any", low), cast("Any", high))


def _between(spec: Discrete | MultiDiscrete, low: NDArray[Any], high: NDArray[Any]) -> MultiDiscrete | Array:
    number = counts(low, high)
    if number.max(initial=0) > np.iinfo(np.int64).max:
        return Array(low.shape, spec.dtype, low, high, spec.name)
    return MultiDiscrete(number, low, spec.dtype, spec.name)


class GoalReplay(Lifted):
    """Adds the goal of the episode to its observations, for hindsight experience replay (Andrychowicz et al., 2017).

    A subclass defines the three functions below to locate goals in observations, and overrides `state_with_goal` if its
    rewarder reads states that are not observations. The functions are pure. In a batch their values have a leading lane
    axis, unless the class sets `by_lane = True`.

        class Reach(envoi.GoalReplay):
            def desired(self, observation): return observation["target"]
            def achieved(self, observation): return observation["position"]
            def with_goal(self, observation, goal): return {**observation, "target": goal}

    Args:
        env: The environment.

    Attributes:
        by_lane: If True, the functions receive one lane of a batch at a time.
    """

    by_lane: bool = False

    @abstractmethod
    def desired(self, observation: Any) -> Any:
        """Returns the goal of an episode, given its first observation, as an array or nested arrays."""

    @abstractmethod
    def achieved(self, observation: Any) -> Any:
        """Returns the goal that this observation achieves."""

    @abstractmethod
    def with_goal(self, observation: Any, goal: Any) -> Any:
        """Replaces the goal of an observation.

        Args:
            observation: The inner environment's observation.
            goal: The goal.
        """

    def spec_with_goal(self, spec: SpecTree) -> SpecTree:
        """Returns the spec of the results of `with_goal`. The default is the inner observation spec."""
        return spec

    def state_with_goal(self, state: Any, goal: Any) -> Any:
        """Replaces the goal of a state, for the rewarder. The default treats the state as an observation.

        Args:
            state: The state.
            goal: The goal.
        """
        return self.with_goal(state, goal)

    def change(self, specs: Specs) -> Change:
        return Change(
            observation_spec=self.spec_with_goal(specs.observation),
            begin=self.desired,
            # A copy, because an agent may write into its observation, and the goal is that of the whole episode.
            observation=lambda observation, goal: self.with_goal(observation, deepcopy(goal)),
            by_lane=self.by_lane,
        )

    def relabel(
        self,
        observations: Sequence[Any],
        actions: Sequence[Any],
        states: Sequence[Any] | None = None,
        goal: Any = None,
        rng: np.random.Generator | None = None,
        agent: Any = None,
    ) -> tuple[list[Any], NDArray[Any]]:
        """Relabels a recorded episode, or a part of one, with another goal.

        Args:
            observations: The T + 1 observations of one agent, with or without a goal.
            actions: The T actions as the rewarder receives them; in a multi-agent environment, dicts by agent.
            states: The `env.state` at each observation, or None if observations are states.
            goal: The new goal, or None for the goal achieved at the end.
            rng: The random generator, for a rewarder that takes one.
            agent: The observing agent, in a multi-agent environment.

        Returns:
            The T + 1 observations with the goal, and the T rewards for it.

        Raises:
            SpecError: Only the imported environment can compute its reward, or the agent is unknown.
        """
        agents = self.possible_agents if isinstance(self, MultiEnv) else (None,)
        if agent not in agents:
            raise SpecError(f"agent: expected one of {list(agents)}, got {agent!r}")
        goal = self.achieved(observations[-1]) if goal is None else goal
        states = [self.state_with_goal(state, goal) for state in (observations if states is None else states)]
        seen = [self.with_goal(observation, goal) for observation in observations]
        rewards = self.rewarder.relabel(zip(states[:-1], actions, states[1:], strict=True), rng)
        return seen, rewards if agent is None else np.array([each[agent] for each in rewards])
