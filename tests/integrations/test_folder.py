import pytest

import envoi
from envoi.integrations.atomic_write import write_atomically
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.run_folder import COLUMNS, TrialState

SETTINGS = Settings("envoi:catch", stop_return=1.0)


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.start(SETTINGS, {"envoi": "0"})
    return run


def row(**values):
    return dict.fromkeys(COLUMNS, 0) | values


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_settings_are_read_back(folder):
    assert folder.read_settings() == SETTINGS
    assert folder.read_state(SETTINGS) == {0: TrialState()}


def test_a_folder_that_is_taken_is_refused(folder, tmp_path):
    with pytest.raises(envoi.EnvoiError, match="already holds a run"):
        folder.refuse_if_taken()
    (tmp_path / "note").write_text("mine")
    with pytest.raises(envoi.EnvoiError, match="is not empty"):
        RunFolder(tmp_path).refuse_if_taken()
    with pytest.raises(envoi.EnvoiError, match="is a file"):
        RunFolder(tmp_path / "note").refuse_if_taken()
    with pytest.raises(envoi.EnvoiError, match="cannot write"):
        RunFolder(tmp_path / "note" / "below").refuse_if_taken()


def test_an_empty_folder_is_taken_and_the_check_leaves_nothing(tmp_path):
    RunFolder(tmp_path).refuse_if_taken()
    RunFolder(tmp_path / "a" / "b").refuse_if_taken()
    assert list(tmp_path.iterdir()) == []


def test_what_an_interrupted_write_left_does_not_count(tmp_path):
    (tmp_path / ".config.yaml.12345678.tmp").write_text("ha")
    assert RunFolder(tmp_path).blank
    RunFolder(tmp_path).refuse_if_taken()


@pytest.mark.parametrize("text", ["", "[]", "env: [", "algo: PPO", "env: envoi:catch\nsamples: many"])
def test_a_config_that_is_none_is_an_error_of_ours(folder, text):
    folder.config.write_text(text)
    with pytest.raises(envoi.EnvoiError):
        folder.read_settings()


def test_a_row_that_was_cut_off_is_left_out(folder):
    folder.append_progress(row(iteration=1))
    folder.append_progress(row(iteration=2))
    folder.progress.write_text(folder.progress.read_text()[:-7])
    assert [r["iteration"] for r in folder.read_progress()] == ["1"]


def test_going_on_drops_the_rows_after_the_checkpoint(folder):
    for iteration in range(1, 5):
        folder.append_progress(row(iteration=iteration))
    folder.rewind_progress({0: TrialState(iteration=2)})
    assert [r["iteration"] for r in folder.read_progress()] == ["1", "2"]


def test_the_checkpoint_shown_is_the_best_trials_last(folder):
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


def test_a_checkpoint_that_is_gone_counts_as_none(folder):
    folder.write_state({0: TrialState("tune/1/gone", iteration=7)})
    assert folder.read_state(SETTINGS) == {0: TrialState()}


def test_what_tune_left_of_earlier_starts_goes_but_for_last_checkpoints(folder):
    for session in ("1", "2", "3"):
        (folder.tune / session / "trial_0").mkdir(parents=True)
    folder.drop_sessions({0: TrialState("tune/2/trial_0")})
    assert [p.name for p in folder.tune.iterdir()] == ["2"]
    assert folder.new_session() == "3"


def test_a_folder_that_another_process_writes_to_is_refused(tmp_path):
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    with first:
        first.claim()
        with pytest.raises(envoi.EnvoiError, match="another envoi train is writing here"):
            second.claim()
    second.claim()  # the first has let go
    second.release()
    assert first.blank
