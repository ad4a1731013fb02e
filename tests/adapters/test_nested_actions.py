"""An action whose parts are not those of its spec is an error that names them, in forms of one agent and of several."""

from functools import partial

import numpy as np
import pytest
from forms import StrangeDmEnv, StrangeGym
from scripted import Shaped
from scripted_games import Scene, ScriptedGame
from strategies import Pair

import envoi
from envoi import Array, Discrete, OneOf, SpecError
from envoi.adapters import from_env, to_dm_env, to_gymnasium, to_gymnasium_vector, to_tf_agents
from envoi.adapters.pettingzoo import to_pettingzoo
from envoi.adapters.pettingzoo_aec import to_pettingzoo_aec

LEGS = {"leg": {"hip": Discrete(2), "knee": Array((), "float32", 0, 1)}, "hand": (Discrete(2), Discrete(3))}


def walker(spec):
    return Shaped(Array((1,), "float32", 0, 1), spec)


FORMS = [to_gymnasium, to_dm_env, partial(to_tf_agents, exact=True)]
IMPORTS = [lambda env, validate: from_env(StrangeGym(to_gymnasium(env)))]
IMPORTS += [lambda env, validate: from_env(StrangeDmEnv(to_dm_env(env)))]
KNEE = np.array(0.5, np.float32)
INCOMPLETE = [
    ({"leg": {"hip": 1, "knee": KNEE}}, r"^action: expected keys \['leg', 'hand'\]; missing \['hand'\], too many \[\]"),
    ({"leg": {"hip": 1}, "hand": (1, 1)}, r"^action\['leg'\]: expected keys .* missing \['knee'\], too many \[\]"),
    ({"leg": {"hip": 1, "knee": KNEE}, "hand": (1,)}, r"^action\['hand'\]: expected 2 elements, got 1"),
    ({"leg": 1, "hand": (1, 1)}, r"^action\['leg'\]: expected a dict with keys \['hip', 'knee'\], got 1"),
    (3, r"^action: expected a dict with keys \['leg', 'hand'\], got 3"),
    (None, r"^action: expected a dict with keys \['leg', 'hand'\], got None"),
]


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("to_form", FORMS + IMPORTS)
@pytest.mark.parametrize(("action", "message"), INCOMPLETE)
def test_an_action_that_lacks_a_part_is_an_error_that_names_it(to_form, validate, action, message):
    form = to_form(walker(LEGS), validate=validate)
    form.reset()
    with pytest.raises(SpecError, match=message):
        form.step(action)
    form.step({"leg": {"hip": 1, "knee": KNEE}, "hand": (1, 1)})


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("to_form", FORMS)
def test_an_action_may_come_in_other_containers_of_the_same_parts(to_form, validate):
    seen = []

    class Watched(envoi.Wrapper):
        def step(self, action, restart=None):
            seen.append(action)
            return super().step(action, restart)

    form = to_form(Watched(walker(Pair(Discrete(2), Discrete(2)))), validate=validate)
    form.reset()
    for action in ((1, 0), [1, 0], np.array([1, 0])):
        form.step(action)
    assert seen == [Pair(1, 0)] * 3
    assert {type(action) for action in seen} == {Pair}


def test_a_mistake_inside_an_action_that_has_all_its_parts_keeps_its_own_error():
    form = to_gymnasium(walker({"hip": OneOf([Discrete(2), Discrete(3)])}))
    form.reset()
    with pytest.raises(TypeError, match="not subscriptable"):
        form.step({"hip": 3})


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("to_form", [to_pettingzoo, to_pettingzoo_aec])
def test_the_parts_of_an_agents_action_are_named_with_the_agent(to_form, validate):
    class Walkers(ScriptedGame):
        possible_agents = ("zoe", "adam")
        observation_spec = {agent: ScriptedGame.observation_spec[agent] for agent in possible_agents}
        action_spec = dict.fromkeys(possible_agents, LEGS)

    form = to_form(Walkers(Scene(("zoe", "adam")), Scene(("zoe", "adam"))), validate=validate)
    form.reset()
    incomplete = {"leg": {"hip": 1}, "hand": (1, 1)}
    action = incomplete if to_form is to_pettingzoo_aec else dict.fromkeys(("zoe", "adam"), incomplete)
    with pytest.raises(SpecError, match=r"^action\['zoe'\]\['leg'\]: .* missing \['knee'\], too many \[\]"):
        form.step(action)


def test_the_lanes_of_an_action_that_is_no_dict_are_an_error_that_names_its_parts():
    form = to_gymnasium_vector(walker(LEGS), 2)
    form.reset()
    with pytest.raises(SpecError, match=r"^actions: expected a dict with keys \['leg', 'hand'\], got 3"):
        form.step(3)
