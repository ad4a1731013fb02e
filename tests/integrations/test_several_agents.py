"""Several agents: which policy plays each, what is recorded of them, and jobs that train and evaluate them."""

import json
import pickle
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

import envoi
from envoi.integrations.rllib import RunFolder, Settings, configure, load_policy
from envoi.integrations.rllib.multi_agent.grouping import group_agents
from envoi.integrations.rllib.multi_agent.joint_policy import JointPolicy
from envoi.integrations.rllib.multi_agent.league import (
    AGENT_RETURNS,
    LEARNER,
    POLICY_RETURNS,
    SLOTS,
    SelfPlayMapping,
    opponents,
)

SMALL, LARGE = spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-1, 1, (3,), np.float32)
TWO, THREE = spaces.Discrete(2), spaces.Discrete(3)
ALIKE = {"walker_0": (SMALL, TWO), "walker_1": (SMALL, TWO), "runner_0": (SMALL, TWO)}
UNLIKE = {"walker_0": (SMALL, TWO), "walker_1": (SMALL, TWO), "runner_0": (SMALL, THREE)}
MIXED = {"walker_0": (SMALL, TWO), "walker_1": (LARGE, TWO), "runner_0": (SMALL, TWO)}


@pytest.mark.parametrize(
    ("way", "agents", "expected"),
    [
        (None, ALIKE, {"shared": ("walker_0", "walker_1", "runner_0")}),
        (None, UNLIKE, {"walker": ("walker_0", "walker_1"), "runner": ("runner_0",)}),
        (None, MIXED, {"walker_0": ("walker_0",), "walker_1": ("walker_1",), "runner_0": ("runner_0",)}),
        ("per-agent", ALIKE, {"walker_0": ("walker_0",), "walker_1": ("walker_1",), "runner_0": ("runner_0",)}),
        ("by-prefix", ALIKE, {"walker": ("walker_0", "walker_1"), "runner": ("runner_0",)}),
        ({"a": ["runner_0"], "b": ["walker_1", "walker_0"]}, UNLIKE, None),
        (lambda agent: agent[0], UNLIKE, {"w": ("walker_0", "walker_1"), "r": ("runner_0",)}),
    ],
)
def test_agents_share_policies_as_asked_or_as_their_spaces_allow(way, agents, expected):
    grouping = group_agents(way, agents)
    assert dict(grouping.policies) == (expected or {"a": ("runner_0",), "b": ("walker_1", "walker_0")})
    mapping = pickle.loads(pickle.dumps(grouping.mapping))
    for policy, members in grouping.policies.items():
        assert {mapping(agent, None, worker=None) for agent in members} == {policy}
    assert list(grouping.learning_seats) == list(agents)


@pytest.mark.parametrize(
    ("policies", "agents", "message"),
    [
        ("shraed", ALIKE, "called 'shraed'; did you mean 'shared'? There are: shared, per-agent, by-prefix, self-play"),
        (
            "shared",
            UNLIKE,
            "cannot play both 'walker_0', whose action space is Discrete(2), and 'runner_0', whose action space is Dis",
        ),
        ("shared", UNLIKE, "Discrete(3); choose by-prefix or per-agent"),
        ("by-prefix", MIXED, "'walker_0', whose observation space is Box(-1.0, 1.0, (2,), float32), and 'walker_1'"),
        ("by-prefix", MIXED, "choose per-agent, or a mapping"),
        ("self-play", ALIKE, "self-play is for two agents, got 3: walker_0, walker_1, runner_0"),
        ({"a": ["walker_0"]}, ALIKE, "no policy plays 'walker_1', 'runner_0'; list each agent"),
        ({"a": ["wlaker_0"]}, ALIKE, "policies['a']: the env has no agent 'wlaker_0'; did you mean 'walker_0'"),
        ({"a": [*ALIKE], "b": ["walker_1"]}, ALIKE, "the agent 'walker_1' has two policies, 'a' and 'b'"),
        ({"a": [*ALIKE], "b": []}, ALIKE, "policies['b']: expected at least one agent"),
        ({"a/b": [*ALIKE]}, ALIKE, "'a/b' cannot be the name of a policy"),
        ({"default_policy": [*ALIKE]}, ALIKE, "'default_policy' cannot be the name of a policy"),
        (lambda agent: None, ALIKE, "expected the name of a policy for the agent 'walker_0', got None"),
    ],
)
def test_policies_that_cannot_be_are_refused_by_name(policies, agents, message):
    with pytest.raises(envoi.EnvoiError, match=re.escape(message)):
        group_agents(policies, agents)


