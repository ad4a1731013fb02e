"""`check_env` and `envoi check` find each fault and name it, and pass correct environments."""

import copy
import functools
import html
import json
import random
import re
import shlex
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from absent import ABSENT
from pettingzoo import ParallelEnv

import envoi
from envoi.adapters import FRAMEWORKS, TARGETS, load
from envoi.integrations.check import REQUIREMENTS, check_env
from envoi.integrations.check.report import THEMES
from envoi.integrations.check.requirements.randomness import REPRODUCIBLE
from envoi.integrations.check.transitions import values_differ

HERE = Path(__file__).parent
# By name, so that they pickle and other processes find them.
sys.path.insert(0, str(HERE))

import wrong_envs  # noqa: E402
from wrong_envs import REMARKED, RIGHT, WRONG  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pygame, at its import


def keys(results):
    return {result.key for result in results}


@functools.cache
def found(make):
    """Returns the report on an environment by its own API; in this process alone, unless the hash seed matters."""
    only_here = isinstance(make, type) and issubclass(make, ParallelEnv) and make is not wrong_envs.PartyOfASet
    return check_env((lambda: make()) if only_here else make, frameworks=[], steps=60)


# Correct environments.


@pytest.mark.parametrize("kind", RIGHT)
def test_correct_env_meets_all_requirements_by_its_own_api(kind):
    report = check_env(RIGHT[kind], frameworks=[], steps=60)
    report.raise_if_failed()
    assert report.passed
    good, ran = report.counts
    assert good == ran > 25


@pytest.mark.parametrize("name", ["envoi:catch", "gymnasium:CartPole-v1", "envoi:nim"])
def test_well_known_envs_pass_in_every_form_and_suite(name):
    report = check_env(name)
    report.raise_if_failed()
    assert report.columns == ("env", *TARGETS)
    for column in TARGETS:
        constructs = report.result("constructs", column)
        if FRAMEWORKS[column].package in ABSENT:
            assert constructs.status == "not installed"
            continue
        assert constructs.status in ("passed", "refused")
        if constructs.status == "passed":
            assert report.result("trace-comes-back", column).status == "passed"
    for key in [key for key in report.keys if key.startswith("suite-")]:
        for result in [result for result in report.results if result.key == key]:
            assert result.status in ("passed", "skipped", "not installed")
    if name == "envoi:nim" and "ray" not in ABSENT:
        assert report.result("suite-rllib", "rllib").status == "passed"


def make_tictactoe():
    """Makes a game of PettingZoo with action masks in its observations."""
    from pettingzoo.classic import tictactoe_v3

    return tictactoe_v3.env()


def test_tictactoe_passes_with_pettingzoo_suites():
    report = check_env(make_tictactoe, frameworks=["pettingzoo", "pettingzoo_aec", "gymnasium"])
    report.raise_if_failed()
    assert report.result("suite-aec-api", "pettingzoo_aec").status == "passed"
    assert report.result("suite-parallel-api", "pettingzoo").status == "passed"
    assert report.result("constructs", "gymnasium").status == "refused"
    assert report.result("mask-legal").status == "passed"


def test_batch_passes():
    report = check_env(
        lambda: envoi.batch(load("envoi:gridworld"), 2), frameworks=["gymnasium_vector", "dm_env"], steps=30
    )
    report.raise_if_failed()
    assert report.result("lanes-apart").status == "passed"
    assert report.result("trace-comes-back", "gymnasium_vector").status == "passed"
    assert report.result("constructs", "dm_env").status == "refused"


# Faults.


@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_each_fault_fails_its_own_requirements_alone(make):
    report = found(make)
    assert keys(report.failures) == WRONG[make]
    assert not report.passed
    assert all(one.reason and one.sentence and one.subject == "env" for one in report.failures)


def test_most_requirements_have_a_wrong_env_and_all_one_theme():
    broken = set().union(*WRONG.values(), REMARKED.values())
    # The classes of the core and of the frameworks prevent most violations of these.
    assert {one.key for one in REQUIREMENTS} - broken == {"turn", "seeds-differ", "before-the-reset"}
    keys = [key for keys in THEMES.values() for key in keys]
    assert len(keys) == len(set(keys))
    assert check_env("envoi:catch", frameworks=[], steps=20).keys == tuple(keys)


