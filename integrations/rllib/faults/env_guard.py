"""Watches the calls of an env in an env runner: its errors, how long they take, NaN, and values outside their specs."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import envoi
from envoi.adapters.rllib import codec
from envoi.wrappers.validated import Validated, ValidatedMulti

from ..env_options import EnvOptions
from .failure import Failure
from .nan import find_nan, has_nan
from .runner_process import RunnerProcess
from .watchdog import CallInterrupted, interrupt, stack_of, watchdog

logger = logging.getLogger("envoi")

FIRST_EPISODES = 2
FIRST_STEPS = 1000
"""With `check_specs="sample"` all steps of the first episodes of an env are checked, up to so many, …"""
EVERY = 1000
"""… and then one in so many, at random."""


class EnvGuard:
    """Watches the calls of one env, of one agent or of several.

    `step(function, action)` and `reset(function, …)` make one call each, for any kind of runner; the wrappers of
    `guarded_envs` use them.

    Args:
        name: The name that the env is registered under.
        options: The options of the env.
        form: The env in RLlib's form, which has `core` and `last`; None if the values are not checked here.
        file: A file that failures are written to as well; None for no file.

    Attributes:
        calls: Twice the number of calls that have ended; one more while a call is under way.
        thread: The identifier of the thread of the latest call.
        limit: The seconds that a call may take.
        runner: The env runner.
        lane: The lane among those of the runner; None if it is not known.
        steps: Steps in the episode, or for a batch since the last reset of all lanes.
        episodes: Episodes, the present one included.
    """

    def __init__(self, name: str, options: EnvOptions, form: Any = None, file: Path | None = None) -> None:
        self.calls, self.thread, self.limit = 0, 0, options.step_timeout
        self.runner, self.lane = RunnerProcess(), None
        self.steps = self.episodes = 0
        self._name, self._options, self._form, self._file = name, options, form, file
        self._late: Failure | None = None
        self._checks_values = form is not None and options.check_specs is not False
        self._validated = self._sample = None
        if form is not None and options.check_specs == "sample":
            core = form.core
            self._validated = ValidatedMulti(core) if isinstance(core, envoi.MultiEnv) else Validated(core)
            self._sample = np.random.default_rng(0)
        self._checked = 0  # results that were checked against their specs while all are
        self._pause = 0  # results until the next one that is checked

    _is_making = False
    _of_lanes = False

    def bind(self, runner: RunnerProcess, lane: int | None) -> None:
        """Sets the env runner and the lane.

        Args:
            runner: The env runner.
            lane: The lane among those of the runner; None if the env has all of them.
        """
        self.runner, self.lane = runner, lane

    def make(self, function: Callable[[], Any], /) -> Any:
        """Returns the result of a function that makes the env; an error of it is reported."""
        self._is_making = True
        return self._call(function)

    def reset(self, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Resets the env by a function.

        Args:
            function: Takes the arguments; returns the observation and the info, as in gymnasium.
            **arguments: The arguments.

        Returns:
            The result of the function.

        Raises:
            envoi.EnvoiError: A value is NaN or outside its spec, or the call took too long.
        """
        self.steps = 0
        result = self._call(function, **arguments)
        self.episodes += 1
        if self._checks_values:
            self._check(result[0], 0.0)
        return result

    def step(self, function: Callable[[Any], Any], action: Any, /) -> Any:
        """Steps the env by a function.

        Args:
            function: Takes the action; returns the five values of a step, as in gymnasium.
            action: The action.

        Returns:
            The result of the function.

        Raises:
            envoi.EnvoiError: A value is NaN or outside its spec, or the call took too long.
        """
        self.steps += 1
        self.thread = threading.get_ident()
        self.calls += 1
        try:
            result = function(action)
        except BaseException as error:
            self._fail(error)
        self.calls += 1
        if self._late is not None:
            self._await_interruption()
        if self._checks_values:
            self._check(result[0], result[1])
        self._count(result)
        return result

    def _call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        if self.limit != math.inf:
            watchdog.watch(self)
        self.thread = threading.get_ident()
        self.calls += 1
        try:
            result = function(**arguments)
        except BaseException as error:
            self._fail(error)
        self.calls += 1
        if self._late is not None:
            self._await_interruption()
        return result

    def _count(self, result: Any) -> None:
        """Counts what a step has ended; only batches have anything to count."""

    # Values.

    def _check(self, observation: Any, reward: Any) -> None:
        try:
            if has_nan(observation) or not _is_finite(reward):
                find_nan(self._form.last, self._of_lanes)
            if self._validated is not None:
                self._pause -= 1
                if self._pause < 0:
                    self._check_specs()
        except envoi.EnvoiError as error:
            self._fail(error, is_over=True)

    def _check_specs(self) -> None:
        validated: Any = self._validated
        assert self._sample is not None
        validated.check(self._form.last, step=self.steps, episode=self.episodes, **self._restarted())
        self._checked += 1
        if self.episodes > FIRST_EPISODES or self._checked >= FIRST_STEPS:
            self._pause = int(self._sample.integers(2 * EVERY - 1))

    def _restarted(self) -> Mapping[str, Any]:
        return {}

    # Failures.

    def where(self, lane: int | str | None = None) -> str:
        """Returns env, worker, lane, step and episode, in words.

        Args:
            lane: The lane, if it is known better than by `bind`; words if only some lanes are known of which it is one.
        """
        if isinstance(lane, str):
            return f"env {self._name!r}, {self.runner}, {lane}"
        of_runner = f", lane {self.lane}" if self.lane is not None else ""
        at = f"step {self.steps:,} of episode {self.episodes:,}" if self.steps else self._before_steps()
        return f"env {self._name!r}, {self.runner}{of_runner}, {at}"

    def _before_steps(self) -> str:
        return "while it was made" if self._is_making else f"reset {self.episodes + 1:,}"

    def _fail(self, error: BaseException, is_over: bool = False) -> NoReturn:
        """Reports an error of the env and raises it, or restarts the env's process."""
        if not is_over:
            self.calls += 1
        if self._late is not None:  # the watchdog has interrupted the call
            late, self._late = self._late, None
            if not self.runner.may_restart(self._options, late):
                self.runner.report(late, self._file)
            raise late.error() from None
        if not isinstance(error, Exception) or hasattr(error, "envoi_failure"):
            raise error
        error = self._of_values(error)
        failure = Failure.of(error, self.where(lane_of(error)))
        error.add_note(failure.message)
        error.envoi_failure = failure  # type: ignore[attr-defined]
        if not self.runner.may_restart(self._options, failure):
            self.runner.report(failure, self._file)
        raise error

    def _of_values(self, error: Exception) -> Exception:
        """Returns the error of a value outside its spec where that is why it could not be converted for RLlib."""
        if self._validated is None or not any(frame.f_code.co_filename.startswith(_CODEC) for frame in _frames(error)):
            return error
        validated: Any = self._validated
        try:
            validated.check(self._form.last, step=self.steps, episode=self.episodes, **self._restarted())
        except envoi.SpecError as named:
            return named.with_traceback(error.__traceback__)
        return error

    def slow(self, is_slow: bool) -> None:
        """Reports that a call takes long, or has ended after all.

        Args:
            is_slow: True while it takes long.
        """
        self.runner.report_slow(f"a call of the env takes long; {self.where()}" if is_slow else None)

    def late(self, again: bool) -> None:
        """Ends a call that has taken longer than the limit.

        In the process of the algorithm it is interrupted; the process of an env runner is ended, by the algorithm or,
        if that does not happen, by itself.

        Args:
            again: True if the call lasts in spite of that.
        """
        stack = stack_of(self.thread, __file__)
        failure = Failure(f"a call of the env took longer than {self.limit:g} s; {self.where()}", stack)
        if self.runner.is_remote:
            if again or self._options.on_env_error == "restart":
                self.runner.end(failure)
            self.runner.report(failure, self._file)
        elif not again:
            self._late = failure
            interrupt(self.thread)
        else:  # a call of native code that no signal ends
            logger.error("%s", failure.error())
            if self.runner.actor is not None:
                self.runner.report(failure, self._file)
                os._exit(1)

    def _await_interruption(self) -> NoReturn:
        """Raises that a call took too long, if it ended just before the watchdog's interruption arrived."""
        try:
            time.sleep(1)
            raise CallInterrupted  # it was caught inside the call
        except CallInterrupted as error:
            self._fail(error, is_over=True)


