"""A batch with workers is its lanes, whatever becomes of the processes."""

import copy
import inspect
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Count, Story, Walk
from traces import exact, trace

import envoi
from envoi import EpisodeError, SnapshotUnsupported, SpecError, WorkerError

# pytest-xdist has threads in each of its processes, so that CPython warns of every fork from 3.12 on.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

N = 5


class Stroll(Walk):
    """A walk that ends after 40 steps and not before, and knows its lane."""

    lane = -1

    def terminal(self, state):
        return False

    def assign_lane(self, number):
        self.lane = number


class Trouble(Stroll):
    """A walk in which one action, in some lanes, does what the test wants; see `trouble`."""

    def __init__(self, what="raise", where=(3,)):
        self.what, self.where = what, where

    def transition(self, state, action, rng):
        if self.lane in self.where and state.time == 2:
            trouble(self.what)
        return super().transition(state, action, rng)


def trouble(what):
    if what == "raise":
        raise ZeroDivisionError("the pole broke")
    if what == "exit":
        os._exit(3)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def limited():
    return envoi.TimeLimit(Walk(), 7)


def with_workers(make, n=N, workers=2, **settings):
    return envoi.batch(make, n, workers=workers, start_method=settings.pop("start_method", "fork"), **settings)


def in_a_loop(make, n=N):
    lanes = envoi.Lanes([make() for _ in range(n)])
    lanes.assign_lane(0)
    return lanes


def started(batch):
    """Returns a batch after two steps; in the third, `Trouble` begins."""
    batch.reset(seed=0)
    for _ in range(2):
        batch.step(np.zeros(N, int))
    return batch


@pytest.fixture(scope="module")
def walks():
    with with_workers(Walk) as batch:
        yield batch


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32) | st.lists(st.integers(0, 99), min_size=N, max_size=N))
def test_workers_have_the_traces_of_a_loop(walks, seed):
    assert trace(walks, 60, seed) == trace(in_a_loop(Walk), 60, seed)


def test_leaves_that_are_no_arrays_arrive():
    with with_workers(Story, 3) as batch:
        loop = in_a_loop(Story, 3)
        assert exact(batch.reset(seed=0)) == exact(loop.reset(seed=0))
        over = np.zeros(3, bool)
        for time_ in range(20):
            actions = {"word": tuple("ab"[: 1 + (lane + time_) % 2] for lane in range(3)), "turn": (np.arange(3), {})}
            step, own = batch.step(actions, restart=over), loop.step(actions, restart=over)
            assert exact(step) == exact(own)
            over = step.terminated | step.truncated
        assert exact(batch.state) == exact(loop.state)


def test_some_lanes_pause_or_are_reset(walks):
    loop, rng, over = in_a_loop(Walk), np.random.default_rng(0), np.zeros(N, bool)
    assert exact(walks.reset(seed=8)) == exact(loop.reset(seed=8))
    for _ in range(30):
        lanes = rng.integers(0, 2, N).astype(bool) & ~over
        actions = rng.integers(-1, 2, N)
        step, own = walks.step(actions, hold=~lanes), loop.step(actions, hold=~lanes)
        assert exact(step) == exact(own)
        over |= step.terminated | step.truncated
    assert exact(walks.reset(mask=over, seed=[7] * N)) == exact(loop.reset(mask=over, seed=[7] * N))
    assert exact(walks.observation) == exact(loop.observation)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 99), order=st.randoms(use_true_random=False))
