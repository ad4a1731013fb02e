"""An assembled step is the plain one: same values, same errors, same state; and its source can be read."""

import copy
import linecache
import pickle
import traceback

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Flock, Walk
from traces import exact

import envoi
from envoi import EpisodeError, FunctionReward, Lifted, Model, TimeLimit
from envoi.protocol.batch_env import full_lanes_step
from envoi.protocol.fast_steps import (
    SIX_VALUES,
    Part,
    assemble,
    explain,
    fast_multi_step,
    fast_step,
    parts_of,
    parts_or_call,
)
from envoi.protocol.multi_env import full_multi_step

OPTIONAL = {
    "truncated": lambda self, state: np.bool_(state[1] % 7 == 6),
    "discount": lambda self, state: [None, 1.0, 0.5, 0.0, np.float32(0.25)][state[1] % 5],
    "info": lambda self, state: {"time": state[1]},
}
"""Optional functions, each of which says something else at some steps."""


class Drifting(Model):
    """Takes random numbers in every function that may, and does as little as a model can."""

    observation_spec = envoi.Array((2,), "float64")
    action_spec = envoi.Discrete(3)
    broken: str | None = None

    def _may_break(self, name):
        if self.broken == name:
            raise ZeroDivisionError(name)

    def initial(self, rng, context):
        return (float(rng.normal()), 0)

    def transition(self, state, action, rng):
        self._may_break("transition")
        return (state[0] + float(rng.normal()) + action - 1, state[1] + 1)

    def observe(self, state, rng):
        self._may_break("observe")
        return np.array([state[0] + rng.normal(), state[1]])

    def reward(self, state, action, next_state):
        self._may_break("reward")
        return next_state[0] - state[0] + action

    def terminal(self, state):
        self._may_break("terminal")
        return int(abs(state[0]) > 6)  # true or false, but no bool


def breakable(name):
    def function(self, state):
        self._may_break(name)
        return OPTIONAL[name](self, state)

    return function


def drifting(names, where="class"):
    """A model that has some of the optional functions, written in its class, inherited, or patched onto it."""
    functions = {name: breakable(name) for name in names}
    kind = Drifting if where == "instance" else type("Drifting", (Drifting,), functions)
    model = type("Child", (kind,), {})() if where == "parent" else kind()
    if where == "instance":
        for name, function in functions.items():
            setattr(model, name, function.__get__(model))
    return model


def plain(model):
    """The same six values by the model's own `step`, whose discount is always there."""
    return lambda action: tuple(model.step(action))


def filled(values):
    observation, reward, terminated, truncated, discount, info = values
    discount = discount if discount is not None else 0.0 if terminated else 1.0
    return (observation, reward, terminated, truncated, discount, info)


def state_of(model):
    held = (model._state, model._observation, model._episode_state)
    return exact(held), [repr(stream.bit_generator.state) for stream in (model.rng, model.streams.observation)]


def tripled(state, action, next_state):
    return 3.0 * (next_state[0] - state[0])


def noisy(state, action, next_state, *, rng):
    return tripled(state, action, next_state) + float(rng.normal())


NAMES = st.sets(st.sampled_from(sorted(OPTIONAL)))
WHERE = st.sampled_from(["class", "parent", "instance"])
REWARDERS = st.sampled_from([None, tripled, noisy])
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(0, 2)),
        st.tuples(st.just("step"), st.integers(0, 2)),
        st.tuples(st.just("reset"), st.sampled_from([None, 0, 1, 7])),
        st.tuples(st.just("rng"), st.integers(0, 5)),
        st.tuples(st.just("rewarder"), st.sampled_from([tripled, noisy, None])),
        st.tuples(st.just("state"), st.sampled_from([(0.0, 0), (9.0, 3), (1.0, 5)])),
        st.tuples(
            st.just("broken"),
            st.sampled_from([None, "transition", "observe", "terminal", "truncated", "reward", "discount", "info"]),
        ),
        st.tuples(st.just("snapshot"), st.booleans()),
    ),
    max_size=30,
)


