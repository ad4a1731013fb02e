"""The trials of a sweep, and the schedulers that stop or change them."""

from types import SimpleNamespace

import pytest

import envoi
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.progress_table import COLUMNS
from envoi.integrations.rllib.search_space import SearchSpace
from envoi.integrations.rllib.trial_state import TrialState

SWEPT = {"lr": "log(1e-5,1e-3)", "clip_param": "grid(0.1,0.2)", "gamma": 0.98}


def test_trials_are_fixed_by_the_seed():
    first, again = (Settings("envoi:catch", set=SWEPT, samples=2).trials for _ in range(2))
    other = Settings("envoi:catch", set=SWEPT, samples=2, seed=7).trials
    assert first == again
    assert [trial.overrides["clip_param"] for trial in first] == [0.1, 0.2, 0.1, 0.2]
    assert {trial.overrides["gamma"] for trial in first} == {0.98}
    assert len({trial.lr for trial in (*first, *other)}) == 8
    assert all(1e-5 <= trial.lr <= 1e-3 for trial in first)
    assert [trial.seed for trial in other] == [7, 8, 9, 10]


def test_sampled_spaces_have_eight_trials_and_others_one():
    assert len(Settings("envoi:catch", set={"lr": "log(1e-5,1e-3)"}).trials) == 8
    assert len(Settings("envoi:catch", set={"lr": "grid(1e-5,1e-3)"}).trials) == 2
    assert len(Settings("envoi:catch", set={"lr": 1e-3}).trials) == 1


def test_trials_are_those_of_the_run_folder(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    settings = Settings("envoi:catch", set=SWEPT, samples=2)
    folder.start(settings, {"envoi": "0"})
    # Another version of numpy may sample other values from the same seed.
    monkeypatch.setattr(SearchSpace, "sample", lambda self, rng: self.values[0])
    read = folder.read_settings()
    assert read == settings
    assert read.trials == settings.trials
    assert read.resumed({"stop_steps": 5}).trials == settings.trials
    assert "&id" not in folder.config.read_text()


def test_resume_may_repeat_settings_and_not_change_them():
    settings = Settings("envoi:catch", set=SWEPT)
    assert settings.resumed({"set": {"gamma": "0.98", "lr": "log(1e-5,1e-3)"}}) == settings
    with pytest.raises(envoi.EnvoiError, match=r"cannot change gamma from 0\.98 to 0\.9;"):
        settings.resumed({"set": {"gamma": "0.9"}})
    with pytest.raises(envoi.EnvoiError, match="cannot change clip_param from grid"):
        settings.resumed({"set": {"clip_param": "0.1"}})


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"scheduler": "ahsa"}, "did you mean 'asha'"),
        ({"scheduler": "asha", "set": {}}, "this job has one"),
        ({"scheduler": "pbt", "set": {}, "samples": 4}, "give a search space"),
        ({"scheduler": "pbt", "set": {"model.lstm_cell_size": "int(4,64)"}}, "cannot change model.lstm_cell_size"),
        ({"track": ("wandv",)}, "did you mean 'wandb'"),
        ({"lr": (1e-3,)}, "set twice"),
        ({"module": "nets:Mine"}, "python:module:Class"),
        ({"module": "python:no_such_module:Mine"}, "no module is called 'no_such_module'"),
        ({"evaluate_every": 0}, "at least 1"),
        ({"gpus": -1}, "at least 0"),
    ],
)
def test_wrong_sweeps_are_refused(changes, hint):
    with pytest.raises(envoi.EnvoiError) as caught:
        Settings("envoi:catch", **({"set": SWEPT} | changes))
    assert hint in str(caught.value)


def test_arguments_of_the_env_become_part_of_its_name():
    settings = Settings("python:drifting:Drifting", set={"env_config.fatal": "choice(100,200)"})
    assert settings.env_of(settings.trials[0].overrides) in {
        "python:drifting:Drifting?fatal=100",
        "python:drifting:Drifting?fatal=200",
    }
    assert Settings("envoi:catch?rows=4").env_of({"env_config.columns": 3}) == "envoi:catch?rows=4&columns=3"


def recorded(folder, settings, states=None):
    from envoi.integrations.rllib.recorder import Recorder

    held = states or {trial.index: TrialState() for trial in settings.trials}
    return Recorder(settings, folder, held, None, SimpleNamespace(asked=False))


class TuneTrial:
    def __init__(self, settings, index):
        self.trial_id, self.status = f"x_{index}", "RUNNING"
        self.config = {"seed": settings.seed + index, "lr": 1.0}