def test_lanes_that_are_sent_have_their_own_traces(walks, seed, order):
    lane_seeds = list(range(seed, seed + N))
    walks.reset(seed=lane_seeds)
    alone = [envoi.Lanes([Walk()]) for _ in range(N)]
    for env, own in zip(alone, lane_seeds, strict=True):
        env.reset(seed=[own])
    over, idle, steps, given = np.zeros(N, bool), list(range(N)), [0] * N, []
    while min(steps) < 45:
        order.shuffle(idle)
        lanes = np.array(idle[: order.randint(1, len(idle))])
        idle = [lane for lane in idle if lane not in lanes]
        walks.send(lanes % 3 - 1, lanes, over[lanes])
        got, step = walks.recv()
        assert len(got) >= 1
        for index, lane in enumerate(got.tolist()):
            own = alone[lane].step(np.array([lane % 3 - 1]), over[[lane]])
            mine = envoi.tree.map_leaves(lambda leaf, index=index: leaf[[index]], tuple(step[:5]))
            assert exact(mine) == exact(tuple(own[:5]))
            assert exact(step.info[index]) == exact(own.info[0])
            over[[lane]] = own.terminated | own.truncated
            steps[lane] += 1
        idle += got.tolist()
        given.append((step[:5], exact(step[:5])))
    assert all(exact(now) == then for now, then in given)  # later steps change nothing
    walks.reset(seed=0)  # drops what is still under way


class Slow(Stroll):
    """Lane 0 sleeps."""

    def transition(self, state, action, rng):
        if self.lane == 0 and state.time > 0:
            time.sleep(0.5)
        return super().transition(state, action, rng)


def test_calls_out_of_order_say_so(walks):
    walks.reset(seed=0)
    send, step, recv = walks.send, walks.step, walks.recv
    with pytest.raises(EpisodeError, match="recv: expected 1 to 0 lanes"):
        recv()
    for lanes, text in (
        ([1, 1], "different indices below 5"),
        ([2, 5], "different indices below 5"),
        (np.ones(5, bool), "indices of lanes, at least one"),
        ([1], "action: expected one for each of 1 lanes, got 2"),
    ):
        with pytest.raises(SpecError, match=text):
            send(np.zeros(2, int), lanes)
    send(np.zeros(2, int), [1, 4])
    for call, text in (
        (partial(send, np.zeros(2, int), [4, 2]), r"send: lanes \[4\] have been sent"),
        (partial(step, np.zeros(N, int)), r"step: lanes \[1, 4\] have been sent"),
        (partial(step, np.zeros(N, int), hold=np.ones(N, bool)), r"step: lanes \[1, 4\] have been sent"),
        (partial(recv, 3), "recv: expected 1 to 2 lanes"),
    ):
        with pytest.raises(EpisodeError, match=text):
            call()
    lanes, received = recv(2)
    loop = envoi.Lanes([Walk() for _ in range(N)])
    loop.reset(seed=0)
    assert exact(received.reward) == exact(loop.step(np.zeros(N, int)).reward[lanes])
    with pytest.raises(SpecError, match="action: expected"):
        step(np.zeros(N + 1, int))


def test_an_error_has_its_lane_and_loses_no_step():
    with with_workers(Trouble, workers=N, timeout=10) as batch:
        text = r"lane 3: (.|\n)*trouble\(self.what\)(.|\n)*the pole broke"
        started(batch)
        with pytest.raises(WorkerError, match=f"step: {text}") as caught:
            batch.step(np.zeros(N, int))
        assert caught.value.lane == 3
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert "Lanes that did not fail have made this step" in str(caught.value)
        started(batch)
        batch.send(np.zeros(N, int), np.arange(N))
        time.sleep(0.3)  # so that all answers are there at once
        with pytest.raises(WorkerError, match=text):
            batch.recv(N)
        assert sorted(batch.recv(N - 1).lanes.tolist()) == [0, 1, 2, 4]
        assert batch.reset(seed=0).observation["time"].tolist() == [0] * N


def test_lanes_that_end_while_another_fails_have_ended():
    with with_workers(lambda: envoi.TimeLimit(Trouble(), 3)) as batch:
        with pytest.raises(WorkerError, match="the pole broke"):
            started(batch).step(np.zeros(N, int))
        with pytest.raises(EpisodeError, match=r"step: in lanes \[0, 1, 2, 4\], the episode has ended"):
            batch.step(np.zeros(N, int))


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("exit", "ended with exit code 3"),
        ("kill", "ended with signal SIGKILL"),
        ("hang", r"hangs: no answer in 0.5 s(.|\n)*in trouble"),
    ],
)
def test_a_process_that_fails_is_an_error(what, text):
    with with_workers(partial(Trouble, what), timeout=0.5) as batch:
        started(batch)
        with pytest.raises(WorkerError, match=rf"lane 3 of worker 1 \(lanes 3 to 4.*{text}") as caught:
            batch.step(np.zeros(N, int))
        assert caught.value.lane == 3
        with pytest.raises(WorkerError, match=text):
            batch.reset(seed=0)


