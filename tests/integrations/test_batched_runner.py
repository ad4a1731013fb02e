"""The env runner that collects arrays: it returns the episodes, metrics and callbacks of RLlib's own."""

import pickle
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import ray.tune
import torch
import tree
from depth import examples
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from runner_results import numbers, plain

import envoi
from envoi.adapters import to_rllib
from envoi.adapters.rllib import bind_worker
from envoi.integrations.rllib import Settings, configure, register
from envoi.integrations.rllib.batched_runner import BatchedEnvRunner, BatchedMultiAgentEnvRunner, use_runner, why_not

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Overriding environment rllib-single-agent-env-v0:UserWarning"),
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
]

OBSERVATIONS = {
    "flat": envoi.Array((3,), "float32"),
    "nested": {"place": envoi.Array((2,), "float64"), "gear": envoi.Discrete(4)},
}
ACTIONS = {
    "discrete": envoi.Discrete(3),
    "box": envoi.Array((2,), "float32", -2, 3),
    "several": envoi.MultiDiscrete([3, 2]),
}


class TimedState(NamedTuple):
    time: int
    length: int
    terminates: bool
    place: Any


class Timed(envoi.Model):
    """Episodes with one of `lengths` steps each, sampled at their start, that terminate or are truncated."""

    state_spec = None

    def __init__(self, lengths=(1, 2, 5, 9), observation="flat", action="discrete", infos=True):
        self.lengths, self.infos = tuple(lengths), infos
        self.observation_spec, self.action_spec = OBSERVATIONS[observation], ACTIONS[action]

    def initial(self, rng, context):
        return TimedState(0, int(rng.choice(self.lengths)), bool(rng.random() < 0.5), rng.normal(size=2))

    def transition(self, state, action, rng):
        moved = state.place + 0.1 * float(np.sum(action)) + rng.normal(size=2)
        return state._replace(time=state.time + 1, place=moved)

    def observe(self, state, rng):
        if isinstance(self.observation_spec, dict):
            return {"place": state.place, "gear": np.int64(state.time % 4)}
        return np.array([*state.place, state.time], np.float32)

    def reward(self, state, action, next_state):
        return float(next_state.place.sum()) + next_state.time / 7

    def terminal(self, state):
        return state.time >= state.length and state.terminates

    def truncated(self, state):
        return state.time >= state.length and not state.terminates

    def info(self, state):
        if not self.infos or state.time % 2:
            return {}
        return {"time": state.time, "word": "far" if state.place[0] > 1 else None}


SMALL = {"fcnet_hiddens": [8], "head_fcnet_hiddens": [8]}
CONFIGS = {"PPO": PPOConfig, "DQN": DQNConfig, "SAC": SACConfig}


def config_of(algo="PPO", env=Timed, num_envs=3, seed=7, mode="truncate_episodes", fragment=4, **runners):
    name = register("timed", env)({}) and "timed" if not isinstance(env, str) else env
    config = CONFIGS[algo]().environment(name).rl_module(model_config=SMALL)
    config.env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=num_envs,
        batch_mode=mode,
        rollout_fragment_length=fragment,
        **({} if isinstance(env, str) else {"gym_env_vectorize_mode": "vector_entry_point"}),
        **runners,
    )
    config.callbacks(on_environment_created=bind_worker)
    return config.debugging(seed=seed, log_level="ERROR")


def both(make_config, **arguments):
    """A runner of RLlib and ours, each made when it is asked for, because RLlib seeds all of a process then."""
    for kind in (SingleAgentEnvRunner, BatchedEnvRunner):
        runner = kind(config=make_config(**arguments), worker_index=0)
        runner.env.single_action_space.seed(3)
        runner.env.action_space.seed(3)
        yield runner
        runner.stop()


def described(episode: SingleAgentEpisode):
    """All that an episode holds, apart from its name and times."""
    assert type(episode.observations) is type(episode.rewards) is InfiniteLookbackBuffer
    assert episode.get_duration_s() >= 0
    episode.validate()
    held = {name: value for name, value in plain(episode).items() if not name.startswith("_last_")}
    return {**held, "is_terminated": bool(episode.is_terminated), "is_truncated": bool(episode.is_truncated)}


def assert_same(ours, theirs):
    mine, expected = ([described(episode) for episode in episodes] for episodes in (ours, theirs))
    if mine != expected:
        np.testing.assert_equal(mine, expected)  # which names the difference, but is slow


