"""Settings of a job and of RLlib: their texts, checks and files, the options of `envoi train`, and sweeps."""

from types import SimpleNamespace

import pytest

import envoi
from envoi.integrations.cli.commands.train import given_settings
from envoi.integrations.rllib import ALGORITHMS, RunFolder, Settings, configure
from envoi.integrations.rllib.algorithms import find
from envoi.integrations.rllib.configuration import load_algorithm
from envoi.integrations.rllib.settings import (
    apply_overrides,
    make_space,
    parse_assignments,
    parse_value,
    read_config_file,
    read_overrides,
)
from envoi.integrations.rllib.tuning import load_module, make_scheduler, param_space, set_rates

SWEPT = {"lr": "loguniform(1e-5,1e-3)", "clip_param": "grid_search([0.1,0.2])", "gamma": 0.98}


def test_settings_of_an_earlier_version_are_read():
    stored = {"env": "envoi:catch", "lr": [], "samples": 2, "scheduler": "median", "stop_return": 1.0, "versions": {}}
    stored |= {"set": {"model.fcnet_hiddens": [8], "gamma": "uniform(0.9,0.99)", "lr": "log(1e-5,1e-3)"}}
    stored |= {"trials": [{"seed": 0, "gamma": 0.9, "lr": 1e-4}, {"seed": 1, "gamma": 0.91, "lr": 1e-3}]}
    settings = Settings.from_dict(stored)
    assert settings.set == {"model_config.fcnet_hiddens": [8]}
    assert [trial.overrides["gamma"] for trial in settings.trials] == [0.9, 0.91]
    assert settings.trials[1].overrides["lr"] == 1e-3


def test_job_without_a_goal_gets_the_default():
    assert Settings("envoi:catch").stop_steps == 1_000_000
    assert Settings("envoi:catch", stop_return=1.0).stop_steps is None


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"samples": 0}, "samples: expected at least 1, got 0"),
        ({"seed": -1}, "seed: expected at least 0"),
        ({"num_env_runners": -1}, "at least 0"),
        ({"num_envs_per_runner": 0}, "at least 1"),
        ({"stop_steps": 0}, "at least 1"),
        ({"stop_minutes": -1.0}, "stop_minutes: expected a number above 0"),
        ({"gpus": -1}, "at least 0"),
        ({"evaluate_every": 0}, "at least 1"),
        ({"stop_steps": 1.5}, "stop_steps: expected a whole number, got 1.5"),
        ({"stop_return": True}, "stop_return: expected a number, got True"),
        ({"algo": "nope"}, "no algorithm is called 'nope'"),
        ({"scheduler": "ahsa", "set": SWEPT}, "did you mean 'asha'"),
        ({"scheduler": "asha"}, "this job has one"),
        ({"scheduler": "pbt", "samples": 4}, "give a search space"),
        ({"scheduler": "pbt", "samples": 2, "set": {"model.lstm_cell_size": "randint(4,64)"}}, "cannot change model_"),
        ({"track": ("wandv",)}, "did you mean 'wandb'"),
        ({"module": "nets:Mine"}, "python:module:Class"),
        ({"curriculum": "plr"}, "--contexts"),
        ({"contexts": "length=0.3,0.5", "curriculum": "prl"}, "did you mean 'plr'"),
        ({"contexts": "length=0.3,0.5", "curriculum": "learning-progress:0,inf"}, "LOW,HIGH with LOW < HIGH, got"),
        ({"curriculum": 3}, "curriculum: expected a text, got 3"),
    ],
)
def test_invalid_values_are_refused(wrong, hint):
    with pytest.raises(envoi.EnvoiError) as caught:
        Settings("envoi:catch", **wrong)
    assert hint in str(caught.value)


def test_resume_changes_goals_and_no_training_setting():
    settings = Settings("envoi:catch", stop_return=1.0, set=SWEPT)
    assert settings.resumed({"stop_steps": 5}) == Settings("envoi:catch", stop_steps=5, set=SWEPT)
    assert settings.resumed({"algo": "ppo", "set": {"gamma": "0.98", "lr": "loguniform(1e-5,1e-3)"}}) == settings
    for change, named in (
        ({"seed": 3}, "seed from 0 to 3"),
        ({"set": {"gamma": "0.9"}}, r"gamma from 0\.98 to 0\.9;"),
        ({"set": {"clip_param": "0.1"}}, "clip_param from grid"),
    ):
        with pytest.raises(envoi.EnvoiError, match=f"cannot change {named}"):
            settings.resumed(change)


