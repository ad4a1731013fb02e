"""Contextual environments: a context for every episode."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ...batching.loop import batch, lanes_of
from ...context.binding import Binding, binding_of
from ...context.noise import Noise
from ...context.selectors import Selector
from ...errors import ContextError
from ...spec import SpecTree
from ...wrapping.change import Change, Specs
from ...wrapping.delegate import Around
from ...wrapping.lifted import Lifted
from . import carl_options
from .episodes import ContextualEpisodes
from .in_force import InForce
from .schedule import Schedule, full_set
from .shown_context import View

Logger = Callable[[int, int, dict[str, Any]], Any]
"""`(episode, total steps, context)`, called at the beginning of each episode."""


class Contextual(ContextualEpisodes):
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

    _planned = (*Lifted._planned, "_shown_in_infos", "_takes_arrays")

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
        self._lanes = getattr(env, "batch_size", None)
        selector = carl_options.selector_of(context_selector, context_selector_kwargs)
        set_of_contexts, default = full_set(env, self._binding, contexts, default_context)
        first = next(iter(set_of_contexts.items()))
        space = self._binding.space
        deviation = float(gaussian_noise_std_percentage) if add_gaussian_noise_to_context else 0.0
        noise = Noise(deviation, noisy_features, first[1], {} if space is None else space.features)
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
        self._in_force = InForce.first(first, self._lanes, self._view)
        self._episodes, self._total = 0, 0
        super().__init__(env)

    @property
    def one_by_one(self) -> bool:
        """True if contexts reach single environments only, so that a batch must be a loop over such."""
        return not self._binding.sets_features

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

    def _inner_spec(self, specs: Specs) -> SpecTree:
        """Returns the inner observation spec under all contexts that may come into force."""
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

    # Copies.

    def over(self, env: Any) -> Any:
        args, kwargs = self._arguments
        kwargs = {name: value for name, value in kwargs.items() if name != "n_envs"}
        return Contextual(env, *args, **{**kwargs, "context_selector": copy.deepcopy(self.context_selector)})
