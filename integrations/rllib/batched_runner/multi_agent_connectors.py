"""RLlib's default connectors of several agents, for all environments at once.

Between the environments and the policies RLlib runs ten connectors per step, most of which go over single items, and
look each item's episode up among all of them. `RowsByModule` and `ActionsByEnv` stand for those, and call the others
as they are. They read and write the same structures, so each of them can replace RLlib's pipeline alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import gymnasium
import numpy as np
from ray.rllib.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from ray.rllib.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from ray.rllib.connectors.common.add_time_dim_to_batch_and_zero_pad import AddTimeDimToBatchAndZeroPad
from ray.rllib.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from ray.rllib.connectors.common.batch_individual_items import BatchIndividualItems
from ray.rllib.connectors.common.module_to_agent_unmapping import ModuleToAgentUnmapping
from ray.rllib.connectors.common.numpy_to_tensor import NumpyToTensor
from ray.rllib.connectors.common.tensor_to_numpy import TensorToNumpy
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.module_to_env.get_actions import GetActions
from ray.rllib.connectors.module_to_env.listify_data_for_vector_env import ListifyDataForVectorEnv
from ray.rllib.connectors.module_to_env.normalize_and_clip_actions import NormalizeAndClipActions
from ray.rllib.connectors.module_to_env.remove_single_ts_time_rank_from_batch import RemoveSingleTsTimeRankFromBatch
from ray.rllib.connectors.module_to_env.unbatch_to_individual_items import UnBatchToIndividualItems
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import (
    CONNECTOR_PIPELINE_TIMER,
    CONNECTOR_TIMERS,
    ENV_TO_MODULE_CONNECTOR,
    ENV_TO_MODULE_SUM_EPISODES_LENGTH_IN,
    ENV_TO_MODULE_SUM_EPISODES_LENGTH_OUT,
    MODULE_TO_ENV_CONNECTOR,
    TIMERS,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.metrics.utils import to_snake_case
from ray.rllib.utils.spaces.space_utils import clip_action, unsquash_action

ROWS = "memorized_map_structure"
"""RLlib's key in `shared_data` for the episode and agent of each row, by module."""

_TO_MODULE = (
    AddObservationsFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AddStatesFromEpisodesToBatch,
    AgentToModuleMapping,
    BatchIndividualItems,
    NumpyToTensor,
)
_TO_ENV = (
    GetActions,
    TensorToNumpy,
    UnBatchToIndividualItems,
    ModuleToAgentUnmapping,
    RemoveSingleTsTimeRankFromBatch,
    NormalizeAndClipActions,
    ListifyDataForVectorEnv,
)


def custom_connectors(pipeline: ConnectorPipelineV2) -> list[str]:
    """Returns the names of the connectors that are not among RLlib's defaults, and of the defaults that are missing."""
    found = [type(connector) for connector in pipeline.connectors]
    for defaults in (_TO_MODULE, _TO_ENV):
        if any(kind in defaults for kind in found):
            if found == list(defaults):
                return []
            missing = [f"no {kind.__name__}" for kind in defaults if kind not in found]
            return [kind.__name__ for kind in found if kind not in defaults] + missing or ["another order"]
    return [kind.__name__ for kind in found] or ["no connectors at all"]


class RowsByModule:
    """Makes the input of each policy from the latest observations of all agents that act next."""

    def __init__(self, pipeline: ConnectorPipelineV2) -> None:
        self._stack, self._to_tensor = pipeline.connectors[-2:]
        self._orders: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def __call__(
        self,
        *,
        episodes: Sequence[MultiAgentEpisode],
        rl_module: Any,
        shared_data: dict[str, Any],
        metrics: MetricsLogger,
    ) -> dict[Any, Any]:
        """Returns a batch of observations for each policy, as tensors with a row per agent that acts next."""
        length = sum(episode.env_t - episode.env_t_started for episode in episodes)
        metrics.log_value(ENV_TO_MODULE_SUM_EPISODES_LENGTH_IN, length)
        prefix = (ENV_TO_MODULE_CONNECTOR,)
        with metrics.log_time((*prefix, CONNECTOR_PIPELINE_TIMER)):
            with _timed(metrics, prefix, AddObservationsFromEpisodesToBatch):
                rows, batch = self._rows(episodes)
                shared_data[ROWS] = rows
            with _timed(metrics, prefix, BatchIndividualItems):
                batch = self._stack(rl_module=rl_module, batch=batch, episodes=episodes, shared_data=shared_data)
            with _timed(metrics, prefix, NumpyToTensor):
                batch = self._to_tensor(rl_module=rl_module, batch=batch, episodes=episodes, shared_data=shared_data)
        metrics.log_value(ENV_TO_MODULE_SUM_EPISODES_LENGTH_OUT, length)
        return cast("dict[Any, Any]", batch)

    def _rows(self, episodes: Iterable[MultiAgentEpisode]) -> tuple[dict[Any, list[Any]], dict[Any, dict[str, Any]]]:
        """Returns the episode and agent of each row, and the rows' observations, by module."""
        rows: dict[Any, list[tuple[str, Any]]] = {}
        seen: dict[Any, list[Any]] = {}
        orders, skipped = self._orders, MultiAgentEpisode.SKIP_ENV_TS_TAG
        for episode in episodes:
            name, started = episode.id_, episode.agent_t_started
            singles, places = cast("Any", episode.agent_episodes), cast("Any", episode.env_t_to_agent_t)
            observed = tuple([agent for agent in singles if places[agent].data[-1] != skipped])
            order = orders.get(observed)
            if order is None:
                # RLlib goes over a set of them, and the order of rows decides on the random actions.
                order = orders[observed] = tuple(set(observed))
            for agent in order:
                _ = started[agent]  # a `defaultdict`, in which RLlib's reading of the observation enters the agent too
                single = singles[agent]
                if single.is_terminated or single.is_truncated:
                    continue
                module = single.module_id
                if module in rows:
                    rows[module].append((name, agent))
                    seen[module].append(single.observations.data[-1])
                else:
                    rows[module], seen[module] = [(name, agent)], [single.observations.data[-1]]
        return rows, {module: {Columns.OBS: values} for module, values in seen.items()}


