"""An env runner of RLlib that collects the steps of all lanes as arrays."""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import ENV_TO_MODULE_SUM_EPISODES_LENGTH_IN, ENV_TO_MODULE_SUM_EPISODES_LENGTH_OUT

from .array_connectors import ActionChooser
from .episode_metrics import EpisodeMetrics, log_values, measured
from .episodes import EpisodeMaker, settle
from .fallback_log import log_fallback
from .obstacles import callbacks_heard, obstacle_in_config, obstacle_in_parts
from .rollout import Rollout
from .sample_request import SampleRequest


class BatchedEnvRunner(SingleAgentEnvRunner):
    """An env runner of one agent that collects the steps of all lanes as arrays, and cuts episodes from them.

    It returns the episodes and metrics of RLlib's `SingleAgentEnvRunner`, several times faster, because it has no
    Python loop over the lanes of each step. Where something needs an episode of each lane at each step, it is
    RLlib's runner, and `reason` says what that is.

    With `batch_mode="complete_episodes"`, a `sample` without arguments does not reset all lanes: episodes that have not
    ended continue in the next one. So no step is wasted, and long episodes are as frequent as they should be. Earlier
    weights chose the first actions of such an episode; its `weights_seq_no` has their number for each step, and its
    `action_logp` is theirs, which PPO's ratio and V-trace correct for.

    Args:
        **kwargs: The arguments of RLlib's runner.

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
        return obstacle_in_config(config)

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
        self._episode_metrics = EpisodeMetrics(self._log_one_episode)
        if self.env is not None:
            self._maker = EpisodeMaker(self.env.single_observation_space, self.env.single_action_space)
        parts = self.env, self.module, self._env_to_module, self._module_to_env
        before, self.reason = self.reason, self.obstacle_in(self.config) or obstacle_in_parts(*parts)
        if self.reason != before:
            self._needs_initial_reset = True
            log_fallback(self.reason)

    def sample(self, **kwargs: Any) -> list[SingleAgentEpisode]:
        """Returns episodes of new steps; see `SingleAgentEnvRunner.sample`.

        Args:
            **kwargs: The arguments of RLlib's runner.

        Returns:
            Episodes, or chunks of them; complete ones with `batch_mode="complete_episodes"`.
        """
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

    def get_metrics(self) -> Any:
        """Returns the metrics since the last call; see `SingleAgentEnvRunner.get_metrics`."""
        if self.reason is None:
            done, chunks = self._done_episodes_for_metrics, self._ongoing_episodes_for_metrics
            self._episode_metrics.log(
                self.metrics, [measured(episode, chunks.pop(episode.id_, ())) for episode in done]
            )
            done.clear()
        return super().get_metrics()

    def _log_one_episode(self, metrics: Any, *values: Any) -> None:
        """Logs an episode as RLlib does, to another logger."""
        own, self.metrics = self.metrics, metrics
        try:
            self._log_episode_metrics(*values)
        finally:
            self.metrics = own

    def _chooser(self, explore: bool) -> ActionChooser:
        module, pipelines = self.module, (self._env_to_module, self._module_to_env)
        return ActionChooser(module, *pipelines, self.metrics, explore, self._ongoing_episodes)

    def _step(self, choose: ActionChooser | None, steps: int) -> tuple[Any, Any] | None:
        """Acts once in each lane; a lane that has ended begins a new episode instead.

        Args:
            choose: Chooses the actions; None for random ones.
            steps: The number of steps made in this sample.

        Returns:
            The flags `terminated` and `truncated` of the lanes; None if the environment failed and was replaced.
        """
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
        now = time.perf_counter()
        self._rollout.add(actions, columns, rewards, self._observations, infos, now, self._weights_seq_no)
        return terminated, truncated

    def _begin_and_end(self, terminated: Any, truncated: Any, wanted: int | None) -> list[SingleAgentEpisode]:
        """Begins the episodes of lanes that were reset in the last step, and ends those that ended in it.

        Args:
            terminated: The flags of the lanes, of shape (n,).
            truncated: The flags of the lanes, of shape (n,).
            wanted: The number of episodes after which to stop; None to end all.

        Returns:
            The episodes that ended.
        """
        over = terminated | truncated
        begun = self._ended
        over[begun] = False
        self._ended = np.flatnonzero(over).tolist()
        done: list[SingleAgentEpisode] = []
        for lane in sorted(begun + self._ended):
            if over[lane]:
                done.append(self._end(lane, terminated[lane], truncated[lane]))
                if len(done) == wanted:
                    break
            else:
                self._begin(lane)
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
        self._rollout.begin(lane)
        episode = self._ongoing_episodes[lane]
        if "on_episode_start" in self._heard:
            episode.add_env_reset(*self._rollout.latest(lane))
            self._make_on_episode_callback("on_episode_start", lane, self._ongoing_episodes)
        episode._start_time = self._rollout.times[-1]

    def _end(self, lane: int, terminated: bool, truncated: bool) -> SingleAgentEpisode:
        episode = self._ongoing_episodes[lane]
        read = "on_episode_end" in self._heard
        self._maker.fill(episode, self._rollout, lane, unread=read or not self.episodes_to_numpy)
        episode.is_terminated, episode.is_truncated = terminated, truncated
        self._sum_of_lengths -= len(episode)
        self._rollout.begin(lane)
        if read:
            self._make_on_episode_callback("on_episode_end", lane, self._ongoing_episodes)
        if self._heard & {"on_episode_created", "on_episode_start"}:
            self._new_episode(lane, self._ongoing_episodes)
        else:
            self._ongoing_episodes[lane] = self._maker.new(is_blank=False)
        return settle(episode, bool(self.episodes_to_numpy))

    def _cut(self) -> list[SingleAgentEpisode]:
        """Returns a chunk of each episode that has not ended, which continues in the next sample."""
        chunks: list[SingleAgentEpisode] = []
        for lane, episode in enumerate(self._ongoing_episodes):
            if lane in self._ended or not self._rollout.steps(lane):
                continue
            self._maker.fill(episode, self._rollout, lane, unread=not self.episodes_to_numpy)
            self._rollout.begin(lane, lookback=self.config.episode_lookback_horizon)
            self._ongoing_episodes[lane] = self._maker.continuation(episode)
            self._ongoing_episodes_for_metrics[episode.id_].append(episode)
            chunks.append(settle(episode, bool(self.episodes_to_numpy)))
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
