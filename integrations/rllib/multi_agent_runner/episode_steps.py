"""Adds steps to RLlib's multi-agent episodes with less work per step than RLlib's own method.

`MultiAgentEpisode.add_env_step` builds several sets and validates every agent's whole episode on each call. Most steps
need none of it: no agent ends, and all of them are in the episode already. `add_step` appends the values of such a step
where RLlib appends them, and calls RLlib's method for every other one, so that both write equal episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

__all__ = ["add_step"]

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
    """Adds a step to an episode, as `MultiAgentEpisode.add_env_step` does.

    Args:
        episode: The `MultiAgentEpisode`, whose data are lists.
        now: The time of the step, in seconds of `time.perf_counter`.
        observations: The observations by agent, none of which is None.
        actions: The actions by agent.
        rewards: The rewards by agent.
        infos: The infos by agent.
        terminateds: The flags by agent, and under `"__all__"`.
        truncateds: The flags by agent, and under `"__all__"`.
        outputs: The further outputs of the policies by agent, an entry per column.
    """
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
    """Returns True if no agent ends or joins in a step, and RLlib would accept the step.

    Args:
        episode: The episode before the step.
        observations: As for `add_step`.
        actions: As for `add_step`.
        rewards: As for `add_step`.
        terminateds: As for `add_step`.
        truncateds: As for `add_step`.
    """
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
