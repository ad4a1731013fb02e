"""Any chain of wrappers is one function, which does what its layers do one inside the other, whatever happens."""

import copy
import gc
import pickle
import weakref
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pytest
from compiled_models import Slope
from depth import examples
from hypothesis import given
from hypothesis import strategies as st
from small_models import Breakable, Drifting, Sums
from traces import exact

import envoi
from envoi import (
    ActionRepeat,
    Change,
    Contextual,
    EpisodeError,
    FixedLength,
    FunctionReward,
    History,
    Lifted,
    RunStats,
    Terminated,
    TimeLimit,
    Validated,
    explain,
)
from envoi.adapters import to_gymnasium
from envoi.context import Factory
from envoi.steps.flat import SIX_VALUES, flat_step
from envoi.steps.program import Stage

# What is wrapped, and the wrappers.


class Cut(Drifting):
    def truncated(self, state):
        self.may_break("truncated")
        return np.bool_(state[1] % 7 == 6)


class Discounted(Drifting):
    def discount(self, state):
        self.may_break("discount")
        return [None, 1.0, 0.5, 0.0, np.float32(0.25)][state[1] % 5]


class Informed(Drifting):
    def info(self, state):
        self.may_break("info")
        return {"time": state[1]}


class Talkative(Cut, Discounted, Informed):
    """Has all optional functions."""


class OwnStep(Drifting):
    """Its step is called as it is."""

    def step(self, action):
        return super().step(action)._replace(info={"own": True})


class Simple(Breakable, Lifted):
    """Changes each of the values that are named."""

    def __init__(self, env, *names):
        self.names = names
        super().__init__(env)

    def change(self, specs):
        functions = {
            "action": lambda action: 2 - action,
            "observation": lambda observation: 0.5 * observation,
            "reward": lambda reward: reward - 0.25,
            "info": lambda: {"said": self.names},
        }
        return Change(**{name: self.breakable(name, functions[name]) for name in self.names})

    def breakable(self, name, function):
        def breaks(*values):
            self.may_break(name)
            return function(*values)

        return breaks


class SimpleWithLimit(Simple):
    """Also truncates episodes."""

    def change(self, specs):
        return replace(super().change(specs), limit=20)


class Remembering(Simple):
    """Has a memory: the number of steps, the sum of rewards, the latest own action, and the times in infos."""

    def change(self, specs):
        functions = {
            "action": lambda action: 2 - action,
            "observation": lambda observation, memory: observation + memory[1],
            "reward": lambda reward, memory: reward + memory[0],
            "info": lambda memory: {"memory": memory},
            "truncated": lambda flag, memory: np.bool_(flag or memory[0] % 5 == 4),
            "remember": lambda memory, action, observation, reward: (
                memory[0] + 1,
                memory[1] + reward + observation.sum(),
                action,
                memory[3],
            ),
            "note": lambda memory, info: (*memory[:3], info.get("time")),
        }
        chosen = {name: self.breakable(name, functions[name]) for name in self.names}
        return Change(begin=lambda observation: (0, 0.0, None, None), shared=True, **chosen)


class Adaptive(Lifted):
    """Another structure with another reward spec."""

    def change(self, specs):
        if specs.reward.high is None:
            return Change(observation=lambda observation: observation + 1)
        return Change(
            begin=lambda observation: 0,
            remember=lambda memory, action, observation, reward: (memory or 0) + 1,
            action=lambda action: (action + 1) % 3,
            reward=lambda reward, memory: reward / specs.reward.high + memory,
            truncated=lambda flag, memory: flag or memory > 6,
        )


class Stepping(Lifted):
    """Has a step of its own around the one that the change makes."""

    def change(self, specs):
        return Change(reward=lambda reward: reward + 1)

    def step(self, action, restart=None):
        step = super().step(action, restart)
        return step._replace(reward=2 * step.reward)


