"""The lock of an output folder, which one job at a time writes to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import envoi

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

if TYPE_CHECKING:
    from filelock import BaseFileLock


class FolderTaken(envoi.EnvoiError):
    """Another job owns the folder."""


class FolderLock:
    """Locks a folder, until `release` or the end of the process, even by a kill.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: BaseFileLock | None = None

    def claim(self) -> None:
        """Locks the folder for this process, until `release` or the end of the process, even by a kill.

        Raises:
            envoi.EnvoiError: Another process holds the lock.
        """
        from filelock import FileLock, Timeout

        self._lock = FileLock(self.folder / ".lock")
        try:
            # Not at once: `envoi runs` may be looking at whether it is locked.
            self._lock.acquire(timeout=0.3, poll_interval=0.02)
        except Timeout:
            raise FolderTaken(
                f"{self.folder}: another envoi train is writing here; wait for it to end, or give another --out"
            ) from None

    @property
    def is_claimed(self) -> bool:
        """True if a process, this one or another, holds the lock, and so is training."""
        lock = self.folder / ".lock"
        if not lock.exists():
            return False
        if fcntl is None:
            return self._is_lock_taken()
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def _is_lock_taken(self) -> bool:
        """Tries to lock the folder, on systems without `flock`."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.folder / ".lock", timeout=0):
                return False
        except Timeout:
            return True

    def release(self) -> None:
        """Unlocks the folder."""
        if self._lock is not None:
            self._lock.release()
