"""Requirements on values (observations, rewards, infos, actions, options), and on the agents that receive them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from functools import partial
from itertools import islice
from typing import Any

from envoi import SpecError
from envoi.authoring.unchanged_states import unchanged_states

from ...errors import describe
from ..env_under_test import ZERO_SUM, EnvUnderTest, Rollout, declares_zero_sum, new_driver
from ..requirement import PASSED, Outcome, failed, observed, requirement, skipped


def _no_infos(rollout: Rollout) -> str:
    return "" if rollout.driver.returns_infos else f"{rollout.driver.api} does not return infos"


@requirement("plays", on_forms=True)
def plays(env: EnvUnderTest) -> Outcome:
    """Resets and steps raise no error."""
    if env.rollout.error is None:
        return PASSED
    error, when = env.rollout.error
    return failed(f"{describe(error)} (in {when})")


@requirement("options-stay", 8, 25, on_forms=True)
def options_stay(env: EnvUnderTest) -> Outcome:
    """The environment does not change the options that are passed to it."""
    if not env.driver.takes_options:
        return skipped(f"{env.driver.api} takes no options")
    options: dict[str, Any] = {}
    collector = env.collector()
    collector.reply = collector.driver.reset(env.extent.seed, options)
    collector.advance()
    return failed(f"options: {{}} became {options!r}") if options else PASSED


@requirement("state-stays", 8)
def state_stays(env: EnvUnderTest) -> Outcome:
    """No function of a model changes a state in place."""
    if env.driver.api != "envoi":
        return skipped(f"{env.driver.api} has no models")
    collector = env.collector()
    try:
        with unchanged_states(collector.driver.env):
            collector.collect(1)
    except SpecError as error:
        return failed(str(error)) if "in place" in str(error) else PASSED
    return PASSED


_REPAIRED = (
    plays,
    observed(
        "observation-in-spec",
        "Every observation lies in its declared space, at resets, in episodes and at their ends.",
        *(14, 16),
    ),
    observed("observation-dtype", "Every observation is of the declared type and dtype.", 14),
    observed("reward-given", "Every step gives a reward, never None and never nan.", 5),
    observed("reward-in-spec", "Every reward lies in its spec.", 4),
    observed(
        "discount-in-spec",
        "Every discount is a number that lies in its spec.",
        3,
        no_case=lambda rollout: "" if rollout.driver.discount_specs else f"{rollout.driver.api} has no discounts",
    ),
    observed("flags-are-bools", "`terminated` and `truncated` are bools.", 1),
    observed("info-is-dict", "Every info is a dict.", 6, no_case=_no_infos),
    observed(
        "info-stays", "Every info is a new dict, which later steps and resets do not change.", 8, 9, no_case=_no_infos
    ),
    observed(
        "observation-stays",
        "Later steps and resets do not change an observation that was returned, a final one included.",
        9,
    ),
    observed("action-stays", "The environment does not change the action that is passed to it.", 8),
    options_stay,
)
VALUE_KEYS = tuple(one.key for one in _REPAIRED)
"""Keys of requirements whose violations an importer repairs or refuses."""

VALUES = (*_REPAIRED, state_stays)


def _no_ends(rollout: Rollout) -> str:
    return "" if rollout.ended_agents else "no agent ended"


def _not_zero_sum(rollout: Rollout) -> str:
    if not declares_zero_sum(rollout.driver):
        return f"its metadata do not have {ZERO_SUM!r}"
    return "" if rollout.ends else "no episode ended"


@requirement("hash-order", 38, kinds=("multi",))
def hash_order(env: EnvUnderTest) -> Outcome:
    """The order of agents is the same under every hash seed of Python."""
    agents = list(env.driver.possible_agents)
    if len(agents) < 2 or not all(isinstance(agent, str) for agent in agents):
        return skipped("its agents are not two or more strings, whose hashes differ between processes")
    try:
        message = b"" if env.origin is None else pickle.dumps(env.origin)
    except Exception:
        message = b""
    if not message:
        return skipped("this needs a name, or an importable function that makes the environment")
    # The order of a set also depends on that in which it was filled, wherever hashes collide.
    order = f"a = {agents!r}; print(any(list(set(one)) == a for one in (a, a[::-1], sorted(a))))"
    seeds = (str(seed) for seed in range(1, 40))
    # A process without envoi takes milliseconds.
    apart = [*islice((seed for seed in seeds if _run("-S", order, seed) == "False"), 2)]
    if not apart:
        return skipped("no hash seed makes a difference to a set of these agents")
    made = f"from {new_driver.__module__} import new_driver; made = new_driver(pickle.load(sys.stdin.buffer))"
    code = f"import json, pickle, sys; {made}; print('', json.dumps(made.possible_agents), sep='\\n')"
    for seed in apart:
        found = _run("-u", code, seed, message)
        if not found:
            return skipped("it could not be played in another process")
        there = json.loads(found)
        if there != agents:
            hashes = "where Python's hashes of strings differ"
            return failed(f"possible_agents: {agents} in one process, {there} in another, {hashes}")
    return PASSED


def _run(option: str, code: str, hash_seed: str, message: bytes = b"") -> str:
    """Returns the last line that code prints in a process under another hash seed; nothing if it fails."""
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, option, "-c", code]
    try:
        run = subprocess.run(command, input=message, capture_output=True, check=True, env=env, timeout=120)  # noqa: S603
    except subprocess.SubprocessError:
        return ""
    return run.stdout.decode().splitlines()[-1]


_of_agents: Any = partial(observed, kinds=("multi",))

AGENTS = (
    _of_agents("agents-in-order", "Agents are among `possible_agents`, and in that order.", 38),
    hash_order,
    _of_agents(
        "agents-complete",
        "Each agent in play has values in each step until it ends, and an observation before it acts.",
        *(34, 39),
    ),
    _of_agents("ended-are-silent", "An agent that has ended has no more values in the episode.", 36, no_case=_no_ends),
    _of_agents("final-observation", "Each agent that ends has a final observation.", 34, 35, no_case=_no_ends),
    _of_agents("turn", "While agents are in play, at least one of them acts.", 41),
    _of_agents(
        "mask-legal",
        "An action mask has one entry per action, and allows an action to each agent that acts.",
        42,
        no_case=lambda rollout: "" if rollout.masks else "it has no action masks",
    ),
    _of_agents(
        "zero-sum",
        "Where the metadata have 'zero_sum', the rewards of all agents sum to 0 in each episode.",
        33,
        no_case=_not_zero_sum,
    ),
)
AGENT_KEYS = tuple(one.key for one in AGENTS)
"""Keys of requirements on agents, whose violations importers refuse."""
