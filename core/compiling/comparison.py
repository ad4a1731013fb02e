"""A kernel is compared with the functions that it was made of before it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import EnvoiError
from .errors import NotCompilable

STEPS = 64


def check_equal(title: str, interpreted: Any, compiled: Any) -> None:
    """Steps two batches side by side, and compares all that they return bit by bit.

    Args:
        title: The model's name, for the message.
        interpreted: A batch of the model.
        compiled: The same batch, which steps by the kernel.

    Raises:
        NotCompilable: A value differs.
    """
    with np.errstate(all="ignore"):
        for batch in (interpreted, compiled):
            batch.reset(seed=0)
        over = np.zeros(interpreted.batch_size, bool)
        for number in range(STEPS):
            action = interpreted.sample_action()
            try:
                expected = interpreted.step(action, restart=over)
            except EnvoiError:
                raise
            except Exception:  # an error of the author's, which the kernel need not share
                return
            try:
                found = compiled.step(action, restart=over)
            except Exception as error:
                raise NotCompilable(f"{title}: after {number + 1} steps the kernel raises an error: {error}") from error
            _compare(title, number, ("observation", "reward", "terminated", "truncated", "discount"), expected, found)
            _compare(title, number, ("state",), (interpreted.state,), (compiled.state,))
            over = expected.terminated | expected.truncated


def _compare(title: str, number: int, names: tuple[str, ...], expected: Any, found: Any) -> None:
    for name, one, other in zip(names, expected, found, strict=False):
        for (path, own), (_, new) in zip(tree.leaves(one, name), tree.leaves(other, name), strict=True):
            held, came = np.asarray(own), np.asarray(new)
            same = held.shape == came.shape and held.dtype == came.dtype
            if not same or held.tobytes() != came.tobytes():
                if same and np.array_equal(held, came, equal_nan=held.dtype.kind == "f"):
                    continue  # nan of another sign, or zero
                raise NotCompilable(
                    f"{title}: after {number + 1} steps the compiled {path} differs from the interpreted one "
                    f"({_shown(came)}, expected {_shown(held)}); convert numpy scalars of 32 bits by float() or int()"
                )


def _shown(array: Any) -> str:
    return f"{array.ravel()[:4].tolist()} of dtype {array.dtype}"
