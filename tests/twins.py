"""Pairs of batches that are to return the same, whatever is done to them."""

import sys
from contextlib import contextmanager

from traces import exact

from envoi import EnvoiError, EpisodeError


def same(one, other):
    """Compares two results, of steps or of resets, bit by bit."""
    assert exact(tuple(one)[:-1]) == exact(tuple(other)[:-1])
    assert list(one.info) == list(other.info)


def outcome(call, *args, **kwargs):
    """Returns what a call returns, or None; and a key that is equal for equal results or errors."""
    try:
        result = call(*args, **kwargs)
    except (EnvoiError, ValueError) as error:  # ValueError: of numpy, in a function of a model
        return None, str(error) if isinstance(error, EpisodeError) else "refused"
    *values, info = result
    return result, (exact(tuple(values)), exact(list(info)))


def step_both(one, other, restart=None, hold=None, in_kernel=False):
    """Steps both batches with the same sampled actions and compares; returns the lanes that have ended.

    If `in_kernel`, the other batch has to be stepped by a kernel.
    """
    action = one.sample_action()
    step = one.step(action, restart, hold)
    with interpreted(other) as found:
        same(step, other.step(action, restart, hold))
    assert not (in_kernel and found)
    return step.terminated | step.truncated


@contextmanager
def interpreted(batch):
    """Collects the names of a model's functions that Python calls for a batch meanwhile; a kernel calls none."""
    model = getattr(batch.unwrapped, "envs", [batch.unwrapped])[0].unwrapped
    codes = {getattr(type(model), name).__code__ for name in ("initial", "transition", "observe", "reward", "terminal")}
    found = []

    def note(frame, event, argument):
        if event == "call" and frame.f_code in codes:
            found.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