def happen(model, step, events):
    """Returns the results of events, errors included, and the model's state after each."""
    native, token, said = model.rewarder, None, []
    for kind, value in events:
        try:
            if kind == "step":
                said.append(exact(filled(step(value))))
            elif kind == "reset":
                said.append(exact(model.reset(seed=value)))
            elif kind == "rng":
                model.rng = np.random.default_rng(value)
            elif kind == "rewarder":
                model.rewarder = native if value is None else value
            elif kind == "broken":
                model.broken = value
            elif kind == "state":
                model.state = value
            elif token is None or value:
                token = model.snapshot()
            else:
                model.restore(token)
        except (EpisodeError, ZeroDivisionError) as error:
            said.append((type(error), str(error)))
        said.append(state_of(model))
    return said


@given(
    names=NAMES, where=WHERE, rewarder=st.sampled_from([None, tripled, noisy]), seed=st.integers(0, 9), events=EVENTS
)
def test_an_assembled_step_of_a_model_is_its_plain_step_whatever_happens_to_it(names, where, rewarder, seed, events):
    models = [drifting(names, where) for _ in range(2)]
    for model in models:
        model.rng = np.random.default_rng(seed)
        if rewarder is not None:
            model.rewarder = rewarder
    fast = fast_step(models[0])
    assert fast.__code__.co_filename.startswith("<envoi step")
    events = [("step", 1), ("reset", seed), *events]
    assert happen(models[0], fast, events) == happen(models[1], plain(models[1]), events)


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_functions_that_the_author_did_not_write_are_left_out(name):
    assert f"model.{name}(" not in explain(drifting(()))
    for where in ("class", "parent", "instance"):
        assert f"model.{name}(" in explain(drifting((name,), where))


def test_constant_values_are_declared():
    (part,) = parts_of(drifting({"discount"}))
    assert part.constants == {"truncated": False, "info": {}}


def test_the_info_of_a_step_is_fresh():
    model = drifting(())
    step = fast_step(model)
    model.reset()
    step(1)[-1]["mine"] = 1
    assert step(1)[-1] == {}


# Which steps are assembled.


class OwnStep(Drifting):
    def step(self, action):
        return super().step(action)._replace(reward=7.0)


class ChildOfOwnStep(OwnStep):
    """The class above it decides."""


class OwnRawStep(Drifting):
    def step_values(self, action):
        return (*self.step(action)[:5], {"raw": True})


class OwnParts(OwnStep):
    """Below a step of its own it declares parts again, which hold."""

    def step_parts(self):
        reward = Part("seven", outward="reward = 7.0")
        return (*super().step_parts(), reward)


@pytest.mark.parametrize("kind", [OwnStep, ChildOfOwnStep])
def test_a_subclass_with_a_step_of_its_own_is_called(kind):
    env = kind()
    assert parts_of(env) == ()
    env.reset()
    assert fast_step(env)(1)[1] == 7.0
    assert "inner_step(action)" in explain(env)


def test_a_step_of_six_values_beside_step_is_called():
    env = OwnRawStep()
    env.reset()
    assert fast_step(env)(1)[-1] == {"raw": True}


def test_parts_declared_below_a_step_of_its_own_hold():
    env = OwnParts()
    env.reset(seed=0)
    twin = OwnStep()
    twin.reset(seed=0)
    assert len(parts_of(env)) == 2
    assert exact(filled(fast_step(env)(1))) == exact(tuple(twin.step(1)))


def test_a_step_that_is_patched_onto_an_instance_is_called():
    env = Drifting()
    env.step = lambda action: Drifting.step(env, action)._replace(reward=8.0)
    env.reset()
    assert parts_of(env) == ()
    assert fast_step(env)(1)[1] == 8.0


def test_a_step_that_is_patched_onto_an_instance_later_is_called_by_steps_that_are_made_from_then_on():
    env = Drifting()
    before = fast_step(env)
    env.step = lambda action: Drifting.step(env, action)._replace(reward=8.0)
    env.reset()
    assert before(1)[1] != 8.0
    assert fast_step(env)(1)[1] == 8.0


