import pytest

import envoi
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.run_folder import COLUMNS, TrialState

SETTINGS = Settings("envoi:catch", stop_return=1.0)


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.start(SETTINGS)
    return run


def test_taken_folder_is_refused(folder, tmp_path):
    (tmp_path / "note").write_text("mine")
    refused = {"run": "already holds a run", ".": "is not empty", "note": "is a file"}
    for path, why in refused.items():
        with pytest.raises(envoi.EnvoiError, match=why):
            RunFolder(tmp_path / path).refuse_if_taken()


def test_empty_folder_is_accepted_and_stays_empty(tmp_path):
    RunFolder(tmp_path).refuse_if_taken()
    RunFolder(tmp_path / "a" / "b").refuse_if_taken()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".config.yaml.12345678.tmp").write_text("ha")  # of an interrupted write
    assert RunFolder(tmp_path).blank
    RunFolder(tmp_path).refuse_if_taken()


def test_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(envoi.EnvoiError, match=r"cannot write to .*note/below: Not a directory"):
        RunFolder(tmp_path / "note" / "below").start(SETTINGS)


@pytest.mark.parametrize("text", ["", "[]", "env: [", "algo: PPO", "env: envoi:catch\nsamples: many"])
def test_damaged_config_is_an_envoi_error(folder, text):
    folder.config.write_text(text)
    with pytest.raises(envoi.EnvoiError):
        folder.read_settings()


def test_truncated_row_is_left_out(folder):
    for iteration in (1, 2):
        folder.append_progress(dict.fromkeys(COLUMNS, 0) | {"iteration": iteration})
    folder.progress.write_text(folder.progress.read_text()[:-7])
    assert [r["iteration"] for r in folder.read_progress()] == ["1"]


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
