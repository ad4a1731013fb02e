"""Env runners of RLlib that step all lanes together, single-agent and multi-agent."""

from __future__ import annotations

import copy
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import tree
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv
from ray.rllib.utils import force_list
from ray.rllib.utils import metrics as keys
from ray.rllib.utils.spaces.space_utils import batch, get_base_struct_from_space
from ray.util.debug import log_once

from envoi.adapters.rllib.form import RLlibForm

from ..callbacks import EnvoiCallbacks
from .acting import Acting, Scaling, items_of, obstacle_in_connectors
from .rollout import Rollout

ROWS = "memorized_map_structure"
"""RLlib's key in `shared_data` for the episode and agent of each row of a batch, by module."""

EVENTS = _CREATED, _START, _STEP, _END = "on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end"
"""RLlib's callbacks of episodes."""


_Runner: Any = EnvRunner
"""The base class of RLlib's env runners, with the attributes and methods that only its two subclasses have."""


class BatchedSampling(_Runner):
    """Base of the single-agent and the multi-agent runner: samples by a loop over steps of all lanes.

    It returns the episodes of RLlib's runners, their metrics without those of connectors, and calls the same callbacks,
    several times faster. Where something needs the episode of each lane at each step, such as a module with a memory,
    RLlib's own code samples.

    The single-agent and the multi-agent runner define `_obstacle_in_env`, `_random_actions`, `_columns` (the actions
    and other outputs of the module), `_add_steps` (returns how many environments stepped, and how many steps count),
    `_end_episodes` (returns the ended episodes and begins new ones), `_latest` (the observations to act on
    next), `_cut_episodes` (a chunk of each episode, which continues in the next sample) and `_log_counts`.

    Attributes:
        reason: Why this runner samples as RLlib's does, or None if it steps all lanes together.
    """

    reason: str | None = None
    config: Any
    env: Any
    _ongoing_episodes: Any
    _is_made = False
    _carries = False  # unfinished episodes go on in the next sample, though whole ones are asked for

    def __init__(self, config: Any, **arguments: Any) -> None:
        self._heard = set[str]()
        super().__init__(config=config, **arguments)
        self._heard = callbacks_heard(self.config)
        self._is_made = True
        self._choose()

    def make_env(self) -> None:
        super().make_env()
        if self._is_made:
            self._choose()

    def make_module(self) -> None:
        super().make_module()
        if self._is_made:
            self._choose()

    def _choose(self) -> None:
        """Decides whether this runner can step all lanes together, and logs why it cannot."""
        before, self.reason = self.reason, self.obstacle_in(self.config) or self._obstacle()
        self._needs_initial_reset |= before != self.reason
        if self.reason is None:
            self._scaling = Scaling(self._module_to_env)
        elif log_once(f"batched-{self.reason}"):
            message = "envoi's batched env runner works as RLlib's own, more slowly: %s"
            logging.getLogger("envoi").warning(message, self.reason)

    @classmethod
    def obstacle_in(cls, config: Any) -> str | None:
        """Returns why a config's env runner would fall back to RLlib's, or None if the config shows no reason."""
        if config.is_multi_agent != issubclass(cls, MultiAgentEnvRunner):
            return f"the config has {'several agents' if config.is_multi_agent else 'one agent'}"
        is_heard = not config.is_multi_agent and _STEP in callbacks_heard(config)
        return f"the callback {_STEP} needs an episode of each lane" if is_heard else None

    def _obstacle(self) -> str | None:
        """Returns which part of this runner prevents stepping all lanes together, or None if none does."""
        if self.module is None:
            return "the algorithm has no module that chooses actions"
        if self.module.is_stateful():
            return f"the module {type(self.module).__name__} has a memory"
        has_agents = isinstance(self, MultiAgentEnvRunner)
        obstacle = obstacle_in_connectors(self._env_to_module, self._module_to_env, has_agents)
        return obstacle if obstacle or self.env is None else self._obstacle_in_env()

    def _sample(self, **asked: Any) -> list[Any]:
        if self.reason is not None:
            return super()._sample(**asked)
        explore, steps, episodes = asked["explore"], asked.get("num_timesteps"), asked.get("num_episodes", 0)
        if self._resets(asked):
            self._reset_envs_and_episodes(explore)
        if steps is None:
            self._needs_initial_reset = not self._carries
        done: list[Any] = []
        env_steps = counted = 0
        with Acting(self, explore) as acting:
            while len(done) < episodes if steps is None else counted < steps:
                if asked.get("random_actions"):
                    columns = {Columns.ACTIONS: self._random_actions()}
                else:
                    runners = self.config.num_env_runners or 1
                    t = (self.num_env_steps_sampled_lifetime // runners + env_steps) * runners
                    columns = self._columns(acting, t)
                actions = columns.pop(Columns.ACTIONS)
                step = self._try_env_step(columns.pop(Columns.ACTIONS_FOR_ENV, actions))
                if isinstance(step, str):  # the env was replaced; RLlib too counts from zero then, and keeps `done`
                    env_steps = counted = 0
                    self._reset_envs_and_episodes(explore)
                    continue
                stepped, newly_counted = self._add_steps(actions, columns, step)
                env_steps, counted = env_steps + stepped, counted + newly_counted
                done += self._end_episodes(step, episodes - len(done) if steps is None and not self._carries else None)
                self._cached_to_module = acting.tensors(self._latest(step))
        self._done_episodes_for_metrics.extend(done)
        chunks = [] if steps is None else self._cut_episodes()
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=env_steps)
        self._log_counts(env_steps, len(done))
        return done + chunks

    def _resets(self, asked: Mapping[str, Any]) -> bool:
        """Returns True if a sample begins with new episodes."""
        return asked.get("force_reset") or asked.get("num_timesteps") is None or self._needs_initial_reset

    def _make_on_episode_callback(self, which: str, idx: int, episodes: list[Any]) -> None:
        if which in self._heard:
            super()._make_on_episode_callback(which, idx, episodes)


