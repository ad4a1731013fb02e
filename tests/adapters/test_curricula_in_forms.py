"""Every form reports its episodes to a curriculum, with no callback of the user."""

import forms
import pytest
from scripted import Logged
from small_models import Corridor

import envoi

pytestmark = pytest.mark.filterwarnings("ignore:.*precision narrowed")  # of rewards, which the sums here do not show


class March(Corridor):
    """Walks on whatever the action, and is paid for how far it is."""

    def transition(self, state, action, rng):
        return super().transition(state, 1, rng)

    def reward(self, state, action, next_state):
        return float(state[0])


def episodes(name, lanes=1):
    """The context, return and length of each episode that a form reports, and what the curriculum then chooses by."""
    curriculum = Logged(4)
    contexts = {length: {"length": length} for length in range(2, 9)}
    env = envoi.Contextual(March(), contexts, context_selector=curriculum, hide_context=True)
    env = envoi.TimeLimit(env, 6)
    if name == "core":
        forms.core_trace(env, [0] + 19 * [None])
    elif forms.FORMS[name].kind == "lanes":
        forms.native_trace(name, forms.FORMS[name].make(envoi.batch(env, lanes)), [0], steps=120)
    else:
        env = envoi.as_multi(env) if forms.FORMS[name].kind == "several" else env
        forms.native_trace(name, forms.FORMS[name].make(env), [0] + 19 * [None])
    rows = [
        (one["context_id"], one["return"], one["length"], one["terminated"], one["lane"]) for one in curriculum.rows
    ]
    return rows, curriculum


@pytest.mark.parametrize("name", sorted({*forms.FORMS} - {"vector disabled"}))  # whose user resets the lanes
def test_every_form_gives_the_sequence_of_a_plain_loop(name):
    expected, _ = episodes("core")
    assert {length for _, _, length, *_ in expected} == {2, 3, 4, 5, 6}
    found, _ = episodes(name)
    n = min(len(found), len(expected))
    assert n >= 10
    assert found[:n] == expected[:n]


@pytest.mark.parametrize("name", ["vector next step", "vector same step", "sb3"])
def test_lanes_share_the_curriculum(name):
    rows, curriculum = episodes(name, lanes=4)
    assert curriculum.statistics["episodes"].sum() == len(rows)
    assert {lane for *_, lane in rows} == {0, 1, 2, 3}
    assert all(length == min(context, 6) for context, _, length, *_ in rows)