@pytest.mark.parametrize(
    ("has", "wants", "expected"),
    [
        (spaces.Box(-9, 9, (2,), np.float32), SMALL, True),  # bounds move with contexts
        (LARGE, SMALL, False),
        (THREE, TWO, False),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([2, 3]), True),
        (spaces.MultiDiscrete([2, 4]), spaces.MultiDiscrete([2, 3]), False),
        (spaces.Dict(a=LARGE), spaces.Dict(a=SMALL), False),
    ],
)
def test_policies_fit_envs_of_equal_shapes_and_counts(has, wants, expected):
    policy = SimpleNamespace(
        grouping=SimpleNamespace(agents=("a",)), observation_spaces={"a": wants}, action_spaces={"a": TWO}
    )
    env = SimpleNamespace(possible_agents=["a"], observation_spaces={"a": has}, action_spaces={"a": TWO})
    with nullcontext() if expected else pytest.raises(envoi.EnvoiError, match="a was trained with the observation"):
        JointPolicy.check_fits(policy, "envoi:game", env)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("per-agent", "per-agent"), ({"a": ("first",), "b": ("second",)}, {"a": ["first"], "b": ["second"]})],
)
def test_settings_keep_policies_through_their_file(given, kept):
    assert Settings.from_dict(Settings("envoi:nim", policies=given).to_dict()).policies == kept
    with pytest.raises(envoi.EnvoiError, match="per-agent"):
        Settings("envoi:nim", policies="per_agent")


def test_self_play_seats_the_learner_on_both_sides():
    np.random.seed(3)  # noqa: NPY002 - the generator that RLlib seeds
    mapping = SelfPlayMapping(("white", "black"), SLOTS, 0.3)
    drawn = []
    for _ in range(2000):
        episode = SimpleNamespace(custom_data={})
        seats = {agent: mapping(agent, episode) for agent in ("black", "white")}
        assert seats == {agent: mapping(agent, episode) for agent in ("white", "black")}
        assert LEARNER in seats.values()
        drawn.append((seats["white"], seats["black"]))
    assert 0.25 < drawn.count((LEARNER, LEARNER)) / 2000 < 0.35
    for slot in opponents(SLOTS):
        sides = drawn.count((slot, LEARNER)), drawn.count((LEARNER, slot))
        assert min(sides) > 60, (slot, sides)
    assert mapping("white", None) == LEARNER


@pytest.mark.parametrize(
    ("env", "policies", "zero_sum"),
    [("nim", "self-play", True), ("nim", None, True), ("rps", "per-agent", True), ("pursuit", None, False)],
)
def test_returns_are_those_of_whole_episodes(env, policies, zero_sum):
    gymnasium.registry.pop("rllib-multi-agent-env-v0", None)
    sampling = MultiAgentEnvRunner(
        config=configure(f"envoi:{env}", num_envs=3, seed=1, policies=policies), worker_index=0
    )
    for count in (7, 5, 3, 1, 1, 2, 9, 61, 200):  # wherever they are cut
        for chunk in sampling.sample(num_timesteps=count):
            assert {chunk.module_for(agent) for agent in chunk.agent_ids} <= {*sampling.module.keys()}
    result = sampling.get_metrics()
    agents = {agent: [float(v) for v in values.peek()] for agent, values in result[AGENT_RETURNS].items()}
    episodes = len(next(iter(agents.values())))
    assert episodes > 2
    assert {len(values) for values in agents.values()} == {episodes}
    totals = np.sum(list(agents.values()), axis=0)
    if zero_sum:
        np.testing.assert_array_equal(totals, 0)
    else:
        assert float(result["episode_return_mean"]) == pytest.approx(totals[-100:].mean())
    by_policy = {policy: values.peek() for policy, values in result[POLICY_RETURNS].items()}
    if env == "pursuit":
        assert set(by_policy) == {"hunter", "prey"}
        pairs = zip(agents["hunter_0"], agents["hunter_1"], strict=True)
        assert by_policy["hunter"] == pytest.approx([(one + other) / 2 for one, other in pairs])
    elif policies == "self-play":
        assert len(by_policy[LEARNER]) == episodes
        assert set(by_policy) <= {LEARNER, *opponents(SLOTS)}
    sampling.stop()


