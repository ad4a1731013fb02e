"""Validation of every value that passes through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..authoring.unchanged_states import unchanged_states
from ..errors import SpecError
from ..lane_values import lane
from ..protocol.batch_env import either, step_masks
from ..protocol.env import Env, Reset, Step
from ..protocol.multi_env import COMMON, MultiEnv, MultiReset, MultiStep
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete, Spec, SpecTree, validate
from ..spec.base import shown
from ..spec.nested import check_branch
from ..wrapping.multi_wrapper import MultiWrapper
from ..wrapping.wrapper import Wrapper


class Validated(Wrapper):
    """Checks every action, observation, reward and discount against its spec, without changing any.

    It also checks that a model's functions do not modify a state in place.

    Args:
        env: The environment; a `MultiEnv` makes a `ValidatedMulti`.

    Raises:
        SpecError: In a reset or step, a value lies outside its spec (the message names leaf, step and episode), or a
            function of a model changes a state in place (the message names function and leaf). A reset raises it if no
            code reads one of its options; see `Env.untaken`.
    """

    memory = ("_episode", "_step")

    if not TYPE_CHECKING:  # which takes it for one of one agent, as it does `Lifted`

        def __new__(cls, env=None, **arguments):
            several = cls is Validated and isinstance(env, MultiEnv)
            return ValidatedMulti(env) if several else super().__new__(cls, env, **arguments)

    def __init__(self, env: Env | MultiEnv) -> None:
        super().__init__(cast("Env", env))
        self._episode = self._step = 0

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        if options:
            _check_options(self.env, options)
        with unchanged_states(self.env):
            result = super().reset(seed=seed, options=options, mask=mask)
        self._episode, self._step = self._episode + 1, 0  # only now: a reset that is refused begins no episode
        self._check_result(result)
        return result

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        if self.batch_size is not None:
            restart, hold = step_masks(self, restart, hold)
        idle = either(restart, hold)  # whose actions, rewards and discounts may be anything
        self._step += 1
        try:
            self._check(self.action_spec, action, "action", idle)
            with unchanged_states(self.env):
                result = super().step(action, restart, hold)
        except Exception:
            self._step -= 1  # the episode stays where it was
            raise
        self._check_result(result, idle)
        return result

    def check(self, result: Reset | Step, *, step: int, episode: int, restart: Any = None) -> None:
        """Checks a result that your code obtained directly from the inner environment.

        Args:
            result: The result of its reset or step.
            step: The number of the step in the episode, for the message; 0 for a reset.
            episode: The number of the episode, for the message.
            restart: Mask of the lanes that began a new episode in the step.

        Raises:
            SpecError: A value lies outside its spec.
        """
        self._episode, self._step = episode, step
        self._check_result(result, restart)

    def _check_result(self, result: Reset | Step, restart: Any = None) -> None:
        self._check(self.observation_spec, result.observation, "observation")
        if isinstance(result, Step):
            self._check(self.reward_spec, result.reward, "reward", restart)
            self._check(self.discount_spec, result.discount, "discount", restart)

    def _check(self, spec: SpecTree, value: Any, what: str, skip: Any = None) -> None:
        lanes = self.batch_size
        if lanes is None:
            self._check_one(spec, value, what, f"of episode {self._episode}")
            return
        kept = None if skip is None or not np.any(skip) else ~np.asarray(skip)
        if _are_within(spec, value, what, lanes, kept):
            return
        self._check_length(spec, value, what)
        for index in range(lanes):
            if skip is None or not skip[index]:
                try:
                    self._check_one(spec, lane(spec, value, index), what, f"in lane {index}")
                except SpecError as error:
                    error.envoi_lane = index  # type: ignore[attr-defined]
                    raise

    def _check_length(self, spec: SpecTree, value: Any, what: str) -> None:
        if not isinstance(spec, Spec):
            check_branch(spec, value, what)
            for part, key, sub in tree.children(spec):
                self._check_length(sub, value[key], what + part)
        elif not hasattr(value, "__len__") or len(value) != self.batch_size:
            raise SpecError(f"{what}: expected a leading axis of {self.batch_size} lanes, got {shown(value)}")

    def _check_one(self, spec: SpecTree, value: Any, what: str, where: str) -> None:
        _check(spec, value, what, what in ("reward", "discount"), self._step, where)


_COLUMNS = Array, Discrete, MultiDiscrete, MultiBinary
"""Specs whose values in several lanes are one array."""


def _are_within(spec: SpecTree, values: Any, path: str, n: int, kept: Any) -> bool:
    """Returns True if the values of all n lanes, or of those kept, surely lie within a spec; else each lane decides.

    Comparing the column of all lanes takes about as long as comparing one of them.
    """
    if not isinstance(spec, Spec):
        check_branch(spec, values, path)
        return all(_are_within(sub, values[key], path + part, n, kept) for part, key, sub in tree.children(spec))
    if not isinstance(spec, _COLUMNS):
        return False
    if not isinstance(values, tree.AnyArray) or values.ndim != 1 + len(spec.shape) or len(values) != n:
        return False
    array: NDArray[Any] = values if kept is None else values[kept]
    if path in ("reward", "discount") and array.ndim == 1 and np.can_cast(array.dtype, spec.dtype, "same_kind"):
        array = array.astype(spec.dtype, copy=False)
    if array.dtype != spec.dtype or array.shape[1:] != spec.shape or array.dtype.kind == "c":
        return False
    match spec:
        case Array():
            low, high = spec.low, spec.high
        case Discrete():
            low, high = spec.start, spec.start + spec.n - 1
        case MultiDiscrete():
            low, high = spec.start, spec.last
        case MultiBinary():
            low, high = 0, 1
    if low is None and high is None:
        return array.dtype.kind != "f" or not np.isnan(array).any()
    # NaN lies within no bound.
    return bool((low is None or (array >= low).all()) and (high is None or (array <= high).all()))


class ValidatedMulti(MultiWrapper):
    """`Validated` for multi-agent environments: checks each agent's actions, observations, rewards and discounts.

    Args:
        env: The environment.

    Raises:
        SpecError: In a reset or step, a value lies outside its spec (the message names agent, leaf, step and episode).
            A reset raises it if no code reads one of its options.
    """

    memory = ("_episode", "_step")

    def __init__(self, env: MultiEnv) -> None:
        super().__init__(env)
        self._episode = self._step = 0

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        if options:
            _check_options(self.env, options)
        with unchanged_states(self.env):
            result = self.env.reset(seed=seed, options=options)
        self._episode, self._step = self._episode + 1, 0  # only now: a reset that is refused begins no episode
        self._check_result(result)
        return result

    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        self._step += 1
        try:
            if all(agent in self.action_spec for agent in actions):
                self._check(self.action_spec, actions, "action")
            with unchanged_states(self.env):
                result = self.env.step(actions)
        except Exception:
            self._step -= 1  # the episode stays where it was
            raise
        self._check_result(result)
        return result

    def check(self, result: MultiReset | MultiStep, *, step: int, episode: int) -> None:
        """Checks the latest result, if your code obtained it directly from the inner environment.

        Args:
            result: The result of its reset or step.
            step: The number of the step in the episode, for the message; 0 for a reset.
            episode: The number of the episode, for the message.

        Raises:
            SpecError: A value lies outside its spec, or an agent's entry is missing.
        """
        self._episode, self._step = episode, step
        self._check_result(result)

    def _check_result(self, result: MultiReset | MultiStep) -> None:
        ended: list[Any] = []
        if isinstance(result, MultiStep):
            ended = [agent for agent in result.terminated if result.terminated[agent] or result.truncated[agent]]
        self._check_agents(result.observations, (*self.env.acting, *ended), "observations")
        self._check_agents(result.infos, (*self.env.agents, *ended), "infos")
        if isinstance(result, MultiStep):
            for what in ("rewards", "terminated", "truncated", "discounts"):
                self._check_agents(getattr(result, what), (*self.env.agents, *ended), what)
        self._check(self.observation_spec, result.observations, "observation")
        if isinstance(result, MultiStep):
            self._check(self.reward_spec, result.rewards, "reward")
            self._check(self.discount_spec, result.discounts, "discount")

    def _check_agents(self, values: Mapping[Any, Any], needed: Iterable[Any], what: str) -> None:
        """Checks that a mapping has an entry for each of these agents, and for no unknown one."""
        where = f"of episode {self._episode}"
        if missing := [agent for agent in needed if agent not in values]:
            _raise_at(SpecError(f"{what}: expected an entry for each of {missing}"), self._step, where)
        if strange := [agent for agent in values if agent not in self.action_spec and agent != COMMON]:
            _raise_at(SpecError(f"{what}: {strange} are not among {list(self.possible_agents)}"), self._step, where)

    def _check(self, specs: Mapping[Any, SpecTree], values: Mapping[Any, Any], what: str) -> None:
        numbers, where = what in ("reward", "discount"), f"of episode {self._episode}"
        for agent, value in values.items():
            _check(specs[agent], value, f"{what}[{agent!r}]", numbers, self._step, where)


def _check_options(env: Env | MultiEnv, options: Mapping[str, Any]) -> None:
    for name, value in env.untaken(options).items():
        raise SpecError(
            f"options[{name!r}]: expected no options, because a reset of {shown(env.unwrapped)} takes none, "
            f"got {value!r}"
        )


def _check(spec: SpecTree, value: Any, path: str, numbers: bool, step: int, where: str) -> None:
    if numbers:
        # Python numbers in many environments, while their specs speak of arrays.
        value = tree.map_leaves(_as_array, spec, value)
    try:
        validate(spec, value, path)
    except SpecError as error:
        _raise_at(error, step, where)


def _raise_at(error: SpecError, step: int, where: str) -> NoReturn:
    """Raises an error with the step in its message, from the one without."""
    raise SpecError(f"{error} (at {f'step {step}' if step else 'the reset'} {where})") from error


def _as_array(spec: Spec, value: Any) -> Any:
    if not (isinstance(spec, Array) and np.isscalar(value)):
        return value
    array = np.asarray(value)
    return array.astype(spec.dtype) if np.can_cast(array.dtype, spec.dtype, "same_kind") else array
