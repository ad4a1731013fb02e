"""Wrappers that select parts of observations, or represent objects as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, cast

import numpy as np

from .. import tree
from ..batching.batch_model import BatchModel
from ..errors import NotRepresented, SpecError, nearest
from ..lane_values import stack, take
from ..protocol.env import Reset, Step
from ..protocol.multi_env import MultiEnv
from ..protocol.process import Snapshot
from ..spec import Array, MultiBinary, MultiDiscrete, SpecTree, check_spec
from ..spec.base import shown
from ..structural_equality import Structured
from ..tree import AnyMapping
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
    return given if isinstance(given, Representation) else Representation(given, spec)


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
        if specs.lanes is not None:
            return Change(observation_spec=represent.spec, observation=represent, by_lane=self.by_lane)

        def seen(value: Any, memory: tuple[Any, Any]) -> Any:
            return memory[1] if memory[0] is value else represent(value)  # the state may have been set since

        return Change(
            observation_spec=represent.spec,
            begin=lambda value: (value, represent(value)),
            remember=lambda memory, action, value, reward: (value, represent(value)),
            observation=seen,
        )

    def reset(self, **arguments: Any) -> Reset:
        self._shown = None
        return super().reset(**arguments)

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        self._shown = None
        return super().step(action, restart, hold)

    def restore(self, snapshot: Snapshot) -> None:
        self._shown = None
        super().restore(snapshot)

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
            self._shown = (self._represented(self._of_state, self.env.state),)
        return self._shown[0]

    @state.setter
    def state(self, state: Any) -> None:
        self._shown = None
        self._env_inside.state = state

    def _represented(self, represent: Representation, state: Any) -> Any:
        n: int | None = getattr(self.env, "batch_size", None)  # several agents have no lanes
        if n is None or not self.by_lane:
            return represent(state)
        # Lanes that are looped over have a tuple of states; others have arrays with a leading axis.
        is_each = type(state) is tuple and not isinstance(self.env.unwrapped, BatchModel)
        return stack(
            represent.spec,
            [represent(state[lane] if is_each else take(state, lane)) for lane in range(n)],
        )


def _agents(env: Any) -> tuple[Any, ...]:
    """Returns the agents of an environment of several; none for one agent."""
    return tuple(env.possible_agents) if isinstance(env, MultiEnv) else ()
