"""Contextual environments: a context for every episode, and a view of it for the agent."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, NoReturn, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ...authoring.model import Model
from ...batching.context_table import Coming, Places
from ...batching.loop import batch, lanes_of
from ...context.binding import Binding, binding_of, check_names, close_replaced
from ...context.selectors import Selector
from ...context.sets import same_contexts
from ...errors import ContextError, EpisodeError
from ...protocol.batch_env import as_mask, each_of
from ...protocol.process import Snapshot
from ...protocol.reset_options import CONTEXT, CONTEXT_ID, as_mapping, refuse_misspelt
from ...seeding import Streams, batch_streams
from ...spec import SpecTree
from ...spec.base import shown
from ...steps.record import NOT_BEGUN
from ...wrapping.arguments import at_least
from ...wrapping.change import Change, Specs
from ...wrapping.delegate import Around
from ...wrapping.lifted import Lifted
from .reports import Reports, Running, Success, none_running
from .schedule import Chosen, Context, InForce, Noise, Schedule, SetTable, full_set, selector_of
from .view import View, append, put_beside

__all__ = ["Contextual"]

Logger = Callable[[int, int, dict[str, Any]], Any]
"""`(episode, total steps, context)`, called at the beginning of each episode."""


class Contextual(Lifted):
    """Gives every episode a context: a contextual Markov decision process (Hallak et al., 2015).

    Before each reset, a selector chooses a context from a set for the whole episode. The agent observes it next to its
    observation, unless it is hidden. `info["context_id"]` is its id. If options or `set` give a context by its values,
    `info["context_id"]` is None during that episode, and `info["context"]` has the values, a dict by feature. With
    nested `Contextual` wrappers, the id is that of the outer wrapper, and `info["context"]` is always present, because
    the inner wrapper receives values. A reset with a seed restarts the selector, because a seed fixes everything that
    follows. To seed every episode and see more than the first context of a round, use `Random`, or choose by options.
    Arguments follow CARL's `CARLEnv` (Benjamins et al., 2023) and keep its names.

        masses = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}
        env = Contextual(load("gymnasium:Pendulum-v1"), contexts=masses)

    Lanes that are separate environments begin with successive contexts (see `assign_lane`), also in RLlib.

    For one episode, `reset(options={"context_id": …})` or `options={"context": {…}}` chooses the context without
    advancing the selector. An option named like a feature overrides that feature. An option that looks like a
    misspelling of these names raises a `ContextError`; other options go to the environment. In a batch, each lane has
    its own context, which changes only when that lane is reset. In a multi-agent environment, all agents share one
    context.

    Args:
        env: A single-agent environment, a multi-agent environment, or a batch.
        contexts: The contexts as `{id: {feature: value}}`; a sequence, whose ids are 0, 1, …; the path of a file, see
            `envoi.context.load_contexts`; or an `envoi.context.ContextSet`. Omitted features have their defaults. None
            or an empty set gives only the default context.
        default_context: Defaults that override the environment's own.
        context_selector: A selector of `envoi.context`, its class, or None for `RoundRobin`.
        context_selector_kwargs: The arguments of the selector's class.
        hide_context: If True, the agent does not see the context, and the specs of `env` do not change.
        state_context_features: The features that the agent sees, in this order; None for all, `[]` for none,
            `"changing_context_features"` (or a list of it alone, as in CARL) for those that differ over the set.
        context_mask: Features that the agent never sees, regardless of other arguments.
        scale_context_features: How to scale observed values: `"no"`, divided by the mean of the set (`"by_mean"`) or by
            the default value (`"by_default"`), or by divisors given by feature. 1 replaces a divisor of 0.
        add_gaussian_noise_to_context: If True, adds noise to each episode's values, with standard deviation
            `gaussian_noise_std_percentage · |value|`. Contexts of the set and contexts given by values do not change.
        gaussian_noise_std_percentage: The relative standard deviation; 0.01 is one percent.
        max_episode_length: The number of steps after which an episode is truncated, unless an inner limit is lower; or
            None.
        dict_observation_space: If True, the agent sees `{"state": …, "context": …}`, with the context as a vector. If
            False, it sees one array, `[state…, context…]`, which requires a one-dimensional float observation.
        logger: Called when an episode begins as `logger(episode, total_steps, context)`; or an object with a method
            `write_context` that takes these.
        bind: How to apply a context to the environment: None to set its own features, or else its attributes; a
            function `(env, context)`; or a binding of `envoi.context`: `Attributes` or `Factory`.
        n_envs: The number of lanes, to make a batch of `env`.
        noisy_features: The features that get noise, or None for all numeric features.
        clip_noise: If True, noise keeps a value within its feature's bounds.
        context_bounds: Bounds of features that the environment does not describe, as `{name: (low, high)}` or CARL's
            `{name: (low, high, dtype)}`.
        obs_context_features: CARL's newer name of `state_context_features`.
        obs_context_as_dict: CARL's newer layout: `{"obs": …, "context": …}` with the context a dict by feature (True)
            or a vector (False); None for `dict_observation_space`.
        success: For a selector that learns: `(episode) -> success`, a number from 0 to 1, a bool, or None if it is
            unknown. The episode is the dict that `Selector.tell` gets, with its last `info`. None reads
            `info["is_success"]`, averaged over the agents that have it.

    Attributes:
        contexts: The full contexts by id.
        default_context: The default context, or None without defaults.
        context_selector: The selector.
        context_id: The id of the current context; in a batch a tuple with one per lane. `context_key` is the same.
        state_context_features: The names of the features that the agent sees.
        max_episode_length: The number of steps after which an episode is truncated, or None.

    Raises:
        ContextError: A feature, mask or id is unknown; a value is out of bounds; `"by_default"` has no defaults; or the
            environment does not support contexts. A reset raises it if an option's name is misspelt.
        SpecError: The layout does not support the environment's observation.
    """

    memory = ("_in_force", "_bound", "_episodes", "_total", "running")
    fixed = ("contexts", "default_context")
    _planned = (
        *Lifted._planned,
        *("_told_now", "_inmost", "_takes_coming", "_has_charge", "_is_shown", "_inside_model", "_begun_ahead"),
    )

    _has_charge: bool = False  # True if this object was the last one to reset the environment
    _is_outdated: bool = False  # True if another `Contextual` has reset the same environment since

    def __init__(
        self,
        env: Any,
        contexts: Mapping[Any, Mapping[str, Any]] | Sequence[Mapping[str, Any]] | str | PathLike[str] | None = None,
        *,
        default_context: Mapping[str, Any] | None = None,
        context_selector: Selector | type[Selector] | None = None,
        context_selector_kwargs: Mapping[str, Any] | None = None,
        hide_context: bool = False,
        state_context_features: Sequence[str] | str | None = None,
        context_mask: Sequence[str] | None = None,
        scale_context_features: str | Mapping[str, Any] = "no",
        add_gaussian_noise_to_context: bool = False,
        gaussian_noise_std_percentage: float = 0.01,
        max_episode_length: int | None = None,
        dict_observation_space: bool = False,
        logger: Logger | Any = None,
        bind: Binding | Callable[[Any, dict[str, Any]], Any] | None = None,
        n_envs: int | None = None,
        noisy_features: Sequence[str] | None = None,
        clip_noise: bool = True,
        context_bounds: Mapping[str, Sequence[Any]] | None = None,
        obs_context_features: Sequence[str] | str | None = None,
        obs_context_as_dict: bool | None = None,
        success: Success | None = None,
    ) -> None:
        # The change is planned below, where its schedule is known.
        Around.__init__(self, env)  # pyright: ignore[reportUnknownMemberType]
        self._log: Any = getattr(logger, "write_context", logger)
        if self._log is not None and not callable(self._log):
            raise ContextError(f"logger: expected a function (episode, total_steps, context), got {shown(logger)}")
        for name, flag in (("hide_context", hide_context), ("dict_observation_space", dict_observation_space)):
            if not isinstance(cast("Any", flag), (bool, np.bool_)):
                raise ContextError(f"{name}: expected True or False, got {flag!r}")
        n_envs = None if n_envs is None else at_least(n_envs, 1, "n_envs")
        if obs_context_features is not None and state_context_features is not None:
            raise ContextError("obs_context_features, state_context_features: expected one of these, got both")
        if obs_context_as_dict is not None and dict_observation_space:
            raise ContextError("dict_observation_space, obs_context_as_dict: expected one of these layouts, got both")
        layout = append
        if dict_observation_space:
            layout = partial(put_beside, keys=("state", "context"))
        elif obs_context_as_dict is not None:
            layout = partial(put_beside, keys=("obs", "context"), by_name=obs_context_as_dict)
        self._binding = binding_of(bind, env)
        if n_envs is not None and n_envs != (getattr(env, "batch_size", None) or 1):
            env = self._env_inside = lanes_of(env, n_envs) if self.one_by_one else batch(env, n_envs)
        most = max_episode_length
        self.max_episode_length = None if most is None else at_least(most, 1, "max_episode_length")
        self._lanes: int | None = getattr(env, "batch_size", None)
        self._sets_lanes = self._binding.sets_features and self._lanes is not None
        selector = selector_of(context_selector, context_selector_kwargs)
        set_of_contexts, default = full_set(env, self._binding, contexts, default_context)
        first = next(iter(set_of_contexts.items()))
        space = self._binding.space
        deviation = gaussian_noise_std_percentage if add_gaussian_noise_to_context else 0.0
        noise = Noise(deviation, noisy_features, first[1], {} if space is None else space.features)
        if noisy_features is not None and not add_gaussian_noise_to_context:
            raise ContextError("noisy_features: there is no noise; give add_gaussian_noise_to_context=True")
        held = getattr(selector, "contexts", None)
        if held and not same_contexts(held, set_of_contexts):
            raise ContextError(
                f"context_selector: {selector!r} chooses out of other contexts, for another Contextual; make a "
                "selector for each set of contexts"
            )
        self._settled_or_ahead = Schedule(set_of_contexts, default, selector, noise, space)
        self._view = View(
            self._schedule,
            state_context_features if obs_context_features is None else obs_context_features,
            context_mask,
            scale_context_features,
            bool(hide_context),
            layout,
            clip_noise,
            context_bounds or {},
        )
        table = SetTable(set_of_contexts)
        place = table.place_of(Chosen(first[0], dict(first[1])))  # outside the set, because it is not applied yet
        self._every_lane: Places = np.arange(self._lanes or 1)
        self._in_force = InForce(table, np.full(self._lanes or 1, place))
        self._bound: Sequence[Mapping[str, Any]] | None = None  # the contexts that the binding applied last
        self._episodes, self._total = 0, 0
        if success is not None and not callable(success):
            raise ContextError(f"success: expected a function (episode) -> success, got {shown(success)}")
        self.running: Running = none_running(self._lanes)
        self._reports = Reports(self, self._lanes, success)
        super().__init__(env)

    @property
    def one_by_one(self) -> bool:
        """True if contexts can only be set on single environments, so that a batch has to loop over them."""
        return not self._binding.sets_features

    # Observations and infos.

    def change(self, specs: Specs) -> Change:
        limit, lanes = self.max_episode_length, specs.lanes
        inner = self._inner_spec(specs)
        spec, see = self._view.show_in(inner, specs.agent, lanes is not None)
        # The memory is the number of steps. The context lasts as long as the episode, so no step changes it.
        counts = limit is not None or self._log is not None
        zero: Any = 0 if lanes is None else np.zeros(lanes, np.int64)
        return Change(
            observation_spec=inner if spec is None and inner is not specs.observation else spec,
            observation=see,
            action=_refuse if self._is_outdated else None,
            shared=True,
            begin=(lambda observation: zero) if counts else None,
            remember=(lambda elapsed, action, observation, reward: elapsed + 1) if counts else None,
            truncated=None if limit is None else (lambda flag, elapsed: flag | (elapsed >= limit)),
            info=self._entries,
            watch=self._reports.watching(specs) if self.context_selector.learns else None,
        )

    def _entries(self, elapsed: Any = None) -> Mapping[str, Any]:
        return self._told_now or self._in_force[0]

    @property
    def _schedule(self) -> Schedule:
        """The schedule, after taking back choices for episodes that have not begun."""
        schedule = self._settled_or_ahead
        if schedule.coming is not None:
            schedule.settle()
        return schedule

    def _plan(self) -> None:
        self._view.forget()
        super()._plan()
        self._is_shown = self._view.is_shown
        if type(self).change is Contextual.change:
            self._reset_can_fail = self._is_shown and self._view.appends
        self._show()
        inside: Any = self.env
        while getattr(inside.__class__, "put_context", None) is Around[Any].put_context:
            inside = inside.env
        self._inmost = inside  # what contexts are put into
        self._takes_coming = self._sets_lanes and hasattr(inside, "coming")  # as places in a table
        model = [self, *_layers(self.env)][-1].env
        self._inside_model = model if isinstance(model, Model) and type(model).reset is Model.reset else None
        self._has_charge, self._begun_ahead = False, _Beginning(self)

    def _inner_spec(self, specs: Specs) -> SpecTree:
        """Returns the inner observation spec that is valid in all contexts that can occur."""
        under = specs.observation
        if self._binding.sets_features:
            under = self.env.spec_under(self._schedule.reachable())
            under = under if specs.agent is None else under[specs.agent]
        under = self._view.widened(under)
        return specs.observation if under == specs.observation else under

    def build_observation_space(
        self,
        env_lower_bounds: Any = None,
        env_upper_bounds: Any = None,
        context_bounds: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Rebuilds the observation spec with other bounds, where None keeps the original. Call it before making forms.

        Args:
            env_lower_bounds: Lower bounds of the environment's own observation, which must be one array.
            env_upper_bounds: Upper bounds. Neither bound may exclude values of the environment's spec.
            context_bounds: `(low, high)` or `(low, high, dtype)` by feature.

        Raises:
            ContextError: A feature is unknown, or a context lies outside the bounds.
            SpecError: Observations reach beyond the bounds.
        """
        before = self._view
        try:
            self._view = before.with_bounds(env_lower_bounds, env_upper_bounds, context_bounds)
            self._plan()
        except Exception:
            self._view = before
            before.bound()
            self._plan()
            raise

    def success_of(self, episode: Mapping[str, Any], info: Mapping[Any, Any]) -> float | None:
        """Returns an episode's success from the function `success` or the last info, or None if unknown.

        Args:
            episode: The episode as `Selector.tell` gets it.
            info: Its last info.
        """
        return self._reports.success_of(episode, info)

    # Of coming episodes.

    def select_next(self) -> tuple[Hashable, dict[str, Any]]:
        """Chooses the context of the next episode now, and advances the selector.

        Returns:
            Its id and the full context, before noise.
        """
        key, context, _ = self._schedule.select_next(self.env)
        return key, dict(context)

    def peek(self) -> tuple[Hashable, dict[str, Any]]:
        """Returns the id and context (before noise) of the next episode, or of the next lane that begins.

        This does not advance the selector.
        """
        key, context, _ = self._schedule.peek(self.env)
        return key, dict(context)

    def set(self, context: Hashable | Mapping[str, Any] | Sequence[Any] | None) -> None:
        """Fixes the context of all coming episodes without advancing the selector.

        Args:
            context: An id, or `{feature: value}`, whose other features have their defaults and whose id is None. In a
                batch, also a list with one per lane. None lets the selector choose again.

        Raises:
            ContextError: There is no such context.
        """
        self._schedule.fixed = None if context is None else cast("Any", self._found_for_each(context, "set"))

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        fixed: list[Chosen | None] = list(self._schedule.fixed or [None] * (self._lanes or 1))
        given = each_of(context, len(lanes))
        for index, lane in enumerate(lanes):
            before, new = fixed[lane], {name: column[index] for name, column in given.items()}
            full = new if before is None else {**before.context, **new}
            fixed[lane] = self._checked([self._schedule.found(full, "put_context")], "put_context")[0]
        self._schedule.fixed = fixed

    def _found_for_each(self, context: Any, what: str) -> list[Chosen]:
        return self._checked(self._schedule.found_for_each(context, self._lanes or 1, what), what)

    def _checked(self, chosen: list[Chosen], what: str) -> list[Chosen]:
        """Returns the choices, after checking that the observation spec is valid in contexts outside the set."""
        given = [one.context for one in chosen if one.is_given]
        for context in given[:1] if all(context is given[0] for context in given) else given:
            self._view.check(context, what)
            if not self._binding.sets_features:
                continue
            reachable = self._schedule.reachable()
            under = self.env.spec_under([*reachable, context])
            if under != self.env.spec_under(reachable):
                raise ContextError(
                    f"{what}: under {context} an observation could lie outside of its spec; let the set of contexts "
                    "(Contextual(env, contexts=…)) reach as far"
                )
        return chosen

    # The set, and how it is used.

    @property
    def contexts(self) -> dict[Any, dict[str, Any]]:
        """The full contexts by id.

        Raises:
            ContextError: You tried to set it, but specs, snapshots and batches depend on the contexts.
        """
        return self._schedule.contexts

    @contexts.setter
    def contexts(self, contexts: Any) -> None:
        raise ContextError(
            "contexts: the set of a Contextual stays as it is; make a new one, Contextual(env.env, contexts), or fix "
            "the context of coming episodes by env.set(context)"
        )

    @property
    def default_context(self) -> dict[str, Any] | None:
        """The full default context, or None without defaults."""
        return self._schedule.default_context

    @property
    def context_selector(self) -> Selector:
        """The selector that chooses contexts; settable."""
        return self._schedule.selector

    @context_selector.setter
    def context_selector(self, selector: Selector) -> None:
        before, self._schedule.selector = self._schedule.selector, selector
        if before.learns or selector.learns:
            self._plan()  # only such a one is informed

    @property
    def state_context_features(self) -> list[str]:
        """The names of the features that the agent sees, in order; empty if the context is hidden."""
        return list(self._view.names)

    obs_context_features = state_context_features  # newer CARL's name

    @property
    def context_divisors(self) -> dict[str, Any]:
        """The divisors of observed values, which another wrapper accepts as `scale_context_features`."""
        return dict(self._view.factors)

    def fill_context_with_default(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a copy of a context with defaults for omitted features, in the order of the features.

        Raises:
            ContextError: A feature is unknown, or its value is not allowed.
        """
        features, space = self._schedule.features, self._schedule.space
        check_names(context, features, "feature")
        if space is not None:
            space.verify(context, "fill_context_with_default")
        full = {**(self.default_context or {}), **context}
        return {name: full[name] for name in features if name in full}

    # In force.

    @property
    def context(self) -> Any:
        """The full current context, including noise; in a batch, a tuple with one per lane. Setting it calls `set`."""
        contexts = self._in_force.in_lanes()
        return tuple(map(dict, contexts)) if self._lanes is not None else dict(contexts[0])

    @context.setter
    def context(self, context: Any) -> None:
        self.set(context)

    @property
    def context_id(self) -> Any:
        """The id of the current context; in a batch a tuple with one per lane."""
        ids = self._in_force.columns[CONTEXT_ID].tolist()
        return ids[0] if self._lanes is None else tuple(ids)

    context_key = context_id  # CARL's name

    # Resets.

    def reset(self, **arguments: Any) -> Any:
        options, seed = arguments.get("options"), arguments.get("seed")
        lanes = self._every_lane
        if self._lanes is not None:
            mask = as_mask(arguments.get("mask"), self._lanes, "mask")
            lanes = lanes if mask is None else np.flatnonzero(mask)
        wish, values = None, None
        if options:
            options = dict(as_mapping(options))
            wish, values = self._take_wishes(options)
        if "options" in arguments:
            arguments["options"] = options or None
        self._take_charge()
        model = self._inside_model
        resume = None if model is None or model.step_record.halt is NOT_BEGUN else self.env.hold_episode()
        with _Attempt(self, lanes, resume):
            if seed is not None:
                self._follow_seed(seed, lanes)
            self._choose(lanes, wish, values)
            if seed is None and self._binding.replaces:
                arguments["seed"] = self._seed_of_replaced()
            return super().reset(**arguments)

    def beginning(self, restart: NDArray[np.bool_]) -> _Beginning:
        now, coming = self._in_force, self._settled_or_ahead.coming
        if coming is None or coming.first > coming.last or coming.table is not now.table:
            if not self._has_charge:
                self._take_charge()
            is_ahead = self._takes_coming and self._log is None
            coming, self._in_force = self._settled_or_ahead.ahead(self.env, now) if is_ahead else (None, now)
        if coming is not None:
            begun = self._begun_ahead
            begun.before, coming.held, self._inmost.coming = self._in_force, self._in_force.place, coming
            return begun
        lanes = as_mask(restart, self._lanes or 1, "restart").nonzero()[0]
        begun = _Attempt(self, lanes)
        try:
            self._choose(lanes)
            if self._binding.replaces:
                for lane in lanes.tolist():
                    self._env_inside.envs[lane].rng = np.random.default_rng(self._seed_of_replaced())
        except BaseException as error:  # functions of the user choose contexts and put them in force
            begun.__exit__(type(error))
            raise
        return begun

    def _infos_with(self, info: Any, memory: Any, hold: Any) -> Any:
        if info.columns == {} and info.mask is None:
            return self._in_force
        return super()._infos_with(info, memory, hold)

    def _told(self, info: Any, memory: Any, mask: Any) -> Any:
        if self.has_lanes:
            return info.adding(self._in_force.columns, mask, self._in_force.masks)
        return super()._told(info, memory, mask)

    def _take_charge(self) -> None:
        """Makes another `Contextual` around the same environment refuse steps, because its contexts are replaced."""
        if self._has_charge:
            return
        env = self._env_inside.unwrapped
        before = _LATEST.get(id(env))
        if before is not self:
            _LATEST[id(env)] = self
            if before is not None and before._env_inside.unwrapped is env and not _is_in(before, self):
                before._is_outdated = True
                before._plan()
        if self._is_outdated:
            self._is_outdated = False
            self._plan()
        self._has_charge = True

    def _seed_of_replaced(self) -> int:
        """Returns a seed for an environment that replaces another one, derived from the first seed."""
        return int(self._schedule.generator(self.env).integers(2**31))

    def _take_wishes(self, options: dict[str, Any]) -> tuple[list[Chosen] | None, dict[str, Any]]:
        """Removes contexts and features from the options, and returns them."""
        wish, known = None, self._schedule.features
        refuse_misspelt(options, known)
        for name in (CONTEXT_ID, CONTEXT):
            if name in options:
                wish = self._found_for_each(options.pop(name), f"options[{name!r}]")
        return wish, {name: options.pop(name) for name in list(options) if name in known}

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        taken = (CONTEXT, CONTEXT_ID, *self._schedule.features)
        return self.env.untaken({name: value for name, value in options.items() if name not in taken})

    def _follow_seed(self, seed: Any, lanes: Places) -> None:
        """Derives choices from the seed of a reset. The selector restarts if all lanes are reset."""
        streams = Streams(seed) if self._lanes is None else batch_streams(seed, self._lanes)
        if streams is not None:
            self._schedule.rng, selector = streams.context, self.context_selector
            if len(lanes) == (self._lanes or 1) and not selector.learns:
                selector.begin(self.contexts, self._schedule.space)  # a seed fixes which contexts are chosen

    def _choose(
        self, lanes: Places, wish: Sequence[Chosen] | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        """Chooses and applies the contexts of lanes that are about to begin."""
        schedule, now = self._settled_or_ahead, self._in_force  # settled by the attempt
        if not len(lanes):
            return
        if self._log is not None:
            memory = self._memory  # the number of steps
            self._total += 0 if memory is None else int(np.atleast_1d(memory)[lanes].sum())
        wanted = wish or schedule.fixed
        given: list[Chosen | None] = [None] * len(lanes) if wanted is None else [wanted[lane] for lane in lanes]
        if learns := schedule.selector.learns:
            self._reports.begin(lanes, [one is None and not values for one in given])
        if now.table.size > 4 * (len(now.place) + len(now.table.by_id)) + 64:
            self._in_force = now = now.compacted()
        rng = schedule.rng or schedule.generator(self.env)
        places = schedule.draw(now.table, rng, len(lanes)) if wish is None and not values else None
        if places is None:
            chosen = [schedule.choose(rng, one) for one in given]
            if learns and not schedule.selector.drawn_from:  # contexts that it has made are in no set
                made = [Chosen(None, one.context, True) for one in chosen if one.key not in schedule.contexts]
                self._checked(made, "context_selector")
            if values:
                changed = [schedule.changed(one, values) for one in chosen]
                self._checked([new for new, one in zip(changed, chosen, strict=True) if new is not one], "options")
                chosen = changed
            places = np.array(list(map(now.table.place_of, chosen)), np.intp)
        self._put(now.with_places(places, lanes), lanes)

    # Contexts in force.

    def _put(self, now: InForce, lanes: Places) -> None:
        """Applies the contexts in `now` to lanes."""
        before, self._in_force, table = self._in_force, now, now.table
        if self._takes_coming:
            self._inmost.coming = Coming(table, before.place, now.place)
        elif self._sets_lanes:
            self._inmost.put_context(table.columns(before.place[lanes], now.place[lanes]), lanes.tolist())
        else:
            self._bind(now.in_lanes(), lanes.tolist())
        self._show()

    def _bind(self, contexts: Sequence[Any], lanes: Sequence[int]) -> None:
        """Applies contexts through the binding, in lanes whose context has changed."""
        binding, before, sets_features = self._binding, self._bound, self._binding.sets_features
        if before is not None and not binding.reapplies:
            begin = [lane for lane in lanes if contexts[lane] is not before[lane] and contexts[lane] != before[lane]]
            # Other code may have given the environment another context meanwhile.
            if begin or not sets_features or self._env_inside.context == before[0]:
                lanes = begin
        if lanes:
            self._use(binding.apply(self.env, contexts, None if self._lanes is None else lanes))
            self._bound = contexts

    def _use(self, env: Any) -> None:
        """Replaces the inner environment."""
        if env is not self.env:
            self._env_inside = env
            self._plan()

    def _show(self) -> None:
        """Updates the contexts that observations and infos show."""
        now, has_lanes = self._in_force, self._lanes is not None
        if not has_lanes:
            self._told_now = None if now.masks else {CONTEXT_ID: now.table.ids[now.place[0]]}  # else copied when read
        if self._is_shown:
            self._view.hold(now, has_lanes)

    # Reports to a selector that learns.

    def exchange_contexts(self, coming: Any) -> Any:
        """Calls the selector's `exchange`; see `envoi.curricula.Handed`."""
        return cast("Any", self.context_selector).exchange(coming)

    def in_force_at(self, lanes: Sequence[int]) -> tuple[list[Any], Callable[[], list[Context]]]:
        """Returns the context ids of the selected lanes, and a function that returns their contexts."""
        table, places = self._in_force.table, self._in_force.place[lanes]
        return table.ids[places].tolist(), partial(table.contexts, places)

    @property
    def reports_ends(self) -> bool:
        return self.context_selector.learns or super().reports_ends

    def ended_outside(self, lanes: Any = None, terminated: bool = False) -> None:
        super().ended_outside(lanes, terminated)
        if self.context_selector.learns:
            self._reports.end(lanes, terminated)

    # Lanes, streams and snapshots.

    def assign_lane(self, number: int) -> None:
        """Sets the lane number, where `RoundRobin` starts; see `Process.assign_lane`.

        Raises:
            SpecError: `number` is not an integer of at least 0.
        """
        number = at_least(number, 0, "assign_lane")
        super().assign_lane(number)
        self.context_selector.lane = self._reports.first_lane = number

    @property
    def rng(self) -> np.random.Generator:
        """The inner environment's random generator. Setting it also seeds the choice of contexts."""
        return self.env.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.env.rng = generator
        self._schedule.rng = None

    def snapshot(self) -> Snapshot:
        held = super().snapshot()
        return Snapshot(self._kind, (held.content, self._schedule.snapshot()), held.fixed)

    def restore(self, snapshot: Snapshot) -> None:
        content, schedule = self._content(snapshot)
        lanes = self._every_lane
        with _Attempt(self, lanes):
            if self._binding.replaces:
                self._in_force, self._bound = content[1]["_in_force"], None
                self._bind(self._in_force.in_lanes(), lanes.tolist())
            super().restore(Snapshot(self._kind, content))
            self._schedule.restore(schedule)
            self._take_charge()
            if self._in_force.table.by_id is not self.contexts:
                self._in_force.table.share(self.contexts)  # a pickled snapshot has a set of its own

    def _put_back(self, held: Mapping[str, Any]) -> None:
        super()._put_back(held)
        self._show()

    # Copies.

    def over(self, env: Any) -> Any:
        args, kwargs = self._arguments
        made = ("n_envs", "context_selector_kwargs")
        kwargs = {name: value for name, value in kwargs.items() if name not in made}
        return Contextual(env, *args, **{**kwargs, "context_selector": copy.deepcopy(self.context_selector)})


class _Beginning:
    """A step in which lanes begin in contexts chosen in advance. After an error, later episodes use them."""

    __slots__ = ("_env", "before")

    def __init__(self, env: Any) -> None:
        self._env, self.before = env, env._in_force

    def stepped(self) -> None:
        """Records the contexts in which the inner lanes have begun."""
        env = self._env
        lanes = env._inmost
        table, lanes.coming = lanes.coming.table, None
        env._in_force = InForce(table, lanes.place)
        if env._is_shown:
            env._show()

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            env = self._env
            env._inmost.coming, env._in_force = None, self.before
            env._show()


class _Attempt(_Beginning):
    """A reset, or a step in which lanes begin. An error restores the previous contexts.

    Args:
        env: The wrapper.
        lanes: The lanes that begin.
        resume: Called first after an error.
    """

    __slots__ = ("_held", "_lanes", "_mark", "_replaceable", "_resume")

    def __init__(self, env: Any, lanes: Places, resume: Callable[[], None] | None = None) -> None:
        self._env, self.before = env, env._in_force
        self._lanes, self._resume, replaces = lanes, resume, env._binding.replaces
        self._held = env._bound, env._episodes, env._total, env.running
        self._mark, self._replaceable = env._schedule.mark(replaces), self._envs() if replaces else ()

    def stepped(self) -> None:
        if self._env._takes_coming:
            self._env._inmost.coming = None

    def _envs(self) -> tuple[Any, ...]:
        """Returns the environments that the binding may replace."""
        env = self._env
        return (env._env_inside,) if env._lanes is None else getattr(env._env_inside, "envs", ())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        env = self._env
        if kind is not None:
            self._take_back(env)
            return
        self.stepped()
        if self._replaceable:
            close_replaced(self._replaceable, self._envs())
        if env._log is not None:
            for lane in self._lanes.tolist():
                env._log(env._episodes, env._total, dict(env._in_force.in_lanes()[lane]))
                env._episodes += 1

    def _take_back(self, env: Any) -> None:
        if self._resume is not None:
            self._resume()
        tried, env._in_force = env._in_force, self.before
        env._bound, env._episodes, env._total, env.running = self._held
        env._schedule.go_back(self._mark)
        if tried is env._in_force:
            return
        if env._takes_coming and env._inmost.coming is not None:  # they were not put into it
            env._inmost.coming = None
        elif self._replaceable:
            close_replaced(self._envs(), self._replaceable)
            if env._lanes is None:
                env._use(self._replaceable[0])
            else:
                env._env_inside.envs = self._replaceable
        else:
            places = None if env._lanes is None else self._lanes.tolist()
            env._use(env._binding.apply(env._env_inside, env._in_force.in_lanes(), places))
        env._show()


_LATEST: WeakValueDictionary[int, Contextual] = WeakValueDictionary()
"""The wrapper that was reset last around an environment, by the environment's `id`."""


def _is_in(one: Any, other: Any) -> bool:
    """Returns True if one of two wrappers is inside the other."""
    return any(layer is inner for outer, inner in ((one, other), (other, one)) for layer in _layers(outer))


def _layers(env: Any) -> Iterator[Any]:
    while isinstance(env, Around):
        layer = cast("Any", env)
        yield layer
        env = layer.env


def _refuse(action: Any) -> NoReturn:
    raise EpisodeError(
        "step: another Contextual has reset this environment since, and its context is in force; reset this one, or "
        "make an environment for each"
    )
