"""Batches in the form of Stable-Baselines3's vector environments. See `envoi.adapters.sb3`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from envoi import Env, EpisodeError, Lanes, LossyConversion, Reset, SpecError, Step
from envoi.batching.values import lane

from ..gymnasium_vector.form import ToGymnasiumVector
from ..shared.discounts import is_default_discount
from ..shared.exported import AnyForm, inside
from ..shared.loss import warn_narrowed
from .specs import losses


class ToSB3(AnyForm, VecEnv):
    """A core batch as a `VecEnv` of Stable-Baselines3.

    Args:
        core: A batch, whose lanes can be reset in the step of their end.
        validate: Check every value against its spec.

    Attributes:
        core: The core batch.
        rewards: The rewards that the latest step returned, float32 of shape (n,); None before it.

    Raises:
        SpecError: `core` is not a batch.
        LossyConversion: Stable-Baselines3 has no place for a part of it.
    """

    def __init__(self, core: Env, validate: bool = False) -> None:
        if core.batch_size is None:
            raise SpecError("to_sb3: expected a batch, got one environment; see envoi.batch(env, n)")
        lost = losses(core)
        for one in lost:
            if one.refused:
                raise LossyConversion(one.path, one.field, one.source, one.target, one.hint)
        warn_narrowed(lost)
        self.core: Any = core
        self.rewards: NDArray[np.float32] | None = None
        self._vector = vector = ToGymnasiumVector(core, AutoresetMode.SAME_STEP, validate)
        self._actions: Any = None  # those of `step_async`
        self._closed = False
        super().__init__(core.batch_size, vector.single_observation_space, vector.single_action_space)
        self.metadata = {**self.metadata, **deepcopy(dict(core.metadata))}

    @classmethod
    def _opens(cls, core: Any) -> bool:
        return False  # each lane has attributes of its own, see `get_attr`

    @property
    def last(self) -> Reset | Step | None:
        """The latest `Reset` or `Step` of the core, of shape (n, …); None before the first reset."""
        return self._vector.last

    def reset(self) -> Any:
        """Begins an episode in all lanes, with the seeds and options that `seed` and `set_options` gave.

        Returns:
            The observations, of shape (n, …).
        """
        seeds = None if all(one is None for one in self._seeds) else self._seeds
        first, *others = self._wishes()
        observation, _ = self._vector.reset(seed=seeds, options=first[0])
        self.reset_infos = [dict(info) for info in self._vector.infos]
        for options, lanes in others:
            observation, _ = self._vector.reset(seed=seeds, options={**options, "reset_mask": lanes})
            for index in np.flatnonzero(lanes).tolist():
                self.reset_infos[index] = dict(self._vector.infos[index])
        self._reset_seeds()
        self._reset_options()
        self._actions = self.rewards = None
        return observation

    def _wishes(self) -> list[tuple[dict[Any, Any], NDArray[np.bool_]]]:
        """Groups the lanes by equal options of the coming reset."""
        if len(self._options) != self.num_envs:
            raise SpecError(f"options: expected one dict for each of {self.num_envs} lanes, got {len(self._options)}")
        found: list[tuple[dict[Any, Any], NDArray[np.bool_]]] = []
        for index, options in enumerate(self._options):
            known = next((lanes for held, lanes in found if held is options or held == options), None)
            if known is None:
                known = np.zeros(self.num_envs, bool)
                found.append((options, known))
            known[index] = True
        return found

    def step_async(self, actions: Any) -> None:
        """Takes the actions of the step that `step_wait` does.

        Args:
            actions: Of shape (n, …).

        Raises:
            EpisodeError: The step before has not been waited for.
        """
        if self._actions is not None:
            raise EpisodeError("step_async: a step is under way; call step_wait() first")
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Acts once in every lane, and resets those whose episode ends.

        Returns:
            Observations of shape (n, …), rewards (float32) and dones (bool) of shape (n,), and a dict for each lane.

        Raises:
            EpisodeError: There are no actions, for `step_async` was not called.
        """
        actions, self._actions = self._actions, None
        if actions is None:
            raise EpisodeError("step_wait: no step is under way; call step_async(actions) first")
        observation, reward, terminated, truncated, said = self._vector.step(actions)
        self.rewards = rewards = np.array(reward, np.float32)
        if not said:  # so no lane has ended
            return observation, rewards, terminated, [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        over, cut = terminated | truncated, (truncated & ~terminated).tolist()
        step: Any = self._vector.last
        infos = [{**info, "TimeLimit.truncated": flag} for info, flag in zip(step.info, cut, strict=True)]
        if "discount" in said or "discount" in said.get("final_info", ()):
            for index, info in enumerate(infos):
                discount = lane(self.core.discount_spec, step.discount, index)
                if not is_default_discount(discount, terminated[index]):
                    info["discount"] = discount
        begun = self._vector.begun
        if begun is not None:
            for index in np.flatnonzero(over).tolist():
                infos[index]["terminal_observation"] = said["final_obs"][index]
                self.reset_infos[index] = dict(begun.info[index])
        return observation, rewards, over, infos

    # The attributes of lanes.

    def _place(self, name: str, indices: VecEnvIndices) -> tuple[Any, list[int]]:
        """Returns the holders of an attribute, and the lanes of `indices`.

        The holders are a `VecEnv` that the core steps; a vector environment of gymnasium; a list of gymnasium
        environments, one a lane; or a single object that all lanes share.
        """
        source = next((layer for layer in inside(self.core)[1] if isinstance(layer, VecEnv)), None)
        lanes = [int(index) for index in self._get_indices(indices)]
        return self._vector.place_of(name) if source is None else source, lanes

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Reads an attribute of lanes: of a wrapper, a model, or the source.

        Args:
            attr_name: The attribute.
            indices: The lanes; None for all.

        Returns:
            One value for each of the lanes.

        Raises:
            AttributeError: There is no such attribute.
        """
        own = {"observation_space": "single_observation_space", "action_space": "single_action_space"}
        if attr_name in own or attr_name == "render_mode":
            return [getattr(self._vector, own.get(attr_name, attr_name)) for _ in self._get_indices(indices)]
        place, lanes = self._place(attr_name, indices)
        if isinstance(place, VecEnv):
            return place.get_attr(attr_name, lanes)
        if isinstance(place, list):
            return [place[index].get_wrapper_attr(attr_name) for index in lanes]
        if _has_lanes(place):
            each = place.get_attr(attr_name)
            return [each[index] for index in lanes]
        return [getattr(place, attr_name)] * len(lanes)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of lanes, where it is; see `get_attr`.

        Args:
            attr_name: The attribute.
            value: Its new value in each of the lanes.
            indices: The lanes; None for all.

        Raises:
            AttributeError: There is no such attribute, and no lane that could get one.
            SpecError: It is that of some lanes only, and all lanes share the object that has it.
        """
        place, lanes = self._place(attr_name, indices)
        if isinstance(place, VecEnv):
            place.set_attr(attr_name, value, lanes)
        elif isinstance(place, list):
            for index in lanes:
                place[index].set_wrapper_attr(attr_name, value)
        elif _has_lanes(place):
            chosen = {*lanes}
            place.set_attr(
                attr_name, [value if i in chosen else old for i, old in enumerate(place.get_attr(attr_name))]
            )
        else:
            self._check_all(attr_name, place, lanes)
            setattr(place, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> Any:
        """Calls a method of lanes; see `get_attr`. One that all lanes share is called once.

        Args:
            method_name: The method.
            *method_args: For the method.
            indices: The lanes; None for all.
            **method_kwargs: For the method.

        Returns:
            A list of one result for each of the lanes.

        Raises:
            AttributeError: There is no such method.
            SpecError: Of a vector environment, which calls it in all lanes, only some are asked.
        """
        place, lanes = self._place(method_name, indices)
        if isinstance(place, VecEnv):
            return place.env_method(method_name, *method_args, indices=lanes, **method_kwargs)
        if isinstance(place, list):
            return [place[index].get_wrapper_attr(method_name)(*method_args, **method_kwargs) for index in lanes]
        if method_name == "render":
            pictures = self._vector.call("render")
            return [pictures[index] for index in lanes]
        if _has_lanes(place):
            self._check_all(method_name, place, lanes)
            each = place.call(method_name, *method_args, **method_kwargs)
            return [each[index] for index in lanes]
        return [getattr(place, method_name)(*method_args, **method_kwargs)] * len(lanes)

    def _check_all(self, name: str, place: Any, lanes: list[int]) -> None:
        if len({*lanes}) < self.num_envs:
            raise SpecError(f"{name}: expected all {self.num_envs} lanes, which share {place!r}, got {lanes}")

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
        """Returns for each of the lanes `indices` (None for all) whether a wrapper of a class is around it."""
        place, lanes = self._place("", indices)
        if isinstance(place, VecEnv):
            return place.env_is_wrapped(wrapper_class, lanes)
        outer = [layer for part in inside(self.core) for layer in part]
        if any(isinstance(layer, wrapper_class) for layer in outer):
            return [True] * len(lanes)
        each: Any = next((layer.envs for layer in outer if isinstance(layer, Lanes)), None)
        if each is None:
            return [False] * len(lanes)
        return [any(isinstance(layer, wrapper_class) for part in inside(each[i]) for layer in part) for i in lanes]

    def get_images(self) -> Sequence[Any]:
        """Returns a picture of each lane, uint8 of shape (height, width, 3); None where `render_mode` is another."""
        if self.render_mode != "rgb_array":
            warnings.warn(f"get_images: expected the render_mode 'rgb_array', got {self.render_mode!r}", stacklevel=2)
            return [None] * self.num_envs
        return list(self._vector.render())

    def close(self) -> None:
        """Releases what the environment holds, once."""
        if not self._closed:
            self._closed = True
            self.core.close()

    def content(self) -> Any:
        """Returns what a snapshot of an environment that this form is a part of holds of it."""
        return self._vector.content(), deepcopy((self._seeds, self._options, self._actions, self.reset_infos))

    def put_back(self, content: Any) -> None:
        """Puts back what `content` gave."""
        held, rest = content
        self._vector.put_back(held)
        self._seeds, self._options, self._actions, self.reset_infos = deepcopy(rest)

    def __repr__(self) -> str:
        return f"to_sb3({self.core!r})"


def _has_lanes(place: Any) -> bool:
    """Returns whether a holder of attributes is a vector environment that asks each of its lanes."""
    return isinstance(place, VectorEnv) and hasattr(place, "call")