@pytest.mark.parametrize(
    ("what", "where", "lost"),
    [("raise", (3,), [3]), ("raise", (0, 1), [0, 1]), ("kill", (3,), [3, 4]), ("hang", (3,), [3, 4])],
)
def test_lanes_that_fail_begin_again_if_asked(what, where, lost):
    with with_workers(partial(Trouble, what, where), restart=True, timeout=0.5) as batch:
        batch.rewarder = seven
        batch.context = {"drift": [0.1, 0.2, 0.3, 0.4, 0.5]}
        batch.envs[3].note = "by hand"
        loop = in_a_loop(Stroll)
        loop.context = batch.context
        started(loop)
        before = started(batch).observation
        with pytest.warns(UserWarning, match=rf"lanes {re.escape(str(lost))} have new environments"):
            step = batch.step(np.zeros(N, int))
        assert np.flatnonzero(step.truncated).tolist() == lost
        others = np.setdiff1d(np.arange(N), lost)
        own = loop.step(np.zeros(N, int))
        for lane in range(N):
            position = before["position"] if lane in lost else own.observation["position"]
            assert exact(step.observation["position"][lane]) == exact(position[lane])
            assert ("worker_restarted" in step.info[lane]) == (lane in lost)
        with pytest.raises(EpisodeError, match="has ended"):
            batch.step(np.zeros(N, int))
        begun = batch.step(np.zeros(N, int), restart=step.truncated)
        assert begun.observation["time"][lost].tolist() == begun.reward[lost].tolist() == [0] * len(lost)
        assert begun.observation["time"][others].tolist() == [4] * len(others)
        assert batch.step(np.zeros(N, int)).reward.tolist() == [7.0] * N
        assert batch.context["drift"] == [0.1, 0.2, 0.3, 0.4, 0.5]
        assert (batch.envs[3].lane, batch.envs[3].note) == (3, "by hand")


@pytest.mark.parametrize("what", ["raise", "kill"])
def test_a_lost_lane_begins_while_others_act(what):
    with with_workers(partial(Trouble, what), restart=True) as batch:
        started(batch)
        batch.send(np.zeros(N, int), np.arange(N))
        with pytest.warns(UserWarning, match="new environments"):
            lanes, step = batch.recv(N)
        lost = set(lanes[step.truncated].tolist())
        assert 3 in lost <= {3, 4}  # lane 4 of the same worker may have been done before
        batch.send(np.zeros(3, int), [0, 1, 2])
        batch.send(np.zeros(1, int), [3], np.ones(1, bool))
        lanes, step = batch.recv(4)
        found = zip(lanes.tolist(), step.observation["time"].tolist(), strict=True)
        assert sorted(found) == [(0, 4), (1, 4), (2, 4), (3, 0)]


def seven(state, action, next_state):
    return 7.0


def test_snapshots_rewarders_and_contexts_reach_lanes():
    with with_workers(Stroll) as batch:
        batch.context = {"drift": [0.1, 0.2, 0.3, 0.4, 0.5]}
        batch.put_context({"drift": [0.9]}, [2])
        assert batch.context["drift"] == [0.1, 0.2, 0.9, 0.4, 0.5]
        assert batch.context_space == Walk.context_space
        batch.reset(seed=1)
        batch.step(np.zeros(N, int))
        held, seen = batch.snapshot(), exact(batch.observation)
        future = [exact(batch.step(np.ones(N, int))) for _ in range(3)]
        batch.restore(held)
        assert exact(batch.observation) == seen
        assert [exact(batch.step(np.ones(N, int))) for _ in range(3)] == future
        batch.rewarder = seven
        assert batch.step(np.zeros(N, int)).reward.tolist() == [7.0] * N
        assert batch.envs[1].context["drift"] == 0.2
        with pytest.raises(AttributeError, match="no_such"):
            _ = batch.envs[1].no_such
        with pytest.raises(SnapshotUnsupported, match="other processes"):
            copy.deepcopy(batch)


