"""The env runner for several agents collects the episodes, metrics and calls of RLlib's own."""

import cloudpickle
import gymnasium
import numpy as np
import pytest
from crowd import Crowd, Turns
from depth import examples
from hypothesis import Phase, given
from hypothesis import strategies as st
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.examples.envs.classes.multi_agent.tic_tac_toe import TicTacToe
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env
from runner_results import numbers, plain

from envoi.adapters import to_rllib
from envoi.adapters.rllib import EnvCreator
from envoi.adapters.shared.introspection import Content
from envoi.integrations.rllib import configure
from envoi.integrations.rllib.batched_runner import BatchedMultiAgentEnvRunner, why_not
from envoi.integrations.rllib.exact_resume import layers_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
    pytest.mark.filterwarnings("ignore:.*already in registry:UserWarning"),
]


def config(env, lanes=3, seed=11, **settings):
    """A config with one policy for the first agents and one for the others, where their specs are equal."""
    creator = env if isinstance(env, EnvCreator) else to_rllib(env)
    register_env("envoi-multi-runner", creator)
    form = creator({})
    agents = list(form.possible_agents)
    kinds = {a: str((form.observation_spaces[a], form.action_spaces[a])) for a in agents}
    halves = {a: f"{kinds[a]}-{2 * i // len(agents)}" for i, a in enumerate(agents)}
    names = {kind: f"policy_{i}" for i, kind in enumerate(dict.fromkeys(halves.values()))}
    made = (
        PPOConfig()
        .environment("envoi-multi-runner", disable_env_checking=True)
        .env_runners(num_envs_per_env_runner=lanes, num_env_runners=0, rollout_fragment_length=5)
        .multi_agent(policies=set(names.values()), policy_mapping_fn=lambda agent, *_, **__: names[halves[agent]])
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[4]))
        .debugging(seed=seed)
    )
    for part, arguments in settings.items():
        getattr(made, part)(**arguments)
    return made


def runner(kind, made, worker=1):
    gymnasium.registry.pop("rllib-multi-agent-env-v0", None)
    return kind(config=made, worker_index=worker)


def said(episode):
    """Everything in an episode but ids and times."""
    assert all(one.multi_agent_episode_id == episode.id_ for one in episode.agent_episodes.values())
    return {"order": list(episode.agent_episodes), **plain(episode)}


def collected(kind, made, calls):
    """The episodes and metrics of a runner's samples."""
    one = runner(kind, made)
    for lane, env in enumerate(one.env.envs):
        for place, space in enumerate(env.unwrapped.action_spaces.values()):
            space.seed(100 * lane + place)
    found = []
    for call in calls:
        try:
            found.append(([said(episode) for episode in one.sample(**call)], numbers(one.get_metrics())))
        except Exception as error:  # RLlib fails where it loses track of agents that wait
            found.append((repr(error), {}))
            break
    one.stop()
    return found


UNREADABLE = repr(IndexError("list index out of range"))
"""The error of RLlib's runner where agents wait in a chunk without lookback: it reads what they do not observe."""


def check_equal(made, calls):
    found = [collected(kind, made, calls) for kind in (BatchedMultiAgentEnvRunner, MultiAgentEnvRunner)]
    for (mine, measured), (theirs, expected) in zip(*found, strict=True):
        if theirs == UNREADABLE and not made.episode_lookback_horizon:
            break
        if mine != theirs:
            np.testing.assert_equal(mine, theirs)  # which names the difference, but is slow
        np.testing.assert_equal(measured, expected)


CALLS = st.lists(
    st.one_of(
        st.builds(dict, num_timesteps=st.integers(1, 30), explore=st.sampled_from([True, False])),
        st.builds(dict, num_episodes=st.integers(1, 5)),
        st.builds(dict, num_timesteps=st.integers(1, 10), force_reset=st.just(True)),
        st.just({}),
    ),
    min_size=1,
    max_size=5,
)


@examples(30, least=8, deadline=None, phases=[Phase.generate])
@given(
    kind=st.sampled_from([Crowd, Turns]),
    ends=st.sampled_from([0, 0.05, 0.3]),
    joins=st.sampled_from([0, 0.1, 0.5]),
    longest=st.integers(1, 12),
    reals=st.booleans(),
    scaling=st.sampled_from([{}, {"normalize_actions": False, "clip_actions": True}]),
    lanes=st.integers(1, 4),
    seed=st.integers(0, 1000),
    count=st.sampled_from(["env_steps", "agent_steps"]),
    mode=st.sampled_from(["truncate_episodes", "complete_episodes"]),
    lookback=st.integers(0, 3),
    randomly=st.booleans(),
    calls=CALLS,
)
def test_episodes_and_metrics_are_those_of_rllibs_runner(
    kind, ends, joins, longest, reals, scaling, lanes, seed, count, mode, lookback, randomly, calls
):
    made = config(
        lambda: kind(ends=ends, joins=joins, longest=longest, reals=reals),
        lanes,
        seed,
        environment=scaling,
        multi_agent={"count_steps_by": count},
        env_runners={"batch_mode": mode, "episode_lookback_horizon": lookback},
    )
    check_equal(made, [{**call, "random_actions": randomly} for call in calls])


CHUNKS = [{"num_timesteps": 40}, {"num_timesteps": 25}, {"num_episodes": 4}]


