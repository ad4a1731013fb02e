"""`WorkerLanes`, a batch whose lanes run in several processes.

    batch = envoi.batch(make_env, 64, workers=4)

    step = batch.step(actions)                        all lanes; waits for all of them

    batch.send(actions, lanes)                        some lanes; waits for none
    lanes, step = batch.recv(16)                      the first 16 lanes that are done

The first form works for every batch, and has the same traces as a loop over the lanes. In the second, no lane waits for
a slower one.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from operator import attrgetter, methodcaller
from types import MethodType, SimpleNamespace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import EpisodeError, SnapshotUnsupported, SpecError
from ...lane_values import splitter
from ...protocol.batch_env import (
    BatchEnv,
    LanesStep,
    Mask,
    Seeds,
    as_mask,
    check_count,
    full_lanes_step,
    make_batch_reset,
)
from ...protocol.env import ENDED_LANES, NOT_RESET, Env, Reset
from ...protocol.infos import Infos
from ...protocol.process import Info, Snapshot
from ...rewards.rewarder import Rewarder, RewardFunction
from ...seeding import batch_streams, lane_seeds
from ...tree import map_leaves
from ...wrapping.arguments import at_least
from ..lanes import Lanes, check_alike
from .pool import Pool, error_of
from .process import Failure, Stepped, Task

StepFields = tuple[Any, Any, Any, Any, Any, Infos]

P = ParamSpec("P")
T = TypeVar("T")

# Key in the info of a lane that was truncated because its worker failed and was started again; the cause as text.
_RESTARTED = "worker_restarted"

_VALUES = ("observation", "action", "reward", "discount")
_FACTS = (*(f"{what}_spec" for what in _VALUES), "state_spec", "metadata", "render_mode")


def _in_turn(method: Callable[Concatenate[WorkerLanes, P], T]) -> Callable[Concatenate[WorkerLanes, P], T]:
    """Decorates a method so that only one thread at a time runs methods of the batch."""

    @wraps(method)
    def call(self: WorkerLanes, *args: P.args, **kwargs: P.kwargs) -> T:
        pool = self._pool  # pyright: ignore[reportPrivateUsage] (a decorator of methods)
        name = "step" if method.__name__ == "advance" else method.__name__
        pool.check(name)
        with pool.lock:
            pool.check(name)
            return method(self, *args, **kwargs)

    return call


class WorkerLanes(Lanes):
    """A batch that runs separate environments in worker processes. Lane i behaves exactly like environment i alone.

    Arrays are passed through shared memory. The batch returns copies, which later steps do not change. Threads that
    share a batch take turns.

    Args:
        source: An environment, which is copied for each lane, or a function that makes one. It must be picklable,
            except for a function with the start method "fork".
        n: The number of lanes.
        workers: The number of processes; at most one per lane is used.
        timeout: The seconds that one reset or step may take, or None for no limit.
        restart: If True, lanes whose environment raises an error, and all lanes of a process that crashes or hangs,
            are truncated, with the cause in `info["worker_restarted"]`, and begin their next episode in a new
            environment. If False, this raises a `WorkerError`.
        start_method: The way to start processes: `"spawn"`, `"fork"`, `"forkserver"`; None for the platform's default.

    Attributes:
        envs: Each lane as an environment; attributes and methods are read and called in its process.
        settings: The arguments after `source` and `n`, to make an equal batch.
        workers: The number of processes.

    Raises:
        SpecError: `n` or `workers` is below 1, an environment cannot be pickled, or the specs differ.
        UnknownName: `start_method` is unknown.
        WorkerError: A worker process fails to make its environments.
    """

    def __init__(
        self,
        source: Env | Callable[[], Env],
        n: int,
        workers: int,
        *,
        timeout: float | None = None,
        restart: bool = False,
        start_method: str | None = None,
    ) -> None:
        BatchEnv.__init__(self, n)
        workers = at_least(workers, 1, "workers")
        if timeout is not None and not timeout > 0:
            raise SpecError(f"timeout: expected a number of seconds above 0, or None, got {timeout}")
        self.workers = min(workers, n)
        self.settings = {"workers": workers, "timeout": timeout, "restart": restart, "start_method": start_method}
        self._over: Mask = np.zeros(n, bool)
        self._begun: Mask = np.zeros(n, bool)
        self._rests: list[tuple[Any, ...]] = [()] * n  # the leaves of the latest observations that are not arrays
        self._sent: dict[int, int] = {}  # lanes that were sent and not received, and the tickets of their requests
        self._arrived: deque[tuple[int, Info]] = deque()
        # For lanes whose environments fail.
        self._restarts = restart
        self._lost: dict[int, str] = {}  # the cause, for lanes whose episode a failure ended
        self._renewals: dict[int, int] = {}  # how often each lane got a new environment
        self._seeds: dict[int, int] = {}
        self._first_number = 0
        self._given: list[dict[str, Any]] = [{} for _ in range(n)]  # attributes that new environments get
        self._pool = Pool(source, n, self.workers, timeout, start_method)
        self.envs: Any = tuple(_RemoteLane(self, lane, self._given[lane]) for lane in range(n))
        try:
            self._pool.start()
            facts = [SimpleNamespace(**dict(zip(_FACTS, one, strict=True))) for one in self.ask(attrgetter(*_FACTS))]
            check_alike(cast("Any", facts))
            vars(self).update(vars(facts[0]))
            self._open_memory()
        except BaseException:
            self.close()
            raise

    def _open_memory(self) -> None:
        self._pool.open_memory({what: getattr(self, f"{what}_spec") for what in _VALUES})

    def close(self) -> None:
        """Stops all processes and frees the shared memory. Called automatically when the program exits."""
        self._pool.close()

    # Episodes.

    @_in_turn
    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None, mask: Mask | None = None) -> Reset:
        seeds, mask = lane_seeds(seed, self.batch_size), as_mask(mask, self.batch_size, "mask")
        if self._sent:
            self.recv(len(self._sent))
        chosen = np.ones(self.batch_size, bool) if mask is None else mask
        lanes: list[int] = np.flatnonzero(chosen).tolist()
        self._check_begun(np.flatnonzero(~chosen).tolist(), "reset")
        self._streams = batch_streams(seed, self.batch_size) or self._streams
        given = {lane: one for lane in lanes if (one := seeds[lane]) is not None}
        self._seeds.update(given)
        infos: list[Info] = [{} for _ in range(self.batch_size)]
        failures = self._exchange(lanes, Task(set(lanes), None, given, options), infos)[0]
        if failures:
            self._renew(failures, "reset")
            lanes = list(failures)
            failures = self._exchange(lanes, Task(set(lanes), None, given, options), infos)[0]
        if failures:
            raise error_of(next(iter(failures.values())), "reset")
        self._over &= ~chosen
        return make_batch_reset((self.observation, Infos(infos)))

    @_in_turn
    def advance(self, action: Any, restart: Mask | None, hold: Mask | None, idle: Mask | None) -> StepFields:
        n, lost = self.batch_size, self._lost
        over = self._over if idle is None else self._over & ~idle
        lanes: Sequence[int] = range(n) if hold is None else np.flatnonzero(~hold).tolist()
        if self._sent:
            raise EpisodeError(f"step: lanes {sorted(self._sent)} have been sent; receive them first, by recv()")
        actions = self._write_actions(action)
        self._check_begun(lanes, "step")
        if np.count_nonzero(over):
            raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        for lane in {*range(n)}.difference(lanes):
            self._write_pause(lane, False)
        begin: set[int] = set() if restart is None else set(np.flatnonzero(restart).tolist())
        infos: list[Info] = [{}] * n
        acting = [lane for lane in lanes if lane not in lost or lane in begin]
        failures, discounts = self._exchange(acting, Task(begin, actions), infos)
        if failures:
            self._renew(failures, "step")
        for lane in lost.keys() & set(lanes):
            infos[lane] = self._truncate(lane)
            discounts = True
        rows = self._pool.rows
        over = np.logical_or(rows.terminated, rows.truncated)
        ended = np.count_nonzero(over)
        kept = Infos(infos) if any(infos) else Infos(columns={}, n=n)
        if hold is not None:
            kept = Infos(list(kept))  # by lane, because wrappers add entries to those of other lanes only
        self._over[:] = over if hold is None else over | self._over & hold
        return (
            self.observation,
            rows.read("reward", None),
            rows.terminated.copy() if ended else None,
            rows.truncated.copy() if ended else None,
            rows.read("discount", None) if discounts else None,
            kept,
        )

    # Some lanes at a time.

    @_in_turn
    def send(self, action: Any, lanes: ArrayLike, restart: Mask | None = None) -> None:
        """Sends actions to some lanes without waiting for their steps.

        Args:
            action: The actions, with leaves of shape (k, …).
            lanes: The indices of k lanes, shape (k,). None of them may be waiting for `recv`.
            restart: Mask of those lanes that begin a new episode instead, bool of shape (k,), or None.

        Raises:
            EpisodeError: A lane was sent before and not received yet, has not been reset, or has ended without
                `restart`.
            SpecError: A lane is given twice, or does not exist.
        """
        indices = _indices(lanes, self.batch_size)
        chosen: list[int] = indices.tolist()
        busy = [lane for lane in chosen if lane in self._sent]
        if busy:
            raise EpisodeError(f"send: lanes {busy} have been sent; receive them first, by recv()")
        self._check_begun(chosen, "send")
        mask = as_mask(restart, len(chosen), "restart")
        begin: set[int] = set() if mask is None else set(indices[mask].tolist())
        ended = [lane for lane in chosen if self._over[lane] and lane not in begin]
        if ended:
            raise EpisodeError(f"send: in lanes {ended}, the episode has ended; restart them by send(…, restart=mask)")
        values = self._write_actions(action, indices)
        actions = None if values is None else dict(zip(chosen, values, strict=True))
        lost = [lane for lane in chosen if lane in self._lost and lane not in begin]
        parts, tickets = self._send("send", [lane for lane in chosen if lane not in lost], Task(begin, actions))
        for index, part in parts.items():
            self._sent.update(dict.fromkeys(part, tickets[index]))
        for lane in lost:
            self._sent[lane] = 0
            self._arrived.append((lane, self._truncate(lane)))

    @_in_turn
    def recv(self, count: int | None = None) -> LanesStep:
        """Waits for lanes to finish their steps, and returns them in the order in which they finished.

        Args:
            count: The number of lanes to wait for. None returns all finished lanes, after waiting for at least one.

        Returns:
            A pair `(lanes, step)` of the indices of k lanes, int of shape (k,), and their steps, with leaves of shape
            (k, …).

        Raises:
            EpisodeError: Fewer than `count` lanes are being stepped, or no lane is.
            WorkerError: See the class.
        """
        wanted = 1 if count is None else count
        if not 1 <= wanted <= len(self._sent):
            raise EpisodeError(f"recv: expected 1 to {len(self._sent)} lanes, which have been sent, got {wanted}")
        while len(self._arrived) < wanted:
            self._receive()
        taken = [self._arrived.popleft() for _ in range(len(self._arrived) if count is None else count)]
        lanes, infos = np.array([lane for lane, _ in taken], np.intp), [info for _, info in taken]
        for lane in lanes.tolist():
            del self._sent[lane]
        rows = self._pool.rows
        terminated, truncated = rows.terminated[lanes], rows.truncated[lanes]
        self._over[lanes] = np.logical_or(terminated, truncated)
        observation, reward = self._observations(lanes), rows.read("reward", lanes)
        values = (observation, reward, terminated, truncated, rows.read("discount", lanes), Infos(infos))
        return LanesStep(lanes, full_lanes_step(values, self.discount_spec, len(taken)))

    def _receive(self) -> None:
        """Waits for at least one of the lanes that were sent."""
        late = self._pool.late
        if not late:
            late += self._pool.next_answers(self._pool.parts(self._under_way()))
        while late:  # one by one, so that the others are still there after an error
            _, ticket, lanes, content = late.pop(0)
            if ticket != -1 and any(self._sent.get(lane) != ticket for lane in lanes):
                continue  # of a request that was interrupted
            mine, infos = [lane for lane in self._under_way() if lane in lanes], dict[int, Info]()
            failures = self._take_in(mine, content, infos)
            self._arrived += [(lane, infos.get(lane, {})) for lane in mine if lane not in failures]
            if failures:
                if not self._restarts:
                    for lane in failures:
                        del self._sent[lane]
                        self._begun[lane] = False
                self._renew(failures, "recv")
                self._arrived += [(lane, self._truncate(lane)) for lane in failures]

    def _under_way(self) -> list[int]:
        arrived = {lane for lane, _ in self._arrived}
        return [lane for lane in self._sent if lane not in arrived]

    # Requests to the processes.

    def _send(self, command: str, lanes: Iterable[int], task: Task) -> tuple[dict[int, list[int]], dict[int, int]]:
        """Sends a task to lanes. Returns the lanes of each worker, and the tickets of the requests."""
        parts, actions = self._pool.parts(lanes), task.actions
        # New environments get a seed of their own, where a reset or restart gives none.
        new = {lane: self._new_seed(lane) for lane in self._lost if lane in task.begin}
        task = task._replace(seeds={**new, **task.seeds})
        requests: dict[int, tuple[list[int], Any]] = {}
        for index, part in parts.items():
            own = None if actions is None else {lane: actions[lane] for lane in part}
            requests[index] = part, (task._replace(actions=own),)
        return parts, self._pool.ask(command, requests)

    def _exchange(self, lanes: Iterable[int], task: Task, infos: Any) -> tuple[dict[int, Failure], bool]:
        """Sends a task and writes the infos. Returns failures, and whether a discount differs from its default."""
        begun = self._begun.copy()
        self._begun[:] = False  # until all have answered: a Ctrl-C leaves steps open
        try:
            parts, tickets = self._send("step", lanes, task)
        except SpecError:  # nothing was sent
            self._begun[:] = begun
            raise
        contents = self._pool.gather(tickets)
        self._begun[:] = begun
        failures: dict[int, Failure] = {}
        for index, part in parts.items():
            failures |= self._take_in(part, contents[index], infos)
        for lane in {*lanes}.difference(failures) if failures else ():  # they have stepped, though the step raises
            self._over[lane] = self._pool.rows.terminated[lane] or self._pool.rows.truncated[lane]
        return failures, any(isinstance(one, Stepped) and one.discounts for one in contents.values())

    def _take_in(self, lanes: Sequence[int], content: Stepped | Failure, infos: Any) -> dict[int, Failure]:
        """Stores what an answer contains about lanes, writes their infos, and returns the failures among them."""
        if isinstance(content, Failure):
            return dict.fromkeys(lanes, content)
        for lane, rest in content.rests.items():
            self._rests[lane] = rest
        for lane, info in content.infos.items():
            infos[lane] = info
        good = [lane for lane in lanes if lane not in content.failures]
        self._begun[good] = True
        for lane in [lane for lane in self._lost if lane in good]:
            del self._lost[lane]
        return content.failures

    @_in_turn
    def ask(
        self, function: Callable[[Any], Any] | Sequence[Callable[[Any], Any]], lanes: Sequence[int] | None = None
    ) -> list[Any]:
        # Unlike `Lanes.ask`, also accepts one function per lane, and None for all lanes.
        if self._sent:
            self.recv(len(self._sent))
        chosen = list(range(self.batch_size)) if lanes is None else lanes
        return self._pool.each([function] * len(chosen) if callable(function) else function, chosen)

    # New environments replace those that failed.

    def _renew(self, failures: Mapping[int, Failure], call: str) -> None:
        """Makes new environments for failed lanes and marks them as lost. Without `restart`, raises an error."""
        if not self._restarts:
            raise error_of(failures[min(failures)], call)
        renewed: list[int] = []
        for index, part in self._pool.parts(sorted(failures)).items():
            lanes = self._pool.renew(index, part, call)
            for lane in lanes:
                self._renewals[lane] = self._renewals.get(lane, 0) + 1
                self._lost[lane] = failures.get(lane, failures[part[0]]).text
                self._begun[lane] = False
            number = self._first_number
            self._pool.each([partial(_prepare, number + lane, self._given[lane]) for lane in lanes], lanes, call)
            renewed += lanes
        causes = {self._lost[lane].splitlines()[0] for lane in renewed}
        warnings.warn(f"{call}: lanes {renewed} have new environments: {'; '.join(sorted(causes))}", stacklevel=5)

    def _new_seed(self, lane: int) -> int:
        words = [self._seeds.get(lane, 0), lane, self._renewals[lane]]
        return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)

    def _truncate(self, lane: int) -> Info:
        """Writes the step that truncates a lane whose environment was lost, and returns its info."""
        self._write_pause(lane, True)
        self._begun[lane] = True
        return {_RESTARTED: self._lost[lane]}

    # Values in shared memory.

    def _check_begun(self, lanes: Sequence[int], call: str) -> None:
        missing = [lane for lane in lanes if not self._begun[lane] and lane not in self._lost]
        if missing:
            raise EpisodeError(f"{call}: in lanes {missing}, {NOT_RESET}")

    def _observations(self, lanes: NDArray[np.intp] | None = None) -> Any:
        rests: list[tuple[Any, ...]] = self._rests if lanes is None else [self._rests[lane] for lane in lanes.tolist()]
        return self._pool.rows.read("observation", lanes, rests)

    def _write_pause(self, lane: int, truncated: bool) -> None:
        """Writes a step of a lane that does not act, with its latest observation."""
        rows = self._pool.rows
        for name, make in (("reward", np.zeros), ("discount", np.ones)):
            spec = getattr(self, f"{name}_spec")
            rows.write(name, lane, map_leaves(lambda leaf, make=make: make(leaf.shape, leaf.dtype), spec))
        rows.terminated[lane], rows.truncated[lane] = False, truncated

    def _write_actions(self, action: Any, lanes: NDArray[np.intp] | None = None) -> Any:
        """Writes actions into shared memory; returns them one by one if some are not arrays."""
        n = self.batch_size if lanes is None else len(lanes)
        if self._pool.rows.fill("action", lanes, action):
            return None
        each = splitter(self.action_spec, n)(action)
        check_count("action", each, n)
        return each

    # As a loop over lanes has them; each is a message to every worker.

    @property
    @_in_turn
    def observation(self) -> Any:
        if not self._begun.all() and not self._lost:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._observations()

    @property
    def rewarder(self) -> Rewarder:
        """A copy of the lanes' rewarder. Setting it sets the rewarder of all lanes."""
        return self.envs[0].rewarder

    @rewarder.setter
    @_in_turn
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        Lanes.rewarder.__set__(self, rewarder)
        self._open_memory()  # for other rewards

    def assign_lane(self, number: int) -> None:
        self._first_number = number
        super().assign_lane(number)

    @_in_turn
    def snapshot(self) -> Snapshot:
        lanes = self.ask(methodcaller("snapshot"))
        held = lanes, self._over.copy(), self._begun.copy(), self.streams.copy()
        return Snapshot(type(self), held, {"batch_size": len(lanes)})

    @_in_turn
    def restore(self, snapshot: Snapshot) -> None:
        lanes, over, begun, streams = self._content(snapshot)
        self.ask([methodcaller("restore", held) for held in lanes])
        self._over[:], self._begun[:], self._streams = over, begun, streams.copy()
        self._lost.clear()
        shown: list[int] = np.flatnonzero(begun).tolist()
        for lane, value in zip(shown, self.ask(attrgetter("observation"), shown), strict=True):
            self._rests[lane] = self._pool.rows.write("observation", lane, value)

    def __getstate__(self) -> dict[str, Any]:
        raise SnapshotUnsupported(f"{self!r}: cannot be copied, because its lanes are in other processes")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.batch_size}, workers={self.workers})"


