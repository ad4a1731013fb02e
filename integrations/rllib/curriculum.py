"""The contexts of RLlib's episodes, chosen by one curriculum for all env runners.

The curriculum lives in the algorithm's process. Before each iteration it chooses contexts for the coming episodes,
for each env runner in turn. Afterwards it learns how the episodes ended, sorted by lane. Contexts that a runner has not
used are taken back, so the curriculum chooses as in a plain loop, except that runners which use fewer than others skip
some. A runner that needs more contexts than it has starts over with its own. The curriculum's state and its latest
choices are part of the algorithm's state, and so of each checkpoint.
"""

from __future__ import annotations

import copy
import math
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import envoi
from envoi.adapters import to_rllib
from envoi.adapters.rllib.creator import forms_of, make_core
from envoi.adapters.shared.loss import warn_user
from envoi.context import ContextSet, RoundRobin, Selector
from envoi.context.features import Feature
from envoi.curricula import Curriculum, Handed, PrioritizedLevelReplay
from envoi.curricula.curriculum import Episode, read_episodes
from envoi.curricula.level_replay import OF_A_CRITIC, OF_EPISODES
from envoi.structural_equality import Structured

from ..env_contexts import are_regions, contextual_of, name_overlap, read_set, with_contexts
from ..errors import one_line

CHOSEN = "contexts"
"""The entry of a config's options that holds its `ChosenContexts`."""
TABLE = "context_table"
"""Key of a result of `envoi train`, under `env_runners`, for the rows of `contexts.parquet`."""
MOST_METRICS = 128
"""Sets of more contexts have no metrics of each."""
_STATE = "envoi_contexts"
"""Key of an algorithm's state, and its attribute for the `Chooser`."""
_BLOCK = 4
"""The number of contexts that each lane has for the first iteration."""


@dataclass(frozen=True, eq=False)
class ChosenContexts:
    """The contexts of a config, for either training or evaluation.

    Args:
        full: The full contexts by id.
        arguments: Arguments of `Contextual` that replace the env's own.
        curriculum: The selector that chooses in training; None in evaluation, which uses the contexts in turn.
        drawn_from: The distributions from which the curriculum samples contexts.
    """

    full: ContextSet
    arguments: Mapping[str, Any]
    curriculum: Selector | None = None
    drawn_from: Mapping[str, Feature] = field(default_factory=dict[str, Feature])

    def __deepcopy__(self, _: dict[int, Any]) -> ChosenContexts:
        return self  # RLlib copies configs often, and the curriculum stays the user's object

    def __reduce__(self) -> tuple[Any, ...]:
        from ray import cloudpickle

        # As bytes, because arrays that Ray sends by themselves are read-only.
        return _load_chosen, (cloudpickle.dumps(vars(self)),)  # pyright: ignore[reportPrivateImportUsage]


def _load_chosen(pickled: bytes) -> ChosenContexts:
    return ChosenContexts(**pickle.loads(pickled))  # noqa: S301 - as Ray does


def choose(
    env: Any, env_config: Mapping[str, Any], contexts: Any, curriculum: Any, eval_contexts: Any
) -> tuple[ChosenContexts, ChosenContexts]:
    """Checks the contexts that a user gives for an env; returns the training and the evaluation contexts."""
    if not isinstance(curriculum, Selector | None):
        raise envoi.ContextError(f"curriculum: expected a selector of envoi.curricula, got {curriculum!r}")
    score, tell = getattr(curriculum, "score", None), getattr(type(curriculum), "tell", None)
    if score in OF_A_CRITIC and tell is PrioritizedLevelReplay.tell:  # one of the user's may add scores
        raise envoi.ContextError(
            f"curriculum: {score!r} is a critic's score, and RLlib's env runners have no critic; choose one "
            f"of {list(OF_EPISODES)}"
        )
    with make_core(env, env_config) as core:
        given = {} if contexts is None else {"contexts": _read_one_set("contexts", contexts, core)}
        selector = RoundRobin() if curriculum is None else curriculum
        trained = contextual_of(with_contexts(core, context_selector=selector, **given))
        assert trained is not None
        full = ContextSet(trained.contexts)
        given = {**given, "contexts": full} if given else given
        training = ChosenContexts(full, given, selector, selector.drawn_from)
        # In evaluation the agent sees a context as in training.
        view: dict[str, Any] = {}
        if contextual_of(core) is not None and trained.state_context_features:
            view["state_context_features"] = trained.state_context_features
            view["scale_context_features"] = trained.context_divisors
        with _naming("eval_contexts"):
            held_out = full if eval_contexts is None else _read_one_set("contexts", eval_contexts, core)
            judged = contextual_of(with_contexts(core, contexts=held_out, context_selector=None, **view))
        assert judged is not None
        both = name_overlap(judged.contexts, full.values(), trained) if eval_contexts is not None else ""
        if both:
            warn_user(f"eval_contexts: also among the training contexts: {both}", UserWarning)
        held_out = ContextSet(judged.contexts)
        if isinstance(curriculum, Curriculum):
            _check_episodes(curriculum, with_contexts(core, context_selector=_Checking(curriculum), **given))
    return training, ChosenContexts(held_out, {**view, "contexts": held_out})