class Resetting(Simple):
    """Has a reset and an observation of its own."""

    def reset(self, **arguments):
        result = super().reset(**arguments)
        return result._replace(info={**result.info, "mine": True})

    @property
    def observation(self):
        return super().observation


class Patched:
    """Makes a wrapper onto whose instance a step is patched."""

    def __new__(cls, env):
        wrapper = Simple(env, "reward")
        wrapper.step = patched_step.__get__(wrapper)
        return wrapper


def patched_step(self, action, restart=None):
    return type(self).step(self, action)._replace(discount=0.5)


def late(state, action, next_state):
    return state[1] > 4


def moved(state, action, next_state):
    return 3.0 * (next_state[0] - state[0])


def noisy(state, action, next_state, *, rng):
    return moved(state, action, next_state) + float(rng.normal())


def remade(drift=0.0):
    env = Drifting()
    env.context = {"drift": drift}
    return env


CONTEXTS = [{"drift": -0.5}, {"drift": 0.5}]
WRAPPERS = {
    "action": lambda env: Simple(env, "action"),
    "observation": lambda env: Simple(env, "observation"),
    "reward": lambda env: Simple(env, "reward"),
    "all": lambda env: Simple(env, "action", "observation", "reward", "info"),
    "nothing": lambda env: Simple(env),
    "memory": lambda env: Remembering(env, "remember", "reward"),
    "noting": lambda env: Remembering(env, "note", "info"),
    "memory alone": lambda env: Remembering(env, "info"),
    "all with a memory": lambda env: Remembering(
        env, "action", "observation", "reward", "info", "truncated", "remember", "note"
    ),
    "adaptive": Adaptive,
    "a step of its own": Stepping,
    "a reset of its own": lambda env: Resetting(env, "observation"),
    "a patched step": Patched,
    "limit": lambda env: TimeLimit(env, 6),
    "history": lambda env: History(env, 2, tile_first_step_obs=True),
    "validated": Validated,
    "stats": RunStats,
    "repeated": lambda env: ActionRepeat(env, 2),
    "fixed": lambda env: FixedLength(env, 6),
    "terminated": lambda env: Terminated(env, late),
    "contextual": lambda env: Contextual(env, CONTEXTS, hide_context=True, max_episode_length=8),
}
UNPICKLED = {"a patched step"}  # pickling a patched method is the patcher's business
MODELS = {kind.__name__: kind for kind in (Drifting, Cut, Discounted, Informed, Talkative, OwnStep)}
REWARDERS = {"moved": moved, "noisy": noisy, "bounded": FunctionReward(moved, -30, 30), "native": None}


class Apart(envoi.Wrapper):
    """Changes nothing, and has a step of its own: the step inside and the one outside are not one function."""

    def step(self, action):
        return super().step(action)


def chain(model, names, apart=False):
    """Returns a model in wrappers; if `apart`, each calls the step of the environment inside."""
    around = Apart if apart else lambda env: env
    env = around(MODELS[model]())
    for name in names:
        env = around(WRAPPERS[name](env))
    return env


def layers(env):
    found = [env]
    while hasattr(found[-1], "env"):
        found.append(found[-1].env)
    return [layer for layer in found if type(layer) is not Apart]


def looks(env):
    try:
        seen = [exact(layer.observation) for layer in layers(env)]
    except (EpisodeError, ZeroDivisionError) as error:
        seen = str(error)
    streams = [repr(stream.bit_generator.state) for stream in (env.rng, env.unwrapped.streams.observation)]
    return seen, exact(getattr(env.unwrapped, "state", None)) if isinstance(seen, list) else None, streams


