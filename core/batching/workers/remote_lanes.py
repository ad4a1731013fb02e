"""Lanes in workers as a loop over lanes has them: attributes, contexts, rewarders, and snapshots.

Each of these is a message to every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ...errors import EpisodeError, SnapshotUnsupported
from ...lane_values import splitter
from ...protocol.batch_env import Mask
from ...protocol.env import NOT_RESET, Env
from ...protocol.process import Snapshot
from ...rewards.rewarder import Rewarder, RewardFunction
from ..alike_lanes import check_alike
from ..lanes import Lanes
from .pool import WorkerPool
from .recovery import Recovery
from .rows import ACTING, COUNT, FLAG, STEPS
from .sending import Sending
from .values import LaneValues


class RemoteLanes(Lanes):
    """Lanes whose environments are in other processes; a subclass makes the processes and steps the lanes.

    Attributes:
        workers: The number of processes.
    """

    workers: int
    _pool: WorkerPool
    _values: LaneValues
    _recovery: Recovery
    _sending: Sending
    _begun: Mask

    def _describe(self) -> None:
        """Sets the specs, as the lanes have them, and makes the shared memory."""
        found = [SimpleNamespace(**facts) for facts in self._each([_facts] * self.batch_size)]
        check_alike(cast("Any", found))
        for name, value in vars(found[0]).items():
            setattr(self, name, value)
        self._open_memory()

    def _open_memory(self) -> None:
        specs = {what: getattr(self, f"{what}_spec") for what in ("observation", "action", "reward", "discount")}
        self._pool.open_memory({**specs, "terminated": FLAG, "truncated": FLAG, ACTING: FLAG, STEPS: COUNT})

    def close(self) -> None:
        """Ends all processes and removes the shared memory; also called when the program ends."""
        self._pool.close()

    def _each(self, functions: Sequence[Callable[[Any], Any]], lanes: Sequence[int] | None = None) -> list[Any]:
        """Runs one function of an environment for each lane, in its worker, and returns the results."""
        self._sending.finish()
        return self._pool.each(functions, list(range(self.batch_size)) if lanes is None else lanes)

    def _ask_lane(self, lane: int, function: Callable[[Env], Any]) -> Any:
        return self._each([function], [lane])[0]

    def _set_in_each(self, what: str, functions: Sequence[Callable[[Env], Any]]) -> None:
        """Runs one function for each lane, and again for each environment that takes the place of another."""
        self._each(functions)
        self._recovery.note_setting(what, functions)

    def _check_begun(self, lanes: Sequence[int], call: str) -> None:
        if not self._begun[lanes].all():
            missing = [lane for lane in lanes if not self._begun[lane] and lane not in self._recovery.lost]
            if missing:
                raise EpisodeError(f"{call}: in lanes {missing}, {NOT_RESET}")

    @property
    def observation(self) -> Any:
        if not self._begun.all() and not self._recovery.lost:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._values.observations()

    @property
    def state(self) -> tuple[Any, ...]:
        """A copy of the state of each lane."""
        return tuple(self._each([partial(_get, name="state")] * self.batch_size))

    @property
    def rewarder(self) -> Rewarder:
        """A copy of the rewarder of the lanes; can be set for all of them."""
        return self.envs[0].rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self._set_in_each("rewarder", [partial(_set, name="rewarder", value=rewarder)] * self.batch_size)
        self.reward_spec = self.envs[0].reward_spec
        self._open_memory_again()

    def _open_memory_again(self) -> None:
        """Opens memory for another reward spec, with the observations of the old one."""
        if not self._begun.any():
            self._open_memory()
            return
        before = self.observation
        self._open_memory()
        split = splitter(self.observation_spec, self.batch_size)(before)
        for lane, value in enumerate(split):
            self._values.observe(lane, value)

    def assign_lane(self, number: int) -> None:
        functions = [methodcaller("assign_lane", number + lane) for lane in range(self.batch_size)]
        self._set_in_each("lane", cast("Any", functions))

    @property
    def context(self) -> dict[str, list[Any]]:
        """The contexts of the coming episodes, see `Lanes.context`."""
        lanes = self._each([partial(_get, name="context")] * self.batch_size)
        return {name: [context[name] for context in lanes] for name in lanes[0]}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        Lanes.context.__set__(self, context)  # lane by lane, so that a refused value leaves all as they were
        self._note_contexts()

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        super().put_context(context, lanes)
        self._note_contexts()

    def _note_contexts(self) -> None:
        held = self._each([partial(_get, name="context")] * self.batch_size)
        self._recovery.note_setting("context", [partial(_set, name="context", value=one) for one in held])

    def snapshot(self) -> Snapshot:
        lanes = self._each([cast("Any", methodcaller("snapshot"))] * self.batch_size)
        return Snapshot(type(self), (lanes, self._over.copy(), self._begun.copy(), self.streams.copy()))

    def restore(self, snapshot: Snapshot) -> None:
        lanes, over, begun, streams = self._content(snapshot)
        if len(lanes) != self.batch_size:
            raise SnapshotUnsupported(f"restore: expected a snapshot of {self.batch_size} lanes, got {len(lanes)}")
        self._each([cast("Any", methodcaller("restore", held)) for held in lanes])
        self._over[:], self._begun[:], self._streams = over, begun, streams.copy()
        self._recovery.lost.clear()
        shown: list[int] = np.flatnonzero(begun).tolist()
        for lane, value in zip(shown, self._each([partial(_get, name="observation")] * len(shown), shown), strict=True):
            self._values.observe(lane, value)

    def __getstate__(self) -> dict[str, Any]:
        raise SnapshotUnsupported(f"{self!r}: cannot be copied, because its lanes are in other processes")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.batch_size}, workers={self.workers})"


# Functions that `RemoteLanes` sends by their names.


def _get(env: Env, name: str) -> Any:
    return getattr(env, name)


def _set(env: Env, name: str, value: Any) -> None:
    setattr(env, name, value)


_FACTS = (
    *("observation_spec", "action_spec", "reward_spec", "discount_spec", "state_spec", "metadata", "render_mode"),
)


def _facts(env: Env) -> dict[str, Any]:
    return {name: getattr(env, name) for name in _FACTS}