def _indices(lanes: ArrayLike, n: int) -> NDArray[np.intp]:
    found = np.asarray(lanes)
    if found.dtype == bool or found.dtype.kind not in "iu" or found.ndim != 1 or not len(found):
        raise SpecError(f"lanes: expected indices of lanes, at least one, got {lanes!r}")
    wrong = [lane for lane in found.tolist() if not 0 <= lane < n]
    if wrong or len(set(found.tolist())) < len(found):
        raise SpecError(f"lanes: expected different indices below {n}, got {found.tolist()}")
    return found.astype(np.intp)


class _RemoteLane(Env):
    """An environment in another process.

    Reading an attribute asks the worker for a copy; setting one, or calling a method, does it there. `reset` and `step`
    are for a single lane that is used alone; the batch has faster ones for all of them.
    """

    # All public names are looked up in the worker; the class has these because its base demands them.
    reset = step = cast("Any", None)
    state: Any = None  # pyright: ignore[reportIncompatibleMethodOverride]
    observation: Any = None  # pyright: ignore[reportIncompatibleMethodOverride]

    _lanes: WorkerLanes
    _lane: int
    _given: dict[str, Any]  # attributes that were set

    def __init__(self, lanes: WorkerLanes, lane: int, given: dict[str, Any]) -> None:
        vars(self).update(_lanes=lanes, _lane=lane, _given=given)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        if name == "unwrapped":
            return self
        if callable(getattr(Env, name, None)):
            return partial(self._call, name)
        found = self._ask(partial(_read, name=name))
        return partial(self._call, name) if found is _Method else found

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask(partial(_write, name=name, value=value))
        self._given[name] = value

    def _ask(self, function: Callable[[Any], Any]) -> Any:
        return self._lanes.ask(function, [self._lane])[0]

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._ask(partial(_call, name=name, args=args, kwargs=kwargs))

    def __reduce__(self) -> Any:
        raise TypeError("an environment in another process cannot be copied or pickled; give a function that makes one")

    def __repr__(self) -> str:
        return f"RemoteLane({self._lane})"


class _Method:
    """A placeholder for a method, because methods are not sent between processes."""


def _holder(env: Env, name: str) -> Any:
    """Returns the outermost layer of an environment that has an attribute, or else the innermost environment."""
    layer: Any = env
    while layer is not None and not hasattr(layer, name):
        layer = getattr(layer, "env", None) or getattr(layer, "source", None)
    return env.unwrapped if layer is None else layer


def _read(env: Env, name: str) -> Any:
    found = getattr(_holder(env, name), name)
    return _Method if isinstance(found, (MethodType, type(len))) else found


def _write(env: Env, name: str, value: Any) -> None:
    setattr(_holder(env, name), name, value)


def _prepare(number: int, attributes: Mapping[str, Any], env: Env) -> None:
    """Sets up a new environment like the one that it replaces."""
    env.assign_lane(number)
    for name, value in attributes.items():
        _write(env, name, value)


def _call(env: Env, name: str, args: Any, kwargs: Any) -> Any:
    return getattr(_holder(env, name), name)(*args, **kwargs)
