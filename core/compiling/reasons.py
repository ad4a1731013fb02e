"""numba's reasons in one sentence: the function, the line, and what it cannot compile."""

from __future__ import annotations

import re
from pathlib import Path

MARK = "envoi: "
"""The beginning of a reason in an error of `operators`, which numba puts between lines of its own."""

_SKIPPED = ("Failed in", "- Resolution failure", "There are", "Overload", "During", "The above", "Use of", "Type of")


def reason_of(error: Exception) -> str:
    """Returns the reason of an error of numba as `function (file, line n): reason`.

    Args:
        error: The error; its message has the reason first, and then the lines of the code from the inside out.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith(_SKIPPED)), type(error).__name__)
    call = next((line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")), "")
    reason = f"{first.rstrip(':')} {call}".strip() if first.startswith("No implementation") else first
    marked = next((line.partition(MARK)[2] for line in lines if MARK in line), None)
    reason = reason if marked is None else marked
    places = re.findall(r'File "([^"]+)", line (\d+):\n(?:\s*def (\w+)\()?', text)
    for file, line, function in places:
        if "envoi/kernels" not in file:
            name = f"{function} " if function else ""
            return f"{name}({Path(file).name}, line {line}): {reason}"
    return reason
