"""Curricula: their rules beside published figures, equal sequences, states, and bad input."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envoi
from envoi.context import ContextSpace, NormalFloat, UniformFloat, UniformInteger
from envoi.curricula import (
    Annealed,
    Curriculum,
    Custom,
    LearningProgress,
    PrioritizedLevelReplay,
    SelfPaced,
    Sequential,
    critic_score,
)

FIVE = {name: {"x": float(place)} for place, name in enumerate("abcde")}
ONE = {"only": {"x": 0.5, "y": 2.0}}
SPACE = ContextSpace([UniformFloat("x", 0, 10), UniformFloat("y", 0, 10)])


def row(key, total=0.0, *, success=None, score=None, context=None, length=1):
    context = FIVE.get(key, {"x": 0.0, "y": 0.0}) if context is None else context
    values = {"return": total, "length": length, "terminated": True, "success": success, "lane": 0}
    return {"context_id": key, "context": context, **values, **({} if score is None else {"score": score})}


def begun(curriculum, contexts=FIVE, space=None):
    curriculum.begin(contexts, space)
    return curriculum


def ask(curriculum):
    return curriculum.select(np.random.default_rng())[0]


def close(values, expected, tolerance=1e-9):
    np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance)


def replay_with_staleness(**arguments):
    """A replay of which a, b, c, d were last chosen 3, 0, 1, 2 choices ago, with scores .5, 2, .1, 1; e has none."""
    for seed in range(10_000):
        curriculum = begun(PrioritizedLevelReplay("value_l1", seed=seed, **arguments))
        if [ask(curriculum) for _ in range(6)][-4:] == list("adcb"):
            curriculum.tell([row(key, score=score) for key, score in zip("abcd", (0.5, 2, 0.1, 1), strict=True)])
            return curriculum
    raise AssertionError


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, (0.0500152264, 0.899105883, 0.0166675241, 0.0342113664, 0)),
        ({"temperature": 0.3, "staleness": 0.3}, (0.1658416029, 0.6168837127, 0.0560720686, 0.1612026159, 0)),
        ({"temperature": 1, "staleness": 0}, (0.16, 0.48, 0.12, 0.24, 0)),
        ({"transform": "proportional", "temperature": 1}, (0.175, 0.5, 0.0416666667, 0.2833333333, 0)),
    ],
)
def test_replay_weights_equal_the_papers_code(arguments, expected):
    close(replay_with_staleness(**arguments).weights, expected, 1e-10)


def test_choices_follow_the_replay_weights():
    counts, expected = dict.fromkeys(FIVE, 0), np.zeros(5)
    curriculum = begun(PrioritizedLevelReplay("value_l1", temperature=1, staleness=0.5))
    curriculum.tell([row(key, score=score) for key, score in zip(FIVE, (1, 2, 3, 4, 5), strict=True)])
    for _ in range(4000):
        expected += curriculum.weights
        counts[ask(curriculum)] += 1
    close(np.array(list(counts.values())) / 4000, expected / 4000, 0.03)


def test_every_context_is_played_before_any_replay():
    curriculum, played = begun(PrioritizedLevelReplay()), []
    for _ in range(5):
        played.append(ask(curriculum))
        curriculum.tell([row(played[-1], 1.0)])
    assert sorted(played) == list(FIVE)


@pytest.mark.parametrize(
    ("score", "episodes", "highest"),
    [
        # Success rates 0, .5, .9: only the second can be learned.
        ("learnability", {"a": [0, 0], "b": [0, 1], "c": [1] * 9 + [0]}, "b"),
        ("return_error", {"a": [5, 5], "b": [0, 3], "c": [9, 10]}, "b"),
        ("max_return_gap", {"a": [4, 4], "b": [9, 8], "c": [0, 5]}, "c"),
        ("slope", {"a": [7, 7, 7], "b": [3, 2, 1], "c": [0, 1, 0]}, "b"),
    ],
)
def test_scores_need_no_critic(score, episodes, highest):
    curriculum = begun(PrioritizedLevelReplay(score, staleness=0), {key: FIVE[key] for key in "abc"})
    for key, totals in episodes.items():
        curriculum.tell([row(key, total, success=min(total, 1)) for total in totals])
    assert "abc"[np.argmax(curriculum.weights)] == highest


def test_slope_is_over_all_episodes():
    # Proportional weights at temperature 1 are the scores themselves: .6 for the returns 0, 1, 1, 3 at 1, 2, 4, 5.
    curriculum = PrioritizedLevelReplay("slope", transform="proportional", temperature=1, staleness=1e-12)
    begun(curriculum, {key: FIVE[key] for key in "ab"})
    curriculum.tell([row("a", 0), row("a", 1), row("b", 0), row("a", 1), row("a", 3), row("b", 0.9)])
    # b: 0 and .9 at 3 and 6, a slope of .3.
    close(curriculum.weights, [2 / 3, 1 / 3])


def test_scores_of_a_critic_equal_published_figures():
    rewards, values = (0, 0, 1), (0.2, 0.5, 0.8)
    close(critic_score("value_l1", rewards, values), 0.4842016468333333)
    close(critic_score("positive_value_loss", rewards, values), 0.4842016468333333)
    close(critic_score("max_mc", rewards, values, highest=1), 0.5)
    assert critic_score("positive_value_loss", (0,), (1.0,)) == 0


def played_over_a_space(n=300, **arguments):
    """Plays contexts of a space, where the return is x; returns what was chosen, and the curriculum."""
    curriculum = PrioritizedLevelReplay("value_l1", space=[UniformFloat("x", 0, 1)], buffer=8, **arguments)
    begun(curriculum, ONE, SPACE)
    chosen = []
    for _ in range(n):
        key, context = curriculum.select(np.random.default_rng())
        chosen.append((key, context["x"]))
        curriculum.tell([row(key, context["x"], score=context["x"], context=context)])
    return chosen, curriculum


def test_a_buffer_keeps_samples_of_high_scores():
    chosen, curriculum = played_over_a_space()
    ids = [key for key, _ in chosen]
    assert ids[:8] == list(range(8)), "no replay before the buffer is full"
    assert len(set(ids)) == pytest.approx(150, abs=40), "half of the choices replay"
    assert min(curriculum.contexts[key]["x"] for key in curriculum.contexts_keys) > 0.7
    assert all(context["y"] == 2.0 for context in curriculum.contexts.values()), "the default"
    assert len(curriculum.weights) == len(curriculum.statistics["episodes"]) == 8


def test_mutation_climbs_from_replayed_contexts():
    def nudge(context, rng):
        return {**context, "x": min(context["x"] + 0.01 * rng.random(), 1.0)}

    _, alone = played_over_a_space(seed=3)
    chosen, edited = played_over_a_space(mutate=nudge, seed=3)
    best = [max(context["x"] for context in one.contexts.values()) for one in (alone, edited)]
    assert best[1] > best[0]
    assert [key for key, _ in chosen] != sorted(key for key, _ in chosen)


def test_mutation_extends_a_set():
    curriculum = begun(PrioritizedLevelReplay(mutate=lambda context, rng: {"x": context["x"] + 100}, buffer=9))
    for _ in range(60):
        key, context = curriculum.select(np.random.default_rng())
        curriculum.tell([row(key, context["x"], context=context)])
    assert len(curriculum.contexts_keys) == 9
    assert max(context["x"] for context in curriculum.contexts.values()) >= 100


def test_learning_progress_equals_the_figures_of_omni():
    curriculum = LearningProgress(baseline={"c": 0.5}, uniform=0, update_every=4)
    begun(curriculum, {key: FIVE[key] for key in "abcd"})
    for rates in ((0, 0.2, 0.5, 0), (0.1, 0.4, 0.6, 0), (0.3, 0.4, 0.9, 0)):
        curriculum.tell([row(key, success=rate) for key, rate in zip("abcd", rates, strict=True)])
    close(curriculum.progress, (0.2259280225, 0.0379662822, 0.3988602118, 0))
    close(curriculum.weights, (0.3384276301, 0.1492113814, 0.5123609886, 0))


def test_a_part_of_learning_progress_is_uniform():
    curriculum = begun(LearningProgress(uniform=0.4, update_every=5))
    for successes in ((1, 0, 0, 0, 0), (0, 0, 0, 0, 0)):
        curriculum.tell([row(key, success=success) for key, success in zip(FIVE, successes, strict=True)])
    close(curriculum.weights, (0.68, 0.08, 0.08, 0.08, 0.08))


def test_bounds_make_success_of_returns():
    curriculum = begun(LearningProgress(bounds=(-10, 10), update_every=5))
    curriculum.tell([row("a", 5.0)])
    assert curriculum.statistics["success"][0] == 0.75
    with pytest.raises(envoi.EnvoiError, match=r"'b'.*within bounds=\(-10, 10\), got 11"):
        curriculum.tell([row("a", 5.0), row("b", 11.0)])
    assert curriculum.statistics["episodes"].sum() == 1, "a refused call has no effect"
    curriculum.tell([row("b", total=10 + 1e-12)])  # a sum of rounded rewards


def moved(bound, returns, n=6):
    curriculum = SelfPaced([NormalFloat("x", 0, 2)], [NormalFloat("x", 2.5, 0.5)], bound=bound, update_every=n)
    begun(curriculum, ONE)
    places = range(-2, 4)
    curriculum.tell([row(0, total, context={"x": float(x)}) for x, total in zip(places, returns, strict=True)])
    return float(curriculum.mean[0]), float(curriculum.std[0])


def test_moves_equal_published_figures():
    pytest.importorskip("scipy")
    close(moved(-100, (6, 5, 4, 3, 2, 1)), (0.54452278, 1.84800955), 1e-6)
    close(moved(3.4, (6, 5, 4, 3, 2, 1)), (0.50649588, 1.80888208), 1e-4)


def test_below_the_bound_a_move_raises_returns():
    pytest.importorskip("scipy")
    mean, _ = moved(100, (6, 5, 4, 3, 2, 1))
    assert mean < 0


def test_the_distribution_reaches_its_target():
    pytest.importorskip("scipy")
    start = [NormalFloat("x", 1, 0.5), NormalFloat("y", 5, 2)]
    curriculum = SelfPaced(
        start, [NormalFloat("y", 1, 0.3), NormalFloat("x", 3, 0.2)], kl=0.5, bound=0.0, update_every=20
    )
    begun(curriculum, ONE, SPACE)
    assert curriculum.mean.tolist() == [5, 1]
    for _ in range(60):
        asked = [curriculum.select(np.random.default_rng()) for _ in range(20)]
        curriculum.tell([row(key, 1.0, context=context) for key, context in asked])
    close(curriculum.mean, (1, 3), 0.05)
    close(curriculum.std, (0.3, 0.2), 0.05)


def test_stages_promote_and_fall_back():
    curriculum = begun(Sequential([["a"], ["b", "c"], ["d"]], window=2, margin=0.3, patience=2))
    assert ask(curriculum) == "a"

    def stage_after(key, *successes):
        curriculum.tell([row(key, success=success) for success in successes])
        return curriculum.stage

    assert stage_after("a", 1) == 0, "a window is not complete"
    assert stage_after("d", 1, 1, 1) == 0, "episodes of other stages do not count"
    assert stage_after("a", 1) == 1
    assert {ask(curriculum) for _ in range(30)} == {"b", "c"}
    close(curriculum.weights, (0, 0.5, 0.5, 0, 0))
    assert stage_after("b", 0, 0) == 1, "patience"
    assert stage_after("c", 1, 0.4) == 1, "within the margin, which ends the row"
    assert stage_after("b", 0, 0) == 1
    assert stage_after("c", 0, 0) == 0
    assert stage_after("a", 0, 0, 0, 0) == 0, "there is no stage before"


def test_a_box_moves_with_the_lengths():
    curriculum = begun(Annealed({"x": (4, 6)}, {"x": (0, 10)}, 100), ONE, SPACE)
    curriculum.tell([row(0, length=25)])
    assert curriculum.box == {"x": (3, 7)}
    sampled = [curriculum.select(np.random.default_rng())[1] for _ in range(200)]
    assert all(3 <= context["x"] <= 7 and context["y"] == 2 for context in sampled)
    assert min(context["x"] for context in sampled) < 3.2
    curriculum.tell([row(0, length=1000)])
    assert curriculum.box == {"x": (0, 10)}


def test_a_box_of_integers_has_integers():
    space = ContextSpace([UniformInteger("x", 0, 10)])
    curriculum = begun(Annealed({"x": (2, 4)}, {"x": (2, 4)}, 1), {0: {"x": 5}}, space)
    assert {curriculum.select(np.random.default_rng())[1]["x"] for _ in range(50)} == {2, 3, 4}


def test_a_box_moves_with_successes():
    curriculum = begun(Annealed({"x": (0, 0)}, {"x": (0, 8)}, 4, measure="success"), ONE, SPACE)
    curriculum.tell([row(0, success=True), row(1, success=False)])
    assert curriculum.box == {"x": (0, 2)}


def test_a_function_weighs_contexts():
    array = begun(Custom(lambda table: np.nan_to_num(table["return"])))
    by_id = begun(Custom(lambda table: {"b": 3, "c": 1}))
    array.tell([row("a", 3.0), row("a", 1.0), row("d", 2.0)])
    close(array.weights, (0.5, 0, 0, 0.5, 0))
    close(by_id.weights, (0, 0.75, 0.25, 0, 0))
    assert {ask(array) for _ in range(30)} == {"a", "d"}


class Last(Curriculum):
    def choose(self, rng):
        return self.contexts_keys[-1]


@pytest.mark.parametrize("lanes", [None, 3])
def test_a_choice_of_ones_own_decides(lanes):
    env = envoi.models.Pendulum() if lanes is None else envoi.batch(envoi.models.Pendulum(), lanes)
    env = envoi.Contextual(env, {"a": {"m": 1.0}, "b": {"m": 2.0}}, context_selector=Last())
    info = env.reset(seed=0).info
    assert {one["context_id"] for one in ([info] if lanes is None else info)} == {"b"}


def test_statistics_are_means_by_context():
    curriculum = begun(PrioritizedLevelReplay())
    curriculum.tell([row("b", 1.0, length=4, success=True), row("b", 3.0, length=2)])
    table = curriculum.statistics
    assert table["episodes"].tolist() == [0, 2, 0, 0, 0]
    assert (table["return"][1], table["length"][1], table["success"][1]) == (2, 3, 1)
    assert np.isnan([table["return"][0], table["success"][0]]).all()


MADE = {
    "sequential": (lambda: Sequential([["a", "b"], ["c", "d"]], window=3, margin=0.1, seed=5), FIVE, None),
    "annealed": (lambda: Annealed({"x": (0, 1)}, {"x": (5, 9)}, 50, seed=5), ONE, SPACE),
    "progress": (lambda: LearningProgress(update_every=4, seed=5), FIVE, None),
    "replay": (lambda: PrioritizedLevelReplay("learnability", seed=5), FIVE, None),
    "replay of a space": (
        lambda: PrioritizedLevelReplay(space=[UniformFloat("x", 0, 1)], buffer=4, mutate=nudged, seed=5),
        ONE,
        SPACE,
    ),
    "self-paced": (
        lambda: SelfPaced([NormalFloat("x", 1, 1)], [NormalFloat("x", 5, 1)], bound=0.4, update_every=5, seed=5),
        ONE,
        SPACE,
    ),
    "custom": (lambda: Custom(lambda table: 1 + table["episodes"], seed=5), FIVE, None),
}


def nudged(context, rng):
    return {**context, "x": float(rng.random())}


@pytest.fixture(params=list(MADE))
def make(request):
    if request.param == "self-paced":
        pytest.importorskip("scipy")
    function, contexts, space = MADE[request.param]

    def make(begin=True):
        return make.begin(function()) if begin else function()

    make.begin = lambda curriculum: begun(curriculum, {key: dict(one) for key, one in contexts.items()}, space)
    return make


def run(curriculum, n=40, start=0):
    """The contexts of n episodes, the k-th of them with the same end in every run."""
    chosen = []
    for k in range(start, start + n):
        key, context = curriculum.select(np.random.default_rng())
        chosen.append((key, context))
        curriculum.tell([row(key, float(k % 7), success=k % 3 == 0, context=context, length=1 + k % 5)])
    return chosen


def test_equal_logs_give_equal_sequences(make):
    assert run(make()) == run(make())


def test_a_state_continues_the_sequence(make):
    first, later, coming = make(), make(), make(begin=False)
    whole = run(make(), 60)
    assert run(first, 30) == whole[:30]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    coming.load_state_dict(first.state_dict())  # before the environment begins
    run(first, 10, 99)  # which shares nothing with the state
    later.load_state_dict(state)
    make.begin(coming)
    assert run(later, 30, 30) == run(coming, 30, 30) == whole[30:]


def test_beginning_again_keeps_what_was_learned(make):
    whole, twice = run(make(), 60), make()
    chosen = run(twice, 30)
    make.begin(twice)
    assert chosen + run(twice, 30, 30) == whole


def test_other_contexts_forget_the_episodes():
    curriculum = begun(PrioritizedLevelReplay())
    run(curriculum)
    curriculum.begin({"f": {"x": 0.0}})
    assert curriculum.statistics["episodes"].tolist() == [0]


def test_a_peek_changes_nothing(make):
    curriculum, whole = make(), run(make(), 30)
    for k, expected in enumerate(whole):
        assert curriculum.peek(np.random.default_rng()) == expected
        assert curriculum.peek(np.random.default_rng()) == expected
        assert run(curriculum, 1, k) == [expected]


def test_position_returns_to_earlier_choices(make):
    curriculum = make()
    run(curriculum, 25)
    before = curriculum.position
    first = [ask(curriculum) for _ in range(10)]
    curriculum.position = before
    assert [ask(curriculum) for _ in range(10)] == first


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 9))
def test_rows_of_a_call_count_one_by_one(places, n):
    one, other = (begun(PrioritizedLevelReplay(seed=n)) for _ in range(2))
    rows = [row("abcde"[place], float(place * k % 5)) for k, place in enumerate(places)]
    one.tell(rows)
    for each in rows:
        other.tell([each])
    assert one.weights.tolist() == other.weights.tolist()
    places = one.select_places(np.random.default_rng(), n)
    assert [one.contexts_keys[place] for place in places] == [ask(other) for _ in range(n)]


@pytest.mark.parametrize(
    ("curriculum", "contexts", "message"),
    [
        (Sequential([["a"], ["z"]]), FIVE, r"stages\[1\]: there is no context 'z'"),
        (LearningProgress(baseline={"z": 0.5}), FIVE, "baseline: there is no context 'z'"),
        (Annealed({"mass": (0, 1)}, {"mass": (0, 2)}, 9), ONE, "'mass'.*no such feature"),
        (Annealed({"x": (0, 1)}, {"x": (0, 20)}, 9), ONE, "'x'.*expected to sample a number from 0 to 10"),
        (Annealed({"x": (0, 1)}, {"x": (0, 2)}, 9), FIVE, "makes its own contexts"),
        (SelfPaced([NormalFloat("z", 0, 1)], [NormalFloat("z", 1, 1)], bound=0), ONE, "'z'.*no such feature"),
        (PrioritizedLevelReplay(space=[UniformFloat("z", 0, 1)]), ONE, "'z'.*no such feature"),
        (PrioritizedLevelReplay(space=[UniformFloat("x", 0, 1)]), FIVE, "makes its own contexts"),
    ],
)
def test_contexts_that_a_curriculum_cannot_use(curriculum, contexts, message):
    with pytest.raises(envoi.ContextError, match=message):
        curriculum.begin(contexts, SPACE if contexts is ONE else None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sequential([]), "stages: expected lists of ids"),
        (lambda: Sequential([["a"], []]), "stages: expected lists of ids"),
        (lambda: Sequential([["a"]], measure="reward"), "measure: expected one of"),
        (lambda: Sequential([["a"]], window=0), "window: expected an integer of at least 1, got 0"),
        (lambda: Annealed({"x": (1, 0)}, {"x": (0, 1)}, 9), r"start\['x'\]: expected \(low, high\)"),
        (lambda: Annealed({"x": (0, 1)}, {"y": (0, 1)}, 9), "the same features"),
        (lambda: LearningProgress(baseline={"a": 1}), r"baseline\['a'\]: expected a number from 0"),
        (lambda: LearningProgress(bounds=(1, 1)), "bounds: expected"),
        (lambda: LearningProgress(bounds=(0, np.inf)), "bounds: expected finite"),
        (lambda: PrioritizedLevelReplay("regret"), "score: expected one of"),
        (lambda: PrioritizedLevelReplay(temperature=0), "temperature: expected a number"),
        (lambda: PrioritizedLevelReplay(buffer=9), "buffer: expected None"),
        (lambda: PrioritizedLevelReplay(mutate="more"), "mutate: expected a function"),
        (lambda: SelfPaced([NormalFloat("x", 0, 1)], [], bound=0), "the same features"),
        (lambda: SelfPaced([UniformFloat("x", 0, 1)], [NormalFloat("x", 0, 1)], bound=0), "expected NormalFloat"),
        (lambda: Custom(3), "expected a function"),
        (lambda: Custom(lambda table: 1, seed=-1), "seed: expected an integer of at least 0"),
        (lambda: begun(Custom(lambda table: [1, 2])).weights, "expected 5 weights"),
        (lambda: begun(Custom(lambda table: {"z": 2})).weights, "there is no context 'z'"),
        (lambda: begun(Custom(lambda table: np.zeros(5))).weights, "one above"),
    ],
)
def test_impossible_arguments_are_refused(make, message):
    with pytest.raises(envoi.EnvoiError, match=message):
        make()


@pytest.mark.parametrize(
    ("curriculum", "bad", "message"),
    [
        (PrioritizedLevelReplay("value_l1"), row("a"), "value_l1 is a critic's score"),
        (PrioritizedLevelReplay("learnability"), row("a"), "success: expected a number from 0 to 1, got None"),
        (LearningProgress(), row("a"), "bounds"),
        (Sequential([["a"]]), row("a"), "measure='return'"),
        (PrioritizedLevelReplay(), row("z"), "there is no context 'z'"),
        (PrioritizedLevelReplay(), row("a", float("nan")), "finite"),
        (PrioritizedLevelReplay(), row("a", success=1.5), "success: expected a number from 0 to 1, got 1.5"),
        (PrioritizedLevelReplay(), {"return": 1.0}, "expected the keys"),
    ],
)
def test_episodes_that_a_curriculum_cannot_use(curriculum, bad, message):
    begun(curriculum)
    with pytest.raises(envoi.EnvoiError, match=message):
        curriculum.tell([bad])
    assert curriculum.statistics["episodes"].sum() == 0


def test_nothing_is_chosen_before_the_contexts_are_known(make):
    curriculum = make(begin=False)
    for call in (lambda: ask(curriculum), lambda: curriculum.tell([row("a")])):
        with pytest.raises(envoi.ContextError, match=r"call begin\(contexts\) first"):
            call()
    fresh = make(begin=False)
    fresh.load_state_dict(curriculum.state_dict())
    make.begin(fresh)
    assert run(fresh) == run(make())


def test_mutations_stay_within_the_space():
    curriculum = PrioritizedLevelReplay(
        space=[UniformFloat("x", 0, 1)], buffer=1, mutate=lambda context, rng: {**context, "x": 2.0}, replay=1
    )
    begun(curriculum, ONE, SPACE)
    with pytest.raises(envoi.ContextError, match=r"mutate: context\['x'\]: expected a number from 0 to 1, got 2"):
        run(curriculum)


def test_states_of_others_are_refused():
    curriculum = begun(PrioritizedLevelReplay())
    with pytest.raises(envoi.EnvoiError, match=r"state_dict of a PrioritizedLevelReplay .*'LearningProgress'"):
        curriculum.load_state_dict(begun(LearningProgress()).state_dict())
    with pytest.raises(envoi.EnvoiError, match="the same contexts"):
        curriculum.load_state_dict(begun(PrioritizedLevelReplay(), ONE).state_dict())
    with pytest.raises(envoi.EnvoiError, match="state_dict"):
        curriculum.load_state_dict(None)