def test_unknown_algorithm_lists_near_names_first_and_then_all():
    with pytest.raises(envoi.EnvoiError, match=r"did you mean 'PPO'.* There are: PPO, APPO, IMPALA, DQN, SAC, TQC"):
        find("PPOO")
    with pytest.raises(envoi.EnvoiError, match=r"there are: PPO, APPO"):
        find("xyz")


def test_algorithms_are_those_of_rllib_that_learn_from_an_env():
    from ray.rllib.algorithms import registry

    offline = {"BC", "CQL", "IQL", "MARWIL"}
    heavy = {"DreamerV3"}  # needs Pillow and a GPU to be of use
    assert set(registry.ALGORITHMS) - offline - heavy <= set(ALGORITHMS)


def applied(values, algo="PPO"):
    config = load_algorithm(algo).get_default_config()
    apply_overrides(config, read_overrides(values), algo)
    return config


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("5e3", 5000.0),
        ("4_096", 4096),
        ("-.5", -0.5),
        ("null", None),
        ("None", None),
        ("False", False),
        ("complete_episodes", "complete_episodes"),
        ("[[0, 1.0], [5000, 1e-1]]", [[0, 1.0], [5000, 0.1]]),
        ("[relu, tanh]", ["relu", "tanh"]),
        ("{capacity: 1e5}", {"capacity": 1e5}),
    ],
)
def test_texts_are_values_of_yaml(text, value):
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


def test_values_reach_the_config():
    before = load_algorithm("DQN").get_default_config().replay_buffer_config
    config = applied(
        {
            "lr": "1e-4",
            "replay_buffer_config.capacity": "5e3",
            "train_batch_size_per_learner": "1e3",
            "epsilon": "[[0, 1.0], [5000, 0.1]]",
            "model.fcnet_hiddens": "[64,64]",
            "model_config": {"fcnet_activation": "relu"},
            "env_config.size": "5",
            "env_config.nested.deep": "true",
        },
        "DQN",
    )
    assert config.lr == 1e-4
    assert config.replay_buffer_config == {**before, "capacity": 5000}
    assert type(config.train_batch_size_per_learner) is int
    assert config.epsilon == [[0, 1.0], [5000, 0.1]]
    assert config.model_config["fcnet_hiddens"] == [64, 64]
    assert config.model_config["fcnet_activation"] == "relu"
    assert config.env_config == {"size": 5, "nested": {"deep": True}}
    assert applied({"lambda": "0.9"}).lambda_ == 0.9


def test_lr_sets_each_rate_of_an_algorithm():
    config = applied({"lr": 1e-3}, "SAC")
    assert (config.actor_lr, config.critic_lr, config.alpha_lr) == (1e-3, 1e-3, 1e-3)


WRONG = {
    "misspelt": ({"cip_param": 1}, "PPO has no setting 'cip_param'; did you mean 'clip_param'"),
    "a number": ({"clip_param": "much"}, "clip_param: expected a number, such as RLlib's 0.3, got 'much'"),
    "no flag": ({"use_gae": "1"}, "expected true or false"),
    "no list": ({"model.fcnet_hiddens": "64"}, "expected a list"),
    "misspelt model": ({"model.fcnet_hidens": "[1]"}, "did you mean 'fcnet_hiddens'"),
    "another algorithm": ({"epsilon": 0.1}, "PPO has no setting 'epsilon'"),
    "has an option": ({"num_env_runners": 2}, "--num-env-runners"),
    "twice": ({"lambda": 0.9, "lambda_": 0.9}, "same setting"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_named(case):
    values, hint = WRONG[case]
    with pytest.raises(envoi.EnvoiError) as caught:
        applied(values)
    assert hint in str(caught.value)


@pytest.mark.parametrize("text", ["loguniform(0,1)", "loguniform(1e-3)", "randint(a,b)", "choice(1,2)", "uniform(1"])
def test_space_that_tune_refuses_is_named(text):
    with pytest.raises(envoi.EnvoiError):
        make_space(text)


@pytest.mark.parametrize("wrong", [["clip_param"], ["=3"], ["gamma="], ["gamma=1", "gamma=2"]])
def test_assignments_are_names_and_values(wrong):
    assert parse_assignments(["gamma=0.9", "lr = 1"]) == {"gamma": "0.9", "lr": "1"}
    with pytest.raises(envoi.EnvoiError, match="--set"):
        parse_assignments(wrong)


# Files and options.


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
        ("env: envoi:catch\nalgo: PPOO", "no algorithm is called 'PPOO'; did you mean 'PPO'"),
    ],
)
def test_wrong_config_file_is_named(tmp_path, text, hint):
    with pytest.raises(envoi.EnvoiError) as caught:
        Settings(**read_config_file(config(tmp_path, text)))
    assert hint in str(caught.value)


