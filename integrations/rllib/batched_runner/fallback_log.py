"""Says once in a process why an env runner works as RLlib's own."""

from __future__ import annotations

import logging

from ray.util.debug import log_once

logger = logging.getLogger("envoi")


def log_fallback(reason: str | None) -> None:
    """Logs a reason, unless it was logged before.

    Args:
        reason: Why an env runner, or a part of it, works as RLlib's own; None logs nothing.
    """
    if reason is not None and log_once(f"batched-{reason}"):
        logger.warning("envoi's batched env runner works as RLlib's own, more slowly: %s", reason)
