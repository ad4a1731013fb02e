import json
import math
import re

import numpy as np
import pytest
from small_models import Walk
from traces import exact

import envoi
from envoi.integrations.env_contexts import FirstLane
from envoi.integrations.evaluation import Episode, compare, context_labels, estimate, evaluate_run
from envoi.integrations.rllib import RunFolder, Settings, load_policy
from envoi.lane_values import lane, stack
from envoi.models import CartPole


def test_interval_is_student_t():
    found = estimate([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.std == pytest.approx(math.sqrt(5 / 3))
    assert found.high - found.mean == pytest.approx(3.182446 * math.sqrt(5 / 3) / 2, rel=1e-6)
    assert str(found) == "2.50 ± 2.05"
    assert (estimate([3.0]).low, str(estimate([3.0]))) == (None, "3.00")


def test_both_forms_give_the_same_episodes(cli, trained):
    code, out, err = cli("evaluate", trained, "--episodes", "5", "--form", "both", "--json")
    assert (code, err) == (0, "")
    document = json.loads((trained / "evaluation.json").read_text())
    assert json.loads(out) == document
    assert document["forms_agree"] is True
    assert len(document["episodes"]) == 5
    assert len({e["trace"] for e in document["episodes"]}) > 1
    returns = [e["episode_return"] for e in document["episodes"]]
    assert document["episode_return"]["mean"] == pytest.approx(sum(returns) / 5)
    assert all(e["length"] == 9 for e in document["episodes"])
    code, _, err = cli("evaluate", trained, "--env", "envoi:catch", "--episodes", "1")
    assert (code, err) == (0, "")
    assert json.loads((trained / "evaluation.json").read_text()) == document
    assert len(json.loads((trained / "evaluation-envoi-catch.json").read_text())["episodes"]) == 1


@pytest.mark.parametrize("explore", [False, True])
def test_same_seed_gives_the_same_episodes(trained, explore):
    first, again = (evaluate_run(trained, episodes=3, seed=4, explore=explore) for _ in range(2))
    other = evaluate_run(trained, episodes=3, seed=5, explore=explore)
    assert first.episodes == again.episodes
    assert first.episodes != other.episodes


def test_policy_of_a_run_acts_in_a_gif(cli, trained, tmp_path):
    path, written = tmp_path / "run.gif", []
    for _ in range(2):
        code, out, _ = cli("render", "envoi:catch", "--policy", trained, "--gif", path, "--seed", "2")
        assert (code, "episode 1: return" in out) == (0, True)
        written.append(path.read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("made", ["in_three", "game", "limited_game", "foreign_wrapper", "foreign_wrapper_of_a_game"])
def test_contexts_are_found_through_every_wrapper_and_ids_stay_distinct(cli, trained, made):
    code, out, err = cli("evaluate", trained, "--env", f"python:weighed:{made}", "--episodes", "7")
    assert (code, err) == (0, "")
    document = json.loads((trained / f"evaluation-python-weighed-{made}.json").read_text())
    assert document["env"] == f"python:weighed:{made}"
    assert [e["context_id"] for e in document["episodes"]] == [1, "1", "two", 1, "1", "two", 1]
    returns = [e["episode_return"] for e in document["episodes"]]
    assert [abs(one) for one in returns] == [1, 2, 3, 1, 2, 3, 1]
    means = {key: found["mean"] for key, found in document["contexts"].items()}
    assert means == {key: np.mean(returns[at::3]) for at, key in enumerate(["1", "'1'", "two"])}
    for label in means:
        assert f"in context {label}: return {means[label]:.2f}" in out


class Unnamed:
    """An id with the same repr as all others of its class."""

    def __repr__(self):
        return "id"


def test_context_labels_are_distinct_and_plain_where_possible():
    assert context_labels(["a", 1, None, 2.5]) == ["a", "1", "None", "2.5"]
    assert context_labels([1, "1", "a"]) == ["1", "'1'", "a"]
    assert context_labels(["None", None, "a"]) == ["'None'", "None", "a"]
    for ids in ([1, "1", "'1'"], [Unnamed(), "a", Unnamed()], ["id", Unnamed(), "'id'", "id (2)", Unnamed()]):
        labels = context_labels(ids)
        assert len(set(labels)) == len(ids)


def test_forms_that_differ_are_an_error():
    one = Episode(1, 2.0, 3, "a")
    with pytest.raises(envoi.EnvoiError, match="differ in episode 0"):
        compare([one], [Episode(1, 2.0, 3, "b")], "core", "gymnasium")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--max-steps", "3"), "envoi: --max-steps: an episode ("),
        (("--env", "envoi:cartpole"), "envoi:cartpole: the policy was trained with the observation_space"),
        (("--episodes", "0"), "envoi: --episodes: expected at least 1, got 0"),
    ],
)
def test_what_cannot_be_played_is_an_error(cli, trained, option, message):
    code, _, err = cli("evaluate", trained, *option)
    assert (code, message in err) == (2, True)


@pytest.mark.parametrize("form", ["core", "gymnasium"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Stuck", r"the env raised ZeroDivisionError: the ball has no mass \(weighed\.py:\d+\)\n"),
        ("Blocked", r"the env raised KeyError: 'door' \(weighed\.py:\d+\)\n"),
        ("missing", r"the env raised OSError: no such map \(weighed\.py:\d+\)\n"),
    ],
)
def test_env_error_is_one_line_with_its_place(cli, trained, name, message, form):
    code, _, err = cli("evaluate", trained, "--env", f"python:weighed:{name}", "--form", form)
    assert (code, len(err.splitlines())) == (2, 1)
    assert re.search(message, err), err


def test_run_without_a_checkpoint_names_the_resume_command(cli, tmp_path):
    RunFolder(tmp_path).start(Settings("envoi:catch"))
    code, _, err = cli("evaluate", tmp_path)
    assert (code, "holds no checkpoint yet" in err, "--resume" in err) == (2, True, True)


@pytest.mark.parametrize("folder", [".", "checkpoint"])
def test_policy_equals_rllib_env_runner(trained, folder):
    """The policy without Ray chooses the same actions as an env runner of RLlib with the same checkpoint."""
    import torch
    from ray.rllib.core.columns import Columns

    policy = load_policy(trained / folder)
    rng = np.random.default_rng(0)
    for _ in range(20):
        observation = rng.random(policy.observation_space.shape, np.float32)
        policy.reset()
        with torch.no_grad():
            logits = policy.module.forward_inference({Columns.OBS: torch.tensor(observation)[None]})
        assert policy(observation) == int(logits[Columns.ACTION_DIST_INPUTS].argmax())


def test_policy_of_nested_actions_can_be_evaluated(cli, tmp_path, ray_session):
    run = tmp_path / "run"
    code, _, err = cli("train", "python:faulty:Mixed", "--stop-steps", 2000, "--out", run)
    assert (code, err) == (0, "")
    for more in ([], ["--explore"]):
        code, out, err = cli("evaluate", run, "--episodes", 3, "--form", "both", *more)
        assert (code, err, "same episodes" in out) == (0, "", True)


def one_of(steps):
    """Returns the first lane's step of a batch's step."""
    observation, reward, terminated, truncated, discount, infos = steps
    seen = lane(Walk.observation_spec, observation, 0) if isinstance(observation, dict) else observation[0]
    return envoi.Step(seen, reward[0], bool(terminated[0]), bool(truncated[0]), discount[0], infos[0])


@pytest.mark.parametrize("make", [Walk, CartPole, lambda: envoi.TimeLimit(CartPole(), 9)])
def test_first_lane_equals_the_lane_in_its_batch(make):
    alone, lanes = FirstLane(envoi.batch(make, 3)), envoi.batch(make, 3)
    rng, total = np.random.default_rng(0), 0
    envoi.validate(alone.observation_spec, alone.reset(seed=0).observation)
    for seed in range(6):
        begun, all_of_them = alone.reset(seed=seed), lanes.reset(seed=seed)
        assert exact(begun.observation) == exact(lane(lanes.observation_spec, all_of_them.observation, 0))
        assert begun.info == all_of_them.info[0]
        restart = None
        while True:
            total += 1
            action = envoi.sample(alone.action_spec, rng)
            step, steps = alone.step(action), lanes.step(stack(lanes.action_spec, [action] * 3), restart)
            assert exact(step) == exact(one_of(steps))
            assert exact(alone.observation) == exact(step.observation)
            if step.terminated or step.truncated:
                break
            restart = steps.terminated | steps.truncated
    assert total > 20
    with pytest.raises(envoi.EpisodeError):
        alone.step(action)