def test_contexts_in_a_config_file_are_a_text(cli, tmp_path):
    code, _, err = cli("train", "--config", config(tmp_path, "env: envoi:cartpole\ncontexts: {a: {length: 0.4}}\n"))
    assert (code, "contexts: expected a text, got {'a'" in err) == (2, True)


def test_command_line_wins_over_the_config_file(tmp_path):
    path = config(tmp_path, "env: envoi:catch\nseed: 3\nsamples: 2\nlr: 1e-4\ngamma: 0.98\nnum_epochs: 4\n")
    values = given_settings({"seed": 5}, ["gamma=0.9"], "1e-3", path)
    swept = {"gamma": "0.9", "num_epochs": 4, "lr": "1e-3"}
    assert values == {"env": "envoi:catch", "seed": 5, "samples": 2, "set": swept}
    assert given_settings({}, [], "1e-3,1e-4", None) == {"set": {"lr": "grid_search([1e-3,1e-4])"}}


def test_learning_progress_may_have_bounds_of_returns():
    settings = Settings("envoi:cartpole", contexts="length=0.5", curriculum="learning-progress:0,500")
    assert settings.chosen["curriculum"].bounds == (0, 500)


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


NETS = """
from ray.rllib.core.rl_module.torch import TorchRLModule
class Mine(TorchRLModule): ...
class Other: ...
"""


def test_module_is_an_rlmodule_that_fits(cli, tmp_path, monkeypatch):
    import ray

    (tmp_path / "own_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_module("python:own_nets:Mine").__name__ == "Mine"
    for wrong, hint in (("Mien", "did you mean 'Mine'"), ("Other", "derived from RLlib's RLModule")):
        with pytest.raises(envoi.EnvoiError, match=hint):
            load_module(f"python:own_nets:{wrong}")
    monkeypatch.setattr(ray, "init", None)  # not reached
    command = ("train", "gymnasium:CartPole-v1", "--module", "python:own_nets:Mine", "--out", tmp_path / "run")
    code, _, err = cli(*command)
    (line,) = [line for line in err.splitlines() if line.startswith("envoi: ")]
    assert code == 2
    assert "module own_nets:Mine: PPO needs a module that implements ValueFunctionAPI" in line


# Sweeps.


def test_trials_are_sampled_by_the_seed():
    first, again = (Settings("envoi:catch", set=SWEPT, samples=2).trials for _ in range(2))
    other = Settings("envoi:catch", set=SWEPT, samples=2, seed=7).trials
    assert first == again
    assert [trial.overrides["clip_param"] for trial in first] == [0.1, 0.2, 0.1, 0.2]
    assert {trial.overrides["gamma"] for trial in first} == {0.98}
    assert len({trial.overrides["lr"] for trial in (*first, *other)}) == 8
    assert all(1e-5 <= trial.overrides["lr"] <= 1e-3 for trial in first)
    assert [trial.seed for trial in other] == [7, 8, 9, 10]


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


def test_arguments_of_the_env_become_part_of_its_name():
    settings = Settings("python:faulty:Failing", set={"env_config.at": "choice([100,200])"})
    name, _, at = settings.env_of(settings.trials[0].overrides).partition("?at=")
    assert (name, at in {"100", "200"}) == ("python:faulty:Failing", True)
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
    config.callbacks(on_checkpoint_loaded=set_rates)
    plain, kept = configure("envoi:catch", lr=1e-5).build_algo(), config.build_algo()
    for algorithm in (plain, kept):
        algorithm.load_checkpoint(str(tmp_path))
    held, lost = ([one.get() for one in algorithm.learner_group.foreach_learner(rates)] for algorithm in (kept, plain))
    assert held == [[1e-5]]
    assert lost == [[1e-3]], "RLlib has mended this; set_rates can go"
    for algorithm in (donor, plain, kept):
        algorithm.stop()