def chunks_of_each_episode(samples):
    """The numbers of the samples in which each episode's chunks are, in order of first appearance."""
    places = {}
    for index, sample in enumerate(samples):
        for episode in sample:
            places.setdefault(episode.id_, []).append(index)
    return list(places.values())


def run(runner, calls):
    samples, metrics = [], []
    for call in calls:
        samples.append(runner.sample(**call))
        metrics.append(numbers(runner.get_metrics()))
    return samples, metrics


def compare(make_config, calls, **arguments):
    (theirs, their_metrics), (ours, our_metrics) = (run(runner, calls) for runner in both(make_config, **arguments))
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other)
    assert chunks_of_each_episode(ours) == chunks_of_each_episode(theirs)
    np.testing.assert_equal(our_metrics, their_metrics)
    return ours


lengths = st.lists(st.integers(1, 12), min_size=1, max_size=4)


@examples(30, least=8)
@given(lengths, st.integers(1, 5), st.integers(0, 2**16), st.integers(1, 30), st.integers(0, 3), st.booleans())
def test_chunks_are_those_of_rllibs_runner(lengths, num_envs, seed, steps, lookback, infos):
    env = partial(Timed, lengths, infos=infos)
    arguments = {"env": env, "num_envs": num_envs, "seed": seed, "episode_lookback_horizon": lookback}
    compare(config_of, [{}, {"num_timesteps": steps}, {"num_timesteps": 1}, {"force_reset": True}], **arguments)


@pytest.mark.parametrize("mode", ["truncate_episodes", "complete_episodes"])
@pytest.mark.parametrize(
    ("algo", "observation", "action"),
    [
        ("PPO", "nested", "discrete"),
        ("PPO", "flat", "box"),
        ("PPO", "flat", "several"),
        ("DQN", "flat", "discrete"),
        ("SAC", "nested", "box"),
    ],
)
def test_modules_choose_the_same_actions(algo, observation, action, mode):
    env = partial(Timed, observation=observation, action=action)
    config = partial(config_of, algo=algo, env=env, mode=mode, num_envs=4)
    if mode == "truncate_episodes":
        compare(config, [{}, {}, {"num_episodes": 5, "explore": False}, {"num_timesteps": 10, "random_actions": True}])
        return
    # Here RLlib's runner resets all lanes in the next sample, and drops what ends in the same step as the last wanted.
    (theirs, _), (ours, _) = (run(runner, [{"explore": True}]) for runner in both(config))
    assert_same(ours[0][: len(theirs[0])], theirs[0])


@pytest.mark.parametrize("algo", ["DQN", "PPO"])
def test_random_actions_first_as_algorithms_with_a_replay_buffer_ask(algo):
    config = partial(config_of, algo=algo, env=partial(Timed, [30]))
    (theirs, _), (ours, _) = (run(r, [{"random_actions": True}, {}, {}]) for r in both(config))
    for one, other in zip(chain(*ours), chain(*theirs), strict=True):
        one, other = described(one), described(other)
        for name in ("actions", "observations"):
            assert one[name]["data"][2] == other[name]["data"][2]  # whose dtypes differ
            assert one[name]["lookback"] == other[name]["lookback"]
        for name in {"weights_seq_no", "action_logp"} & one["extra_model_outputs"].keys():
            assert one["extra_model_outputs"][name]["data"][2] == other["extra_model_outputs"][name]["data"][2]
    assert_same(ours[2], theirs[2])


def test_a_policy_that_is_not_finite_fails_as_in_rllibs_runner():
    errors = []
    for runner in both(config_of):
        torch.nn.init.constant_(runner.module.pi.net.mlp[-1].weight, np.nan)
        with pytest.raises(RuntimeError) as caught:
            runner.sample()
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_outputs_of_another_shape_are_not_looked_back_on():
    # RLlib's runner fails here: it would put both shapes into one array.
    runner = BatchedEnvRunner(config=config_of(env=partial(Timed, [30], action="box")))
    runner.sample()
    for episode in runner.sample(explore=False):
        described(episode)
        assert episode.actions.lookback == 1
    runner.stop()


