"""The types of operands that operators of scalar models accept. Importing this module needs numba."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.errors import TypingError

from .reasons import MARK

WIDE = (types.int64, types.float64, types.boolean)
"""The types that numbers of Python and of numpy have in common."""


def refuse(reason: str) -> TypingError:
    """Returns the error that makes numba give up, with a reason for the author."""
    return TypingError(f"{MARK}{reason}")


def is_scalar(kind: Any) -> bool:
    """Returns True for the type of one number."""
    return isinstance(kind, (types.Number, types.Boolean))


def check_operands(name: str, one: Any, other: Any) -> None:
    """Refuses operands for which Python and numpy, or numpy and numba, compute different values.

    Args:
        name: The operator's sign, for messages.
        one: The type of the operand on the left.
        other: The type of the one on the right.

    Raises:
        TypingError: They are such operands.
    """
    pair = (one, other)
    if all(is_scalar(kind) for kind in pair):
        if one == other == types.boolean:
            raise refuse(f"it computes {name} of two bools; convert them by int()")
        if any(kind not in WIDE for kind in pair) and not (one == other and _is_exact_in_32_bits(name, one)):
            raise refuse(f"it computes {name} of {one} and {other}; convert numbers of few bits by float() or int()")
        return
    if not any(isinstance(kind, types.Array) for kind in pair):
        return
    if name not in ("+", "-", "*", "/") or not all(isinstance(kind, types.Array) or is_scalar(kind) for kind in pair):
        raise refuse(f"it computes {name} of arrays, whose bits differ between numpy and C; compute it by elements")
    elements = [kind.dtype if isinstance(kind, types.Array) else kind for kind in pair]
    if elements[0] != elements[1] and not all(kind in WIDE for kind in elements):
        raise refuse(f"it computes {name} of {elements[0]} and {elements[1]}; give both the same dtype")


def _is_exact_in_32_bits(name: str, kind: Any) -> bool:
    return kind == types.float32 and name in ("+", "-", "*", "/")
