import pytest

import envoi
from envoi.atomic_write import write_atomically
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.run_folder import COLUMNS
from envoi.integrations.rllib.trial_state import TrialState

SETTINGS = Settings("envoi:catch", stop_return=1.0)


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.start(SETTINGS, {"envoi": "0"})
    return run


def row(**values):
    return dict.fromkeys(COLUMNS, 0) | values


def test_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_settings_are_read_back(folder):
    assert folder.read_settings() == SETTINGS
    assert folder.read_state(SETTINGS) == {0: TrialState()}


def test_taken_folder_is_refused(folder, tmp_path):
    with pytest.raises(envoi.EnvoiError, match="already holds a run"):
        folder.refuse_if_taken()
    (tmp_path / "note").write_text("mine")
    with pytest.raises(envoi.EnvoiError, match="is not empty"):
        RunFolder(tmp_path).refuse_if_taken()
    with pytest.raises(envoi.EnvoiError, match="is a file"):
        RunFolder(tmp_path / "note").refuse_if_taken()
    with pytest.raises(envoi.EnvoiError, match="cannot write"):
        RunFolder(tmp_path / "note" / "below").refuse_if_taken()


def test_empty_folder_is_accepted_and_the_check_leaves_no_file(tmp_path):
    RunFolder(tmp_path).refuse_if_taken()
    RunFolder(tmp_path / "a" / "b").refuse_if_taken()
    assert list(tmp_path.iterdir()) == []


def test_files_of_an_interrupted_write_are_ignored(tmp_path):
    (tmp_path / ".config.yaml.12345678.tmp").write_text("ha")
    assert RunFolder(tmp_path).blank
    RunFolder(tmp_path).refuse_if_taken()


@pytest.mark.parametrize("text", ["", "[]", "env: [", "algo: PPO", "env: envoi:catch\nsamples: many"])
def test_damaged_config_is_an_envoi_error(folder, text):
    folder.config.write_text(text)
    with pytest.raises(envoi.EnvoiError):
        folder.read_settings()


def test_truncated_row_is_left_out(folder):
    folder.append_progress(row(iteration=1))
    folder.append_progress(row(iteration=2))
    folder.progress.write_text(folder.progress.read_text()[:-7])
    assert [r["iteration"] for r in folder.read_progress()] == ["1"]


def test_rewind_drops_the_rows_after_the_checkpoint(folder):
    for iteration in range(1, 5):
        folder.append_progress(row(iteration=iteration))
    folder.rewind_progress({0: TrialState(iteration=2)})
    assert [r["iteration"] for r in folder.read_progress()] == ["1", "2"]


def test_checkpoint_link_is_the_last_of_the_best_trial(folder):
    settings = Settings("envoi:catch", samples=2)
    for trial in (0, 1):
        (folder.tune / "1" / f"trial_{trial}").mkdir(parents=True)
    states = {
        0: TrialState("tune/1/trial_0", returns=[1.0]),
        1: TrialState("tune/1/trial_1", returns=[2.0]),
    }
    folder.write_state(states)
    assert folder.checkpoint.resolve() == (folder.path / "tune/1/trial_1").resolve()
    assert folder.read_state(settings) == states


def test_missing_checkpoint_counts_as_none(folder):
    folder.write_state({0: TrialState("tune/1/gone", iteration=7)})
    assert folder.read_state(SETTINGS) == {0: TrialState()}


def test_earlier_tune_folders_are_removed_except_last_checkpoints(folder):
    for session in ("1", "2", "3"):
        (folder.tune / session / "trial_0").mkdir(parents=True)
    folder.drop_sessions({0: TrialState("tune/2/trial_0")})
    assert [p.name for p in folder.tune.iterdir()] == ["2"]
    assert folder.new_session() == "3"


def test_folder_locked_by_another_process_is_refused(tmp_path):
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    with first:
        first.claim()
        with pytest.raises(envoi.EnvoiError, match="another envoi train is writing here"):
            second.claim()
    second.claim()  # the first has released its lock
    second.release()
    assert first.blank
