"""The folder of a run: its files, the list of runs in a folder, and files that cannot be written."""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow.fs
import pytest

import envoi
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.callbacks import name_unwritable
from envoi.integrations.rllib.run_folder import COLUMNS, TrialState, list_runs

SETTINGS = Settings("envoi:catch", stop_return=1.0)
ROW = dict.fromkeys(COLUMNS, 0)


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.start(SETTINGS)
    return run


@pytest.mark.parametrize(("path", "why"), [("run", "holds a run"), (".", "is not empty"), ("note", "is a file")])
def test_taken_folder_is_refused(folder, tmp_path, path, why):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(envoi.EnvoiError, match=why):
        RunFolder(tmp_path / path).refuse_if_taken()
    with pytest.raises(envoi.EnvoiError, match=r"cannot write to .*note/below: Not a directory"):
        RunFolder(tmp_path / "note" / "below").start(SETTINGS)


def test_empty_folder_is_accepted_and_stays_empty(tmp_path):
    for path in (tmp_path, tmp_path / "a" / "b"):
        RunFolder(path).refuse_if_taken()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".config.yaml.12345678.tmp").write_text("ha")  # of an interrupted write
    assert RunFolder(tmp_path).blank
    RunFolder(tmp_path).refuse_if_taken()


@pytest.mark.parametrize("text", ["", "[]", "env: [", "algo: PPO", "env: envoi:catch\nsamples: many"])
def test_damaged_config_is_an_envoi_error(folder, text):
    folder.config.write_text(text)
    with pytest.raises(envoi.EnvoiError):
        folder.read_settings()


def test_rows_are_whole_and_have_all_columns(folder):
    folder.append_progress(ROW)
    folder.append_progress(ROW | {"trial": 1, "loss/vf_loss": 0.5, "set.hiddens": "[1,2]"})
    folder.append_progress(ROW | {"trial": 2})
    folder.append_progress(ROW | {"trial": 3})
    folder.progress.write_text(folder.progress.read_text()[:-7])
    rows = [(row["trial"], row["loss/vf_loss"], row["set.hiddens"]) for row in folder.read_progress()]
    assert rows == [("0", "", ""), ("1", "0.5", "[1,2]"), ("2", "", "")]


def test_rewind_counts_the_rows_of_each_trial(folder):
    # Population based training takes a trial back to an earlier iteration.
    for iteration in (1, 2, 1, 2, 3):
        folder.append_progress(ROW | {"iteration": iteration})
    folder.rewind_progress({0: TrialState(iteration=2, rows=4)})
    assert [row["iteration"] for row in folder.read_progress()] == ["1", "2", "1", "2"]


def test_checkpoint_link_is_the_last_of_the_best_trial(folder):
    settings = Settings("envoi:catch", samples=2)
    states = {trial: TrialState(f"tune/1/trial_{trial}", returns=[1.0 + trial]) for trial in (0, 1)}
    for state in states.values():
        (folder.path / state.checkpoint).mkdir(parents=True)
    folder.write_state(states)
    assert folder.checkpoint.resolve() == (folder.path / "tune/1/trial_1").resolve()
    assert folder.read_state(settings) == states
    folder.write_state({0: TrialState("tune/1/gone", iteration=7)})
    assert folder.read_state(SETTINGS) == {0: TrialState()}


def test_folder_locked_by_another_process_is_refused(tmp_path):
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    with first:
        first.claim()
        with pytest.raises(envoi.EnvoiError, match="another envoi train is writing here"):
            second.claim()
    second.claim()  # the first has released its lock
    second.release()
    assert first.blank


# The list of runs.


def make_run(path, curves, *, ending=None):
    """A run whose trials have the given returns, one each 100 env steps."""
    folder = RunFolder(path)
    with folder:
        folder.start(Settings("envoi:catch", stop_steps=300))
        for trial, returns in enumerate(curves):
            for index, value in enumerate(returns, 1):
                row = {"trial": trial, "iteration": index, "env_steps": 100 * index, "episodes": 20 * index}
                folder.append_progress(ROW | row | {"return_mean": value, "seed": trial})
        (folder.path / "tune/1").mkdir(parents=True)
        folder.write_state({trial: TrialState("tune/1", returns=[1.0]) for trial in range(len(curves))})
        if ending is not None:
            folder.write_ending(*ending)
    return folder


def test_states_of_runs(tmp_path):
    make_run(tmp_path / "a" / "done", [[1, 3, 2]], ending=("done", ""))
    make_run(tmp_path / "failed", [[1]], ending=("failed", "the env broke"))
    make_run(tmp_path / "stopped", [[1], [5]], ending=("interrupted", ""))
    make_run(tmp_path / "killed", [[]])
    running = make_run(tmp_path / "running", [[1]], ending=("interrupted", ""))
    make_run(tmp_path / "bad", [[1]]).config.write_text("env: [")
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "unrelated" / "config.yaml").write_text("mine: true")
    with running:
        running.claim()
        runs = {run.path.name: run for run in list_runs(tmp_path)}
    assert {name: (run.state, run.best_return, run.env_steps) for name, run in runs.items()} == {
        "done": ("done", 3, 300), "failed": ("failed", 1, 100), "stopped": ("interrupted", 5, 200),
        "killed": ("interrupted", None, 0), "running": ("running", 1, 100), "bad": ("failed", None, 0),
    }  # fmt: skip
    assert (runs["done"].algo, runs["failed"].message) == ("PPO", "the env broke")
    assert "config.yaml" in runs["bad"].message
    assert all(0 <= run.age_seconds < 60 for run in runs.values())


