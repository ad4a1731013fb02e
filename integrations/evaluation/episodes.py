"""Held-out evaluation: plays each episode of each context exactly once, from a seed that depends on both.

Episodes are fixed in advance, because the first ones to end are short. No result depends on how many run side by
side, or in which process.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import envoi
from envoi.adapters import from_env, load
from envoi.adapters.conversion import one_agent
from envoi.adapters.shared.arrival import incoming
from envoi.context import Contexts, ContextSet
from envoi.context.features import plain
from envoi.context.regions import REGIONS
from envoi.protocol.process import Process
from envoi.seeding import check_seed

from ..env_contexts import FirstLane, are_regions, contextual_of, name_overlap, read_set, with_contexts
from ..errors import check_number, one_line
from ..rllib import RunFolder
from .policies import Acting, EnvOfRun, acting_of, sendable
from .tables import OVERLAP, check_parquet, write_tables


@dataclass(frozen=True)
class Task:
    """An episode to play: its index among all episodes, its row so far, and the options of its reset."""

    place: int
    row: Mapping[str, Any]
    options: Mapping[str, Any] | None


@dataclass(frozen=True)
class _Asked:
    """The policy, the env and the contexts of an evaluation, in the form that is sent to other processes."""

    policy: Any
    env: Any
    contexts: Contexts | None
    batched: bool
    explore: bool
    lanes: int
    max_steps: int


def evaluate(
    policy: Any,
    env: Any = None,
    *,
    contexts: Any = None,
    episodes: int = 5,
    seed: int = 0,
    lanes: int = 16,
    workers: int | None = None,
    batched: bool = False,
    out: str | Path | None = None,
    address: str | None = None,
    variant: str | None = None,
    train_seed: int | None = None,
    explore: bool = False,
    max_steps: int = 100_000,
    observe: Callable[[Mapping[str, Any]], object] | None = None,
) -> list[dict[str, Any]]:
    """Plays the same number of episodes in each context with any policy, and returns a row for each episode.

    Each episode has its own seed, which follows from `seed`, the id of its context and its number. So the rows do not
    depend on the number of lanes and processes, more episodes or contexts do not change the others, and
    `env.reset(seed=row["seed"], options={"context_id": row["context_id"]})` plays a row again.

    Args:
        policy: A function of an observation. If it has `reset(seed)`, that is called before each episode; if it has
            `initial_state`, it also takes and returns its state. Or a Stable-Baselines3 model, an actor as in Acme, the
            folder of a run or of an RLlib checkpoint, or a result of `load_policy`.
        env: The env: its name, an env of any framework, or a function that makes one; None for the env of a run. An
            `envoi.Contextual` at any depth shows the contexts as configured; any other env is wrapped in one that hides
            them, or shows all of them if only that fits the policy.
        contexts: A set of contexts, the path of a file, ranges and grids such as `"length=0.3..0.7:8"` (see
            `envoi.context.parse_contexts`; 100 samples of a range), the `envoi.context.regions` of a protocol, or
            contexts by region and id. None for the set of the env's `Contextual`.
        episodes: How many episodes in each context.
        seed: Seed of the whole evaluation.
        lanes: How many episodes a policy with `batched=True` plays side by side; others play one after the other.
        workers: How many processes play; None for this one alone.
        batched: True if the policy takes observations of several episodes, with a leading axis, and returns as many
            actions. A model's actions may differ in the last bits between sizes of batches.
        out: A folder to write `evaluation.csv` and `evaluation.parquet` into.
        address: A Ray cluster whose tasks play, such as "auto"; `workers` is their number, by default one per CPU.
        variant: The policy's name in reports; None for the name of the run, class or function.
        train_seed: The seed that the policy was trained with, for reports; None for the seed of the run or model.
        explore: Sample the actions of a run as in training, rather than take the best.
        max_steps: Raise an error for episodes longer than this.
        observe: Called with each row, in the order in which episodes end; not with workers.

    Returns:
        Rows with `env`, `variant`, `train_seed`, `region`, `context_id`, `context.<feature>` for each feature,
        `episode`, `seed`, `return`, `length`, `terminated` and `success` (the last info's `is_success`, or None), in
        the order of the contexts.

    Raises:
        envoi.ContextError: The env lacks a context, or there are none.
        envoi.EnvoiError: The policy is of an unsupported kind or does not fit the env; the env or a worker failed; an
            episode did not end; or a number is out of its range.
    """
    for what, number in (("episodes", episodes), ("lanes", lanes), ("workers", workers), ("max_steps", max_steps)):
        if number is not None:
            check_number(what, plain(number), 1)
    check_seed(seed)
    if out is not None:
        check_parquet()
    acting = acting_of(policy, batched, explore)
    own_env = _env_of_run(policy) if env is None else None
    env = env if own_env is None else own_env
    with one_line():
        core = _make(env)
    try:
        found = _contexts_of(contexts, core, seed)
        given = None if found is None else {key: context for _, key, context in found}
        asked = _Asked(policy, env, given, batched, explore, lanes, max_steps)
        own = None if own_env is None else contextual_of(core)
        trained = {} if own is None else own.contexts
        core = _prepare(core, asked, acting)
        if found is not None:
            _warn_of_overlap(contextual_of(core), trained, found)
        name = _name_of(env, core) if own_env is None else own_env.name
        row = {"env": name, "variant": variant or acting.name}
        row["train_seed"] = acting.train_seed if train_seed is None else train_seed
        tasks = _tasks(core, row, found, episodes, seed)
        if workers is None and address is None:
            played = _play(core, asked, acting, tasks)
        else:
            played = _play_elsewhere(asked, tasks, workers, address)
        rows: list[dict[str, Any]] = [{}] * len(tasks)
        for place, result in played:
            rows[place] = result
            if observe is not None:
                observe(result)
    finally:
        if isinstance(env, str) or _makes_envs(env):
            core.close()
    if out is not None:
        write_tables(Path(out), {"evaluation": rows})
    return rows


# The env and its contexts.


def _makes_envs(env: Any) -> bool:
    return callable(env) and not isinstance(env, Process)


def _make(env: Any) -> envoi.Env:
    """Makes a single-agent core env of one lane."""
    made = load(env) if isinstance(env, str) else from_env(env() if _makes_envs(env) else env)
    return one_lane(made, "an evaluation")


def one_lane(env: Any, by: str) -> envoi.Env:
    """Converts an env to a single-agent env of one lane; takes the first lane of a batch."""
    core = one_agent(env, by)
    return core if core.batch_size is None else FirstLane(cast("envoi.BatchEnv", core))


def _env_of_run(policy: Any) -> EnvOfRun:
    if isinstance(policy, (str, os.PathLike)):
        run = RunFolder(Path(policy))
        if run.exists:
            return EnvOfRun.read(run)
    raise envoi.EnvoiError("env: which? Only the folder of a run has one; give a name, an env or a function")


def _name_of(env: Any, core: envoi.Env) -> str:
    native: Any = core.unwrapped
    return env if isinstance(env, str) else getattr(getattr(native, "spec", None), "id", type(native).__name__)


Found = list[tuple[str | None, Any, Mapping[str, Any]]]
"""Contexts, each with its region and its id."""


def _contexts_of(given: Any, core: envoi.Env, seed: int) -> Found | None:
    """Returns the contexts that a user gave, or None if the user gave none and the env's apply."""
    if given is None:
        return None
    given = read_set(given, core, seed)
    by_region = are_regions(given)
    parts: Any = given if by_region else {None: given}
    parts = {name: ContextSet(one) for name, one in parts.items()}
    empty = [name for name, one in parts.items() if not one]
    if empty:
        what = f"contexts[{empty[0]!r}]: the region is empty" if by_region else "contexts: there are none"
        raise envoi.ContextError(f"{what}; expected at least one context")
    found: Found = [(name, key, context) for name, one in parts.items() for key, context in one.items()]
    keys = [key for _, key, _ in found]
    if len({*keys}) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise envoi.ContextError(f"contexts: expected each id once over all regions, got {twice!r} twice")
    names: list[Any] = [re.fullmatch(f"({'|'.join(REGIONS)})-[0-9]+", str(key)) for key in keys]
    if not by_region and all(names):  # those of `regions` in one set, as a file holds them
        found = [(name[1], key, context) for name, (_, key, context) in zip(names, found, strict=True)]
    return found


def _prepare(core: envoi.Env, asked: _Asked, acting: Acting) -> envoi.Env:
    """Makes an env whose resets can choose the contexts, and checks that the policy fits it."""
    tried = [core]
    if asked.contexts is not None:
        contextual = contextual_of(core)
        if contextual is None:
            tried = [envoi.Contextual(core, asked.contexts, hide_context=hidden) for hidden in (True, False)]
        else:
            for context in asked.contexts.values():
                contextual.fill_context_with_default(context)  # an error if it is no context of the env at all
            # Contexts are chosen by their values, so that the agent sees them scaled and selected as in its training.
            try:
                for context in asked.contexts.values():
                    contextual.set(context)
            except envoi.ContextError:  # observations could lie outside of their spec, unless the set reaches as far
                more = {("", key): value for key, value in asked.contexts.items()}  # ids that are not those of the set
                in_set = {**contextual.contexts, **more}
                tried = [with_contexts(core, contexts=in_set, context_selector=envoi.context.RoundRobin)]
            finally:
                contextual.set(None)
    for env in tried:
        if acting.fits(env):
            return env
    acting.form(tried[0])  # RLlib's names the difference
    spaces = f"{acting.policy.observation_space} and {acting.policy.action_space}"
    raise envoi.EnvoiError(f"env: the policy was trained with {spaces}, and this env has others")


def _warn_of_overlap(contextual: Any, trained: Contexts, found: Found) -> None:
    """Warns of evaluation contexts that are also among a run's training contexts or in the region `train`."""
    known = [*trained.values()] if len(trained) > 1 else []
    known += [contextual.fill_context_with_default(context) for region, _, context in found if region == "train"]
    named = name_overlap({key: one for region, key, one in found if region != "train"}, known, contextual)
    if named:
        warnings.warn(f"{OVERLAP}: {named}", stacklevel=3)


def _tasks(core: envoi.Env, row: Mapping[str, Any], found: Found | None, episodes: int, seed: int) -> list[Task]:
    """Returns the episodes in the order of the contexts, each with a seed of its own.

    If a hash gives a seed that is already taken, another one is tried. Seeds are made episode by episode, so that more
    episodes do not change earlier seeds.
    """
    contextual = contextual_of(core)
    own = {} if contextual is None else contextual.contexts
    tasks: list[Task] = []
    chosen: list[tuple[str | None, Any, dict[str, Any] | None, dict[str, Any] | None]] = []
    if found is not None and contextual is not None:
        for region, key, context in found:
            full = contextual.fill_context_with_default(context)
            by_id = key in own and own[key] == full
            chosen.append((region, key, full, {"context_id": key} if by_id else {"context": full}))
    elif len(own) > 1:
        chosen = [(None, key, full, {"context_id": key}) for key, full in own.items()]
    else:  # no contexts, or those that a selector makes
        chosen = [(None, None, None, None)]
    features = list(own[next(iter(own))]) if own else []
    taken = set[int]()
    for number, (at, (region, key, context, options)) in itertools.product(range(episodes), enumerate(chosen)):
        text = repr(key) if isinstance(key, (str, int, float, tuple, type(None))) else at
        hashes = (hashlib.sha256(f"{seed} {number} {attempt} {text}".encode()) for attempt in itertools.count())
        drawn = next(value for one in hashes if (value := int.from_bytes(one.digest()[:4], "big") >> 1) not in taken)
        taken.add(drawn)
        values = {f"context.{name}": None if context is None else context.get(name) for name in features}
        done = {**row, "region": region, "context_id": key, **values, "episode": number, "seed": drawn}
        tasks.append(Task(at * episodes + number, done, options))
    return sorted(tasks, key=lambda task: task.place)


# Playing.


def _play(
    core: envoi.Env, asked: _Asked, acting: Acting, tasks: Sequence[Task]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Plays episodes; yields the index and the row of each when it ends."""
    many = min(asked.lanes, len(tasks)) if acting.batched else 1
    cores = [core]
    try:
        while len(cores) < many:
            cores.append(_another(core, asked, acting))
        waiting = iter(tasks)
        lanes = [Lane(acting.form(one), acting, asked.max_steps) for one in cores]
        playing = [lane for lane in lanes if lane.begin(next(waiting, None))]
        while playing:
            actions = acting.act(playing)
            for lane, action in zip(playing, actions, strict=True):
                row = lane.step(action)
                if row is not None:
                    assert lane.task is not None
                    yield lane.task.place, row
                    lane.begin(next(waiting, None))
            playing = [lane for lane in playing if lane.task is not None]
    finally:
        for one in cores[1:]:
            one.close()


def _another(core: envoi.Env, asked: _Asked, acting: Acting) -> envoi.Env:
    """Makes another env like the prepared one."""
    if isinstance(asked.env, str) or _makes_envs(asked.env):
        with one_line():
            return _prepare(_make(asked.env), asked, acting)
    try:
        return copy.deepcopy(core)
    except Exception as error:
        raise envoi.EnvoiError(
            f"env: it cannot be copied ({error}); give a function that makes one, or lanes=1"
        ) from error


class Lane:
    """An env that plays one episode after the other."""

    def __init__(self, env: Any, acting: Acting, max_steps: int) -> None:
        self.env, self.reward, self.info = env, 0.0, dict[Any, Any]()
        self.observation: Any = None
        self.state: Any = None
        self.task, self._acting, self._max_steps = None, acting, max_steps
        core = getattr(env, "core", env)
        self._contextual = contextual_of(core)
        self._spec = env.action_spec if isinstance(env, envoi.Env) else None  # forms check actions themselves
        # Numbers of another width will do; a model itself would take any.
        self._fitted: Any = None if self._spec is None else incoming(self._spec, False)

    @property
    def _context(self) -> dict[str, Any]:
        """The context of the episode; for a batch, the context of its first lane."""
        context: Any = cast("Any", self._contextual).context
        return dict(context if isinstance(context, Mapping) else context[0])

    def begin(self, task: Task | None) -> bool:
        """Begins an episode; returns False if `task` is None, so that none is left."""
        self.task: Task | None = task
        if task is None:
            return False
        with one_line():
            self.observation, self.info = self.env.reset(seed=task.row["seed"], options=task.options)
        self.reward, self._rewards = 0.0, list[float]()
        self._row = dict(task.row)
        if task.options is None:
            self._row["context_id"] = self.info.get("context_id")
            if self._contextual is not None:
                self._row |= {f"context.{name}": value for name, value in self._context.items()}
        self._acting.begin(self, task.row["seed"])
        return True

    def step(self, action: Any) -> dict[str, Any] | None:
        """Steps the env; returns the episode's row if the step ended it."""
        row = self._row
        if self._spec is not None:
            fitted = action
            with suppress(AttributeError, LookupError, TypeError, ValueError):  # of one of another structure
                fitted = self._fitted(action)
            envoi.validate(self._spec, fitted, "policy: action")
        with one_line():
            self.observation, reward, terminated, truncated, *more, self.info = self.env.step(action)
            self.reward = float(reward)
        self._rewards.append(self.reward)
        over = bool(terminated), bool(truncated)
        self._acting.see(self, action, over, more[0] if more else float(not terminated))
        if not any(over):
            if len(self._rewards) >= self._max_steps:
                where = f"context {row['context_id']!r}, seed {row['seed']}"
                raise envoi.EnvoiError(f"max_steps: an episode ({where}) did not end within {self._max_steps} steps")
            return None
        ended = {"return": sum(self._rewards), "length": len(self._rewards), "terminated": over[0], "success": None}
        if self._contextual is None:
            success = self.info.get("is_success")
            return row | ended | {"success": None if success is None else float(success)}
        episode = {"context_id": row["context_id"], "context": self._context, **ended, "lane": 0}
        return row | ended | {"success": self._contextual.success_of(episode, self.info)}


# Other processes.

_BOOT = """
import os, pickle, sys
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what an env prints must not be among the answers
sys.path[:] = pickle.load(sys.stdin.buffer)
from envoi.integrations.evaluation.episodes import answer
answers.write(answer(sys.stdin.buffer.read()))
"""


def answer(request: bytes) -> bytes:
    """Plays the episodes that `_play_elsewhere` has sent; returns the pickled rows, or the text of an error."""
    try:
        asked, tasks = pickle.loads(request)  # noqa: S301 (made by the caller)
        acting = acting_of(asked.policy, asked.batched, asked.explore)
        core = _prepare(_make(asked.env), asked, acting)
        return pickle.dumps(list(_play(core, asked, acting, tasks)))
    except Exception as error:
        with_place = error if isinstance(error, envoi.EnvoiError) else f"{type(error).__name__}: {error}"
        return pickle.dumps(str(with_place))


def _play_elsewhere(
    asked: _Asked, tasks: Sequence[Task], workers: int | None, address: str | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Plays episodes in other processes, or as Ray tasks."""
    asked = replace(asked, policy=sendable(asked.policy))
    if address is None:
        answers = _answer_in_processes(asked, _shares(tasks, workers or 1))
    else:
        answers = _answer_on_ray(asked, tasks, workers, address)
    for found in map(pickle.loads, answers):
        if isinstance(found, str):
            raise envoi.EnvoiError(found)
        yield from found


def _shares(tasks: Sequence[Task], n: int) -> list[Sequence[Task]]:
    n = min(n, len(tasks))
    return [tasks[k::n] for k in range(n)]


def _answer_in_processes(asked: _Asked, shares: Sequence[Sequence[Task]]) -> Iterator[bytes]:
    requests = [pickle.dumps(sys.path) + _pickled((asked, share), "cloudpickle", "pickle") for share in shares]
    command, pipe, started = [sys.executable, "-c", _BOOT], subprocess.PIPE, list[Any]()
    with ExitStack() as ends:
        for request in requests:
            process: Any = ends.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe))  # noqa: S603
            ends.callback(process.kill)
            process.stdin.write(request)
            process.stdin.close()
            started.append(process)
        for process in started:
            found = process.stdout.read()
            if process.wait() or not found:
                raise envoi.EnvoiError(f"a worker of the evaluation ended with exit code {process.returncode}")
            yield found


def _pickled(value: Any, *modules: str) -> bytes:
    """Pickles a value by the first of several modules that can pickle it."""
    errors: list[str] = []
    for name in modules:  # the first pickles functions by their code, so lambdas too
        try:
            return import_module(name).dumps(value)
        except Exception as error:  # the objects of users may raise any error
            errors.append(f"{name}: {error}")
    raise envoi.EnvoiError(f"policy, env: they cannot be sent to a worker ({'; '.join(errors)})")


def _answer_on_ray(asked: _Asked, tasks: Sequence[Task], workers: int | None, address: str) -> Iterator[bytes]:
    import ray

    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init(address=address, log_to_driver=False)
    try:
        n = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        remote: Any = ray.remote(num_cpus=1)(answer)
        futures = [remote.remote(_pickled((asked, share), "ray.cloudpickle")) for share in _shares(tasks, n)]
        yield from ray.get(futures)
    finally:
        if is_ours:
            ray.shutdown()
