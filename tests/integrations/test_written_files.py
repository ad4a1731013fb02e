"""Output files that cannot be written, and jobs that learn nothing: one line each."""

import errno
import re
import resource
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow.fs
import pytest

import envoi
from envoi.integrations.rllib import RunFolder
from envoi.integrations.rllib.faults.results import name_unwritable
from envoi.integrations.rllib.run_folder import COLUMNS, TrialState


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_progress_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    monkeypatch.setattr(type(run.progress), "open", full)
    with pytest.raises(envoi.EnvoiError, match=r"progress\.csv cannot be written: No space left on device; make room"):
        run.append_progress(dict.fromkeys(COLUMNS))


def test_state_that_cannot_be_written_stays(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    run.write_state({0: TrialState(iteration=1)})
    before = run.state.read_text()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(envoi.EnvoiError, match=r"state\.json cannot be written: No space left on device"):
        run.write_state({0: TrialState(iteration=2)})
    assert run.state.read_text() == before
    assert list(tmp_path.iterdir()) == [run.state]


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
        _storage = None

        def save_to_path(self, path, *, state=None):
            filesystem, root = pyarrow.fs.FileSystem.from_uri(str(path))
            filesystem.create_dir(root)
            for name, size in (("small.pkl", 10), ("module_state.pkl", 100_000)):
                with filesystem.open_output_stream(f"{root}/{name}") as out:
                    out.write(bytes(size))

        def _report_class_trainable_checkpoint(self, folder, _):
            pyarrow.fs.copy_files(str(folder), str(tmp_path / "copy"))

    algorithm = Algorithm()
    algorithm._storage = SimpleNamespace(trial_fs_path=str(tmp_path))
    name_unwritable(algorithm)
    with small_files(), pytest.raises(envoi.EnvoiError, match=r"module_state\.pkl cannot be written: .*; make room"):
        algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.save_to_path(tmp_path / "checkpoint")
    (tmp_path / "copy").mkdir()
    with small_files(), pytest.raises(envoi.EnvoiError, match=r"copy/\w+\.pkl cannot be written: .*; make room"):
        algorithm._report_class_trainable_checkpoint(tmp_path / "checkpoint", None)


def test_job_that_updates_no_policy_exits_with_1_and_says_so(cli, ray_session, tmp_path):
    out = tmp_path / "run"
    # SAC's first update follows 1,500 env steps.
    code, text, _ = cli("train", "envoi:pendulum", "--algo", "SAC", "--stop-steps", 200, "--out", out)
    assert code == 1
    last = text.splitlines()[-1]
    assert last.startswith("nothing was learned: ")
    # Ten times the steps so far, of which an iteration takes as many as its time allows.
    assert re.search(rf"envoi train --resume --out {re.escape(str(out))} --stop-steps \d{{5,}}", last)
