"""gym-gridverse's outer environments, to here.

| gym-gridverse | core |
|---|---|
| a representation's `Space` with bounds | `Array` with these bounds |
| its kind: categorical, discrete or continuous | `kinds`, and `metadata["kinds"]`, which every form carries on |
| a representation | a dict of such arrays |
| `Action`, an enumeration | `Discrete`, in the order of the action space |
| `(reward, terminal)` | reward, terminated; nothing truncates |

They are known by their methods alone: gym-gridverse itself, and the old gym that it needs, are never imported.

What is lost: options of a reset, which outer environments do not know; the first ones are warned of. An outer
environment without an observation representation is refused; without a state representation it has no `state`, and
other rewarders are given the inner environment's own objects.

An inner environment draws observations from the generator of its dynamics, so that whether somebody looks changes
the future. Here every state is looked at exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from envoi import Array, Discrete, Env, EpisodeError, LossyConversion, NotRepresented, Reset, Snapshot, Step, Streams
from envoi.protocol.env import ENDED, NOT_RESET, make_step
from envoi.rewards.rewarder import reward_step
from envoi.seeding import check_seed

from .registry import refuse_others
from .shared.arrival import incoming
from .shared.introspection import Content
from .shared.reset_options import NoResetOptions

__all__ = ["FromGridverse", "from_gridverse", "recognises"]

_PARTS = ("inner_env", "state_representation", "observation_representation", "action_space", "reset", "step")
_INNER_PARTS = ("set_seed", "functional_reset", "functional_step", "functional_observation")


class FromGridverse(NoResetOptions, Env):
    """An outer environment of gym-gridverse as a core one.

    Args:
        source: The outer environment.

    Attributes:
        source: The outer environment.
        kinds: `"categorical"`, `"discrete"` or `"continuous"` for each array: `kinds["observation"][name]`, and
            `kinds["state"][name]` where states are represented.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: It has no observation representation.
    """

    reward_spec = Array((), "float64", name="reward")

    def __init__(self, source: Any) -> None:
        self.source = source
        if source.observation_representation is None:
            raise LossyConversion(
                "observation", "objects", "representation not available", "the core",
                "give the outer environment one, such as make_observation_representation('default', observation_space)",
            )  # fmt: skip
        self.observation_spec = _read_spaces(source.observation_representation)
        self.kinds = {"observation": _read_kinds(source.observation_representation)}
        if source.state_representation is not None:
            self.state_spec = _read_spaces(source.state_representation)
            self.kinds["state"] = _read_kinds(source.state_representation)
        self.metadata = {"render_modes": [], "kinds": deepcopy(self.kinds)}
        self.action_spec = Discrete(source.action_space.num_actions, name="action")
        self._over: str | None = NOT_RESET
        self._observation: Any = None
        self._plan()

    def _plan(self) -> None:
        self._incoming = incoming(self.observation_spec, True)  # representations may hand out what they hold

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        seed = check_seed(seed)
        self._give_options(options)
        if seed is not None:
            self._streams = Streams(seed)
            self.source.inner_env.set_seed(seed)
        elif getattr(self.source.inner_env, "_rng", self) is None:
            # Never seeded, it would draw from a generator that all such environments share.
            self.source.inner_env.set_seed(int(self.streams.dynamics.integers(2**31)))
        self.source.reset()
        self._over = None
        self._observation = self._incoming(self.source.observation)
        return Reset(self._observation, {})

    def step(self, action: Any) -> Step:
        if self._over is not None:
            raise EpisodeError(f"step: {self._over}")
        rewarder, source = self._rewarder, self.source
        before = None if rewarder is None else self._rewarded_state()
        reward, terminal = source.step(source.action_space.int_to_action(int(action)))
        self._observation = observation = self._incoming(source.observation)
        if rewarder is not None:
            reward = reward_step(rewarder, reward, before, action, self._rewarded_state())
        terminated = bool(terminal)
        if terminated:
            self._over = ENDED
        return make_step((observation, reward, terminated, False, 0.0 if terminated else 1.0, {}))

    @property
    def state(self) -> Any:
        """The represented state.

        Raises:
            NotRepresented: The source has no state representation.
        """
        if self.state_spec is None:
            raise NotRepresented(
                "state: representation not available; give the outer environment a state_representation, or look at "
                "the objects, .source.inner_env.state"
            )
        if self._over == NOT_RESET:
            raise EpisodeError(f"state: {NOT_RESET}")
        return deepcopy(self.source.state)

    def _rewarded_state(self) -> Any:
        return deepcopy(self.source.inner_env.state) if self.state_spec is None else self.state

    @property
    def observation(self) -> Any:
        if self._over == NOT_RESET:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observation

    @property
    def rng(self) -> np.random.Generator:
        """The inner environment's generator; settable."""
        held = getattr(self.source.inner_env, "_rng", None)
        return held if isinstance(held, np.random.Generator) else self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        if hasattr(self.source.inner_env, "_rng"):
            self.source.inner_env._rng = generator
        else:
            self.source.inner_env.set_seed(int(deepcopy(generator).integers(2**31)))

    def snapshot(self) -> Snapshot:
        streams = None if self._streams is None else self._streams.copy()
        return Snapshot(type(self), (Content(self._parts()), self._over, self._observation, streams))

    def restore(self, snapshot: Snapshot) -> None:
        content, self._over, self._observation, streams = self._content(snapshot)
        content.put_back(self._parts())
        self._streams = None if streams is None else streams.copy()

    def _parts(self) -> list[Any]:
        return [self.source, self.source.inner_env]

    @property
    def unwrapped(self) -> Any:
        return self.source

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_incoming"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()

    def __repr__(self) -> str:
        return f"from_gridverse({self.source!r})"


def _read_spaces(representation: Any) -> dict[str, Array]:
    return {
        name: Array(space.lower_bound.shape, space.lower_bound.dtype, space.lower_bound, space.upper_bound, name)
        for name, space in representation.space.items()
    }


def _read_kinds(representation: Any) -> dict[str, str]:
    return {name: space.space_type.name.lower() for name, space in representation.space.items()}


def recognises(env: object) -> bool:
    """Whether `env` has the methods of an outer environment."""
    if any(not hasattr(type(env), name) and name not in getattr(env, "__dict__", ()) for name in _PARTS):
        return False
    return all(hasattr(vars(env)["inner_env"], name) for name in _INNER_PARTS) if "inner_env" in vars(env) else False


def from_gridverse(env: Any) -> Env:
    """An outer environment of gym-gridverse as a core one.

    Args:
        env: An `OuterEnv`.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: It has no observation representation.
    """
    refuse_others(env, "gridverse")
    return FromGridverse(env)
