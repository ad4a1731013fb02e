"""Samples of RLlib's env runners, as cases."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from .rows import Case

SECONDS = 0.5
"""CPU time that a runner samples in a round, at least."""


def samples(opened: ExitStack, make: Callable[[], Any], steps: Callable[[Any], int]) -> Case:
    """Samples, with their metrics; the cost is microseconds of the process's CPU time a step."""

    def case():
        import ray  # noqa: F401 (it sets the level of its loggers)

        logging.getLogger("ray").setLevel(logging.ERROR)
        runner = make()
        opened.callback(runner.stop)

        def play() -> float:
            taken, start = 0, time.process_time()
            while time.process_time() - start < SECONDS:
                taken += sum(map(steps, runner.sample()))
                runner.get_metrics()
            return (time.process_time() - start) / taken * 1e6

        return play

    return case