def test_functions_patched_onto_an_instance_are_called_also_later_if_they_are_required():
    env = Drifting()
    env.terminal = lambda state: True
    step = fast_step(env)
    env.reward = lambda state, action, next_state: 9.0
    env.reset()
    assert step(1)[1:3] == (9.0, True)


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize("where", ["class", "instance"])
@pytest.mark.parametrize("layers", [0, 2])
def test_optional_functions_that_are_patched_later_are_called_from_the_next_reset_on(name, where, layers, monkeypatch):
    class Patched(Drifting):
        """A class that the test may change."""

    said = {"truncated": True, "discount": 0.25, "info": {"patched": True}}[name]
    model = Patched()
    env = Scaled(Scaled(model)) if layers else model
    step = fast_step(env)
    env.reset()
    place = {"truncated": 3, "discount": 4, "info": 5}[name]
    before = filled(step(1))
    monkeypatch.setattr(Patched if where == "class" else model, name, lambda *arguments: said)
    env.reset()
    assert filled(step(1))[place] == said != before[place]
    assert f"model.{name}(" in explain(env)
    monkeypatch.undo()
    env.reset()
    assert filled(step(1))[place] == before[place]


def test_an_optional_function_that_is_patched_in_a_copy_leaves_the_original():
    model = Drifting()
    step = fast_step(model)
    model.reset()
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        copied.truncated = lambda state: True
        copied.reset()
        assert fast_step(copied)(1)[3] is True
        model.reset()
        assert step(1)[3] is False


def test_models_are_equally_rewarded_whether_or_not_their_steps_were_assembled():
    one, other = Drifting(), Drifting()
    fast_step(one)
    assert one.rewarder == other.rewarder


def test_a_batch_and_a_wrapper_step_as_they_do():
    env, batch = TimeLimit(Walk(), 3), envoi.batch(Walk, 2)
    for one, action in ((env, 1), (batch, np.array([0, 1]))):
        one.reset(seed=0)
        twin, values = copy.deepcopy(one), fast_step(one)(action)
        values = filled(values) if one is env else full_lanes_step(values, one.discount_spec, 2)
        assert exact(tuple(values)) == exact(tuple(twin.step(action)))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_an_environment_whose_step_is_assembled_is_independent(how):
    env = TimeLimit(Walk(), 30)  # which holds the assembled step of what it wraps
    env.reset(seed=3)
    env.step(1)
    copied = how(env)
    assert [exact(copied.step(0)) for _ in range(2)] == [exact(env.step(0)) for _ in range(2)]
    at = env.state.time
    copied.step(0)
    assert env.state.time == at


# Several agents: the same rule.


class Pair(envoi.MultiModel):
    """Two agents, of which one ends before the other."""

    possible_agents = ("a", "b")
    observation_spec = dict.fromkeys(possible_agents, envoi.Discrete(9))
    action_spec = dict.fromkeys(possible_agents, envoi.Discrete(2))

    def initial(self, rng, context):
        return 0

    def transition(self, state, actions, rng):
        return state + 1

    def observe(self, state, agent, rng):
        return state

    def reward(self, state, actions, next_state):
        return {agent: float(action) for agent, action in actions.items()}

    def terminal(self, state):
        return {"a": state == 2, "b": state == 4}


class OwnMultiStep(Pair):
    """Counts what its step returns."""

    def step(self, actions):
        return super().step(actions)._replace(infos={"__common__": {"own": True}})


class OwnMultiValues(OwnMultiStep):
    """Below a step of its own it declares a faster one, which holds."""

    def step_values(self, actions):
        return (*super().step_values(actions)[:5], {"__common__": {"values": True}})


def test_a_fast_step_of_several_agents_is_the_plain_one_without_what_a_quiet_step_repeats():
    one, other = Pair(), Pair()
    step = fast_multi_step(one)
    assert step == one.step_values
    one.reset(seed=0)
    other.reset(seed=0)
    while one.agents:
        actions = dict.fromkeys(one.acting, 1)
        assert exact(full_multi_step(step(actions))) == exact(other.step(actions))


