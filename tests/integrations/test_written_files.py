"""Output files that cannot be written, and jobs that learn nothing: one line each."""

import errno
import gc
import re
import resource
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow.fs
import pytest

import envoi
from envoi.integrations.rllib import RunFolder
from envoi.integrations.rllib.faults.driver_watch import DriverWatch
from envoi.integrations.rllib.faults.results import Progress, name_unwritable
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


def learners(steps):
    return {"p": {"num_module_steps_trained": steps}}


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], None),
        ([{}, {"num_env_steps_sampled_lifetime": 512}], "nothing was learned: 2 iterations and 512 env steps, and no"),
        ([{"learners": learners(0), "num_env_steps_sampled_lifetime": 8}], "nothing was learned: 1 iterations"),
        ([{"learners": learners(float("nan"))}], "nothing was learned: 1 iterations"),
        (
            [{"learners": learners(9), "num_env_steps_sampled_lifetime": 8, "env_runners": {}}] * 3,
            "no episode ended in 3 iterations and 8 env steps",
        ),
        ([{"learners": learners(9)}], None),  # of recorded data
        ([{}, {"learners": learners(9), "env_runners": {"num_episodes_lifetime": 2}}, {}], None),
    ],
)
def test_user_of_python_is_warned_once_of_a_job_that_learns_nothing(results, message, caplog):
    progress = Progress()
    for result in results:
        progress.note(result)
    progress.warn()
    progress.warn()
    found = [record.message for record in caplog.records]
    assert len(found) == (message is not None)
    assert message is None or found[0].startswith(message)


@pytest.mark.parametrize("stops", [True, False])
def test_algorithm_that_learned_nothing_warns_as_it_stops_or_is_collected(stops, caplog):
    class Algorithm:
        config = SimpleNamespace(env="made-up")
        env_runner_group = eval_env_runner_group = None
        training_step = evaluate = cleanup = lambda self: None

    algorithm = Algorithm()
    watch = DriverWatch(algorithm, most_restarts=3)
    watch.progress.note({"num_env_steps_sampled_lifetime": 512})
    assert not caplog.records
    if stops:
        algorithm.cleanup()
    del algorithm
    gc.collect()
    (record,) = caplog.records
    assert record.message.startswith("nothing was learned: 1 iterations and 512 env steps")


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
