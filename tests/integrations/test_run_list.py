"""The runs in a folder with their state, and their comparison over seeds."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import envoi
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.comparison import compare_runs, interquartile_mean
from envoi.integrations.rllib.progress_table import COLUMNS
from envoi.integrations.rllib.run_list import list_runs
from envoi.integrations.rllib.trial_state import TrialState


def make_run(path, settings, curves, *, reached=None, ending=None):
    """A run whose trials have the given returns, one each 100 env steps."""
    folder = RunFolder(path)
    with folder:
        folder.start(settings, {"envoi": "0"})
        for trial, returns in enumerate(curves):
            for index, value in enumerate(returns, 1):
                row = {"trial": trial, "iteration": index, "env_steps": 100 * index, "episodes": 20 * index}
                row |= {"return_mean": value, "seed": settings.seed + trial}
                folder.append_progress(dict.fromkeys(COLUMNS, 0) | row)
        (folder.path / "tune/1").mkdir(parents=True)
        states = {trial: TrialState("tune/1", reached=reached, returns=[1.0]) for trial in range(len(curves))}
        folder.write_state(states)
        if ending is not None:
            folder.write_ending(*ending)
    return folder


CATCH = Settings("envoi:catch", stop_steps=300)


def test_states(tmp_path):
    make_run(tmp_path / "a" / "done", CATCH, [[1, 3, 2]], reached="300 env steps", ending=("done", ""))
    make_run(tmp_path / "failed", CATCH, [[1]], ending=("failed", "the env broke"))
    make_run(tmp_path / "stopped", CATCH, [[1], [5]], ending=("interrupted", ""))
    make_run(tmp_path / "killed", CATCH, [[]])
    make_run(tmp_path / "earlier_version", CATCH, [[2]], reached="300 env steps")
    running = make_run(tmp_path / "running", CATCH, [[1]], ending=("interrupted", ""))
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "unrelated" / "config.yaml").write_text("mine: true")
    with running:
        running.claim()
        runs = {run.path.name: run for run in list_runs(tmp_path)}
    assert {name: run.state for name, run in runs.items()} == {
        "done": "done", "failed": "failed", "stopped": "interrupted", "killed": "interrupted",
        "earlier_version": "done", "running": "running",
    }  # fmt: skip
    assert (runs["done"].best_return, runs["done"].env_steps, runs["done"].algo) == (3, 300, "PPO")
    assert (runs["stopped"].best_return, runs["stopped"].env_steps) == (5, 200)
    assert runs["killed"].best_return is None
    assert runs["failed"].message == "the env broke"
    assert all(0 <= run.age_seconds < 60 for run in runs.values())


def test_looking_at_a_run_does_not_claim_it(tmp_path):
    folder = make_run(tmp_path / "run", CATCH, [[1]])
    assert not folder.is_claimed
    with folder:
        folder.claim()
        assert folder.is_claimed
        assert RunFolder(folder.path).is_claimed
    assert not folder.is_claimed


def test_killed_process_is_not_shown_as_running(tmp_path):
    folder = make_run(tmp_path / "run", CATCH, [[1]])
    code = f"import time; from envoi.integrations.rllib import RunFolder as R; r = R({str(folder.path)!r}); r.claim()"
    process = subprocess.Popen([sys.executable, "-c", f"{code}; print(1, flush=True); time.sleep(60)"],
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    try:
        assert list_runs(tmp_path)[0].state == "running"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    deadline = time.monotonic() + 10
    while folder.is_claimed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list_runs(tmp_path)[0].state == "interrupted"


def test_damaged_run_does_not_hide_the_others(tmp_path):
    make_run(tmp_path / "good", CATCH, [[1]])
    make_run(tmp_path / "bad", CATCH, [[1]]).config.write_text("env: [")
    runs = {run.path.name: run for run in list_runs(tmp_path)}
    assert runs["good"].state == "interrupted"
    assert runs["bad"].state == "failed"
    assert "config.yaml" in runs["bad"].message


@pytest.mark.parametrize(("path", "why"), [("gone", "does not exist"), (".", "is empty"), ("file", "is a file")])
def test_folders_without_runs_are_refused(cli, tmp_path, path, why):
    if path == "file":
        (tmp_path / "file").write_text("")
    code, out, err = cli("runs", tmp_path / path)
    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1
    assert "train" in err or path == "file"


def test_runs_prints_a_table_that_fits_a_narrow_terminal(cli, tmp_path, monkeypatch):
    make_run(tmp_path / "one", CATCH, [[1, 3]], ending=("failed", "the env broke"))
    code, out, err = cli("runs", tmp_path)
    assert (code, err) == (0, "")
    for part in ("run", "failed", "3", "200", "PPO", "envoi:catch", "the env broke"):
        assert part in out
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = cli("runs", tmp_path)
    assert "failed" in out
    assert max(len(line) for line in out.splitlines() if "the env broke" not in line) <= 60


def test_runs_prints_json(cli, tmp_path):
    make_run(tmp_path / "one", CATCH, [[1, 3]], ending=("done", ""))
    code, out, _ = cli("runs", tmp_path, "--json")
    assert code == 0
    (run,) = json.loads(out)
    assert run["path"] == str(tmp_path / "one")
    assert (run["state"], run["best_return"], run["env_steps"]) == ("done", 3, 200)


def test_interquartile_mean_leaves_out_the_ends():
    assert interquartile_mean(np.array([[0.0], [1.0], [2.0], [100.0]])) == 1.5
    assert interquartile_mean(np.array([[0.0], [3.0], [6.0]])) == 3
    assert interquartile_mean(np.arange(8.0)[:, None]) == 3.5


def test_seeds_of_several_runs_are_one_group(tmp_path):
    for seed in range(4):
        make_run(tmp_path / f"s{seed}", Settings("envoi:catch", stop_steps=300, seed=seed), [[0, seed]])
    make_run(tmp_path / "other", Settings("envoi:catch", stop_steps=300, set={"gamma": 0.9}), [[0, 9]])
    comparison = compare_runs(sorted(tmp_path.iterdir()))
    best, seeds = comparison.groups
    assert (best.label, best.final.iqm, best.final.low) == ("other", 9, None)
    assert seeds.seeds == (0, 1, 2, 3)
    assert seeds.final.iqm == 1.5
    assert 0 <= seeds.final.low <= 1.5 <= seeds.final.high <= 3
    assert comparison.common_steps == 200


def test_interval_is_a_bootstrap_over_seeds(tmp_path):
    values = np.random.default_rng(0).normal(10, 2, 20)
    for seed, value in enumerate(values):
        make_run(tmp_path / f"s{seed}", Settings("envoi:catch", stop_steps=300, seed=seed), [[value, value]])
    (group,) = compare_runs(sorted(tmp_path.iterdir())).groups
    assert group.final.low < group.final.iqm < group.final.high
    # The standard error of the IQM of normal values is about 1.2 times that of the mean.
    assert group.final.high - group.final.low == pytest.approx(2 * 1.96 * 1.2 * values.std() / np.sqrt(20), rel=0.4)
    assert compare_runs(sorted(tmp_path.iterdir())).groups[0].final == group.final


def test_label_of_a_trial_in_a_sweep_is_what_differs(tmp_path):
    swept = Settings("envoi:catch", set={"lr": "grid(1e-4,1e-3)", "gamma": 0.9}, samples=2, stop_steps=300)
    make_run(tmp_path / "sweep", swept, [[0, 1], [0, 3], [0, 2], [0, 5]])
    groups = compare_runs([tmp_path / "sweep"]).groups
    assert [(group.label, len(group.seeds), group.final.iqm) for group in groups] == [
        ("lr=0.001", 2, 4), ("lr=0.0001", 2, 1.5),
    ]  # fmt: skip


def test_trial_at_its_goal_stays_there_while_others_train(tmp_path):
    make_run(tmp_path / "a", Settings("envoi:catch", seed=0, stop_return=5), [[1, 5]], reached="mean return 5")
    make_run(tmp_path / "b", Settings("envoi:catch", seed=1, stop_return=5), [[1, 1, 1, 3]])
    (group,) = compare_runs([tmp_path / "a", tmp_path / "b"]).groups
    assert group.steps[-1] == 400
    assert group.final.iqm == 4


def test_compare_prints_a_table_and_writes_a_picture(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "a", CATCH, [[1, 3, 4]])
    make_run(tmp_path / "b", Settings("envoi:catch", stop_steps=300, lr=(1e-3,)), [[1, 2]])
    code, out, err = cli("compare", "a", "b")
    assert (code, err) == (0, "")
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert "at 200 steps" in out
    assert out.index("\na ") < out.index("\nb ")
    code, out, err = cli("compare", ".", "--json")
    document = json.loads(out)
    assert [group["label"] for group in document["groups"]] == ["a", "b"]
    assert document["common_steps"] == 200


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("gone",), "does not exist"),
        (("a", "empty"), "is empty"),
        (("a", "--out", "picture.jpg"), ".png"),
        (("a", "--out", "gone/picture.png"), "there is no folder"),
        (("fresh",), "no episode has ended"),
    ],
)
def test_runs_that_cannot_be_compared(cli, tmp_path, monkeypatch, arguments, hint):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "a", CATCH, [[1, 3, 4]])
    make_run(tmp_path / "fresh", CATCH, [[]])
    (tmp_path / "empty").mkdir()
    code, _, err = cli("compare", *arguments)
    assert code == 2
    assert hint in err
    assert err.count("\n") == 1


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


def test_label_names_only_what_differs_and_is_no_default(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / f"a{seed}", Settings("envoi:catch", stop_steps=300, seed=seed), [[0, 9]])
        changed = Settings("envoi:catch", stop_steps=300, seed=seed, num_env_runners=1, set={"gamma": 0.9})
        make_run(tmp_path / f"b{seed}", changed, [[0, 5]])
    labels = [group.label for group in compare_runs(sorted(tmp_path.iterdir())).groups]
    assert labels == ["PPO on envoi:catch", "gamma=0.9, num_env_runners=1"]


def test_trial_of_population_based_training_is_no_seed_of_one_with_fixed_settings(tmp_path):
    space = {"lr": "grid(1e-4,1e-3)"}
    make_run(tmp_path / "fixed", Settings("envoi:catch", stop_steps=300, set=space), [[0, 9], [0, 8]])
    changing = Settings("envoi:catch", stop_steps=300, set=space, scheduler="pbt")
    make_run(tmp_path / "changing", changing, [[0, 7], [0, 6]])
    assert all(len(group.runs) == 1 for group in compare_runs(sorted(tmp_path.iterdir())).groups)


def test_comparison_breaks_no_word_at_80_columns_and_notes_several_envs(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for seed in (0, 1):
        wide = Settings("envoi:catch", stop_steps=300, seed=seed, set={"train_batch_size_per_learner": 512})
        make_run(tmp_path / f"wide{seed}", wide, [[0, 9]])
        make_run(tmp_path / f"other{seed}", Settings("envoi:gridworld", stop_steps=300, seed=seed), [[0, 9, 1]])
    code, out, _ = cli("compare", ".", "--out", "picture.png")
    assert code == 0
    assert "train_batch_size_per_learner=512" in out
    assert "whose returns do not compare" in out
    assert max(map(len, out.splitlines())) <= 80


def test_legend_of_long_labels_covers_no_curve(tmp_path, monkeypatch):
    from envoi.integrations.rllib import comparison_plot

    for seed in (0, 1):
        long = {"train_batch_size_per_learner": 512, "model.fcnet_hiddens": [16, 16], "gamma": 0.9}
        make_run(tmp_path / f"long{seed}", Settings("envoi:catch", seed=seed, set=long), [[0, 9]])
        make_run(tmp_path / f"short{seed}", Settings("envoi:catch", seed=seed), [[0, 5]])
    seen = {}
    monkeypatch.setattr(comparison_plot, "save", lambda figure, path: seen.update(figure=figure))
    comparison_plot.plot_comparison(compare_runs(sorted(tmp_path.iterdir())), tmp_path / "picture.png")
    figure = seen["figure"]
    figure.canvas.draw()
    (axes,) = figure.axes
    assert axes.get_legend().get_window_extent().y1 <= axes.get_window_extent().y0


def test_folder_of_a_job_that_failed_at_once_is_to_be_removed(tmp_path):
    make_run(tmp_path / "run", CATCH, [[]], ending=("failed", "the env broke"))
    (tmp_path / "run" / "progress.csv").unlink(missing_ok=True)
    with pytest.raises(envoi.EnvoiError, match="failed before it learned anything; remove the folder"):
        RunFolder(tmp_path / "run").refuse_if_taken()
