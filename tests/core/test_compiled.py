"""Compiled lanes return what interpreted lanes return, bit by bit, and refuse what cannot be compiled."""

import copy
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from compiled_models import Breeze, Pole
from small_models import Steps, Sums
from traces import exact, trace
from twins import interpreted, same, step_both

import envoi
from envoi import EpisodeError, Lanes, ModelBatch, SpecError, tree
from envoi.adapters import load, to_gymnasium, to_gymnasium_vector
from envoi.compiling.compilation import cache_folder, kernel_of
from envoi.errors import NotCompilable
from envoi.models import CartPole, Catch, GridWorld, Maze, Pendulum

numba = pytest.importorskip("numba")

N = 5
BUNDLED = {"cartpole": CartPole, "pendulum": Pendulum, "gridworld": GridWorld, "catch": Catch, "maze": Maze}
MODELS = {"pole": Pole, "breeze": Breeze, **BUNDLED}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def pair(make, n=N):
    """An interpreted and a compiled batch."""
    return envoi.batch(make(), n, compiled=False), envoi.batch(make(), n, compiled=True)


def bits(batch):
    """The states of all lanes; numbers of Python and of numpy count as equal."""
    return [(path, np.asarray(leaf).dtype, np.asarray(leaf).tobytes()) for path, leaf in tree.leaves(batch.state)]


def play(one, other, steps, seed, resets="step"):
    """Steps both batches alike, and compares all that they return; returns the lanes that have ended."""
    same(one.reset(seed=seed), other.reset(seed=seed))
    over = np.zeros(one.batch_size, bool)
    for number in range(steps):
        hold = (np.arange(one.batch_size) % 3 == number % 3) & ~over if resets == "hold" else None
        over = step_both(one, other, over, hold, in_kernel=True)
        if resets == "reset" and over.any():
            over = reset_both(one, other, over)
    return over


def reset_both(one, other, mask=None):
    """Resets lanes of both, and compares the results; returns the lanes that have ended then, which are none."""
    result = one.reset(mask=mask)
    with interpreted(other) as found:
        same(result, other.reset(mask=mask))
    assert found == []
    return np.zeros(one.batch_size, bool)


LONG = pytest.param(1000, 1000, "step", marks=pytest.mark.deep)


@every_model
@pytest.mark.parametrize(("n", "steps", "resets"), [(1, 80, "reset"), (7, 80, "step"), (40, 40, "hold"), LONG])
def test_a_compiled_batch_returns_the_bits_of_the_interpreted_one(make, n, steps, resets):
    one, other = pair(make, n)
    play(one, other, steps, 7, resets)
    assert bits(one) == bits(other)


@every_model
def test_another_rewarder_sees_states_and_is_used(make):
    one, other = pair(make)
    seen = []

    def speed(state, action, next_state):
        seen.append(next_state)
        return 2.0 if isinstance(one, Lanes) else np.full(N, 2.0)

    for batch in (one, other):
        batch.reset(seed=0)
        batch.rewarder = speed
    action = one.sample_action()
    same(one.step(action), other.step(action))
    assert len(seen) >= 2


AROUND = {"alone": lambda env: env, "limited": lambda env: envoi.TimeLimit(env, 7)}
every_wrapper = pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)


@every_wrapper
@every_model
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_the_vector_form_returns_the_same(around, make, mode):
    forms = [to_gymnasium_vector(batch, autoreset_mode=mode) for batch in pair(lambda: around(make()))]
    (a, _), (b, _) = (form.reset(seed=4) for form in forms)
    assert exact(a) == exact(b)
    kept = []
    for _ in range(40):
        action = forms[0].core.sample_action()
        one, other = (form.step(action) for form in forms)
        assert exact(one[:4]) == exact(other[:4])
        assert one[4].keys() == other[4].keys()
        for key in one[4]:
            assert exact(list(one[4][key])) == exact(list(other[4][key]))
        assert exact(forms[0].last) == exact(forms[1].last)
        kept.append((other[:4], copy.deepcopy(other[:4])))
        if mode == "Disabled" and (over := one[2] | one[3]).any():
            for form in forms:
                form.reset(options={"reset_mask": over})
    assert all(exact(now) == exact(then) for now, then in kept)  # later steps change nothing


# Bad input: an error that names the lane and the leaf, and the batch as it was.


