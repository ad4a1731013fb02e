"""Results that two env runners must share: the values of episodes and the metrics, as plain ones."""

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

TIMED = ("timer", "time_", "throughput", "duration", "per_second")
"""Parts of the names of metrics that are times; beside them there is `"sample"`."""

CONNECTED = ("connector", "sum_episodes_length")
"""Parts of the names of metrics of connectors, most of which the runners of envoi do without."""

OF_ONE_RUN = {"id_", "multi_agent_episode_id", "agent_to_module_mapping_fn"}
"""The attributes of episodes that no two runs share; of times there is whether they are set."""


def plain(value):
    """Values as lists and dicts; of an episode all its attributes, without the ids and times that no two runs share."""
    if isinstance(value, (SingleAgentEpisode, MultiAgentEpisode)):
        held = {name: getattr(value, name) for name in value.__slots__ if name not in OF_ONE_RUN}
        return {name: item is None if name.endswith("_time") else plain(item) for name, item in held.items()}
    if isinstance(value, InfiniteLookbackBuffer):
        return plain({name: item for name, item in vars(value).items() if name != "space_struct"})
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return (value.dtype, value.shape, value.tolist()) if isinstance(value, (np.ndarray, np.generic)) else value


def numbers(metrics, path=()):
    """The metrics by path, without those of connectors; of times only that there are some."""
    if isinstance(metrics, dict):
        return {k: v for key, value in metrics.items() for k, v in numbers(value, (*path, key)).items()}
    if any(word in str(part) for part in path for word in CONNECTED):
        return {}
    timed = path == ("sample",) or any(word in str(part) for part in path for word in TIMED)
    return {path: "time" if timed else metrics.peek() if hasattr(metrics, "peek") else metrics}
