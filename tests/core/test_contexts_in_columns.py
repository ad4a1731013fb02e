"""Contexts of the lanes of a batch, which are chosen and put in force all at once, are those of lanes one by one."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Sums
from traces import exact

import envoi
from envoi import ContextSpace, Contextual, UniformFloat, UniformInteger
from envoi.context import Categorical, Custom, Random, RoundRobin, Sampled, Static
from envoi.seeding import batch_streams

FEATURES = ("whole", "real", "fixed", "kind")


class Held(Sums):
    """A state is the context that an episode began with: an object array of shape (n, 4)."""

    observation_spec = envoi.Array((4,), "float64")
    context_space = ContextSpace(
        [
            UniformInteger("whole", 0, 99, default=7),
            UniformFloat("real", 0, 99, default=1.0),
            UniformFloat("fixed", 0, 99, default=3.0),
            Categorical("kind", ["ice", "mud", "rock"], default="ice"),
        ]
    )
    refuses = False

    def initial(self, rng, context, size):
        assert all(column.shape == (size,) for column in context.values())
        if self.refuses:
            raise RuntimeError("refused")
        return rows(context, size)

    def transition(self, state, action, rng):
        return state

    def observe(self, state, rng):
        encode = {"ice": 0.0, "mud": 1.0, "rock": 2.0}.get
        return np.array([[encode(value, value) for value in row] for row in state], float)


def rows(context, size):
    return np.array([np.asarray(context[name], object) for name in FEATURES]).T


class Backwards(RoundRobin):
    """A user's selector, which remembers in place."""

    def choose(self, rng):
        seen = self.position.setdefault("seen", [])
        seen.append(int(rng.integers(5)))
        return self.contexts_keys[-1 - (len(seen) + seen[-1]) % len(self.contexts_keys)]


SELECTORS = {
    "RoundRobin": RoundRobin,
    "Random": Random,
    "Static": Static,
    "Static by id": lambda: Static("b"),
    "Custom": lambda: Custom(lambda selector: selector.contexts_keys[selector.n_calls**2 % len(selector.contexts)]),
    "Custom at random": lambda: Custom(lambda selector: selector.rng.choice(selector.contexts_keys)),
    "a user's": Backwards,
    "Sampled": lambda: Sampled([UniformFloat("real", 0, 9)]),
    "a few sampled": lambda: Sampled([UniformFloat("real", 0, 9)], n=3),
}

values = st.fixed_dictionaries(
    {},
    optional={
        "whole": st.integers(0, 99),
        "real": st.one_of(st.floats(0, 99), st.integers(0, 99)),
        "kind": st.sampled_from(["ice", "mud", "rock"]),
    },
)
several_contexts = st.lists(values, min_size=1, max_size=5).map(
    lambda contexts: dict(zip("bacde", contexts, strict=False))
)


class OneByOne:
    """The contexts of n lanes, chosen one by one."""

    def __init__(self, env, n):
        self.selector, self.n = copy.deepcopy(env.context_selector), n
        self.contexts, self.space = env.contexts, env.context_space
        self.chosen, self.next, self.fixed = [None] * n, None, None
        self.states = [None] * n

    def seed(self, seed):
        self.rng = batch_streams(seed, self.n).context
        self.selector.begin(self.contexts, self.space)

    def begin(self, lanes):
        for lane in lanes:
            if self.fixed is not None:
                chosen = self.fixed
            else:
                chosen, self.next = self.next or self.selector.select(self.rng), None
            self.chosen[lane] = chosen
            self.states[lane] = [chosen[1][name] for name in FEATURES]


@pytest.mark.parametrize("name", SELECTORS)
@given(data=st.data())
def test_lanes_begin_under_the_contexts_that_they_would_get_one_by_one(name, data):
    n = data.draw(st.integers(1, 5), "lanes")
    contexts = data.draw(several_contexts, "contexts")
    contexts = {"b": {}} if "ampled" in name else contexts
    hidden = data.draw(st.booleans(), "hidden")
    env = envoi.batch(Contextual(Held(), contexts, context_selector=SELECTORS[name](), hide_context=hidden), n)
    alone, given_out = OneByOne(env, n), []
    seed = data.draw(st.integers(0, 99), "seed")
    alone.seed(seed)
    alone.begin(range(n))
    result = env.reset(seed=seed)
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(lambda mask: np.array(mask, bool))
    deeds = st.sampled_from(["step", "step", "reset", "reset", "refused", "set", "unset", "next", "copy", "restore"])
    for deed in data.draw(st.lists(deeds, max_size=8), "deeds"):
        check(env, alone, result, hidden)
        given_out.append((result, pickle.dumps((result.observation, list(result.info)))))
        mask = data.draw(masks, "mask")
        if deed in ("step", "reset"):
            alone.begin(np.flatnonzero(mask).tolist())
            result = env.step(np.zeros(n, int), mask) if deed == "step" else env.reset(mask=mask)
        elif deed == "refused" and mask.any():
            env.unwrapped.refuses = True
            with pytest.raises(RuntimeError, match="refused"):
                env.step(np.zeros(n, int), mask) if data.draw(st.booleans()) else env.reset(mask=mask)
            env.unwrapped.refuses = False
        elif deed == "set":
            key = next(iter(contexts))
            env.set(key)
            alone.fixed = (key, env.contexts[key])
        elif deed == "unset":
            env.set(None)
            alone.fixed = None
        elif deed == "next":
            env.select_next()
            alone.next = alone.selector.select(alone.rng)
        elif deed == "copy" and "ustom" not in name:  # functions of a test cannot be pickled
            env = pickle.loads(pickle.dumps(env)) if data.draw(st.booleans()) else copy.deepcopy(env)
        elif deed == "restore" and "ustom" not in name:
            held = env.snapshot()
            env.reset(seed=0)
            env.restore(pickle.loads(pickle.dumps(held)))
    check(env, alone, result, hidden)
    for result, was in given_out:
        assert pickle.dumps((result.observation, list(result.info))) == was


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copied_batch_knows_which_features_its_lanes_no_longer_share(copied):
    env = envoi.batch(Contextual(Held(), {"old": {}, "new": {"whole": 0}}), 2)
    env.set("old")
    env.reset(seed=0)
    last = np.array([False, True])
    env.step(np.zeros(2, int), last)
    env = copied(env)
    env.set("new")
    env.step(np.zeros(2, int), last)
    assert [state[0] for state in env.state] == [7, 0]