@every_wrapper
@every_model
def test_bad_actions_leave_the_batch_as_it_was(around, make):
    batch = envoi.batch(around(make()), N, compiled=True)
    batch.reset(seed=0)
    batch.step(batch.sample_action())
    good, before = batch.sample_action(), exact(batch.state)
    twin = copy.deepcopy(batch)
    with pytest.raises(SpecError, match="action: expected dtype"):
        batch.step(np.full(good.shape, "left"))
    if good.dtype.kind == "i":
        with pytest.raises(SpecError, match="action: expected dtype"):
            batch.step(good.astype(float))
        for wrong in (7, -9, 2**62, -(2**62)):
            with pytest.raises(SpecError, match=f"got {wrong} in lane 2"):
                batch.step(np.where(np.arange(N) == 2, wrong, good))
    assert exact(batch.state) == before
    over = None
    for _ in range(8):  # up to the limit
        over = step_both(twin, batch, over)
    assert exact(batch.state) != before


def test_a_restarted_lanes_action_is_not_looked_at():
    batch = envoi.batch(Pole(), 2, compiled=True)
    batch.reset(seed=0)
    step = batch.step(np.array([99, 1]), restart=np.array([True, False]))
    assert step.reward.tolist() == [0, 1]


@every_model
def test_arrays_of_other_dtypes_and_layouts_give_the_same(make):
    one, other = pair(make)
    play(one, other, 0, 3)
    action, over = one.sample_action(), None
    kinds = [np.int32, np.int8] if action.dtype.kind == "i" else [np.float64]
    for changed in [*(action.astype(kind) for kind in kinds), action.tolist(), np.repeat(action, 2, 0)[::2]]:
        step = one.step(changed, over)
        same(step, other.step(changed, over))
        over = step.terminated
    held = np.zeros((N, 3), bool)
    held[1, 2] = True
    readonly = held[:, 2].copy()
    readonly.flags.writeable = False
    for mask in (held[:, 2], held[::-1, 2], np.broadcast_to(True, N), np.broadcast_to(False, N), readonly):
        reset_both(one, other, over)
        over = step_both(one, other, mask, in_kernel=True)
    for _ in range(2):  # all lanes
        over = reset_both(one, other)
        step_both(one, other, in_kernel=True)


@pytest.mark.parametrize("make", [Pole, Pendulum])
def test_a_step_before_a_reset_or_after_an_end_is_refused(make):
    batch = envoi.TimeLimit(envoi.batch(make(), 2, compiled=True), 1)
    action = batch.sample_action()
    with pytest.raises(EpisodeError, match="reset"):
        batch.step(action)
    batch.reset(seed=0)
    assert batch.step(action).truncated.all()
    with pytest.raises(EpisodeError, match=r"lanes \[0, 1\]"):
        batch.step(action)


# What cannot be compiled.


class Odd(Pole):
    def transition(self, state, action, rng):
        return state._replace(speed=rng.laplace())


@pytest.mark.parametrize("make", [envoi.compiled, lambda model: envoi.batch(model, 2, compiled=True)])
def test_a_model_with_its_own_step_is_not_compiled(make):
    class Doubled(Pole):
        def step(self, action):
            step = super().step(action)
            return step._replace(reward=2 * step.reward)

    with pytest.raises(NotCompilable, match=r"Doubled\.step: a kernel would not call it"):
        make(Doubled())


def test_batch_models_step_in_numpy():
    reason = r"Sums is a BatchModel, which steps in numpy; only scalar models \(envoi\.Model\) compile"
    for make in (envoi.compiled, lambda model: envoi.batch(envoi.TimeLimit(model, 3), 2, compiled=True)):
        with pytest.raises(NotCompilable, match=reason):
            make(Sums())
    for compiled in ("auto", False):
        assert type(envoi.batch(Sums(), 2, compiled=compiled)) is ModelBatch


def test_auto_interprets_what_cannot_be_compiled():
    batch = envoi.batch(Odd(), 3)
    batch.choice.spent, batch.choice.limit = 60.0, 0.0
    batch.reset(seed=0)
    batch.step(np.zeros(3, int))
    assert not batch.choice.is_open
    assert "laplace" in batch.choice.reason


@every_wrapper
def test_auto_changes_to_the_kernel_within_an_episode(around):
    envoi.batch(Pole(), 3, compiled=True)  # now it is on disk
    one, other = (envoi.batch(around(Pole()), 3, compiled=compiled) for compiled in (False, "auto"))
    same(one.reset(seed=0), other.reset(seed=0))
    over = np.zeros(3, bool)
    for number in range(40):
        if number == 5:
            batch = getattr(other, "env", other)
            assert batch.choice.is_open
            batch.choice.limit = 0.0
        over = step_both(one, other, over, in_kernel=number > 5)


@pytest.mark.parametrize("make", [Pole, *BUNDLED.values()])
def test_a_compiled_model_alone_is_the_model(make):
    env = envoi.compiled(make())
    assert trace(env, 60, 3) == trace(make(), 60, 3)
    assert trace(copy.deepcopy(env), 20, 4) == trace(make(), 20, 4)
    env.reset(seed=0)
    held, action = env.snapshot(), env.sample_action()
    after = env.step(action)
    env.restore(held)
    assert exact(env.step(action)) == exact(after)


