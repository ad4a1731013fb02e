"""Contextual environments: a context for every episode."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from os import PathLike
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...batching.loop import batch, lanes_of
from ...batching.model_batch import batch_streams
from ...context.binding import Attributes, Binding, Factory, Function, Native, binding_of
from ...context.noise import Noise
from ...context.selectors import Selector
from ...errors import ContextError
from ...protocol.batch_env import as_mask
from ...protocol.process import Snapshot
from ...protocol.reset_options import CONTEXT, CONTEXT_ID, refuse_misspelt
from ...seeding import Streams
from ...spec import SpecTree
from ...wrapping.change import Change, Specs
from ...wrapping.delegate import Around
from ...wrapping.lifted import Lifted
from . import carl_options
from .schedule import Chosen, Schedule, full_set
from .shown_context import View, entries, objects

Logger = Callable[[int, int, dict[str, Any]], Any]
"""`(episode, total steps, context)`, called at the beginning of each episode."""


class Contextual(Lifted):
    """An environment with a context for every episode: a contextual Markov decision process (Hallak et al., 2015).

    Before each reset a selector chooses a context out of a set; it is put in force on the environment, and stays for
    the episode. The agent sees it beside its observation, unless it is hidden. `info["context_id"]` is its id.
    A context that was given by its values, by options or `set`, is not one of the set: in its episode
    `info["context_id"]` is None, and `info["context"]` holds its values, a dict by feature. Of a `Contextual` around
    another one, the id is that of the outer, and the values are there in each episode, for the inner is given them.
    A reset with a seed restarts the selector, because a seed fixes everything that follows. To seed every episode and
    see more than the first context of a round, use `Random`, or choose by options.
    Options are those of CARL's `CARLEnv` (Benjamins et al., 2023), under its names.

        masses = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}
        env = Contextual(load("gymnasium:Pendulum-v1"), contexts=masses)

    Lanes that are environments of their own begin the round one after the other (see `assign_lane`), also in RLlib.

    For one episode, `reset(options={"context_id": …})` or `options={"context": {…}}` chooses the context and leaves the
    selector where it is; options that are named like a feature set it over the chosen context. An option whose name
    is nearly one of these is a `ContextError`; the others go to the environment. In a batch every lane has a context of
    its own, which changes only when that lane is reset. Several agents share one.

    Args:
        env: The environment: one agent's, several agents', or a batch.
        contexts: The set of contexts, `{id: {feature: value}}`, or a sequence, whose ids are 0, 1, …, or the path of a
            file, see `envoi.context.load_contexts`, or an `envoi.context.ContextSet`. Features that a context leaves
            out have their defaults. None or an empty set is the default context alone.
        default_context: Defaults, over those that the environment has by itself.
        context_selector: A selector of `envoi.context`, its class, or None for `RoundRobin`.
        context_selector_kwargs: The arguments of the selector's class.
        hide_context: If True, the agent does not see the context; specs then are those of `env`.
        state_context_features: The features that it sees, in this order; None for all, `[]` for none,
            `"changing_context_features"` (or a list of it alone, as in CARL) for those that differ over the set.
        context_mask: Features that it does not see, whatever the other options.
        scale_context_features: The divisor of a seen value: `"no"`, `"by_mean"` of the set, `"by_default"`, the
            default value; by 1 where that is 0.
        add_gaussian_noise_to_context: If True, each episode's values are sampled around those of the set, with standard
            deviation `gaussian_noise_std_percentage · |value|`. The set stays as it is, and so does `{feature: value}`.
        gaussian_noise_std_percentage: The relative standard deviation; 0.01 is one percent.
        max_episode_length: The number of steps after which an episode is truncated, if no limit inside comes first; or
            None.
        dict_observation_space: If True, the agent sees `{"state": …, "context": …}` (the context a vector), which any
            observation allows; else one array, `[state…, context…]`, which a one-dimensional float array allows.
        logger: Called at each beginning of an episode as `logger(episode, total_steps, context)`, or an object with
            such a method `write_context`.
        bind: How a context reaches the environment: None for its own features or else its attributes; a function
            `(env, context)`; or a binding of `envoi.context`: `Attributes`, `Factory`.
        n_envs: Make a batch of so many lanes of `env`.
        noisy_features: Which features get noise; None for all numbers.
        clip_noise: If True, noise keeps a value within its feature's bounds.
        context_bounds: Bounds of features, `{name: (low, high)}` or CARL's `{name: (low, high, dtype)}`, for those that
            the environment does not describe.
        obs_context_features: Another name of `state_context_features`, CARL's newer one.
        obs_context_as_dict: CARL's newer layout: `{"obs": …, "context": …}` with the context a dict by feature (True)
            or a vector (False); None for `dict_observation_space`.

    Attributes:
        contexts: The full contexts by id.
        default_context: The default one, or None where there are no defaults.
        context_selector: The selector.
        context_id: The id of the context in force, in a batch a tuple of one a lane; `context_key` is the same.
        state_context_features: The names of the features that the agent sees.
        max_episode_length: The number of steps after which an episode is truncated, or None.

    Raises:
        ContextError: An unknown feature, mask or id; a value out of bounds; `"by_default"` without defaults; or an
            environment that takes no contexts. On a reset, an option whose name is misspelt.
        SpecError: The layout does not allow the environment's observation.
    """

    memory = ("_in_force", "_ids", "_vectors", "_bound", "_all_of_the_set", "_episodes", "_total", "_unnamed")

    _planned = (*Lifted._planned, "_shown_in_infos")

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
        scale_context_features: str = "no",
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
    ) -> None:
        # The change is planned below, where its schedule is known.
        Around.__init__(self, env)  # pyright: ignore[reportUnknownMemberType]
        self._log = carl_options.logger_of(logger)
        carl_options.check_flags(hide_context=hide_context, dict_observation_space=dict_observation_space)
        carl_options.check_lanes(n_envs)
        self._binding = binding_of(bind, env)
        if n_envs is not None and n_envs != (getattr(env, "batch_size", None) or 1):
            env = self._env_inside = lanes_of(env, n_envs) if self.one_by_one else batch(env, n_envs)
        carl_options.check_limit(max_episode_length)
        self.max_episode_length = max_episode_length
        self._lanes: int | None = getattr(env, "batch_size", None)
        selector = carl_options.selector_of(context_selector, context_selector_kwargs)
        set_of_contexts, default = full_set(env, self._binding, contexts, default_context)
        first, context = next(iter(set_of_contexts.items()))
        space = self._binding.space
        deviation = float(gaussian_noise_std_percentage) if add_gaussian_noise_to_context else 0.0
        noise = Noise(deviation, noisy_features, context, {} if space is None else space.features)
        if noisy_features is not None and not add_gaussian_noise_to_context:
            raise ContextError("noisy_features: there is no noise; give add_gaussian_noise_to_context=True")
        self._schedule = Schedule(set_of_contexts, default, selector, noise, space)
        self._schedule.begin()
        self._view = View(
            self._schedule,
            carl_options.features_of(state_context_features, obs_context_features),
            context_mask,
            scale_context_features,
            bool(hide_context),
            carl_options.placing_of(dict_observation_space, obs_context_as_dict),
            clip_noise,
            context_bounds,
        )
        n = self._lanes or 1
        # By lane; an environment without lanes has one. They are replaced, never changed, for snapshots share them.
        self._in_force: list[Mapping[str, Any]] = [dict(context)] * n
        self._ids = objects([first] * n)
        self._vectors: NDArray[np.float64] = np.array([self._view.vector((None, context))] * n)
        self._bound: list[Mapping[str, Any]] | None = None
        self._all_of_the_set = False  # True if the contexts of all lanes are of the set
        self._unnamed: frozenset[int] = frozenset()  # lanes whose context was given by values, and so has no id
        self._episodes, self._total = 0, 0
        super().__init__(env)

    @property
    def one_by_one(self) -> bool:
        """True if contexts reach single environments only, so that a batch must be a loop over such."""
        return not isinstance(self._binding, Native)

    # Observations and infos.

    def change(self, specs: Specs) -> Change:
        limit, lanes = self.max_episode_length, specs.lanes
        inner = self._inner_spec(specs)
        spec, see = self._view.shown_in(inner, specs.agent, lanes is not None)
        if spec is None and inner is not specs.observation:
            spec = inner
        # The memory is the number of steps. The context lasts as long as the episode, so no step changes it.
        counts = limit is not None or self._log is not None
        zero: Any = 0 if lanes is None else np.zeros(lanes, np.int64)
        return Change(
            observation_spec=spec,
            observation=see,
            shared=True,
            begin=(lambda observation: zero) if counts else None,
            remember=(lambda elapsed, action, observation, reward: elapsed + 1) if counts else None,
            truncated=None if limit is None else (lambda flag, elapsed: flag | (elapsed >= limit)),
            info=self._entries,
        )

    def _entries(self, elapsed: Any = None) -> Mapping[str, Any]:
        return self._shown_in_infos

    def _plan(self) -> None:
        self._view.forget()
        super()._plan()
        self._show()

    def _show(self) -> None:
        """Holds the part of the contexts in force that observations and infos show."""
        lanes = self._lanes is not None
        self._shown_in_infos = entries(self._ids, self._in_force, self._unnamed, lanes)
        self._view.hold(self._vectors if lanes else self._vectors[0])

    def _inner_spec(self, specs: Specs) -> SpecTree:
        """Returns the inner observation spec under all contexts that may come into force."""
        under = specs.observation
        if isinstance(self._binding, Native):
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
        """Sets the bounds of the observation spec; None is as at construction. Forms read specs when they are made.

        Args:
            env_lower_bounds: Of the environment's own observation, which is one array.
            env_upper_bounds: Likewise; neither may exclude what the environment's spec allows.
            context_bounds: `(low, high)` or `(low, high, dtype)` by feature.

        Raises:
            ContextError: An unknown feature, or a context outside of the bounds.
            SpecError: Observations reach beyond the bounds.
        """
        before = self._view.bounds()
        try:
            self._view.set_bounds(env_lower_bounds, env_upper_bounds, context_bounds)
            self._plan()
        except Exception:
            self._view.restore_bounds(before)
            self._plan()
            raise

    # Choosing.

    def select_next(self) -> tuple[Hashable, dict[str, Any]]:
        """Chooses the context of the next episode now; the selector moves on.

        Returns:
            Its id and the full context, before noise.
        """
        self._schedule.next = key, context = self._schedule.selector.select(self._rng_of_choice)
        return key, dict(context)

    def peek(self) -> tuple[Hashable, dict[str, Any]]:
        """Returns the id and the context (before noise) of the next episode, or of the next lane that begins.

        The selector stays where it is.
        """
        key, context = self._schedule.peek(self._rng_of_choice)
        return key, dict(context)

    def set(self, context: Hashable | Mapping[str, Any] | Sequence[Any] | None) -> None:
        """Fixes the context of all coming episodes; the selector stays where it is.

        Args:
            context: An id, or `{feature: value}`, with the default for what it leaves out and the id None; in a batch
                also a list of one per lane. None lets the selector choose again.

        Raises:
            ContextError: There is no such context.
        """
        self._schedule.fixed = None if context is None else cast("Any", self._found_for_each(context, "set"))

    def _found_for_each(self, context: Any, what: str) -> list[Chosen]:
        return self._checked(self._schedule.found_for_each(context, self._lanes or 1, what), what)

    def _checked(self, chosen: list[Chosen], what: str) -> list[Chosen]:
        """Checks that the observation spec holds under contexts that are not in the set."""
        given = [context for key, context in chosen if key is None]
        for context in given[:1] if all(context is given[0] for context in given) else given:
            self._view.check(context, what)
            if not isinstance(self._binding, Native):
                continue
            reachable = self._schedule.reachable()
            under = self.env.spec_under([*reachable, context])
            if under != self.env.spec_under(reachable):
                raise ContextError(
                    f"{what}: under {context} an observation could lie outside of its spec; let the set of contexts "
                    "(Contextual(env, contexts=…)) reach as far"
                )
        return chosen

    @property
    def contexts(self) -> dict[Any, dict[str, Any]]:
        """The full contexts by id.

        Raises:
            ContextError: On setting them, because specs, snapshots and batches follow from the set.
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
        """The full default context, or None where there are no defaults."""
        return self._schedule.default_context

    @property
    def context_selector(self) -> Selector:
        """The selector; settable."""
        return self._schedule.selector

    @context_selector.setter
    def context_selector(self, selector: Selector) -> None:
        self._schedule.selector = selector

    @property
    def context(self) -> Any:
        """The full context in force, with its noise; in a batch a tuple of one per lane. Setting it is `set`."""
        return tuple(map(dict, self._in_force)) if self._lanes is not None else dict(self._in_force[0])

    @context.setter
    def context(self, context: Any) -> None:
        self.set(context)

    @property
    def context_id(self) -> Any:
        """The id of the context in force; in a batch a tuple of one per lane."""
        return tuple(self._ids.tolist()) if self._lanes is not None else self._ids[0]

    @property
    def context_key(self) -> Any:
        """CARL's name of `context_id`."""
        return self.context_id

    @property
    def state_context_features(self) -> list[str]:
        """The names of the features that the agent sees, in order; none where the context is hidden."""
        return list(self._view.visible.names)

    @property
    def obs_context_features(self) -> list[str]:
        """Newer CARL's name of `state_context_features`."""
        return self.state_context_features

    def fill_context_with_default(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a context with the default values of the features that it leaves out; `context` itself stays.

        Args:
            context: Values of some features.

        Returns:
            A new dict, in the order of the features.

        Raises:
            ContextError: There is no such feature, or a feature cannot have its value.
        """
        return self._schedule.with_defaults(context)

    @property
    def _rng_of_choice(self) -> np.random.Generator:
        if self._schedule.rng is None:
            self._schedule.rng = copy.deepcopy(self.env.streams.context)
        return self._schedule.rng

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        fixed: list[Chosen | None] = list(self._schedule.fixed or [None] * (self._lanes or 1))
        for index, lane in enumerate(lanes):
            found = self._schedule.found({name: column[index] for name, column in context.items()}, "put_context")
            fixed[lane] = self._checked([found], "put_context")[0]
        self._schedule.fixed = fixed

    def _choose(
        self, lanes: Sequence[int], wish: Sequence[Chosen] | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        """Chooses contexts for lanes that are about to begin, and puts them in force.

        Args:
            lanes: The indices of the lanes.
            wish: The contexts of all n lanes, for these episodes alone.
            values: Values by feature, over those of the contexts that are chosen.
        """
        schedule = self._schedule
        selecting = wish is None and schedule.fixed is None
        chosen = schedule.choose(self._rng_of_choice, lanes, len(self._in_force), wish)
        if values:
            changed = [schedule.changed(one, values) for one in chosen]
            self._checked([new for new, old in zip(changed, chosen, strict=True) if new is not old], "options")
            chosen = changed
        if values or not selecting or self._unnamed:
            unnamed = [lane for lane, (key, _) in zip(lanes, chosen, strict=True) if key is None]
            self._unnamed = self._unnamed.difference(lanes).union(unnamed)
        in_force, ids = self._in_force.copy(), self._ids.copy()
        for lane, (key, context) in zip(lanes, chosen, strict=True):
            in_force[lane], ids[lane] = context, key
        ids.flags.writeable = False  # infos hold it
        of_the_set = selecting and not (values or schedule.noise.names or schedule.is_sampled)
        if self._lanes is None or not isinstance(self._binding, Native):
            self._bind(in_force, lanes)
        elif of_the_set and self._all_of_the_set:
            # New contexts differ from those before only in the features that differ over the set.
            self._env_inside.put_context(schedule.columns_of(chosen), lanes)
        elif lanes:
            self._binding.apply(self.env, in_force, lanes)
            self._all_of_the_set = of_the_set and len(lanes) == self._lanes
        self._in_force, self._ids = in_force, ids
        if self._view.is_shown:
            vectors = [self._view.vector(one) for one in chosen]
            if len(lanes) == len(ids):
                self._vectors = np.array(vectors)
            else:
                self._vectors = self._vectors.copy()
                self._vectors[lanes] = vectors
        self._show()
        if self._log is not None:
            for _, context in chosen:
                self._log(self._episodes, self._total, dict(context))
                self._episodes += 1

    def _bind(self, contexts: list[Any], lanes: Sequence[int]) -> None:
        """Puts contexts in force by way of the binding.

        Args:
            contexts: Of all lanes.
            lanes: The indices of those that begin.
        """
        binding, before = self._binding, self._bound
        if before is not None and not isinstance(binding, (Function, Attributes)):
            # Other code may have given the environment another context meanwhile.
            is_one = self._lanes is None and isinstance(binding, Native)
            in_force = not is_one or self._env_inside.context == before[0]
            lanes = [lane for lane in lanes if contexts[lane] != before[lane]] if in_force else lanes
        if lanes:
            env = binding.apply(self.env, contexts, None if self._lanes is None else lanes)
            self._bound = contexts
            if env is not self.env:
                self._env_inside = env
                self._plan()

    # Episodes.

    def assign_lane(self, number: int) -> None:
        """See `Process.assign_lane`: a selector that goes round begins there.

        Raises:
            ContextError: It is no integer of at least 0.
        """
        if isinstance(number, bool) or not isinstance(cast("object", number), (int, np.integer)) or number < 0:
            raise ContextError(f"assign_lane: expected a number of at least 0, got {number!r}")
        super().assign_lane(number)
        self.context_selector.lane = int(number)

    def reset(self, **arguments: Any) -> Any:
        mask, options, seed = arguments.get("mask"), arguments.get("options"), arguments.get("seed")
        if self._lanes is not None:
            mask = as_mask(mask, self._lanes, "mask")  # before anything moves
        wish, values = None, None
        if options:
            options = dict(options)
            wish, values = self._take_wishes(options)
        if "options" in arguments:
            arguments["options"] = options or None
        lanes = range(self._lanes or 1) if mask is None else np.flatnonzero(mask).tolist()
        if seed is None and not (options or wish or values):
            return self._reset_under(lanes, wish, values, arguments)
        before = self._schedule.snapshot(), {name: getattr(self, name) for name in self.memory}
        try:
            if seed is not None:
                self._follow(seed, mask is None or bool(np.all(mask)))
            return self._reset_under(lanes, wish, values, arguments)
        except Exception:  # the environment inside may refuse a seed or an option
            self._undo(lanes, *before)
            raise

    def _follow(self, seed: Any, restarts: bool) -> None:
        """Lets choices follow from the seed of a reset.

        Args:
            seed: The seed.
            restarts: True if all lanes begin, so that the selector begins too.
        """
        streams = Streams(seed) if self._lanes is None else batch_streams(seed, self._lanes)
        if streams is not None:
            self._schedule.rng = streams.context
            if restarts:
                self._schedule.begin()  # a seed fixes which contexts are chosen

    def _reset_under(
        self,
        lanes: Sequence[int],
        wish: Sequence[Chosen] | None,
        values: Mapping[str, Any] | None,
        arguments: dict[str, Any],
    ) -> Any:
        """Chooses the contexts of lanes, and resets these with the other arguments."""
        self._count(lanes)
        if lanes:
            self._choose(lanes, wish, values)
        if arguments.get("seed") is None and isinstance(self._binding, Factory):
            arguments["seed"] = int(self._rng_of_choice.integers(2**31))  # a new environment follows from the old
        return super().reset(**arguments)

    def _undo(self, lanes: Sequence[int], schedule: Any, memory: Mapping[str, Any]) -> None:
        """Puts the contexts before a refused reset in force again."""
        self._schedule.restore(schedule)
        contexts = memory["_in_force"]
        if self._in_force is not contexts:
            if self._lanes is None or not isinstance(self._binding, Native):
                self._bind(contexts, lanes)
            elif lanes:
                self._binding.apply(self.env, contexts, lanes)
        bound = self._bound
        vars(self).update(memory)
        self._bound = bound
        self._show()

    def _take_wishes(self, options: dict[str, Any]) -> tuple[list[Chosen] | None, dict[str, Any]]:
        """Takes contexts and features out of options.

        Returns:
            A context per lane, or None; and values by feature.
        """
        wish, known = None, self._schedule.features
        refuse_misspelt(options, known)
        for name in (CONTEXT_ID, CONTEXT):
            if name in options:
                wish = self._found_for_each(options.pop(name), f"options[{name!r}]")
        return wish, {name: options.pop(name) for name in list(options) if name in known}

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        taken = (CONTEXT, CONTEXT_ID, *self._schedule.features)
        return self.env.untaken({name: value for name, value in options.items() if name not in taken})

    def beginning(self, restart: NDArray[np.bool_]) -> None:
        lanes = restart.nonzero()[0].tolist()
        self._count(lanes)
        self._choose(lanes)

    def _count(self, lanes: Sequence[int]) -> None:
        memory = getattr(self, "_memory", getattr(self, "_common", None))
        if self._log is not None and memory is not None:
            self._total += int(np.atleast_1d(memory)[np.asarray(lanes, np.intp)].sum())

    # Copies.

    def over(self, env: Any) -> Any:
        args, kwargs = self._arguments
        kwargs = {name: value for name, value in kwargs.items() if name != "n_envs"}
        return Contextual(env, *args, **{**kwargs, "context_selector": copy.deepcopy(self.context_selector)})

    @property
    def rng(self) -> np.random.Generator:
        """The inner environment's generator; setting it sets it there, and the choice of contexts follows from it."""
        return self.env.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.env.rng = generator
        self._schedule.rng = None

    def snapshot(self) -> Snapshot:
        return Snapshot(self._kind, (super().snapshot().content, self._schedule.snapshot()))

    def restore(self, snapshot: Snapshot) -> None:
        content, schedule = self._content(snapshot)
        if isinstance(self._binding, Factory):
            contexts = content[1]["_in_force"]
            self._bound = None
            self._bind(contexts, range(len(contexts)))
        super().restore(Snapshot(self._kind, content))
        self._schedule.restore(schedule)
        self._show()