class ActionsByEnv:
    """Chooses the actions of all agents from the outputs of the policies."""

    def __init__(self, pipeline: ConnectorPipelineV2) -> None:
        self._choose, self._to_numpy = pipeline.connectors[:2]
        scale = cast("NormalizeAndClipActions", pipeline.connectors[5])
        self._spaces = cast("Mapping[Any, Any]", scale._action_space_struct or {})
        self._normalize = scale.normalize_actions
        self._scales = (scale.normalize_actions or scale.clip_actions) and any(map(_has_box, self._spaces.values()))

    def __call__(
        self,
        *,
        batch: dict[Any, dict[str, Any]],
        episodes: Sequence[MultiAgentEpisode],
        rl_module: Any,
        explore: bool,
        shared_data: dict[str, Any],
        metrics: MetricsLogger,
    ) -> dict[str, list[dict[Any, Any]]]:
        """Returns the columns of the policies' outputs: a list with the values by agent of each environment."""
        prefix = (MODULE_TO_ENV_CONNECTOR,)
        with metrics.log_time((*prefix, CONNECTOR_PIPELINE_TIMER)):
            for connector in (self._choose, self._to_numpy):
                with _timed(metrics, prefix, type(connector)):
                    batch = connector(rl_module=rl_module, batch=batch, episodes=episodes, explore=explore)
            with _timed(metrics, prefix, UnBatchToIndividualItems):
                return self._by_env(batch, episodes, shared_data[ROWS])

    def _by_env(
        self, batch: Mapping[Any, Mapping[str, Any]], episodes: Sequence[MultiAgentEpisode], rows: Mapping[Any, Any]
    ) -> dict[str, list[dict[Any, Any]]]:
        index = {episode.id_: env for env, episode in enumerate(episodes)}
        columns: dict[str, list[dict[Any, Any]]] = {}
        for module, outputs in batch.items():
            places = [(index[name], agent) for name, agent in rows[module]]
            if self._scales:
                outputs = {**outputs, Columns.ACTIONS_FOR_ENV: self._scaled(outputs[Columns.ACTIONS], places)}
            for column, values in outputs.items():
                by_env = columns.get(column)
                if by_env is None:
                    by_env = columns[column] = [{} for _ in episodes]
                for (env, agent), value in zip(places, _items(values), strict=True):
                    by_env[env][agent] = value
        return columns

    def _scaled(self, actions: Any, places: Sequence[tuple[int, Any]]) -> Any:
        """Returns actions with all real numbers within the bounds of each agent's space, as RLlib scales them."""
        scale = unsquash_action if self._normalize else clip_action
        agents = {agent for _, agent in places}
        if len(agents) == 1:
            return scale(actions, self._spaces[agents.pop()])
        items: list[Any] = [None] * len(places)
        for agent in agents:
            mine = [row for row, (_, other) in enumerate(places) if other == agent]
            scaled = scale(_some(actions, mine), self._spaces[agent])
            for row, item in zip(mine, _items(scaled), strict=True):
                items[row] = item
        return items


def _has_box(space: Any) -> bool:
    if isinstance(space, Mapping):
        return any(map(_has_box, cast("Mapping[Any, Any]", space).values()))
    if isinstance(space, tuple):
        return any(map(_has_box, cast("tuple[Any, ...]", space)))
    return isinstance(space, gymnasium.spaces.Box)