class Scaled(gymnasium.Env):
    """Changes its actions in place."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if isinstance(action, np.ndarray):
            action += 100
        return np.ones(2, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize(
    "env",
    [
        partial(gymnasium.make, "Acrobot-v1", max_episode_steps=6),
        "Acrobot-v1",  # in gymnasium's own vector env
        lambda _: Scaled(gymnasium.spaces.MultiDiscrete([2, 3])),  # whose actions are recorded as chosen
        lambda _: Scaled(gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)),
    ],
)
def test_foreign_envs_give_the_same_episodes(env):
    if callable(env) and not isinstance(env, partial):
        ray.tune.register_env("scaled", env)
        env = "scaled"
    compare(config_of, [{}, {"num_timesteps": 17}, {"num_episodes": 2} if env != "scaled" else {}], env=env)


class OwnModule(TorchRLModule):
    """Acts at random, and returns nested outputs."""

    def setup(self):
        self.unused = torch.nn.Linear(1, 1)

    def _forward(self, batch, **_):
        place = batch["obs"]["place"]
        actions = torch.randint(3, (len(place),))
        return {"actions": actions, "seen": {"twice": 2 * place, "gears": (batch["obs"]["gear"],)}}


def test_nested_observations_and_outputs_of_a_users_own_module():
    ray.tune.register_env("nested", to_rllib(lambda: Timed([5], observation="nested"), canonical=False))

    def config():
        return config_of(env="nested").rl_module(rl_module_spec=RLModuleSpec(OwnModule))

    ours = compare(config, [{}, {}])
    assert ours[0][0].observations.data.keys() == {"place", "gear"}
    assert ours[1][-1].extra_model_outputs["seen"].data["twice"].shape[1:] == (2,)


# Complete episodes.


def test_episodes_that_have_not_ended_continue_in_the_next_sample():
    runner = BatchedEnvRunner(config=config_of(env=partial(Timed, [3, 4, 40]), mode="complete_episodes"))
    found = []
    for seq_no in range(1, 30):
        runner.set_state({"rl_module": runner.module.get_state(), "weights_seq_no": seq_no})
        sample = runner.sample()
        assert len(sample) >= runner.num_envs
        found += sample
    for episode in found:
        described(episode)
        assert episode.observations.data[:, 2].tolist() == list(range(len(episode) + 1))
        times = [info["time"] for info in episode.infos.data if info]
        assert times == list(range(0, len(episode) + 1, 2))
    weights = [set(episode.extra_model_outputs["weights_seq_no"].data.tolist()) for episode in found]
    assert any(len(each) > 1 for each in weights)
    assert len({episode.id_ for episode in found}) == len(found)
    # All episodes are as frequent as the env makes them; RLlib's runner drops the long ones.
    assert 0.2 < np.mean([len(episode) == 40 for episode in found]) < 0.45


@pytest.mark.parametrize("asked", [{}, {"force_reset": True}, {"random_actions": True}])
def test_whole_episodes_start_again_after_single_steps(asked):
    runner = BatchedEnvRunner(config=config_of(env=partial(Timed, [50]), mode="complete_episodes", num_envs=2))
    runner.sample(num_timesteps=10)
    assert [len(e) for e in runner.sample(**asked)] == [50, 50]


# Callbacks, metrics, states and faults.

HEARD = []


class Listener(RLlibCallback):
    def on_episode_created(self, *, episode, env_index, **_):
        episode.custom_data["lane"] = env_index
        HEARD.append(("created", env_index, len(episode), episode.is_reset))

    def on_episode_start(self, *, episode, env_index, env, rl_module, **_):
        HEARD.append(("start", env_index, episode.get_observations(-1).tolist(), episode.get_infos(-1), env.num_envs))

    def on_episode_end(self, *, episode, env_index, prev_episode_chunks, metrics_logger, **_):
        episode.custom_data["ended"] = True
        assert isinstance(episode.get_observations(), list)
        metrics_logger.log_value("mine", len(episode.get_actions()))
        HEARD.append(("end", env_index, described(episode), [len(chunk) for chunk in prev_episode_chunks]))

    def on_sample_end(self, *, samples, **_):
        HEARD.append(("sample", len(samples)))


def test_callbacks_hear_the_same():
    heard = []
    for runner in both(lambda: config_of().callbacks(Listener)):
        HEARD.clear()
        for call in [{}, {}, {"num_episodes": 4}, {"num_timesteps": 20}]:
            runner.sample(**call)
        assert runner.get_metrics()["mine"].peek() > 0
        heard.append(list(HEARD))
    assert heard[0] == heard[1]
    assert {name for name, *_ in heard[0]} == {"created", "start", "end", "sample"}


def blank(*, episode, **_):
    episode.set_observations(new_data=np.zeros(3, np.float32), at_indices=-1)


@pytest.mark.parametrize(
    "settings", [{"callbacks": {"on_episode_end": blank}}, {"env_runners": {"episodes_to_numpy": False}}]
)
def test_changed_episodes_and_lists_are_those_of_rllib(settings):
    ((part, given),) = settings.items()
    compare(lambda: getattr(config_of(), part)(**given), [{}, {"num_timesteps": 3}])


def test_states_are_those_of_rllibs_runner():
    theirs, ours = both(config_of)
    ours.sample()
    theirs.set_state(pickle.loads(pickle.dumps(ours.get_state())))
    tree.assert_same_structure(ours.get_state(), theirs.get_state())
    weights = zip(tree.flatten(ours.module.get_state()), tree.flatten(theirs.module.get_state()), strict=True)
    assert all(np.array_equal(one, other) for one, other in weights)
    ours.assert_healthy()
    assert ours.module.training == theirs.module.training


class Fragile(Timed):
    """Fails once, in its tenth step."""

    steps = 0

    def transition(self, state, action, rng):
        Fragile.steps += 1
        if Fragile.steps == 10:
            raise ZeroDivisionError("a fault")
        return super().transition(state, action, rng)


def test_a_failing_env_is_replaced_if_rllib_is_to_restart_it():
    def config(restart):
        Fragile.steps = 0
        return config_of(env=Fragile).fault_tolerance(restart_failed_sub_environments=restart)

    compare(config, [{}, {}], restart=True)
    for runner in both(config, restart=False):
        with pytest.raises(RuntimeError) as caught:
            runner.sample(num_timesteps=40)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


# Where it is RLlib's runner.


FALLBACKS = {
    "memory": lambda c: c.rl_module(model_config={**SMALL, "use_lstm": True, "max_seq_len": 4}),
    "on_episode_step": lambda c: c.callbacks(on_episode_step=blank),
    "MeanStdFilter": lambda c: c.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter()),
}


@pytest.mark.parametrize("what", FALLBACKS)
def test_what_needs_an_episode_at_each_step_gets_rllibs_runner(what, caplog, monkeypatch):
    monkeypatch.setattr("ray.util.debug._logged", set())
    monkeypatch.setattr("ray.util.debug._disabled", False)
    compare(lambda: FALLBACKS[what](config_of()), [{}, {"num_timesteps": 9}])
    runner = BatchedEnvRunner(config=FALLBACKS[what](config_of()))
    assert what in runner.reason
    assert sum(what in record.getMessage() for record in caplog.records) == 1
    assert BatchedEnvRunner(config=config_of()).reason is None


# The choice of the runner.


def test_auto_sets_the_batched_runner_and_leaves_the_users():
    config = PPOConfig()
    use_runner(config)
    assert (config.env_runner_cls, why_not(config)) == (BatchedEnvRunner, None)
    use_runner(config, "sync")
    assert config.env_runner_cls is None
    assert "RLlib's runner" in why_not(config)
    own = PPOConfig().env_runners(env_runner_cls=SingleAgentEnvRunner)
    use_runner(own)
    assert own.env_runner_cls is SingleAgentEnvRunner
    with pytest.raises(envoi.EnvoiError, match="because the config has the env runner SingleAgentEnvRunner"):
        use_runner(own, "batched")
    several = PPOConfig().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *_, **__: "a")
    derived = type("Derived", (BatchedMultiAgentEnvRunner,), {})
    use_runner(kept := several.copy(copy_frozen=False).env_runners(env_runner_cls=derived))
    assert kept.env_runner_cls is derived
    use_runner(several)
    assert (several.env_runner_cls, why_not(several)) == (BatchedMultiAgentEnvRunner, None)
    assert "several agents" in why_not(several.env_runners(env_runner_cls=BatchedEnvRunner))
    for wrong in (lambda: use_runner(config, "batch"), lambda: Settings("envoi:cartpole", runner="bached")):
        with pytest.raises(envoi.EnvoiError, match="did you mean 'batched'"):
            wrong()


@pytest.mark.parametrize(
    ("env", "options", "kind"),
    [
        (partial(Timed, [3]), {}, BatchedEnvRunner),
        (partial(Timed, [3]), {"runner": "sync"}, None),
        ("envoi:rps", {}, BatchedMultiAgentEnvRunner),
    ],
)
def test_configure_chooses_the_runner(env, options, kind):
    assert configure(env, **options).env_runner_cls is kind
