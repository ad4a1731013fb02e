"""Contextual environments: a context for every episode, and what the agent sees of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from os import PathLike
from types import NoneType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...batching.loop import batch, lanes_of
from ...batching.model_batch import batch_streams
from ...batching.values import SomeLanes
from ...context import selectors
from ...context.binding import Attributes, Binding, Factory, Function, Native, binding_of, check_names
from ...context.distributions import extremes
from ...context.files import load_contexts
from ...context.layout import Layout, appended, beside, by_name
from ...context.noise import Noise
from ...context.sampled import Sampled
from ...context.selectors import RoundRobin, Selector
from ...context.sets import contexts_of, fill
from ...context.space import ContextSpace
from ...context.visibility import Visible
from ...errors import ContextError, SpecError, nearest
from ...protocol.batch_env import as_mask
from ...protocol.process import Snapshot
from ...protocol.reset_options import CONTEXT, CONTEXT_ID, refuse_misspelt
from ...seeding import Streams
from ...spec import Array, SpecTree
from ...spec.base import shown
from ...wrapping.change import Change, Specs
from ...wrapping.delegate import Around
from ...wrapping.lifted import Lifted

Logger = Callable[[int, int, dict[str, Any]], Any]
"""`(episode, total steps, context)`, called at the beginning of each episode."""


class Contextual(Lifted):
    """An environment with a context for every episode: a contextual Markov decision process (Hallak et al., 2015).

    Before each reset a selector chooses a context out of a set; it is put in force on the environment, and stays for
    the episode. The agent sees it beside its observation, unless it is hidden. `info["context_id"]` says which it is.
    A context that was given by its values, by options or `set`, is not one of the set: in its episode
    `info["context_id"]` is None, and `info["context"]` holds its values, a dict by feature. Of a `Contextual` around
    another one, the id is that of the outer, and the values are there in each episode, for the inner is given them.
    A reset with a seed begins the selector anew, for it fixes everything that follows: who seeds every episode, and
    wants more than the first context of a round, takes `Random`, or chooses by options.
    Options are those of CARL's `CARLEnv` (Benjamins et al., 2023), under its names.

        env = Contextual(load("gymnasium:Pendulum-v1"), contexts={"light": {"m": 0.5}, "heavy": {"m": 2.0}})

    Lanes that are environments of their own begin the round one after the other (see `assign_lane`), also in RLlib.

    For one episode, `reset(options={"context_id": …})` or `options={"context": {…}}` chooses the context and leaves the
    selector where it stands; options that are named like a feature set it over the chosen context. An option whose name
    is nearly one of these is a `ContextError`; the others go to the environment. In a batch every lane has a context of
    its own, which changes only when that lane begins anew. Several agents share one.

    Args:
        env: The environment: one agent's, several agents', or a batch.
        contexts: The set of contexts, `{id: {feature: value}}`, or a sequence, whose ids are 0, 1, …, or the path of a
            file, see `envoi.context.load_contexts`, or an `envoi.context.ContextSet`. What a context leaves out has
            its default. None or an empty set is the default context alone.
        default_context: Defaults, over those that the environment has by itself.
        context_selector: A selector of `envoi.context`, its class, or None for `RoundRobin`.
        context_selector_kwargs: What to make the selector's class with.
        hide_context: Whether the agent does not see the context; specs then are those of `env`.
        state_context_features: The features that it sees, in this order; None for all, `[]` for none,
            `"changing_context_features"` (or a list of it alone, as in CARL) for those that differ over the set.
        context_mask: Features that it does not see, whatever else is said.
        scale_context_features: By what a seen value is divided: `"no"`, `"by_mean"` of the set, `"by_default"`, the
            default value; by 1 where that is 0.
        add_gaussian_noise_to_context: Whether each episode's values are drawn around those of the set, with standard
            deviation `gaussian_noise_std_percentage · |value|`. The set stays as it is, and so does `{feature: value}`.
        gaussian_noise_std_percentage: The relative standard deviation; 0.01 is one percent.
        max_episode_length: After how many steps an episode is truncated, if no limit inside comes first; None for no
            limit of its own.
        dict_observation_space: Whether the agent sees `{"state": …, "context": …}` (the context a vector), which any
            observation allows; else one array, `[state…, context…]`, which a one-dimensional float array allows.
        logger: Called at each beginning of an episode as `logger(episode, total_steps, context)`, or an object with
            such a method `write_context`.
        bind: How a context reaches the environment: None for its own features or else its attributes; a function
            `(env, context)`; or a binding of `envoi.context`: `Attributes`, `Factory`.
        n_envs: Make a batch of so many lanes of `env`.
        noisy_features: Which features get noise; None for all numbers.
        clip_noise: Whether noise keeps a value within its feature's bounds.
        context_bounds: Bounds of features, `{name: (low, high)}` or CARL's `{name: (low, high, dtype)}`, for those that
            the environment does not describe.
        obs_context_features: Another name of `state_context_features`, CARL's newer one.
        obs_context_as_dict: CARL's newer layout: `{"obs": …, "context": …}` with the context a dict by feature (True)
            or a vector (False); None for `dict_observation_space`.

    Attributes:
        contexts: The full contexts by id.
        default_context: The default one, or None where nothing says it.
        context_selector: The selector.
        context_id: The id of the context in force, in a batch a tuple of one a lane; `context_key` is the same.
        state_context_features: The names of the features that the agent sees.

    Raises:
        ContextError: An unknown feature, mask or id; a value out of bounds; `"by_default"` without defaults; or an
            environment that takes no contexts. On a reset, an option whose name is misspelt.
        SpecError: The layout does not allow the environment's observation.
    """

    memory = (
        *("_in_force", "_ids", "_vectors", "_next", "_fixed"),
        *("_bound", "_all_of_the_set", "_episodes", "_total", "_unnamed"),
    )

    _planned = (*Lifted._planned, "_layouts", "_held", "_said")

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
        Around.__init__(self, env)
        self._log: Any = getattr(logger, "write_context", logger)
        if self._log is not None and not callable(self._log):
            raise ContextError(f"logger: expected a function (episode, total_steps, context), got {shown(logger)}")
        for name, flag in (("hide_context", hide_context), ("dict_observation_space", dict_observation_space)):
            if not isinstance(cast("object", flag), (bool, np.bool_)):
                raise ContextError(f"{name}: expected True or False, got {flag!r}")
        if not isinstance(cast("object", n_envs), (int, np.integer, NoneType)):
            raise SpecError(f"n_envs: expected how many lanes, or None, got {n_envs!r}")
        self._binding = binding_of(bind, env)
        if n_envs is not None and n_envs != (getattr(env, "batch_size", None) or 1):
            env = lanes_of(env, n_envs) if self.one_by_one else batch(env, n_envs)
        if max_episode_length is not None and (
            isinstance(max_episode_length, bool)
            or not isinstance(cast("object", max_episode_length), (int, np.integer))
            or max_episode_length < 1
        ):
            raise SpecError(f"max_episode_length: expected an integer of at least 1, got {max_episode_length!r}")
        self._lanes: int | None = getattr(env, "batch_size", None)
        self._limit = max_episode_length
        self._hidden, self._as_dict = hide_context, obs_context_as_dict
        self._keys = ("obs", "context") if obs_context_as_dict is not None else ("state", "context")
        self._in_dict = dict_observation_space or obs_context_as_dict is not None
        self.context_selector = _selector(context_selector, context_selector_kwargs)
        self._contexts, self.default_context = self._filled(env, contexts, default_context)
        self.context_selector.begin(self._contexts, self._binding.space)
        self._noise = Noise(
            float(gaussian_noise_std_percentage) if add_gaussian_noise_to_context else 0.0,
            noisy_features,
            next(iter(self._contexts.values())),
            self._binding.space.features if self._binding.space is not None else {},
        )
        self._clip, self._given_bounds = clip_noise, dict(context_bounds or {})
        self._env_bounds: tuple[Any, Any] = (None, None)
        if noisy_features is not None and not add_gaussian_noise_to_context:
            raise ContextError("noisy_features: there is no noise; say add_gaussian_noise_to_context=True")
        if dict_observation_space and obs_context_as_dict is not None:
            raise ContextError("dict_observation_space, obs_context_as_dict: expected one of these layouts, got both")
        if obs_context_features is not None and state_context_features is not None:
            raise ContextError("obs_context_features, state_context_features: expected one of these, got both")
        if obs_context_features is not None:
            state_context_features = obs_context_features
        self._seen_as = (state_context_features, context_mask, scale_context_features)
        self._visible = self._view()
        self._chooser: np.random.Generator | None = None
        n = self._lanes or 1
        first, context = next(iter(self._contexts.items()))
        # By lane; an environment without lanes has one. They are replaced, never changed, for snapshots share them.
        self._in_force: list[dict[str, Any]] = [dict(context)] * n
        self._ids = _objects([first] * n)
        self._vectors: NDArray[np.float64] = np.array([self._visible.vector(context)] * n)
        self._next: tuple[Hashable, Any] | None = None
        self._fixed: list[Any] | None = None  # an id and a context a lane, or None where the selector chooses
        self._bound: list[Mapping[str, Any]] | None = None
        self._all_of_the_set = False  # whether all lanes have contexts of the set in force
        self._unnamed: frozenset[int] = frozenset()  # lanes whose context was given by values, and so has no id
        self._episodes, self._total = 0, 0
        super().__init__(env)

    @property
    def one_by_one(self) -> bool:
        """Whether contexts reach single environments only, so that a batch must be a loop over such."""
        return not isinstance(self._binding, Native)

    # The set.

    def _filled(
        self, env: Any, contexts: Any, default_context: Mapping[str, Any] | None
    ) -> tuple[dict[Any, dict[str, Any]], dict[str, Any] | None]:
        if isinstance(contexts, ContextSpace) or type(contexts).__name__ == "ConfigurationSpace":
            raise ContextError(
                "contexts: expected contexts by id, got a space; to draw from it say context_selector=Sampled(space)"
            )
        given = contexts_of(load_contexts(cast("Any", contexts)) if isinstance(contexts, (str, PathLike)) else contexts)
        if self._binding.space is not None:
            for what, context in {"default_context": default_context or {}, **_called(given)}.items():
                self._binding.space.verify(context, what)
        named = dict.fromkeys(name for context in (default_context or {}, *given.values()) for name in context)
        own = self._binding.defaults(env, named)
        default = {**own, **(default_context or {})}
        filled = fill(given, default)
        for key, context in filled.items():
            if missing := [name for one in filled.values() for name in one if name not in context]:
                raise ContextError(
                    f"contexts[{key!r}]: expected a value of {missing[0]!r}, as others have; give default_context"
                )
        return filled, default or None

    def _view(self) -> Visible:
        self._vector_of: dict[Hashable, NDArray[np.float64]] = {}
        chosen, mask, scale = self._seen_as
        contexts = list(self._contexts.values())
        if isinstance(self.context_selector, Sampled):
            # The least and the most of all that varies: every such feature differs, and their mean is the middle.
            ends = {name: extremes(feature) for name, feature in self.context_selector.drawn_from.items()}
            contexts = [{**contexts[0], **{name: pair[end] for name, pair in ends.items()}} for end in (0, -1)]
        free = frozenset(() if self._clip else self._noise.names)
        space, bounds = self._binding.space, self._given_bounds
        visible = Visible(contexts, self.default_context, space, chosen, mask, scale, bounds, free, self._hidden)
        self._noise.bounds = partial(visible.bounds_of, given=bounds) if self._clip else None
        return visible

    # What the agent sees.

    def change(self, specs: Specs) -> Change:
        limit, agent = self._limit, specs.agent
        inner = self._inner_spec(specs)
        spec, see = (None if inner is specs.observation else inner), None
        if not self._hidden:
            layout = self._layout(inner, specs.lanes is not None)
            self._layouts[agent] = layout
            spec, see = layout.spec, self._joining(layout, agent)

        # What it remembers is how long the episode is. Its context lasts as long, and so is no matter of a step.
        counts = limit is not None or self._log is not None
        zero: Any = 0 if specs.lanes is None else np.zeros(specs.lanes, np.int64)
        return Change(
            observation_spec=spec,
            observation=see,
            shared=True,
            begin=(lambda observation: zero) if counts else None,
            remember=(lambda elapsed, action, observation, reward: elapsed + 1) if counts else None,
            truncated=None if limit is None else (lambda flag, elapsed: flag | (elapsed >= limit)),
            info=self._say,
        )

    def _joining(self, layout: Layout, agent: Any) -> Callable[..., Any]:
        join, held = layout.join, self._held

        def see(observation: Any, elapsed: Any = None) -> Any:
            return join(observation, held[agent])

        return see

    def _say(self, elapsed: Any = None) -> Mapping[str, Any]:
        return self._said

    def _plan(self) -> None:
        self._layouts: dict[Any, Layout] = {}
        self._held: dict[Any, Any] = {}
        super()._plan()
        self._show()

    def _show(self) -> None:
        """Holds what observations and infos say of the contexts in force."""
        first = 0 if self._lanes is None else slice(None)
        self._said: Mapping[str, Any] = {"context_id": self._ids[first]}
        if self._unnamed:
            self._said = self._with_values(self._said)
        for agent, layout in self._layouts.items():
            self._held[agent] = layout.hold(self._vectors[first])

    def _with_values(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds the values of contexts without an id to what infos say."""
        n = self._lanes
        if n is None:
            return _Copied({**said, CONTEXT: self._in_force[0]})
        values = _objects([context if lane in self._unnamed else None for lane, context in enumerate(self._in_force)])
        mask = np.zeros(n, bool)
        mask[list(self._unnamed)] = True
        for array in (values, mask):
            array.flags.writeable = False  # infos hold it
        return SomeLanes({**said, CONTEXT: values}, {CONTEXT: mask})

    def _inner_spec(self, specs: Specs) -> SpecTree:
        """The inner observation spec under all contexts that there may be."""
        under = specs.observation
        if isinstance(self._binding, Native):
            under = self.env.spec_under(self._reachable())
            under = under if specs.agent is None else under[specs.agent]
        low, high = self._env_bounds
        if low is None and high is None:
            return specs.observation if under == specs.observation else under
        if not isinstance(under, Array):
            raise SpecError("env_lower_bounds, env_upper_bounds: expected an observation that is one array")
        low, high = (under.low_or_inf if low is None else low), (under.high_or_inf if high is None else high)
        wide = Array(under.shape, under.dtype, low, high, under.name)
        sides = (("low", np.less_equal, under.bounded_below), ("high", np.greater_equal, under.bounded_above))
        for name, wider, bounded in sides:
            own, new = getattr(under, name), getattr(wide, name)
            if own is not None and new is not None and not (wider(new, own) | ~bounded).all():
                raise SpecError(f"build_observation_space: observations reach {own}, beyond the {name} of {new}")
        return wide

    def _reachable(self) -> list[dict[str, Any]]:
        """Contexts between which all lie that may be in force."""
        contexts = list(self._contexts.values())
        if isinstance(self.context_selector, Sampled):
            contexts = [*contexts, *self.context_selector.corners(contexts[0])]
        return [*contexts, *self._noise.ends(contexts)]

    def _layout(self, inner: SpecTree, lanes: bool) -> Layout:
        if not self._in_dict:
            return appended(inner, self._visible, lanes)
        return (by_name if self._as_dict else beside)(inner, self._visible, self._keys)

    def build_observation_space(
        self,
        env_lower_bounds: Any = None,
        env_upper_bounds: Any = None,
        context_bounds: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Sets bounds of the observation spec anew; what is None is as at construction. Forms read specs when made.

        Args:
            env_lower_bounds: Of the environment's own observation, which is one array.
            env_upper_bounds: Likewise; none may cut off what the environment says that it observes.
            context_bounds: `(low, high)` or `(low, high, dtype)` by feature.

        Raises:
            ContextError: An unknown feature, or a context outside of the bounds.
            SpecError: Observations reach beyond the bounds.
        """
        before = self._env_bounds, self._given_bounds, self._visible
        try:
            self._env_bounds = (env_lower_bounds, env_upper_bounds)
            if context_bounds is not None:
                self._given_bounds = dict(context_bounds)
            self._visible = self._view()
            self._plan()
        except Exception:
            self._env_bounds, self._given_bounds, self._visible = before
            self._plan()
            raise

    # Choosing.

    def select_next(self) -> tuple[Hashable, dict[str, Any]]:
        """Chooses the context of the next episode now; the selector moves on.

        Returns:
            Its id and the full context, before noise.
        """
        self._next = key, context = self.context_selector.select(self._rng_of_choice)
        return key, dict(context)

    def peek(self) -> tuple[Hashable, dict[str, Any]]:
        """The id and the context (before noise) of the next episode, or of the next lane that begins; nothing moves."""
        key, context = (self._fixed and self._fixed[0]) or self._next or self.context_selector.peek(self._rng_of_choice)
        return key, dict(context)

    def set(self, context: Hashable | Mapping[str, Any] | Sequence[Any] | None) -> None:
        """Fixes the context of all coming episodes, while the selector stands still; None goes on with the selector.

        Args:
            context: An id, or `{feature: value}`, with the default for what it leaves out and the id None; in a batch
                also a list of one a lane.

        Raises:
            ContextError: There is no such context.
        """
        if context is None:
            self._fixed = None
        else:
            self._fixed = self._each(context, "set")

    def _each(self, context: Any, what: str) -> list[tuple[Hashable, dict[str, Any]]]:
        """The context of each lane, of one for all or of a list."""
        n = self._lanes or 1
        if not (isinstance(context, list) or (isinstance(context, tuple) and context not in self._contexts)):
            return [self._found(context, what)] * n
        each = cast("Sequence[Any]", context)
        if len(each) != n:
            raise ContextError(f"{what}: expected one context for each of {n} lanes, got {len(each)}")
        return [self._found(one, what) for one in each]

    def _found(self, context: Any, what: str) -> tuple[Hashable, dict[str, Any]]:
        if isinstance(context, Mapping):
            full = {**(self.default_context or {}), **cast("Mapping[str, Any]", context)}
            known = next(iter(self._contexts.values()))
            for name in full:
                if name not in known:
                    raise ContextError(f"{what}: context[{name!r}]: no such feature; {nearest(str(name), known)}")
            if self._binding.space is not None:
                self._binding.space.verify(full, what)
            if missing := [name for name in known if name not in full]:
                raise ContextError(f"{what}: expected a value of {missing[0]!r}, which has no default")
            self._check_declared(full, what)
            return None, {name: full[name] for name in known}
        if not isinstance(context, Hashable) or context not in self._contexts:
            raise ContextError(f"{what}: no context {context!r}; {nearest(str(context), map(str, self._contexts))}")
        return context, self._contexts[context]

    def _check_declared(self, context: dict[str, Any], what: str) -> None:
        """Whether the observation spec holds under a context that was not in the set."""
        vector = self._visible.vector(context)
        if (vector < self._visible.low).any() or (vector > self._visible.high).any():
            raise ContextError(f"{what}: {context} lies outside of the bounds of the context")
        if not isinstance(self._binding, Native):
            return
        under = self.env.spec_under([*self._reachable(), context])
        if under != self.env.spec_under(self._reachable()):
            raise ContextError(
                f"{what}: under {context} an observation could lie outside of its spec; let the set of contexts "
                "(Contextual(env, contexts=…)) reach as far"
            )

    @property
    def contexts(self) -> dict[Any, dict[str, Any]]:
        """The full contexts by id.

        Raises:
            ContextError: On setting them: what the agent sees, snapshots and batches follow from the set.
        """
        return self._contexts

    @contexts.setter
    def contexts(self, contexts: Any) -> None:
        raise ContextError(
            "contexts: the set of a Contextual stays as it is; make a new one, Contextual(env.env, contexts), or fix "
            "the context of coming episodes by env.set(context)"
        )

    @property
    def context(self) -> Any:
        """The full context in force, noise and all; in a batch a tuple of one a lane. Setting it is `set`."""
        return tuple(map(dict, self._in_force)) if self._lanes is not None else dict(self._in_force[0])

    @context.setter
    def context(self, context: Any) -> None:
        self.set(context)

    @property
    def context_id(self) -> Any:
        """The id of the context in force; in a batch a tuple of one a lane."""
        return tuple(self._ids.tolist()) if self._lanes is not None else self._ids[0]

    @property
    def context_key(self) -> Any:
        """As CARL calls `context_id`."""
        return self.context_id

    @property
    def state_context_features(self) -> list[str]:
        """The names of the features that the agent sees, in order; none where the context is hidden."""
        return list(self._visible.names)

    @property
    def obs_context_features(self) -> list[str]:
        """As newer CARL calls `state_context_features`."""
        return self.state_context_features

    def fill_context_with_default(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a context with the default values of the features that it leaves out; what is given stays as it is.

        Args:
            context: Values of some features.

        Returns:
            A new dict, in the order of the features.

        Raises:
            ContextError: There is no such feature, or a feature cannot have its value.
        """
        known = next(iter(self._contexts.values()))
        check_names(context, known, "feature")
        if self._binding.space is not None:
            self._binding.space.verify(context, "fill_context_with_default")
        full = {**(self.default_context or {}), **context}
        return {name: full[name] for name in known if name in full}

    @property
    def _rng_of_choice(self) -> np.random.Generator:
        if self._chooser is None:
            self._chooser = copy.deepcopy(self.env.streams.context)
        return self._chooser

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        fixed: list[Any] = list(self._fixed or [None] * (self._lanes or 1))
        for index, lane in enumerate(lanes):
            fixed[lane] = self._found({name: column[index] for name, column in context.items()}, "put_context")
        self._fixed = fixed

    def _choose(self, lanes: Sequence[int], wish: Any = None, over: Mapping[str, Any] | None = None) -> None:
        """Chooses contexts for lanes that are about to begin, and puts them in force."""
        selecting = wish is None and self._fixed is None
        chosen: list[tuple[Any, Any]]
        if selecting and self._next is None:
            chosen = self.context_selector.select_several(self._rng_of_choice, len(lanes))
        else:
            given = wish or self._fixed or [None] * len(self._in_force)
            chosen = [given[lane] or self._selected() for lane in lanes]
        if self._noise.names:
            chosen = [(k, c if k is None else self._noise.drawn(c, self._rng_of_choice)) for k, c in chosen]
        if over:
            chosen = [self._changed(key, context, over) for key, context in chosen]
        if over or not selecting or self._unnamed:
            unnamed = [lane for lane, (key, _) in zip(lanes, chosen, strict=True) if key is None]
            self._unnamed = self._unnamed.difference(lanes).union(unnamed)
        in_force, ids = self._in_force.copy(), self._ids.copy()
        for lane, (key, context) in zip(lanes, chosen, strict=True):
            in_force[lane], ids[lane] = context, key
        ids.flags.writeable = False  # infos hold it
        of_the_set = selecting and not (over or self._noise.names or isinstance(self.context_selector, Sampled))
        if self._lanes is None or not isinstance(self._binding, Native):
            self._bind(in_force, lanes)
        elif of_the_set and self._all_of_the_set:
            # What begins differs from what was there only in what differs over the set.
            places = [self._place[key] for key, _ in chosen]
            columns = {name: [column[place] for place in places] for name, column in self._columns.items()}
            cast("Any", self.env).put_context(columns, lanes)
        elif lanes:
            self._binding.apply(self.env, in_force, lanes)
            self._all_of_the_set = of_the_set and len(lanes) == self._lanes
        self._in_force, self._ids = in_force, ids
        if self._layouts:
            vectors = [self._vector(key, context) for key, context in chosen]
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

    def _changed(self, key: Hashable, context: dict[str, Any], over: Mapping[str, Any]) -> tuple[Hashable, Any]:
        """A chosen context with some values of its own: it keeps its id where they are those that it has."""
        if all(np.array_equal(value, context[name]) for name, value in over.items()):
            return key, context
        return self._found({**context, **over}, "options")

    def _selected(self) -> tuple[Hashable, Any]:
        chosen, self._next = self._next or self.context_selector.select(self._rng_of_choice), None
        return chosen

    def _vector(self, key: Hashable, context: Mapping[str, Any]) -> NDArray[np.float64]:
        if key not in self._contexts or context is not self._contexts[key]:
            return self._visible.vector(context)
        if key not in self._vector_of:
            self._vector_of[key] = self._visible.vector(context)
        return self._vector_of[key]

    @cached_property
    def _place(self) -> dict[Hashable, int]:
        """Where in the set a context is."""
        return {key: place for place, key in enumerate(self._contexts)}

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        """The values over the set of the features that differ."""
        contexts = list(self._contexts.values())
        columns = {name: [context[name] for context in contexts] for name in contexts[0]}
        return {n: column for n, column in columns.items() if any(not np.array_equal(v, column[0]) for v in column)}

    def _bind(self, contexts: list[Any], lanes: Sequence[int]) -> None:
        binding, before = self._binding, self._bound
        if before is not None and not isinstance(binding, (Function, Attributes)):
            # Somebody else may have given the environment another context meanwhile.
            is_one = self._lanes is None and isinstance(binding, Native)
            stands = not is_one or cast("Any", self.env).context == before[0]
            lanes = [lane for lane in lanes if contexts[lane] != before[lane]] if stands else lanes
        if lanes:
            env = binding.apply(self.env, contexts, None if self._lanes is None else lanes)
            self._bound = contexts
            if env is not self.env:
                self.env = env
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
        mask, options = arguments.get("mask"), arguments.get("options")
        if self._lanes is not None:
            mask = as_mask(mask, self._lanes, "mask")  # before anything moves
        wish, over = None, None
        if options:
            options = dict(options)
            wish, over = self._wishes(options)
        seed, n = arguments.get("seed"), self._lanes
        if seed is not None:
            streams = Streams(seed) if n is None else batch_streams(seed, n)
            if streams is not None:
                self._chooser = streams.context
                if mask is None or np.all(mask):
                    self.context_selector.begin(self._contexts, self._binding.space)  # a seed fixes what is chosen
        lanes = range(n or 1) if mask is None else np.flatnonzero(mask).tolist()
        self._count(lanes)
        self._choose(lanes, wish, over)
        if seed is None and isinstance(self._binding, Factory):
            arguments["seed"] = int(self._rng_of_choice.integers(2**31))  # a new environment follows from the old
        if "options" in arguments:
            arguments["options"] = options or None
        return super().reset(**arguments)

    def _wishes(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """What options say of the context, taken out of them: one a lane, or None; and values of features."""
        wish = None
        known = next(iter(self._contexts.values()))
        refuse_misspelt(options, known)
        for name in (CONTEXT_ID, CONTEXT):
            if name in options:
                wish = self._each(options.pop(name), f"options[{name!r}]")
        return wish, {name: options.pop(name) for name in list(options) if name in known}

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        known = next(iter(self._contexts.values()))
        return self.env.untaken({n: v for n, v in options.items() if n not in (CONTEXT, CONTEXT_ID, *known)})

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
        """The inner environment's generator; settable there, and the choice of contexts follows from it."""
        return self.env.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.env.rng = generator
        self._chooser = None

    def snapshot(self) -> Snapshot:
        return Snapshot(self._kind, (super().snapshot().content, copy.deepcopy((self.context_selector, self._chooser))))

    def restore(self, snapshot: Snapshot) -> None:
        content, (selector, chooser) = self._content(snapshot)
        if isinstance(self._binding, Factory):
            contexts = content[1]["_in_force"]
            self._bound = None
            self._bind(contexts, range(len(contexts)))
        super().restore(Snapshot(self._kind, content))
        self.context_selector, self._chooser = copy.deepcopy((selector, chooser))
        self._show()


def _selector(given: Any, arguments: Mapping[str, Any] | None) -> Selector:
    kind = given if isinstance(given, type) else type(given)
    if given is None:
        given = RoundRobin
    elif kind.__module__.startswith("carl.") and isinstance(given, type):
        given = getattr(selectors, kind.__name__, given)  # CARL's own go by the same names
    if isinstance(given, type) and issubclass(given, Selector):
        return given(**(arguments or {}))
    if not isinstance(given, Selector):
        near = (
            f"; {nearest(given, ('RoundRobin', 'Random', 'Static', 'Custom', 'Sampled'))}"
            if isinstance(given, str)
            else ""
        )
        raise ContextError(
            f"context_selector: expected a selector of envoi.context or its class, got {shown(given)}{near}"
        )
    if arguments:
        raise ContextError(f"context_selector_kwargs: {given!r} is made already; give its class")
    return given


class _Copied(Mapping[str, Any]):
    """Entries of infos that last for an episode: each info gets a copy of what somebody may write into."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Any:
        return copy.copy(self._entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _called(contexts: Mapping[Any, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {f"contexts[{key!r}]": context for key, context in contexts.items()}


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = value
    return array
