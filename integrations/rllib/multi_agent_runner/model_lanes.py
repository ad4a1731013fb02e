"""Steps the models of several environments of several agents as one batch, behind RLlib's vector environment.

The wrappers around each environment are still called, with the values of their lane: a failure of the batch comes out
of the wrappers of the lane that fails, as if its environment had failed. Where no lane fails alone, it comes out of the
first lane's wrappers, and says that it is in one of n lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.vector.utils import create_empty_array
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv

from envoi import MultiReset, MultiStep
from envoi.adapters.rllib.multi_form import RLlibMultiEnv
from envoi.batching.multi_model_batch import MultiLanesStep, MultiModelBatch, why_not_together
from envoi.lane_values import take
from envoi.protocol.multi_env import COMMON

from .vector_env import ALL, EnvSteps, SyncForms

__all__ = ["ModelLanes", "why_not_lanes"]


def why_not_lanes(envs: Sequence[Any]) -> str | None:
    """Returns why environments cannot step as one batch; None if they can.

    Args:
        envs: The environments of an env runner.
    """
    for env in envs:
        layers = _layers(env)
        others = [type(layer).__name__ for layer in layers[:-1] if not _passes_on(layer)]
        if others:
            return f"the wrapper {others[0]} may change actions"
        if not isinstance(layers[-1], RLlibMultiEnv) or len(layers) == 1:
            return f"{env} is no form of a model inside gymnasium's wrappers"
        if not layers[-1].can_follow:
            return "its values are checked, masked, or not in RLlib's canonical form"
    return why_not_together([env.unwrapped.core for env in envs])


def _layers(env: Any) -> list[Any]:
    """Returns an environment and those inside of it, from the outside in."""
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _passes_on(wrapper: Any) -> bool:
    """Returns True if a wrapper passes actions on as they are."""
    return isinstance(wrapper, (OrderEnforcing, PassiveEnvChecker)) or type(wrapper).__module__.startswith("envoi.")


class ModelLanes(SyncForms):
    """RLlib's vector environment of forms of equal `MultiBatchModel`s, whose lanes share one set of random streams.

    Args:
        made: RLlib's vector environment, whose environments and attributes it takes over; see `why_not_lanes`.
    """

    def __init__(self, made: SyncVectorMultiAgentEnv) -> None:
        super().__init__(made)
        layers = [_layers(env) for env in cast("list[Any]", self.envs)]
        self._forms: list[RLlibMultiEnv] = [found[-1] for found in layers]
        for index, found in enumerate(layers):
            found[-2].env = _Lane(found[-1], partial(self._result, index))
        self._batch = MultiModelBatch([form.core for form in self._forms])
        first = self._forms[0]
        self._agents = first.core.possible_agents
        self._codecs = first.codecs
        spaces = cast("dict[Any, Any]", first.action_spaces)
        self._idle = {agent: take(create_empty_array(spaces[agent], 1, np.zeros), 0) for agent in self._agents}
        self._pending: Callable[[], list[Any]] | None = None
        self._results: list[Any] = []

    def reset(self, *, seed: Any = None, options: Mapping[str, Any] | None = None) -> Any:
        self._pending = partial(self._begin, seed)
        try:
            return super().reset(seed=seed, options=options)
        except _InLane as failure:
            self._pending = failure.again
            return self._env(failure.lane).reset(options=options)

    def step(self, actions: Sequence[Mapping[Any, Any]]) -> EnvSteps:
        self._pending = partial(self._advance, actions)
        try:
            return super().step(actions)
        except _InLane as failure:
            self._pending = failure.again
            env = self._env(failure.lane)
            return env.reset() if self._ended[failure.lane] else env.step(actions[failure.lane])

    def _env(self, lane: int) -> Any:
        return cast("list[Any]", self.envs)[lane]

    def _result(self, lane: int) -> Any:
        """Returns a lane's result; the first lane that is asked steps all of them."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._results = pending()
        return self._results[lane]

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of the batch, and raises its errors so that they come out of the lane that fails.

        Args:
            function: The batch's `reset`, or its `step`.
            *arguments: The arguments of `step`.
        """
        try:
            return function(*arguments)
        except Exception as error:
            lane = self._batch.failing_lane(*(arguments or [None]))
            if lane:
                raise _InLane(lane, error) from error
            if lane is None and self.num_envs > 1:
                error.envoi_lane = f"one of its {self.num_envs} lanes"  # type: ignore[attr-defined]
            raise

    def _begin(self, seed: Any) -> list[Any]:
        first = seed[0] if isinstance(seed, Sequence) else seed
        core_seed = None if first is None else self._forms[0].seeds.at_reset(int(first))
        seen, infos = self._run(partial(self._batch.reset, seed=core_seed))
        observations = self._encoded(seen)
        results: list[Any] = []
        for lane, form in enumerate(self._forms):
            said = self._said(infos, lane)
            form.follow(partial(self._last_reset, lane, said))
            results.append(({agent: values[lane] for agent, values in observations.items()}, said))
        return results

    def _advance(self, actions: Sequence[Mapping[Any, Any]]) -> list[Any]:
        idle = self._idle
        step = self._run(
            self._batch.step,
            {
                agent: self._codecs[agent].decode_batch([acts.get(agent, idle[agent]) for acts in actions])
                for agent in self._agents
            },
            np.array(self._ended),
        )
        agents, observations = self._agents, self._encoded(step.observations)
        rewards = {agent: values.tolist() for agent, values in step.rewards.items()}
        ends = zip(self._ended, step.terminated.tolist(), step.truncated.tolist(), strict=True)
        results: list[Any] = []
        for lane, (began, terminated, truncated) in enumerate(ends):
            seen = {agent: values[lane] for agent, values in observations.items()}
            said = self._said(step.infos, lane)
            if began:
                self._forms[lane].follow(partial(self._last_reset, lane, said))
                results.append((seen, said))
                continue
            self._forms[lane].follow(partial(self._last_step, lane, step, said))
            # The flags by which RLlib labels the end of all agents at once, see `envoi.adapters.rllib.multi_form`.
            own = {ALL: truncated} if truncated and not terminated else {**dict.fromkeys(agents, truncated), ALL: False}
            results.append(
                (
                    seen,
                    {agent: values[lane] for agent, values in rewards.items()},
                    {**dict.fromkeys(agents, terminated), ALL: terminated},
                    own,
                    said,
                )
            )
        return results

    def _encoded(self, seen: Mapping[Any, Any]) -> dict[Any, list[Any]]:
        return {agent: list(self._codecs[agent].encode_batch(values)) for agent, values in seen.items()}

    def _said(self, infos: Sequence[Mapping[Any, Any]] | None, lane: int) -> dict[Any, Any]:
        return {agent: {} for agent in self._agents} if infos is None else dict(infos[lane])

    def show(self, lane: int) -> None:
        """Makes the model of a lane show the lane's state, for callbacks that read it."""
        self._batch.show(lane)

    def content(self) -> Any:
        """Returns the state of the batch, for snapshots of the env runner; the forms copy themselves."""
        for form in self._forms:
            _ = form.last  # made of the batch's values while they are those of the last step
        return self._batch.content(), list(self._ended)

    def put_back(self, content: Any) -> None:
        """Restores what `content` returned.

        Args:
            content: The result of `content`.
        """
        batch, ended = content
        self._batch.put_back(batch)
        self._ended = list(ended)

    def _last_reset(self, lane: int, infos: dict[Any, Any]) -> MultiReset:
        return MultiReset(self._batch.show(lane), infos)

    def _last_step(self, lane: int, step: MultiLanesStep, infos: dict[Any, Any]) -> MultiStep:
        terminated, truncated = bool(step.terminated[lane]), bool(step.truncated[lane])
        agents = self._agents
        return MultiStep(
            self._batch.show(lane),
            {agent: values[lane] for agent, values in step.rewards.items()},
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated),
            dict.fromkeys(agents, 0.0 if terminated else 1.0),
            {key: info for key, info in infos.items() if key in agents or key == COMMON},
        )