@pytest.mark.deep
def test_job_of_several_agents_records_evaluates_and_loads_each_policy(ray_session, cli, tmp_path):
    out = tmp_path / "run"
    code, text, err = cli("train", "envoi:pursuit", "--stop-steps", 2000, "--out", out)
    assert (code, err) == (0, "")
    assert "policies by-prefix: hunter plays hunter_0, hunter_1; prey plays prey" in text
    code, text, err = cli("train", "--resume", "--stop-steps", 3000, "--out", out)
    assert (code, err) == (0, "")
    *_, row = RunFolder(out).read_progress()
    agents = [float(row[f"agent/{agent}/return_mean"]) for agent in ("hunter_0", "hunter_1", "prey")]
    assert float(row["return_mean"]) == pytest.approx(sum(agents))
    assert row["policy/hunter/return_mean"]
    assert row["policy/prey/return_mean"]

    code, text, err = cli("evaluate", out, "--episodes", 3)
    assert (code, err) == (0, "")
    assert re.search(r"policy hunter: return \S+ ± \S+\n\s+policy prey: ", text)
    found = json.loads((out / "evaluation.json").read_text())
    assert set(found["policies"]) == {"hunter", "prey"}
    means = [found["agents"][agent]["mean"] for agent in ("hunter_0", "hunter_1", "prey")]
    assert found["episode_return"]["mean"] == pytest.approx(sum(means))
    assert all(episode["seats"]["hunter_1"] == "hunter" for episode in found["episodes"])
    code, _, err = cli("evaluate", out, "--form", "gymnasium")
    assert code == 2
    assert "RLlib's form alone" in err

    joint, prey = load_policy(out), load_policy(out, policy_id="prey")
    seen = {agent: space.sample() for agent, space in joint.observation_spaces.items()}
    actions = joint(seen)
    assert all(joint.action_spaces[agent].contains(action) for agent, action in actions.items())
    assert prey(seen["prey"]) == actions["prey"]
    again = joint(seen, dict.fromkeys(seen, 0.5), {"hunter_0": True})
    assert set(again) == {"hunter_1", "prey"}
    with pytest.raises(envoi.EnvoiError, match="'pray'; did you mean 'prey'"):
        load_policy(out, policy_id="pray")


def test_the_code_of_the_page_configures(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "several_agents.md").read_text()
    code, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    mapping = names["config"].policy_mapping_fn
    assert [mapping(agent) for agent in ("hunter_0", "hunter_1", "prey")] == ["hunters", "hunters", "prey"]
    assert set(names["config"].policies) == {"hunters", "prey"}


def test_policies_that_the_user_has_set_stay():
    own = PPOConfig().multi_agent(policies={"mine"}, policy_mapping_fn=lambda agent, *_, **__: "mine")
    assert set(configure(own, "envoi:nim").policies) == {"mine"}
    with pytest.raises(envoi.EnvoiError, match=r"the config has policies of its own, mine, so that policies='shared'"):
        configure(own, "envoi:nim", policies="shared")


def test_replay_buffer_of_several_agents_keeps_its_settings():
    kept = configure("envoi:nim", algo="DQN", training={"replay_buffer_config": {"capacity": 77}}).replay_buffer_config
    assert kept["type"] == "MultiAgentPrioritizedEpisodeReplayBuffer"
    assert (kept["capacity"], kept["beta"]) == (77, 0.4)
    assert configure("envoi:catch", algo="DQN").replay_buffer_config["type"] == "PrioritizedEpisodeReplayBuffer"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("env", "algo", "policies"),
    [
        ("envoi:pursuit", "DQN", "per-agent"),
        ("envoi:rps", "SAC", None),
        ("envoi:nim", "DQN", "self-play"),
        ("envoi:nim", "APPO", "self-play"),
        ("pettingzoo:classic/connect_four_v3", "PPO", "shared"),
        ("pettingzoo:classic/tictactoe_v3", "PPO", "self-play"),
        ("python:crowd:spread", "PPO", None),
        # One agent with masks: an illegal action is an error of the env.
        *(("python:pictures:GuardedCamera", algo, None) for algo in ("PPO", "APPO", "IMPALA", "DQN")),
        *(("python:pictures:GuardedPair", algo, None) for algo in ("PPO", "APPO", "IMPALA")),
    ],
)
def test_algorithms_train_several_agents_and_masked_ones(ray_session, cli, tmp_path, env, algo, policies):
    way = ("--check-specs", "full") if policies is None else ("--policies", policies)
    code, _, err = cli("train", env, "--algo", algo, *way, "--stop-steps", 2500, "--out", tmp_path / "run")
    assert code == 0, err  # which has RLlib's greetings, once a process
    *_, row = RunFolder(tmp_path / "run").read_progress()
    assert all(value for column, value in row.items() if column.startswith(("policy/", "agent/")))
    for options in ((), ("--explore",)):
        form = ("--form", "both") if "Guarded" in env else ()
        code, _, err = cli("evaluate", tmp_path / "run", "--episodes", 2, *form, *options)
        assert code == 0, err
