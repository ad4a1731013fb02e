"""`Contextual` reports each episode to a selector that learns, at its end and once."""

import copy
import pickle

import numpy as np
import pytest
from small_models import Breakable, Corridor, Leaving

import envoi
from envoi.curricula import LearningProgress, PrioritizedLevelReplay
from envoi.wrappers import FixedLength, Terminated

LENGTHS = {"short": {"length": 3}, "long": {"length": 5}}


class Diary(envoi.Selector):
    """Chooses in turn, and keeps the episodes that are reported."""

    def __init__(self):
        self.rows = []
        super().__init__()

    def choose(self, rng):
        return self.contexts_keys[self.n_calls % len(self.contexts_keys)]

    def tell(self, episodes):
        self.rows += episodes

    @property
    def ends(self):
        return [(row["lane"], row["context_id"], row["length"], row["return"], row["terminated"]) for row in self.rows]


def contextual(env, diary, **arguments):
    return envoi.Contextual(env, LENGTHS, context_selector=diary, **arguments)


def play(env, steps=20, action=1, seed=0):
    """Plays episodes of one lane or of a batch, restarting lanes that have ended."""
    env.reset(seed=seed)
    if env.batch_size is None:
        over = False
        for _ in range(steps):
            if over:
                env.reset()
            step = env.step(action)
            over = step.terminated or step.truncated
        return
    over = None
    for _ in range(steps):
        step = env.step(np.full(env.batch_size, action), over)
        over = step.terminated | step.truncated


def test_an_episode_is_reported_once_at_its_end():
    diary = Diary()
    env = contextual(Corridor(), diary)
    env.reset(seed=0)
    for _ in range(2):
        env.step(1)
    assert diary.rows == []
    env.step(1)
    row = {"context_id": "short", "context": {"length": 3}, "return": 0.0, "length": 3, "terminated": True}
    assert diary.rows == [{**row, "success": 1.0, "lane": 0}]
    env.reset()
    env.step(0)
    env.reset()  # cuts an episode off
    play(env, 5)
    assert [key for _, key, *_ in diary.ends] == ["short", "long"]


SINGLE = [(0, "short", 3, 0.0, True), (0, "long", 5, -1.0, True)] * 2


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda env: env, SINGLE),
        (envoi.Validated, SINGLE),
        (lambda env: envoi.History(env, 2), SINGLE),
        (lambda env: envoi.as_single(envoi.as_multi(env)), SINGLE),
        (lambda env: envoi.TimeLimit(env, 4), [(0, "short", 3, 0.0, True), (0, "long", 4, -2.0, False)] * 2),
        (lambda env: envoi.Validated(envoi.TimeLimit(envoi.History(env, 2), 4)), [(0, "short", 3, 0.0, True)]),
        (
            lambda env: Terminated(env, lambda state, action, after: after[0] == 2),
            [(0, key, 2, -1.0, True) for key in ("short", "long", "short", "long")],
        ),
        (lambda env: FixedLength(env, 4), [(0, "short", 3, 0.0, True), (0, "long", 4, -2.0, False)]),
        (lambda env: FixedLength(env, 8), SINGLE[:2]),
    ],
)
def test_ends_outside_are_reported_too(wrap, expected):
    diary = Diary()
    play(wrap(contextual(Corridor(), diary)), 16)
    assert diary.ends[: len(expected)] == expected


def test_its_own_limit_ends_an_episode_too():
    diary = Diary()
    play(contextual(Corridor(), diary, max_episode_length=4), 7)
    assert diary.ends == [(0, "short", 3, 0.0, True), (0, "long", 4, -2.0, False)]


def batches():
    return {
        "model": lambda diary: contextual(envoi.batch(Corridor(), 3), diary),
        "loop": lambda diary: contextual(envoi.Lanes([Corridor() for _ in range(3)]), diary),
        "loop of wrappers": lambda diary: envoi.Lanes([contextual(Corridor(), diary) for _ in range(3)]),
        "batch of a wrapper": lambda diary: envoi.batch(contextual(Corridor(), diary), 3),
        "n_envs": lambda diary: contextual(Corridor(), diary, n_envs=3),
    }