def test_a_compiled_model_continues_from_a_state_that_is_set():
    env, model = envoi.compiled(Pole()), Pole()
    for one in (env, model):
        one.reset(seed=0)
        one.state = one.state._replace(position=1.0)
    assert exact(env.step(1)) == exact(model.step(1))
    env.rewarder = lambda state, action, next_state: next_state.position
    assert env.step(1).reward == env.state.position


def test_a_copy_has_a_kernel_from_its_first_step(monkeypatch):
    env = copy.deepcopy(envoi.compiled(Pole()))
    env.reset(seed=0)
    for _ in range(2):
        env.step(0)
        assert env.lanes.has_kernel
    monkeypatch.delattr(envoi.CompiledModel.__base__, "step_alone")
    assert env.step(1).reward == 1.0


@every_wrapper
@pytest.mark.parametrize("make", [envoi.compiled, lambda env: envoi.batch(env, 2, compiled=True)])
def test_explain_shows_the_kernel(around, make):
    env, call = make(around(Pole())), "new = transition(own, state, action, dynamics)"
    assert call in envoi.explain(env)
    env.rewarder = lambda state, action, next_state: 1.0
    text = envoi.explain(env)
    assert call not in text
    assert "in a kernel" not in text
    assert "observe(" not in envoi.explain(envoi.batch(around(Pole()), 2, compiled=False))


def test_compiled_models_have_names():
    env, plain = (to_gymnasium(load(f"envoi:cartpole{end}")) for end in ("?compiled=true", ""))
    for one in (env, plain):
        one.reset(seed=1)
    for action in (0, 1, np.int64(1), np.int32(0)):
        assert exact(env.step(action)) == exact(plain.step(action))
    with pytest.raises(SpecError, match="action"):
        env.step(5)


def test_without_numba_batches_are_interpreted(monkeypatch):
    monkeypatch.setattr("envoi.compiling.choice.has_numba", lambda: False)
    assert not envoi.batch(Pole(), 2).choice.is_open
    with pytest.raises(NotCompilable, match=r"pip install 'envoi\[numba\]'"):
        envoi.batch(Pole(), 2, compiled=True)


@pytest.mark.parametrize(("compiled", "module"), [("'auto'", "numba"), ("True", "numba.np.arraymath")])
def test_numba_is_not_imported_before_it_compiles(compiled, module):
    envoi.batch(CartPole(), 2, compiled=True)  # now it is on disk
    code = f"import sys, envoi; batch = envoi.batch(envoi.models.CartPole(), 2, compiled={compiled})"
    code += f"; batch.reset(); batch.step([1, 0]); sys.exit('{module}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Reader(Steps):
    """Reads a table by the action, which may lie out of its bounds."""

    action_spec = envoi.Array((), "int64")
    table = np.arange(10) * 2

    def transition(self, state, action, rng):
        return int(self.table[action])

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return math.tan(next_state * 0.1)


def test_an_index_outside_an_array_changes_nothing():
    batch = envoi.TimeLimit(envoi.batch(Reader(), n := 24, compiled=True), 3)
    batch.reset(seed=0)
    assert batch.step(np.resize([1, -1, 9], n)).observation.tolist() == [2, 18, 18] * 8
    for wrong in (10, -11, 2**60):
        with pytest.raises(IndexError):
            batch.step(np.where(np.arange(n) == 2, wrong, 0), np.arange(n) == 0)
    assert batch.state == (2, 18, 18) * 8
    step = batch.step(np.full(n, 3))
    assert step.reward.tolist() == [math.tan(6 * 0.1)] * n
    assert batch.step(np.full(n, 3)).truncated.all()  # the refused steps count for nothing


