"""Settings of RLlib by name: the table is RLlib's, values are checked without Ray, and reach the config."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import envoi
from envoi.integrations.rllib import Settings
from envoi.integrations.rllib.overrides import apply_overrides, check_overrides, parse_assignments
from envoi.integrations.rllib.search_space import EXAMPLES, SearchSpace, format_value, parse_space, parse_value
from envoi.integrations.rllib.setting_table import FILE, MODEL, generate, settings_of, table


def test_table_is_that_of_the_installed_ray():
    assert json.loads(FILE.read_text()) == generate(), "write it with python -m envoi.integrations.rllib.setting_table"


def default_config(algo):
    from envoi.integrations.rllib.algorithm_config import load_algorithm

    return load_algorithm(algo).get_default_config()


@pytest.mark.parametrize("algo", ["PPO", "APPO", "IMPALA", "DQN", "SAC", "TQC"])
def test_every_default_of_the_table_is_accepted_and_can_be_set(algo):
    # These check what they are given beyond its kind.
    special = {"replay_buffer_config", "evaluation_config", "algorithm_config_overrides_per_module", "lr"}
    settings = settings_of(algo).values()
    values = {one.name: one.default for one in settings if one.default is not None and one.name not in special}
    from envoi.integrations.rllib.overrides import RESERVED

    values = {name: value for name, value in values.items() if name not in RESERVED}
    checked = check_overrides(values, algo)
    assert checked == values
    config = default_config(algo)
    apply_overrides(config, checked, algo)
    for name, value in checked.items():
        if not name.startswith(MODEL):
            held = getattr(config, name)
            assert held == value or list(held) == value, name


def test_values_reach_the_config():
    config = default_config("DQN")
    before = dict(config.replay_buffer_config)
    given_values = {
        "lr": "1e-4",
        "replay_buffer_config.capacity": "5e3",
        "epsilon": "[[0, 1.0], [5000, 0.1]]",
        "model.fcnet_hiddens": "[64,64]",
        "model_config.fcnet_activation": "relu",
        "env_config.size": "5",
        "env_config.nested.deep": "true",
    }
    apply_overrides(config, check_overrides(given_values, "DQN"), "DQN")
    assert config.lr == 1e-4
    assert config.replay_buffer_config == {**before, "capacity": 5000}
    assert config.epsilon == [[0, 1.0], [5000, 0.1]]
    assert config.model_config["fcnet_hiddens"] == [64, 64]
    assert config.model_config["fcnet_activation"] == "relu"
    assert config.env_config == {"size": 5, "nested": {"deep": True}}


def test_lr_sets_each_rate_of_an_algorithm_that_has_several():
    config = default_config("SAC")
    apply_overrides(config, {"lr": 1e-3}, "SAC")
    assert (config.actor_lr, config.critic_lr, config.alpha_lr) == (1e-3, 1e-3, 1e-3)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("lambda", "0.9", 0.9),
        ("gamma", "1", 1.0),
        ("train_batch_size_per_learner", "1e3", 1000),
        ("train_batch_size_per_learner", "4_096", 4096),
        ("grad_clip", "null", None),
        ("use_gae", "False", False),
        ("batch_mode", "complete_episodes", "complete_episodes"),
        ("entropy_coeff", "[[0,0.1],[1000,0]]", [[0, 0.1], [1000, 0]]),
        ("model.fcnet_hiddens", "[]", []),
        ("model.conv_filters", "[[16,[8,8],4],[32,4,2]]", [[16, [8, 8], 4], [32, 4, 2]]),
    ],
)
def test_text_becomes_the_kind_of_the_setting(name, text, value):
    (read,) = check_overrides({name: text}, "PPO").values()
    assert read == value
    assert type(read) is type(value)


WRONG = {
    "misspelt": ({"cip_param": 1}, "did you mean 'clip_param'"),
    "a number": ({"clip_param": "much"}, "clip_param: expected a number, such as RLlib's default 0.3; got much"),
    "whole": ({"num_epochs": "2.5"}, "expected a whole number"),
    "no flag": ({"use_gae": "1"}, "expected true or false"),
    "no list": ({"model.fcnet_hiddens": "64"}, "expected a list"),
    "wrong list": ({"model.fcnet_hiddens": "[64,big]"}, "got big in"),
    "misspelt model": ({"model.fcnet_hidens": "[1]"}, "did you mean 'model.fcnet_hiddens'"),
    "another algorithm": ({"epsilon": 0.1}, "no setting of PPO, but one of APPO, DQN, IMPALA"),
    "nested in another": ({"replay_buffer_config.capacity": 1}, "no setting of PPO"),
    "has an option": ({"num_env_runners": 2}, "--num-env-runners"),
    "far off": ({"zzzz": 2}, "AlgorithmConfig"),
    "twice": ({"lambda": 0.9, "lambda_": 0.9}, "same setting"),
    "no space": ({"lr": "lgo(1e-5,1e-3)"}, "did you mean 'log'"),
    "space far off": ({"lr": "f(1,2)"}, "log(1e-5,1e-3)"),
    "log of nothing": ({"lr": "log(0,1)"}, "begins above 0"),
    "ends swapped": ({"lr": "uniform(2,1)"}, "not below"),
    "one end": ({"lr": "log(1)"}, "takes two numbers"),
    "no number": ({"lr": "log(a,b)"}, "a is no number"),
    "infinite": ({"gamma": "uniform(0,1e999)"}, "is no number"),
    "whole ends": ({"num_epochs": "int(1,2.5)"}, "whole numbers"),
    "no choice": ({"num_epochs": "choice()"}, "no values"),
    "choice of a wrong kind": ({"num_epochs": "choice(1,many)"}, "got many"),
    "uniform of whole numbers": ({"num_epochs": "uniform(1,3)"}, "int(1,3)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_name_what_was_expected(case):
    values, hint = WRONG[case]
    with pytest.raises(envoi.EnvoiError) as caught:
        Settings("envoi:catch", set=values)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_entry_of_a_dict_is_checked_against_near_names_alone():
    with pytest.raises(envoi.EnvoiError, match="did you mean 'capacity'"):
        check_overrides({"replay_buffer_config.capcity": 1}, "DQN")
    assert check_overrides({"replay_buffer_config.worker_count": 1}, "DQN") == {"replay_buffer_config.worker_count": 1}


def test_own_module_takes_any_setting_of_its_model():
    assert check_overrides({"model.width": "3"}, "PPO", own_module=True) == {"model.width": 3}
    with pytest.raises(envoi.EnvoiError, match="no setting"):
        check_overrides({"model.width": "3"}, "PPO")


def test_assignments():
    assert parse_assignments(["a=1", "b = x=y "]) == {"a": "1", "b": "x=y"}
    for wrong in ("a", "=1", "a="):
        with pytest.raises(envoi.EnvoiError, match="NAME=VALUE"):
            parse_assignments([wrong])
    with pytest.raises(envoi.EnvoiError, match="given twice"):
        parse_assignments(["a=1", "a=2"])


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda word: word not in ("none", "null", "true", "false")),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True).filter(lambda w: w not in ("none", "null", "true")),
                      inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(plain)
def test_values_are_read_back_from_their_text(value):
    assert parse_value(format_value(value)) == value


spaces = st.one_of(
    st.tuples(st.floats(1e-9, 1), st.floats(1.1, 1e6)).map(lambda ends: SearchSpace("log", ends)),
    st.tuples(st.floats(-1e6, 0), st.floats(0.1, 1e6)).map(lambda ends: SearchSpace("uniform", ends)),
    st.tuples(st.integers(-50, 0), st.integers(1, 50)).map(lambda ends: SearchSpace("int", ends)),
    st.lists(plain, min_size=1, max_size=4).map(lambda values: SearchSpace("choice", tuple(values))),
)


@given(spaces, st.integers(0, 2**32))
def test_samples_and_perturbations_stay_inside(space, seed):
    rng = np.random.default_rng(seed)
    value = space.sample(rng)
    for _ in range(20):
        if space.kind == "choice":
            assert value in space.values
        else:
            assert space.values[0] <= value <= space.values[1]
            assert isinstance(value, int if space.kind == "int" else float)
        value = space.perturb(value, rng)


@given(spaces)
def test_spaces_are_read_back_from_their_text(space):
    assert parse_space(str(space), parse_value) == space


def test_examples_are_spaces_and_plain_text_is_none():
    for kind, text in EXAMPLES.items():
        space = parse_space(text, parse_value)
        assert space is not None
        assert space.kind == kind
    assert parse_space("relu", parse_value) is None


def test_samples_cover_a_log_range_evenly():
    rng = np.random.default_rng(0)
    space = SearchSpace("log", (1e-5, 1e-1))
    counts, _ = np.histogram(np.log10([space.sample(rng) for _ in range(4000)]), bins=4, range=(-5, -1))
    assert (np.abs(counts - 1000) < 150).all()


def test_algorithms_of_the_table_include_all_that_train():
    from envoi.integrations.rllib import ALGORITHMS

    assert set(ALGORITHMS) <= set(table())


@pytest.mark.parametrize(
    ("algo", "name", "text", "expected"),
    [
        ("PPO", "gamma", "2", "gamma: expected a number from 0 to 1, got 2"),
        ("PPO", "lr", "-1", "lr: expected at least 0, got -1"),
        ("PPO", "lr", "[1e-3,1e-4]", r"a schedule of \[env steps, value\] pairs from step 0"),
        ("PPO", "lr", "[[0,1e-3],[1000,-1]]", "expected at least 0, got -1"),
        ("PPO", "num_epochs", "grid(0,3)", "num_epochs: expected at least 1, got 0"),
        ("PPO", "gamma", "uniform(0.9,1.2)", "from 0 to 1, got 1.2"),
        ("PPO", "model.fcnet_hiddens", "[64,0]", r"at least 1, got 0 in \[64,0\]"),
        ("PPO", "model.fcnet_activation", "rellu", "no activation is called 'rellu'; did you mean 'relu'"),
        ("DQN", "replay_buffer_config.capacity", "0", "at least 1, got 0"),
        ("DQN", "epsilon", "[0,1]", "a schedule"),
    ],
)
def test_value_out_of_its_range_is_named_without_ray(algo, name, text, expected):
    with pytest.raises(envoi.EnvoiError, match=expected):
        check_overrides({name: text}, algo)


@pytest.mark.parametrize(
    ("name", "text"), [("lr", "[[0,1e-3],[1000,0]]"), ("model.fcnet_activation", "GELU"), ("grad_clip", "null")]
)
def test_schedules_classes_of_torch_and_null_are_in_range(name, text):
    assert name in check_overrides({name: text}, "PPO")


@pytest.mark.parametrize(
    ("algo", "name", "expected"),
    [
        ("PPO", "learning_rate", "RLlib's name is 'lr'"),
        ("PPO", "batch_size", "'minibatch_size' or 'train_batch_size_per_learner'"),
        ("DQN", "buffer_size", "'replay_buffer_config.capacity'"),
        ("PPO", "net_arch", "'model.fcnet_hiddens'"),
        ("PPO", "n_envs", "set by --num-envs-per-runner"),
        ("SAC", "policy_lr", "'actor_lr'"),
    ],
)
def test_name_of_another_library_is_answered_with_that_of_rllib(algo, name, expected):
    with pytest.raises(envoi.UnknownName, match=expected):
        check_overrides({name: "1"}, algo)


def test_names_of_other_libraries_are_none_of_rllib_and_lead_to_settings_that_it_has():
    from envoi.integrations.rllib.overrides import RESERVED
    from envoi.integrations.rllib.usual_names import USUAL_NAMES

    known = {name for settings in table().values() for name in settings}
    for name, meant in USUAL_NAMES.items():
        assert name not in known
        assert all(one.partition(".")[0] in known or one in known | set(RESERVED) for one in meant), name


def test_ranges_are_of_settings_that_exist_and_hold_rllibs_defaults():
    from envoi.integrations.rllib import setting_ranges

    settings = {name: one for algo in table().values() for name, one in algo.items()}
    for name in setting_ranges._RANGES:
        head, _, entry = name.partition(".")
        assert name in settings or entry in settings[head].default, name
    for algo in ("PPO", "APPO", "IMPALA", "DQN", "SAC", "TQC"):
        for name, one in settings_of(algo).items():
            if one.default is not None:
                setting_ranges.check_range(name, one.default)