def test_reported_episodes_are_a_sequence_of_dicts():
    calls, diary = [], Diary()
    diary.tell = calls.append
    env = contextual(envoi.batch(Corridor(), 4), diary)
    play(env, 4)
    (episodes,) = calls
    assert episodes[1:] == [episodes[-1]]
    env.reset()
    episodes[0]["context"].clear()
    assert [row["context"] for row in episodes] == [env.contexts["short"]] * 2


@pytest.mark.parametrize("kind", batches())
@pytest.mark.parametrize("limit", [None, 4])
def test_lanes_are_reported_one_by_one(kind, limit):
    diary = Diary()
    env = batches()[kind](diary)
    if kind == "loop of wrappers":
        env.assign_lane(0)
    play(env if limit is None else envoi.TimeLimit(env, limit), 12)
    longest = (5, -1.0, True) if limit is None else (4, -2.0, False)
    assert set(diary.ends) <= {
        (lane, *end) for lane in range(3) for end in (("short", 3, 0.0, True), ("long", *longest))
    }
    assert {row["success"] for row in diary.rows} == ({1.0} if limit is None else {0.0, 1.0})
    assert len(diary.ends) == 7
    assert [lane for lane, *_ in diary.ends][:3] == [0, 2, 1]


def test_lanes_that_pause_take_no_steps():
    diary = Diary()
    env = contextual(envoi.batch(Corridor(), 2), diary)
    env.assign_lane(6)  # from which lanes count on
    env.reset(seed=0)
    for hold in ([True, False], [False, True], [False, False], [False, False]):
        env.step(np.ones(2, int), None, np.array(hold))
    env.reset(mask=np.array([True, False]))
    assert diary.ends == [(6, "short", 3, 0.0, True)]
    env.step(np.ones(2, int))
    env.step(np.ones(2, int))
    assert diary.ends[1:] == [(7, "long", 5, -1.0, True)]


def test_agents_share_an_episode():
    diary = Diary()
    env = envoi.Contextual(envoi.as_multi(Corridor()), LENGTHS, context_selector=diary)
    env.reset(seed=0)
    (agent,) = env.agents
    while env.agents:
        env.step({agent: 1})
    assert diary.ends == [(0, "short", 3, 0.0, True)]
    assert diary.rows[0]["success"] == 1.0

    diary = Diary()
    limited = envoi.TimeLimit(envoi.Contextual(envoi.as_multi(Corridor()), LENGTHS, context_selector=diary), 2)
    limited.reset(seed=0)
    while limited.agents:
        limited.step({agent: 1})
    assert diary.ends == [(0, "short", 2, -1.0, False)]


def test_rewards_of_all_agents_are_added():
    diary = Diary()
    env = envoi.Contextual(
        Leaving(), {"one": {"x": 1}}, context_selector=diary, bind=lambda env, context: None, hide_context=True
    )
    env.reset(seed=0)
    while env.agents:
        env.step(dict.fromkeys(env.agents, 0))
    # The first agent gets 1 and 2, and leaves; the second 1, 2, 3, 4.
    assert diary.ends == [(0, "one", 4, 13.0, True)]


@pytest.mark.parametrize(
    "choose",
    [
        lambda env: env.reset(options={"context_id": "long"}),
        lambda env: env.reset(options={"context": {"length": 3}}),
        lambda env: env.reset(options={"length": 4}),
        lambda env: (env.set("long"), env.reset()),
    ],
)
def test_contexts_chosen_by_hand_are_not_reported(choose):
    diary = Diary()
    env = contextual(Corridor(), diary)
    choose(env)
    while not env.step(1).terminated:
        pass
    assert diary.rows == []
    env.set(None)
    play(env, 5)
    assert len(diary.rows) == 1


def test_a_function_says_what_success_is():
    diary = Diary()
    play(contextual(Corridor(), diary, success=lambda episode: episode["length"] < 4 and episode["info"] != {}), 8)
    assert [row["success"] for row in diary.rows] == [1, 0]
    with pytest.raises(envoi.ContextError, match="success: expected a function"):
        contextual(Corridor(), diary, success=1)