class BatchGuard(EnvGuard):
    """Watches the calls of a batch of lanes. The steps of each lane's episode are counted for messages.

    Args:
        name: As in `EnvGuard`.
        options: As in `EnvGuard`.
        form: As in `EnvGuard`; None if the lanes themselves are watched.
        file: As in `EnvGuard`.
        num_envs: The number of lanes.
    """

    def __init__(
        self, name: str, options: EnvOptions, form: Any = None, file: Path | None = None, num_envs: int = 1
    ) -> None:
        super().__init__(name, options, form, file)
        self._num_envs = num_envs
        self._over = np.zeros(num_envs, bool)
        self._any_over = False
        self._began = np.zeros(num_envs, int)
        self._ended = np.zeros(num_envs, int)

    _of_lanes = True

    def reset(self, function: Callable[..., Any], /, **arguments: Any) -> Any:
        self._over, self._any_over = np.zeros(self._num_envs, bool), False
        self._began[:] = 0
        return super().reset(function, **arguments)

    def _count(self, result: Any) -> None:
        if self._any_over:
            self._began[self._over] = self.steps
            self._ended[self._over] += 1
        self._over = np.logical_or(result[2], result[3])
        self._any_over = bool(self._over.any())

    def _restarted(self) -> Mapping[str, Any]:
        return {"restart": self._over} if self.steps else {}

    def where(self, lane: int | str | None = None) -> str:
        if isinstance(lane, str):
            return super().where(lane)
        if lane is None:
            lanes = f"one of its {self._num_envs} lanes" if self._num_envs > 1 else "lane 0"
            return f"env {self._name!r}, {self.runner}, {lanes}, step {self.steps:,} since the reset of all"
        step, episode = self.steps - self._began[lane], self.episodes + self._ended[lane]
        return f"env {self._name!r}, {self.runner}, lane {lane}, step {step:,} of episode {episode:,}"


def _is_finite(reward: Any) -> bool:
    if isinstance(reward, (float, int)):
        return math.isfinite(reward)
    if isinstance(reward, Mapping):
        return all(map(_is_finite, reward.values()))
    return bool(np.isfinite(reward).all())


def lane_of(error: BaseException) -> int | str | None:
    """Returns the lane of a batch in which an error was raised, or words for it; None if it is not known."""
    lane = getattr(error, "envoi_lane", None)
    if lane is not None:
        return lane
    calls: Any = ()
    for frame in _frames(error):
        if frame.f_code.co_filename != _LANES:
            continue
        found = frame.f_locals
        if frame.f_code.co_name == "reset" and isinstance(index := found.get("index"), int):
            return index
        calls, call = found.get("calls", calls), found.get("call")  # in two frames before Python 3.12
        if call is not None:
            return next((lane for lane, one in enumerate(calls) if one is call), None)
    return None


_CODEC = str(Path(codec.__file__).parent)
_LANES = sys.modules["envoi.batching.lanes"].__file__


def _frames(error: BaseException) -> Iterator[Any]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
