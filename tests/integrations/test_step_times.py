"""`envoi bench` plays an environment in every form, and shows what each adds; no test depends on a time."""

import json

import pytest
from absent import ABSENT
from small_models import Steps

import envoi
from envoi import SpecError, UnknownName
from envoi.adapters import FRAMEWORKS, load
from envoi.integrations.cli import main
from envoi.integrations.step_times import step_times

OF_LANES = [name for name in ("gymnasium_vector", "sb3") if FRAMEWORKS[name].package not in ABSENT]
FORMS = ["gymnasium", *OF_LANES, "dm_env", "tf_agents"]


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr("envoi.integrations.step_times.ROUND", 0.001)


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


class Strict(envoi.models.Nim):
    def transition(self, state, actions, rng):
        assert all(self.mask(state, agent)[action] for agent, action in actions.items())
        return super().transition(state, actions, rng)


def test_all_forms_play_the_same_actions():
    Counted.calls.clear()
    shown = []
    times = step_times(Counted, ["gymnasium", "dm_env"], rounds=2, show=shown.append)
    assert shown[-1] == "round 2 of 2: dm_env"
    assert [one.form for one in times] == ["core", "gymnasium", "dm_env"]
    size = len(Counted.calls) // 10  # of the choice of actions, and of three forms in three rounds with a first one
    assert len(Counted.calls) == 10 * size
    assert len({tuple(Counted.calls[start : start + size]) for start in range(0, 10 * size, size)}) == 1
    assert [len(one.ns) for one in times] == [2, 2, 2]
    assert times[0].added == [0, 0]
    for one in times:
        assert one.added == [own - base for own, base in zip(one.ns, times[0].ns, strict=True)]


@pytest.mark.parametrize(
    ("make", "base", "forms"),
    [
        (lambda: load("gymnasium:CartPole-v1"), "gymnasium, the source", FORMS),
        (lambda: load("envoi:pursuit"), "core", ["pettingzoo"]),
        (Strict, "core", ["pettingzoo"]),
        (lambda: envoi.batch(Counted, 3), "core", [*OF_LANES, "rllib"]),
    ],
)
def test_every_kind_of_environment_is_measured(make, base, forms):
    times = step_times(make, forms, rounds=2, lanes=4)
    assert times[0].form == base
    assert {one.form.partition(",")[0] for one in times} >= {*forms, "core"}
    assert not [one for one in times if one.refused]
    assert all(value > 0 for one in times for value in one.ns)


@pytest.mark.parametrize(
    ("make", "form", "reason"),
    [
        (Counted, "pettingzoo", "measured for environments of several agents only"),
        (lambda: load("envoi:nim"), "gymnasium", "measured for environments of one agent only"),
        (lambda: load("envoi:nim"), "pettingzoo_aec", "its steps are turns"),
        (Texts, "tf_agents", "tf_agents cannot express"),
    ],
)
def test_a_form_that_is_not_measured_says_why(make, form, reason):
    found = {one.form: one for one in step_times(make, [form], rounds=2)}
    assert reason in found[form].refused
    assert found["core"].ns


def test_wrong_settings_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'gymnasium'"):
        step_times(Counted, ["gymnasum"])
    with pytest.raises(SpecError, match="at least 2 rounds"):
        step_times(Counted, rounds=1)


def test_the_command_prints_a_table_or_json(capsys):
    forms = [part for name in ("gymnasium", "dm_env") for part in ("--form", name)]
    assert main(["bench", "envoi:catch", *forms, "--rounds", "3"]) == 0
    shown = capsys.readouterr().out
    assert "quartiles of added" in shown
    assert "dm_env" in shown
    assert main(["bench", "envoi:catch", *forms, "--rounds", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["env"], report["base"]) == ("envoi:catch", "core")
    assert [row["form"] for row in report["forms"]] == ["core", "gymnasium", "dm_env"]
    assert len(report["forms"][1]["added"]) == 3
    assert {"envoi", "numpy", "gymnasium"} <= report["versions"].keys()
    for wrong in (["bench", "envoi:cach"], ["bench", "envoi:catch", "--form", "gymnasum"]):
        assert main(wrong) == 2
        assert "did you mean" in capsys.readouterr().err
