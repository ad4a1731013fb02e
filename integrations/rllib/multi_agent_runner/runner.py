"""An env runner for several agents that collects the episodes of RLlib's `MultiAgentEnvRunner` several times faster."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv
from ray.rllib.utils import force_list
from ray.rllib.utils.metrics import (
    ENV_TO_MODULE_CONNECTOR,
    MODULE_TO_ENV_CONNECTOR,
    RLMODULE_INFERENCE_TIMER,
    WEIGHTS_SEQ_NO,
)

from ..registration import env_of_config
from .connectors import ActionsByEnv, RowsByModule, custom_connectors
from .episode_steps import add_step
from .model_lanes import ModelLanes, why_not_lanes
from .step_counts import StepCounts
from .vector_env import SyncForms, are_forms

__all__ = ["BatchedMultiAgentEnvRunner"]

logger = logging.getLogger("envoi")


class BatchedMultiAgentEnvRunner(MultiAgentEnvRunner):
    """Samples from environments of several agents, as RLlib's env runner does, with less work per step.

    For equal policies, seeds and settings, its episodes, metrics and calls of callbacks are those of
    `MultiAgentEnvRunner`. Each part of a step has a faster form, and is RLlib's own where that form does not apply;
    `obstacles` says why.

    Args:
        config: The config, of several agents.
        **kwargs: As for `MultiAgentEnvRunner`, such as `worker_index`.

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
        stateful = self.module is not None and self.module.is_stateful()
        self._rows = self._actions = None
        for part, pipeline in (("env-to-module", self._env_to_module), ("module-to-env", self._module_to_env)):
            if names := custom_connectors(cast("Any", pipeline)):
                self.obstacles[part] = f"connectors other than RLlib's defaults: {', '.join(names)}"
            elif stateful:
                self.obstacles[part] = "a policy keeps a state"
            elif part == "env-to-module":
                self._rows = RowsByModule(cast("Any", pipeline))
            else:
                self._actions = ActionsByEnv(cast("Any", pipeline))
        if self.obstacles and (self.worker_index or 0) <= 1:
            said = "; ".join(f"{part}, because of {reason}" for part, reason in self.obstacles.items())
            logger.info("parts of a step that RLlib runs itself, more slowly: %s", said)
        self._called = {which for which in _EPISODE_CALLBACKS if self._has_callback(which)}

    def make_env(self) -> None:
        super().make_env()
        self.obstacles.pop("stepping", None)
        made = self.env
        if type(made) is not SyncVectorMultiAgentEnv or not are_forms(cast("Any", made.envs)):
            self.obstacles["stepping"] = f"environments that are not envoi's: {made}"
            return
        known = env_of_config(self.config)
        may_batch = known is None or known.options.vectorize is not False
        together = may_batch and why_not_lanes(cast("Any", made.envs)) is None
        self.env = ModelLanes(made) if together else SyncForms(made)

    def _has_callback(self, which: str) -> bool:
        default = getattr(RLlibCallback, which)
        return bool(force_list(getattr(self.config, f"callbacks_{which}"))) or any(
            getattr(type(callback), which) is not default for callback in self._callbacks
        )

    def _call(self, which: str, env: int) -> None:
        """Calls the callbacks on an episode, with metrics that count the steps up to now."""
        if which in self._called:
            self._counts.log(self.metrics)
            if isinstance(self.env, ModelLanes):
                self.env.show(env)
            self._make_on_episode_callback(which, env, self._episodes)

    @property
    def _episodes(self) -> list[MultiAgentEpisode]:
        """The ongoing episode of each environment; all exist once the environments are reset."""
        return cast("list[MultiAgentEpisode]", self._ongoing_episodes)

    def _sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[MultiAgentEpisode]:
        """Collects steps or episodes; see `MultiAgentEnvRunner._sample`, whose order of events it keeps.

        Args:
            num_timesteps: The number of steps, of environments or agents as `count_steps_by` has it.
            num_episodes: The number of episodes, if there is no `num_timesteps`.
            explore: If True, the policies explore.
            random_actions: If True, actions are samples of the action spaces.
            force_reset: If True, all environments are reset first.

        Returns:
            The episodes that have ended, and with `num_timesteps` those that continue, up to the last step.
        """
        if force_reset or num_episodes is not None or self._needs_initial_reset:
            self._reset_envs_and_episodes(explore)
        if num_episodes is not None:
            self._needs_initial_reset = True
        done: list[MultiAgentEpisode] = []
        env_steps = agent_steps = 0
        by_env = self.config.count_steps_by == "env_steps"
        while (
            len(done) < cast("int", num_episodes)
            if num_timesteps is None
            else ((env_steps if by_env else agent_steps) < num_timesteps)
        ):
            columns = self._random_columns() if random_actions else self._policy_columns(explore, env_steps)
            self._shared_data["vector_env_episodes_map"] = {}
            actions = columns.pop(Columns.ACTIONS, None) or [{} for _ in self._ongoing_episodes]
            step = self._try_env_step(columns.pop(Columns.ACTIONS_FOR_ENV, actions))
            if isinstance(step, str) and step == ENV_STEP_FAILURE:
                env_steps = agent_steps = 0
                self._reset_envs_and_episodes(explore)
                continue
            begun, new_env_steps, new_agent_steps = self._add_steps(actions, columns, cast("Any", step))
            env_steps, agent_steps = env_steps + new_env_steps, agent_steps + new_agent_steps
            ended = self._end_episodes(begun, None if num_episodes is None else num_episodes - len(done))
            done += ended
            self._cached_to_module = self._next_rows(explore, ended, actions, cast("Any", step))
            if self.episodes_to_numpy:
                for episode in ended:
                    episode.to_numpy()
        self._counts.log(self.metrics)
        self._done_episodes_for_metrics.extend(done)
        return done if num_timesteps is None else done + self._cut_episodes()

    def _random_columns(self) -> dict[str, list[dict[Any, Any]]]:
        """Returns random actions of all agents that act next."""
        envs = self.env.envs
        return {
            Columns.ACTIONS: [
                {agent: env.unwrapped.get_action_space(agent).sample() for agent in episode.get_agents_to_act()}
                for env, episode in zip(envs, self._episodes, strict=True)
            ]
        }

    def _policy_columns(self, explore: bool, env_steps: int) -> dict[str, list[dict[Any, Any]]]:
        """Returns the actions and other outputs of the policies: by column a mapping from agents per environment."""
        batch, self._cached_to_module = cast("Any", self._cached_to_module), None
        if not batch:  # all environments are reset next
            return {}
        module = cast("Any", self.module)
        with self.metrics.log_time(RLMODULE_INFERENCE_TIMER):
            if explore:
                runners = self.config.num_env_runners or 1
                steps = (self.num_env_steps_sampled_lifetime // runners + env_steps) * runners
                outputs = module.forward_exploration(batch, t=steps)
            else:
                outputs = module.forward_inference(batch)
        arguments: dict[str, Any] = {
            "rl_module": module,
            "batch": outputs,
            "episodes": self._ongoing_episodes,
            "explore": explore,
            "shared_data": self._shared_data,
            "metrics": self.metrics,
        }
        if self._actions is not None:
            return self._actions(**arguments)
        return cast("Any", self._module_to_env)(**arguments, metrics_prefix_key=(MODULE_TO_ENV_CONNECTOR,))

    def _add_steps(
        self, actions: Sequence[Mapping[Any, Any]], columns: Mapping[str, Any], step: Sequence[Any]
    ) -> tuple[set[int], int, int]:
        """Adds a step of all environments to their episodes.

        Args:
            actions: The actions by agent, for each environment.
            columns: The further outputs of the policies; by column a mapping from agents for each environment.
            step: Observations, rewards, both flags and infos, with a mapping for each environment.

        Returns:
            The environments that were reset, and the numbers of environment and agent steps.
        """
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
        """Calls the callbacks of a step, and replaces the episodes that have ended by new ones.

        Args:
            begun: The environments that were reset in the step.
            most: The number of episodes that are still to be collected; None for any number.

        Returns:
            The episodes that have ended, as RLlib returns them.
        """
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

    def _next_rows(
        self, explore: bool, ended: list[MultiAgentEpisode], actions: Sequence[Any], step: Sequence[Any]
    ) -> Any:
        """Returns the input of the policies for the next step.

        Args:
            explore: If True, the policies explore.
            ended: The episodes that have just ended, which custom connectors may change a last time.
            actions: The actions of the step, for each environment.
            step: Its observations, rewards, both flags and infos, for each environment.
        """
        if self.module is None:
            return None
        if self._rows is not None:
            return self._rows(
                episodes=self._episodes, rl_module=self.module, shared_data=self._shared_data, metrics=self.metrics
            )
        observations, rewards, terminateds, truncateds, infos = step
        arguments: dict[str, Any] = {
            "batch": {},
            "explore": explore,
            "rl_module": self.module,
            "shared_data": self._shared_data,
            Columns.OBS: observations,
            Columns.ACTIONS: actions,
            Columns.REWARDS: rewards,
            Columns.INFOS: infos,
            Columns.TERMINATEDS: terminateds,
            Columns.TRUNCATEDS: truncateds,
        }
        pipeline = cast("Any", self._env_to_module)
        if ended:
            pipeline(episodes=ended, metrics=None, **arguments)
        return pipeline(
            episodes=self._ongoing_episodes,
            metrics=self.metrics,
            metrics_prefix_key=(ENV_TO_MODULE_CONNECTOR,),
            **({**arguments, "batch": {}}),
        )

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


_EPISODE_CALLBACKS = ("on_episode_start", "on_episode_step", "on_episode_end")