@pytest.mark.filterwarnings("ignore:reward. precision narrowed")
def test_forms_of_other_frameworks_step_workers():
    from envoi.adapters import to_gymnasium_vector, to_sb3  # not above, because spawned workers import this module

    with with_workers(limited, 4) as batch:
        form, own = to_gymnasium_vector(batch), to_gymnasium_vector(in_a_loop(limited, 4))
        np.testing.assert_equal(form.reset(seed=3), own.reset(seed=3))
        for _ in range(15):
            np.testing.assert_equal(form.step(np.zeros(4, int)), own.step(np.zeros(4, int)))
        assert form.call("context") == own.call("context")
    with with_workers(envoi.models.CartPole, 4) as batch:
        sb3 = to_sb3(batch)
        assert sb3.reset().shape == (4, 4)
        assert sb3.step(np.zeros(4, int))[0].shape == (4, 4)


def broken():
    raise ValueError("no display")


def test_what_cannot_be_lanes_is_an_error(tmp_path):
    with pytest.raises(WorkerError, match=r"(.|\n)*no display"):
        with_workers(broken)
    with pytest.raises(SpecError, match=r"lane \d: observation"):
        with_workers(partial(uneven, tmp_path / "first"))


def uneven(flag):
    """Returns another environment at the first call for a file, over all processes."""
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return Walk()
    return Story()


def held():
    """The processes and the shared memory of this process."""
    memory = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm/psm_" in line]
    return {str(child.pid) for child in multiprocessing.active_children()} | set(memory)


def left(names):
    return [name for name in names if Path("/proc", name).exists()]  # a number or an absolute path


def test_closing_ends_processes_and_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = held()
    batch = with_workers(Walk)
    mask = np.arange(N) < 2
    for call in (lambda: batch.step(np.zeros(N, int)), lambda: batch.reset(mask=mask), lambda: batch.observation):
        with pytest.raises(EpisodeError, match="has not begun"):
            call()
    batch.reset(seed=0)
    batch.send(np.zeros(2, int), [0, 1])
    mine = held() - before
    assert len(mine) == 3
    assert len(list(tmp_path.iterdir())) == 1
    batch.close()
    batch.close()
    assert not left(mine)
    assert not list(tmp_path.iterdir())
    for call in (batch.reset, partial(batch.step, np.zeros(N, int))):
        with pytest.raises(EpisodeError, match=r"^(reset|step): the batch is closed"):
            call()


