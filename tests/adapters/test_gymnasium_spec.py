"""A form's `spec`: gymnasium reads it, and makes of it an environment that plays the same episodes."""

import copy
import pickle
import zlib

import gymnasium
import numpy as np
import pytest
from depth import examples
from gymnasium.envs.registration import EnvSpec, parse_env_id
from gymnasium.wrappers import MaxAndSkipObservation, TimeAwareObservation
from hypothesis import given
from hypothesis import strategies as st
from small_models import Flock, Leaving, Walk
from traces import exact

import envoi
from envoi.adapters import from_env, load, to_gymnasium, to_gymnasium_vector


def far(state, action, next_state):
    """A termination that can be imported, of any state."""
    return zlib.crc32(repr(next_state).encode()) % 6 == 0


def flat(env):
    return envoi.FlattenObservation(env, dtype="promote")


def make_walk(limit=7, drift=0.25):
    """A factory, whose environments come with a rewarder and a context of their own."""
    env = envoi.TimeLimit(Walk(), limit)
    env.rewarder = 2.0 * env.rewarder
    env.context = {"drift": drift}
    return env


def make_walk_of(*, model):
    return model()


class Tagged(envoi.Lifted):
    """A wrapper of a user's own, whose arguments have places only."""

    def __init__(self, env, /, *words):
        self.words = words
        super().__init__(env)

    def change(self, specs):
        return envoi.Change(info=lambda: {"words": self.words})


class Alone(Leaving):
    """A walk along a line by one of possibly several agents."""

    possible_agents = ("ann",)
    observation_spec = {"ann": envoi.Array((), "float64", name="seen")}
    action_spec = {"ann": envoi.Discrete(2)}

    def initial(self, rng, context):
        return float(rng.normal())

    def transition(self, state, actions, rng):
        return state + actions["ann"] - 0.5 + float(rng.normal())

    def observe(self, state, agent, rng):
        return np.float64(state)

    def terminal(self, state):
        return ("ann",) if abs(state) > 4 else ()


def made(spec):
    """The environment that gymnasium makes from a spec that went through JSON."""
    assert EnvSpec.from_json(spec.to_json()) == spec
    return gymnasium.make(EnvSpec.from_json(spec.to_json()))


def episodes(env, count=3, seed=5, longest=70):
    """Episodes of a gymnasium environment, each a list of what its steps gave."""
    env.action_space.seed(seed)
    found = []
    for number in range(count):
        observation, info = env.reset(seed=seed if number == 0 else None)
        steps = [exact((observation, info))]
        for _ in range(longest):
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            steps.append(exact((observation, reward, bool(terminated), bool(truncated), info)))
            if terminated or truncated:
                break
        found.append(steps)
    return found


SOURCES = {
    "gymnasium": lambda: from_env(gymnasium.make("CartPole-v1", max_episode_steps=12)),
    "gymnasium, no limit": lambda: from_env(gymnasium.make("Pendulum-v1", max_episode_steps=-1)),
    "gymnasium, which sees the time": lambda: from_env(TimeAwareObservation(gymnasium.make("CartPole-v1"))),
    "gymnasium, at another pace": lambda: from_env(
        MaxAndSkipObservation(gymnasium.make("CartPole-v1", max_episode_steps=30), skip=2)
    ),
    "by name": lambda: load("envoi:cartpole?max_episode_steps=15"),
    "a factory": lambda: load(f"python:{__name__}:make_walk", limit=9, drift=-0.5),
    "dm_control": lambda: load("bsuite:catch/0"),
    "a model": Walk,
    "several agents, of whom there is one": Alone,
}

WRAPPERS = {
    "TimeLimit": st.builds(lambda n: lambda env: envoi.TimeLimit(env, n), st.integers(1, 20)),
    "ActionRepeat": st.builds(lambda n: lambda env: envoi.ActionRepeat(env, times=n), st.integers(2, 4)),
    "FixedLength": st.builds(lambda n: lambda env: envoi.FixedLength(env, n), st.integers(1, 20)),
    "FlattenObservation": st.just(flat),
    "RunStats": st.just(envoi.RunStats),
    "History": st.builds(lambda n: lambda env: envoi.History(env, n), st.integers(2, 3)),
    "Tagged": st.just(lambda env: Tagged(env, "word", 3)),
}


@examples(60)
@given(
    st.sampled_from(sorted(SOURCES)),
    st.lists(st.sampled_from(sorted(WRAPPERS)).flatmap(lambda one: st.tuples(st.just(one), WRAPPERS[one])), max_size=4),
)
def test_make_of_the_spec_plays_the_same_episodes(source, wrappers):
    core, taken = SOURCES[source](), []
    for name, wrapper in wrappers:
        try:
            core = wrapper(core)
        except envoi.SpecError:  # which does not take such observations
            continue
        taken.append(name)
    form = to_gymnasium(core)
    spec = form.spec
    again = made(spec)
    assert again.spec == spec
    assert made(again.spec).spec == spec
    assert [entry["wrapper"].partition(":")[2] for entry in spec.kwargs.get("around", [])] == taken
    played = episodes(form)
    assert episodes(again) == played
    if spec.max_episode_steps is not None:
        assert max(len(steps) - 1 for steps in played) <= spec.max_episode_steps


