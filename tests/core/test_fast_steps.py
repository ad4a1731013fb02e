"""Which steps are written as one function, which are called as they are, and how their source reads."""

import copy
import linecache
import pickle
import re
import traceback

import numpy as np
import pytest
from small_models import Drifting, Leaving, Sums, Walk
from traces import exact

import envoi
from envoi import Lifted, TimeLimit, explain
from envoi.adapters import to_gymnasium
from envoi.protocol.fast_steps import fast_step
from envoi.protocol.multi_env import full_multi_step

OPTIONAL = {
    "truncated": lambda self, state: np.bool_(state[1] % 7 == 6),
    "discount": lambda self, state: 0.5,
    "info": lambda self, state: {"time": state[1]},
}
"""Optional functions of a model."""


def drifting(names=(), where="class"):
    """A model that has some of the optional functions, written in its class, inherited, or patched onto it."""
    functions = {name: OPTIONAL[name] for name in names}
    kind = Drifting if where == "instance" else type("Drifting", (Drifting,), functions)
    model = type("Child", (kind,), {})() if where == "parent" else kind()
    if where == "instance":
        for name, function in functions.items():
            setattr(model, name, function.__get__(model))
    return model


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_functions_not_written_are_left_out(name):
    assert f"model.{name}(" not in explain(drifting())
    for where in ("class", "parent", "instance"):
        assert f"model.{name}(" in explain(drifting((name,), where))


def test_the_info_of_a_step_is_fresh():
    form = to_gymnasium(drifting())
    form.reset()
    form.step(1)[-1]["mine"] = 1
    assert form.step(1)[-1] == {}


class OwnStep(Drifting):
    def step(self, action):
        return super().step(action)._replace(reward=7.0)


class ChildOfOwnStep(OwnStep):
    """The class above it decides."""


def patched():
    env = Drifting()
    env.step = lambda action: Drifting.step(env, action)._replace(reward=7.0)
    return env


@pytest.mark.parametrize("make", [OwnStep, ChildOfOwnStep, patched])
def test_a_step_of_ones_own_is_called(make):
    env = make()
    assert "inner_step(action)" in explain(env)
    form = to_gymnasium(env)
    form.reset()
    assert form.step(1)[1] == 7.0


def test_a_step_patched_later_is_in_later_forms():
    env = Drifting()
    before = to_gymnasium(env)
    env.step = lambda action: Drifting.step(env, action)._replace(reward=8.0)
    env.reset()
    assert before.step(1)[1] != 8.0
    assert to_gymnasium(env).step(1)[1] == 8.0


def test_a_limit_around_a_patched_step_begins_again():
    inner = TimeLimit(Walk(), 100)
    env, step = TimeLimit(inner, 2), inner.step
    inner.step = lambda action: step(action)
    form = to_gymnasium(env)
    for _ in range(2):
        form.reset(seed=0)
        assert [form.step(1)[3] for _ in range(2)] == [False, True]


def test_required_functions_patched_later_are_called():
    env = Drifting()
    env.terminal = lambda state: True
    form = to_gymnasium(env)
    env.reward = lambda state, action, next_state: 9.0
    env.reset()
    assert form.step(1)[1:3] == (9.0, True)


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize("where", ["class", "instance"])
@pytest.mark.parametrize("layers", [0, 2])
def test_optional_functions_are_patched_at_resets(name, where, layers, monkeypatch):
    class Patched(Drifting):
        """A class that the test may change."""

    result = {"truncated": True, "discount": 0.25, "info": {"patched": True}}[name]
    model = Patched()
    env = Scaled(Scaled(model)) if layers else model
    form = to_gymnasium(env)

    def found():
        env.reset()
        *_, truncated, info = form.step(1)
        return {"truncated": truncated, "discount": info.pop("discount", 1.0), "info": info}

    before = found()
    monkeypatch.setattr(Patched if where == "class" else model, name, lambda *arguments: result)
    assert found() == {**before, name: result} != before
    assert f"model.{name}(" in explain(env)
    monkeypatch.undo()
    assert found() == before


def test_a_function_patched_in_a_copy_leaves_the_original():
    model = Drifting()
    form = to_gymnasium(model)
    form.reset()
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        copied.truncated = lambda state: True
        copied.reset()
        assert to_gymnasium(copied).step(1)[3] is True
        form.reset()
        assert form.step(1)[3] is False


class OwnMultiStep(Leaving):
    """Adds to what its step returns."""

    def step(self, actions):
        return super().step(actions)._replace(infos={"__common__": {"own": True}})