INDEX = st.integers(0, 6)
STEPS = st.tuples(st.just("step"), st.integers(0, 2), INDEX)
EVENTS = st.lists(
    st.one_of(
        STEPS,
        STEPS,
        STEPS,
        st.tuples(st.just("hold"), st.none(), INDEX),
        st.tuples(st.just("reset"), st.sampled_from([None, 0, 7]), INDEX),
        st.tuples(st.just("rewarder"), st.sampled_from(sorted(REWARDERS)), INDEX),
        st.tuples(
            st.just("broken"),
            st.sampled_from([None, "initial", "transition", "observe", "reward", "terminal", "truncated", "info"]),
            INDEX,
        ),
        st.tuples(st.just("snapshot"), st.booleans(), INDEX),
        st.tuples(st.just("copy"), st.sampled_from([copy.copy, copy.deepcopy, "pickle"]), INDEX),
    ),
    min_size=8,
    max_size=40,
)


def happen(env, events, picklable):
    """Returns the results of events, errors included, and what is seen after each; indices are of forms that step."""
    native, token, said = env.rewarder, None, []
    held = [to_gymnasium(env)]
    for kind, value, index in events:
        some = layers(env)
        layer = some[index % len(some)]
        try:
            if kind == "step":
                said.append(exact(tuple((held[index % len(held)] if index else env).step(value))))
            elif kind == "hold":
                held.append(to_gymnasium(env))
            elif kind == "reset":
                said.append(exact(tuple(env.reset(seed=value))))
            elif kind == "rewarder":
                layer.rewarder = native if value == "native" else REWARDERS[value]
            elif kind == "broken":
                env.unwrapped.broken = value
            elif kind == "copy":
                if value != "pickle":
                    env = value(env) if picklable else env
                elif picklable:
                    env = pickle.loads(pickle.dumps(env))
                held, native = [to_gymnasium(env)], native if env.rewarder != native else env.rewarder
            elif token is None or value:
                token = env.snapshot()
            else:
                env.restore(token)
        except (EpisodeError, ZeroDivisionError, envoi.SpecError) as error:
            said.append((type(error), str(error)))
        said.append(looks(env))
    return said


@examples(1000)
@given(
    model=st.sampled_from(sorted(MODELS)),
    names=st.lists(st.sampled_from(sorted(WRAPPERS)), max_size=6),
    rewarder=st.sampled_from([None, *REWARDERS]),
    events=EVENTS,
)
def test_a_chain_steps_as_its_layers_do(model, names, rewarder, events):
    picklable = not UNPICKLED.intersection(names)
    events = [("reset", 3, 0), ("step", 1, 1), *events]
    events += [("broken", None, 0)] + [("step", 1, 1)] * 9  # by then, any memory is visible
    if rewarder is not None:
        events.insert(0, ("rewarder", rewarder, 0))
    played = []
    for apart in (False, True):
        env = chain(model, names, apart)
        env.unwrapped.rng = np.random.default_rng(5)
        played.append(happen(env, events, picklable))
    assert played[0] == played[1]


ATOMIC = ("all", "memory", "noting", "all with a memory", "limit", "history", "contextual", "repeated", "fixed")


@examples(300)
@given(
    model=st.sampled_from(sorted(MODELS.keys() - {"OwnStep"})),
    names=st.lists(st.sampled_from(ATOMIC), min_size=1, max_size=4),
    steps=st.integers(0, 6),
    function=st.sampled_from(
        ["transition", "action", "observation", "reward", "info", "remember", "note", "truncated"]
    ),
    index=INDEX,
)
def test_a_layer_that_fails_leaves_every_layer(model, names, steps, function, index):
    env = chain(model, names)
    env.reset(seed=3)
    for _ in range(steps):
        step = env.step(1)
        if step.terminated or step.truncated:
            env.reset()
    before, some = looks(env)[:2], layers(env)
    some[index % len(some)].broken = function
    try:
        env.step(1)
    except ZeroDivisionError:
        some[index % len(some)].broken = None
        assert looks(env)[:2] == before
    some[index % len(some)].broken = None
    env.reset(seed=3)


