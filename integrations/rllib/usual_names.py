"""The names that other libraries and older versions of RLlib have for its settings."""

from __future__ import annotations

from collections.abc import Mapping

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "learning_rate": ("lr",),
    "policy_lr": ("actor_lr",),
    "batch_size": ("minibatch_size", "train_batch_size_per_learner"),
    "sgd_minibatch_size": ("minibatch_size",),
    "n_steps": ("train_batch_size_per_learner",),
    "num_steps": ("train_batch_size_per_learner",),
    "n_epochs": ("num_epochs",),
    "update_epochs": ("num_epochs",),
    "num_sgd_iter": ("num_epochs",),
    "clip_range": ("clip_param",),
    "clip_coef": ("clip_param",),
    "ent_coef": ("entropy_coeff",),
    "entropy_coef": ("entropy_coeff",),
    "vf_coef": ("vf_loss_coeff",),
    "gae_lambda": ("lambda_",),
    "discount": ("gamma",),
    "max_grad_norm": ("grad_clip",),
    "buffer_size": ("replay_buffer_config.capacity",),
    "learning_starts": ("num_steps_sampled_before_learning_starts",),
    "target_update_interval": ("target_network_update_freq",),
    "exploration_fraction": ("epsilon",),
    "exploration_final_eps": ("epsilon",),
    "n_envs": ("num_envs_per_env_runner",),
    "num_envs": ("num_envs_per_env_runner",),
    "num_workers": ("num_env_runners",),
    "net_arch": ("model.fcnet_hiddens",),
    "hidden_sizes": ("model.fcnet_hiddens",),
    "fcnet_hiddens": ("model.fcnet_hiddens",),
    "fcnet_activation": ("model.fcnet_activation",),
    "activation": ("model.fcnet_activation",),
    "activation_fn": ("model.fcnet_activation",),
    "use_lstm": ("model.use_lstm",),
    "conv_filters": ("model.conv_filters",),
}
"""RLlib's names by those of Stable-Baselines3, CleanRL and older versions of RLlib; several where RLlib tells apart
what they do not."""