def check(env, alone, result, hidden):
    """Checks that contexts, infos and observations are those of lanes one by one."""
    assert env.context_id == tuple(key for key, _ in alone.chosen)
    assert [dict(context) for context in env.context] == [dict(context) for _, context in alone.chosen]
    for info, (key, _) in zip(result.info, alone.chosen, strict=True):
        assert not info or (info["context_id"] == key and type(info["context_id"]) is type(key))
    assert env.env.unwrapped is env.unwrapped
    assert env.state.tolist() == alone.states
    shown = [Held.context_space.vector(context) for _, context in alone.chosen]
    observed = env.env.observation
    assert exact(result.observation) == exact(observed if hidden else np.concatenate((observed, shown), axis=1))


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
@given(st.integers(1, 2000), st.lists(st.integers(1, 9), max_size=6), st.integers(0, 99))
def test_numbers_of_many_choices_are_those_of_one_after_the_other(kind, size, several, seed):
    one, together = Random(), Random()
    for selector in (one, together):
        selector.begin({key: {} for key in range(size)})
    rngs = [np.random.Generator(kind(seed)) for _ in range(2)]
    for n in several:
        assert [one.select(rngs[0])[0] for _ in range(n)] == together.select_places(rngs[1], n).tolist()
        assert one.position == together.position
        assert repr(rngs[0].bit_generator.state) == repr(rngs[1].bit_generator.state)


def test_contexts_that_were_read_do_not_change():
    batch = envoi.batch(Held(), 3)
    batch.put_context({"real": [2.0, 2.0, 2.0], "whole": [1, 2, 3]}, [2, 0, 1])
    before = batch.context["real"]
    batch.put_context({"real": [-0.0]}, [1])
    assert batch.context["real"].tolist() == [2.0, 0.0, 2.0]
    assert np.signbit(batch.context["real"]).tolist() == [False, True, False]
    assert batch.context["whole"].tolist() == [2, 3, 1]
    assert before.tolist() == [2.0] * 3


def test_a_selector_with_contexts_of_its_own_chooses_by_itself():
    env = envoi.batch(Contextual(Held(), {"b": {}, "a": {"real": 2.0}}, hide_context=True), 2)
    env.reset(seed=0)
    own = RoundRobin({key: {**env.contexts[key]} for key in ("a", "b")})
    env.context_selector = own
    env.reset()
    assert env.context_id == ("a", "b")
    assert env.state[:, 1].tolist() == [2.0, 1.0]


def test_the_id_none_of_a_set_is_never_shown_as_values():
    contexts = {None: {"real": 2.0}, "b": {"real": 5.0}}
    noisy = Contextual(Held(), contexts, add_gaussian_noise_to_context=True, noisy_features=["real"])
    noisy.reset(seed=0)
    assert noisy.context["real"] != 2.0
    alone, env = Contextual(Held(), contexts), envoi.batch(Contextual(Held(), contexts), 2)
    assert alone.reset(seed=0, options={"context_id": None}).info == {"context_id": None}
    env.reset(seed=0, options={"context": {"real": 9.0}})
    shown = env.step(np.zeros(2, int), np.array([False, True])).info
    assert [sorted(info) for info in shown] == [["context", "context_id"], ["context_id"]]
    assert env.state[:, 1].tolist() == [9.0, 2.0]


def test_contexts_within_contexts_keep_what_does_not_differ_over_the_set():
    given = {"a": {"real": 5.0, "fixed": 9.0, "whole": 3}, "b": {"real": 6.0, "fixed": 9.0, "whole": 4}}
    alone = Contextual(Contextual(Held(), hide_context=True), given, hide_context=True)
    env = envoi.batch(alone, 2)
    alone.reset(seed=0)
    assert alone.state.tolist() == [3, 5.0, 9.0, "ice"]
    env.reset(seed=0)
    for _ in range(2):
        assert env.state.tolist() == [[3, 5.0, 9.0, "ice"], [4, 6.0, 9.0, "ice"]]
        assert exact(list(env.env.context)) == exact([{**env.contexts[key]} for key in "ab"])  # the very same numbers
        env.step(np.zeros(2, int), np.array([True, True]))


def test_contexts_that_differ_in_a_sign_of_zero_differ():
    env = envoi.batch(Contextual(Held(), [{"real": 0.0}, {"real": -0.0}], hide_context=True), 1)
    env.reset(seed=0)
    env.reset()
    assert np.signbit(env.state[0, 1])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_infos_of_contexts_in_force_can_be_copied(copied):
    batch = envoi.batch(Contextual(Held(), {"old": {}, "new": {"whole": 0}}, hide_context=True), 3)
    batch.reset(seed=0)
    for restart in (None, np.array([True, False, True])):
        infos = batch.step(batch.sample_action(), restart).info
        assert list(copied(infos)) == list(infos)
        assert len(infos[0]) > 0