class _InLane(BaseException):
    """Carries a failure of the batch past the wrappers of lanes that do not fail, which let only exceptions be theirs.

    Its arguments are the lane that fails, and the failure.
    """

    @property
    def lane(self) -> int:
        """The lane that fails."""
        return self.args[0]

    def again(self) -> list[Any]:
        """Raises the failure, in place of the results of the lanes."""
        error: Exception = self.args[1]
        raise error.with_traceback(error.__traceback__)


class _Lane(gymnasium.Env[Any, Any]):
    """The place of a form inside its wrappers, which takes the results of its lane from a batch.

    Args:
        form: The form, whose attributes it has.
        result: Returns the latest result of the lane.
    """

    def __init__(self, form: RLlibMultiEnv, result: Callable[[], Any]) -> None:
        self._form, self._result = form, result

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self._result()

    def step(self, action: Any) -> Any:
        return self._result()

    def render(self) -> Any:
        return self._form.render()

    def close(self) -> None:
        self._form.close()

    @property
    def unwrapped(self) -> Any:
        """The form."""
        return self._form

    @property
    def env(self) -> Any:
        """The form, so that readers of layers find it."""
        return self._form

    def content(self) -> None:
        """Returns nothing, for snapshots: the place has no state of its own."""

    def put_back(self, content: None) -> None:
        """Restores nothing.

        Args:
            content: The result of `content`.
        """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._form, name)
