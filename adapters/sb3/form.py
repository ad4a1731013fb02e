"""Batches as Stable-Baselines3's vector environments, and a curriculum for those in processes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn

from envoi import AgentLanes, ContextError, EpisodeError, LossyConversion, Reset, Step
from envoi.lane_values import groups_of_equal, lane, take
from envoi.protocol.batch_env import full_lanes_step
from envoi.protocol.fast_steps import fast_step
from envoi.protocol.multi_env import MASK
from envoi.seeding import check_seed

from ..conversion import core_layers
from ..gymnasium.specs import encoder, like_source, to_space
from ..gymnasium_vector.lane_attributes import LaneAttributes, pictures
from ..gymnasium_vector.specs import batched_decoder, batched_encoder
from ..shared.arrival import is_default_discount
from ..shared.exported import AnyForm
from ..shared.loss import warn_narrowed
from ..shared.masks import choices, flat_mask
from .specs import NAME, losses


class _VecEnv(VecEnv):
    """A `VecEnv` whose constructor does nothing; the form calls the real one when it knows the spaces."""

    def __init__(self) -> None:
        pass


class ToSB3(AnyForm, _VecEnv):
    """A core batch as a Stable-Baselines3 `VecEnv`; `LaneAttributes` describes the attributes of lanes.

    Args:
        core: A batch whose lanes can be reset in the step that ends their episode.
        validate: Check every value against its spec.

    Attributes:
        core: The core batch.
        rewards: The rewards that the latest step returned, float32 of shape (n,).

    Raises:
        SpecError: `core` is not a batch.
        LossyConversion: Stable-Baselines3 cannot express a part of the environment.
    """

    _framework = NAME
    _of_lanes = True
    _planned = ("_attributes", "_encode", "_encode_one", "_decode", "_step", "_mask_size")
    _memory = ("_begun", "_last", "_actions", "_seeds", "_options", "rewards", "reset_infos", "_infos")

    def __init__(self, core: Any, validate: bool = False) -> None:
        self._last, self._actions, self.rewards, self._begun = None, None, None, False
        self._infos: list[Any] = []  # of each lane, the one beside the observation returned last
        self._masked = False
        super().__init__(core, validate)
        seen = like_source(to_space(core.observation_spec, "observation"), core, "observation")
        done = like_source(to_space(core.action_spec, "action"), core, "action")
        metadata = self.metadata
        VecEnv.__init__(self, core.batch_size, seen, done)
        self.metadata = {**self.metadata, **metadata}

    def _check_lanes(self, core: Any) -> None:
        super()._check_lanes(core)
        for loss in filter(lambda one: one.refused, lost := losses(core)):
            raise LossyConversion(loss.path, loss.field, loss.source, loss.target, loss.hint)
        warn_narrowed(lost)

    def _plan(self) -> None:
        core = self.core
        self._attributes = LaneAttributes(core)
        self._encode, self._encode_one = batched_encoder(core.observation_spec), encoder(core.observation_spec)
        self._decode = batched_decoder(core.action_spec, core.batch_size)
        self._step: Any = fast_step(self._env)
        self._mask_size = sum(choices(core.action_spec) or ())  # 0 if actions cannot be masked

    def reset(self) -> Any:
        groups, result = groups_of_equal(self._options), Reset(None, {})
        if len(groups) == 1 or not self._begun:
            groups[0][:] = True  # the first reset of a batch is one of all lanes
        for lanes in groups:
            options, mask = self._options[int(np.argmax(lanes))], None if lanes.all() else lanes
            result = self._env.reset(seed=self._core_seeds(lanes), options=options or None, mask=mask)
            each = zip(self.reset_infos, result.info, lanes, strict=True)
            self.reset_infos = [dict(new) if own else old for old, new, own in each]
        self._reset_seeds()
        self._reset_options()
        self._begun, self._last, self._actions, self._infos = True, None, None, self.reset_infos
        return result.observation if self._encode is None else self._encode(result.observation)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Sets the seeds of the next reset: `seed + i` for lane i, or random seeds for None; see `VecEnv.seed`."""
        return super().seed(check_seed(seed))

    def _core_seeds(self, lanes: Any) -> Any:
        """Returns the seeds for a reset of `lanes`, or only the first seed if the lanes are agents of one episode."""
        seeds = [seed if own else None for seed, own in zip(self._seeds, lanes, strict=True)]
        if seeds.count(None) == self.num_envs:
            return None
        return seeds[0] if any(isinstance(layer, AgentLanes) for layer in core_layers(self.core)) else seeds

    def step_async(self, actions: Any) -> None:
        """Stores the actions, of shape (n, …), for the step that `step_wait` runs."""
        if self._actions is not None:
            raise EpisodeError("step_async: a step is under way; call step_wait() first")
        self._actions = self._decode(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Runs one step in every lane, and resets lanes whose episode ends; see `VecEnv.step_wait`."""
        actions, self._actions = self._actions, None
        if actions is None:
            raise EpisodeError("step_wait: no step is under way; call step_async(actions) first")
        self._last = observation, reward, terminated, truncated, discount, infos = self._step(actions, None)
        self.rewards = np.array(reward, np.float32)
        if infos.columns == {}:
            entries: Any = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        else:
            entries = [{**info, "TimeLimit.truncated": False} for info in infos]
        if terminated is None:
            terminated = truncated = over = np.zeros(self.num_envs, bool)
        else:
            over = terminated | truncated
        if discount is not None:
            self._add_discounts(entries, discount, terminated)
        self._infos = entries
        if np.count_nonzero(over):
            observation = self._reset_ended(entries, observation, over, truncated & ~terminated)
        return observation if self._encode is None else self._encode(observation), self.rewards, over, entries

    def _add_discounts(self, entries: list[dict[Any, Any]], discount: Any, terminated: Any) -> None:
        if isinstance(discount, np.ndarray) and discount.ndim == 1 and not np.count_nonzero(discount != ~terminated):
            return
        for index, info in enumerate(entries):
            one = lane(self.core.discount_spec, discount, index)
            if not is_default_discount(one, terminated[index]):
                info["discount"] = one

    def _reset_ended(self, entries: list[dict[Any, Any]], final: Any, over: Any, cut: Any) -> Any:
        """Resets the lanes `over`, of which `cut` were only truncated; returns the observations of all lanes."""
        begun, ended = self._env.reset(mask=over), over.nonzero()[0]
        final, infos = take(final, ended), {} if begun.info.columns == {} else begun.info
        self._infos = [*entries]
        self.reset_infos = list(self.reset_infos)  # others may hold the one of before
        for row, index in enumerate(ended.tolist()):
            value = lane(self.core.observation_spec, final, row)
            entries[index]["terminal_observation"] = value if self._encode_one is None else self._encode_one(value)
            entries[index]["TimeLimit.truncated"] = bool(cut[index])
            self._infos[index] = self.reset_infos[index] = dict(infos[index]) if infos else {}
        return begun.observation

    @property
    def last(self) -> Step | None:
        """The core's latest step, as it was before lanes were reset; None until the first step after `reset`."""
        return self._last and full_lanes_step(self._last, self.core.discount_spec, self.num_envs)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        lanes = [*self._get_indices(indices)]
        if attr_name in ("observation_space", "action_space", "render_mode"):
            return [getattr(self, attr_name)] * len(lanes)
        try:
            return self._attributes.get(attr_name, lanes)
        except AttributeError:
            if attr_name != "action_masks" or not self._has_masks():
                raise
        return [partial(self._mask, index) for index in lanes]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        lanes = [*self._get_indices(indices)]
        self._attributes.set(attr_name, [value] * len(lanes), lanes)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> Any:
        lanes = [*self._get_indices(indices)]
        if method_name == "render":
            each = pictures(self.core) or [None] * self.num_envs
            return [each[index] for index in lanes]
        if method_name == "action_masks" and self._begun and self._has_masks():
            return [self._mask(index) for index in lanes]
        return self._attributes.call(method_name, lanes, *method_args, **method_kwargs)

    def _has_masks(self) -> bool:
        """Returns True if the lanes have action masks. Before the first reset, resets a copy to find out."""
        if self._masked or not self._mask_size:
            return self._masked
        infos: Any = self._infos
        if not self._begun:
            try:
                infos = deepcopy(self.core).reset().info
            except Exception:  # any that the authors' objects raise; lanes in workers cannot be copied
                return False
        self._masked = any(MASK in info for info in infos)
        return self._masked

    def _mask(self, index: int) -> Any:
        """Returns the action mask of a lane in sb3-contrib's format: one bool for each choice of each integer."""
        return flat_mask(self.core.action_spec, self._infos[index].get(MASK), self._mask_size)

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        return self._attributes.are_wrapped(wrapper_class, [*self._get_indices(indices)])

    def get_images(self) -> Sequence[Any]:
        """Returns a picture of each lane, uint8 (height, width, 3); None unless `render_mode` is `"rgb_array"`."""
        if self.render_mode != "rgb_array":
            warnings.warn(f"get_images: expected the render_mode 'rgb_array', got {self.render_mode!r}", stacklevel=2)
            return [None] * self.num_envs
        return self.env_method("render")

    render: Any = VecEnv.render


class CurriculumVecEnv(VecEnvWrapper):
    """Passes contexts from a curriculum to the processes of a `SubprocVecEnv`, and reports their episodes back.

        def make():
            return to_gymnasium(Contextual(load("envoi:cartpole"), contexts, context_selector=Handed()))

        venv = CurriculumVecEnv(SubprocVecEnv([make] * 4), PrioritizedLevelReplay(seed=0))

    The step that ends an episode also begins the next one, so contexts are chosen one episode ahead: when the previous
    episode begins. Lanes inside the training process, as in `to_sb3` of a batch or a `DummyVecEnv`, share a curriculum
    without this class and without the delay.

    Args:
        venv: The vector environment; each of its environments is a form of a `Contextual` with a `Handed` selector.
        curriculum: A selector of `envoi.curricula`, or of your own.

    Raises:
        ContextError: An environment has no such selector.
    """

    def __init__(self, venv: VecEnv, curriculum: Any) -> None:
        super().__init__(venv)
        try:
            venv.env_method("exchange_contexts", [])
        except AttributeError as error:
            raise ContextError(
                "venv: expected environments that are a Contextual with context_selector=envoi.curricula.Handed()"
            ) from error
        curriculum.begin(venv.get_attr("contexts", [0])[0], venv.get_attr("context_space", [0])[0])
        self.curriculum = curriculum
        self._held = [0] * venv.num_envs  # how many contexts each lane has that are to come

    def _hand(self, lane: int, n: int) -> None:
        coming = [self.curriculum.select(np.random.default_rng()) for _ in range(n - self._held[lane])]
        self.venv.env_method("exchange_contexts", coming, indices=[lane])
        self._held[lane] = n

    def reset(self) -> Any:
        for index in range(self.num_envs):
            self._hand(index, 2)
        observation = self.venv.reset()
        self._held = [1] * self.num_envs
        return observation

    def step_wait(self) -> Any:
        observation, reward, done, info = self.venv.step_wait()
        lanes = np.flatnonzero(done).tolist()
        rows = [self.venv.env_method("exchange_contexts", [], indices=[index])[0] for index in lanes]
        if lanes:
            self.curriculum.tell(
                [{**row, "lane": index} for index, ended in zip(lanes, rows, strict=True) for row in ended]
            )
        for index in lanes:
            self._held[index] = 0
            self._hand(index, 1)
        return observation, reward, done, info
