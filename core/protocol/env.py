"""The protocol of single-agent environments, on which all other parts of envoi rely.

An environment runs a Markov decision process. `reset` begins an episode, and `step` advances it:

    reset(seed)      → observation, info
    step(action)     → observation, reward, terminated, truncated, discount, info
    step(action)     → …                  until terminated or truncated
    reset()          → …                  the next episode; the random streams continue from the last one

`terminated` is True if the process has reached an end state, `truncated` if the episode was cut off from outside, such
as by a time limit; both may be True. `discount` is the factor on all later rewards: 0 after a termination and 1
otherwise, unless the environment defines it. `reset(seed=s)` determines all random numbers from then on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from ..errors import EpisodeError, SpecError
from ..spec import Array, SpecTree, sample
from ..steps.flat import Finish
from ..steps.program import Program
from ..steps.record import ENDED as ENDED
from ..steps.record import ENDED_LANES as ENDED_LANES
from ..steps.record import NOT_RESET as NOT_RESET
from .process import Info, Process

REWARD = Array((), "float64", name="reward")
DISCOUNT = Array((), "float64", 0, 1, "discount")


class Reset(NamedTuple):
    """The result of `reset`.

    Attributes:
        observation: A value of `observation_spec`.
        info: Additional information, a new dict each time.
    """

    observation: Any
    info: Info


class Step(NamedTuple):
    """The result of `step`. In a batch of n lanes, values have a leading axis of size n, and `info` is an `Infos`.

    Attributes:
        observation: A value of `observation_spec`.
        reward: A value of `reward_spec`.
        terminated: True if the episode reached a terminal state.
        truncated: True if the episode was truncated. Both flags may be True.
        discount: The factor on all later rewards. The default is 0 after termination and 1 otherwise.
        info: Additional information, a new dict each time.
    """

    observation: Any
    reward: Any
    terminated: bool
    truncated: bool
    discount: Any
    info: Info


make_step: Callable[[tuple[Any, Any, bool, bool, Any, Info]], Step] = partial(cast("Any", tuple).__new__, Step)
"""`Step(*values)` for hot paths: the constructor of a named tuple takes twice as long."""


def full_step(values: tuple[Any, Any, bool, bool, Any, Info]) -> Step:
    """Makes a `Step` of six values; replaces a discount of None by the default."""
    if values[4] is not None:
        return make_step(values)
    observation, reward, terminated, truncated, _, info = values
    return make_step((observation, reward, terminated, truncated, 0.0 if terminated else 1.0, info))


def as_step(program: Program) -> Finish:
    """Returns the last lines of a written step, which make a `Step`."""
    usual = "0.0 if terminated else 1.0"
    factor = f"({usual}) if discount is None else discount" if program.writes("discount") else usual
    values = f"observation, reward, terminated, truncated, {factor}, info"
    return Finish("a Step", f"return make_step(({values}))", names={"make_step": make_step})


def refuse_masks(restart: Any = None, hold: Any = None) -> None:
    """Raises an error if masks of lanes are given to an environment that is not a batch."""
    if restart is not None or hold is not None:
        name = "hold" if restart is None else "restart"
        raise SpecError(
            f"{name}: expected None, because there are no lanes; start an episode by reset(), or make lanes by "
            "envoi.batch(env, n)"
        )


def state_if_begun(env: Any) -> Any:
    """Returns the state of an environment, or None before the first reset."""
    try:
        return env.state
    except EpisodeError:
        return None


class Env(Process):
    """A single-agent environment.

    Attributes:
        observation_spec: The spec of observations.
        action_spec: The spec of actions.
        reward_spec: The spec of rewards; follows `rewarder`.
        discount_spec: The spec of discounts.
        state_spec: The spec of `state`, or None if not declared.
        batch_size: The number of lanes in a `BatchEnv`, otherwise None. Specs always describe a single lane.
        metadata: A dict with keys such as `render_modes` and `render_fps` (frames per second).
        render_mode: The format in which `render` returns images: None, `"rgb_array"`, `"human"`, …
    """

    reward_spec: SpecTree = REWARD
    discount_spec: SpecTree = DISCOUNT
    batch_size: int | None = None

    @abstractmethod
    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Begins an episode.

        Args:
            seed: Seeds all random streams; None continues them.
            options: Settings of this episode, which the environment interprets. The mapping is not modified.

        Returns:
            The first observation and an info dict.
        """

    @abstractmethod
    def step(self, action: Any) -> Step:
        """Takes one action.

        Args:
            action: A value of `action_spec`.

        Raises:
            EpisodeError: The environment has not been reset, or the episode has ended.
        """

    @property
    @abstractmethod
    def observation(self) -> Any:
        """The latest observation, the same object until the next step or reset.

        Raises:
            EpisodeError: The environment has not been reset yet.
        """

    def sample_action(self) -> Any:
        """Samples a random action from the action stream, which does not affect the dynamics."""
        return sample(self.action_spec, self.streams.action)