@pytest.mark.parametrize(("make", "said"), [(OwnMultiStep, "own"), (OwnMultiValues, "values")])
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_lowest_class_with_a_step_of_several_agents_decides(make, said, wrapped):
    env = TimeLimit(make(), 100) if wrapped else make()
    step = fast_multi_step(env)
    env.reset(seed=0)
    assert step(dict.fromkeys(env.acting, 1))[-1]["__common__"] == {said: True}


@pytest.mark.parametrize("when", ["on the instance", "in the class"])
def test_a_step_of_several_agents_that_was_patched_is_called(when, monkeypatch):
    env = Pair()
    if when == "in the class":
        monkeypatch.setattr(Pair, "step", lambda self, actions: ("patched", actions))
    else:
        env.step = lambda actions: ("patched", actions)
    given = {"a": 1, "b": 0}
    said, came = fast_multi_step(env)(given)
    assert (said, came) == ("patched", given)
    assert came is not given  # for who overrides `step` may change it


# Text.


def test_the_same_composition_has_the_same_text_and_the_same_code():
    one, other = fast_step(drifting({"info"})), fast_step(drifting({"info"}, "instance"))
    assert one is not other
    assert one.__code__ is other.__code__
    assert fast_step(drifting({"discount"})).__code__ is not one.__code__
    assert explain(drifting({"info"})) == explain(drifting({"info"}, "parent"))


def test_a_traceback_shows_the_line_of_the_assembled_step():
    model = drifting(())
    step = fast_step(model)
    model.reset()
    model.broken = "transition"
    linecache.checkcache()
    with pytest.raises(ZeroDivisionError) as caught:
        step(1)
    lines = traceback.extract_tb(caught.value.__traceback__)
    assembled = next(line for line in lines if line.filename.startswith("<envoi step"))
    assert assembled.line == "state = model.transition(before, action, streams.dynamics)"
    assert explain(model).splitlines()[assembled.lineno - 1].strip() == assembled.line


def test_the_source_of_an_assembled_step_is_explained_with_a_comment_for_each_layer():
    text = explain(drifting(()))
    assert text.splitlines()[:6] == [
        "def make(again, model, RUNNING, OVER):",
        "    def step(action):",
        "        # a layer's functions were replaced, such as its rewarder: assemble again",
        "        if again.is_due:",
        "            return again(action)",
        "        # Model: the functions that its author wrote",
    ]
    assert text.splitlines()[-4:] == [
        "        # a tuple of six values",
        "        return observation, reward, terminated, truncated, discount, info",
        "",
        "    return step",
    ]
    assert "Drifting" not in text  # no text of a user


def test_layers_are_named_by_their_classes_if_these_are_of_the_library():
    class Own(TimeLimit):
        """A user's class, whose text must not be in the source."""

    text = explain(Own(TimeLimit(envoi.ActionRepeat(drifting(()), 2), 9), 9))
    titles = [line.strip() for line in text.splitlines() if line.strip().startswith("# ")][1:]
    limits = ["# a wrapper: changes truncated", "# TimeLimit: changes truncated"]
    assert titles == [*limits, "# ActionRepeat: called as it is", *limits[::-1], "# a tuple of six values"]


@pytest.mark.parametrize(
    ("env", "title"),
    [
        (lambda: envoi.batch(Walk, 2), "CompiledLanes: a step of many lanes is called as it is"),
        (lambda: envoi.models.make("pursuit"), "Pursuit: a step of several agents is called as it is"),
        (Pair, "MultiModel: a step of several agents is called as it is"),
    ],
)
def test_plain_steps_say_what_they_are_of(env, title):
    assert f"# {title}\n" in explain(env())


def test_a_step_that_is_not_assembled_is_explained_as_a_call():
    for env in (OwnStep(), Flock(), envoi.batch(Walk, 2), envoi.models.make("pursuit")):
        assert "called as it is" in explain(env)


