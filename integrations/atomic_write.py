"""Files that are replaced as a whole."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file as a whole: a reader or a kill sees the old or the new text, never a part.

    Args:
        path: The file.
        text: Its new contents, written as UTF-8.

    Raises:
        OSError: The file cannot be written; the old one is kept.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