def around(spec):
    return [entry["wrapper"].partition(":")[2] for entry in spec.kwargs["around"]]


def test_gymnasiums_wrappers_and_ours_alternate():
    inner = to_gymnasium(envoi.TimeLimit(envoi.ActionRepeat(from_env(gymnasium.make("CartPole-v1")), 2), 30))
    outer = to_gymnasium(envoi.TimeLimit(envoi.History(from_env(TimeAwareObservation(inner)), 2), 20))
    spec = outer.spec
    assert (spec.max_episode_steps, around(spec)) == (20, ["History", "TimeLimit"])
    again = made(spec)
    assert again.spec == spec
    assert episodes(again) == episodes(outer)
    # A `TimeLimit` of core inside is what the wrapper of gymnasium's reads, so it must be read as it was.
    assert outer.core.env.env.source.max_timesteps == again.env.core.env.env.source.max_timesteps == 30


def make_padded():
    return envoi.FixedLength(load("envoi:catch"), 9)


def test_a_padded_episode_that_terminates_in_its_last_step_is_not_truncated():
    for core in (make_padded(), load(f"python:{__name__}:make_padded"), envoi.History(make_padded(), 2)):
        form = to_gymnasium(core)
        assert form.spec.max_episode_steps is None
        for env in (form, made(form.spec)):
            assert [(len(one), one[-1][1][2:4]) for one in episodes(env)] == [(10, [(bool, True), (bool, False)])] * 3


def test_time_aware_observation_reads_the_limit_of_a_core_wrapper():
    for core in (
        envoi.TimeLimit(from_env(gymnasium.make("Pendulum-v1")), 5),
        envoi.TimeLimit(envoi.ActionRepeat(load("envoi:pendulum"), 3), 5),
        envoi.TimeLimit(Walk(), 5),
    ):
        env = TimeAwareObservation(to_gymnasium(core), flatten=False, dict_time_key="steps")
        assert env.max_timesteps == 5
        assert all(len(steps) <= 6 for steps in episodes(env))


NAMED = {
    "envoi:cartpole": "envoi/cartpole",
    "dm_control:cartpole/swingup": "dm_control/cartpole-swingup",
    "bsuite:catch/0": "bsuite/catch-0",
    f"python:{__name__}:make_walk?limit=3": f"python/{__name__}:make_walk",
    "gymnasium:FrozenLake-v1?map_name=8x8": "FrozenLake-v1",
}


@pytest.mark.parametrize("name", NAMED)
def test_the_name_is_the_id(name):
    spec = to_gymnasium(load(name)).spec
    assert spec.id == NAMED[name]
    assert parse_env_id(spec.id)
    assert made(spec).spec == spec


def test_arguments_of_a_name_are_arguments_of_make():
    spec = to_gymnasium(load(f"python:{__name__}:make_walk?limit=3", drift=0.5)).spec
    assert spec.kwargs == {"name": f"python:{__name__}:make_walk", "limit": 3, "drift": 0.5}
    assert spec.max_episode_steps == 3
    longer = gymnasium.make(spec, limit=6, max_episode_steps=-1)
    assert longer.core.max_episode_steps == 6
    assert longer.spec.max_episode_steps == 6


def test_an_argument_of_load_that_json_lacks_fails_in_to_json():
    spec = to_gymnasium(load(f"python:{__name__}:make_walk_of", model=lambda: Walk())).spec
    assert isinstance(gymnasium.make(spec).unwrapped.core, Walk)
    with pytest.raises(TypeError, match="JSON"):
        spec.to_json()


class Local(envoi.Lifted):
    """A wrapper whose class cannot be imported."""

    __qualname__ = "local.Local"


class Longer(Walk):
    def __init__(self, length=3):
        self.length = length


def changed(env, **attributes):
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


