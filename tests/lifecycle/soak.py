"""Many steps of every form, with resets, snapshots and copies on the way, beside one to which nothing is done.

    make soak                                          all forms
    python tests/lifecycle/soak.py --only dm_env --steps 100000

Each form plays episodes of random actions through its own API. One is pickled at times, and at times plays on from a
snapshot, to which it then returns; another one only plays. Both keep a running hash of all that they return, which must
be equal at every twentieth of the way. A step of a batch counts as one of each of its lanes. That forms play as the
core environments inside is what `test_requirements.py` holds.
"""

import argparse
import sys
import time
import warnings
from hashlib import blake2b
from pathlib import Path

import cloudpickle
import numpy as np

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "adapters")]

import forms  # noqa: E402

from envoi.adapters.shared.introspection import Content  # noqa: E402

RESEEDED, COPIED, RETURNED = 211, 311, 107  # after so many episodes
PARTS = 20


def marks(name, steps, is_disturbed):
    """Returns a running hash of what a form returns, at every twentieth of the way."""
    form, rng, running = forms.made(name), np.random.default_rng(0), blake2b()
    lanes = forms.LANES if forms.FORMS[name].kind == "lanes" else 1
    taken, episode, found = 0, 0, []
    while len(found) < PARTS:
        if is_disturbed and episode % RETURNED == RETURNED - 1:
            held = Content([form])
            forms.native_trace(name, form, (None, episode, None), episode)
            held.put_back([form])
        if is_disturbed and episode % COPIED == COPIED - 1:
            form = cloudpickle.loads(cloudpickle.dumps(form))
        seed = None if episode % RESEEDED else episode
        told = forms.native_trace(name, form, (seed,), rng, steps=50)
        running.update(repr(told).encode())
        taken, episode = taken + lanes * (len(told) - 1), episode + 1
        found += [running.hexdigest()] * (taken * PARTS // steps - len(found))
    return found[:PARTS]


def soak(name, steps):
    """Returns the marks at which a form differs from one to which nothing is done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # float64 rewards become float32, which the trace does not mind
        both = zip(marks(name, steps, True), marks(name, steps, False), strict=True)
        return [index for index, (one, other) in enumerate(both) if one != other]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--only", action="append", choices=list(forms.FORMS), help="a form; may be repeated")
    arguments = parser.parse_args()
    wrong = []
    for name in arguments.only or forms.FORMS:
        start = time.process_time()
        differing = soak(name, arguments.steps)
        seconds = time.process_time() - start
        result = "equal" if not differing else f"differs from {differing[0] / PARTS:.0%} of the way on"
        sys.stdout.write(f"{name:18} {arguments.steps:>9,} steps  {seconds:7.1f} s of CPU  {result}\n")
        sys.stdout.flush()
        wrong += [name] if differing else []
    sys.exit(f"differ from a form that only plays: {', '.join(wrong)}" if wrong else None)


if __name__ == "__main__":
    main()
