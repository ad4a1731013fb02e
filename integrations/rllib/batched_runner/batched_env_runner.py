"""An env runner of RLlib that collects the steps of all lanes as arrays."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list
from ray.rllib.utils.metrics import (
    ENV_TO_MODULE_SUM_EPISODES_LENGTH_IN,
    ENV_TO_MODULE_SUM_EPISODES_LENGTH_OUT,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.spaces.space_utils import unbatch
from ray.util.debug import log_once

from .array_connectors import TO_ENV, TO_MODULE, ActionChooser, parts_of
from .rollout import EpisodeMaker, Rollout, settle


class BatchedEnvRunner(SingleAgentEnvRunner):
    """An env runner of one agent that collects the steps of all lanes as arrays, and cuts episodes from them.

    It returns the episodes and metrics of RLlib's `SingleAgentEnvRunner`, several times faster, because it has no
    Python loop over the lanes of each step; only callbacks `on_episode_step` get an episode of each lane at each step.
    Where something else needs that, it is RLlib's runner, and `reason` says what that is.

    With `batch_mode="complete_episodes"`, a `sample` without arguments does not reset all lanes: episodes that have not
    ended continue in the next one. So no step is wasted, and long episodes are as frequent as they should be. Earlier
    weights chose the first actions of such an episode; its `weights_seq_no` has their number for each step, and its
    `action_logp` is theirs, which PPO's ratio and V-trace correct for.

    Attributes:
        reason: Why this runner works as RLlib's does; None if it collects arrays.
        sampling_state: The attributes, beside those of RLlib's runner, that an exact checkpoint holds.
    """

    reason: str | None = None
    sampling_state = ("_rollout", "_observations", "_ended", "_last_manner", "_sum_of_lengths")

    config: Any
    env: Any
    _ongoing_episodes: Any
    _rollout: Rollout
    _maker: EpisodeMaker

    def __init__(self, **kwargs: Any) -> None:
        self._observations: Any = None
        self._ended: list[int] = []  # the lanes that are reset in the next step
        self._carries = self._forced = False
        self._last_manner: Any = None
        self._sum_of_lengths = 0
        self._lengths: list[int] = []  # those not logged yet
        self._is_complete = False
        super().__init__(**kwargs)
        self._is_complete = True
        self._look_for_obstacles()

    @staticmethod
    def obstacle_in(config: Any) -> str | None:
        """Returns why a runner of a config would work as RLlib's; None if nothing in the config shows a reason."""
        return "the config has several agents" if config.is_multi_agent else None

    def make_env(self) -> None:
        """Makes a new vector environment; see `SingleAgentEnvRunner.make_env`."""
        super().make_env()
        self._look_for_obstacles()

    def make_module(self) -> None:
        """Makes a new module; see `SingleAgentEnvRunner.make_module`."""
        super().make_module()
        self._look_for_obstacles()

    def _look_for_obstacles(self) -> None:
        if not self._is_complete:
            return
        self._heard = callbacks_heard(self.config)
        self._is_live = "on_episode_step" in self._heard  # each step is added to RLlib's episodes as it is made
        if self.env is not None:
            self._maker = EpisodeMaker(self.env.single_observation_space, self.env.single_action_space)
        parts = self.env, self.module, self._env_to_module, self._module_to_env
        before, self.reason = self.reason, self.obstacle_in(self.config) or obstacle_in_parts(*parts)
        if self.reason != before:
            self._needs_initial_reset = True
            log_fallback(self.reason)

    def sample(self, **kwargs: Any) -> list[SingleAgentEpisode]:
        """Returns episodes of new steps; see `SingleAgentEnvRunner.sample`."""
        is_open = kwargs.get("num_timesteps") is None and kwargs.get("num_episodes") is None
        self._carries = is_open and self.config.batch_mode == "complete_episodes"
        self._forced = bool(kwargs.get("force_reset"))  # which RLlib's own does not pass on in this mode
        return super().sample(**kwargs)

    def _sample(self, **asked: Any) -> list[SingleAgentEpisode]:
        if self.reason is not None:
            return super()._sample(**asked)
        request = SampleRequest(**asked)
        explore, counts_episodes = request.explore, request.num_timesteps is None
        manner, before = (self._carries, request.random_actions), self._last_manner
        self._last_manner = manner
        resets = self._forced or manner != before if self._carries else counts_episodes
        if request.force_reset or resets or self._needs_initial_reset:
            self._reset_envs_and_episodes(explore)
        if counts_episodes:
            self._needs_initial_reset = not self._carries

        steps, done = 0, list[SingleAgentEpisode]()
        with nullcontext() if request.random_actions else self._chooser(explore) as choose:
            while not request.is_met(steps, len(done)):
                flags = self._step(choose, steps)
                if flags is None:  # the env was replaced; RLlib too counts from zero then, and keeps what is done
                    steps = 0
                    self._reset_envs_and_episodes(explore)
                    continue
                stepped = self.num_envs - len(self._ended)
                steps += stepped
                self._sum_of_lengths += stepped
                self._lengths.append(self._sum_of_lengths)
                done += self._begin_and_end(*flags, None if self._carries else request.missing_episodes(len(done)))
        self._observations = copy.deepcopy(self._observations)  # the env may reuse the arrays meanwhile
        self._done_episodes_for_metrics.extend(done)
        chunks = [] if counts_episodes else self._cut()
        self._log_lengths()
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=steps)
        self._increase_sampled_metrics(steps, len(done))
        return done + chunks

    def _chooser(self, explore: bool) -> ActionChooser:
        module, pipelines = self.module, (self._env_to_module, self._module_to_env)
        return ActionChooser(module, *pipelines, self.metrics, explore, self._ongoing_episodes)

    def _step(self, choose: ActionChooser | None, steps: int) -> tuple[Any, Any] | None:
        """Acts once in each lane; a lane that has ended begins a new episode instead."""
        if choose is None:
            columns = {Columns.ACTIONS: self.env.action_space.sample()}
        else:
            runners = self.config.num_env_runners or 1
            columns = choose(self._observations, (self.num_env_steps_sampled_lifetime // runners + steps) * runners)
        actions = columns.pop(Columns.ACTIONS)
        results = self._try_env_step(columns.pop(Columns.ACTIONS_FOR_ENV, actions))
        if isinstance(results, str):
            return None
        self._observations, rewards, terminated, truncated, infos = results
        if self._is_live:
            add_steps(self._ongoing_episodes, self._ended, actions, columns, self._weights_seq_no, results)
        else:
            now = time.perf_counter()
            self._rollout.add(actions, columns, rewards, self._observations, infos, now, self._weights_seq_no)
        return terminated, truncated

    def _begin_and_end(self, terminated: Any, truncated: Any, wanted: int | None) -> list[SingleAgentEpisode]:
        """Begins the episodes of lanes that were reset in the last step, and ends those that ended in it."""
        over = terminated | truncated
        begun = self._ended
        over[begun] = False
        self._ended = np.flatnonzero(over).tolist()
        done: list[SingleAgentEpisode] = []
        for lane in range(self.num_envs) if self._is_live else sorted(begun + self._ended):
            if lane in begun:
                self._begin(lane)
                continue
            self._make_on_episode_callback("on_episode_step", lane, self._ongoing_episodes)
            if over[lane]:
                done.append(self._end(lane, terminated[lane], truncated[lane]))
                if len(done) == wanted:
                    break
        return done

    def _new_episode(self, env_index: int, episodes: Any = None) -> None:
        if self.reason is not None:
            super()._new_episode(env_index, episodes)
            return
        episodes = self._ongoing_episodes if episodes is None else episodes
        episodes[env_index] = self._maker.new()
        self._make_on_episode_callback("on_episode_created", env_index, episodes)

    def _make_on_episode_callback(self, which: str, idx: int, episodes: list[SingleAgentEpisode]) -> None:
        if which in self._heard:
            super()._make_on_episode_callback(which, idx, episodes)

    def _begin(self, lane: int) -> None:
        if self._is_live:
            self._make_on_episode_callback("on_episode_start", lane, self._ongoing_episodes)
            return
        self._rollout.begin(lane)
        episode = self._ongoing_episodes[lane]
        if "on_episode_start" in self._heard:
            episode.add_env_reset(*self._rollout.latest(lane))
            self._make_on_episode_callback("on_episode_start", lane, self._ongoing_episodes)
        episode._start_time = self._rollout.times[-1]

    def _end(self, lane: int, terminated: bool, truncated: bool) -> SingleAgentEpisode:
        episode = self._ongoing_episodes[lane]
        read = "on_episode_end" in self._heard
        if not self._is_live:
            self._maker.fill(episode, self._rollout, lane, unread=read or not self.episodes_to_numpy)
            episode.is_terminated, episode.is_truncated = terminated, truncated
            self._rollout.begin(lane)
        self._sum_of_lengths -= len(episode)
        if read:
            self._make_on_episode_callback("on_episode_end", lane, self._ongoing_episodes)
        if self._heard & {"on_episode_created", "on_episode_start", "on_episode_step"}:
            self._new_episode(lane, self._ongoing_episodes)
        else:
            self._ongoing_episodes[lane] = self._maker.new(is_blank=False)
        return self._settled(episode)

    def _settled(self, episode: SingleAgentEpisode) -> SingleAgentEpisode:
        if self._is_live:
            return episode.to_numpy() if self.episodes_to_numpy else episode
        return settle(episode, bool(self.episodes_to_numpy))

    def _cut(self) -> list[SingleAgentEpisode]:
        """Returns a chunk of each episode that has not ended, which continues in the next sample."""
        chunks: list[SingleAgentEpisode] = []
        for lane, episode in enumerate(self._ongoing_episodes):
            lookback = self.config.episode_lookback_horizon
            if lane in self._ended or not (episode.t if self._is_live else self._rollout.steps(lane)):
                continue
            if self._is_live:
                self._ongoing_episodes[lane] = episode.cut(len_lookback_buffer=lookback)
            else:
                self._maker.fill(episode, self._rollout, lane, unread=not self.episodes_to_numpy)
                self._rollout.begin(lane, lookback=lookback)
                self._ongoing_episodes[lane] = self._maker.continuation(episode)
            self._ongoing_episodes_for_metrics[episode.id_].append(episode)
            chunks.append(self._settled(episode))
        self._sum_of_lengths = 0
        return chunks

    def _log_lengths(self) -> None:
        """Logs the sums of the lengths of all present chunks, one per step, as RLlib's connectors do."""
        lengths, self._lengths = self._lengths, []
        for key in (ENV_TO_MODULE_SUM_EPISODES_LENGTH_IN, ENV_TO_MODULE_SUM_EPISODES_LENGTH_OUT):
            log_values(self.metrics, key, lengths)

    def _reset_envs(self, episodes: list[SingleAgentEpisode], shared_data: dict[str, Any], explore: bool) -> None:
        self._log_lengths()
        super()._reset_envs(episodes, shared_data, explore)
        self._ended, self._sum_of_lengths = [], 0

    def _try_env_reset(self, **arguments: Any) -> tuple[Any, Any]:
        observations, infos = super()._try_env_reset(**arguments)
        self._observations = observations
        if self.reason is None:
            self._rollout = Rollout(observations, infos)
        return observations, infos


def add_steps(
    episodes: Sequence[SingleAgentEpisode],
    begun: Sequence[int],
    actions: Any,
    outputs: dict[str, Any],
    weights: int,
    result: Sequence[Any],
) -> None:
    """Adds a step, or the begin of an episode, to the episode of each lane, as RLlib's runner does."""
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


def log_values(metrics: Any, key: Any, values: Sequence[Any], **options: Any) -> None:
    """Logs values under one key, in their order."""
    if not values:
        return
    metrics.log_value(key, values[0], **options)
    stats = metrics.log_time(key)  # which exists now
    for value in values[1:]:
        stats.push(value)


def callbacks_heard(config: Any) -> set[str]:
    """Returns the names of the callbacks of episodes that a config defines."""
    classes = force_list(config.callbacks_class)
    return {
        name
        for name in ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")
        if force_list(getattr(config, f"callbacks_{name}"))
        or any(getattr(one, name) is not getattr(RLlibCallback, name) for one in classes)
    }


def obstacle_in_parts(env: Any, module: Any, to_module: Any, to_env: Any) -> str | None:
    """Returns why the parts of an env runner keep it from collecting arrays; None if they do not."""
    if module is None:
        return "the algorithm has no module that chooses actions"
    if module.is_stateful():
        return f"the module {type(module).__name__} has a memory"
    for stage, pipeline, known in (("env-to-module", to_module, TO_MODULE), ("module-to-env", to_env, TO_ENV)):
        kinds = [type(piece) for piece in pipeline.connectors]
        if custom := [kind.__name__ for kind in kinds if kind not in known]:
            return f"the {stage} connector {custom[0]} needs an episode of each lane"
        if missing := [kind.__name__ for kind in known if kind not in kinds]:
            return f"RLlib's {stage} connector {missing[0]} is missing"
    if env is None:
        return None
    for what in ("observation", "action"):
        for part in parts_of(getattr(env, f"single_{what}_space")):
            if not isinstance(part, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
                return f"values of the {what} space {part} are not arrays"
    mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
    return None if mode is AutoresetMode.NEXT_STEP else f"the vector environment resets lanes in mode {mode.name}"


def log_fallback(reason: str | None) -> None:
    """Logs a reason, unless it was logged before."""
    if reason is not None and log_once(f"batched-{reason}"):
        logging.getLogger("envoi").warning("envoi's batched env runner works as RLlib's own, more slowly: %s", reason)


@dataclass(frozen=True)
class SampleRequest:
    """The arguments of `_sample` of RLlib's env runners."""

    explore: bool
    num_timesteps: int | None = None
    num_episodes: int | None = None
    random_actions: bool = False
    force_reset: bool = False

    def is_met(self, steps: int, episodes: int) -> bool:
        """Returns True if enough was sampled."""
        return episodes >= (self.num_episodes or 0) if self.num_timesteps is None else steps >= self.num_timesteps

    def missing_episodes(self, episodes: int) -> int | None:
        """Returns the number of episodes that are still to end; None if their number does not matter."""
        return None if self.num_episodes is None else self.num_episodes - episodes
