"""Options of a reset that set the context: their names, and the entries that they make in infos."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Carts, Walk
from traces import exact

import envoi
from envoi import ContextError, Contextual, TimeLimit, models
from envoi.errors import near_misses
from envoi.models import CartPole, Catch, Nim, Pursuit

FEATURES = sorted({name for one in models.NAMES for name in getattr(models.make(one).context_space, "features", ())})
OPTIONS = ["context", "context_id"]

# fmt: off
WORDS = [
    "seed", "render", "state", "map", "mask", "low", "high", "x_init", "y_init", "reset_mask", "options", "size",
    "level", "difficulty", "task", "goal", "position", "start", "initial_state", "steps", "time", "length_limit",
    "randomize", "mode", "env_id", "agent", "episode", "velocity", "noise", "action", "rng", "speed",
    "circuit", "interaction_graph", "interaction_circuit", "connection_graph", "world", "text", "split", "height",
    "width", "camera", "prompt",
]
# fmt: on


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_its_own_is_no_misspelling(word):
    assert near_misses(word, [*FEATURES, *OPTIONS]) == []


misspellings = st.sampled_from([name for name in [*FEATURES, *OPTIONS] if len(name) >= 6]).flatmap(
    lambda name: st.tuples(st.just(name), st.integers(0, len(name) - 2), st.sampled_from(["lost", "swapped", "wrong"]))
)


@given(misspellings)
def test_one_slip_in_a_name_of_six_letters_or_more_is_found(case):
    name, at, slip = case
    middle = {"lost": name[at], "swapped": name[at + 1] + name[at], "wrong": "q" + name[at + 1]}[slip]
    written = name[:at] + middle + name[at + 2 :]
    assert written == name or name in near_misses(written, [*FEATURES, *OPTIONS])


@given(st.sampled_from([*FEATURES, *OPTIONS]), st.sampled_from([str.upper, str.title, lambda name: name + "s"]))
def test_a_known_name_misses_none_and_another_case_does(name, change):
    assert near_misses(name, [*FEATURES, *OPTIONS]) == []
    if len(name) >= 2:
        assert name in near_misses(change(name), [*FEATURES, *OPTIONS])


ENVS = {
    "batch model": CartPole,
    "model": Walk,
    "model batch": lambda: envoi.batch(CartPole(), 3),
    "lanes": lambda: envoi.batch(Walk(), 3),
    "several agents": Pursuit,
    "wrapped": lambda: TimeLimit(envoi.batch(CartPole(), 2), 9),
    "as one of several": lambda: envoi.as_multi(CartPole()),
    "contextual": lambda: Contextual(CartPole()),
    "contextual batch": lambda: envoi.batch(Contextual(CartPole()), 3),
    "contextual agents": lambda: Contextual(Pursuit(), hide_context=True),
    "by attributes": lambda: Contextual(Catch(), [{"gravity": 1.0}], bind=lambda env, context: None, hide_context=True),
}
MISSPELT = {
    "model": ["drif", "driftt", "Drift"],
    "model batch": ["gravty"],
    "several agents": ["stumbel", "max_step", "MAX_STEPS"],
    "contextual agents": ["stumbel"],
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_option_of_the_context_is_refused_with_near_names_before_anything_happens(name):
    env = ENVS[name]()
    env.reset(seed=0)
    before = exact(env.state)
    for key in [*MISSPELT[name], "contxt", "contexts", "contxt_id", "contextid"]:
        with pytest.raises(ContextError, match=rf"options\['{key}'\]: .*did you mean '"):
            env.reset(seed=1, options={key: 3.0})
        assert exact(env.state) == before


@pytest.mark.parametrize("name", ENVS)
def test_options_that_resemble_nothing_are_the_authors(name):
    env = ENVS[name]()
    options = {"anything": 1.0, "seed": 2, 3: 4.0}
    env.reset(options=options)
    assert options == {"anything": 1.0, "seed": 2, 3: 4.0}


def test_options_of_a_reset_of_some_lanes_are_those_of_these_lanes_alone():
    batch = envoi.batch(Carts(), 4)
    batch.reset(seed=1)
    gravity = batch.state.gravity.copy()
    mask = np.array([True, False, True, False])
    batch.reset(mask=mask, options={"gravity": 3.0})
    np.testing.assert_array_equal(batch.state.gravity, np.where(mask, 3.0, gravity))
    batch.reset(mask=mask)
    np.testing.assert_array_equal(batch.state.gravity, gravity)


MODELS = {
    "model": CartPole,
    "batch model": Carts,
    "model batch": lambda: envoi.batch(Carts(), 3),
    "wrapped": lambda: TimeLimit(CartPole(), 9),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_context_among_the_options_of_a_model_is_that_of_the_episode_with_defaults_for_the_rest(make):
    asked, was_set = make(), make()
    for env in (asked, was_set):
        env.context = {"gravity": 5.0, "length": 1.0}
    options = {"context": {"gravity": 2.0}}
    begun = asked.reset(seed=3, options=options)
    was_set.context = {"gravity": 2.0}
    assert exact(begun.observation) == exact(was_set.reset(seed=3).observation)
    assert exact(asked.state) == exact(was_set.state)
    assert options == {"context": {"gravity": 2.0}}
    asked.reset(seed=3)
    was_set.context = {"gravity": 5.0, "length": 1.0}
    was_set.reset(seed=3)
    assert exact(asked.state) == exact(was_set.state)
    asked.reset(seed=3, options={"context": {"gravity": 2.0}, "gravity": 5.0, "length": 1.0})
    assert exact(asked.state) == exact(was_set.state)


def test_a_context_among_the_options_reaches_agents_and_lanes():
    game = Nim()
    game.reset(options={"context": {"sticks": 3}})
    few = exact(game.state)
    game.reset(options={"sticks": 3})
    assert exact(game.state) == few
    lanes = envoi.batch(Carts(), 2)
    lanes.reset(seed=0, options={"context": {"gravity": [1.0, 2.0]}})
    assert lanes.state.gravity.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("make", [*MODELS.values(), Walk, Nim, lambda: envoi.batch(Walk(), 2)])
def test_a_context_that_a_model_cannot_have_is_refused(make):
    env = make()
    with pytest.raises(
        ContextError, match=r"options\['context'\]: expected a mapping of feature names to values, got 3"
    ):
        env.reset(options={"context": 3})
    with pytest.raises(ContextError, match=r"options\['context'\]\['strange'\]: no such feature"):
        env.reset(options={"context": {"strange": 3.0}})
    with pytest.raises(ContextError, match=r"options\['context_id'\]: there is no set of contexts.*Contextual"):
        env.reset(options={"context_id": "b"})
    feature = next(iter(env.context_space.features))
    with pytest.raises(ContextError, match=rf"options\['context'\]\['{feature}'\]: expected"):
        env.reset(options={"context": {feature: "much"}})
    with pytest.raises(ContextError, match=rf"options\['{feature}'\]: expected"):
        env.reset(options={feature: "much"})


SET = {"earth": {"gravity": 9.0}, "moon": {"gravity": 1.5}}
GIVEN = ({"gravity": 1.0}, {"context": {"gravity": 1.0}}, {"context_id": "moon", "gravity": 1.0})


def full(**values):
    return {**CartPole.context_space.defaults, **values}


def context_entries(info):
    return {name: value for name, value in info.items() if name in ("context", "context_id")}


@pytest.mark.parametrize("options", GIVEN)
@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: TimeLimit(env, 50), lambda env: envoi.History(env, 2)])
def test_an_info_has_the_values_of_a_context_that_options_gave_and_no_id(options, wrap):
    env = wrap(Contextual(CartPole(), SET))
    said = {"context_id": None, "context": full(gravity=1.0)}
    assert context_entries(env.reset(seed=0, options=options).info) == said
    for _ in range(3):
        assert context_entries(env.step(0).info) == said
    ids = [context_entries(env.reset().info), context_entries(env.step(0).info), context_entries(env.reset().info)]
    assert {len(one) for one in ids} == {1}
    assert {one["context_id"] for one in ids} == {"earth", "moon"}


def test_a_feature_that_keeps_its_value_leaves_the_context_its_id():
    env = Contextual(CartPole(), SET)
    assert context_entries(env.reset(options={"context_id": "moon", "gravity": 1.5}).info) == {"context_id": "moon"}
    assert context_entries(env.step(0).info) == {"context_id": "moon"}
    assert (
        context_entries(env.reset(options={"context_id": "moon", "gravity": 1.5, "length": 1.0}).info)["context_id"]
        is None
    )
    lanes = envoi.batch(Contextual(CartPole(), SET), 2)
    begun = lanes.reset(seed=0, options={"gravity": 9.0}).info
    assert [context_entries(info) for info in begun] == [
        {"context_id": "earth"},
        {"context_id": None, "context": full(gravity=9.0)},
    ]


def test_infos_have_the_noisy_values_if_an_option_overrides_another_one():
    env = Contextual(CartPole(), SET, add_gaussian_noise_to_context=True)
    assert context_entries(env.reset(seed=0).info) == {"context_id": "earth"}
    info = env.reset(options={"gravity": 2.0}).info
    assert context_entries(info) == {"context_id": None, "context": env.context}
    assert env.context["gravity"] == 2.0
    assert env.context["length"] != 0.5


BATCHES = {
    "one call": lambda: Contextual(envoi.batch(Carts(), 3), SET),
    "loop inside": lambda: Contextual(envoi.batching.loop.lanes_of(CartPole(), 3), SET),
    "loop of contextuals": lambda: envoi.batching.loop.lanes_of(Contextual(CartPole(), SET), 3),
    "limited": lambda: TimeLimit(Contextual(envoi.batch(CartPole(), 3), SET), 50),
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_only_the_lanes_that_were_changed_say_so_until_they_begin_again(make):
    env = make()
    env.reset(seed=0)
    lane = np.array([False, True, False])
    said = {"context_id": None, "context": full(gravity=1.0)}
    begun = env.reset(mask=lane, options={"gravity": 1.0}).info
    assert [context_entries(info) for info in begun] == [{}, said, {}]
    for _ in range(3):
        infos = env.step(env.sample_action()).info
        assert context_entries(infos[1]) == said
        assert [len(context_entries(infos[i])) for i in (0, 2)] == [1, 1]
        assert None not in [infos[i]["context_id"] for i in (0, 2)]
    infos = env.step(env.sample_action(), restart=np.array([True, False, False])).info
    assert [len(context_entries(info)) for info in infos] == [1, 2, 1]
    infos = env.step(env.sample_action(), restart=lane).info
    assert [len(context_entries(info)) for info in infos] == [1, 1, 1]
    assert None not in [info["context_id"] for info in infos]


def test_each_reader_gets_values_of_its_own():
    for env in (Contextual(CartPole(), SET), Contextual(envoi.batch(Carts(), 2), SET)):
        begun = env.reset(seed=0, options={"gravity": 1.0}).info
        one = begun if env.batch_size is None else begun[1]
        one["context"]["gravity"] = one["context"]["more"] = 7
        step = env.step(env.sample_action()).info
        assert (step if env.batch_size is None else step[1])["context"] == full(gravity=1.0)
        assert (env.context if env.batch_size is None else env.context[1])["gravity"] == 1.0


def test_options_reach_every_agents_info_and_end_with_the_episode():
    env = Contextual(Pursuit(), {"calm": {"stumble": 0.0}, "wild": {"stumble": 0.5}}, hide_context=True)
    said = {"context_id": None, "context": {**Pursuit.context_space.defaults, "stumble": 0.25}}
    infos = env.reset(seed=0, options={"stumble": 0.25}).infos
    assert [context_entries(infos[agent]) for agent in env.agents] == [said] * len(env.agents)
    infos = env.step(env.sample_actions()).infos
    assert [context_entries(infos[agent]) for agent in env.agents] == [said] * len(env.agents)
    infos = env.reset().infos
    assert {len(context_entries(infos[agent])) for agent in env.agents} == {1}


@given(st.lists(st.sampled_from(["nothing", "feature", "context", "id", "lane"]), min_size=1, max_size=8))
def test_an_id_is_always_that_of_the_values_in_force(wishes):
    env = Contextual(envoi.batch(Carts(), 2), SET, hide_context=True)
    env.reset(seed=0)
    for wish in wishes:
        options = {
            "feature": {"gravity": 3.0},
            "context": {"context": [{"gravity": 2.0}, {"gravity": 9.0}]},
            "id": {"context_id": ["moon", "earth"]},
        }.get(wish)
        mask = np.array([True, False]) if wish == "lane" else None
        env.reset(options=options, mask=mask)
        infos = env.step(env.sample_action()).info
        physics = np.broadcast_to(env.env.context["gravity"], 2).tolist()
        assert physics == {"feature": [3.0, 3.0], "context": [2.0, 9.0], "id": [1.5, 9.0]}.get(wish, physics)
        for info, context, gravity in zip(infos, env.context, physics, strict=True):
            assert context["gravity"] == gravity
            if info["context_id"] is None:
                assert info["context"] == context
            else:
                assert "context" not in info
                assert SET[info["context_id"]]["gravity"] == gravity
