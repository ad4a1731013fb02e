"""Watches the calls of envs in an env runner: errors, how long they take, NaN, and values outside their specs."""

from __future__ import annotations

import faulthandler
import logging
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn
from weakref import WeakSet

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

import envoi
from envoi import tree
from envoi.adapters.rllib import codec, masks, observations
from envoi.errors import WorkerError
from envoi.wrappers.validated import Validated, ValidatedMulti

from . import env_failures as records
from .env_failures import Failure, in_a_row
from .settings import EnvOptions

FIRST_EPISODES = 2
"""With `check_specs="sample"` the first and last steps of each lane's first episodes are checked, …"""
EVERY = 1000
"""… and one step in so many, at random."""
GRACE_SECONDS = 5.0
"""An interrupted call that lasts longer ends the process."""
PERIOD = 0.5
LEAST_LOCKED = 30.0
"""Python's lock may be held for so many seconds, or for twice the limit of a call if that is more."""

logger = logging.getLogger("envoi")


# The env runner around the envs.


class Runner:
    """State that all envs of an env runner share, and keep when RLlib makes the envs again."""

    def __init__(self, env_runner: Any = None, env_context: Any = None) -> None:
        self._env_runner = env_runner
        self._restarts: list[float] = []
        self.worker = int(getattr(env_context if env_runner is None else env_runner, "worker_index", 0) or 0)
        self.in_evaluation = bool(getattr(getattr(env_runner, "config", None), "in_evaluation", False))
        if env_runner is None:
            self.in_evaluation = bool((env_context or {}).get("in_evaluation"))
        self.actor = records.own_actor()

    def __reduce__(self) -> tuple[type[Runner], tuple[()]]:
        return Runner, ()  # a copy of an env is in no env runner yet

    @property
    def is_remote(self) -> bool:
        """True if the process only steps envs."""
        return self.worker > 0 and self.actor is not None

    def __str__(self) -> str:
        return f"{'evaluation ' if self.in_evaluation else ''}worker {self.worker}"

    def may_restart(self, options: EnvOptions, failure: Failure) -> bool:
        """Returns True if RLlib may make the envs again, and counts the restart."""
        if options.on_env_error != "restart":
            return False
        restarts, most = in_a_row([*self._restarts, time.monotonic()]), options.max_env_restarts
        if restarts > most:
            if self._env_runner is not None:  # which makes the envs again otherwise, for ever
                self._env_runner.config.restart_failed_sub_environments = False
            return False
        self._restarts.append(time.monotonic())
        logger.warning("%s; its worker's envs are made again (%d of %d)", failure.message, restarts, most)
        return True

    def report(self, failure: Failure, kind: str = "failure") -> None:
        """Records a failure for the algorithm's process to read."""
        if self.actor is not None:
            records.note(self.actor, **{kind: vars(failure)})


_noted_start = False


def note_start() -> None:
    """Records the start of this process, once, before its first env is made, if the process is a Ray actor."""
    global _noted_start
    if not _noted_start and (actor := records.own_actor()) is not None:
        _noted_start = True
        records.note(actor, starts=[*records.record_of(actor).get("starts", []), time.time()])


# The calls.


