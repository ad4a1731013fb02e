"""Damaged files of a run are named in one line; a job continues from an intact checkpoint where there is one."""

import shutil
from dataclasses import replace

import pytest

import envoi
from envoi.integrations.errors import damaged, reading
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.run_folder import TrialState

NEEDED = ("env_to_module_connector/state.pkl", "/module_state.pkl", "default_policy/class_and_ctor_args.pkl")
"""Files of a checkpoint that every policy needs, in any folder."""


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of a run that has reached its goal and has one checkpoint."""
    run = RunFolder(shutil.copytree(trained, tmp_path / "run", symlinks=True))
    states = run.read_state(run.read_settings())
    run.write_state({index: replace(state, before=None) for index, state in states.items()})
    return run


def checkpoint_files(run):
    return [path for path in sorted(run.checkpoint.rglob("*")) if path.is_file()]


every_length = pytest.mark.parametrize(
    "parts", [pytest.param((0,), id="empty"), pytest.param((0, 0.5, 1), id="cut", marks=pytest.mark.deep)]
)


def cuts(path, parts):
    """Truncates the file to parts of its length in turn, of which 1 leaves one byte out, and restores it at the end."""
    whole = path.read_bytes()
    for length in sorted({min(int(part * len(whole)), len(whole) - 1) for part in parts}):
        path.write_bytes(whole[:length])
        yield length
    path.write_bytes(whole)


def check_message(path, code, err):
    assert (code, err.count("\n")) == (2, 1), err
    assert str(path) in err
    assert "Traceback" not in err
    assert "interrupted" not in err


@every_length
def test_evaluate_names_each_truncated_file(cli, copied, parts):
    files = [copied.config, copied.state, copied.progress, *checkpoint_files(copied)]
    assert len(files) > 20
    refused = set()
    for path in files:
        for length in cuts(path, parts):
            code, _, err = cli("evaluate", copied.path, "--episodes", "1")
            if code == 0:  # it does not need the file
                continue
            check_message(path, code, err)
            refused.add((path, length))
    names = {str(path) for path, length in refused if length == 0}
    assert {str(copied.config), str(copied.state)} <= names
    assert all(any(name.endswith(needed) for name in names) for needed in NEEDED)
    assert cli("evaluate", copied.path, "--episodes", "1")[0] == 0  # all are restored


@every_length
def test_resume_names_each_truncated_file(cli, copied, parts):
    goal = ("--stop-return", "2")
    assert len(checkpoint_files(copied)) > 20
    for path in [copied.state, *checkpoint_files(copied)]:
        for _ in cuts(path, parts):
            code, _, err = cli("train", "--resume", "--out", copied.path, *goal)
            # A job continues from the folder that the link `checkpoint` points to.
            check_message(path.resolve().relative_to(copied.path.resolve()), code, err)
    for path, contents in ((copied.config, b"env: envoi:catch\nalgo: PPO\n"), (copied.progress, b"trial\n\xff\n")):
        whole = path.read_bytes()
        path.write_bytes(contents)
        check_message(path, *cli("train", "--resume", "--out", copied.path, *goal)[::2])
        path.write_bytes(whole)


def test_resume_continues_from_the_checkpoint_before_a_damaged_one(cli, trained_in_two, tmp_path):
    run = RunFolder(shutil.copytree(trained_in_two, tmp_path / "run", symlinks=True))
    last = run.read_state(run.read_settings())[0]
    before = last.before
    assert 0 < before.env_steps < last.env_steps
    broken = run.checkpoint.resolve() / "learner_group" / "learner" / "state.pkl"
    module = next(path for path in checkpoint_files(run) if path.match("default_policy/module_state.pkl"))
    for path in (broken, module):
        path.write_bytes(path.read_bytes()[:-1])

    code, _, err = cli("evaluate", run.path, "--episodes", "1")
    check_message(module, code, err)
    assert "continue from the checkpoint before it by `envoi train --resume`" in err

    code, out, err = cli("train", "--resume", "--out", run.path, "--stop-steps", "5000")
    assert (code, err) == (0, "")
    note = next(line for line in out.splitlines() if line.startswith("note:"))
    assert "is damaged" in note
    assert f"continuing from the checkpoint before it, at {before.env_steps:,} env steps" in note
    assert out.count("is damaged") == 1
    iterations = [int(row["iteration"]) for row in run.read_progress()]
    assert iterations == list(range(1, len(iterations) + 1))
    assert run.read_state(run.read_settings())[0].env_steps >= 5000
    assert cli("evaluate", run.path, "--episodes", "1")[0] == 0


def test_checkpoint_that_only_rllib_finds_damaged_is_named(cli, ray_session, copied):
    state = copied.checkpoint / "learner_group" / "learner" / "state.pkl"
    state.write_bytes(state.read_bytes().replace(b"numpy", b"nunpy"))
    assert damaged(copied.checkpoint) is None
    code, _, err = cli("train", "--resume", "--out", copied.path, "--stop-return", "2")
    assert code == 2
    assert f"{copied.checkpoint.resolve()} cannot be read: ModuleNotFoundError: No module named 'nunpy'" in err


def test_state_before_is_read_while_its_checkpoint_exists(tmp_path):
    run, settings = RunFolder(tmp_path), Settings("envoi:catch")
    first = TrialState("tune/1/a", iteration=1)
    last = TrialState("tune/1/b", iteration=2, before=first)
    for state in (first, last):
        (tmp_path / state.checkpoint).mkdir(parents=True)
    run.write_state({0: last})
    assert run.read_state(settings) == {0: last}
    (tmp_path / first.checkpoint).rmdir()
    assert run.read_state(settings)[0] == replace(last, before=None)


@pytest.mark.parametrize("error", [EOFError(), KeyError("y"), RuntimeError("w\nv")])
def test_reading_names_the_file_for_any_error(tmp_path, error):
    message = rf"state cannot be read: {type(error).__name__}"
    with pytest.raises(envoi.EnvoiError, match=message) as caught, reading(tmp_path / "state"):
        raise error
    assert "\n" not in str(caught.value)
    with pytest.raises(KeyboardInterrupt), reading(tmp_path):
        raise KeyboardInterrupt


@pytest.mark.parametrize("command", ["info", "check", "train", "evaluate"])
def test_eof_error_of_an_env_is_not_an_interruption(cli, trained, tmp_path, monkeypatch, command):
    (tmp_path / "ending.py").write_text("def make():\n    raise EOFError('the simulator hung up')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    env = "python:ending:make"
    arguments = {"train": (env, "--out", tmp_path / "run"), "evaluate": (trained, "--env", env)}
    code, out, err = cli(command, *arguments.get(command, (env,)))
    assert code in (1, 2)
    assert "the simulator hung up" in out + err
    assert "interrupted" not in out + err