@contextmanager
def _naming(argument: str) -> Iterator[None]:
    """Makes errors of contexts name the argument that the contexts came from."""
    try:
        yield
    except envoi.ContextError as error:
        text = str(error)
        where = argument.removesuffix("contexts") if text.startswith("contexts") else f"{argument}: "
        raise envoi.ContextError(text if text.startswith(argument) else where + text) from error


def _read_one_set(name: str, given: Any, core: Any) -> ContextSet:
    with _naming(name):
        found = read_set(given, core)
        if are_regions(found):
            regions = [*found]
            raise envoi.ContextError(
                f"{name}: expected one set of contexts, got the regions {regions}; give one, such as [{regions[0]!r}]"
            )
        contexts = ContextSet(found)
    if not contexts:
        raise envoi.ContextError(f"{name}: expected at least one context, got none")
    return contexts


class _Checking(RoundRobin):
    """Passes episodes to a curriculum's `check` only, so that it learns nothing from a trial run."""

    def __init__(self, curriculum: Curriculum) -> None:
        self._curriculum = curriculum
        super().__init__()

    def tell(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        with _naming("curriculum"):
            self._curriculum.check(read_episodes(episodes))


def _check_episodes(curriculum: Curriculum, env: Any) -> None:
    """Plays random episodes for at most a second, if a curriculum may refuse episodes, as without a success."""
    from .random_play import play_at_random

    try:
        curriculum.check([Episode(None, {}, math.nan, 0.0, None, None)])  # no return, so within no bounds
    except envoi.ContextError:
        with one_line():
            form: Any = to_rllib(lambda: env, canonical="structured")({})
            play_at_random(form, 1000, time.monotonic() + 1, 0)


def make_in_contexts(env: Any, chosen: ChosenContexts, **env_config: Any) -> Any:
    """Makes an env whose `Contextual` has other contexts."""
    selector = None if chosen.curriculum is None else Queued(chosen.drawn_from)
    return with_contexts(make_core(env, env_config), context_selector=selector, **chosen.arguments)


# In an env runner.


class Queued(Handed, Structured):
    """Returns the contexts that the curriculum has chosen for an env runner's lanes; records their episodes."""

    def __init__(self, drawn_from: Mapping[str, Feature]) -> None:
        super().__init__()
        self._drawn_from = dict(drawn_from)
        self._block: tuple[Any, ...] = ()
        self._begun = 0  # how often it had chosen when the block came

    @property
    def drawn_from(self) -> dict[str, Feature]:
        return self._drawn_from

    def parts(self) -> list[tuple[str, Any]]:
        return [("drawn_from", self._drawn_from)]  # lanes with equal selectors are one batch, and can be compiled

    def collect(self) -> tuple[int, list[Mapping[str, Any]]]:
        """Returns how many contexts of the current block were used, and the episodes ended since the last call."""
        return self.n_calls - self._begun, self.exchange(())

    def put(self, block: Sequence[Any]) -> None:
        """Replaces the coming contexts."""
        self._block, self._begun = tuple(block), self.n_calls
        self.position = {**self.position, "coming": self._block}

    def _next(self, rng: np.random.Generator) -> tuple[Any, Any]:
        if not self.position.get("coming"):
            if not self._block:  # of a process that has just started
                key = self.contexts_keys[(self.lane + self.n_calls) % len(self.contexts_keys)]
                return key, self.contexts[key]
            self.position = {**self.position, "coming": self._block}
        return super()._next(rng)


def share_selector(env_runner: Any, env: Any) -> None:
    """Makes all lanes of an env runner share one selector, which is kept if its envs are made again."""
    found = [one for form, _ in forms_of(env) for one in _contextuals(form.core)]
    found = [one for one in found if isinstance(one.context_selector, Queued)]
    chosen = chosen_in(env_runner.config)
    if chosen is not None and (chosen.curriculum is None) != bool(env_runner.config.in_evaluation):
        raise envoi.ContextError(
            "evaluation_config: expected the one that configure has set, with settings added by "
            "config.evaluation(evaluation_config={…}), got another, which would evaluate in the training contexts"
        )
    if chosen is not None and chosen.curriculum is not None and not found:
        raise envoi.ContextError(
            "gym_env_vectorize_mode: expected 'sync' or 'vector_entry_point' for contexts=… and curriculum=…, got "
            f"{env_runner.config.gym_env_vectorize_mode!r}"
        )
    if found:
        selector = getattr(env_runner, _STATE, None) or found[0].context_selector
        for one in found:
            one.context_selector = selector
        setattr(env_runner, _STATE, selector)


def chosen_in(config: Any) -> ChosenContexts | None:
    """Returns the contexts that `configure` has stored in an RLlib config, or None."""
    return (config.env_config.get("envoi_options") or {}).get(CHOSEN)


def _contextuals(core: Any) -> Iterator[envoi.Contextual]:
    """Yields the outermost `Contextual` of an env, or of each of its lanes."""
    found = contextual_of(core)
    if found is not None:
        yield found
        return
    for lane in getattr(core.unwrapped, "envs", ()):
        yield from _contextuals(lane)


def _collect(env_runner: Any) -> tuple[int, int, int, list[Mapping[str, Any]]] | None:
    selector = getattr(env_runner, _STATE, None)
    return None if selector is None else (env_runner.worker_index or 0, env_runner.num_envs, *selector.collect())


def _put(env_runner: Any, blocks: Mapping[int, Sequence[Any]]) -> None:
    selector, block = getattr(env_runner, _STATE, None), blocks.get(env_runner.worker_index or 0)
    if selector is not None and block is not None:
        selector.put(block)


# In the process of the algorithm.


class Chooser:
    """Lets a curriculum choose the contexts of all env runners of an algorithm.

    Attributes:
        curriculum: The user's curriculum; without one, a selector that uses the contexts in turn.
        episodes: The episodes that ended in the last iteration, as passed to `tell`.
    """

    def __init__(self, algorithm: Any, chosen: ChosenContexts) -> None:
        assert chosen.curriculum is not None
        self.curriculum: Any = chosen.curriculum
        self.episodes: list[Mapping[str, Any]] = []
        self._keys, self._group = list(chosen.full), algorithm.env_runner_group
        self._rng = np.random.default_rng(algorithm.config.seed)  # for selectors that take numbers of an env
        self._mark: Any = None  # the position before the last choices
        self._blocks: dict[int, list[Any]] = {}
        setattr(algorithm, _STATE, self)
        algorithm.get_state = partial(self._get_state, algorithm.get_state)
        algorithm.set_state = partial(self._set_state, algorithm.set_state)
        self._hand_out(self._collect())

    def advance(self, result: dict[str, Any]) -> None:
        """Passes an iteration's episodes to the curriculum, adds metrics to the result, and chooses contexts again."""
        found = self._collect()
        used = max((used for _, _, used, _ in found), default=0)
        self._take_back(min(used, max(map(len, self._blocks.values()), default=0)))
        rows = [row for _, _, _, ended in found for row in ended]
        self.episodes = sorted(rows, key=lambda row: row["lane"])  # those of a lane stay in their order
        if rows:
            self.curriculum.tell(self.episodes)
        self._hand_out(found, used)
        if len(self._keys) <= MOST_METRICS:
            result.setdefault("env_runners", {})["contexts"] = self._metrics()

    def put_again(self, workers: Sequence[int]) -> None:
        """Gives restarted env runners their contexts again."""
        self._group.foreach_env_runner(
            partial(_put, blocks=self._blocks), local_env_runner=False, remote_worker_ids=list(workers)
        )

    def table(self) -> list[dict[str, Any]]:
        """Returns a row for each context that episodes of the last iteration had."""
        by_id: dict[Any, list[Mapping[str, Any]]] = {}
        are_numbers = all(isinstance(row["context_id"], int) for row in self.episodes)
        for row in self.episodes:
            by_id.setdefault(row["context_id"], []).append(row)
        return [
            {
                "context_id": key if are_numbers else str(key),
                **{f"context.{name}": value for name, value in rows[0]["context"].items()},
                "episodes": len(rows),
                **{what: sum(row[what] for row in rows) / len(rows) for what in ("return", "length")},
                "share": len(rows) / len(self.episodes),
            }
            for key, rows in ((key, by_id[key]) for key in dict.fromkeys((*self._keys, *by_id)) if key in by_id)
        ]

    def _metrics(self) -> dict[str, dict[str, float]]:
        """Returns metrics of all contexts, because loggers need the same keys in each iteration."""
        rows: dict[Any, dict[str, Any]] = {str(row["context_id"]): row for row in self.table()}
        none = {"return": math.nan, "length": math.nan, "share": 0.0}
        names = {"episode_return_mean": "return", "episode_len_mean": "length", "share": "share"}
        return {key: {name: rows.get(key, none)[of] for name, of in names.items()} for key in map(str, self._keys)}

    # Choices.

    def _collect(self) -> list[tuple[int, int, int, list[Mapping[str, Any]]]]:
        found = self._group.foreach_env_runner(_collect)
        return sorted((one for one in found if one is not None), key=lambda one: one[0])

    def _hand_out(self, runners: Sequence[tuple[int, int, int, Any]], used: int = 0) -> None:
        """Chooses the contexts of coming episodes, one env runner after the other, and sends them to the runners."""
        self._mark = copy.deepcopy(self.curriculum.position), self._rng.bit_generator.state
        lanes = max((lanes for _, lanes, _, _ in runners), default=0)
        coming = self._select((lanes + 2 * used if used else _BLOCK * lanes) * len(runners))
        self._blocks = {worker: coming[turn :: len(runners)] for turn, (worker, *_) in enumerate(runners)}
        self._group.foreach_env_runner(partial(_put, blocks=self._blocks))

    def _take_back(self, used: int) -> None:
        """Takes back choices for episodes that have not begun."""
        position, self._rng.bit_generator.state = self._mark
        self.curriculum.position = copy.deepcopy(position)
        self._select(used * len(self._blocks))

    def _select(self, n: int) -> list[Any]:
        curriculum = self.curriculum
        places = curriculum.select_places(self._rng, n) if n else None
        if places is None:
            return [curriculum.select(self._rng) for _ in range(n)]
        return [(key, curriculum.contexts[key]) for key in (curriculum.contexts_keys[place] for place in places)]

    # Checkpoints.

    def _get_state(self, get_state: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        has_own = hasattr(self.curriculum, "state_dict")
        own: Any = self.curriculum.state_dict() if has_own else copy.deepcopy(vars(self.curriculum))
        held = {"curriculum": own, "mark": self._mark, "blocks": self._blocks}
        return {**get_state(*arguments, **options), _STATE: {**held, "stream": self._rng.bit_generator.state}}

    def _set_state(self, set_state: Any, state: Mapping[str, Any]) -> None:
        set_state(state)
        if (held := state.get(_STATE)) is None:
            return
        if hasattr(self.curriculum, "load_state_dict"):
            self.curriculum.load_state_dict(held["curriculum"])
        else:
            vars(self.curriculum).update(copy.deepcopy(held["curriculum"]))
        self._mark, self._blocks, self._rng.bit_generator.state = held["mark"], held["blocks"], held["stream"]
        runners = self._collect()  # and with them the episodes from before
        if {worker for worker, *_ in runners} == set(self._blocks):
            self._group.foreach_env_runner(partial(_put, blocks=self._blocks))
        else:
            self._take_back(0)
            self._hand_out(runners)


def begin(algorithm: Any) -> None:
    """Makes the `Chooser` of a new algorithm, if its config has a curriculum."""
    chosen = chosen_in(algorithm.config)
    if chosen is not None and chosen.curriculum is not None and algorithm.env_runner_group is not None:
        Chooser(algorithm, chosen)


def chooser_of(algorithm: Any) -> Chooser | None:
    """Returns the `Chooser` of an algorithm, or None if its config has no contexts."""
    return getattr(algorithm, _STATE, None)


def curriculum_of(algorithm: Any) -> Any:
    """Returns the curriculum object of an algorithm, which chooses its contexts and learns from its episodes.

    Raises:
        envoi.EnvoiError: The algorithm has no curriculum.
    """
    chooser = chooser_of(algorithm)
    if chooser is None:
        raise envoi.EnvoiError("the algorithm has no curriculum; give one by configure(config, env, curriculum=…)")
    return chooser.curriculum


def tabulate(*, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
    """Callback that adds the rows of `contexts.parquet` to a result."""
    if (chooser := chooser_of(algorithm)) is not None:
        result.setdefault("env_runners", {})[TABLE] = chooser.table()