def _items(values: Any) -> list[Any]:
    """Returns the rows of a nested array, or of a list of rows."""
    if isinstance(values, Mapping):
        named = cast("Mapping[str, Any]", values)
        return [dict(zip(named, row, strict=True)) for row in zip(*map(_items, named.values()), strict=True)]
    if isinstance(values, tuple):
        return list(zip(*map(_items, cast("tuple[Any, ...]", values)), strict=True))
    return list(values)


def _some(values: Any, rows: list[int]) -> Any:
    """Returns some rows of a nested array."""
    if isinstance(values, Mapping):
        return {name: _some(value, rows) for name, value in cast("Mapping[str, Any]", values).items()}
    if isinstance(values, tuple):
        return tuple(_some(value, rows) for value in cast("tuple[Any, ...]", values))
    return np.asarray(values)[rows]


@contextmanager
def _timed(metrics: MetricsLogger, prefix: tuple[str, ...], kind: type) -> Iterator[None]:
    """Logs the time that a connector takes, under RLlib's key for it."""
    with metrics.log_time((*prefix, TIMERS, CONNECTOR_TIMERS, to_snake_case(kind.__name__))):
        yield


ALL = "__all__"
SKIPPED = MultiAgentEpisode.SKIP_ENV_TS_TAG
"""The entry of `env_t_to_agent_t` for a step in which an agent is not observed."""


def add_step(
    episode: Any,
    now: float,
    observations: Mapping[Any, Any],
    actions: Mapping[Any, Any],
    rewards: Mapping[Any, Any],
    infos: Mapping[Any, Any],
    terminateds: Mapping[Any, bool],
    truncateds: Mapping[Any, bool],
    outputs: Mapping[Any, Mapping[str, Any]],
) -> None:
    """Adds a step to an episode, as `MultiAgentEpisode.add_env_step` does."""
    if not _is_quiet(episode, observations, actions, rewards, terminateds, truncateds):
        episode.add_env_step(
            observations=observations,
            actions=actions,
            rewards=rewards,
            infos=infos,
            terminateds=terminateds,
            truncateds=truncateds,
            extra_model_outputs=outputs,
        )
        return
    episode.env_t += 1
    places, started = episode.env_t_to_agent_t, episode.agent_t_started
    for agent, single in episode.agent_episodes.items():
        steps = places[agent].data
        if agent not in observations:
            steps.append(SKIPPED)
            if agent in actions:  # completed by the step in which the agent is observed again
                episode._hanging_actions_end[agent] = actions[agent]
                episode._hanging_rewards_end[agent] = rewards.get(agent) or 0.0
                episode._hanging_extra_model_outputs_end[agent] = outputs.get(agent)
            elif agent in rewards or agent in terminateds or agent in truncateds:
                episode._hanging_rewards_end[agent] += rewards.get(agent) or 0.0
            continue
        reward = rewards.get(agent) or 0.0
        if agent in actions:
            action, further = actions[agent], outputs.get(agent)
        else:
            action = episode._hanging_actions_end.pop(agent)
            further = episode._hanging_extra_model_outputs_end.pop(agent, None)
            reward = episode._hanging_rewards_end.pop(agent, 0.0) + reward
        observation, info = observations[agent], infos.get(agent) or {}
        single.observations.data.append(observation)
        single.actions.data.append(action)
        single.rewards.data.append(reward)
        single.infos.data.append(info)
        single.t += 1
        if further is not None:
            columns = single.extra_model_outputs
            for column, value in further.items():
                if column in columns:
                    columns[column].data.append(value)
                else:
                    columns[column] = InfiniteLookbackBuffer([value])
        single._last_added_observation, single._last_added_infos = observation, info
        single._last_step_time = now
        if single._start_time is None:
            single._start_time = now
        steps.append(single.t - single.t_started + started[agent])
    episode._last_step_time = now
    if episode._start_time is None:
        episode._start_time = now


def _is_quiet(
    episode: Any,
    observations: Mapping[Any, Any],
    actions: Mapping[Any, Any],
    rewards: Mapping[Any, Any],
    terminateds: Mapping[Any, bool],
    truncateds: Mapping[Any, bool],
) -> bool:
    """Returns True if no agent ends or joins in a step, and RLlib would accept the step."""
    if True in terminateds.values() or True in truncateds.values() or episode.is_terminated or episode.is_truncated:
        return False
    known = episode.agent_episodes
    agents = known.keys()
    if not (observations.keys() <= agents and rewards.keys() <= agents and actions.keys() <= agents):
        return False
    for flags in (terminateds, truncateds):
        for agent in flags:
            if agent not in known and agent != ALL:
                return False
    hanging, is_running = episode._hanging_actions_end, False
    for agent, single in known.items():
        if single.is_terminated or single.is_truncated:
            if agent in observations or agent in actions or agent in rewards:
                return False
            continue
        is_running = True
        if agent in actions:
            if agent in hanging or (agent in observations and agent not in rewards):
                return False
        elif agent in observations and agent not in hanging:
            return False
    return is_running
