"""Ctrl-C and kill -9, in processes with a Ray of their own."""

import contextlib
import json
import os
import signal
import threading
import time

import numpy as np
import pytest

from envoi.integrations.rllib import RunFolder, configure
from envoi.integrations.rllib.job_process import Interruption
from envoi.integrations.rllib.multi_agent.grouping import opponents


def wait_for(condition, process, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.deep  # test_damaged_files.py resumes at an earlier checkpoint and drops the rows after it, in one job
def test_job_killed_at_any_moment_can_be_resumed(spawn, tmp_path):
    run = RunFolder(tmp_path / "run")
    process = spawn("train", "envoi:nim", "--policies", "self-play", "--stop-return", "10", "--out", run.path)
    wait_for(lambda: run.exists, process)
    process.kill()
    process.wait()

    process = spawn("train", "--resume", "--out", run.path)
    wait_for(lambda: run.state.exists() and len(run.read_progress()) > 3, process)
    process.kill()
    process.wait()
    held = json.loads(run.state.read_text())["trials"]["0"]["iteration"]
    rows = run.read_progress()
    killed_at = len(rows)
    assert held < killed_at

    further = int(rows[-1]["env_steps"]) + 1
    process = spawn("train", "--resume", "--out", run.path, "--stop-steps", further)
    out, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (0, "")
    assert "continuing from" in out
    assert "done with" in out.splitlines()[-1]
    rows = run.read_progress()
    assert [int(r["iteration"]) for r in rows] == list(range(1, len(rows) + 1))
    steps = [int(r["env_steps"]) for r in rows]
    assert steps == sorted(set(steps))
    assert run.curve.exists()
    # The league has lost no game, and counted none twice.
    league = json.loads((run.path / "league.json").read_text())["trials"]["0"]
    games = sum(map(sum, league["games"])) / 2  # by pair, both ways
    assert games == int(rows[-1]["episodes"]) > int(rows[held - 1]["episodes"]) > 0


def press():
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_raises_while_a_job_starts():
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        assert signal.getsignal(signal.SIGINT) != before
        with contextlib.suppress(BaseException):  # as some libraries do while they start
            press()
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
        with pytest.raises(KeyboardInterrupt), interruption.patience():
            pytest.fail("training began")
    assert signal.getsignal(signal.SIGINT) == before


def test_first_ctrl_c_asks_while_a_job_trains():
    with Interruption() as interruption, interruption.patience():
        press()
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            press()


def test_ctrl_c_is_unchanged_in_another_thread():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with Interruption():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_ctrl_c_saves_and_names_the_resume_command(spawn, tmp_path):
    run = RunFolder(tmp_path / "run")
    process = spawn("train", "envoi:catch", "--stop-return", "10", "--out", run.path)
    wait_for(lambda: len(run.read_progress()) > 2, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to Ray's processes too
    out, err = process.communicate(timeout=180)
    assert (process.returncode, err) == (130, "")
    assert f"continue with: envoi train --resume --out {run.path}" in out.splitlines()[-1]
    state = json.loads(run.state.read_text())["trials"]["0"]
    assert state["iteration"] == len(run.read_progress())
    assert (run.path / state["checkpoint"]).is_dir()
    assert run.curve.exists()


def test_ctrl_c_before_the_first_iteration(spawn, tmp_path):
    run = RunFolder(tmp_path / "run")
    process = spawn("train", "envoi:catch", "--out", run.path)
    wait_for(lambda: run.log.exists(), process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to Ray's processes too
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 130
    assert "envoi train --resume" in out.splitlines()[-1]


@pytest.mark.deep
def test_killed_env_runner_gets_the_opponents_of_the_league(ray_session):
    config = configure(
        "envoi:nim", policies="self-play", seed=0, num_env_runners=1, training={"train_batch_size_per_learner": 256}
    )
    config.debugging(log_level="CRITICAL")
    algorithm = config.build_algo()
    group = algorithm.env_runner_group

    def count(result):
        return result["num_env_steps_sampled_lifetime"], sum(json.loads(result["league"])["games"].values())

    def weights(runner):
        return {name: runner.module[name].get_state(inference_only=True) for name in names}

    try:
        before = count(algorithm.train())
        (process,) = group.foreach_env_runner(lambda _: os.getpid(), local_env_runner=False)
        os.kill(process, signal.SIGKILL)
        algorithm.train()  # in which RLlib notices
        deadline = time.monotonic() + 60
        while not group.num_healthy_remote_workers() and time.monotonic() < deadline:
            algorithm.train()
        after = count(algorithm.train())
        assert all(later > earlier for later, earlier in zip(after, before, strict=True))
        names = opponents(config.policy_mapping_fn.slots)
        (held,) = group.foreach_env_runner(weights, local_env_runner=False)
        state = algorithm.learner_group.get_state(components="learner/rl_module", inference_only=True)
        for name in names:
            np.testing.assert_equal(held[name], state["learner"]["rl_module"][name])
    finally:
        algorithm.stop()