@pytest.mark.parametrize("thing", [None, 3, "CartPole-v1", Drifting.observation_spec])
def test_only_environments_are_explained(thing):
    with pytest.raises(envoi.SpecError, match="expected an environment"):
        explain(thing)


# Parts.


class Scaled(Lifted):
    """A wrapper of the same composition as itself."""

    def change(self, specs):
        return envoi.Change(reward=lambda reward: 0.5 * reward)


def layer(title, number):
    inward = "$kept = action\naction = action + $number"
    return Part(title, inward, "reward = reward + $number * $kept", names={"number": number, "unused": None})


def test_layers_nest_and_their_names_do_not_meet():
    called = []
    inside = Part("inside", outward="$called.append(action)\nreward = action", names={"called": called})
    last = Part("result", outward="return reward")
    step = assemble([inside, layer("one", 10), layer("two", 100), layer("three", 1000), last])
    assert step(1) == 1111 + 10 * 1101 + 100 * 1001 + 1000 * 1
    assert called == [1111]


def test_a_layer_can_be_called_what_another_layers_name_becomes():
    names = [Part("", outward="observation = $value", names={"value": 1})]
    names += [Part("", outward="reward = $value", names={"value": 2})]
    names += [Part("", outward="return observation, reward, $value", names={"value": 3})]
    assert assemble(names)(None) == (1, 2, 3)


def test_a_layers_names_may_be_those_of_the_values_and_of_the_function():
    part = Part(
        "", "$action = 1\n$step = 2", "return action, $action, $step, $make, $reward", names={"make": 3, "reward": 4}
    )
    assert assemble([part])(0) == (0, 1, 2, 3, 4)


QUIETABLE = Part(
    "inside",
    outward="observation, reward = action, 1.0\ninfo = {}",
    unless="action > 2",
    rarely="terminated, truncated, discount = True, False, 0.5",
    otherwise="terminated, truncated, discount = False, False, None",
)


@pytest.mark.parametrize("between", [[], [Part("between", outward="reward = reward + 1")]])
@pytest.mark.parametrize("quiet", ["", "return 'quiet', observation, reward"])
def test_quiet_steps_are_shorter_if_the_only_other_layer_has_lines_for_them(between, quiet):
    form = Part("form", outward="return observation, reward, terminated, truncated, discount", quiet=quiet)
    step, reward = assemble([QUIETABLE, *between, form]), 1.0 + len(between)
    assert step(3) == (3, reward, True, False, 0.5)
    assert step(2) == (("quiet", 2, 1.0) if quiet and not between else (2, reward, False, False, None))


def test_an_unbound_function_holds_no_environment():
    model = drifting(())
    model.reset(seed=0)
    twin = drifting(())
    twin.reset(seed=0)
    step = assemble([*parts_or_call(model), SIX_VALUES], unbound=model)
    assert exact(step(model, 1)) == exact(fast_step(twin)(1))
    assert all(cell.cell_contents is not model for cell in step.__closure__)


class ItsOwnFunction(Lifted):
    """Is itself the function of its change."""

    def change(self, specs):
        return envoi.Change(action=self, begin=lambda observation: 0, remember=lambda memory, *values: memory + 1)

    def __call__(self, action):
        return 2 - action


def test_a_wrapper_may_be_the_function_of_its_own_change():
    env = ItsOwnFunction(drifting(()))
    env.reset(seed=0)
    twin = ItsOwnFunction(drifting(()))
    twin.reset(seed=0)
    step = fast_step(twin)
    assert [exact(tuple(env.step(a))) for a in (0, 1)] == [exact(filled(step(a))) for a in (0, 1)]


def test_a_rewarder_may_be_set_before_or_after():
    for when in ("before", "after"):
        model = drifting(())
        if when == "before":
            model.rewarder = FunctionReward(tripled)
        step = fast_step(model)
        if when == "after":
            model.rewarder = FunctionReward(tripled)
        model.reset(seed=0)
        before = model.state
        assert step(2)[1] == tripled(before, 2, model.state)
