"""An env runner for several agents that collects the episodes of RLlib's `MultiAgentEnvRunner` several times faster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv
from ray.rllib.utils.metrics import (
    ENV_TO_MODULE_CONNECTOR,
    MODULE_TO_ENV_CONNECTOR,
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    NUM_MODULE_STEPS_SAMPLED,
    NUM_MODULE_STEPS_SAMPLED_LIFETIME,
    RLMODULE_INFERENCE_TIMER,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from envoi.adapters.rllib.form import RLlibForm

from .batched_env_runner import SampleRequest, callbacks_heard, log_fallback
from .multi_agent_connectors import ALL, ActionsByEnv, RowsByModule, add_step, custom_connectors

__all__ = ["BatchedMultiAgentEnvRunner"]


class BatchedMultiAgentEnvRunner(MultiAgentEnvRunner):
    """Samples from environments of several agents, as RLlib's env runner does, with less work per step.

    For equal policies, seeds and settings, its episodes, metrics and calls of callbacks are those of
    `MultiAgentEnvRunner`. Each part of a step has a faster form, and is RLlib's own where that form does not apply;
    `obstacles` and `reason` say why.

    Attributes:
        obstacles: The parts of a step that RLlib's own code runs, and for each what keeps the faster form from it.
    """

    env: Any
    _shared_data: Any
    _ongoing_episodes: Any

    def __init__(self, config: AlgorithmConfig, **kwargs: Any) -> None:
        self.obstacles: dict[str, str] = {}
        super().__init__(config=config, **kwargs)
        self._counts = StepCounts()
        self._acting = Acting(self.module, self._env_to_module, self._module_to_env)
        self.obstacles |= self._acting.obstacles
        self._heard = callbacks_heard(self.config)
        log_fallback(self.reason)

    @staticmethod
    def obstacle_in(config: Any) -> str | None:
        """Returns why a runner of a config would work as RLlib's; None if nothing in the config shows a reason."""
        return None if config.is_multi_agent else "the config has one agent"

    @property
    def reason(self) -> str | None:
        """Why parts of a step are as slow as RLlib's; None if none is."""
        if not self.obstacles:
            return None
        return "; ".join(f"{part}, because of {reason}" for part, reason in self.obstacles.items())

    def make_env(self) -> None:
        super().make_env()
        self.obstacles.pop("stepping", None)
        made = self.env
        envs = cast("Any", made.envs) if type(made) is SyncVectorMultiAgentEnv else ()
        if envs and all(isinstance(env.unwrapped, RLlibForm) for env in envs):
            self.env = SyncForms(made)
        else:
            self.obstacles["stepping"] = f"environments that are not envoi's: {made}"

    def _call(self, which: str, env: int) -> None:
        """Calls the callbacks on an episode, with metrics that count the steps up to now."""
        if which in self._heard:
            self._counts.log(self.metrics)
            self._make_on_episode_callback(which, env, self._episodes)

    @property
    def _episodes(self) -> list[MultiAgentEpisode]:
        """The ongoing episode of each environment; all exist once the environments are reset."""
        return cast("list[MultiAgentEpisode]", self._ongoing_episodes)

    def _sample(self, **asked: Any) -> list[MultiAgentEpisode]:
        """Collects steps or episodes; see `MultiAgentEnvRunner._sample`, whose order of events it keeps."""
        request = SampleRequest(**asked)
        if request.force_reset or request.num_episodes is not None or self._needs_initial_reset:
            self._reset_envs_and_episodes(request.explore)
        if request.num_episodes is not None:
            self._needs_initial_reset = True
        done = self._collect(request)
        self._counts.log(self.metrics)
        self._done_episodes_for_metrics.extend(done)
        return done if request.num_timesteps is None else done + self._cut_episodes()

    def _collect(self, request: SampleRequest) -> list[MultiAgentEpisode]:
        """Makes steps, and returns the episodes that end in them."""
        done: list[MultiAgentEpisode] = []
        env_steps = agent_steps = 0
        by_env = self.config.count_steps_by == "env_steps"
        arguments: dict[str, Any] = {"explore": request.explore, "metrics": self.metrics}
        while not request.is_met(env_steps if by_env else agent_steps, len(done)):
            arguments["shared_data"] = self._shared_data
            if request.random_actions:
                columns = self._random_columns()
            else:
                batch, self._cached_to_module = self._cached_to_module, None
                runners = self.config.num_env_runners or 1
                t = (self.num_env_steps_sampled_lifetime // runners + env_steps) * runners
                columns = self._acting.columns(batch, t, episodes=self._ongoing_episodes, **arguments)
            self._shared_data["vector_env_episodes_map"] = {}
            actions = columns.pop(Columns.ACTIONS, None) or [{} for _ in self._ongoing_episodes]
            step = self._try_env_step(columns.pop(Columns.ACTIONS_FOR_ENV, actions))
            if isinstance(step, str) and step == ENV_STEP_FAILURE:
                env_steps = agent_steps = 0
                self._reset_envs_and_episodes(request.explore)
                continue
            begun, new_env_steps, new_agent_steps = self._add_steps(actions, columns, cast("Any", step))
            env_steps, agent_steps = env_steps + new_env_steps, agent_steps + new_agent_steps
            ended = self._end_episodes(begun, request.missing_episodes(len(done)))
            done += ended
            self._cached_to_module = self._acting.next_batch(
                self._ongoing_episodes, ended, actions, cast("Any", step), **arguments
            )
            if self.episodes_to_numpy:
                for episode in ended:
                    episode.to_numpy()
        return done

    def _random_columns(self) -> dict[str, list[dict[Any, Any]]]:
        """Returns random actions of all agents that act next."""
        envs = self.env.envs
        return {
            Columns.ACTIONS: [
                {agent: env.unwrapped.get_action_space(agent).sample() for agent in episode.get_agents_to_act()}
                for env, episode in zip(envs, self._episodes, strict=True)
            ]
        }

    def _add_steps(
        self, actions: Sequence[Mapping[Any, Any]], columns: Mapping[str, Any], step: Sequence[Any]
    ) -> tuple[set[int], int, int]:
        """Adds a step of all environments to their episodes."""
        begun: set[int] = set()
        env_steps = agent_steps = 0
        counts, now, weights = self._counts, time.perf_counter(), self._weights_seq_no
        for env, (episode, *values) in enumerate(zip(self._episodes, *step, strict=True)):
            observations, rewards, terminateds, truncateds, infos = values
            if not episode.agent_episodes:  # it was reset in this step
                episode.add_env_reset(observations=observations, infos=infos)
                begun.add(env)
                continue
            outputs: dict[Any, dict[str, Any]] = {}
            for column, by_env in columns.items():
                for agent, value in by_env[env].items():
                    if agent in outputs:
                        outputs[agent][column] = value
                    else:
                        outputs[agent] = {column: value, WEIGHTS_SEQ_NO: weights}
            add_step(episode, now, observations, actions[env], rewards, infos, terminateds, truncateds, outputs)
            counts.add(observations, episode)
            env_steps += 1
            agent_steps += len(observations)
        if env_steps:
            self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=env_steps)
        return begun, env_steps, agent_steps

    def _end_episodes(self, begun: set[int], most: int | None) -> list[MultiAgentEpisode]:
        """Calls the callbacks of a step, and replaces the episodes that have ended by new ones."""
        ended: list[MultiAgentEpisode] = []
        for env, episode in enumerate(self._episodes):
            self._call("on_episode_start" if env in begun else "on_episode_step", env)
            if not (episode.is_terminated or episode.is_truncated):
                continue
            self._call("on_episode_end", env)
            self._prune_zero_len_sa_episodes(episode)
            ended.append(episode)
            self._new_episode(env, self._ongoing_episodes)
            self._shared_data["vector_env_episodes_map"][episode.id_] = self._episodes[env].id_
            if most is not None and len(ended) >= most:
                break
        return ended

    def _cut_episodes(self) -> list[MultiAgentEpisode]:
        """Returns the ongoing episodes up to the last step, and continues them in new objects."""
        before = self._episodes
        horizon = cast("int", self.config.episode_lookback_horizon)
        self._ongoing_episodes = [episode.cut(len_lookback_buffer=horizon) for episode in before]
        cut = [episode for episode in before if episode.env_t > 0]  # the others have just begun
        for episode in cut:
            self._ongoing_episodes_for_metrics[episode.id_].append(episode)
            self._prune_zero_len_sa_episodes(episode)
            if self.episodes_to_numpy:
                episode.to_numpy()
        return cut


