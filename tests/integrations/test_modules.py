"""Modules with action masks, and networks for images and nested observations, in RLlib's own runners and learners."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from pictures import BesideVector, Guarded, GuardedCamera, GuardedPair, Screen
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.cql import CQLConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.iql.iql import IQLConfig
from ray.rllib.algorithms.marwil import MARWILConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer

import envoi
from envoi.adapters.rllib.creator import FORM

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # RLlib makes an env while this is imported
    from ray.rllib.algorithms.dreamerv3 import DreamerV3Config

from envoi.integrations.evaluation import evaluate_run
from envoi.integrations.rllib import Settings, configure, load_policy, train
from envoi.integrations.rllib.configuration import UnmaskedWarning
from envoi.integrations.rllib.modules import (
    MaskedAPPOModule,
    MaskedDQNModule,
    MaskedPPOModule,
    StructuredPPOCatalog,
    StructuredSACCatalog,
    check_module,
    conv_filters,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Overriding environment"),
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
]

SMALL = {"fcnet_hiddens": [16, 16], "max_seq_len": 10}


def config_for(kind, env, lanes=16, **model):
    config = kind().env_runners(num_env_runners=0, num_envs_per_env_runner=lanes, rollout_fragment_length=20)
    config.rl_module(model_config={**SMALL, **model})
    if kind is DQNConfig:
        config.training(replay_buffer_config={"type": "EpisodeReplayBuffer"}, epsilon=0.5)
    if kind is SACConfig:
        config.training(replay_buffer_config={"type": "EpisodeReplayBuffer"})
    return configure(config, env)


class Trained:
    """An env runner and a learner of one process."""

    def __init__(self, config):
        self.config = config
        self.has_agents = config.is_multi_agent
        kind = MultiAgentEnvRunner if self.has_agents else SingleAgentEnvRunner
        self.runner = kind(config=config, worker_index=0)
        self.learner = config.build_learner(spaces=self.runner.get_spaces())

    def sample(self, steps):
        episodes = self.runner.sample(num_timesteps=steps, random_actions=False)
        return [episode.to_numpy() for episode in episodes if len(episode)]

    def update(self, episodes):
        before = self.weights()
        if isinstance(self.config, (DQNConfig, SACConfig)):
            buffer = EpisodeReplayBuffer(capacity=10_000)
            buffer.add(episodes)
            episodes = buffer.sample(64, n_step=1, sample_episodes=True)
        data, at = TrainingData(episodes=episodes), {"num_env_steps_sampled_lifetime": 1}
        if isinstance(self.config, IMPALAConfig):
            self.update_without_ray(data)
        else:
            self.learner.update(training_data=data, timesteps=at, num_epochs=1, minibatch_size=64)
        assert all(torch.isfinite(one).all() for one in self.weights())
        assert any(not torch.equal(one, other) for one, other in zip(before, self.weights(), strict=True))
        state = self.learner.module.get_state(inference_only=True)
        self.runner.module.set_state(state if self.has_agents else state[DEFAULT_MODULE_ID])

    def update_without_ray(self, data):
        """One update of IMPALA or APPO, whose own starts Ray for its threads."""
        learner = self.learner
        batch = learner._make_batch_if_necessary(training_data=data).policy_batches
        losses = learner.compute_losses(fwd_out=learner.module.forward_train(batch), batch=batch)
        learner.apply_gradients(learner.compute_gradients(losses))

    def weights(self):
        return [one.detach().clone() for module in self.learner.module.values() for one in module.parameters()]


# Masks.


@pytest.mark.parametrize(
    ("kind", "env"),
    [
        (PPOConfig, Guarded),
        (PPOConfig, GuardedPair),  # each integer of a MultiDiscrete action has its mask
        (APPOConfig, GuardedCamera),
        (IMPALAConfig, Guarded),
        (DQNConfig, Guarded),
        (SACConfig, GuardedCamera),
    ],
)
def test_no_action_is_illegal_before_and_after_updates(kind, env):
    trained = Trained(config_for(kind, env))
    for _ in range(2):  # the env raises an error at an illegal action
        trained.update(trained.sample(200))
    trained.sample(200)
    if env is not GuardedPair:  # RLlib's own runner fails where the log-probabilities change their shape
        trained.runner.sample(num_timesteps=50, explore=False)


@pytest.mark.parametrize(
    ("kind", "env"), [(PPOConfig, GuardedCamera), (APPOConfig, Guarded), (DQNConfig, GuardedCamera)]
)
def test_recurrent_modules_with_masks(kind, env):
    trained = Trained(config_for(kind, env, use_lstm=True, lstm_cell_size=8))
    assert trained.runner.module.is_stateful()
    if kind is not DQNConfig:  # RLlib's replay of sequences asks for more settings
        trained.update(trained.sample(100))
    trained.sample(100)


def legal_moves(episodes):
    """The number of moves in games, all of which their masks allow."""
    moves = 0
    for episode in episodes:
        for agent in episode.to_numpy().agent_episodes.values():
            actions = np.asarray(agent.get_actions())
            assert agent.get_observations()["action_mask"][np.arange(len(actions)), actions].all()
            moves += len(actions)
    return moves


@pytest.mark.parametrize("name", ["pettingzoo:classic/tictactoe_v3", "envoi:nim"])
def test_board_games_are_played_legally(name):
    config = PPOConfig().env_runners(num_env_runners=0, num_envs_per_env_runner=4).rl_module(model_config=SMALL)
    config.multi_agent(policies={"p"}, policy_mapping_fn=lambda *_, **__: "p")
    trained = Trained(configure(config, name))
    assert isinstance(trained.runner.module["p"], MaskedPPOModule)
    first = trained.sample(100)
    moves = legal_moves(first)
    trained.update(first)
    assert moves + legal_moves(trained.sample(100)) > 150


@pytest.mark.parametrize("kind", [DQNConfig, SACConfig])
def test_self_play_is_legal(kind):
    config = kind().env_runners(num_env_runners=0, num_envs_per_env_runner=8).rl_module(model_config=SMALL)
    config = configure(config, "pettingzoo:classic/connect_four_v3", policies="self-play")
    episodes = config.env_runner_cls(config=config, worker_index=0).sample(num_timesteps=400)
    assert legal_moves(episodes) > 350  # games that have not ended lack the last one


def test_the_value_function_does_not_see_the_mask():
    trained = Trained(config_for(PPOConfig, Guarded))
    module = trained.learner.module[DEFAULT_MODULE_ID]
    seen = torch.rand(4, 3)
    values = [
        module.compute_values({Columns.OBS: {"action_mask": mask, "observations": seen}})
        for mask in (torch.ones(4, 5), torch.zeros(4, 5))
    ]
    assert torch.equal(*values)


@pytest.mark.parametrize("kind", [MaskedPPOModule, MaskedAPPOModule, MaskedDQNModule])
def test_masks_of_any_dtype(kind):
    space = spaces.Dict({"action_mask": spaces.Box(0, 1, (3,), np.float32), "observations": spaces.Box(-1, 1, (2,))})
    extra = {"dueling": True, "double_q": True, "num_atoms": 1, "epsilon": 1.0} if kind is MaskedDQNModule else {}
    module = RLModuleSpec(
        module_class=kind,
        observation_space=space,
        action_space=spaces.Discrete(3),
        model_config=extra,
        catalog_class=config_for(DQNConfig if extra else PPOConfig, Guarded).rl_module_spec.catalog_class,
    ).build()
    for dtype in (torch.float32, torch.int8, torch.bool, torch.uint8):
        mask = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 1]]).to(dtype)
        batch = {Columns.OBS: {"action_mask": mask, "observations": torch.rand(3, 2)}}
        for outputs in (module.forward_inference(batch), module.forward_exploration(batch, t=0)):
            if Columns.ACTIONS in outputs:
                assert outputs[Columns.ACTIONS].tolist() == [1, 0, 2]
            else:
                assert outputs[Columns.ACTION_DIST_INPUTS].argmax(-1).tolist() == [1, 0, 2]
                assert torch.softmax(outputs[Columns.ACTION_DIST_INPUTS], -1).max(-1).values.tolist() == [1, 1, 1]


def test_random_actions_of_dqn_are_legal_among_equal_values():
    trained = Trained(config_for(DQNConfig, Guarded))
    for parameter in trained.runner.module.parameters():
        torch.nn.init.zeros_(parameter)
    trained.runner.module.epsilon_schedule._schedule_fixed_value = 1.0
    trained.sample(200)


@pytest.mark.parametrize(
    ("env", "options", "masked"),
    [(Guarded, {"action_masks": False}, False), ("envoi:catch", {}, False), (Guarded, {}, True)],
)
def test_masks_are_there_where_wanted(env, options, masked):
    config = configure(PPOConfig(), env, **options)
    assert config.env_config[FORM]["action_masks"] is masked
    default = PPOConfig().get_default_rl_module_spec().module_class
    assert config.rl_module_spec.module_class is (MaskedPPOModule if masked else default)


@pytest.mark.parametrize(
    ("kind", "env", "message"),
    [
        (PPOConfig, "gymnasium:Pendulum-v1", "masks are for Discrete"),
        (DreamerV3Config, Guarded, "DreamerV3 has no module with masks; these have one: PPO"),
        (CQLConfig, "envoi:pendulum", "CQL has no module with masks; these have one: PPO"),
        (IQLConfig, "envoi:pendulum", "IQL has no module with masks"),
        (TQCConfig, "envoi:pendulum", "TQC has no module with masks"),
    ],
)
def test_masks_that_cannot_be_are_errors(kind, env, message):
    with pytest.raises(envoi.EnvoiError, match=message):
        configure(kind(), env, action_masks=True)


def test_an_algorithm_without_masks_warns():
    with pytest.warns(UnmaskedWarning, match="chooses illegal actions"):
        configure(DreamerV3Config(), Guarded)


@pytest.mark.parametrize("scale", [0, 1, 1e4])
def test_probabilities_of_sac_are_those_of_legal_actions_and_finite_for_any_logits(scale):
    module = Trained(config_for(SACConfig, Guarded)).learner.module[DEFAULT_MODULE_ID]
    for parameter in module.parameters():
        parameter.data *= scale
    mask = torch.eye(5)[[0, 1, 4]] + torch.eye(5)[[2, 1, 3]]
    observations = {"action_mask": mask, "observations": torch.rand(3, 3) * 2 - 1}
    outputs = module.forward_train({Columns.OBS: observations, Columns.NEXT_OBS: observations})
    for name in ("action_probs", "action_probs_next"):
        assert (outputs[name][mask == 0] == 0).all()
        assert outputs[name].sum(-1).tolist() == pytest.approx([1, 1, 1])
    for name in ("action_log_probs", "action_log_probs_next"):
        assert torch.isfinite(outputs[name]).all()
    outputs["action_log_probs"].sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in module.pi.parameters())


# Images.


@pytest.mark.parametrize("size", [(1, 1), (84, 84), (210, 160), (500, 3), (12, 400), (11, 12)])
def test_convolutions_leave_a_small_map_of_any_image(size):
    height, width = size
    module = build(PPOConfig, spaces.Box(0, 255, (height, width, 2), np.uint8))
    assert module.forward_inference({Columns.OBS: torch.zeros(2, height, width, 2, dtype=torch.uint8)})
    for _, _, stride in conv_filters(height, width):
        down, right = stride if isinstance(stride, list) else (stride, stride)
        height, width = -(-height // down), -(-width // right)
    assert 1 <= min(height, width) <= max(height, width) <= 11


def build(kind, space, action=None, **model):
    config = kind().rl_module(model_config={**SMALL, **model})
    from envoi.integrations.rllib.modules import set_modules

    set_modules(config, [(space, action or spaces.Discrete(3))])
    spec = config.get_rl_module_spec(spaces={DEFAULT_MODULE_ID: (space, action or spaces.Discrete(3))})
    return spec.build()


RANGES = {
    "a": (0, 255, np.uint8),
    "b": (10, 20, np.uint8),
    "c": (-1, 3, np.float32),
    "d": (-np.inf, np.inf, np.float32),
}


def test_images_are_scaled_to_0_to_1():
    space = spaces.Dict(
        {key: spaces.Box(low, high, (5, 5, 1), np.dtype(kind)) for key, (low, high, kind) in RANGES.items()}
    )
    encoder = build(PPOConfig, space, vf_share_layers=True).encoder.encoder
    seen = {}
    for name, convolutions in zip(space.spaces, encoder.convolutions, strict=True):
        convolutions.register_forward_pre_hook(lambda _, inputs, name=name: seen.update({name: inputs[0][Columns.OBS]}))
    batch = {name: torch.as_tensor(np.stack([box.high, box.low])) for name, box in space.spaces.items()}
    batch["d"] = torch.tensor([7.0, -7.0]).reshape(2, 1, 1, 1).expand(2, 5, 5, 1)
    encoder({Columns.OBS: batch})
    assert {name: pixels.flatten(1)[:, 0].tolist() for name, pixels in seen.items()} == {
        "a": [1, 0], "b": [1, 0], "c": [1, 0], "d": [7, -7]
    }  # fmt: skip
    assert {pixels.dtype for pixels in seen.values()} == {torch.float32}


CAM = spaces.Dict({"cam": spaces.Box(0, 255, (20, 20, 3), np.uint8), "vector": spaces.Box(-1, 1, (4,))})


def test_settings_of_the_user_reach_the_networks():
    model = {"conv_filters": [[5, 4, 2], [6, [3, 3], [2, 1]]], "conv_activation": "tanh", "fcnet_hiddens": [7, 9]}
    model |= {"fcnet_activation": "relu", "vf_share_layers": False, "head_fcnet_hiddens": [11]}
    module = build(PPOConfig, CAM, **model)
    encoder = module.encoder.actor_encoder
    layers = [layer for layer in encoder.modules() if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear))]
    assert [one.out_channels for one in layers if isinstance(one, torch.nn.Conv2d)] == [5, 6]
    linear = [(one.in_features, one.out_features) for one in layers if isinstance(one, torch.nn.Linear)]
    assert linear == [(4, 7), (5 * 10 * 6 + 7, 9)]
    assert {torch.nn.Tanh, torch.nn.ReLU} <= {type(layer) for layer in encoder.modules()}
    assert module.encoder.critic_encoder is not None
    assert next(module.pi.parameters()).shape == (11, 9)


def test_convolutions_that_leave_nothing_are_named():
    with pytest.raises(envoi.EnvoiError, match=r"observation\['cam'\]: conv_filters .* leave nothing of 20 x 20"):
        build(PPOConfig, CAM, conv_filters=[[4, 24, 1, "valid"]])


MINIGRID = "gymnasium:minigrid:MiniGrid-Empty-5x5-v0"


@pytest.mark.parametrize(
    ("kind", "env"), [(PPOConfig, Screen), (PPOConfig, MINIGRID), (APPOConfig, BesideVector), (DQNConfig, Screen)]
)
def test_images_are_trained_on(kind, env):
    trained = Trained(config_for(kind, env, 4))
    episodes = trained.sample(20)
    observations = episodes[0].get_observations()
    if env is Screen:
        assert observations.dtype == np.uint8  # episodes and replay buffers keep bytes
        assert observations.shape[1:] == (210, 160, 3)
    elif env is BesideVector:
        assert observations["screen"].shape[1:] == (40, 30, 1)
    else:
        assert observations["image"].dtype == np.uint8
        assert observations["vector"].shape[1:] == (4 + 64,)  # the direction, and the words of the mission
    trained.update(episodes)
    trained.sample(4)


@pytest.mark.parametrize("kind", [SACConfig, TQCConfig, CQLConfig, IQLConfig, MARWILConfig, BCConfig])
def test_other_algorithms_take_images_beside_other_leaves(kind):
    module = build(kind, CAM, spaces.Box(-1, 1, (2,)))
    batch = {"cam": torch.zeros(2, 20, 20, 3, dtype=torch.uint8), "vector": torch.zeros(2, 4)}
    assert module.forward_inference({Columns.OBS: batch})[Columns.ACTION_DIST_INPUTS].shape[0] == 2
    if kind is SACConfig:
        assert isinstance(module.catalog, StructuredSACCatalog)
        module.make_target_networks()
        moves = {Columns.OBS: batch, Columns.NEXT_OBS: batch, Columns.ACTIONS: torch.zeros(2, 2)}
        assert module.forward_train(moves)["qf_preds"].shape == (2,)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("env", "least"),
    [("python:pictures:BesideVector", 6.0), (MINIGRID, 0.5)],  # 2.5 of 10 and 0.2 of 1 by chance
)
def test_images_are_learned_from(ray_session, tmp_path, env, least):
    train(Settings(env, stop_steps=30_000, stop_return=least + 0.1, seed=1), tmp_path / "run")
    found = evaluate_run(tmp_path / "run", episodes=10, explore=True)
    assert found.episode_return.mean >= 0.8 * least
    policy = load_policy(tmp_path / "run")
    policy.observation_space.seed(0)
    assert np.isscalar(policy(policy.observation_space.sample()).item())


def test_flat_observations_have_rllibs_own_networks():
    config = configure(PPOConfig(), "gymnasium:CartPole-v1")
    assert config.rl_module_spec == PPOConfig().get_default_rl_module_spec()


def test_an_encoder_takes_every_gymnasium_space_of_a_fixed_size():
    space = spaces.Dict(
        {
            "pair": spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 3])]),
            "bits": spaces.MultiBinary((2, 2)),
            "table": spaces.Box(-1, 1, (2, 3)),
            "scalar": spaces.Box(-1, 1, ()),
        }
    )
    module = build(PPOConfig, space)
    batch = {
        "pair": (torch.tensor([1, 3]), torch.tensor([[1, 2], [0, 0]])),
        "bits": torch.ones(2, 2, 2, dtype=torch.int8),
        "table": torch.zeros(2, 2, 3),
        "scalar": torch.zeros(2),
    }
    assert module.forward_inference({Columns.OBS: batch})[Columns.ACTION_DIST_INPUTS].shape == (2, 3)
    with pytest.raises(envoi.EnvoiError, match=r"observation\['say'\]: no network encodes Text"):
        build(PPOConfig, spaces.Dict({"say": spaces.Text(3)}))


# Modules of the user's own.


class Narrow(TorchRLModule):
    """A module for four numbers and two actions, whatever the spaces are."""

    def setup(self):
        self.layer = torch.nn.Linear(4, 2)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.layer(batch[Columns.OBS])}

    def get_inference_action_dist_cls(self):
        from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical

        return TorchCategorical


class Broken(TorchRLModule):
    def setup(self):
        raise ValueError("no such layer")


FOUR, TWO = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)


def test_a_module_that_fits_passes():
    check_module(
        MaskedPPOModule,
        spaces.Dict({"action_mask": spaces.Box(0, 1, (2,)), "observations": FOUR}),
        TWO,
        model_config={"use_lstm": True},
        catalog_class=StructuredPPOCatalog,
    )


@pytest.mark.parametrize(
    ("module", "observation", "action", "config", "message"),
    [
        (Narrow, spaces.Box(-1, 1, (5,)), TWO, None, r"Narrow: does not take observation of shape \(5,\)"),
        (Narrow, FOUR, spaces.Discrete(3), None, r"has 2 elements for the action Discrete\(3\).* takes 3"),
        (Narrow, spaces.Dict({"x": FOUR}), TWO, None, r"does not take observation\['x'\]"),
        (Narrow, FOUR, TWO, PPOConfig(), "Narrow: PPO needs a module that implements ValueFunctionAPI"),
        (Broken, FOUR, TWO, None, "Broken: could not be built.*no such layer"),
        (dict, FOUR, TWO, None, "expected a subclass of ray.rllib's RLModule"),
    ],
)
def test_a_module_that_does_not_fit_is_named(module, observation, action, config, message):
    with pytest.raises(envoi.EnvoiError, match=message):
        check_module(module, observation, action, config=config)


def test_checks_of_modules_leave_torchs_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    check_module(Narrow, FOUR, TWO)
    assert torch.equal(torch.rand(2), expected)


class Fitting(TorchRLModule, ValueFunctionAPI):
    """A module of a user's own that fits `BesideVector`, and reads a column of a connector of theirs if asked to."""

    def setup(self):
        self.layer = torch.nn.Linear(1200 + 2, 4)

    def _forward(self, batch, **kwargs):
        if self.model_config.get("reads_more"):
            batch["more"]
        seen = batch[Columns.OBS]
        return {Columns.ACTION_DIST_INPUTS: self.layer(torch.cat([seen["screen"].flatten(1), seen["vector"]], -1))}

    def compute_values(self, batch, embeddings=None):
        return torch.zeros(len(batch[Columns.OBS]["vector"]))

    get_inference_action_dist_cls = Narrow.get_inference_action_dist_cls


@pytest.mark.parametrize("model", [{}, {"reads_more": True}])
def test_a_module_of_the_user_stays_if_it_fits(model):
    spec = RLModuleSpec(module_class=Fitting, model_config=model)
    config = configure(PPOConfig().rl_module(rl_module_spec=spec), BesideVector)
    assert config.rl_module_spec.module_class is Fitting
    assert config.env_config[FORM] == {"canonical": "structured", "action_masks": False}
    for env in (Guarded, "envoi:rps"):
        with pytest.raises(envoi.EnvoiError, match="Fitting: does not take observation"):
            configure(PPOConfig().rl_module(rl_module_spec=RLModuleSpec(module_class=Fitting)), env)