@pytest.mark.parametrize("make", REMARKED, ids=lambda make: make.__name__)
def test_possible_faults_are_remarks_and_not_failures(make):
    report = check_env(make, frameworks=[])
    assert REMARKED[make] in keys(report.remarks)
    assert report.passed


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("OutOfSpaceAtTheEnd", ("observation[1]", "is above its upper bound 10.0", ", its last)")),
        ("WrongDtype", ("float32", "float64", "the reset of episode 1")),
        ("Raises", ("ZeroDivisionError", "wrong_envs.py:", "step 7 of episode 1")),
        ("AliasedBuffer", ("observation[0]", "the reset of episode 1", "was changed by step 1 of episode 1")),
        ("GlobalPython", ("generator random,",)),
        ("PartyGhosts", ("'anna'", "step 4 of episode 1")),
        ("PartyGenerous", ("sum to 3.5",)),
    ],
)
def test_reasons_name_the_place_and_the_fault(name, parts):
    (failure,) = found(getattr(wrong_envs, name)).failures
    assert all(part in failure.reason for part in parts), failure.reason


def test_time_limit_that_truncates_passes():
    report = check_env(lambda: envoi.TimeLimit(wrong_envs.Steps(), 5), frameworks=[])
    assert report.result("limit-truncates").status == "passed"
    short = check_env("envoi:catch", frameworks=[])  # nine steps, by its nature
    assert short.result("limit-truncates").status == "passed"


def test_checks_hidden_by_another_fault_are_skipped():
    report = check_env(wrong_envs.SeedIgnored, frameworks=["dm_env"])
    assert report.result("instances-apart").reason == f"see {REPRODUCIBLE}"
    assert report.result("trace-comes-back", "dm_env").status == "skipped"
    broken = check_env(wrong_envs.Raises, frameworks=[])
    assert {r.status for r in broken.results if r.key in ("seed-zero", "copies", "snapshots")} == {"skipped"}


# Forms and suites.


def test_refusal_and_narrowing_by_a_form_are_no_failures():
    report = check_env(wrong_envs.Speechless, frameworks=["gymnasium", "dm_env", "tf_agents"])
    assert report.passed
    for framework in ("dm_env", "tf_agents"):
        refusal = report.result("constructs", framework)
        assert (refusal.status, "['more']" in refusal.reason) == ("refused", True)
        assert report.result("trace-comes-back", framework) is None
    report = check_env("envoi:pendulum", frameworks=["tf_agents"], steps=30)
    narrowed = report.result("loses-nothing", "tf_agents")
    assert (narrowed.status, "float32" in narrowed.reason) == ("narrowed", True)
    assert report.result("trace-comes-back", "tf_agents").status == "passed"


def test_suite_not_installed_is_reported(monkeypatch):
    from envoi.integrations.check.requirements import forms

    monkeypatch.setattr(forms, "find_spec", lambda name: None if name == "stable_baselines3" else name)
    report = check_env("envoi:catch", frameworks=["gymnasium"])
    assert report.passed
    assert report.result("suite-sb3", "gymnasium").reason == "stable_baselines3 is not installed"
    assert report.conclusion.endswith("(1 not installed)")


def test_framework_not_installed_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_env", None)
    with pytest.raises(envoi.MissingBackend):  # one that is given by name must be installed
        check_env("envoi:catch", frameworks=["dm_env"])
    report = check_env("envoi:catch", episodes=1, steps=20)
    report.raise_if_failed()
    result = report.result("constructs", "dm_env")
    assert result.status == "not installed"
    assert "pip install 'envoi[dm-env]'" in result.reason
    assert report.result("trace-comes-back", "dm_env") is None


def test_suite_error_is_the_reason():
    report = check_env(wrong_envs.WrongDtype, frameworks=["gymnasium", "dm_env"])
    complaint = report.result("suite-gymnasium", "gymnasium")
    assert complaint.status == "failed"
    assert "not within the observation space" in complaint.reason
    # The other form casts the wrong dtype of the environment.
    assert report.result("suite-dm-env", "dm_env").status == "passed"
    assert report.result("observation-dtype", "dm_env").reason == "see env"


def test_suite_warnings_become_notes(capfd, recwarn):
    report = check_env("gymnasium:CartPole-v1", frameworks=["gymnasium", "pettingzoo"])
    assert any("spec" in note or "space" in note for note in report.result("suite-gymnasium", "gymnasium").notes)
    assert capfd.readouterr() == ("", "")
    assert not list(recwarn)


def test_forms_that_change_values_fail(monkeypatch):
    from envoi.adapters import dm_env, gymnasium

    given, step = dm_env.FromDmEnv.step, gymnasium.ToGymnasium.step

    def careless(self, action):
        observation, *rest = step(self, action)
        self.__dict__.setdefault("buffer", np.zeros_like(observation))[:] = observation
        return self.buffer, *rest

    monkeypatch.setattr(dm_env.FromDmEnv, "step", lambda self, action: given(self, action)._replace(reward=7.0))
    monkeypatch.setattr(gymnasium.ToGymnasium, "step", careless)
    report = check_env("envoi:catch", frameworks=["dm_env", "gymnasium"])
    failure = report.result("trace-comes-back", "dm_env")
    assert (failure.status, "reward" in failure.reason) == ("failed", True)
    assert "observation-stays" in {f.key for f in report.failures if f.subject == "gymnasium"}
    assert report.result("observation-stays").status == "passed"


