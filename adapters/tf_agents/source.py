"""Imports environments of TF-Agents, single and batched. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, cast

import numpy as np

from envoi import Array, Env, EpisodeError, Infos, Reset, SpecError
from envoi.lane_values import take
from envoi.protocol.batch_env import Mask, as_mask
from envoi.protocol.env import ENDED_LANES
from envoi.protocol.process import Info
from envoi.seeding import batch_streams, lane_seeds
from envoi.spec import SpecTree
from envoi.structural_equality import structure
from envoi.tree import is_branch, leaves, map_leaves

from ..shared.arrival import Copy, incoming, is_zero
from ..shared.imported import ImportedBatch, ImportedEnv, ImportedLanes, SeedsSource
from ..shared.introspection import layers
from .form import NotStackable, ToTFAgents
from .specs import NAME, PyEnvironment, array_encoder, filled, from_number_spec, from_spec, lanes_of, zero_lanes


class FromTFSource(SeedsSource):
    """Base of TF-Agents' importers, single and batched: finds the specs that a source declares inside its wrappers."""

    _framework = NAME
    _planned = ("_form", "_incoming", "_take_reward", "_take_discount", "_encode")
    _layer = PyEnvironment
    _most_seeds = 2**31

    _has_info: bool = True

    def _describe(self) -> None:
        self.observation_spec = from_spec(self.source.observation_spec(), "observation_spec")
        self.action_spec = from_spec(self.source.action_spec(), "action_spec", action=True)
        if self.form_inside is self.source:
            self.reward_spec, self.discount_spec = self.source.core.reward_spec, self.source.core.discount_spec
        else:
            self.reward_spec = self._declared_reward()
            self.discount_spec = from_number_spec(self._declared("discount")[1], "discount_spec")
        form: Any = self.form_inside
        if form is not None:
            self.metadata, self.render_mode = deepcopy(form.metadata), form.render_mode
        else:
            self.render_mode = None if type(self.unwrapped).render is PyEnvironment.render else "rgb_array"
            self.metadata = {"render_modes": [self.render_mode] if self.render_mode else []}

    def _plan(self) -> None:
        n, self._form = cast("Any", self).batch_size, self.form_inside
        self._incoming = incoming(lanes_of(self.observation_spec, n), self._copy)
        self._take_reward = number_reader(lanes_of(self.declared_reward_spec, n), self._copy)
        self._take_discount = number_reader(lanes_of(self.discount_spec, n), self._copy)
        # A copy, because the source may keep an action, or change it in place.
        self._encode = array_encoder(lanes_of(self.action_spec, n), fresh=True)
        super()._plan()

    def _declared_reward(self) -> SpecTree:
        layer, spec = self._declared("reward")
        read = from_number_spec(spec, "reward_spec")
        if layer is self.source:
            return read
        # A wrapper may change rewards, by adding up several for example, so their bounds may not hold.
        return map_leaves(lambda leaf: Array(leaf.shape, leaf.dtype, name=leaf.name), read)

    def _declared(self, what: str) -> tuple[Any, Any]:
        """Returns the outermost layer that declares a spec, and the spec; TF-Agents' wrappers do not pass specs on."""
        own = f"{what}_spec"
        for layer in self._parts():
            kind = type(layer)
            if getattr(kind, own) is not getattr(PyEnvironment, own):
                spec = getattr(layer, own)()  # None in some bandits, which means the default one
                return layer, getattr(layer.time_step_spec(), what) if spec is None else spec
            if kind.time_step_spec is not PyEnvironment.time_step_spec:
                return layer, getattr(layer.time_step_spec(), what)
        return self.source, getattr(self.source, own)()

    @property
    def unwrapped(self) -> Any:
        return self._parts()[-1]

    def _source_info(self) -> Any:
        """Returns the source's info; None if it has none."""
        if not self._has_info:
            return None
        try:
            return self.source.get_info()
        except NotImplementedError:
            self._has_info = False
            return None

    @property
    def _has_seed_method(self) -> bool:
        return type(self.unwrapped).seed is not PyEnvironment.seed

    def _call_seed_method(self, seed: Any) -> bool:
        try:
            self.source.seed(seed)
        except NotImplementedError:
            return False
        return True

    def _parts(self) -> list[Any]:
        return layers(self.source, PyEnvironment)

    def render(self) -> Any:
        return None if self.render_mode is None else self.source.render(self.render_mode)


