"""Policies of any library behind one interface that acts in the episodes of an evaluation."""

from __future__ import annotations

import copy
import inspect
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np

import envoi
from envoi import adapters, tree
from envoi.adapters.registry import framework
from envoi.adapters.shared.masks import choices, flat_mask
from envoi.lane_values import lane, stack
from envoi.protocol.multi_env import MASK

from ..env_contexts import fits, read_set, with_contexts
from ..errors import one_line
from ..rllib import RunFolder


class Acting:
    """How a policy acts: in one episode at a time, or if `batched` in several, each in a `Lane`.

    A lane has the `env` that is stepped, the latest `observation`, `info` and `reward`, and the policy's memory of
    the episode, its `state`.
    """

    batched: bool = False
    train_seed: int | None = None

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.name = getattr(policy, "__name__", type(policy).__name__)

    def fits(self, env: envoi.Env) -> bool:
        """Returns False for an env whose spaces differ from the policy's."""
        return True

    def form(self, env: envoi.Env) -> Any:
        """Returns the env in the form that the policy acts in."""
        return env

    def begin(self, here: Any, seed: int) -> None:
        """Begins an episode; its first observation is already in the lane."""

    def act(self, lanes: Sequence[Any]) -> list[Any]:
        """Chooses an action for each lane."""
        raise NotImplementedError

    def see(self, here: Any, action: Any, over: tuple[bool, bool], discount: Any) -> None:
        """Tells the policy about a step; the lane already has the observation and the reward."""


class _Callable(Acting):
    """A function of observations, or an object that can be called like one.

    With a `reset`, it keeps its own memory. With an `initial_state`, it takes its state and returns the next one.
    """

    def __init__(self, policy: Any, batched: bool) -> None:
        super().__init__(policy)
        self.batched = batched
        self._is_pure = hasattr(policy, "initial_state")
        self._reset: Any = None if self._is_pure else getattr(policy, "reset", None)
        if batched and self._reset is not None:
            raise envoi.EnvoiError(
                "policy: it has a reset, so it remembers one episode at a time; leave batched=True out, or give the "
                "state from outside, by an attribute initial_state"
            )

    def begin(self, here: Any, seed: int) -> None:
        if self._is_pure:
            first = self.policy.initial_state
            here.state = first() if callable(first) else copy.deepcopy(first)
        elif self._reset is not None:
            takes_seed = any(p.kind is not p.KEYWORD_ONLY for p in inspect.signature(self._reset).parameters.values())
            self._reset(*[seed] * takes_seed)

    def act(self, lanes: Sequence[Any]) -> list[Any]:
        if not self.batched:
            (here,) = lanes
            if not self._is_pure:
                return [self.policy(here.observation)]
            action, here.state = self.policy(here.observation, here.state)
            return [action]
        env = lanes[0].env
        observations = stack(env.observation_spec, [here.observation for here in lanes])
        if self._is_pure:
            actions, states = self.policy(observations, _stack_values([here.state for here in lanes]))
            for index, here in enumerate(lanes):
                here.state = tree.map_leaves(itemgetter(index), states)
        else:
            actions = self.policy(observations)
        if isinstance(actions, (np.ndarray, list)) and np.shape(actions)[:1] != (len(lanes),):
            raise envoi.EnvoiError(
                f"policy: expected an action for each of {len(lanes)} observations, got {np.shape(actions)}"
            )
        return [lane(env.action_spec, actions, index) for index in range(len(lanes))]


class _StableBaselines(Acting):
    """A model of Stable-Baselines3 or sb3-contrib, recurrent and maskable ones too; it takes its best actions."""

    def __init__(self, policy: Any, batched: bool) -> None:
        super().__init__(policy)
        self.batched, self.train_seed = batched, getattr(policy, "seed", None)
        self._normalize: Any = getattr(policy, "get_vec_normalize_env", lambda: None)()
        self._takes_masks = "action_masks" in inspect.signature(policy.predict).parameters

    def fits(self, env: envoi.Env) -> bool:
        form = self.form(env)
        return all(fits(getattr(form, n), getattr(self.policy, n)) for n in ("observation_space", "action_space"))

    def form(self, env: envoi.Env) -> Any:
        self._spec = env.action_spec
        self._mask_size = sum(choices(cast("Any", self._spec)) or ())
        return adapters.to_gymnasium(env)

    def begin(self, here: Any, seed: int) -> None:
        here.state = None, True

    def act(self, lanes: Sequence[Any]) -> list[Any]:
        observed = [here.observation for here in lanes]
        if self._normalize is not None:  # the statistics of training, which stay as they are
            observed = [self._normalize.normalize_obs(one) for one in observed]
        masks, more = [here.info.get(MASK) for here in lanes], dict[str, Any](deterministic=True)
        if self._takes_masks and any(mask is not None for mask in masks):
            more["action_masks"] = np.stack([flat_mask(self._spec, mask, self._mask_size) for mask in masks])
        if self.batched:
            actions, state = self.policy.predict(_stack_values(observed), **more)
            if state is not None:
                raise envoi.EnvoiError("policy: a recurrent model plays one episode at a time; leave batched=True out")
            return list(actions)
        (here,) = lanes
        state, first = here.state
        action, state = self.policy.predict(observed[0], state=state, episode_start=np.array([first]), **more)
        here.state = state, False
        return [action]