def play(settings, recorder, scheduler, returns, steps):
    """Trials that report a return after each so many steps; those that are stopped report no more."""
    controller = SimpleNamespace(get_live_trials=list, get_trials=list, search_alg=None)
    alive = {index: TuneTrial(settings, index) for index in returns if not recorder.has_ended(index)}
    for trial in alive.values():
        scheduler.on_trial_add(controller, trial)
    stopped = {}
    for step in steps:
        for index, trial in list(alive.items()):
            result = {
                "config": trial.config,
                "training_iteration": step // 100,
                "num_env_steps_sampled_lifetime": step,
                "time_this_iter_s": 1.0,
                "time_total_s": step / 100,
                "env_runners": {"episode_returns": [returns[index]] * 20},
            }
            assert not recorder(trial.trial_id, result)
            if scheduler.on_trial_result(controller, trial, result) == "STOP":
                stopped[index] = step
                del alive[index]
            recorder.on_trial_result(trial=trial, result=result)
    return stopped


def asha(settings, recorder):
    from envoi.integrations.rllib.schedulers import make_scheduler

    return make_scheduler(settings, recorder, None)


def test_asha_stops_poor_trials_and_a_resumed_job_remembers_what_it_saw(tmp_path):
    folder = RunFolder(tmp_path / "run")
    settings = Settings("envoi:catch", samples=6, scheduler="asha", stop_steps=2700)
    folder.start(settings, {"envoi": "0"})
    returns = {0: 6.0, 1: 5.0, 2: 4.0, 3: 3.0, 4: 2.0, 5: 1.0}
    whole = recorded(folder, settings)
    stopped = play(settings, whole, asha(settings, whole), returns, range(100, 2600, 100))
    assert 0 not in stopped
    assert stopped[5] == 100  # the first rung
    state = whole._live[5]
    assert state.reached == "stopped by asha at 100 env steps"
    assert state.stopped_early

    again = RunFolder(tmp_path / "again")
    again.start(settings, {"envoi": "0"})
    first = recorded(again, settings)
    early = play(settings, first, asha(settings, first), returns, range(100, 700, 100))
    second = recorded(again, settings, dict(first._live))
    late = play(settings, second, asha(settings, second), returns, range(700, 2600, 100))
    assert early | late == stopped


def test_median_stops_the_trials_below_it_and_a_resumed_job_continues(tmp_path):
    folder = RunFolder(tmp_path / "run")
    settings = Settings("envoi:catch", samples=6, scheduler="median", stop_steps=1000)
    folder.start(settings, {"envoi": "0"})
    recorder = recorded(folder, settings)
    returns = {0: 5.0, 1: 4.5, 2: 4.0, 3: 3.0, 4: 2.0, 5: 1.0}
    stopped = play(settings, recorder, asha(settings, recorder), returns, range(100, 300, 100))
    assert 5 in stopped
    assert 0 not in stopped
    assert "stopped by median" in recorder._live[5].reached
    again = recorded(folder, settings, dict(recorder._live))
    assert 0 not in play(settings, again, asha(settings, again), returns, range(300, 900, 100))


def test_perturbed_trial_takes_over_progress_and_settings(tmp_path):
    folder = RunFolder(tmp_path / "run")
    settings = Settings("envoi:catch", set={"lr": "log(1e-5,1e-3)", "gamma": 0.98}, samples=4, scheduler="pbt")
    folder.start(settings, {"envoi": "0"})
    recorder = recorded(folder, settings)
    poor, good = (TuneTrial(settings, index) for index in (1, 2))
    recorder._live[2].returns, recorder._live[2].env_steps = [1.0] * 30, 500
    scheduler = pbt(settings, recorder)
    config, _ = scheduler._get_new_config(poor, good)
    assert config["seed"] == settings.seed + 1
    after = recorder.overrides_of(poor)
    assert 1e-5 <= after["lr"] <= 1e-3
    assert after["gamma"] == 0.98
    assert config["lr"] == after["lr"]
    state = recorder._live[1]
    assert state.returns == [1.0] * 30
    assert state.perturbations == [{"env_steps": 0, "from_trial": 2, "from_env_steps": 500, "set": dict(after)}]


def pbt(settings, recorder):
    from envoi.integrations.rllib import configure
    from envoi.integrations.rllib.schedulers import make_scheduler
    from envoi.integrations.rllib.trial_configs import TrialConfigs

    configs = TrialConfigs(configure("envoi:catch"), settings, {t.seed: t.overrides for t in settings.trials})
    return make_scheduler(settings, recorder, configs)