class BatchedEnvRunner(BatchedSampling, SingleAgentEnvRunner):
    """A single-agent env runner that collects the steps of all lanes as arrays, and cuts episodes from them.

    There is no Python loop over the lanes of each step.

    With `batch_mode="complete_episodes"`, a `sample` without arguments does not reset all lanes: episodes that have not
    ended continue in the next one. So no step is wasted, and long episodes are as frequent as they should be. Earlier
    weights chose the first actions of such an episode: `weights_seq_no` and `action_logp` record them for each step,
    and PPO's ratio and V-trace correct for them.

    Attributes:
        sampling_state: The attributes that an exact checkpoint saves besides those of RLlib's runner.
    """

    sampling_state = ("_rollout", "_ended", "_last_manner")

    def __init__(self, **arguments: Any) -> None:
        self._ended: list[int] = []  # the lanes that are reset in the next step
        self._forced = False
        self._last_manner: Any = None
        super().__init__(**arguments)
        self._reads_items = _END in callbacks_heard(self.config, EnvoiCallbacks)  # by a callback of the user's

    def _obstacle_in_env(self) -> str | None:
        for what in ("observation", "action"):
            for part in tree.flatten(get_base_struct_from_space(getattr(self.env, f"single_{what}_space"))):
                if not isinstance(part, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
                    return f"values of the {what} space {part} are not arrays"
        mode = AutoresetMode(self.env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        return None if mode is AutoresetMode.NEXT_STEP else f"the vector environment resets lanes in mode {mode.name}"

    def sample(self, **kwargs: Any) -> list[SingleAgentEpisode]:
        """Returns episodes of new steps; see `SingleAgentEnvRunner.sample`."""
        is_open = kwargs.get("num_timesteps") is None and kwargs.get("num_episodes") is None
        self._carries = is_open and self.config.batch_mode == "complete_episodes"
        self._forced = bool(kwargs.get("force_reset"))  # which RLlib's own does not pass on in this mode
        return super().sample(**kwargs)

    def _sample(self, **asked: Any) -> list[SingleAgentEpisode]:
        episodes = super()._sample(**asked)
        if self.reason is None:
            self._cached_to_module = copy.deepcopy(self._cached_to_module)  # the env may reuse the arrays meanwhile
        return episodes

    def _resets(self, asked: Mapping[str, Any]) -> bool:
        manner, before = (self._carries, bool(asked.get("random_actions"))), self._last_manner
        self._last_manner = manner
        if self._carries:
            return self._forced or manner != before or self._needs_initial_reset
        return super()._resets(asked)

    def _random_actions(self) -> Any:
        return self.env.action_space.sample()

    def _columns(self, acting: Acting, t: int) -> dict[str, Any]:
        columns = acting.outputs(self._cached_to_module, t)
        if self._scaling.is_asked:
            columns[Columns.ACTIONS_FOR_ENV] = self._scaling(columns[Columns.ACTIONS])
        return columns

    def _add_steps(self, actions: Any, columns: dict[str, Any], step: Any) -> tuple[int, int]:
        observations, rewards, _, _, infos = step
        columns[keys.WEIGHTS_SEQ_NO] = np.full(self.num_envs, self._weights_seq_no)
        self._rollout.add(actions, columns, rewards, observations, infos, time.perf_counter())
        stepped = self.num_envs - len(self._ended)
        return stepped, stepped

    def _end_episodes(self, step: Any, most: int | None) -> list[SingleAgentEpisode]:
        _, _, terminated, truncated, _ = step
        over = terminated | truncated
        begun = self._ended
        over[begun] = False
        self._ended = np.flatnonzero(over).tolist()
        done: list[SingleAgentEpisode] = []
        for lane in sorted(begun + self._ended):
            if lane in begun:
                self._begin(lane)
                continue
            done.append(self._end(lane, terminated[lane], truncated[lane]))
            if len(done) == most:
                break
        return done

    def _latest(self, step: Any) -> dict[Any, Any]:
        return {Columns.OBS: step[0]}

    def _begin(self, lane: int) -> None:
        episode = self._ongoing_episodes[lane]
        self._rollout.begin(lane)
        if _START in self._heard:
            episode.add_env_reset(*self._rollout.latest(lane))
        self._make_on_episode_callback(_START, lane, self._ongoing_episodes)
        episode._start_time = time.perf_counter()

    def _end(self, lane: int, terminated: bool, truncated: bool) -> SingleAgentEpisode:
        episode = self._ongoing_episodes[lane]
        self._rollout.fill(episode, lane, as_arrays=bool(self.episodes_to_numpy) and not self._reads_items)
        episode.is_terminated, episode.is_truncated = terminated, truncated
        self._rollout.begin(lane)
        self._make_on_episode_callback(_END, lane, self._ongoing_episodes)
        if self._heard - {_END}:
            self._new_episode(lane, self._ongoing_episodes)
        else:
            self._ongoing_episodes[lane] = self._rollout.new_episode()
        return episode.to_numpy() if self.episodes_to_numpy and not episode.is_numpy else episode

    def _cut_episodes(self) -> list[SingleAgentEpisode]:
        chunks: list[SingleAgentEpisode] = []
        lookback = self.config.episode_lookback_horizon
        for lane, episode in enumerate(self._ongoing_episodes):
            if lane in self._ended or not self._rollout.steps(lane):
                continue
            self._rollout.fill(episode, lane, as_arrays=bool(self.episodes_to_numpy))
            self._rollout.begin(lane, lookback=lookback)
            self._ongoing_episodes[lane] = self._rollout.new_episode(episode)
            self._ongoing_episodes_for_metrics[episode.id_].append(episode)
            chunks.append(episode)
        return chunks

    def _log_counts(self, env_steps: int = 0, episodes: int = 0) -> None:
        self._increase_sampled_metrics(env_steps, episodes)

    def _reset_envs(self, episodes: list[Any], shared_data: dict[str, Any], explore: bool) -> None:
        super()._reset_envs(episodes, shared_data, explore)
        self._ended = []

    def _try_env_reset(self, **arguments: Any) -> tuple[Any, Any]:
        observations, infos = super()._try_env_reset(**arguments)
        if self.reason is None:
            spaces_of_lane = self.env.single_observation_space, self.env.single_action_space
            blank = SingleAgentEpisode(observation_space=spaces_of_lane[0], action_space=spaces_of_lane[1])
            self._rollout = Rollout(observations, infos, blank)
        return observations, infos


class BatchedMultiAgentEnvRunner(BatchedSampling, MultiAgentEnvRunner):
    """A multi-agent env runner that chooses the actions of all agents in all environments together."""

    def __init__(self, config: Any, **arguments: Any) -> None:
        self._env_steps = self._episodes_ended = 0  # not logged yet
        self._agent_steps: Counter[tuple[Any, Any]] = Counter()
        super().__init__(config, **arguments)

    def _choose(self) -> None:
        super()._choose()
        if self.reason is None and self.env is not None:
            self.env.copy = False  # envoi's environments return new values in each step

    def _obstacle_in_env(self) -> str | None:
        envs: Any = self.env.envs if type(self.env) is SyncVectorMultiAgentEnv else ()
        is_ours = bool(envs) and all(isinstance(env.unwrapped, RLlibForm) for env in envs)
        return None if is_ours else f"the environments are not envoi's: {self.env}"

    def _random_actions(self) -> Any:
        return [
            {agent: env.unwrapped.get_action_space(agent).sample() for agent in episode.get_agents_to_act()}
            for env, episode in zip(self.env.envs, self._ongoing_episodes, strict=True)
        ]

    def _columns(self, acting: Acting, t: int) -> dict[str, Any]:
        lanes = {episode.id_: lane for lane, episode in enumerate(self._ongoing_episodes)}
        columns = defaultdict[str, list[dict[Any, Any]]](lambda: [{} for _ in lanes])
        if not self._cached_to_module:  # all environments are reset next
            return {Columns.ACTIONS: columns[Columns.ACTIONS]}
        for module, outputs in acting.outputs(self._cached_to_module, t).items():
            rows = self._shared_data[ROWS][module]
            if self._scaling.is_needed:
                scaled = self._scaling(outputs[Columns.ACTIONS], [agent for _, agent in rows])
                outputs = {**outputs, Columns.ACTIONS_FOR_ENV: scaled}
            for column, values in outputs.items():
                by_lane = columns[column]
                for (episode, agent), value in zip(rows, items_of(values), strict=True):
                    by_lane[lanes[episode]][agent] = value
        return columns

    def _add_steps(self, actions: Any, columns: dict[str, Any], step: Any) -> tuple[int, int]:
        env_steps = agent_steps = 0
        counts, seq_no = self._agent_steps, self._weights_seq_no
        self._begun = set[int]()  # the lanes that were reset in this step
        for lane, (episode, *values) in enumerate(zip(self._ongoing_episodes, *step, strict=True)):
            observations, rewards, terminateds, truncateds, infos = values
            if not episode.agent_episodes:
                episode.add_env_reset(observations=observations, infos=infos)
                self._begun.add(lane)
                continue
            outputs = {agent: {keys.WEIGHTS_SEQ_NO: seq_no} for agent in actions[lane]} if columns else {}
            for column, by_lane in columns.items():
                for agent, value in by_lane[lane].items():
                    outputs[agent][column] = value
            episode.add_env_step(
                observations, actions[lane], rewards, infos,
                terminateds=terminateds, truncateds=truncateds, extra_model_outputs=outputs,
            )  # fmt: skip
            env_steps += 1
            agent_steps += len(observations)
            self._episodes_ended += episode.is_terminated or episode.is_truncated
            for agent in observations:
                counts[agent, episode.module_for(agent)] += 1
        self._env_steps += env_steps
        return env_steps, env_steps if self.config.count_steps_by == "env_steps" else agent_steps

    def _end_episodes(self, step: Any, most: int | None) -> list[MultiAgentEpisode]:
        ended: list[MultiAgentEpisode] = []
        for lane, episode in enumerate(self._ongoing_episodes):
            self._make_on_episode_callback(_START if lane in self._begun else _STEP, lane, self._ongoing_episodes)
            if not (episode.is_terminated or episode.is_truncated):
                continue
            self._make_on_episode_callback(_END, lane, self._ongoing_episodes)
            self._prune_zero_len_sa_episodes(episode)
            ended.append(episode.to_numpy() if self.episodes_to_numpy else episode)
            self._new_episode(lane, self._ongoing_episodes)
            if most is not None and len(ended) >= most:
                break
        return ended

    def _latest(self, step: Any) -> dict[Any, Any]:
        """Returns the observations of all agents that act next, by module; records the episode and agent of each."""
        rows: dict[Any, list[tuple[str, Any]]] = {}
        seen: dict[Any, list[Any]] = {}
        skipped = MultiAgentEpisode.SKIP_ENV_TS_TAG
        for episode in self._ongoing_episodes:
            name, started = episode.id_, episode.agent_t_started
            singles, places = episode.agent_episodes, episode.env_t_to_agent_t
            # RLlib goes over a set of them, and the order of rows decides on the random actions.
            for agent in {agent for agent in singles if places[agent].data[-1] != skipped}:
                _ = started[agent]  # a `defaultdict`, in which RLlib's reading of the observation enters the agent too
                single = singles[agent]
                if single.is_terminated or single.is_truncated:
                    continue
                module = single.module_id
                if module not in rows:
                    rows[module], seen[module] = [], []
                rows[module].append((name, agent))
                seen[module].append(single.observations.data[-1])
        self._shared_data[ROWS] = rows
        return {module: {Columns.OBS: batch(values)} for module, values in seen.items()}

    def _cut_episodes(self) -> list[MultiAgentEpisode]:
        before = self._ongoing_episodes
        self._ongoing_episodes = [episode.cut(self.config.episode_lookback_horizon) for episode in before]
        cut = [episode for episode in before if episode.env_t > 0]  # the others have just begun
        for episode in cut:
            self._ongoing_episodes_for_metrics[episode.id_].append(episode)
            self._prune_zero_len_sa_episodes(episode)
            if self.episodes_to_numpy:
                episode.to_numpy()
        return cut

    def _make_on_episode_callback(self, which: str, idx: int, episodes: list[Any]) -> None:
        if which in self._heard:
            self._log_counts()  # so that callbacks find the steps up to now
        super()._make_on_episode_callback(which, idx, episodes)

    def _log_counts(self, env_steps: int = 0, episodes: int = 0) -> None:
        if not self._env_steps:
            return
        log = self.metrics.log_value
        log(keys.NUM_ENV_STEPS_SAMPLED, self._env_steps, reduce="sum")
        log(keys.NUM_ENV_STEPS_SAMPLED_LIFETIME, self._env_steps, reduce="lifetime_sum", with_throughput=True)
        if self._episodes_ended:
            log(keys.NUM_EPISODES, self._episodes_ended, reduce="sum")
            log(keys.NUM_EPISODES_LIFETIME, self._episodes_ended, reduce="lifetime_sum")
        for (agent, module), steps in self._agent_steps.items():
            log((keys.NUM_AGENT_STEPS_SAMPLED, str(agent)), steps, reduce="sum")
            log((keys.NUM_AGENT_STEPS_SAMPLED_LIFETIME, str(agent)), steps, reduce="lifetime_sum")
            log((keys.NUM_MODULE_STEPS_SAMPLED, module), steps, reduce="sum")
            log((keys.NUM_MODULE_STEPS_SAMPLED_LIFETIME, module), steps, reduce="lifetime_sum")
        self._env_steps = self._episodes_ended = 0
        self._agent_steps.clear()


def callbacks_heard(config: Any, silent: type[RLlibCallback] = RLlibCallback) -> set[str]:
    """Returns the names of the episode callbacks that a config defines, without the ones that `silent` defines."""
    classes = force_list(config.callbacks_class)
    return {
        name
        for name in EVENTS
        if force_list(getattr(config, f"callbacks_{name}"))
        or any(getattr(one, name) not in (getattr(RLlibCallback, name), getattr(silent, name)) for one in classes)
    }