CONTEXTS = {0: {"m": 0.5}, 1: {"m": 2.0}}
LIMITS = iter((3, 4))
NOT_REPEATED = {
    "a function": lambda: envoi.Terminated(load("envoi:catch"), far),
    "a logger": lambda: envoi.Contextual(load("gymnasium:Pendulum-v1"), logger=print.__call__),
    "contexts that JSON would change": lambda: envoi.Contextual(load("gymnasium:Pendulum-v1"), CONTEXTS),
    "a local wrapper": lambda: Local(load("gymnasium:Pendulum-v1")),
    "a rewarder": lambda: changed(envoi.History(load("envoi:cartpole"), 2), rewarder=far),
    "a source's rewarder": lambda: envoi.TimeLimit(changed(from_env(gymnasium.make("CartPole-v1")), rewarder=far), 50),
    "a context": lambda: envoi.TimeLimit(changed(load("gymnasium:Pendulum-v1"), context={"m": 2.5}), 9),
    "a model with a constructor": Longer,
    "a model with an attribute": lambda: envoi.TimeLimit(changed(Walk(), length=3), 5),
    "an unregistered source": lambda: from_env(gymnasium.make("CartPole-v1").unwrapped.__class__()),
    "a source whose spec fails": lambda: envoi.History(from_env(Broken()), 2),
    "agents as lanes": lambda: to_gymnasium_vector(load("envoi:rps")).core,
    "a source of lanes, wrapped": lambda: envoi.TimeLimit(
        from_env(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")), 3
    ),
    "agents as lanes, wrapped": lambda: envoi.TimeLimit(to_gymnasium_vector(load("envoi:rps")).core, 3),
    "lanes that differ": lambda: envoi.batch(lambda: envoi.TimeLimit(Walk(), next(LIMITS)), 2),
    "shared contexts": lambda: envoi.batch(envoi.Contextual(load("gymnasium:Pendulum-v1"), [*CONTEXTS.values()]), 2),
    "contexts of lanes of a model": lambda: envoi.Contextual(load("envoi:pendulum"), [*CONTEXTS.values()], n_envs=2),
}


class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    @property
    def spec(self):
        raise RuntimeError("no spec today")


@pytest.mark.parametrize("kind", NOT_REPEATED)
def test_what_make_could_not_repeat_has_no_spec(kind):
    core = NOT_REPEATED[kind]()
    form = to_gymnasium(core) if core.batch_size is None else to_gymnasium_vector(core)
    assert form.spec is None


def test_a_rewarder_put_back_gives_the_spec_back():
    core = envoi.History(load("envoi:cartpole"), 2)
    core.rewarder = 2.0 * core.rewarder
    core.rewarder = envoi.ModelReward(core.unwrapped)
    assert to_gymnasium(core).spec.id == "envoi/cartpole"


def test_contexts_of_a_set_are_played_once_more():
    contexts = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}
    core = envoi.Contextual(load("gymnasium:Pendulum-v1"), contexts, max_episode_length=4, state_context_features=["m"])
    form = to_gymnasium(core)
    assert form.spec.max_episode_steps == 4
    again = made(form.spec)
    assert again.env.core.contexts == core.contexts
    played = episodes(form, 5)
    assert episodes(again, 5) == played
    assert form.spec is not None, "the context of the last episode is not a setting"


def registered(**settings):
    gymnasium.register("envoi_tests/Walk-v3", entry_point=f"{__name__}:make_form", **settings)
    try:
        return gymnasium.make("envoi_tests/Walk-v3")
    finally:
        del gymnasium.registry["envoi_tests/Walk-v3"]


def make_form(limit=6):
    return to_gymnasium(envoi.TimeLimit(Walk(), limit))


def test_a_form_behind_an_entry_point_has_the_spec_that_make_gives_it():
    env = registered(kwargs={"limit": 4}, order_enforce=False, disable_env_checker=True, reward_threshold=1.5)
    assert (env.spec.id, env.spec.version, env.spec.reward_threshold) == ("envoi_tests/Walk-v3", 3, 1.5)
    assert env.spec.max_episode_steps == 4
    assert env.spec.kwargs == {"limit": 4}
    outer = to_gymnasium(envoi.History(from_env(env), 2))
    assert outer.spec.id == "envoi_tests/Walk-v3"
    for form in (env, outer, registered(), registered(max_episode_steps=3)):
        again = made(form.spec)
        assert again.spec == form.spec
        assert episodes(again) == episodes(form)


def test_a_spec_can_be_set_and_taken_away():
    form = to_gymnasium(Walk())
    form.spec = EnvSpec("Mine-v0", entry_point=f"{__name__}:make_form")
    assert form.spec.id == "Mine-v0"
    assert to_gymnasium(envoi.History(flat(form.core), 2)).spec.id == "Mine-v0"
    form.spec = None
    assert form.spec is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda form: pickle.loads(pickle.dumps(form))])
def test_copies_keep_the_spec(copied):
    core = load(f"python:{__name__}:make_walk")
    core.env.rewarder = core.rewarder + 1.0 * core.rewarder
    for form in (
        to_gymnasium(envoi.History(flat(load(f"python:{__name__}:make_walk")), 2)),
        to_gymnasium(core),
        to_gymnasium(envoi.History(load("gymnasium:CartPole-v1"), 2)),
        registered(order_enforce=False, disable_env_checker=True),
        to_gymnasium_vector(envoi.History(load("envoi:cartpole"), 2), 3),
    ):
        form.reset(seed=0)
        assert copied(form).spec == form.spec


# Vector forms.


@pytest.mark.parametrize(
    "make",
    [
        lambda: envoi.batch(envoi.TimeLimit(load("gymnasium:CartPole-v1"), 9), 2),
        lambda: envoi.TimeLimit(envoi.batch(load("envoi:cartpole"), 2), 9),
        lambda: envoi.batch(envoi.TimeLimit(Flock(), 9), 2),
        lambda: from_env(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")),
    ],
)
def test_a_vector_form_has_the_spec_of_a_lane(make):
    form = to_gymnasium_vector(make())
    spec = EnvSpec.from_json(form.spec.to_json())
    assert spec == form.spec == gymnasium.wrappers.vector.RecordEpisodeStatistics(form).spec
    again = gymnasium.make_vec(spec, num_envs=2)
    assert again.observation_space.contains(form.reset(seed=0)[0])