SCRIPT = """
import multiprocessing, os, signal, time
from pathlib import Path
import numpy as np
import envoi
from small_models import Count, Walk

{held}

if __name__ == "__main__":
    batch = envoi.batch(Walk, 4, workers=2, start_method="spawn")
    batch.reset(seed=0)
    batch.step(np.zeros(4, int))
    batch.send(np.zeros(2, int), [0, 1])
    print(*held(), flush=True)
    {end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("pass", 0),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -signal.SIGINT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
    ids=["exit", "ctrl-c", "killed"],
)
def test_a_program_that_ends_leaves_nothing(end, code, tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "files"
    script.write_text(SCRIPT.format(held=inspect.getsource(held), end=end))
    folder.mkdir()
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode in (code, 128 - code, 130 if code == -signal.SIGINT else code), done.stderr
    names = done.stdout.split()
    assert len(names) == 3
    if code == -signal.SIGKILL:  # the processes end by themselves then, and the system removes the memory
        end = time.monotonic() + 20
        while left(names) and time.monotonic() < end:
            time.sleep(0.05)
    assert not left(names)
    assert not list(folder.iterdir())
    if code != -signal.SIGKILL:
        assert "leaked" not in done.stderr
        assert "Exception ignored" not in done.stderr


def test_a_slow_lane_holds_up_no_other_and_can_be_interrupted():
    with with_workers(Slow, 4, 2) as batch:
        batch.reset(seed=0)
        batch.step(np.zeros(4, int))
        batch.send(np.zeros(4, int), [0, 1, 2, 3])
        lanes, step = batch.recv(2)
        assert set(lanes.tolist()) == {2, 3}
        assert step.observation["time"].tolist() == [2, 2]
        batch.send(np.zeros(2, int), lanes, step.terminated | step.truncated)
        assert 0 not in batch.recv(2).lanes
        assert sorted(batch.recv(2).lanes.tolist()) == [0, 1]
        interrupt_after(0.1)
        with pytest.raises(KeyboardInterrupt):
            batch.step(np.zeros(4, int))
        with pytest.raises(EpisodeError, match="has not begun"):
            batch.step(np.zeros(4, int))
        assert exact(batch.reset(seed=0)) == exact(in_a_loop(Slow, 4).reset(seed=0))


def interrupt_after(seconds):
    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)


class Echo(Count):
    """It counts steps in many places, its infos are as large as its actions, and "wait" makes it hang."""

    observation_spec = envoi.Array((500,), "int64")
    action_spec = envoi.Text(10**7)

    def initial(self, rng, context):
        return (0, "")

    def transition(self, state, action, rng):
        if action == "wait":
            trouble("hang")
        return (state[0] + 1, action)

    def observe(self, state, rng):
        return np.full(500, state[0])

    def info(self, state):
        return {"word": state[1]}


LARGE = "x" * 5_000_000


@pytest.mark.parametrize("timeout", [None, 0.5])
def test_messages_may_be_larger_than_a_pipe(timeout):
    with with_workers(Echo, 3, 1, timeout=timeout) as batch:
        batch.reset(seed=0)
        for lane in range(3):
            batch.send((LARGE,), [lane])
        assert [info["word"] for info in batch.recv(3).step.info] == [LARGE] * 3
        if timeout is not None:  # a worker that reads nothing hangs
            batch.send(("wait",), [1])
            batch.send((LARGE,), [0])
            with pytest.raises(WorkerError, match=r"lane 1 of worker 0 .* hangs: no answer in 0.5 s"):
                batch.recv(2)


@pytest.mark.parametrize("restart", [False, True])
def test_a_ctrl_c_within_a_message_ends_its_worker(restart):
    with with_workers(Echo, 2, 1, restart=restart, timeout=60) as batch:
        batch.reset(seed=0)
        batch.send(("wait",), [1])
        interrupt_after(0.5)
        with pytest.raises(KeyboardInterrupt):
            batch.send((LARGE,), [0])
        if restart:
            with pytest.warns(UserWarning, match=r"lanes \[0, 1\] have new environments"):
                batch.reset(seed=0)
            batch.step(("", ""))
        else:
            with pytest.raises(WorkerError, match="Ctrl-C cut a message off"):
                batch.reset(seed=0)


def in_threads(*functions):
    """Calls functions in threads of their own, which switch often, and returns their errors."""
    errors = []

    def call(function):
        try:
            function()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(function,)) for function in functions]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    return errors


def test_threads_that_share_a_batch_take_turns():
    with with_workers(Echo, 4, timeout=20) as batch:
        batch.reset(seed=0)
        found = []

        def play():
            found.extend(batch.step(("",) * 4).observation for _ in range(30))

        def look():
            found.extend(batch.observation for _ in range(30))
            batch.snapshot()

        assert in_threads(play, play, look) == []
        assert all(np.ptp(seen) == 0 for seen in found)
        assert batch.step(("",) * 4).observation.max() == 61


def test_a_close_reaches_other_threads():
    batch = with_workers(Echo, 2)
    batch.reset(seed=0)
    (error,) = in_threads(partial(batch.step, ("wait", "")), lambda: (time.sleep(0.3), batch.close()))
    assert isinstance(error, EpisodeError)
    assert "closed" in str(error)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_every_start_method_gives_the_same_lanes_in_a_thread(method):
    found = []

    def play():
        # An environment, whose class is in a module of its own: other processes need not find this one.
        with with_workers(envoi.TimeLimit(Walk(), 7), start_method=method) as batch:
            found.append(trace(batch, 25, 1))

    assert in_threads(play) == []
    assert found == [trace(in_a_loop(limited), 25, 1)]
