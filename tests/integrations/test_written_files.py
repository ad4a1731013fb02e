"""Output files that cannot be written, and jobs that learn nothing: one line each."""

import errno

import pytest

import envoi
from envoi.integrations.rllib import RunFolder
from envoi.integrations.rllib.faults.losses import has_learned
from envoi.integrations.rllib.run_folder import COLUMNS, TrialState


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_progress_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    monkeypatch.setattr(type(run.progress), "open", full)
    with pytest.raises(envoi.EnvoiError, match=r"progress\.csv cannot be written: No space left on device; make room"):
        run.append_progress(dict.fromkeys(COLUMNS))


def test_state_that_cannot_be_written_is_named_and_the_old_one_stays(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    run.write_state({0: TrialState(iteration=1)})
    before = run.state.read_text()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(envoi.EnvoiError, match=r"state\.json cannot be written: No space left on device"):
        run.write_state({0: TrialState(iteration=2)})
    assert run.state.read_text() == before


@pytest.mark.parametrize(
    ("learners", "learned"),
    [
        ({}, False),
        ({"p": {"num_module_steps_trained": float("nan")}}, False),
        ({"p": {"num_module_steps_trained": 0}}, False),
        ({"p": {"num_module_steps_trained": 128}, "__all_modules__": {}}, True),
    ],
)
def test_iteration_has_learned_if_a_policy_was_updated(learners, learned):
    assert has_learned({"learners": learners}) is learned


def test_job_that_updates_no_policy_exits_with_1_and_says_so(cli, ray_session, tmp_path):
    out = tmp_path / "run"
    # SAC's first update follows 1,500 env steps.
    code, text, _ = cli("train", "envoi:pendulum", "--algo", "SAC", "--stop-steps", 200, "--out", out)
    assert code == 1
    last = text.splitlines()[-1]
    assert last.startswith("nothing was learned: ")
    assert f"envoi train --resume --out {out} --stop-steps 10000" in last
