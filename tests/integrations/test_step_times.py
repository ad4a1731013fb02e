"""`envoi bench` plays an environment in every form, and shows what each adds; no test depends on a time."""

import json

import numpy as np
import pytest
from absent import ABSENT

import envoi
from envoi import SpecError, UnknownName
from envoi.adapters import FRAMEWORKS, load
from envoi.integrations.cli import main
from envoi.integrations.step_times import step_times

OF_LANES = [name for name in ("gymnasium_vector", "sb3") if FRAMEWORKS[name].package not in ABSENT]
FORMS = ["gymnasium", *OF_LANES, "dm_env", "tf_agents"]


class Counted(envoi.Model):
    """Counts the steps of all copies by their kind of episode."""

    observation_spec = envoi.Array((2,))
    action_spec = envoi.Discrete(2)
    calls = []

    def initial(self, rng, context):
        return 0

    def transition(self, state, action, rng):
        self.calls.append(int(action))
        return state + 1

    def observe(self, state, rng):
        return np.full(2, state, np.float32)

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return state >= 7


def test_all_forms_play_the_same_actions():
    Counted.calls.clear()
    times = step_times(Counted, ["gymnasium", "dm_env"], rounds=2)
    assert [one.form for one in times] == ["core", "gymnasium", "dm_env"]
    calls = Counted.calls[50:]  # after the estimate
    size = len(calls) // 9  # three forms, and three rounds with the one that warms up
    assert len(calls) == 9 * size
    assert len({tuple(calls[start : start + size]) for start in range(0, len(calls), size)}) == 1
    assert [len(one.ns) for one in times] == [2, 2, 2]
    assert times[0].added == [0, 0]
    for one in times:
        assert one.added == [own - base for own, base in zip(one.ns, times[0].ns, strict=True)]


@pytest.mark.parametrize(
    ("make", "base", "forms"),
    [
        (lambda: load("gymnasium:CartPole-v1"), "gymnasium, the source", FORMS),
        (lambda: load("envoi:pursuit"), "core", ["pettingzoo"]),
        (lambda: envoi.batch(Counted, 3), "core", OF_LANES),
    ],
)
def test_every_kind_of_environment_is_measured(make, base, forms, monkeypatch):
    monkeypatch.setattr("envoi.integrations.step_times.ROUND", 0.001)
    times = step_times(make, forms, rounds=2, lanes=4)
    assert times[0].form == base
    assert {one.form.partition(",")[0] for one in times} >= {*forms, "core"}
    assert not [one for one in times if one.refused]
    assert all(value > 0 for one in times for value in one.ns)


def test_a_form_that_refuses_an_environment_says_why():
    class Texts(Counted):
        observation_spec = envoi.Text(9)

        def observe(self, state, rng):
            return "a" * state

    found = {one.form: one for one in step_times(Texts, ["gymnasium", "tf_agents"], rounds=2)}
    assert "tf_agents cannot express" in found["tf_agents"].refused
    assert found["gymnasium"].ns


@pytest.mark.parametrize(
    ("make", "form", "reason"),
    [
        (Counted, "pettingzoo", "for environments of several agents"),
        (lambda: load("envoi:nim"), "gymnasium", "measured for environments of one agent only"),
        (lambda: load("envoi:nim"), "pettingzoo_aec", "its steps are turns"),
        (lambda: envoi.batch(Counted, 2), "rllib", "not measured for batches"),
    ],
)
def test_a_form_that_is_asked_for_and_not_measured_says_why(make, form, reason, monkeypatch):
    monkeypatch.setattr("envoi.integrations.step_times.ROUND", 0.001)
    found = {one.form: one for one in step_times(make, [form], rounds=2)}
    assert reason in found[form].refused


def test_games_in_turns_are_played_by_legal_actions(monkeypatch):
    class Strict(envoi.models.Nim):
        def transition(self, state, actions, rng):
            assert all(self.mask(state, agent)[action] for agent, action in actions.items())
            return super().transition(state, actions, rng)

    monkeypatch.setattr("envoi.integrations.step_times.ROUND", 0.001)
    assert [one.form for one in step_times(Strict, ["pettingzoo"], rounds=2)] == ["core", "pettingzoo"]


def test_progress_says_what_is_measured(monkeypatch):
    monkeypatch.setattr("envoi.integrations.step_times.ROUND", 0.001)
    shown = []
    step_times(Counted, ["gymnasium"], rounds=2, show=shown.append)
    assert shown[-1] == "round 2 of 2: gymnasium"


def test_wrong_settings_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'gymnasium'"):
        step_times(Counted, ["gymnasum"])
    with pytest.raises(SpecError, match="at least 2 rounds"):
        step_times(Counted, rounds=1)


def test_the_command_prints_a_table_or_json(capsys, monkeypatch):
    monkeypatch.setattr("envoi.integrations.step_times.ROUND", 0.001)
    forms = [part for name in ("gymnasium", "dm_env") for part in ("--form", name)]
    assert main(["bench", "envoi:catch", *forms, "--rounds", "3"]) == 0
    shown = capsys.readouterr().out
    assert "quartiles of added" in shown
    assert "dm_env" in shown
    assert main(["bench", "envoi:catch", *forms, "--rounds", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["env"] == "envoi:catch"
    assert report["base"] == "core"
    assert [row["form"] for row in report["forms"]] == ["core", "gymnasium", "dm_env"]
    assert len(report["forms"][1]["added"]) == 3
    assert {"envoi", "numpy", "gymnasium"} <= report["versions"].keys()
    assert main(["bench", "envoi:cach"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main(["bench", "envoi:catch", "--form", "gymnasum"]) == 2