def test_a_written_step_of_several_agents_is_the_plain_one():
    one, other = Leaving(), Leaving()
    step = fast_step(one)
    one.reset(seed=0)
    other.reset(seed=0)
    while one.agents:
        actions = dict.fromkeys(one.acting, 1)
        assert exact(full_multi_step(step(actions))) == exact(other.step(actions))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_step_of_ones_own_of_several_agents_is_called(wrapped):
    env = TimeLimit(OwnMultiStep(), 100) if wrapped else OwnMultiStep()
    step = fast_step(env)
    env.reset(seed=0)
    assert step(dict.fromkeys(env.acting, 1))[-1]["__common__"] == {"own": True}


@pytest.mark.parametrize("when", ["on the instance", "in the class"])
def test_a_patched_step_of_several_agents_is_called(when, monkeypatch):
    env = Leaving()
    if when == "in the class":
        monkeypatch.setattr(Leaving, "step", lambda self, actions: ("patched", actions, {}, {}, {}, {}))
    else:
        env.step = lambda actions: ("patched", actions, {}, {}, {}, {})
    given = {"first": 1, "second": 0}
    said, came, *_ = fast_step(env)(given)
    assert (said, came) == ("patched", given)
    assert came is not given  # for who overrides `step` may change it


def test_the_same_composition_has_the_same_code():
    one, other = (to_gymnasium(drifting({"info"}, where)).step for where in ("class", "instance"))
    assert one is not other
    assert one.__code__ is other.__code__
    assert to_gymnasium(drifting({"discount"})).step.__code__ is not one.__code__
    assert explain(drifting({"info"})) == explain(drifting({"info"}, "parent"))


def test_a_traceback_shows_the_assembled_line():
    form = to_gymnasium(model := drifting())
    form.reset()
    model.broken = "transition"
    linecache.checkcache()
    with pytest.raises(ZeroDivisionError) as caught:
        form.step(1)
    lines = traceback.extract_tb(caught.value.__traceback__)
    assembled = next(line for line in lines if line.filename.startswith("<envoi step"))
    assert assembled.line == "state = model.transition(before, action, streams.dynamics)"
    assert explain(form).splitlines()[assembled.lineno - 1].strip() == assembled.line


LIMIT, HISTORY = "# TimeLimit: changes truncated", "# History: changes observation"


def titles_of(env):
    """The layers that the source of a step names."""
    return [line.strip() for line in explain(env).splitlines() if re.match(r" +# \w+.*: ", line)]


def test_layers_are_named_by_the_librarys_classes():
    class Own(TimeLimit):
        """A user's class, whose text must not be in the source."""

    titles = titles_of(Own(TimeLimit(envoi.ActionRepeat(drifting(), 2), 9), 9))
    assert titles == ["# ActionRepeat: called as it is", LIMIT, "# a wrapper: changes truncated"]


@pytest.mark.parametrize(
    ("env", "title"),
    [
        (lambda: envoi.batch(Walk, 2), "Model: the functions that its author wrote, one lane after the other"),
        (lambda: envoi.Lanes([Walk(), Walk()]), "Lanes: a step of all lanes"),
    ],
)
def test_plain_steps_say_what_they_are_of(env, title):
    assert f"# {title}\n" in explain(env())


@pytest.mark.parametrize(
    ("make", "model"),
    [
        (Leaving, "# MultiModel: the functions that its author wrote"),
        (lambda: envoi.batch(Sums(), 2), "# BatchModel: the functions that its author wrote, once for all lanes"),
    ],
)
def test_a_step_of_agents_or_lanes_is_explained(make, model):
    assert titles_of(TimeLimit(envoi.History(make(), 2), 9)) == [LIMIT, HISTORY, model, HISTORY, LIMIT]


class Scaled(Lifted):
    """A wrapper of the same composition as itself."""

    def change(self, specs):
        return envoi.Change(reward=lambda reward: 0.5 * reward)


class ItsOwnFunction(Lifted):
    """Is itself the function of its change."""

    def change(self, specs):
        return envoi.Change(action=self, begin=lambda observation: 0, remember=lambda memory, *values: memory + 1)

    def __call__(self, action):
        return 2 - action


def test_a_wrapper_may_be_its_changes_function():
    env, twin = ItsOwnFunction(drifting()), ItsOwnFunction(drifting())
    env.reset(seed=0)
    form = to_gymnasium(twin)
    form.reset(seed=0)
    for action in (0, 1):
        step = env.step(action)
        assert exact((step.observation, step.reward)) == exact(form.step(action)[:2])