class OfRLlib(Acting):
    """A `Policy` of `envoi.integrations.rllib`; `run` is its run, if any, and `env` a name for messages."""

    def __init__(self, policy: Any, run: Path | None, env: str = "") -> None:
        super().__init__(policy)
        self._env = env
        if run is not None:
            self.name, folder = run.resolve().name, RunFolder(run)
            if folder.exists:
                self.train_seed = folder.read_best()[1].seed

    def fits(self, env: envoi.Env) -> bool:
        try:
            self._values(env)
        except envoi.EnvoiError:
            return False
        return True

    def form(self, env: envoi.Env) -> Any:
        self._of_env = self._values(env)
        return env

    def _values(self, env: envoi.Env) -> Any:
        from ..rllib.policy import PolicyValues

        return PolicyValues(self._env or type(env.unwrapped).__name__, env, self.policy)

    def begin(self, here: Any, seed: int) -> None:
        self.policy.reset(seed)

    def act(self, lanes: Sequence[Any]) -> list[Any]:
        (here,) = lanes
        action = self.policy(self.encode(here), here.reward)
        with one_line():
            return [self._of_env.decode(action)]

    def encode(self, here: Any) -> Any:
        """Returns the latest observation as the policy sees it."""
        return self._of_env.encode(here.observation, here.info)


@dataclass(frozen=True)
class EnvOfRun:
    """Makes the env of a run's best trial, with its training contexts."""

    name: str
    contexts: str | None

    @classmethod
    def read(cls, run: RunFolder) -> EnvOfRun:
        settings, trial, _ = run.read_best()
        return cls(settings.env_of(trial.overrides), settings.contexts)

    def __call__(self) -> Any:
        env = adapters.load(self.name)
        given = None if self.contexts is None else read_set(self.contexts, env)
        return env if given is None else with_contexts(env, contexts=given, context_selector=None)


class _Actor(Acting):
    """An actor as in Acme: `observe_first`, `select_action` and `observe`, with the time steps of dm_env."""

    def begin(self, here: Any, seed: int) -> None:
        self.policy.observe_first(_dm_env().restart(here.observation))

    def act(self, lanes: Sequence[Any]) -> list[Any]:
        (here,) = lanes
        return [self.policy.select_action(here.observation)]

    def see(self, here: Any, action: Any, over: tuple[bool, bool], discount: Any) -> None:
        dm_env = _dm_env()
        kind = dm_env.StepType.LAST if any(over) else dm_env.StepType.MID
        self.policy.observe(action, dm_env.TimeStep(kind, here.reward, discount, here.observation))


def acting_of(policy: Any, batched: bool = False, explore: bool = False) -> Acting:
    """Returns the `Acting` for a policy of any supported library."""
    if isinstance(policy, _SavedModel):
        policy = policy.load()
    run = Path(policy) if isinstance(policy, (str, os.PathLike)) else None
    if run is not None:
        from ..rllib import load_policy

        policy = load_policy(run, explore=explore)
    module = sys.modules.get("envoi.integrations.rllib.policy")
    if module is not None and isinstance(policy, (module.JointPolicy, module.SeatedPolicy)):
        raise envoi.EnvoiError("policy: expected that of one agent, got one of several agents; use evaluate_run")
    one_at_a_time: Acting | None = None
    if module is not None and isinstance(policy, module.Policy):
        one_at_a_time = OfRLlib(policy, run)
    elif callable(getattr(policy, "select_action", None)) and callable(getattr(policy, "observe_first", None)):
        one_at_a_time = _Actor(policy)
    if one_at_a_time is not None and batched:
        raise envoi.EnvoiError(f"policy: a {type(policy).__name__} plays one episode at a time; leave batched=True out")
    if one_at_a_time is not None:
        return one_at_a_time
    if callable(getattr(policy, "predict", None)) and hasattr(policy, "observation_space"):
        return _StableBaselines(policy, batched)
    if callable(policy):
        return _Callable(policy, batched)
    raise envoi.EnvoiError(
        "policy: expected a function of an observation, a model of Stable-Baselines3, an actor with select_action, or "
        f"the folder of a run or checkpoint of RLlib, got {policy!r}"
    )


class _SavedModel:
    """A Stable-Baselines3 model without its env, because the env may not be picklable."""

    def __init__(self, model: Any) -> None:
        self._kind, file = type(model), io.BytesIO()
        model.save(file)
        self._data, self._seed = file.getvalue(), getattr(model, "seed", None)

    def load(self) -> Any:
        model = self._kind.load(io.BytesIO(self._data), device="cpu")
        model.seed = self._seed
        return model


def sendable(policy: Any) -> Any:
    """Returns a policy that can be pickled for other processes: a saved copy of a model, any other policy unchanged."""
    is_model = callable(getattr(policy, "predict", None)) and callable(getattr(policy, "save", None))
    return _SavedModel(policy) if is_model and hasattr(policy, "observation_space") else policy


def _dm_env() -> Any:
    framework("dm_env").load()  # an error that names the extra
    import dm_env

    return dm_env


def _stack_values(values: Sequence[Any]) -> Any:
    """Stacks arrays, or trees of them."""
    return tree.map_leaves(lambda *parts: np.stack([np.asarray(part) for part in parts]), *values)
