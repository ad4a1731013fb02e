"""The options of `envoi train`: which settings they make, and which mistakes they name before Ray is imported."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

import envoi
from envoi.integrations.cli.train_options import given_settings, spell_out
from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.config_file import read_config_file


def config(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return path


def test_config_file_has_the_names_of_settings_and_of_rllib(tmp_path):
    path = config(
        tmp_path,
        "env: envoi:catch\nalgo: DQN\nstop-steps: 5000\nlr: 1e-4\ntrack: wandb\ncheck_specs: true\n"
        "set:\n  gamma: 0.98\n  lambda: 0.9\n".replace("  lambda: 0.9\n", "  model.fcnet_hiddens: [64, 64]\n"),
    )
    values = read_config_file(path)
    assert values == {
        "env": "envoi:catch", "algo": "DQN", "stop_steps": 5000, "lr": (1e-4,), "track": ("wandb",),
        "check_specs": True, "set": {"gamma": 0.98, "model.fcnet_hiddens": [64, 64]},
    }  # fmt: skip
    assert Settings(**values).trials[0].overrides["model.fcnet_hiddens"] == [64, 64]


def test_config_of_a_run_is_a_config_file(tmp_path):
    settings = Settings("envoi:catch", lr=(1e-3, 1e-4), set={"gamma": "uniform(0.9,0.99)"}, samples=2, track=("wandb",))
    folder = RunFolder(tmp_path / "run")
    folder.start(settings, {"envoi": "0"})
    again = Settings(**read_config_file(folder.config))
    assert again == settings
    assert again.trials == settings.trials


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("env: envoi:catch\nstop_stesp: 5", "line 2: unknown setting 'stop_stesp'; did you mean 'stop_steps'"),
        ("env: envoi:catch\ngamma: 0.9", "settings of RLlib, such as clip_param, go under `set:`"),
        ("set:\n  gama: 0.9", "line 2: PPO has no setting 'gama'; did you mean 'gamma'"),
        ("set: [1]", "line 1: `set` takes"),
        ("env: [", "line 1"),
        ("- env", "expected settings as `name: value`"),
        ("env: envoi:catch\nseed: many", "line 2: seed: expected a whole number, got 'many'"),
        ("seed: true", "line 1: seed: expected a whole number, got True"),
        ("lr: fast", "lr: expected a list of numbers, got 'fast'"),
        ("stop_steps: 1.5", "stop_steps: expected a whole number, got 1.5"),
        ("env: envoi:catch\nalgo: PPOO", "line 2: no algorithm is called 'PPOO'; did you mean 'PPO'"),
        ("set:\n  clip_param: abc", "line 2: clip_param: expected a number"),
        ("set:\n  gamma: 2", "line 2: gamma: expected a number from 0 to 1"),
    ],
)
def test_wrong_config_file_names_the_line(tmp_path, text, hint):
    with pytest.raises(envoi.EnvoiError) as caught:
        read_config_file(config(tmp_path, text))
    assert hint in str(caught.value)
    assert "job.yaml" in str(caught.value)


def test_whole_number_in_a_config_file_may_have_an_exponent(tmp_path):
    assert read_config_file(config(tmp_path, "stop_steps: 1e5")) == {"stop_steps": 100_000}


def test_missing_config_file_is_named(tmp_path):
    with pytest.raises(envoi.EnvoiError, match=r"gone\.yaml: No such file"):
        read_config_file(tmp_path / "gone.yaml")


def test_command_line_wins_over_the_config_file(tmp_path):
    path = config(tmp_path, "env: envoi:catch\nseed: 3\nsamples: 2\nset:\n  gamma: 0.98\n  num_epochs: 4\n")
    values = given_settings({"seed": 5, "samples": None}, ["seed"], ["gamma=0.9"], path)
    assert values == {"env": "envoi:catch", "seed": 5, "samples": 2, "set": {"gamma": "0.9", "num_epochs": 4}}
    path = config(tmp_path, "lr: 1e-4")
    assert "lr" not in given_settings({}, [], ["lr=1e-3"], path)
    path = config(tmp_path, "set:\n  lr: 1e-4")
    assert given_settings({"lr": (1e-3,)}, ["lr"], [], path) == {"lr": (1e-3,)}


@pytest.mark.parametrize(
    ("arguments", "spelt"),
    [
        (["--check-specs", "envoi:catch"], ["--check-specs=full", "envoi:catch"]),
        (["--check-specs"], ["--check-specs=full"]),
        (["--check-specs", "--seed", "1"], ["--check-specs=full", "--seed", "1"]),
        (["--check-specs", "off"], ["--check-specs", "off"]),
        (["--check-specs", "ful"], ["--check-specs", "ful"]),
        (["--no-check-specs"], ["--check-specs=off"]),
        (["--check-specs=sample"], ["--check-specs=sample"]),
    ],
)
def test_check_specs_is_a_flag_and_an_option(arguments, spelt):
    assert spell_out(arguments) == spelt


BAD = {
    "setting": (["--set", "cip_param=0.2"], "clip_param"),
    "no value": (["--set", "clip_param"], "NAME=VALUE"),
    "space": (["--set", "lr=lgo(1e-5,1e-3)"], "'log'"),
    "empty space": (["--set", "lr=log()"], "two numbers"),
    "scheduler": (["--scheduler", "ahsa", "--samples", "2"], "'asha'"),
    "scheduler of one": (["--scheduler", "asha"], "--samples"),
    "tracker": (["--track", "wandbb"], "'wandb'"),
    "spec checks": (["--check-specs", "ful"], "'full'"),
    "env errors": (["--on-env-error", "retsart"], "'restart'"),
    "timeout": (["--step-timeout", "0"], "step_timeout"),
    "module": (["--module", "nets.Mine"], "python:module:Class"),
    "config": (["--config", "gone.yaml"], "No such file"),
    "several rates": (["--lr", "1e-3", "--set", "lr=1e-4"], "set twice"),
    "rates": (["--lr", "log(1e-5,1e-3)"], "--set lr=log"),
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
    monkeypatch.setattr("envoi.integrations.rllib.trackers.find_spec", lambda name: None)
    code, _, err = cli("train", "envoi:catch", "--track", "mlflow")
    assert code == 2
    assert err.endswith("pip install mlflow\n")
    assert list(tmp_path.iterdir()) == []


class StandInRun:
    def __init__(self, calls, **arguments):
        self.calls, self.arguments = calls, arguments
        calls.append(("init", arguments["id"], arguments["group"]))

    def log(self, numbers, step):
        self.calls.append(("log", step, numbers))

    def finish(self, exit_code):
        self.calls.append(("finish", exit_code))


def open_with(monkeypatch, tmp_path, name, module):
    from envoi.integrations.rllib import trackers

    monkeypatch.setattr(trackers, "find_spec", lambda name: True)
    for path, stand_in in module.items():
        monkeypatch.setitem(sys.modules, path, stand_in)
    folder = RunFolder(tmp_path)
    folder.path.mkdir(exist_ok=True)
    return trackers.open_trackers(Settings("envoi:catch", track=(name,), set={"gamma": 0.9}), folder)


def test_wandb_receives_the_numbers_and_a_resumed_job_continues_its_run(monkeypatch, tmp_path):
    calls = []
    wandb = ModuleType("wandb")
    wandb.init = lambda **arguments: StandInRun(calls, **arguments)
    for _ in range(2):
        tracker = open_with(monkeypatch, tmp_path, "wandb", {"wandb": wandb})
        tracker.log(0, 2048, {"envoi/return_mean": 1.5})
        tracker.close(failed=False)
    assert [call[0] for call in calls] == ["init", "log", "finish"] * 2
    assert calls[0] == calls[3]
    assert calls[1] == ("log", 2048, {"envoi/return_mean": 1.5})
    assert list(tmp_path.glob("tensorboard/trial_0/events*"))


def test_mlflow_receives_the_numbers(monkeypatch, tmp_path):
    calls = []

    class Client:
        def get_experiment_by_name(self, name):
            return SimpleNamespace(experiment_id="7")

        def create_run(self, experiment, run_name):
            calls.append(("create", experiment, run_name))
            return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def log_param(self, run, name, value):
            calls.append(("param", name, value))

        def log_batch(self, run, metrics):
            calls.append(("metrics", run, metrics))

        def set_terminated(self, run, state):
            calls.append(("end", run, state))

    tracking, entities = ModuleType("mlflow.tracking"), ModuleType("mlflow.entities")
    tracking.MlflowClient = Client
    entities.Metric = lambda name, value, now, step: (name, value, step)
    modules = {"mlflow": ModuleType("mlflow"), "mlflow.tracking": tracking, "mlflow.entities": entities}
    tracker = open_with(monkeypatch, tmp_path, "mlflow", modules)
    tracker.log(0, 10, {"envoi/return_mean": 1.5})
    tracker.close(failed=True)
    assert calls[0] == ("create", "7", tmp_path.name)
    assert ("param", "gamma", 0.9) in calls
    assert ("metrics", "r1", [("envoi/return_mean", 1.5, 10)]) in calls
    assert calls[-1] == ("end", "r1", "FAILED")


def test_tracker_that_fails_does_not_end_the_job(monkeypatch, tmp_path):
    wandb = ModuleType("wandb")

    def refuse(**_):
        raise ConnectionError("no network")

    wandb.init = refuse
    tracker = open_with(monkeypatch, tmp_path, "wandb", {"wandb": wandb})
    for step in (1, 2):
        tracker.log(0, step, {"envoi/return_mean": 1.5})
    tracker.close(failed=False)
    assert tracker.failures == ["wandb took no more reports: no network"]
    assert list(tmp_path.glob("tensorboard/trial_0/events*"))


def test_module_is_an_rlmodule_class(tmp_path, monkeypatch):
    from envoi.integrations.rllib.job_options import load_module

    (tmp_path / "own_nets.py").write_text(
        "from ray.rllib.core.rl_module.torch import TorchRLModule\nclass Mine(TorchRLModule): ...\nclass Other: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_module("python:own_nets:Mine").__name__ == "Mine"
    with pytest.raises(envoi.EnvoiError, match="did you mean 'Mine'"):
        load_module("python:own_nets:Mien")
    with pytest.raises(envoi.EnvoiError, match="derived from RLlib's RLModule"):
        load_module("python:own_nets:Other")


OWN_MODULES = """
import torch
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule

class TooWide(TorchRLModule, ValueFunctionAPI):
    def setup(self):
        self.net = torch.nn.Linear(7, 2)
    def _forward(self, batch, **_):
        return {"action_dist_inputs": self.net(batch["obs"])}
    def compute_values(self, batch, embeddings=None):
        return 0

class NoValues(TorchRLModule):
    def _forward(self, batch, **_):
        return {}

class Unbuilt(TorchRLModule, ValueFunctionAPI):
    def setup(self):
        raise KeyError("hidden")
    def compute_values(self, batch, embeddings=None):
        return 0
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TooWide", "module unfit_nets:TooWide: does not take observation of shape (4,)"),
        ("NoValues", "PPO needs a module that implements ValueFunctionAPI"),
        ("Unbuilt", "module unfit_nets:Unbuilt: could not be built"),
    ],
)
def test_module_that_does_not_fit_is_named_before_ray_starts(cli, tmp_path, monkeypatch, name, expected):
    import ray

    (tmp_path / "unfit_nets.py").write_text(OWN_MODULES)
    monkeypatch.syspath_prepend(str(tmp_path))
    started = []
    monkeypatch.setattr(ray, "init", lambda *a, **_: started.append(a))
    arguments = ["--module", f"python:unfit_nets:{name}", "--out", tmp_path / "run"]
    code, _, err = cli("train", "gymnasium:CartPole-v1", *arguments)
    assert (code, started) == (2, [])
    lines = [line for line in err.splitlines() if line.startswith("envoi: ")]
    assert len(lines) == 1
    assert expected in lines[0]