class EnvGuard:
    """Watches the calls of a single-agent env, a multi-agent env or a batch; counts a batch's episodes by lane."""

    def __init__(
        self,
        name: str,
        options: EnvOptions,
        form: Any = None,
        env_context: Any = None,
        num_envs: int | None = None,
    ) -> None:
        self.calls = 0  # twice the number of calls that have ended; one more while a call is under way
        self.limit = options.step_timeout  # the seconds that a call may take
        of_gymnasium = re.match(r"Worker<.*>-(\d+)$", multiprocessing.current_process().name)  # its AsyncVectorEnv
        self.runner, self.lane = Runner(None, env_context), int(of_gymnasium[1]) if of_gymnasium else None
        self.steps = 0  # in the episode; of a batch, since the last reset of all lanes
        self.episodes = 0  # the present one included
        self._name, self._options = name, options
        self._is_making, self._thread = False, 0
        self._late: Failure | None = None
        self._form: Any = form if options.check_specs is not False else None
        self._validated: Any = None  # with True the form itself checks all
        if self._form is not None and options.check_specs == "sample":
            core = form.core
            self._validated = ValidatedMulti(core) if isinstance(core, envoi.MultiEnv) else Validated(core)
        self._random = np.random.default_rng(0)
        self._pause = 0  # results until the next one that is checked at random
        self._num_envs, self._fewest_ended = num_envs, 0  # of a batch, as these arrays
        self._over, (self._began, self._ended) = np.zeros(num_envs or 0, bool), np.zeros((2, num_envs or 0), int)

    def make(self, function: Callable[[], Any], /) -> Any:
        """Makes the env by a function; reports an error that the function raises."""
        self._is_making = True
        self._watch()
        return self._call(function)

    def reset(self, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Resets the env by a function."""
        self.steps = 0
        self._over[:], self._began[:] = False, 0
        self._watch()
        result = self._call(function, **arguments)
        self.episodes += 1
        if self._form is not None:
            self._check(result[0], 0.0, self.episodes <= FIRST_EPISODES)
        return result

    def step(self, function: Callable[[Any], Any], action: Any, /) -> Any:
        """Steps the env by a function."""
        self.steps += 1
        result = self._call(function, action)
        if self._form is not None:
            self._check(result[0], result[1], self._is_edge(result))
        if self._num_envs is not None:
            if self._over.any():
                self._began[self._over] = self.steps
                self._ended[self._over] += 1
            self._over = np.logical_or(result[2], result[3])
        return result

    def _watch(self) -> None:
        """Starts the watchdog for later calls in this thread."""
        if self.limit != math.inf:
            watchdog.watch(self)
        self._thread = threading.get_ident()

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        try:
            result = function(*arguments, **options)
            self.calls += 1
        except BaseException as error:
            self._fail(error)
        if self._late is not None:
            self._fail(CallInterrupted())
        return result

    def _is_edge(self, result: Any) -> bool:
        """Returns True if one of the first episodes begins or ends in a step."""
        if (self.episodes if self._num_envs is None else self._fewest_ended + 1) > FIRST_EPISODES:
            return False
        terminated, truncated = result[2], result[3]
        if self._num_envs is not None:
            self._fewest_ended = int(self._ended.min())
            return self.steps == 1 or bool(self._over.any() or terminated.any() or truncated.any())
        if isinstance(terminated, dict):
            terminated, truncated = terminated["__all__"], truncated["__all__"]
        return self.steps == 1 or bool(terminated) or bool(truncated)

    def _check(self, observation: Any, reward: Any, is_edge: bool) -> None:
        """Checks the latest result for NaN; in some steps (see `check_specs`) also checks it against the specs."""
        try:
            if has_nan(observation) or not is_finite(reward):
                raise_not_a_number(self._form.last, is_batch=self._num_envs is not None)
            if self._validated is None:
                return
            self._pause -= 1
            if is_edge or self._pause < 0:
                self._check_specs()
            if self._pause < 0:
                self._pause = int(self._random.integers(2 * EVERY - 1))
        except envoi.EnvoiError as error:
            self._fail(error)

    def _check_specs(self) -> None:
        began = {} if self._num_envs is None or not self.steps else {"restart": self._over}
        self._validated.check(self._form.last, step=self.steps, episode=self.episodes, **began)

    # Failures.

    def where(self, lane: int | None = None) -> str:
        """Describes the place for a message: env, worker, lane, step and episode."""
        env, of_runner = f"env {self._name!r}, {self.runner}", f", lane {self.lane}" if self.lane is not None else ""
        if self._num_envs is not None and lane is None:
            lanes = f"one of its {self._num_envs} lanes" if self._num_envs > 1 else "lane 0"
            return f"{env}, {lanes}, step {self.steps:,} since the reset of all"
        if self._num_envs is not None:
            step, episode = self.steps - self._began[lane], self.episodes + self._ended[lane]
            return f"{env}, lane {lane}, step {step:,} of episode {episode:,}"
        at = "while it was made" if self._is_making else f"reset {self.episodes + 1:,}"
        if self.steps:
            at = f"step {self.steps:,} of episode {self.episodes:,}"
        return f"{env}{of_runner}, {at}"

    def _fail(self, error: BaseException) -> NoReturn:
        """Reports an error of the env and raises it."""
        self.calls += self.calls & 1
        late, self._late = self._late, None
        if late is not None:  # the watchdog has interrupted the call
            self._report(late)
            raise late.error() from None
        if not isinstance(error, Exception) or hasattr(error, "envoi_failure"):
            raise error
        inside = error.args[0] if error.args else None  # as gymnasium raises that of a lane's process
        failure = getattr(inside, "envoi_failure", None)
        if failure is None:
            error = self._of_values(error)
            lane = error.lane if isinstance(error, WorkerError) else getattr(error, "envoi_lane", None)
            failure = Failure.of(error, self.where(lane))
        error.add_note(failure.message)
        error.envoi_failure = failure  # type: ignore[attr-defined]
        self._report(failure)
        raise error

    def _report(self, failure: Failure) -> None:
        if not self.runner.may_restart(self._options, failure):
            self.runner.report(failure)

    def _of_values(self, error: Exception) -> Exception:
        """Replaces a conversion error by the error of a value outside its spec, if there is such a value."""
        files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
        if self._validated is None or _CODEC.isdisjoint(files):
            return error
        try:
            self._check_specs()
        except envoi.SpecError as named:
            return named.with_traceback(error.__traceback__)
        return error

    def late(self, again: bool) -> None:
        """Ends a call that has taken longer than the limit.

        Interrupts the call if it is in the main thread of the algorithm's process. Elsewhere, or if that does not help,
        such as in native code, ends the process after it has written the stacks of all threads.
        """
        frames = traceback.extract_stack(sys._current_frames().get(self._thread))
        first = max((index + 1 for index, frame in enumerate(frames) if frame.filename == __file__), default=0)
        stack = "".join(traceback.format_list(frames[first:]))
        failure = Failure(f"a call of the env took longer than {self.limit:g} s; {self.where()}", stack)
        if not (self.runner.is_remote or again):
            self._late = failure
            if watchdog.interrupt(self, self._thread):
                return
        restarts = self.runner.is_remote and self._options.on_env_error == "restart"
        self.runner.report(failure, "last_end" if restarts else "failure")
        logger.error("%s; this process is ended\n\nTraceback of the env:\n%s", failure.message, stack)
        if sys.__stderr__ is not None:
            faulthandler.dump_traceback(sys.__stderr__, all_threads=True)
        os._exit(1)


_CODEC = {codec.__file__, masks.__file__, observations.__file__}
"""The files that convert values for RLlib."""


# The time that calls take.


class Watchdog:
    """Finds calls that take too long by comparing the running calls at each tick, so that calls read no clock."""

    def __init__(self) -> None:
        self._pid = 0
        self._watched: WeakSet[EnvGuard] = WeakSet()
        self._lock = threading.Lock()
        self._interrupted: EnvGuard | None = None

    def watch(self, watched: EnvGuard) -> None:
        """Watches the calls of an `EnvGuard` from now on, as long as it exists."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR2, self._raise_interrupted)  # Ray's workers ignore SIGINT
        if self._pid != os.getpid():  # also after a fork, which copies no threads
            self._pid, self._watched, self._lock = os.getpid(), WeakSet(), threading.Lock()
            threading.Thread(target=self._run, name="envoi-watchdog", daemon=True).start()
        with self._lock:
            is_new = watched not in self._watched
            self._watched.add(watched)
        if is_new:
            _await_lock([watched.limit])  # its first call may come before the thread's next tick

    def interrupt(self, watched: EnvGuard, thread: int) -> bool:
        """Raises `CallInterrupted` in a call of the main thread, by a signal; returns False for another thread."""
        if thread != threading.main_thread().ident or signal.getsignal(signal.SIGUSR2) != self._raise_interrupted:
            return False
        self._interrupted = watched
        signal.pthread_kill(thread, signal.SIGUSR2)
        return True

    def _raise_interrupted(self, *_: object) -> None:
        watched, self._interrupted = self._interrupted, None
        if watched is not None and watched.calls & 1:  # it has not ended meanwhile
            raise CallInterrupted

    def _run(self) -> None:
        since: dict[int, tuple[int, float, float]] = {}  # by object: the call, its first tick, the next report
        while True:
            with self._lock:
                all_watched = list(self._watched)
            now = time.monotonic()
            for watched in all_watched:
                key, calls = id(watched), watched.calls
                begun = since.get(key)
                if not calls & 1 or begun is None or begun[0] != calls:
                    since[key] = (calls, now, now + watched.limit)
                elif now >= begun[2]:
                    since[key] = (calls, begun[1], now + GRACE_SECONDS)
                    watched.late(begun[2] > begun[1] + watched.limit)
            present = {id(watched) for watched in all_watched}
            since = {key: value for key, value in since.items() if key in present}
            limits = [watched.limit for watched in all_watched]
            all_watched = watched = None
            _await_lock(limits)
            time.sleep(min([PERIOD, *(limit / 5 for limit in limits)]))


_timer_pid = 0
"""The process that has used the timer of `faulthandler`; a fork of it would wait for the timer's thread for ever."""


def _await_lock(limits: list[float]) -> None:
    """Starts a timer that writes all stacks and ends a Ray actor, unless this function is called again in time.

    Native code that hangs without releasing Python's lock also blocks the watchdog thread. The timer of `faulthandler`,
    one per process, does not need the lock.
    """
    global _timer_pid
    _timer_pid = _timer_pid or os.getpid()
    if _timer_pid != os.getpid():
        return
    if not limits:
        faulthandler.cancel_dump_traceback_later()
    elif sys.__stderr__ is not None:
        longest = max(LEAST_LOCKED, 2 * max(limits))
        faulthandler.dump_traceback_later(longest, exit=records.own_actor() is not None, file=sys.__stderr__)


class CallInterrupted(BaseException):
    """Raised in a call that has taken too long."""


watchdog = Watchdog()
"""The one of this process."""


# Envs in RLlib's forms whose calls are watched.


class _Guarded:
    env: Any

    def __init__(self, env: Any, guard: EnvGuard) -> None:
        super().__init__(env)  # pyright: ignore[reportCallIssue]
        self.guard = guard

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        return self.guard.reset(self.env.reset, seed=seed, options=options)

    def step(self, action: Any) -> Any:
        return self.guard.step(self.env.step, action)


class GuardedEnv(_Guarded, gymnasium.Wrapper[Any, Any, Any, Any]):
    """A guarded env of one lane, single-agent or multi-agent."""


class GuardedVectorEnv(_Guarded, VectorWrapper):
    """A guarded vector env."""


def guards_of(env: Any) -> Iterator[tuple[EnvGuard, int | None]]:
    """Yields the guards inside an env runner's vector env, each with its lane."""
    layer = env
    while layer is not None:
        if isinstance(layer, _Guarded):
            yield layer.guard, None
        layer = layer.env if isinstance(layer, VectorWrapper) else None
    native = env.unwrapped if isinstance(env, VectorEnv) else env
    for lane, inner in enumerate(getattr(native, "envs", ())):
        while isinstance(inner, gymnasium.Wrapper):
            if isinstance(inner, _Guarded):
                yield inner.guard, lane
            inner = inner.env


# Values.


def raise_not_a_number(result: Any, is_batch: bool) -> NoReturn:
    """Raises an error that names the leaf of the core's result that is NaN, its index, and for a batch its lane."""
    several = hasattr(result, "observations")
    for what in ("observation", "reward"):
        value = getattr(result, f"{what}s" if several else what, None)
        for path, leaf in () if value is None else tree.leaves(value, what):
            array = np.asarray(leaf)
            if array.dtype.kind != "f":
                continue
            for first in np.argwhere(np.isnan(array) if what == "observation" else ~np.isfinite(array)).tolist():
                found = array[tuple(first)]
                lane = first.pop(0) if is_batch and first else None
                index = f"[{', '.join(map(str, first))}]" if first else ""
                error = NotANumber(f"{path}{index}: expected a finite number, got {found}")
                error.envoi_lane = lane  # type: ignore[attr-defined]
                raise error
    raise NotANumber("observation: expected numbers, got nan in the form for RLlib, though the env's own has none")


class NotANumber(envoi.SpecError):
    """A value is NaN, or a reward is infinite."""


def has_nan(value: Any) -> bool:
    """Returns True if a float array, or a float array in a nested value, contains NaN.

    The sum of squares is NaN exactly if an element is, and takes a quarter of the time of `np.isnan(x).any()`.
    """
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and math.isnan(np.vdot(value, value))
    if isinstance(value, Mapping):
        return any(map(has_nan, value.values()))
    if isinstance(value, (tuple, list)):
        return any(map(has_nan, value))
    return isinstance(value, float) and math.isnan(value)


def is_finite(reward: Any) -> bool:
    """Returns True if a reward, or each of several, is neither NaN nor infinite."""
    if isinstance(reward, (float, int)):
        return math.isfinite(reward)
    if isinstance(reward, Mapping):
        return all(map(is_finite, reward.values()))
    return bool(np.isfinite(reward).all())
