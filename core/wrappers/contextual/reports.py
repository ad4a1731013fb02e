"""Reports of how episodes end, for a selector that learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from ... import tree
from ...batching.context_table import Places
from ...context.selectors import Episodes
from ...lane_values import lane
from ...protocol.batch_env import either
from ...protocol.reset_options import CONTEXT, CONTEXT_ID
from ...wrapping.change import Specs

Success: TypeAlias = Callable[[dict[str, Any]], Any]
"""`(episode) -> success`, where the episode is a row of `Selector.tell` with its last `info`."""


Running: TypeAlias = tuple[Any, Any, Any, int]
"""The running episodes, in a batch with one element per lane: their returns so far, the numbers of the steps at which
they began, True for those to report (the selector has chosen their context); and last the number of all steps.

Replaced, never modified, because snapshots hold it."""


def none_running(n: int | None) -> Running:
    """Returns the counts of a wrapper in which no episode is running."""
    return (0.0, 0, False, 0) if n is None else (np.zeros(n), np.zeros(n, np.int64), np.zeros(n, bool), 0)


class Reports:
    """The returns and lengths of episodes, which are reported to the selector when they end."""

    def __init__(self, env: Any, n: int | None, success: Success | None) -> None:
        self._env, self._n, self._success = env, n, success
        self.first_lane = 0  # the index of lane 0 among all that are stepped at the same time
        self._infos: Any = None  # of the last step

    def begin(self, lanes: Any, are_chosen: Any) -> None:
        """Begins episodes; `are_chosen` holds, for each of these lanes, whether the selector chose its context."""
        totals, begun, open_, steps = self._env.running
        if self._n is None:
            self._env.running = (0.0, steps, are_chosen[0], steps)
            return
        totals, begun, open_ = totals.copy(), begun.copy(), open_.copy()
        totals[lanes], begun[lanes], open_[lanes] = 0, steps, are_chosen
        self._env.running = (totals, begun, open_, steps)

    def watching(self, specs: Specs) -> Callable[..., None]:
        """Returns the method that `Change.watch` calls."""
        return self.step_lanes if specs.lanes is not None else self.step if specs.agent is None else self.step_agents

    def step(self, reward: Any, terminated: Any, truncated: Any, info: Any) -> None:
        """Counts a step of a single lane."""
        self._count(reward if isinstance(reward, (float, int, np.number)) else _sum(reward), (info,))
        if terminated or truncated:
            self.end(None, bool(terminated))

    def step_agents(self, rewards: Mapping[Any, Any], terminated: Any, truncated: Any, infos: Any) -> None:
        """Counts a step of several agents, which share one episode."""
        self._count(_sum(rewards), (infos,))
        if not self._env.agents:
            ends, cuts = cast("tuple[dict[Any, bool], dict[Any, bool]]", (terminated or {}, truncated or {}))
            self.end(None, not any(flag and not ends.get(agent) for agent, flag in cuts.items()))

    def step_lanes(self, reward: Any, terminated: Any, truncated: Any, infos: Any, restart: Any, hold: Any) -> None:
        """Counts a step of a batch; both flags are None if no lane has ended."""
        if type(reward) is not np.ndarray or reward.ndim != 1:
            spec = self._env.env.reward_spec
            reward = np.array([_sum(lane(spec, reward, index)) for index in range(len(infos))])
        self._count(reward, infos, either(restart, hold))
        if terminated is not None:
            self.end(terminated | truncated, terminated)

    def _count(self, reward: Any, infos: Any, idle: Any = None) -> None:
        totals, begun, open_, steps = self._env.running
        begun = begun if idle is None else begun + idle  # a step that a lane begins or waits in does not count
        self._env.running, self._infos = (totals + reward, begun, open_, steps + 1), infos

    def end(self, lanes: Any, terminated: Any) -> None:
        """Reports the episodes that have ended. In a batch, `lanes` is their mask, or None for all lanes."""
        open_ = np.atleast_1d(self._env.running[2])
        over = np.flatnonzero(open_ if lanes is None else open_ & lanes)
        if len(over):
            self._report(over, np.broadcast_to(terminated, len(open_))[over].tolist())

    def _report(self, over: Places, terminated: list[bool]) -> None:
        (totals, begun, open_, steps), infos, lanes = self._env.running, self._infos, over.tolist()
        ids, contexts = self._env.in_force_at(lanes)
        columns: dict[str, list[Any]] = {
            CONTEXT_ID: ids,
            "return": np.atleast_1d(totals)[over].tolist(),
            "length": (steps - np.atleast_1d(begun)[over]).tolist(),
            "terminated": terminated,
            "success": [None] * len(lanes),
            "lane": [self.first_lane + index for index in lanes],
        }
        episodes = Episodes(columns, contexts)
        named = getattr(infos, "columns", None)
        if self._success is not None or named is None or not named.keys() <= {CONTEXT, CONTEXT_ID}:
            columns["success"] = [self.success_of(row, infos[i]) for i, row in zip(lanes, episodes, strict=True)]
        still = np.atleast_1d(open_).copy()
        still[over] = False
        self._env.running = totals, begun, False if self._n is None else still, steps
        self._env.context_selector.tell(episodes)

    def success_of(self, row: Mapping[str, Any], info: Mapping[Any, Any]) -> float | None:
        """Returns the success of an episode, from 0 to 1, or None if it is unknown."""
        success = _said(info) if self._success is None else self._success({**row, "info": info})
        return None if success is None else float(success)


def _sum(reward: Any) -> float:
    return float(sum(np.sum(leaf) for _, leaf in tree.leaves(reward)))


def _said(info: Mapping[Any, Any]) -> Any:
    """Returns the success in an info; for several agents, the mean over those whose info has one."""
    if "is_success" in info:
        return info["is_success"]
    every: list[Any] = [*info.values()]
    found: list[Any] = [one["is_success"] for one in every if isinstance(one, Mapping) and "is_success" in one]
    return np.mean(found) if found else None