@pytest.mark.parametrize("game", ["pursuit", "nim"])
def test_snapshots_of_an_env_runner_hold_the_lanes(game):
    one = runner(BatchedMultiAgentEnvRunner, config(f"envoi:{game}", lanes=3))
    one.sample(num_timesteps=20, random_actions=True)
    content = cloudpickle.loads(cloudpickle.dumps(Content(layers_of(one.env))))

    def steps():
        for _ in range(40):
            cores = [env.unwrapped.core for env in one.env.envs]
            actions = [{agent: place % 3 for place, agent in enumerate(core.acting)} for core in cores]
            yield plain([list(column) for column in one.env.step(actions)])

    went_on = list(steps())
    content.put_back(layers_of(one.env))
    assert list(steps()) == went_on


def test_masked_observations_are_sampled_as_by_rllib():
    module = RLModuleSpec(module_class=ActionMaskingTorchRLModule, model_config={"head_fcnet_hiddens": [4]})
    check_equal(config(to_rllib("envoi:nim", action_masks=True), rl_module={"rl_module_spec": module}), CHUNKS)
    check_equal(config("envoi:pursuit"), CHUNKS)


LSTM = DefaultModelConfig(use_lstm=True, lstm_cell_size=4, max_seq_len=5)
ONE_POLICY = {"policies": {"one"}, "policy_mapping_fn": lambda *_, **__: "one"}


class Halving(ConnectorV2):
    """Halves the observations for the policy, and in the episodes."""

    def __call__(self, *, rl_module, batch, episodes, explore=None, shared_data=None, **_):
        for one in self.single_agent_episode_iterator(episodes):
            one.set_observations(at_indices=-1, new_data=one.get_observations(-1) / 2)
        return batch


@pytest.mark.parametrize(
    ("what", "env", "settings"),
    [
        ("Halving", Crowd, {"env_runners": {"env_to_module_connector": lambda *_: Halving()}}),
        ("memory", Turns, {"rl_module": {"model_config": LSTM}}),
        ("not envoi's", Crowd, {"environment": {"env": TicTacToe}, "multi_agent": ONE_POLICY}),
    ],
)  # fmt: skip
def test_what_needs_rllibs_code_is_run_by_it(what, env, settings, caplog, monkeypatch):
    monkeypatch.setattr("ray.util.debug._logged", set())
    monkeypatch.setattr("ray.util.debug._disabled", False)
    for _ in range(2):
        assert what in runner(BatchedMultiAgentEnvRunner, config(env, **settings)).reason
    assert sum(what in record.getMessage() for record in caplog.records) == 1
    check_equal(config(env, **settings), CHUNKS)


EVENTS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


def heard(kind):
    """The calls of callbacks, of both kinds, with the episode as it is then."""
    calls = []

    def hear(which):
        def on(self=None, *, episode, env_index, env, metrics_logger, prev_episode_chunks=(), **_):
            steps = metrics_logger.peek(("num_env_steps_sampled",), default=0)
            assert env.envs[env_index].unwrapped.core is not None
            calls.append((which, env_index, said(episode), steps, [said(chunk) for chunk in prev_episode_chunks]))

        return on

    listener = type("Listener", (RLlibCallback,), {which: hear(which) for which in EVENTS})
    made = config(Crowd, callbacks={"callbacks_class": listener, "on_episode_end": hear("function")})
    made.callbacks(on_sample_end=lambda *, samples, **_: calls.append([said(one) for one in samples]))
    collected(kind, made, CHUNKS)
    return calls


def test_callbacks_get_the_calls_of_rllibs_runner():
    mine, theirs = heard(BatchedMultiAgentEnvRunner), heard(MultiAgentEnvRunner)
    assert {call[0] for call in mine if isinstance(call, tuple)} == {"function", *EVENTS}
    if mine != theirs:
        np.testing.assert_equal(mine, theirs)


def test_its_state_is_that_of_rllibs_runner():
    made = configure("envoi:rps")
    assert why_not(made) is runner(BatchedMultiAgentEnvRunner, made).reason is None
    mine, theirs = runner(BatchedMultiAgentEnvRunner, made), runner(MultiAgentEnvRunner, made)
    state = theirs.get_state()
    mine.set_state(state)
    assert mine.get_state().keys() == state.keys()
    np.testing.assert_equal(mine.get_state()["rl_module"], state["rl_module"])


class Failing(Crowd):
    """Fails in its fourth step in the first environment that gets there."""

    failed = []

    def transition(self, state, actions, rng):
        if state.step == 3 and not self.failed:
            self.failed.append(1)
            raise RuntimeError("broken")
        return super().transition(state, actions, rng)


@pytest.mark.filterwarnings("ignore")
def test_a_failed_step_restarts_or_is_raised():
    made = config(lambda: Failing(ends=0), fault_tolerance={"restart_failed_sub_environments": True})
    found = []
    for kind in (BatchedMultiAgentEnvRunner, MultiAgentEnvRunner):
        Failing.failed.clear()
        ((chunks, _),) = collected(kind, made, [{"num_timesteps": 30}])
        found.append(len(chunks))
        assert Failing.failed
    assert found[0] == found[1]
    Failing.failed.clear()
    with pytest.raises(RuntimeError) as caught:
        runner(BatchedMultiAgentEnvRunner, config(lambda: Failing(ends=0))).sample(num_timesteps=30)
    assert "broken" in str(caught.value.__cause__)