# Arguments.


MAKE = wrong_envs.AliasedBuffer


@pytest.mark.parametrize("given", [MAKE, lambda: MAKE(), MAKE(), "python:wrong_envs:AliasedBuffer"])
def test_accepts_function_class_name_and_env(given):
    assert keys(check_env(given, frameworks=[]).failures) == {"observation-stays"}


class Rigid(wrong_envs.Walk):
    def __deepcopy__(self, memo):
        raise TypeError("one of a kind")


def test_env_that_cannot_be_copied_is_a_remark():
    report = check_env(Rigid, frameworks=[])
    assert (report.passed, "one of a kind" in report.result("copies").reason) == (True, True)


def test_given_env_is_left_unchanged():
    env = load("gymnasium:CartPole-v1")
    twin = copy.deepcopy(env)
    for one in (env, twin):
        one.reset(seed=3)
        one.step(1)
    check_env(env, frameworks=["gymnasium"]).raise_if_failed()
    for one in (env, twin):
        one.step(0)
    np.testing.assert_array_equal(env.observation, twin.observation)
    np.testing.assert_array_equal(env.reset().observation, twin.reset().observation)


def test_global_generators_are_left_unchanged():
    def states():
        return random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002

    before = states()
    check_env(wrong_envs.GlobalNumpy, frameworks=["gymnasium"])
    assert states() == before


