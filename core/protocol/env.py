"""The neutral protocol: what an environment is to everything else in envoi.

An environment is a Markov decision process that is being lived through. `reset` begins an episode and `step`
goes on in it:

    reset(seed)      → observation, info
    step(action)     → observation, reward, terminated, truncated, discount, info
    step(action)     → …                  until terminated or truncated
    reset()          → …                  the next episode; its randomness goes on from the last

`terminated` says that the process has reached an end state, `truncated` that somebody stopped watching; both
may be true. `discount` is the factor on all that follows: 0 after a termination, else 1, unless the
environment says otherwise. `reset(seed=s)` fixes everything random from then on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from ..spec import Array, SpecTree, sample
from .fast_steps import beside_step as beside_step
from .fast_steps import fast_step
from .fast_steps import five_step as five_step
from .process import Info, Process

quickest_step = fast_step

NOT_RESET = "the episode has not begun; call reset() first"
ENDED = "the episode has ended; call reset() before the next step"
ENDED_LANES = "the episode has ended; reset them by reset(mask=…), or in the next step by step(actions, restart=…)"

REWARD = Array((), "float64", name="reward")
DISCOUNT = Array((), "float64", 0, 1, "discount")


class Reset(NamedTuple):
    """What the beginning of an episode gives."""

    observation: Any
    info: Info


class Step(NamedTuple):
    """What one step gives. In a batch each value has a leading lane axis, and `info` is an `Infos`.

    Attributes:
        observation: A value of `observation_spec`.
        reward: A value of `reward_spec`.
        terminated: Whether an end state was reached.
        truncated: Whether the episode was cut off; both may be true.
        discount: The factor on all that follows; 0 after a termination, else 1, unless the env says otherwise.
        info: Whatever else there is to say; a fresh dict each time.
    """

    observation: Any
    reward: Any
    terminated: bool
    truncated: bool
    discount: Any
    info: Info


make_step = cast(
    "Callable[[tuple[Any, Any, bool, bool, Any, Info]], Step]",
    partial(tuple.__new__, Step),  # pyright: ignore[reportUnknownMemberType]
)
"""`Step(*values)` for hot paths: a named tuple's own constructor costs twice as much."""


def full_step(values: tuple[Any, Any, bool, bool, Any, Info]) -> Step:
    """Returns a `Step` of six values, with the discount filled in where it is None for the default."""
    if values[4] is not None:
        return make_step(values)
    observation, reward, terminated, truncated, _, info = values
    return make_step((observation, reward, terminated, truncated, 0.0 if terminated else 1.0, info))


class Env(Process):
    """An environment of one agent.

    Attributes:
        observation_spec: What `observation` may be.
        action_spec: What `step` takes.
        reward_spec: What `reward` may be; follows `rewarder`.
        discount_spec: What `discount` may be.
        state_spec: What `state` may be, or None where it is not described.
        batch_size: None; the number of lanes for a `BatchEnv`, whose specs describe one lane.
        metadata: Facts such as `render_modes` and `render_fps` (frames per second).
        render_mode: What `render` gives: None, `"rgb_array"`, `"human"`, …
    """

    reward_spec: SpecTree = REWARD
    discount_spec: SpecTree = DISCOUNT
    batch_size: int | None = None

    @abstractmethod
    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Begins an episode.

        Args:
            seed: Fixes every random stream from here on. None goes on with the streams as they are.
            options: Wishes for this episode, for the environment to understand; never changed.
        """

    @abstractmethod
    def step(self, action: Any) -> Step:
        """Acts once.

        Args:
            action: A value of `action_spec`.

        Raises:
            EpisodeError: Before the first reset, or after the end of the episode.
        """

    @property
    @abstractmethod
    def observation(self) -> Any:
        """The last observation, the same until the next step or reset; EpisodeError before the first reset."""

    def sample_action(self) -> Any:
        """A random action, from a stream of its own: sampling never changes the dynamics."""
        return sample(self.action_spec, self.streams.action)
