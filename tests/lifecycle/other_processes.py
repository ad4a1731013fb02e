"""Continues environments in other processes, by a start method; a script, because pytest's own process has threads.

    python tests/lifecycle/other_processes.py fork|spawn|forkserver plain|compiled

It prints nothing, and ends with an error if a process has other values than this one.
"""

import multiprocessing
import os
import sys
from contextlib import suppress
from pathlib import Path

import cloudpickle
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import compiled_models
import small_models

import envoi

TIMEOUT = 60


def limited(model):
    return envoi.TimeLimit(envoi.History(envoi.RunStats(model), 2), 6)


PLAIN = {
    "model": small_models.Walk,
    "wrapped": lambda: limited(small_models.Walk()),
    "lanes": lambda: envoi.batch(small_models.Walk(), 3, compiled=False),
    "wrapped batch": lambda: limited(envoi.batch(small_models.Flock(), 3, compiled=False)),
    "several": envoi.models.Pursuit,
}
COMPILED = {"compiled": lambda: envoi.batch(compiled_models.Pole(), 3, compiled=True)}


def begun(env):
    """Begins an episode, and takes two steps if it is as long."""
    env.reset(seed=1)
    with suppress(envoi.EpisodeError):
        for _ in range(2):
            step(env)
    return env


def step(env):
    """Takes a step with an action of the environment's own stream."""
    return env.step(env.sample_actions() if isinstance(env, envoi.MultiEnv) else env.sample_action())


def values(env):
    """The next three steps, or as many as there are, as text that shows every bit of their numbers."""
    shown = []
    with np.printoptions(floatmode="unique", threshold=sys.maxsize):
        for _ in range(3):
            try:
                shown.append(repr(step(env)))
            except envoi.EpisodeError as error:
                shown.append(str(error))
    return shown


def inherited(env, pipe):
    pipe.send(values(env))


def unpickled(parcel, pipe):
    pipe.send(values(cloudpickle.loads(parcel)))


def check(name, make, method):
    """Compares an environment in this process and in another."""
    env = begun(make())
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    parcel = cloudpickle.dumps(env)
    # A fork has the environment itself.
    target, held = (inherited, env) if method == "fork" else (unpickled, parcel)
    process = context.Process(target=target, args=(held, there))
    process.start()
    own = values(env)  # at the same time, so that each must have streams of its own
    assert here.poll(TIMEOUT), f"{name}: the other process says nothing"
    found = here.recv()
    process.join(TIMEOUT)
    assert process.exitcode == 0, f"{name}: {process.exitcode}"
    assert found == own, f"{name}:\n{found}\n{own}"
    assert values(cloudpickle.loads(parcel)) == own, name


def use_workers(lanes, pipe):
    try:
        lanes.step(lanes.sample_action())
    except envoi.WorkerError as error:
        pipe.send(str(error))


def check_workers(method):
    """A batch in workers belongs to the process that made it; a fork of that is refused, and closes nothing."""
    before = shared_memory()
    loop = begun(envoi.batch(small_models.Walk, 2, compiled=False))
    lanes = begun(envoi.batch(small_models.Walk, 2, workers=2, start_method=method))
    if method == "fork":
        context = multiprocessing.get_context(method)
        here, there = context.Pipe()
        process = context.Process(target=use_workers, args=(lanes, there))
        process.start()
        assert here.poll(TIMEOUT)
        assert f"the lanes belong to process {os.getpid()}" in here.recv()
        process.join(TIMEOUT)
        assert process.exitcode == 0
    assert values(lanes) == values(loop)
    lanes.close()
    assert shared_memory() <= before, "shared memory is left over"


def shared_memory():
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir() if path.name.startswith("psm_")} if folder.exists() else set()


if __name__ == "__main__":
    chosen = sys.argv[1]
    envs = {"plain": PLAIN, "compiled": COMPILED}[sys.argv[2]]
    for one, maker in envs.items():
        check(one, maker, chosen)
    if envs is PLAIN:
        check_workers(chosen)
