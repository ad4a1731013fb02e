"""Environments in many threads: one in each, handed from one to another, and the first use of everything at once.

Threads switch after a microsecond here, so that calls of different threads do overlap.
"""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import core_subjects
import forms
import pytest
from traces import exact
from walks import CORES

import envoi

THREADS = 4

pytestmark = [
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.DroppedOptionsWarning"),
]


@pytest.fixture(autouse=True)
def _switching_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def together(function, arguments):
    """Returns the results of a function for each argument, in threads that begin at once."""
    barrier = threading.Barrier(len(arguments))

    def waiting(argument):
        barrier.wait(timeout=60)
        return function(argument)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(waiting, arguments))


def of_core(make, seed):
    """The trace of a core environment of its own."""
    env = make()
    reset = ("reset", seed, None, None)
    given = [exact(core_subjects.play(env, reset))]
    for action in range(12):
        try:
            given.append(exact(core_subjects.play(env, ("step", action, "right", None))))
        except envoi.EpisodeError:
            given.append(exact(core_subjects.play(env, ("reset", None, None, None))))
    return given


ENVS = {
    **{f"{kind}, {actions}": make for kind, each in CORES.items() for actions, make in each.items()},
    "wrapped": lambda: core_subjects.wrapped("five of them", "one"),
    "wrapped agents": lambda: core_subjects.wrapped("five of them", "several"),
    "wrapped lanes": lambda: core_subjects.wrapped("five of them", "batch"),
}


@pytest.mark.parametrize("name", ENVS)
def test_core_environments_in_threads_of_their_own_do_not_meet(name):
    seeds = list(range(THREADS))
    expected = [of_core(ENVS[name], seed) for seed in seeds]
    assert together(lambda seed: of_core(ENVS[name], seed), seeds) == expected


@pytest.mark.deep
@pytest.mark.parametrize("name", forms.FORMS)
def test_forms_and_imports_in_threads_of_their_own_do_not_meet(name):
    def traces(seed):
        seeds = (seed, None)
        return forms.native_trace(name, forms.made(name), seeds), forms.core_trace(forms.imported(name), seeds)

    seeds = list(range(THREADS))
    expected = [traces(seed) for seed in seeds]
    assert together(traces, seeds) == expected


@pytest.mark.deep
@pytest.mark.parametrize("name", forms.FORMS)
def test_a_form_continues_in_another_thread(name):
    seeds = (3, None, None)
    here, elsewhere, given = forms.made(name), forms.made(name), []
    for seed in seeds:
        thread = threading.Thread(target=lambda seed=seed: given.append(forms.native_trace(name, elsewhere, (seed,))))
        thread.start()
        thread.join()
    assert given == [forms.native_trace(name, here, (seed,)) for seed in seeds]


FIRST_USES = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
sys.setswitchinterval(1e-6)
sys.path.insert(0, {tests!r})
barrier = threading.Barrier(8)

def first(index):
    barrier.wait()
    import envoi
    from envoi.adapters import convert, from_env, load
    env = load("envoi:catch")
    form = convert(envoi.TimeLimit(envoi.RunStats(env), 6), ("gymnasium", "dm_env", "pettingzoo")[index % 3])
    core = from_env(form)
    import compiled_models
    lanes = envoi.batch(compiled_models.Breeze(), 2, compiled={compiled})
    first, step = lanes.reset(seed=1), lanes.step(lanes.sample_action())
    other = core.reset(seed=2)
    seen = other.observation if isinstance(core, envoi.Env) else next(iter(other.observations.values()))
    leaves = [*envoi.tree.leaves(first.observation), *envoi.tree.leaves(step.observation)]
    return repr((seen.tolist(), [leaf.tolist() for _, leaf in leaves]))

with ThreadPoolExecutor(8) as pool:
    found = set(pool.map(first, range(8)))
assert len(found) == 1, found
"""


@pytest.mark.parametrize(
    "compiled", [False, *(pytest.param(compiled, marks=pytest.mark.deep) for compiled in [False] * 5 + [True])]
)
def test_the_first_use_of_everything_at_once(compiled, tmp_path):
    """In a new interpreter, where eight threads compile the same model if `compiled`."""
    script = FIRST_USES.format(tests=str(Path(__file__).parents[1]), compiled=compiled)
    place = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    place["XDG_CACHE_HOME"] = str(tmp_path)  # an empty folder for the machine code
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=place)
    assert done.returncode == 0, done.stderr
