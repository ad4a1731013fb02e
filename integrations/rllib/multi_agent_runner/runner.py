"""An env runner for several agents that collects the episodes of RLlib's `MultiAgentEnvRunner` several times faster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.columns import Columns
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from ..batched_runner.fallback_log import log_fallback
from ..batched_runner.obstacles import callbacks_heard
from ..batched_runner.sample_request import SampleRequest
from ..registration import env_of_config
from .acting import Acting
from .episode_steps import add_step
from .model_lanes import ModelLanes, why_not_lanes
from .policies import Policies
from .step_counts import StepCounts
from .vector_env import SyncForms, are_forms

__all__ = ["BatchedMultiAgentEnvRunner"]


class BatchedMultiAgentEnvRunner(MultiAgentEnvRunner):
    """Samples from environments of several agents, as RLlib's env runner does, with less work per step.

    For equal policies, seeds and settings, its episodes, metrics and calls of callbacks are those of
    `MultiAgentEnvRunner`. Each part of a step has a faster form, and is RLlib's own where that form does not apply;
    `obstacles` and `reason` say why.

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
        if type(made) is not SyncVectorMultiAgentEnv or not are_forms(cast("Any", made.envs)):
            self.obstacles["stepping"] = f"environments that are not envoi's: {made}"
            return
        known = env_of_config(self.config)
        may_batch = known is None or known.options.vectorize is not False
        together = may_batch and why_not_lanes(cast("Any", made.envs)) is None
        self.env = ModelLanes(made) if together else SyncForms(made)

    def _call(self, which: str, env: int) -> None:
        """Calls the callbacks on an episode, with metrics that count the steps up to now."""
        if which in self._heard:
            self._counts.log(self.metrics)
            if isinstance(self.env, ModelLanes):
                self.env.show(env)
            self._make_on_episode_callback(which, env, self._episodes)

    @property
    def _episodes(self) -> list[MultiAgentEpisode]:
        """The ongoing episode of each environment; all exist once the environments are reset."""
        return cast("list[MultiAgentEpisode]", self._ongoing_episodes)

    def _sample(self, **asked: Any) -> list[MultiAgentEpisode]:
        """Collects steps or episodes; see `MultiAgentEnvRunner._sample`, whose order of events it keeps.

        Args:
            **asked: The arguments of a `SampleRequest`.

        Returns:
            The episodes that have ended, and with `num_timesteps` those that continue, up to the last step.
        """
        request = SampleRequest(**asked)
        if request.force_reset or request.num_episodes is not None or self._needs_initial_reset:
            self._reset_envs_and_episodes(request.explore)
        if request.num_episodes is not None:
            self._needs_initial_reset = True
        with nullcontext() if request.random_actions else Policies(self.module, request.explore) as policies:
            done = self._collect(request, policies)
        self._counts.log(self.metrics)
        self._done_episodes_for_metrics.extend(done)
        return done if request.num_timesteps is None else done + self._cut_episodes()

    def _collect(self, request: SampleRequest, policies: Policies | None) -> list[MultiAgentEpisode]:
        """Makes steps, and returns the episodes that end in them.

        Args:
            request: What to collect; its steps are of environments or agents, as `count_steps_by` has it.
            policies: Choose the actions; None for random ones.
        """
        done: list[MultiAgentEpisode] = []
        env_steps = agent_steps = 0
        by_env = self.config.count_steps_by == "env_steps"
        arguments: dict[str, Any] = {"explore": request.explore, "metrics": self.metrics}
        while not request.is_met(env_steps if by_env else agent_steps, len(done)):
            arguments["shared_data"] = self._shared_data
            if policies is None:
                columns = self._random_columns()
            else:
                batch, self._cached_to_module = self._cached_to_module, None
                runners = self.config.num_env_runners or 1
                t = (self.num_env_steps_sampled_lifetime // runners + env_steps) * runners
                columns = self._acting.columns(policies, batch, t, episodes=self._ongoing_episodes, **arguments)
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