def number_reader(spec: SpecTree, copy: Copy) -> Callable[[Any], Any]:
    """Returns a function that converts rewards or discounts; scalars become immutable numpy scalars."""
    if not (isinstance(spec, Array) and spec.shape == ()):
        return incoming(spec, copy)
    take = incoming(spec, False)

    def read(value: Any) -> Any:
        value = take(value)
        return value[()] if type(value) is np.ndarray and value.shape == () else value

    return read


class FromTFAgents(FromTFSource, ImportedEnv):
    """A TF-Agents environment as a core environment.

    Args:
        source: The TF-Agents environment of one lane, possibly wrapped.
        seed: A function that seeds the source, see `from_tf_agents`.
        copy: Which observations to copy, see `from_tf_agents`.
    """

    def __init__(self, source: PyEnvironment, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> None:
        if source.batched:
            raise SpecError(f"FromTFAgents: expected one environment, got a batch of {source.batch_size} lanes")
        self._seeder = seed
        super().__init__(source, copy)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        time_step, form = self.source.reset(), self._form
        if form is not None and form.has_returned(time_step):
            return form.last.observation, {**form.last.info}
        observation, info = time_step.observation, lane_info(self._source_info())
        return self._incoming(observation), info

    def _step_source(self, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        time_step, form = self.source.step(action if self._encode is None else self._encode(action)), self._form
        kind = int(time_step.step_type)
        if kind == 0:
            raise EpisodeError(f"step: {self.source} began another episode by itself; call reset() first")
        if form is not None and form.has_returned(time_step):
            *values, info = form.last
            return cast("Any", (*values, {**info}))
        observation = time_step.observation
        observation = self._incoming(observation)
        reward, discount = self._take_reward(time_step.reward), self._take_discount(time_step.discount)
        terminated = kind == 2 and is_zero(discount)
        return observation, reward, terminated, kind == 2 and not terminated, discount, lane_info(self._source_info())


class FromTFAgentsBatch(FromTFSource, ImportedBatch):
    """A batched TF-Agents environment as a core batch.

    Its lanes are reset as TF-Agents permits: each in the step after its end, or all by `reset`.

    Args:
        source: The batched TF-Agents environment, possibly wrapped.
        seed: A function that seeds the source, see `from_tf_agents`.
        copy: Which observations to copy, see `from_tf_agents`.
    """

    restarts = frozenset({"step"})

    def __init__(self, source: PyEnvironment, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> None:
        self._seeder = seed
        super().__init__(source, cast("int", source.batch_size), copy)

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        n, lanes = self.batch_size, as_mask(mask, self.batch_size, "mask")
        lane_seeds(seed, n)  # raises an error if they are not valid
        if isinstance(seed, np.integer):  # sources may accept only Python integers
            seed = int(seed)
        if lanes is not None and not lanes.all():
            raise EpisodeError(
                "reset: TF-Agents begins an episode of single lanes only in the step after their end; "
                "use step(actions, restart=…), or reset all lanes"
            )
        self._give_options(options)
        if seed is not None:
            self.seed_source(seed)
        time_step = self.source.reset()
        self._streams = batch_streams(seed, n) or self._streams
        self._over, self._begun = np.zeros(n, bool), True
        form = self._form
        if form is not None and form.has_returned(time_step):
            self._observation, infos = form.last.observation, form.last.info
        else:
            observation = time_step.observation
            self._observation = self._incoming(observation)
            infos = unstacked(self._source_info, n, form)
        return Reset(self._observation, cast("Any", infos))

    def _call_seed_method(self, seed: Any) -> bool:
        try:
            return super()._call_seed_method(seed)
        except TypeError:  # lanes in processes of their own take a list of one seed per lane
            if self._form is not None or not isinstance(seed, int):
                raise
            return super()._call_seed_method(lane_seeds(seed, self.batch_size))

    def _step_source(self, action: Any, restart: Mask, hold: Mask | None) -> tuple[Any, Any, Mask, Mask, Any, Any]:
        form, sent = self._form, action if self._encode is None else self._encode(action)
        if form is not None:
            form.restart(restart)
            time_step = self.source.step(sent)
        else:
            # Some sources start a new episode only by `reset`, even if all lanes have ended.
            time_step = self.source.reset() if restart.all() else self.source.step(sent)
        return form.last if form is not None and form.has_returned(time_step) else self._read(time_step, restart)

    def _check_lanes(self, restart: Mask, hold: Mask | None) -> None:
        left, early = self._over & ~restart, restart & ~self._over
        if left.any():
            raise EpisodeError(f"step: in lanes {np.flatnonzero(left).tolist()}, {ENDED_LANES}")
        if early.any() and self._form is None and not restart.all():
            raise EpisodeError(
                f"step: lanes {np.flatnonzero(early).tolist()} have not ended, and TF-Agents begins "
                "no new episode in a lane before its end"
            )

    def _read(self, time_step: Any, begin: Mask) -> tuple[Any, Any, Mask, Mask, Any, Any]:
        kinds = np.asarray(time_step.step_type)
        wrong = (kinds == 0) != begin
        if wrong.any():
            lane = int(np.argmax(wrong))
            does = "went on" if begin[lane] else "began another episode by itself"
            raise EpisodeError(f"step: in lane {lane}, {self.source} {does}; call reset() first")
        observation = time_step.observation
        reward, discount = self._take_reward(time_step.reward), self._take_discount(time_step.discount)
        if begin.any():
            reward, discount = filled(reward, begin, 0), filled(discount, begin, 1)
        over = kinds == 2
        terminated = over & zero_lanes(discount, self.batch_size)
        infos: Any = unstacked(self._source_info, self.batch_size, self._form)
        return self._incoming(observation), reward, terminated, over & ~terminated, discount, infos


class FromTFAgentsLanes(ImportedLanes):
    """A `BatchedPyEnvironment` as a batch of the environments inside it, each of which can be reset and seeded.

    Args:
        source: The batched environment.
        copy: Which observations to copy, see `from_tf_agents`.
    """

    _framework = NAME

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        lanes = [env.core if isinstance(env, ToTFAgents) else FromTFAgents(env, None, copy) for env in source.envs]
        super().__init__(source, lanes)

    @property
    def unwrapped(self) -> Any:
        return self.source


def from_source(source: PyEnvironment, seed: Callable[[Any], Any] | None, copy: Copy) -> Env:
    """Imports a TF-Agents environment, single or batched."""
    if not source.batched:
        return FromTFAgents(source, seed, copy)
    # A wrapper's `__getattr__` finds `envs` too, but the wrapper changes their values, so the class is asked.
    lanes = getattr(source, "envs", ()) if hasattr(type(source), "envs") else ()
    if seed is None and len(lanes) == source.batch_size and all(isinstance(env, PyEnvironment) for env in lanes):
        return FromTFAgentsLanes(source, copy)
    return FromTFAgentsBatch(source, seed, copy)


def unstacked(get_info: Callable[[], Any], n: int, form: Any) -> Infos:
    """Returns the infos of n lanes from an environment's `get_info`.

    If the infos come unchanged from a form inside, returns the form's original infos, whose values keep
    their types.
    """
    try:
        info = get_info()
        if form is not None and structure(info) == structure(form.get_info()):
            info = form.infos
    except NotStackable as error:
        info = error.infos
    if isinstance(info, (list, tuple, Infos)) and len(info) == n:
        return Infos([lane_info(one) for one in info])
    if isinstance(info, Mapping):
        columns = {**info}
        shapes = [np.shape(leaf)[:1] for column in columns.values() for _, leaf in leaves(column)]
        if shapes and all(shape == (n,) for shape in shapes):
            if not any(map(is_branch, columns.values())):
                return Infos(columns=columns, n=n)
            return Infos([{key: take(column, lane) for key, column in columns.items()} for lane in range(n)])
    return Infos([lane_info(info) for _ in range(n)])


def lane_info(info: Any) -> dict[Any, Any]:
    """Converts the result of `get_info` to a new dict."""
    if info is None:
        return {}
    return {**info} if isinstance(info, Mapping) else {"info": info}
