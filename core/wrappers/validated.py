"""Validation of every value that passes through."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..authoring.unchanged_states import unchanged_states
from ..errors import SpecError
from ..lane_values import lane
from ..protocol.batch_env import either, step_masks
from ..protocol.env import Env, Reset, Step
from ..protocol.multi_env import COMMON, MultiEnv, MultiReset, MultiStep
from ..spec import Array, Spec, SpecTree, validate
from ..spec.arrays import ARRAYS, bounds
from ..spec.base import shown
from ..spec.nested import check_branch
from ..wrapping.lifted import Lifted


class Validated(Lifted):
    """Checks every action, observation, reward and discount against its spec, without changing any.

    It also checks that a model's functions do not modify a state in place.

    Args:
        env: The environment.

    Raises:
        SpecError: In a reset or step, a value lies outside its spec (the message names agent, leaf, step and episode),
            or a function of a model changes a state in place (the message names function and leaf). A reset raises it
            if no code reads one of its options; see `Env.untaken`.
    """

    memory = ("_episode", "_step")

    def __init__(self, env: Env | MultiEnv) -> None:
        super().__init__(env)
        self._episode = self._step = 0

    def reset(self, **arguments: Any) -> Any:
        for name, value in self.env.untaken(arguments.get("options") or {}).items():
            raise SpecError(
                f"options[{name!r}]: expected no options, because a reset of {shown(self.env.unwrapped)} takes none, "
                f"got {value!r}"
            )
        with unchanged_states(self.env):
            result = super().reset(**arguments)
        self._episode, self._step = self._episode + 1, 0  # only now: a reset that is refused begins no episode
        self._check_result(result)
        return result

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Any:
        if self.has_lanes:
            restart, hold = step_masks(self, restart, hold)
        idle = either(restart, hold)  # whose actions, rewards and discounts may be anything
        self._step += 1
        try:
            if not self.is_several or all(agent in self.action_spec for agent in action):
                self._check("action", action, idle)
            with unchanged_states(self.env):
                result = super().step(action, restart, hold)
        except Exception:
            self._step -= 1  # the episode stays where it was
            raise
        self._check_result(result, idle)
        return result

    def check(
        self, result: Reset | Step | MultiReset | MultiStep, *, step: int, episode: int, restart: Any = None
    ) -> None:
        """Checks a result that your code obtained directly from the inner environment.

        Args:
            result: The result of its reset or step; in a multi-agent environment, the latest result.
            step: The number of the step in the episode, for the message; 0 for a reset.
            episode: The number of the episode, for the message.
            restart: Mask of the lanes that began a new episode in the step.

        Raises:
            SpecError: A value lies outside its spec, or an agent's entry is missing.
        """
        self._episode, self._step = episode, step
        self._check_result(result, restart)

    def _check_result(self, result: Any, restart: Any = None) -> None:
        is_step = len(result) == len(Step._fields)
        if self.is_several:
            self._check_agents(result, is_step)
        self._check("observation", result[0])
        if is_step:
            self._check("reward", result[1], restart)
            self._check("discount", result[4], restart)

    def _check(self, what: str, value: Any, skip: Any = None) -> None:
        spec: Any = getattr(self, f"{what}_spec")
        lanes, where = self.batch_size if self.has_lanes else None, f"of episode {self._episode}"
        if self.is_several:
            for agent, own in value.items():
                self._check_one(spec[agent], own, f"{what}[{agent!r}]", where)
            return
        if lanes is None:
            self._check_one(spec, value, what, where)
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

    def _check_one(self, spec: SpecTree, value: Any, path: str, where: str) -> None:
        if path.startswith(("reward", "discount")):
            # Python numbers in many environments, while their specs speak of arrays.
            value = tree.map_leaves(_as_array, spec, value)
        try:
            validate(spec, value, path)
        except SpecError as error:
            self._raise_at(error, where)

    def _raise_at(self, error: SpecError, where: str) -> NoReturn:
        """Raises the error again, with the step added to its message."""
        raise SpecError(f"{error} (at {f'step {self._step}' if self._step else 'the reset'} {where})") from error

    def _check_agents(self, result: Any, is_step: bool) -> None:
        """Checks that each mapping has an entry for each agent that needs one, and no unknown agent."""
        ended: list[Any] = []
        if is_step:
            ended = [agent for agent in result.terminated if result.terminated[agent] or result.truncated[agent]]
        for what, values in zip(result._fields, result, strict=True):
            here = self._env_inside.acting if what == "observations" else self._env_inside.agents
            found = ""
            if missing := [agent for agent in (*here, *ended) if agent not in values]:
                found = f"expected an entry for each of {missing}"
            elif strange := [agent for agent in values if agent not in self.action_spec and agent != COMMON]:
                found = f"{strange} are not among {list(self.possible_agents)}"
            if found:
                self._raise_at(SpecError(f"{what}: {found}"), f"of episode {self._episode}")


ValidatedMulti: Any = Validated
"""`Validated`, which takes a `MultiEnv` as well; the name of earlier versions."""


def _are_within(spec: SpecTree, values: Any, path: str, n: int, kept: Any) -> bool:
    """Returns True if all lanes, or those in `kept`, are valid. If False, each lane must be checked on its own.

    Comparing all lanes at once takes about as long as comparing one.
    """
    if not isinstance(spec, Spec):
        check_branch(spec, values, path)
        return all(_are_within(sub, values[key], path + part, n, kept) for part, key, sub in tree.children(spec))
    if not isinstance(spec, ARRAYS):
        return False
    if not isinstance(values, tree.AnyArray) or values.ndim != 1 + len(spec.shape) or len(values) != n:
        return False
    array: NDArray[Any] = values if kept is None else values[kept]
    if path in ("reward", "discount") and array.ndim == 1 and np.can_cast(array.dtype, spec.dtype, "same_kind"):
        array = array.astype(spec.dtype, copy=False)
    if array.dtype != spec.dtype or array.shape[1:] != spec.shape or array.dtype.kind == "c":
        return False
    low, high = bounds(spec)
    if low is None and high is None:
        return array.dtype.kind != "f" or not np.isnan(array).any()
    # NaN lies within no bound.
    return bool((low is None or (array >= low).all()) and (high is None or (array <= high).all()))


def _as_array(spec: Spec, value: Any) -> Any:
    if not (isinstance(spec, Array) and np.isscalar(value)):
        return value
    array = np.asarray(value)
    return array.astype(spec.dtype) if np.can_cast(array.dtype, spec.dtype, "same_kind") else array