class Acting:
    """The way from the latest observations to the next actions.

    Attributes:
        obstacles: The pipelines that RLlib's own code runs, and for each what keeps the faster form from it.
    """

    def __init__(self, module: Any, to_module: Any, to_env: Any) -> None:
        self.obstacles: dict[str, str] = {}
        self._module, self._to_module, self._to_env = module, to_module, to_env
        stateful = module is not None and module.is_stateful()
        for part, pipeline in (("env-to-module", to_module), ("module-to-env", to_env)):
            if names := custom_connectors(pipeline):
                self.obstacles[part] = f"connectors other than RLlib's defaults: {', '.join(names)}"
            elif stateful:
                self.obstacles[part] = "a policy keeps a state"
        self._rows = None if "env-to-module" in self.obstacles else RowsByModule(to_module)
        self._actions = None if "module-to-env" in self.obstacles else ActionsByEnv(to_env)

    def columns(self, batch: Any, t: int, **arguments: Any) -> dict[str, list[dict[Any, Any]]]:
        """Returns the actions and other outputs of the policies: by column a mapping from agents per environment."""
        if not batch:  # all environments are reset next
            return {}
        with arguments["metrics"].log_time(RLMODULE_INFERENCE_TIMER):
            explores, module = arguments["explore"], self._module
            outputs = module.forward_exploration(batch, t=t) if explores else module.forward_inference(batch)
        if self._actions is not None:
            return self._actions(rl_module=self._module, batch=outputs, **arguments)
        return self._to_env(
            rl_module=self._module, batch=outputs, metrics_prefix_key=(MODULE_TO_ENV_CONNECTOR,), **arguments
        )

    def next_batch(
        self, episodes: list[Any], ended: list[Any], actions: Sequence[Any], step: Sequence[Any], **arguments: Any
    ) -> Any:
        """Returns the input of the policies for the next step."""
        if self._module is None:
            return None
        if self._rows is not None:
            shared_data, metrics = arguments["shared_data"], arguments["metrics"]
            return self._rows(episodes=episodes, rl_module=self._module, shared_data=shared_data, metrics=metrics)
        observations, rewards, terminateds, truncateds, infos = step
        arguments |= {
            "rl_module": self._module,
            Columns.OBS: observations,
            Columns.ACTIONS: actions,
            Columns.REWARDS: rewards,
            Columns.INFOS: infos,
            Columns.TERMINATEDS: terminateds,
            Columns.TRUNCATEDS: truncateds,
        }
        if ended:
            self._to_module(batch={}, episodes=ended, **{**arguments, "metrics": None})
        return self._to_module(batch={}, episodes=episodes, metrics_prefix_key=(ENV_TO_MODULE_CONNECTOR,), **arguments)


