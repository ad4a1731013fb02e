"""The cost of a context for each episode, compared with CARL (Benjamins et al., 2023), in one process.

    python benchmarks/contexts.py [--rounds 31] [--only reset] [--json contexts.json]

Nanoseconds of this thread's CPU time that contexts add to one step or one reset: for CARL and our gymnasium form over
the gymnasium environment itself, for our core over that environment imported.

The last rows are batches whose lanes are reset as they end, each with a context of its own, beside batches without
contexts. CARL has no batches.
"""

from __future__ import annotations

import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

import gymnasium
import numpy as np
from measuring.loops import sampled, timed
from measuring.null_envs import EPISODE, NullGymnasium
from measuring.numpy_cartpole import ContextCartPoles
from measuring.rows import Case, Group, Pair
from measuring.script import run

import envoi
from envoi import Contextual
from envoi.adapters import from_gymnasium, to_gymnasium, to_gymnasium_vector

CONTEXTS = {index: {"m": 1.0 + index / 10, "g": 5.0 + index} for index in range(10)}
TORQUE = np.array([0.5], np.float32)


def full() -> dict:
    """Contexts with all features, which CARL needs, and we for an environment that no catalogue has."""
    with warnings.catch_warnings(record=True):  # of the environments for which something is not installed
        from carl.envs import CARLPendulum

    return {key: {**CARLPendulum.get_default_context(), **context} for key, context in CONTEXTS.items()}


def null():
    """A null environment with the attributes of a pendulum."""
    env = NullGymnasium()
    for name, value in next(iter(full().values())).items():
        setattr(env, name, value)
    return env


def carl_null(**options):
    from carl.envs import CARLPendulum
    from carl.envs.gymnasium.carl_gymnasium_env import CARLGymnasiumEnv

    class CARLNull(CARLGymnasiumEnv):
        get_context_features = staticmethod(CARLPendulum.get_context_features)

    return CARLNull(env=null(), contexts=full(), **options)


def pendulum():
    return gymnasium.make("Pendulum-v1")


def carl_pendulum(**options):
    from carl.envs import CARLPendulum

    return CARLPendulum(env=pendulum(), contexts=full(), **options)


def steps(make, action, episodes=3) -> Case:
    """Steps of whole episodes; their resets are not counted."""

    def made():
        env = make()

        def play():
            spent = 0
            for _ in range(episodes):
                env.reset()
                step, start = env.step, time.thread_time_ns()
                for _ in range(EPISODE - 1):
                    step(action)
                spent += time.thread_time_ns() - start
            return spent / episodes / (EPISODE - 1)

        return play

    return made


def resets(make, action, count=50) -> Case:
    """Resets, each to another context."""
    return lambda: timed(make().reset, 1, count)


KINDS = {
    "hidden": {"hide_context": True},
    "a dict": {"obs_context_as_dict": True},
    "a vector": {"obs_context_as_dict": False},
}
"""How an episode shows its context."""

GOALS = {
    ("step", "hidden", "CARL, a dict"): 2.5,
    ("step", "a vector", "CARL, a vector"): 1,
    ("step", "a dict", "CARL, a dict"): 0.5,
    ("reset", "hidden", "CARL, a dict"): 8,
    ("reset", "a dict", "CARL, a dict"): 8,
    ("reset", "a vector", "CARL, a vector"): 8,
}
"""The least ratios, by what is measured, our kind and CARL's. A reset of the null environment has none: CARL's own
environments create their features at each reset, and the null one has none."""


def singles(what, title, case, make, carl, contexts, action) -> Group:
    """Returns the rows of one environment: all kinds in the gymnasium form, and in the core."""

    def own(**options):
        return Contextual(from_gymnasium(make()), contexts(), **options)

    cases = {
        "gymnasium": case(make, action),
        "CARL, a dict": case(carl, action),
        "CARL, a vector": case(lambda: carl(obs_context_as_dict=False), action),
        "core": case(lambda: from_gymnasium(make()), action),
        "envoi's core, appended": case(own, action),
    }
    pairs = []
    for kind, options in KINDS.items():
        cases[f"envoi, {kind}"] = case(lambda options=options: to_gymnasium(own(**options)), action)
        cases[f"envoi's core, {kind}"] = case(lambda options=options: own(**options), action)
        peers = [name for name in ("CARL, a dict", "CARL, a vector") if kind == "hidden" or name.endswith(kind)]
        row = f"{what} of {title}, {kind}"
        for peer in peers:
            least = None if (what, title) == ("reset", "a null env") else GOALS.get((what, kind, peer))
            pairs.append(Pair(row, f"envoi, {kind}", peer, "gymnasium", least=least))
        pairs.append(Pair(f"{row}, core", f"envoi's core, {kind}", peers[0], "core", "gymnasium"))
    appended = Pair(
        f"{what} of {title}, appended, core", "envoi's core, appended", "CARL, a vector", "core", "gymnasium"
    )
    return Group(cases, [*pairs, appended], f"ns added a {what}")


def batches(n) -> Group:
    contexts = [{"length": 0.3 + 0.4 * lane / n} for lane in range(n)]
    envs = {
        "without contexts": lambda: envoi.batch(ContextCartPoles(), n),
        "with contexts": lambda: envoi.batch(Contextual(ContextCartPoles(), contexts, hide_context=True), n),
    }
    cases = {name: sampled(lambda make=make: to_gymnasium_vector(make()), n, 300) for name, make in envs.items()}
    pair = Pair("CartPole, a context per episode", "with contexts", "without contexts", least=1 / 1.2)
    return Group(cases, [pair], "ns a step of a lane", n)


def groups(_):
    yield singles("step", "a null env", steps, null, carl_null, full, 1)
    yield singles("step", "Pendulum", steps, pendulum, carl_pendulum, lambda: CONTEXTS, TORQUE)
    yield singles("reset", "a null env", resets, null, carl_null, full, 1)
    yield singles("reset", "Pendulum", resets, pendulum, carl_pendulum, lambda: CONTEXTS, TORQUE)
    yield batches(64)
    yield batches(1024)


if __name__ == "__main__":
    run(__doc__, groups, rounds=31, quick=9)