DAMAGES = {
    "empty": lambda code: b"",
    "garbage": lambda code: b"garbage",
    "a wrong byte": lambda code: code.replace(b"ELF", b"\xccLF"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_machine_code_on_disk_is_compiled_again(tmp_path, monkeypatch, damage):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = []
    make = lambda: compiled.append(1) or (twice, [1])  # noqa: E731
    for count in (1, 1, 2, 2):
        for file in tmp_path.rglob("*.kernel") if count > len(compiled) else ():
            file.write_bytes(DAMAGES[damage](file.read_bytes()))
        assert kernel_of("twice", "Twice", make, {})(21) == 42
        assert len(compiled) == count


def twice(x):
    return 2 * x


def test_a_changed_model_has_another_kernel():
    class Other(Reader):
        table = np.arange(10) * 3

    envoi.batch(Reader(), 2, compiled=True)  # of the same loops
    batch = envoi.batch(Other(), 2, compiled=True)
    batch.reset(seed=0)
    assert batch.step(np.array([1, 2])).observation.tolist() == [3, 6]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_models_of_other_dtypes_have_other_kernels(dtype):
    class Same(Pole):
        observation_spec = envoi.Array((4,), dtype)

        def observe(self, state, rng):
            return np.array([state.position, state.speed, state.angle, state.spin], np.float64)

    batch = envoi.batch(Same(int(dtype == "float64")), 3, compiled=True)
    batch.reset(seed=0)
    assert batch.step(np.array([0, 1, 0])).observation.dtype == dtype


@pytest.mark.parametrize("make", [Pole, *BUNDLED.values()])
def test_a_single_lane_through_a_form_is_the_same(make):
    model = envoi.TimeLimit(make(), 9)
    form, plain = to_gymnasium(envoi.compiled(model)), to_gymnasium(model)
    kept = []
    for number in range(60):
        if number % 20 == 0:
            assert exact(form.reset(seed=number)) == exact(plain.reset(seed=number))
            over = False
        if over:
            assert exact(form.reset()) == exact(plain.reset())
        action = form.action_space.sample()
        one, other = form.step(action), plain.step(action)
        assert exact((one[0], *one[2:])) == exact((other[0], *other[2:]))
        assert exact(np.asarray(one[1])) == exact(np.asarray(other[1]))
        kept.append((one, copy.deepcopy(one)))
        over = one[2] or one[3]
    assert all(exact(now) == exact(then) for now, then in kept)


def test_bad_actions_of_a_single_lane_change_nothing():
    form = to_gymnasium(envoi.compiled(Pole()))
    form.reset(seed=0)
    form.step(1)
    before = exact(form.core.state)
    for wrong in (2, -1, 2**80, 0.5, np.float64(1), np.array([1]), np.int64(7), "left", [0, 1]):
        with pytest.raises((SpecError, OverflowError)):
            form.step(wrong)
        assert exact(form.core.state) == before
    for right in (1, True, np.int64(1), np.int32(1), np.uint8(1), np.array(1), np.array(1, np.int8)):
        assert len(form.step(right)) == 5
        form.reset(seed=0)


needs_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="gives folders to another user")


UNSAFE = {
    "others may write": lambda envoi: kernels(envoi).chmod(0o777),
    "others may write above": lambda envoi: kernels(envoi).parent.chmod(0o777),
    "a file": lambda envoi: envoi.write_text(""),
    "of another user": lambda envoi: os.chown(kernels(envoi), 12345, 12345),
    "a link to another user's": lambda envoi: (os.chown(kernels(envoi), 12345, 12345), linked(envoi)),
}
"""Ways to spoil the folder `envoi` of the user's cache."""


def kernels(folder):
    (folder / "kernels").mkdir(parents=True)
    return folder / "kernels"


def linked(folder):
    (folder / "kernels").rename(folder.parent / "theirs")
    (folder / "kernels").symlink_to(folder.parent / "theirs")


@pytest.mark.parametrize("what", [pytest.param(what, marks=[needs_root] * ("user" in what)) for what in UNSAFE])
def test_kernels_are_kept_where_no_other_user_writes(what, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    UNSAFE[what](tmp_path / "envoi")
    assert cache_folder() is None
    assert kernel_of("twice", "Twice", lambda: (twice, [1]), {})(21) == 42
    assert list(tmp_path.rglob("*.kernel")) == []


def test_a_private_folder_of_kernels_is_used(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "envoi" / "kernels"


class Positive(Steps):
    """Its dynamics hold for allowed actions alone, and 0 is none of them."""

    observation_spec = envoi.Array((1,), "float32")
    action_spec = envoi.Array((1,), "float32", 0.5, 1.0)

    def initial(self, rng, context):
        return 0.0

    def transition(self, state, action, rng):
        return state - math.log(float(action[0]))

    def observe(self, state, rng):
        return np.array([state], np.float32)

    def terminal(self, state):
        return state > 2.0


def test_a_kernel_needs_no_action_that_is_forbidden():
    play(*pair(Positive), steps=20, seed=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_lanes_take_bools_for_integers(compiled):
    numbers, bools = (envoi.batch(CartPole(), N, compiled=compiled) for _ in range(2))
    observation = numbers.reset(seed=0).observation
    bools.reset(seed=0)
    for _ in range(5):
        over = observation[:, 2] > 0
        observation = numbers.step(over.astype(int)).observation
        with interpreted(bools) as found:
            assert (bools.step(over).observation == observation).all()
        assert bool(found) is not compiled
