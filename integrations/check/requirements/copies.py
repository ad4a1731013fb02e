"""Requirements on copies, pickles and snapshots of an environment."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from envoi import SnapshotUnsupported

from ..differences import traces_differ
from ..drivers.core import BatchDriver, core_driver
from ..outcome import PASSED, Outcome, failed, failed_if, remark
from ..requirement import Requirement
from .agents import AGENT_KEYS
from .randomness import REPRODUCIBLE
from .values import VALUE_KEYS

if TYPE_CHECKING:
    from ..env_under_test import EnvUnderTest

COPIERS: dict[str, Callable[[Any], Any]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),  # noqa: S301 (made by the same call)
}
STEPS_BEFORE = 5
"""Calls before an environment is copied."""


def copies(env: EnvUnderTest) -> Outcome:
    """A copy taken in an episode continues as the original does, and neither changes the other."""
    unsupported: list[str] = []
    if any(kind.__name__ == "EzPickle" for layer in env.driver.layers() for kind in type(layer).__mro__):
        return remark("a copy is a new environment outside of the episode, as its class is an EzPickle")
    for name, copier in COPIERS.items():
        with env.temporary_driver() as driver:
            original = env.collector(driver)
            done = [original.advance(env.trace_limit) for _ in range(min(STEPS_BEFORE, len(env.reference)))]
            try:
                copied = original.with_driver(driver.with_env(copier(driver.env)))
            except Exception as error:
                unsupported.append(f"{name} raises {type(error).__name__}: {_short(error)}")
                continue
            expected = env.reference[len(done) :]
            before = traces_differ(env.reference[: len(done)], done, driver)
            for label, collector in (("the copy", copied), ("the original, beside its copy,", original)):
                difference = before or traces_differ(
                    expected, [collector.advance(env.trace_limit) for _ in expected], driver
                )
                if difference is not None:
                    return failed(f"{name} in an episode: {label} continues differently: {difference}")
    return remark("; ".join(unsupported)) if unsupported else PASSED


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 100 else text[:97] + "…"


def snapshots(env: EnvUnderTest) -> Outcome:
    """A snapshot holds everything that later steps depend on."""
    with env.temporary_driver() as own_driver:
        core: Any = own_driver.core_env()
        driver = core_driver(core)
        collector = env.collector(driver)
        for _ in range(min(STEPS_BEFORE, len(env.reference))):
            collector.advance(env.trace_limit)
        try:
            snapshot = core.snapshot()
        except SnapshotUnsupported as error:
            return remark(_short(error))
        restored = collector.with_driver(driver)
        ended = driver.ended if isinstance(driver, BatchDriver) else None
        # Past the end of an episode, so that the snapshot is restored across it.
        first = [collector.advance(env.trace_limit) for _ in range(2 * env.trace_limit)]
        core.restore(snapshot)
        if isinstance(driver, BatchDriver) and ended is not None:
            driver.ended = ended
        second = [restored.advance(env.trace_limit) for _ in range(2 * env.trace_limit)]
    difference = traces_differ(first, second, driver)
    return failed_if(None if difference is None else f"after restore() it continues differently: {difference}")


COPIES = (
    Requirement(
        "copies", "A copy taken in an episode continues as the original, and neither changes the other.", (27,),
        copies, needs=(REPRODUCIBLE,), unless=("instances-apart",), on_forms=True,
    ),
    Requirement(
        "snapshots", "A snapshot restores everything that later steps depend on.", (27,), snapshots,
        needs=(REPRODUCIBLE,), unless=("instances-apart", *VALUE_KEYS, *AGENT_KEYS),
    ),
)  # fmt: skip
