"""Training jobs that run to their end, in this process and with one Ray."""

import json
import os
from pathlib import Path

import pytest

from envoi.integrations.rllib import RunFolder, Settings, train

pytestmark = pytest.mark.usefixtures("ray_session")


def test_job_leaves_all_documented_files(trained):
    run = RunFolder(trained)
    assert run.read_settings().env == "envoi:catch"
    rows = run.read_progress()
    steps = [int(r["env_steps"]) for r in rows]
    assert steps == sorted(set(steps))
    assert float(rows[-1]["return_mean"]) >= 0.2
    assert all(float(r["steps_per_second"]) > 0 for r in rows)
    assert len({line.count(b",") for line in run.progress.read_bytes().splitlines()}) == 1
    assert (run.checkpoint / "learner_group").is_dir()
    assert run.curve.read_bytes().startswith(b"\x89PNG")
    assert list(run.tensorboard.glob("trial_0/events.*"))
    state = run.read_state(run.read_settings())[0]
    assert (state.reached[:11], state.env_steps) == ("mean return", steps[-1])


def test_finished_job_is_not_resumed_without_a_further_goal(cli, trained):
    code, _, err = cli("train", "--resume", "--out", trained)
    assert code == 2
    assert "has reached mean return 0.2" in err
    before = RunFolder(trained).read_progress()
    code, _, err = cli("train", "--resume", "--out", trained, "--stop-steps", "10")
    assert code == 2
    assert "so nothing is left to do" in err
    assert RunFolder(trained).read_progress() == before


def test_sweep_resumes_each_trial_at_its_checkpoint(cli, tmp_path):
    out = tmp_path / "sweep"
    code, text, err = cli("train", "envoi:catch", "--lr", "1e-4,1e-3", "--stop-steps", "2000", "--out", out)
    assert (code, err) == (0, "")
    assert "by the best of 2 trials" in text.splitlines()[-1]
    assert "envoi evaluate" in text.splitlines()[-1]
    run = RunFolder(out)
    first = run.read_progress()
    assert {(r["trial"], r["lr"]) for r in first} == {("0", "0.0001"), ("1", "0.001")}

    code, text, err = cli("train", "--resume", "--out", out, "--stop-steps", "6000")
    assert (code, err) == (0, "")
    rows = run.read_progress()
    assert rows[: len(first)] == first
    for trial in "01":
        iterations = [int(r["iteration"]) for r in rows if r["trial"] == trial]
        assert sorted(iterations) == list(range(1, len(iterations) + 1))
        assert max(int(r["env_steps"]) for r in rows if r["trial"] == trial) >= 6_000
    assert [p.name for p in run.tune.iterdir()] == ["2"]


def test_same_seed_gives_the_same_run(trained, trained_in_two, tmp_path):
    def course(folder, seed):
        assert RunFolder(folder).read_settings().seed == seed
        rows = RunFolder(folder).read_progress()[:2]
        return [(r["env_steps"], r["return_mean"], r["length_mean"]) for r in rows]

    first = course(trained_in_two, 3)
    assert len(first) == 2
    train(Settings("envoi:catch", stop_steps=4000, seed=3), tmp_path / "again")
    assert course(tmp_path / "again", 3) == first
    assert course(trained, 0) != first


# Preflight plays 1000 steps, and an iteration has 2048, here in two envs: they fail in the second.
LATE = ("--num-envs-per-runner", 2, "--stop-steps", 100_000, "--check-specs", "full")


@pytest.mark.parametrize(
    ("env", "hint"),
    [
        pytest.param("python:faulty:Failing?how=spec&at=1500", "observation['cart'][2]: 1.5", marks=pytest.mark.deep),
        ("python:faulty:Failing?at=1500", "ZeroDivisionError: the pole has no length (faulty.py:"),
    ],
)
def test_late_env_error_is_one_line_and_keeps_the_checkpoint(cli, tmp_path, env, hint):
    code, _, err = cli("train", env, *LATE, "--out", tmp_path / "run")
    assert code == 2
    assert err.count("\n") == 1
    assert hint in err
    assert (tmp_path / "run" / "checkpoint" / "learner_group").is_dir()


def test_early_env_error_is_found_before_a_file_is_written(cli, tmp_path):
    command = ("train", "python:faulty:Failing?how=spec&at=100", "--out", tmp_path / "run")
    code, out, err = cli(*command)
    assert (code, out) == (2, "")
    assert "observation['cart'][2]" in err
    assert "step 10 of episode 10" in err
    assert list(tmp_path.iterdir()) == []
    code, _, err = cli(*command, "--check-specs", "off", "--stop-steps", 1)
    assert (code, err) == (0, "")


def test_job_out_of_time_at_once_names_the_command(cli, tmp_path):
    run = tmp_path / "run"
    code, out, _ = cli("train", "envoi:catch", "--stop-return", "0.5", "--stop-minutes", "0.0001", "--out", run)
    assert code == 1
    last = out.splitlines()[-1]
    assert last.startswith("out of time: 0.0001 min passed before the first iteration ended, so nothing was learned; ")
    assert last.endswith(f"envoi train --resume --out {run} --stop-return 0.5 --stop-minutes 5")


def test_job_out_of_time_leaves_other_experiments_alone(cli, tmp_path, monkeypatch):
    from ray import tune

    from envoi.integrations.rllib.tuning import Recorder

    # Time runs out as soon as there is a result to save, on a machine of any speed.
    monkeypatch.setattr(Recorder, "_ending", property(lambda self: bool(self._running)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = dict(os.environ)
    code, out, _ = cli("train", "envoi:catch", "--stop-minutes", "5", "--out", tmp_path / "run")
    assert (code, dict(os.environ)) == (0, before)
    assert out.splitlines()[-1].startswith("out of time at ")
    assert "train --resume" in out.splitlines()[-1]

    folder = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    result = tune.Tuner(lambda config: {"score": 3}, run_config=folder).fit()[0]
    assert result.metrics_dataframe["score"].to_list() == [3]
    assert (Path(result.path) / "result.json").exists()


@pytest.mark.usefixtures("trained")  # after RLlib has printed its greeting, once a process
@pytest.mark.parametrize("runners", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_batch_trains_and_its_policy_is_evaluated_on_one_lane(cli, tmp_path, runners):
    out = tmp_path / "run"
    code, text, err = cli(
        "train", "python:faulty:lanes", "--stop-steps", 2000, "--num-env-runners", runners, "--out", out
    )
    assert (code, err) == (0, "")
    assert "done with mean return" in text.splitlines()[-1]
    code, text, err = cli("evaluate", out, "--episodes", 4, "--form", "both")
    assert (code, err) == (0, "")
    assert "same episodes" in text
    episodes = json.loads((out / "evaluation.json").read_text())["episodes"]
    assert [episode["context_id"] for episode in episodes] == ["long", "short"] * 2


@pytest.mark.deep
def test_batch_is_evaluated_on_its_first_lane_while_it_trains(cli, tmp_path):
    out = tmp_path / "run"
    options = ("--stop-steps", 2000, "--evaluate-every", 1, "--num-env-runners", 0)
    code, _, err = cli("train", "python:faulty:looped_lanes", *options, "--out", out)
    assert (code, err) == (0, "")
    rows = RunFolder(out).read_progress()
    assert rows
    assert {float(row["evaluation_length_mean"]) for row in rows} == {7}
