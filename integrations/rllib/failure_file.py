"""The file in which an env writes down the error that ended it.

RLlib hides an exception of an env that runs in another process: the runner logs it there and dies, and the driver sees
an `ActorDiedError` or a result without episodes. So the env that a job trains on writes its own error to a file in the
output folder, and the driver reads it.
"""

from __future__ import annotations

import json
from pathlib import Path

from envoi.atomic_write import write_atomically

from .damaged_files import reading


def write_failure(path: Path, message: str, traceback: str) -> None:
    """Writes an env's error to a file, as JSON of its one-line message and its traceback.

    Args:
        path: The file.
        message: The message.
        traceback: The traceback.
    """
    write_atomically(path, json.dumps({"message": message, "traceback": traceback}, indent=1))


def read_failure(path: Path) -> str | None:
    """Returns the message that `write_failure` wrote to `path`; None if there is no such file."""
    if not path.exists():
        return None
    with reading(path):
        return json.loads(path.read_text(encoding="utf-8"))["message"]
