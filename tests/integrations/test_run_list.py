"""The runs in a folder with their state."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.run_folder import COLUMNS, TrialState, list_runs


def make_run(path, settings, curves, *, ending=None):
    """A run whose trials have the given returns, one each 100 env steps."""
    folder = RunFolder(path)
    with folder:
        folder.start(settings)
        for trial, returns in enumerate(curves):
            for index, value in enumerate(returns, 1):
                row = {"trial": trial, "iteration": index, "env_steps": 100 * index, "episodes": 20 * index}
                row |= {"return_mean": value, "seed": settings.seed + trial}
                folder.append_progress(dict.fromkeys(COLUMNS, 0) | row)
        (folder.path / "tune/1").mkdir(parents=True)
        states = {trial: TrialState("tune/1", returns=[1.0]) for trial in range(len(curves))}
        folder.write_state(states)
        if ending is not None:
            folder.write_ending(*ending)
    return folder


CATCH = Settings("envoi:catch", stop_steps=300)


def test_states(tmp_path):
    make_run(tmp_path / "a" / "done", CATCH, [[1, 3, 2]], ending=("done", ""))
    make_run(tmp_path / "failed", CATCH, [[1]], ending=("failed", "the env broke"))
    make_run(tmp_path / "stopped", CATCH, [[1], [5]], ending=("interrupted", ""))
    make_run(tmp_path / "killed", CATCH, [[]])
    running = make_run(tmp_path / "running", CATCH, [[1]], ending=("interrupted", ""))
    make_run(tmp_path / "bad", CATCH, [[1]]).config.write_text("env: [")
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "unrelated" / "config.yaml").write_text("mine: true")
    with running:
        running.claim()
        runs = {run.path.name: run for run in list_runs(tmp_path)}
    assert {name: run.state for name, run in runs.items()} == {
        "done": "done", "failed": "failed", "stopped": "interrupted", "killed": "interrupted",
        "running": "running", "bad": "failed",
    }  # fmt: skip
    assert (runs["done"].best_return, runs["done"].env_steps, runs["done"].algo) == (3, 300, "PPO")
    assert (runs["stopped"].best_return, runs["stopped"].env_steps) == (5, 200)
    assert runs["killed"].best_return is None
    assert runs["failed"].message == "the env broke"
    assert "config.yaml" in runs["bad"].message
    assert all(0 <= run.age_seconds < 60 for run in runs.values())


def test_killed_process_is_not_shown_as_running(tmp_path):
    folder = make_run(tmp_path / "run", CATCH, [[1]])
    assert not folder.is_claimed
    code = f"import time; from envoi.integrations.rllib import RunFolder as R; r = R({str(folder.path)!r}); r.claim()"
    process = subprocess.Popen([sys.executable, "-c", f"{code}; print(1, flush=True); time.sleep(60)"],
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    try:
        assert list_runs(tmp_path)[0].state == list_runs(tmp_path)[0].state == "running"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    deadline = time.monotonic() + 10
    while folder.is_claimed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list_runs(tmp_path)[0].state == "interrupted"


@pytest.mark.parametrize(("path", "why"), [("gone", "does not exist"), (".", "is empty"), ("file", "is a file")])
def test_folders_without_runs_are_refused(cli, tmp_path, path, why):
    if path == "file":
        (tmp_path / "file").write_text("")
    code, out, err = cli("runs", tmp_path / path)
    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1
    assert "train" in err or path == "file"


def test_runs_prints_a_narrow_table_or_json(cli, tmp_path, monkeypatch):
    make_run(tmp_path / "one", CATCH, [[1, 3]], ending=("failed", "the env broke"))
    code, out, err = cli("runs", tmp_path)
    assert (code, err) == (0, "")
    for part in ("run", "failed", "3", "200", "PPO", "envoi:catch", "the env broke"):
        assert part in out
    (run,) = json.loads(cli("runs", tmp_path, "--json")[1])
    assert run["path"] == str(tmp_path / "one")
    assert (run["state"], run["best_return"], run["env_steps"]) == ("failed", 3, 200)
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = cli("runs", tmp_path)
    assert "failed" in out
    assert max(len(line) for line in out.splitlines() if "the env broke" not in line) <= 60


def test_learning_curve_of_any_number_of_trials_is_a_picture(tmp_path):
    from envoi.integrations.rllib.learning_curve import plot_learning_curve

    for count in (0, 1, 3, 12):
        rows = [
            {**dict.fromkeys(COLUMNS, "1"), "trial": str(trial), "lr": str(10.0**-trial), "env_steps": str(100 * step),
             "loss/vf_loss": "0.1", "seed": str(trial), "evaluation_return_mean": "1" if step == 2 else ""}
            for trial in range(count) for step in (1, 2, 3)
        ]  # fmt: skip
        path = tmp_path / f"{count}.png"
        plot_learning_curve(rows, path, "PPO", 3.0, ending="failed: the env broke")
        assert path.read_bytes().startswith(b"\x89PNG")
