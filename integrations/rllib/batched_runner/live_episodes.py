"""Adds each step of all lanes to their episodes, for callbacks that read episodes between steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO
from ray.rllib.utils.spaces.space_utils import unbatch


def add_steps(
    episodes: Sequence[SingleAgentEpisode],
    begun: Sequence[int],
    actions: Any,
    outputs: dict[str, Any],
    weights: int,
    result: Sequence[Any],
) -> None:
    """Adds a step, or the begin of an episode, to the episode of each lane, as RLlib's runner does.

    Args:
        episodes: The episode of each of n lanes.
        begun: The lanes that were reset in the step.
        actions: The actions: nested arrays of shape (n, …).
        outputs: Further outputs of the module, each of nested arrays of shape (n, …).
        weights: The number of the weights that chose the actions.
        result: Observations, rewards, both flags and infos of all lanes.
    """
    observations, rewards, terminated, truncated, infos = result
    observations, actions = unbatch(observations), unbatch(actions)
    columns = {name: unbatch(values) for name, values in outputs.items()}
    for lane, episode in enumerate(episodes):
        if lane in begun:
            episode.add_env_reset(observation=observations[lane], infos=infos[lane])
            continue
        episode.add_env_step(
            observation=observations[lane],
            action=actions[lane],
            reward=rewards[lane],
            infos=infos[lane],
            terminated=terminated[lane],
            truncated=truncated[lane],
            extra_model_outputs={**{name: one[lane] for name, one in columns.items()}, WEIGHTS_SEQ_NO: weights},
        )