def test_copies_share_the_curriculum():
    diary = Diary()
    env = contextual(Corridor(), diary)
    twin = copy.deepcopy(env)
    assert twin.context_selector is diary
    play(env, 3)
    play(twin, 5)
    assert [key for _, key, *_ in diary.ends] == ["short", "long"]


def test_a_batch_shares_a_curriculum_given_by_its_class():
    given = {"context_selector": PrioritizedLevelReplay, "context_selector_kwargs": {"seed": 3}}
    env = envoi.Contextual(Corridor(), LENGTHS, **given)
    assert env.context_selector.seed == 3
    assert envoi.batch(env, 2).context_selector is env.context_selector


def test_a_seed_does_not_restart_a_curriculum():
    diary = Diary()
    env = contextual(Corridor(), diary)
    play(env, 3, seed=0)
    env.reset(seed=0)
    assert diary.n_calls == 2
    assert env.context_id == "long"


def test_restored_episodes_have_their_returns():
    diary = Diary()
    env = contextual(Corridor(), diary)
    env.reset(seed=0)
    env.step(1)
    held = env.snapshot()
    for snapshot in (held, pickle.loads(pickle.dumps(held))):
        env.restore(snapshot)
        assert env.context_selector is diary
        env.step(1)
        env.step(1)
    assert diary.ends == [(0, "short", 3, 0.0, True)] * 2


def test_a_refused_reset_is_no_choice():
    class Broken(Breakable, Corridor):
        def initial(self, rng, context):
            self.may_break("initial")
            return super().initial(rng, context)

    curriculum, model = PrioritizedLevelReplay(seed=3), Broken()
    env = contextual(model, curriculum)
    env.reset(seed=0)
    expected = env.peek()
    model.broken = "initial"
    with pytest.raises(ZeroDivisionError):
        env.reset()
    assert (env.peek(), curriculum.n_calls) == (expected, 1)
    model.broken = None
    env.reset()
    assert env.context_id == expected[0]


def test_a_selector_can_be_replaced_by_a_curriculum():
    diary = Diary()
    env = envoi.TimeLimit(envoi.Contextual(Corridor(), LENGTHS), 4)
    play(env, 3)
    diary.begin(env.env.contexts)
    env.env.context_selector = diary
    play(env, 7)
    assert [(key, length) for _, key, length, *_ in diary.ends] == [("short", 3), ("long", 4)]


def test_errors_of_a_curriculum_reach_the_step():
    env = contextual(Corridor(), LearningProgress(bounds=(0, 1)))
    with pytest.raises(envoi.EnvoiError, match=r"bounds=\(0, 1\)"):
        play(env, 30)


@pytest.mark.parametrize("lanes", [None, 4])
def test_a_curriculum_trains_on_what_is_hard(lanes):
    contexts = {length: {"length": length} for length in range(1, 9)}
    curriculum = PrioritizedLevelReplay("learnability", seed=1)
    env = envoi.Contextual(Corridor(), contexts, context_selector=curriculum, n_envs=lanes)
    env = envoi.TimeLimit(env, 8)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    over = None
    for _ in range(1500):
        if lanes is None:
            step = env.step(int(rng.integers(2)))
            if step.terminated or step.truncated:
                env.reset()
        else:
            step = env.step(rng.integers(2, size=lanes), over)
            over = step.terminated | step.truncated
    episodes = dict(zip(curriculum.contexts_keys, curriculum.statistics["episodes"], strict=True))
    # After 8 steps of even chances, lengths 4 and 5 are reached about half of the time; 1 always, 8 hardly ever.
    assert episodes[4] + episodes[5] > 2 * (episodes[1] + episodes[8])


def test_made_contexts_stay_within_what_the_environment_allows():
    curriculum = PrioritizedLevelReplay(mutate=lambda context, rng: {"length": 31})
    env = envoi.Contextual(Corridor(), LENGTHS, context_selector=curriculum)
    with pytest.raises(envoi.ContextError, match=r"mutate: context\['length'\]: expected an integer from 1 to 30"):
        play(env, 60)