def test_raise_if_failed_lists_each_failure():
    with pytest.raises(AssertionError) as caught:
        found(wrong_envs.SeedIgnored).raise_if_failed()
    assert "wrong_envs.SeedIgnored: " in str(caught.value)
    assert all(f"env  {key}: " in str(caught.value) for key in ("repeats-anew", "seed-repeats"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frameworks": ["gymnasiun"]}, "gymnasium"),
        ({"frameworks": ["gridverse"]}, "only imports from there"),
        ({"episodes": 0}, "episodes: expected an integer of at least 1"),
        ({"seed": -1}, "seed: expected"),
        ({"steps": 2.5}, "steps: expected"),
        ({"env": lambda: 3}, "expected one of"),
        ({"env": lambda: int("x")}, r"could not be made.*ValueError"),
        (
            {"env": Rigid()},
            r"give a function that makes it, as the env raised TypeError: one of a kind \(.*\) when copied",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(envoi.EnvoiError, match=message):
        check_env(**{"env": "envoi:catch", **arguments})


# The report.


def test_table_has_requirements_in_rows_and_frameworks_in_columns():
    report = check_env("envoi:catch", frameworks=["dm_env", "gymnasium"])
    lines = report.table().splitlines()
    assert lines[0].split() == ["env", "gymnasium", "dm_env"]
    assert max(map(len, lines)) <= 100
    by_key = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert (by_key["plays"], by_key["suite-dm-env"]) == (["✓"] * 3, ["✓"])
    assert str(report).splitlines()[-1] == report.conclusion


class Loud(wrong_envs.WrongDtype):
    mode = "rgb_array"

    def render(self):
        raise ValueError("<b> \x07 <&>")


@pytest.fixture(scope="module")
def loud():
    """The report on an environment that fails in its own API and in gymnasium's form."""
    return check_env(Loud, frameworks=["gymnasium", "dm_env"], steps=20)


def test_json_holds_the_whole_report(loud, tmp_path):
    loud.write_json(tmp_path / "report.json")
    read = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert read["passed"] is False
    assert read["checks"] - read["checks_passed"] == len(loud.failures)
    assert len(read["results"]) == len(loud.results)
    failed = next(result for result in read["results"] if result["status"] == "failed")
    assert (failed["key"], failed["contract"]) == ("observation-dtype", [14])
    assert list(tmp_path.iterdir()) == [tmp_path / "report.json"]


def test_html_page_is_self_contained_and_lists_reasons(loud, tmp_path):
    loud.write_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search("http|src=|href=|<b> ", page)
    assert page.count("<tr>") == page.count("</tr>")
    text = html.unescape(page)
    for part in ("<b> ", "plays", "Resets and steps raise no error.", "gymnasium", loud.conclusion):
        assert part in text
    assert re.findall(r"<tr><th><code>([\w-]+)</code>", page) == [key for key, _ in loud.rows()]


def test_junit_counts_what_the_report_has(loud, tmp_path):
    loud.write_junit(tmp_path / "report.xml")
    root = ElementTree.parse(tmp_path / "report.xml").getroot()
    cases = list(root.iter("testcase"))
    assert len(cases) == len(loud.results) == int(root.get("tests")) == sum(int(one.get("tests")) for one in root)
    failures = [case for case in cases if case.find("failure") is not None]
    assert len(failures) == len(loud.failures) == int(root.get("failures"))
    assert {case.get("name") for case in failures} == {one.key for one in loud.failures}
    assert sum(case.find("skipped") is not None for case in cases) == int(root.get("skipped"))
    assert all("again: check_env(" in case.find("failure").text for case in failures)


def test_failure_can_be_run_again_by_its_command_and_is_in_the_files(cli, tmp_path):
    name = "python:wrong_envs:AliasedBuffer?"
    report = check_env("python:wrong_envs:AliasedBuffer", frameworks=["gymnasium"], steps=20, seed=3)
    failure = report.failures[0]  # gymnasium 1.4 finds it too
    command = shlex.split(report.command(failure.subject))
    assert command[:2] == ["envoi", "check"]
    written = tmp_path / "r.html", tmp_path / "r.json", tmp_path / "r.xml"
    code, out, _ = cli(*command[1:], "--html", written[0], "--json", written[1], "--junit", written[2])
    assert code == 1
    assert f"failed  env  observation-stays: {failure.reason}" in out
    assert sorted(tmp_path.iterdir()) == sorted(written)
    assert all("observation-stays" in file.read_text(encoding="utf-8") for file in written)
    assert f"again  {report.command(failure.subject)}" in out
    assert shlex.split(replace(report, env=name).command())[2] == name
    assert replace(report, env="Walk").command("dm_env") == (
        "check_env(Walk, frameworks=['dm_env'], seed=3, episodes=3, steps=20)"
    )
    again = [one["again"] for one in report.to_dict()["results"] if "again" in one]
    assert again == [report.command(one.subject) for one in report.failures]


@pytest.mark.parametrize(("width", "marks"), [(40, "✓"), (80, "✓✓")])
def test_table_in_a_narrow_terminal_keeps_words(width, marks):
    report = check_env("envoi:pursuit", frameworks=["dm_env", "pettingzoo", "gymnasium_vector"], episodes=1, steps=20)
    lines = report.table(width).splitlines()
    assert max(map(len, lines)) <= width
    assert ["plays", *marks] in [line.split() for line in lines]
    text = report.to_text(width)
    assert "and in its forms" in text
    assert "refused  dm_env  constructs: agents" in text


# Comparison and drivers.


def test_values_differ_names_the_first_difference():
    nan = np.array([np.nan, 1.0])
    for same in (nan, {"a": (nan, 1, "x", None)}, [True, 2.0], np.float32(3)):
        assert values_differ(same, copy.deepcopy(same), "v") is None
    assert values_differ(1, 1.0, "v") is None
    for one, two, where in (
        (nan, np.array([np.nan, 2.0]), "v[1]: 1.0 against 2.0"),
        (np.zeros(2, np.float32), np.zeros(2), "dtype float32 against float64"),
        (np.zeros(2), np.zeros(3), "shape (2,) against (3,)"),
        ({"a": 1}, {"b": 1}, "keys ['a'] against ['b']"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "v['a'][1]: 2 against 3"),
        (None, 0.0, "None against 0.0"),
        ("x", "y", "'x' against 'y'"),
        (object(), 3, "against 3"),
    ):
        assert where in values_differ(one, two, "v")


# The command line.


def test_ctrl_c_is_exit_code_130_and_leaves_no_file(spawn, tmp_path):
    files = ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    process = spawn("check", "python:wrong_envs:Slow", "--frameworks", "gymnasium", *files)
    assert process.stderr.readline().startswith("checking env: ")  # progress, once it takes its time
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "envoi: interrupted"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("make", [wrong_envs.Raises, wrong_envs.OldApi, wrong_envs.LineNoReward])
def test_faults_of_the_env_are_not_failures_of_its_forms(make):
    report = check_env(make, frameworks=["gymnasium", "dm_env", "pettingzoo"], steps=40)
    blamed = {result.key for result in report.failures if result.subject != "env"}
    assert all(key.startswith("suite-") for key in blamed), report.failures


def test_gymnasium_suite_runs_on_a_form_without_a_complete_spec():
    make = lambda: envoi.Terminated(load("envoi:catch"), lambda state, action, next_state: False)  # noqa: E731
    check_env(make, frameworks=["gymnasium"]).raise_if_failed()