def test_killed_process_is_not_shown_as_running(tmp_path):
    folder = make_run(tmp_path / "run", [[1]])
    assert not folder.is_claimed
    code = f"import time; from envoi.integrations.rllib import RunFolder as R; r = R({str(folder.path)!r}); r.claim()"
    command = [sys.executable, "-c", f"{code}; print(1, flush=True); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            assert list_runs(tmp_path)[0].state == list_runs(tmp_path)[0].state == "running"
        finally:
            os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while folder.is_claimed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list_runs(tmp_path)[0].state == "interrupted"


@pytest.mark.parametrize(
    ("path", "why"), [("gone", "does not exist; `envoi train`"), (".", "is empty; start one"), ("file", "is a file")]
)
def test_folders_without_runs_are_refused(cli, tmp_path, path, why):
    if path == "file":
        (tmp_path / "file").write_text("")
    code, out, err = cli("runs", tmp_path / path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err


def test_runs_prints_a_narrow_table_or_json(cli, tmp_path, monkeypatch):
    make_run(tmp_path / "one", [[1, 3]], ending=("failed", "the env broke"))
    code, out, err = cli("runs", tmp_path)
    assert (code, err) == (0, "")
    assert all(part in out for part in ("run", "failed", "3", "200", "PPO", "envoi:catch", "the env broke"))
    (run,) = json.loads(cli("runs", tmp_path, "--json")[1])
    assert run["path"] == str(tmp_path / "one")
    assert (run["state"], run["best_return"], run["env_steps"]) == ("failed", 3, 200)
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = cli("runs", tmp_path)
    assert "failed" in out
    assert max(len(line) for line in out.splitlines() if "the env broke" not in line) <= 60


@pytest.mark.parametrize("count", [0, 1, 3, 12])
def test_learning_curve_of_any_number_of_trials_is_a_picture(tmp_path, count):
    from envoi.integrations.rllib.learning_curve import plot_learning_curve

    rows = [
        {**dict.fromkeys(COLUMNS, "1"), "trial": str(trial), "lr": str(10.0**-trial), "env_steps": str(100 * step),
         "seed": str(trial), "evaluation_return_mean": "1" if step == 2 else ""}
        for trial in range(count) for step in (1, 2, 3)
    ]  # fmt: skip
    plot_learning_curve(rows, tmp_path / "curve.png", "PPO", 3.0, ending="failed: the env broke")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


# Files that cannot be written.


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_files_that_cannot_be_written_are_named(folder, monkeypatch):
    folder.write_state({0: TrialState(iteration=1)})
    before, entries = folder.state.read_text(), {*folder.path.iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(envoi.EnvoiError, match=r"state\.json cannot be written: No space .*; make room"):
            folder.write_state({0: TrialState(iteration=2)})
    assert (folder.state.read_text(), {*folder.path.iterdir()}) == (before, entries)
    monkeypatch.setattr(type(folder.progress), "open", full)
    with pytest.raises(envoi.EnvoiError, match=r"progress\.csv cannot be written: No space left on device; make room"):
        folder.append_progress(ROW)


@contextmanager
def small_files():
    """Lets the system refuse files above a size, at which writing stops in the middle as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_checkpoint_that_cannot_be_written_names_the_file(tmp_path):
    class Algorithm:
        _storage = SimpleNamespace(trial_fs_path=str(tmp_path))

        def save_to_path(self, path, *, state=None):
            filesystem, root = pyarrow.fs.FileSystem.from_uri(str(path))
            filesystem.create_dir(root)
            for name, size in (("small.pkl", 10), ("module_state.pkl", 100_000)):
                with filesystem.open_output_stream(f"{root}/{name}") as out:
                    out.write(bytes(size))

        def _report_class_trainable_checkpoint(self, folder, _):
            pyarrow.fs.copy_files(str(folder), str(tmp_path / "copy"))

    algorithm = Algorithm()
    name_unwritable(algorithm)
    with small_files(), pytest.raises(envoi.EnvoiError, match=r"module_state\.pkl cannot be written: .*; make room"):
        algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.save_to_path(tmp_path / "checkpoint")
    (tmp_path / "copy").mkdir()
    with small_files(), pytest.raises(envoi.EnvoiError, match=r"copy/\w+\.pkl cannot be written: .*; make room"):
        algorithm._report_class_trainable_checkpoint(tmp_path / "checkpoint", None)


def test_job_that_updates_no_policy_says_so(cli, ray_session, tmp_path):
    out = tmp_path / "run"
    # SAC's first update follows 1,500 env steps, which a second may have.
    short = ("--set", "min_time_s_per_iteration=0", "--stop-steps", 200)
    code, text, _ = cli("train", "envoi:pendulum", "--algo", "SAC", *short, "--out", out)
    assert code == 1
    last = text.splitlines()[-1]
    assert last.startswith("nothing was learned: ")
    assert re.search(rf"envoi train --resume --out {re.escape(str(out))} --stop-steps \d{{5,}}", last)


def test_a_goal_below_what_was_done_is_reached():
    state = TrialState(env_steps=2_000, returns=[1.0] * 20)
    assert state.goal_reached(Settings("envoi:catch", stop_steps=1_000)) == "2,000 env steps"
    assert state.goal_reached(Settings("envoi:catch", stop_return=0.5)) == "mean return 1"
    assert state.goal_reached(Settings("envoi:catch", stop_return=1.5, stop_steps=3_000)) is None