def test_configs_of_trials_differ_by_their_settings_alone():
    from envoi.integrations.rllib import configure
    from envoi.integrations.rllib.trial_configs import TrialConfigs

    settings = Settings("envoi:catch", set={"model.fcnet_hiddens": "grid([8],[16])", "lambda": "grid(0.8,0.9)"})
    base = configure("envoi:catch")
    space = TrialConfigs(base, settings, {t.seed: t.overrides for t in settings.trials}).param_space()
    changed = {name for name, value in space.items() if type(value).__name__ == "Function"}
    assert changed == {"lambda", "_model_config"}
    for trial in settings.trials:
        spec = SimpleNamespace(config=SimpleNamespace(seed=trial.seed))
        assert space["lambda"].func(spec) == trial.overrides["lambda_"]
        assert space["_model_config"].func(spec)["fcnet_hiddens"] == trial.overrides["model.fcnet_hiddens"]


def test_settings_that_contradict_each_other_are_refused_before_ray_starts():
    from envoi.integrations.rllib import configure
    from envoi.integrations.rllib.trial_configs import TrialConfigs

    settings = Settings("envoi:catch", set={"minibatch_size": 512, "train_batch_size_per_learner": 64})
    with pytest.raises(envoi.EnvoiError, match=r"RLlib refuses .*minibatch_size=512"):
        TrialConfigs(configure("envoi:catch"), settings, {0: settings.trials[0].overrides})


def test_column_that_comes_later_is_added_to_the_rows_above(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_progress(dict.fromkeys(COLUMNS, 1))
    folder.append_progress(dict.fromkeys(COLUMNS, 2) | {"loss/vf_loss": 0.5, "set.hiddens": "[1,2]"})
    folder.append_progress(dict.fromkeys(COLUMNS, 3))
    rows = folder.read_progress()
    assert [(row["trial"], row["loss/vf_loss"], row["set.hiddens"]) for row in rows] == [
        ("1", "", ""), ("2", "0.5", "[1,2]"), ("3", "", ""),
    ]  # fmt: skip


def test_rewind_counts_the_rows_of_each_trial(tmp_path):
    folder = RunFolder(tmp_path)
    # Population based training takes a trial back to an earlier iteration.
    for iteration in (1, 2, 1, 2, 3):
        folder.append_progress(dict.fromkeys(COLUMNS, 0) | {"iteration": iteration})
    folder.rewind_progress({0: TrialState(iteration=2, rows=4)})
    assert [row["iteration"] for row in folder.read_progress()] == ["1", "2", "1", "2"]


@pytest.mark.deep
@pytest.mark.usefixtures("ray_session")
def test_asha_and_pbt_run_and_resume(cli, tmp_path):
    out = tmp_path / "pbt"
    swept = ("--set", "lr=log(1e-5,1e-3)", "--set", "train_batch_size_per_learner=2048", "--samples", 3)
    code, _, err = cli("train", "envoi:catch", *swept, "--scheduler", "pbt", "--stop-steps", 6000, "--out", out)
    assert (code, err) == (0, "")
    states = RunFolder(out).read_state(RunFolder(out).read_settings())
    assert any(state.perturbations for state in states.values())
    code, _, err = cli("train", "--resume", "--out", out, "--stop-steps", 8000)
    assert (code, err) == (0, "")
    assert all(state.env_steps >= 8000 for state in RunFolder(out).read_state(RunFolder(out).read_settings()).values())
    out = tmp_path / "asha"
    code, _, err = cli("train", "envoi:catch", *swept, "--scheduler", "asha", "--stop-steps", 6000, "--out", out)
    assert (code, err) == (0, "")
    assert any(s.stopped_early for s in RunFolder(out).read_state(RunFolder(out).read_settings()).values())


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.usefixtures("ray_session")
def test_trial_that_takes_over_a_checkpoint_keeps_its_own_learning_rate(tmp_path):
    from envoi.integrations.rllib import configure
    from envoi.integrations.rllib.job_options import KeepRates

    def rates(algorithm):
        return algorithm.learner_group.foreach_learner(
            lambda learner: [group["lr"] for _, o in learner.get_optimizers_for_module("default_policy") for group in
                             o.param_groups]
        )  # fmt: skip

    donor = configure("envoi:catch", lr=1e-3).build_algo()
    donor.save_checkpoint(str(tmp_path))
    keep = KeepRates()
    config = configure("envoi:catch", lr=1e-5)
    config.callbacks(on_algorithm_init=keep.note, on_checkpoint_loaded=keep.set_again)
    plain, kept = configure("envoi:catch", lr=1e-5).build_algo(), config.build_algo()
    for algorithm in (plain, kept):
        algorithm.load_checkpoint(str(tmp_path))
    held = [one for result in rates(kept) for one in getattr(result, "get", lambda result=result: result)()]
    lost = [one for result in rates(plain) for one in getattr(result, "get", lambda result=result: result)()]
    assert held == [1e-5]
    assert lost == [1e-3], "RLlib has mended this; KeepRates can go"
    for algorithm in (donor, plain, kept):
        algorithm.stop()
