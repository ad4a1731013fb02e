"""Use envoi in an RLlib script of your own: any config, your callbacks beside envoi's, and errors that are seen.

python examples/own_tuner.py
"""

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPO, PPOConfig

from envoi.integrations.rllib import configure, register


def _count_episodes(*, metrics_logger, **_):
    metrics_logger.log_value("episodes_seen", 1, reduce="sum")


def _main():
    ray.init(log_to_driver=False)  # logs of the trials' processes would come between the lines of the table
    register("my-catch", "envoi:catch", step_timeout=10)
    config = PPOConfig().training(lr=1e-3, train_batch_size_per_learner=512, minibatch_size=128, num_epochs=4)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    config.debugging(log_level="ERROR")
    configure(config, "my-catch", on_env_error="restart", max_env_restarts=2)
    config.callbacks(on_episode_end=_count_episodes)

    run = tune.RunConfig(stop={"training_iteration": 2}, verbose=0)
    result = tune.Tuner(PPO, param_space=config, run_config=run).fit()[0]
    print("error:", result.error)
    print("iteration   episodes   return")
    for row in result.metrics_dataframe.to_dict("records"):
        mean, seen = row["env_runners/episode_return_mean"], row["env_runners/episodes_seen"]
        print(f"{row['training_iteration']:9}{seen:11.0f}   {mean:+.2f}")


if __name__ == "__main__":
    _main()
