"""Watches the calls of an env in an env runner: its errors, how long they take, NaN, and values outside their specs."""

from __future__ import annotations

import faulthandler
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import envoi

from ..env_options import EnvOptions
from .error_origin import is_of_conversion, lane_of
from .failure import Failure
from .runner_process import RunnerProcess
from .value_checks import ValueChecks
from .watchdog import SLOW_SECONDS, CallInterrupted, interrupt, stack_of, watchdog

logger = logging.getLogger("envoi")


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
        self._name, self._options, self._file = name, options, file
        self._late: Failure | None = None
        self._checks: ValueChecks | None = None
        if form is not None and options.check_specs is not False:
            self._checks = ValueChecks(form, options.check_specs, self._of_lanes)

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
        if self._checks is not None:
            self._check(self._checks, result[0], 0.0)
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
        if self._checks is not None:
            self._check(self._checks, result[0], result[1])
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

    def _check(self, checks: ValueChecks, observation: Any, reward: Any) -> None:
        try:
            checks.check(observation, reward, step=self.steps, episode=self.episodes, restarted=self._restarted())
        except envoi.EnvoiError as error:
            self._fail(error, is_over=True)

    def _restarted(self) -> Mapping[str, Any] | None:
        """Returns for a batch which lanes began an episode in the latest step."""

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
        if self._checks is None or not is_of_conversion(error):
            return error
        try:
            self._checks.check_specs(step=self.steps, episode=self.episodes, restarted=self._restarted())
        except envoi.SpecError as named:
            return named.with_traceback(error.__traceback__)
        return error

    def slow(self, is_slow: bool) -> None:
        """Reports that a call takes long, or has ended after all.

        Args:
            is_slow: True while it takes long.
        """
        self.runner.report_slow(f"a call of the env takes long; {self.where()}" if is_slow else None)

    def late(self, seconds: float, again: bool) -> None:
        """Ends a call that has taken longer than the limit.

        In the process of the algorithm it is interrupted; the process of an env runner is ended, by the algorithm or,
        if that does not happen, by itself. Native code cannot be interrupted: then the process of the algorithm is
        ended too, one of a Tune trial soon, one that is a script's own after twice the limit.

        Args:
            seconds: How long the call has taken so far.
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
        elif self.runner.actor is None and seconds < 2 * self.limit:
            if seconds < self.limit + 2 * SLOW_SECONDS:  # once
                logger.error("%s; %s", failure.message, _NATIVE)
        else:
            self._end_process(failure)

    def _end_process(self, failure: Failure) -> NoReturn:
        """Ends the process of the algorithm, in which native code keeps the thread of the env."""
        logger.error("%s; this process is ended\n\nTraceback of the env:\n%s", failure.message, failure.traceback)
        self.runner.report(failure, self._file)
        if sys.__stderr__ is not None:
            faulthandler.dump_traceback(sys.__stderr__, all_threads=True)
        os._exit(1)

    def _await_interruption(self) -> NoReturn:
        """Raises that a call took too long, if it ended just before the watchdog's interruption arrived."""
        try:
            time.sleep(1)
            raise CallInterrupted  # it was caught inside the call
        except CallInterrupted as error:
            self._fail(error, is_over=True)


_NATIVE = (
    "it is in native code, which cannot be interrupted, and this process is ended once it has taken twice as long; to "
    "lose no more than an env runner, set num_env_runners=1 or more; for calls that may take longer, set step_timeout"
)