POLES = [{"length": length} for length in (0.3, 0.5, 0.8, 1.3)]
AROUND = {
    "alone": lambda env: env,
    "repeated": lambda env: ActionRepeat(env, 3),
    "fixed": lambda env: FixedLength(env, 20),
    "validated": Validated,
    "terminated": lambda env: Terminated(env, lambda state, action, next_state: False),
}
INSIDE = {
    "one": envoi.models.CartPole,
    "compiled": lambda: envoi.compiled(envoi.models.CartPole()),
    "loop": lambda: envoi.batch(envoi.models.CartPole(), 3, compiled=False),
    "kernel": lambda: envoi.batch(envoi.models.CartPole(), 3, compiled=True),
    "turns": envoi.models.Nim,
    "as_multi": lambda: envoi.as_multi(envoi.models.CartPole()),
    "contexts": lambda: Contextual(envoi.models.CartPole(), POLES),
    "contexts of lanes": lambda: Contextual(envoi.batch(envoi.models.CartPole(), 3), POLES),
}


@pytest.mark.parametrize("kind", [Simple, SimpleWithLimit])
@pytest.mark.parametrize("wrap", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("make", INSIDE.values(), ids=INSIDE)
def test_a_wrapper_that_fails_leaves_what_is_inside(make, wrap, kind):
    def look():
        agents = env.possible_agents if several else [None]
        return exact((env.state, [env.observation(a) if several else env.observation for a in agents]))

    def act():
        env.step(env.sample_actions() if several else env.sample_action())

    env = kind(wrap(make()), "observation")
    several = isinstance(env, envoi.MultiEnv)
    env.reset(seed=3)
    before = look()
    for call in (act, env.reset, lambda: env.reset(seed=5)):
        env.broken = "observation"
        with pytest.raises(ZeroDivisionError):
            call()
        env.broken = None
        assert look() == before


LANES_FUNCTIONS = ("observation", "reward", "remember", "truncated", "terminal")


class SumsBreak(Breakable, Sums):
    """Adds actions up; a function can fail."""

    def terminal(self, state):
        self.may_break("terminal")
        return state > 3


SLOPES = [{"slope": 0.25}, {"slope": 0.5}, {"slope": 1.0}]
BATCHES = {
    "numpy": lambda: envoi.batch(SumsBreak(), 3),
    "loop": lambda: envoi.batch(Slope(), 3, compiled=False),
    "kernel": lambda: envoi.batch(Slope(), 3, compiled=True),
    "loop with contexts": lambda: Contextual(envoi.batch(Slope(), 3, compiled=False), SLOPES),
    "kernel with contexts": lambda: Contextual(envoi.batch(Slope(), 3, compiled=True), SLOPES),
}


@pytest.mark.parametrize("batch", BATCHES)
@examples(100)
@given(
    names=st.lists(st.sampled_from(["all", "memory", "all with a memory", "limit"]), min_size=1, max_size=3),
    lanes=st.lists(st.tuples(*[st.sampled_from(["acts", "begins", "pauses"])] * 3), min_size=8, max_size=8),
    failing=st.lists(st.tuples(st.sampled_from([None, *LANES_FUNCTIONS]), INDEX), min_size=8, max_size=8),
)
def test_a_failing_layer_leaves_all_lanes(batch, names, lanes, failing):
    env, twin = chain_of_lanes(batch, names), chain_of_lanes(batch, names)
    env.reset(seed=3)
    twin.reset(seed=3)
    over = np.zeros(3, bool)
    for kinds, (function, index) in zip(lanes, failing, strict=True):
        hold = np.array([kind == "pauses" for kind in kinds])
        restart = np.array([kind == "begins" for kind in kinds]) | over & ~hold
        layer = layers(env)[index % len(layers(env))]
        broken = getattr(layer, "model", layer)
        broken.broken = function
        with suppress(ZeroDivisionError):
            env.step(np.ones(3, np.int64), restart, hold)
            step = twin.step(np.ones(3, np.int64), restart, hold)  # which was not refused
            over = step.terminated | step.truncated | over & hold
        broken.broken = None
        assert [exact(one.observation) for one in layers(env)] == [exact(one.observation) for one in layers(twin)]
        restart = over & ~hold
        step, other = (one.step(np.zeros(3, np.int64), restart, hold) for one in (env, twin))
        assert exact(tuple(step)) == exact(tuple(other))
        over = step.terminated | step.truncated | over & hold


def chain_of_lanes(batch, names):
    env = BATCHES[batch]()
    for name in names:
        env = LANES_WRAPPERS[name](env)
    return env


LANES_WRAPPERS = {
    "all": lambda env: Simple(env, "observation", "reward"),
    "memory": lambda env: Counting(env, "remember", "reward"),
    "all with a memory": lambda env: Counting(env, "observation", "reward", "truncated", "remember"),
    "limit": lambda env: TimeLimit(env, 3),
}


class Counting(Simple):
    """Has a memory of the number of steps of each lane."""

    def change(self, specs):
        functions = {
            "observation": lambda observation, memory: observation + memory.reshape(-1, *[1] * (observation.ndim - 1)),
            "reward": lambda reward, memory: reward + memory,
            "truncated": lambda flags, memory: flags | (memory > 4),
            "remember": lambda memory, action, observation, reward: memory + 1,
        }
        chosen = {name: self.breakable(name, functions[name]) for name in self.names}
        return Change(begin=lambda observation: np.zeros(specs.lanes), **chosen)


class Again(Drifting):
    """Begins the next episode by itself."""

    over = False

    def step(self, action):
        if self.over:
            self.reset()
        step = super().step(action)
        self.over = step.terminated or step.truncated
        return step


@pytest.mark.parametrize("around", [to_gymnasium, lambda env: TimeLimit(env, 99), lambda env: Simple(env, "reward")])
def test_a_models_own_step_decides_what_ends(around):
    env = around(Again())
    env.reset(seed=0)
    ends = [env.step(1)[2] for _ in range(60)]
    assert 1 < sum(ends) < 60


@pytest.mark.parametrize("compiled", [False, True])
def test_contexts_of_lanes_hold_through_repeated_actions(compiled):
    env = Contextual(ActionRepeat(envoi.batch(Slope(), 3, compiled=compiled), 2), SLOPES, dict_observation_space=True)
    env.reset(seed=0)
    for restart in ([False, True, False], [True, False, True], None, [True, True, True]):
        step = env.step(np.zeros(3, np.int64), restart and np.array(restart))
        slopes = [state.slope for state in env.unwrapped.state]
        assert [context["slope"] for context in env.context] == step.observation["context"].ravel().tolist() == slopes
        assert env.unwrapped.context["slope"] == slopes


@pytest.mark.parametrize("compiled", [False, True])
def test_a_context_set_on_a_lanes_model_is_the_lanes(compiled):
    batch = envoi.batch(Slope(), 3, compiled=compiled)
    batch.reset(seed=0)
    batch.step(np.zeros(3, np.int64))
    for index, slope in ((0, 0.25), (2, 1.0)):
        batch.envs[index].unwrapped.context = {"slope": slope}
    assert batch.context == copy.deepcopy(batch).context == {"slope": [0.25, 0.5, 1.0]}
    batch.step(np.zeros(3, np.int64), np.array([True, False, True]))
    assert [state.slope for state in batch.state] == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("hidden", [False, True])
def test_contexts_return_when_any_batch_inside_refuses(hidden):
    env = Contextual(ActionRepeat(envoi.batch(Slope(), 3), 2), SLOPES, dict_observation_space=True, hide_context=hidden)
    env.reset(seed=0)
    before = env.context_id, env.peek()
    with pytest.raises(envoi.SpecError):
        env.step(np.zeros(2, np.int64), np.array([True, False, False]))
    assert (env.context_id, env.peek()) == before


def test_an_episode_ends_though_its_watcher_fails():
    class Watched(Simple):
        def change(self, specs):
            return Change(watch=self.breakable("watch", lambda *values: None))

    env = Watched(Cut())
    env.reset(seed=0)
    env.broken = "watch"
    for _ in range(6):
        with pytest.raises(ZeroDivisionError):
            env.step(1)
    with pytest.raises(EpisodeError):
        env.step(1)


@pytest.mark.parametrize("n", [0, 1, 3, 6])
def test_a_chain_of_wrappers_is_one_function(n):
    text = explain(chain("Drifting", ["all", "memory", "limit", "history", "reward", "noting"][:n]))
    assert "called as it is" not in text
    assert text.count("def ") == 2


@pytest.mark.parametrize("name", ["a step of its own", "a patched step", "validated", "fixed"])
def test_a_wrapper_with_its_own_step_is_called(name):
    assert "called as it is" in explain(chain("Drifting", [name]))
    assert "called as it is" in explain(chain("Drifting", [name, "reward"]))


def test_what_a_change_does_not_define_costs_nothing():
    def lines(name):
        return explain(chain("Drifting", [name])).count("\n")

    assert lines("nothing") == lines("reward") - 2  # which has a comment and a line


@pytest.mark.parametrize(("model", "varies"), [("Drifting", False), ("Discounted", True)])
def test_forms_look_only_at_values_that_vary(model, varies):
    assert ("'discount'" in explain(to_gymnasium(chain(model, ["reward", "memory"])))) == varies


def test_held_steps_do_not_grow_with_rewarders():
    env = Adaptive(Drifting())
    held = to_gymnasium(env).step
    for _ in range(2000):  # each would be a call inside the other
        env.reset()
        env.rewarder = moved
        held(1)


def test_another_environment_inside_is_stepped_from_then_on():
    env = Simple(Contextual(Drifting(), CONTEXTS, bind=Factory(remade), hide_context=True), "reward")
    held = to_gymnasium(env).step
    seen = []
    for _ in range(4):
        env.reset()
        held(1)
        seen.append((env.unwrapped, env.state[2], env.state[1]))
    assert len({id(model) for model, *_ in seen}) == 4
    assert [rest for _, *rest in seen] == [[-0.5, 1], [0.5, 1]] * 2


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_nothing_keeps_wrappers_alive(steps):
    env = chain("Drifting", ["adaptive"] * 3)  # whose functions do not hold it
    env.reset()
    held = to_gymnasium(env).step
    for _ in range(steps):
        env.rewarder = REWARDERS["bounded"]
        env.step(1)
        held(1)
    alive = [weakref.ref(layer) for layer in layers(env)]
    gc.disable()
    try:
        del env, held
        assert [one() for one in alive] == [None] * 4
    finally:
        gc.enable()


def test_many_wrappers_work_and_more_are_refused():
    env = envoi.models.make("cartpole")
    for _ in range(95):
        env = envoi.TimeLimit(env, 10)
    env.reset(seed=0)
    env.restore(env.snapshot())
    assert copy.deepcopy(env).step(1)[1] == env.step(1)[1] == 1.0
    wrap_many = partial(reduce, lambda inner, _: envoi.TimeLimit(inner, 10), range(500))
    with pytest.raises(envoi.SpecError, match="at most 100 wrappers around each other, got 101; combine some"):
        wrap_many(env)


def test_a_register_that_nothing_reads_is_an_error():
    program = Drifting().step_program()
    program = replace(program, stages=(*program.stages, Stage("a wrapper", "rewrad = reward / 2")))
    with pytest.raises(envoi.SpecError, match="nothing reads 'rewrad', which it sets; did you mean 'reward'"):
        flat_step(lambda: program, lambda _: SIX_VALUES)
