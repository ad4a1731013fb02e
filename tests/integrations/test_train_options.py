"""The options of `envoi train`: which settings they make, and which mistakes they name before Ray is imported."""

import pytest

import envoi
from envoi.integrations.cli.commands.train import given_settings
from envoi.integrations.rllib import Settings
from envoi.integrations.rllib.settings import read_config_file


def config(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return path


def test_config_file_has_settings_of_rllib_beside_options(tmp_path):
    path = config(
        tmp_path,
        "env: envoi:catch\nalgo: DQN\nstop-steps: 5e3\nlr: 1e-4\ntrack: wandb\ncheck_specs: true\ngamma: 0.98\n"
        "model_config:\n  fcnet_hiddens: [64, 64]\n",
    )
    settings = Settings(**read_config_file(path))
    assert (settings.env, settings.algo, settings.stop_steps) == ("envoi:catch", "DQN", 5000)
    assert (settings.track, settings.check_specs) == (("wandb",), True)
    assert settings.set == {"lr": 1e-4, "gamma": 0.98, "model_config.fcnet_hiddens": [64, 64]}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("env: [", "job.yaml, line 1"),
        ("- env", "expected settings as `name: value`"),
        ("env: envoi:catch\nseed: many", "seed: expected a whole number, got 'many'"),
        ("env: envoi:catch\nstop_steps: 1.5", "stop_steps: expected a whole number, got 1.5"),
        ("env: envoi:catch\nalgo: PPOO", "no algorithm is called 'PPOO'; did you mean 'PPO'"),
    ],
)
def test_wrong_config_file_is_named(tmp_path, text, hint):
    with pytest.raises(envoi.EnvoiError) as caught:
        Settings(**read_config_file(config(tmp_path, text)))
    assert hint in str(caught.value)


def test_command_line_wins_over_the_config_file(tmp_path):
    path = config(tmp_path, "env: envoi:catch\nseed: 3\nsamples: 2\nlr: 1e-4\ngamma: 0.98\nnum_epochs: 4\n")
    values = given_settings({"seed": 5, "samples": 1}, ["seed"], ["gamma=0.9"], "1e-3", path)
    swept = {"gamma": "0.9", "num_epochs": 4, "lr": "1e-3"}
    assert values == {"env": "envoi:catch", "seed": 5, "samples": 2, "set": swept}
    assert given_settings({}, [], [], "1e-3,1e-4", None) == {"set": {"lr": "grid_search([1e-3,1e-4])"}}


BAD = {
    "setting": (["--set", "cip_param=0.2"], "clip_param"),
    "no value": (["--set", "clip_param"], "NAME=VALUE"),
    "space": (["--set", "lr=lguniform(1e-5,1e-3)"], "'loguniform'"),
    "spec checks": (["--check-specs", "ful"], "'full'"),
    "env errors": (["--on-env-error", "retsart"], "'restart'"),
    "timeout": (["--step-timeout", "0"], "step_timeout"),
    "config": (["--config", "gone.yaml"], "No such file"),
    "module": (["--module", "python:no_such_module:Mine"], "no_such_module cannot be imported: No module named"),
    "several rates": (["--lr", "1e-3", "--set", "lr=1e-4"], "set twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_one_line_before_anything_is_written(cli, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    options, hint = BAD[case]
    code, out, err = cli("train", "envoi:catch", *options)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert hint in err
    assert list(tmp_path.iterdir()) == []


def test_missing_tracker_names_the_install_command(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("envoi.integrations.rllib.training.find_spec", lambda name: name != "mlflow" or None)
    code, _, err = cli("train", "envoi:catch", "--track", "mlflow")
    assert code == 2
    assert err.endswith("pip install mlflow\n")
    assert list(tmp_path.iterdir()) == []


def test_tracker_that_fails_does_not_end_the_job(ray_session, cli, tmp_path, monkeypatch):
    from ray.tune.logger import CSVLoggerCallback

    def refuse(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.setattr(CSVLoggerCallback, "log_trial_result", refuse)
    options = ("--track", "csv", "--track", "json", "--stop-steps", 1, "--out", tmp_path / "run")
    code, out, _ = cli("train", "envoi:catch", *options)
    assert code == 0
    assert "note: csv took no more reports: no network" in out
    assert list(tmp_path.glob("run/tune/1/trial_0/result.json"))
    assert list(tmp_path.glob("run/tensorboard/trial_0/events*"))


def test_module_is_an_rlmodule_class(tmp_path, monkeypatch):
    from envoi.integrations.rllib.tuning import load_module

    (tmp_path / "own_nets.py").write_text(
        "from ray.rllib.core.rl_module.torch import TorchRLModule\nclass Mine(TorchRLModule): ...\nclass Other: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_module("python:own_nets:Mine").__name__ == "Mine"
    with pytest.raises(envoi.EnvoiError, match="did you mean 'Mine'"):
        load_module("python:own_nets:Mien")
    with pytest.raises(envoi.EnvoiError, match="derived from RLlib's RLModule"):
        load_module("python:own_nets:Other")


def test_module_that_does_not_fit_is_named_before_ray_starts(cli, tmp_path, monkeypatch):
    import ray

    (tmp_path / "unfit_nets.py").write_text(
        "from ray.rllib.core.rl_module.torch import TorchRLModule\nclass Bare(TorchRLModule): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    started = []
    monkeypatch.setattr(ray, "init", lambda *a, **_: started.append(a))
    arguments = ["--module", "python:unfit_nets:Bare", "--out", tmp_path / "run"]
    code, _, err = cli("train", "gymnasium:CartPole-v1", *arguments)
    assert (code, started) == (2, [])
    (line,) = [line for line in err.splitlines() if line.startswith("envoi: ")]
    assert "module unfit_nets:Bare: PPO needs a module that implements ValueFunctionAPI" in line
