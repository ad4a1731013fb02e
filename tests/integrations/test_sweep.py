"""The trials of a sweep, and the schedulers of Ray Tune that stop or change them."""

from types import SimpleNamespace

import pytest

import envoi
from envoi.integrations.rllib import RunFolder, Settings, configure
from envoi.integrations.rllib.settings import read_config_file
from envoi.integrations.rllib.tuning import make_scheduler, note_rates, param_space, set_rates

SWEPT = {"lr": "loguniform(1e-5,1e-3)", "clip_param": "grid_search([0.1,0.2])", "gamma": 0.98}


def test_trials_are_those_of_the_run_folder(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    settings = Settings("envoi:catch", set=SWEPT, samples=2, track=("wandb",))
    folder.start(settings)
    repeated = Settings(**read_config_file(folder.config))
    assert (repeated, repeated.trials) == (settings, settings.trials)
    # Another version of numpy may sample other values from the same seed, and Ray is not imported to list runs.
    monkeypatch.setattr("envoi.integrations.rllib.settings.sample_trials", None)
    read = folder.read_settings()
    assert read == settings
    assert read.trials == settings.trials
    assert read.resumed({"stop_steps": 5}).trials == settings.trials
    assert "&id" not in folder.config.read_text()


def test_resume_may_repeat_settings_and_not_change_them():
    settings = Settings("envoi:catch", set=SWEPT)
    assert settings.resumed({"set": {"gamma": "0.98", "lr": "loguniform(1e-5,1e-3)"}}) == settings
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
        (
            {"scheduler": "pbt", "samples": 2, "set": {"model.lstm_cell_size": "randint(4,64)"}},
            "cannot change model_config.",
        ),
        ({"track": ("wandv",)}, "did you mean 'wandb'"),
        ({"module": "nets:Mine"}, "python:module:Class"),
        ({"evaluate_every": 0}, "at least 1"),
    ],
)
def test_wrong_sweeps_are_refused(changes, hint):
    with pytest.raises(envoi.EnvoiError) as caught:
        Settings("envoi:catch", **({"set": SWEPT} | changes))
    assert hint in str(caught.value)


def test_arguments_of_the_env_become_part_of_its_name():
    settings = Settings("python:drifting:Drifting", set={"env_config.fatal": "choice([100,200])"})
    assert settings.env_of(settings.trials[0].overrides) in {
        "python:drifting:Drifting?fatal=100",
        "python:drifting:Drifting?fatal=200",
    }
    assert Settings("envoi:catch?rows=4").env_of({"env_config.columns": 3}) == "envoi:catch?rows=4&columns=3"


def test_perturbed_trial_keeps_its_seed_and_stays_in_its_space():
    settings = Settings(
        "envoi:catch", set={"gamma": "uniform(0.9,0.99)", "lr": "choice([1,2])"}, samples=2, scheduler="pbt"
    )
    scheduler = make_scheduler(settings, {"gamma": 0.9, "lr": 1})
    poor, good = (SimpleNamespace(config={"seed": seed, "gamma": 0.98, "lr": 1}) for seed in (0, 1))
    for _ in range(30):
        config, _ = scheduler._get_new_config(poor, good)
        assert config["seed"] == 0
        assert 0.9 <= config["gamma"] <= 0.99
        assert config["lr"] in (1, 2)


def test_configs_of_trials_differ_by_their_settings_alone():
    settings = Settings(
        "envoi:catch", set={"model.fcnet_hiddens": "grid_search([[8],[16]])", "lambda": "grid_search([0.8,0.9])"}
    )
    base = configure("envoi:catch")
    space = param_space(base, settings, {t.seed: t.overrides for t in settings.trials})
    changed = {name for name, value in space.items() if type(value).__name__ == "Function"}
    assert changed == {"lambda", "_model_config"}
    for trial in settings.trials:
        spec = SimpleNamespace(config=SimpleNamespace(seed=trial.seed))
        assert space["lambda"].func(spec) == trial.overrides["lambda_"]
        assert space["_model_config"].func(spec)["fcnet_hiddens"] == trial.overrides["model_config.fcnet_hiddens"]


def test_settings_that_contradict_each_other_are_refused_before_ray_starts():
    settings = Settings("envoi:catch", set={"minibatch_size": 512, "train_batch_size_per_learner": 64})
    with pytest.raises(envoi.EnvoiError, match=r"RLlib refuses .*minibatch_size=512"):
        param_space(configure("envoi:catch"), settings, {0: settings.trials[0].overrides})


@pytest.mark.deep
@pytest.mark.usefixtures("ray_session")
def test_asha_and_pbt_run_and_resume(cli, tmp_path):
    out = tmp_path / "pbt"
    swept = ("--set", "lr=loguniform(1e-5,1e-3)", "--set", "train_batch_size_per_learner=2048", "--samples", 3)
    code, _, err = cli("train", "envoi:catch", *swept, "--scheduler", "pbt", "--stop-steps", 6000, "--out", out)
    assert (code, err) == (0, "")
    states = RunFolder(out).read_state(RunFolder(out).read_settings())
    assert any(state.overrides for state in states.values())
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
    def rates(learner):
        optimizers = learner.get_optimizers_for_module("default_policy")
        return [group["lr"] for _, optimizer in optimizers for group in optimizer.param_groups]

    donor = configure("envoi:catch", lr=1e-3).build_algo()
    donor.save_checkpoint(str(tmp_path))
    config = configure("envoi:catch", lr=1e-5)
    config.callbacks(on_algorithm_init=note_rates, on_checkpoint_loaded=set_rates)
    plain, kept = configure("envoi:catch", lr=1e-5).build_algo(), config.build_algo()
    for algorithm in (plain, kept):
        algorithm.load_checkpoint(str(tmp_path))
    held, lost = ([one.get() for one in algorithm.learner_group.foreach_learner(rates)] for algorithm in (kept, plain))
    assert held == [[1e-5]]
    assert lost == [[1e-3]], "RLlib has mended this; set_rates can go"
    for algorithm in (donor, plain, kept):
        algorithm.stop()
