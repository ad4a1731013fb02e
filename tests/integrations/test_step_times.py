"""`envoi bench` plays an environment in every form, and shows what each adds; no test depends on a time."""

import json

import pytest
from absent import ABSENT
from small_models import Steps

import envoi
from envoi.adapters import FRAMEWORKS, load
from envoi.integrations.cli.commands.bench import step_times

OF_LANES = [name for name in ("gymnasium_vector", "sb3") if FRAMEWORKS[name].package not in ABSENT]
FORMS = ["gymnasium", *OF_LANES, "dm_env", "tf_agents"]


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr("envoi.integrations.cli.commands.bench.ROUND", 0.001)


class Counted(Steps):
    """Notes the actions of all copies."""

    calls = []

    def transition(self, state, action, rng):
        self.calls.append(int(action))
        return super().transition(state, action, rng)

    def terminal(self, state):
        return state >= 7


class Texts(Counted):
    observation_spec = envoi.Text(9)

    def observe(self, state, rng):
        return "a" * state


def test_all_forms_play_the_same_actions():
    Counted.calls.clear()
    shown = []
    times, _ = step_times(Counted, ["gymnasium", "dm_env"], rounds=2, show=shown.append)
    assert shown[-1] == "round 2 of 2: dm_env"
    assert [*times] == ["core", "gymnasium", "dm_env"]
    size = len(Counted.calls) // 10  # of the choice of actions, and of three forms in three rounds with a first one
    assert len(Counted.calls) == 10 * size
    assert len({tuple(Counted.calls[start : start + size]) for start in range(0, 10 * size, size)}) == 1


@pytest.mark.parametrize(
    ("make", "base", "forms"),
    [
        (lambda: load("gymnasium:CartPole-v1"), "gymnasium, the source", FORMS),
        (lambda: load("envoi:pursuit"), "core", ["pettingzoo"]),
        (lambda: load("pettingzoo:classic/tictactoe_v3"), "core", ["pettingzoo"]),
    ],
)
def test_every_kind_of_environment_is_measured(make, base, forms):
    times, refused = step_times(make, forms, rounds=2, lanes=4)
    assert (next(iter(times)), refused) == (base, {})
    assert {name.partition(",")[0] for name in times} >= {*forms, "core"}
    assert all(len(ns) == 2 and min(ns) > 0 for ns in times.values())


@pytest.mark.parametrize(
    ("make", "form", "reason"),
    [(Counted, "pettingzoo", "compare with no other form"), (Texts, "tf_agents", "tf_agents cannot express")],
)
def test_a_form_that_is_not_measured_says_why(make, form, reason):
    times, refused = step_times(make, [form], rounds=2)
    assert reason in refused[form]
    assert times["core"]


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (Counted, {"rounds": 1}, "rounds: expected at least 2"),
        (lambda: envoi.batch(Counted, 3), {}, "without lanes, got a batch of 3"),
    ],
)
def test_wrong_settings_are_refused(make, options, message):
    with pytest.raises(envoi.EnvoiError, match=message):
        step_times(make, **options)


def test_the_command_prints_a_table_or_json(cli):
    command = ("bench", "envoi:catch", "--form", "gymnasium", "--form", "dm_env", "--rounds", "3")
    code, shown, _ = cli(*command)
    assert (code, "quartiles of added" in shown, "dm_env" in shown) == (0, True, True)
    report = json.loads(cli(*command, "--json")[1])
    assert (report["env"], report["base"]) == ("envoi:catch", "core")
    assert [row["form"] for row in report["forms"]] == ["core", "gymnasium", "dm_env"]
    for row in report["forms"]:
        assert row["added"] == [own - base for own, base in zip(row["ns"], report["forms"][0]["ns"], strict=True)]
    assert {"envoi", "numpy", "gymnasium"} <= report["versions"].keys()
    for wrong in (("bench", "envoi:cach"), ("bench", "envoi:catch", "--form", "gymnasum")):
        code, _, error = cli(*wrong)
        assert (code, "did you mean" in error) == (2, True)