class StepCounts:
    """Sums what `MultiAgentEnvRunner._increase_sampled_metrics` logs in each step of each environment.

    Attributes:
        env_steps: The number of environment steps since the last `log`.
    """

    def __init__(self) -> None:
        self.env_steps = 0
        self._episodes = 0
        self._agents: Counter[tuple[Any, Any]] = Counter()

    def add(self, observed: Iterable[Any], episode: Any) -> None:
        """Counts a step of one environment."""
        self.env_steps += 1
        self._episodes += bool(episode.is_terminated or episode.is_truncated)
        agents, modules = self._agents, episode._agent_to_module_mapping
        for agent in observed:
            module = modules[agent] if agent in modules else episode.module_for(agent)
            agents[agent, module] += 1

    def log(self, metrics: MetricsLogger) -> None:
        """Logs the sums since the last call, and begins at zero again."""
        if not self.env_steps:
            return
        metrics.log_value(NUM_ENV_STEPS_SAMPLED, self.env_steps, reduce="sum")
        metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, self.env_steps, reduce="lifetime_sum", with_throughput=True)
        if self._episodes:
            metrics.log_value(NUM_EPISODES, self._episodes, reduce="sum")
            metrics.log_value(NUM_EPISODES_LIFETIME, self._episodes, reduce="lifetime_sum")
        for (agent, module), steps in self._agents.items():
            metrics.log_value((NUM_AGENT_STEPS_SAMPLED, str(agent)), steps, reduce="sum")
            metrics.log_value((NUM_AGENT_STEPS_SAMPLED_LIFETIME, str(agent)), steps, reduce="lifetime_sum")
            metrics.log_value((NUM_MODULE_STEPS_SAMPLED, module), steps, reduce="sum")
            metrics.log_value((NUM_MODULE_STEPS_SAMPLED_LIFETIME, module), steps, reduce="lifetime_sum")
        self.env_steps = self._episodes = 0
        self._agents.clear()


EnvSteps = tuple[Any, Any, Any, Any, Any]
"""Observations, rewards, both flags and infos: a sequence each, with a mapping per environment."""


class SyncForms(SyncVectorMultiAgentEnv):
    """RLlib's vector environment of envoi's forms, which return new values in each step, so that none is copied."""

    def __init__(self, made: SyncVectorMultiAgentEnv) -> None:
        self.__dict__.update(made.__dict__)
        self.copy = False
        made.closed = True  # or it would close the environments when it is collected
        self._ended = [False] * self.num_envs

    def reset(self, *, seed: Any = None, options: Mapping[str, Any] | None = None) -> Any:
        self._ended = [False] * self.num_envs
        observations, infos = super().reset(seed=seed, options=cast("dict[str, Any]", options))
        return list(observations), list(infos)

    def step(self, actions: Sequence[Mapping[Any, Any]]) -> EnvSteps:
        """Acts once in each environment; one that has ended is reset instead."""
        results: list[tuple[Any, ...]] = []
        for env, acts, ended in zip(cast("list[Any]", self.envs), actions, self._ended, strict=True):
            if ended:
                observations, infos = env.reset()
                results.append((observations, {}, {ALL: False}, {ALL: False}, infos))
            else:
                results.append(env.step(acts))
        columns = cast("EnvSteps", tuple(zip(*results, strict=True)))
        self._ended = [bool(one[ALL] or other[ALL]) for one, other in zip(columns[2], columns[3], strict=True)]
        self._autoreset_envs = np.array(self._ended)
        return columns
