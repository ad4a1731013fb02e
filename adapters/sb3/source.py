"""Stable-Baselines3's vector environments as core batches. See `envoi.adapters.sb3`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecEnvWrapper

from envoi import Infos, Reset, SnapshotUnsupported, SpecError
from envoi.seeding import lane_seeds

from ..gymnasium.source import NATIVE_REWARD
from ..gymnasium.specs import from_space
from ..gymnasium_vector.source import FromGymnasiumVector, FromSyncVector
from .form import ToSB3
from .specs import NAME

_OWN = frozenset({"terminal_observation", "TimeLimit.truncated"})
"""Keys of infos whose values have a place of their own in a core step."""


class FromSB3(FromGymnasiumVector):
    """A `VecEnv` as a core batch, whose lanes can only be stepped together; see `FromGymnasiumVector`.

    The source resets a lane as soon as its episode ends, like a gymnasium vector environment in mode `SAME_STEP`.
    Rewards are float64, which can represent those of any source.

    Args:
        source: The `VecEnv`, possibly wrapped.
        copy: Which observations to copy, see `from_sb3`.

    Attributes:
        source: The `VecEnv`.
    """

    _framework = NAME

    def _describe(self) -> None:
        source, core = self.source, self.core_inside
        self.observation_spec = from_space(source.observation_space, "observation_space")
        self.action_spec = from_space(source.action_space, "action_space")
        self.reward_spec = NATIVE_REWARD
        if core is not None:
            self.reward_spec, self.discount_spec = core.reward_spec, core.discount_spec
        self.mode, self.restarts = AutoresetMode.SAME_STEP, frozenset({"reset"})
        self.metadata, self.render_mode = deepcopy(dict(source.metadata)), source.render_mode
        self._takes_seeds, self._form = type(self.unwrapped).seed in (VecEnv.seed, ToSB3.seed), None

    def _reset_source(self, seed: Any, options: dict[str, Any] | None) -> tuple[Any, Infos]:
        if isinstance(seed, list):
            self.unwrapped._seeds = seed  # those of the next reset, in every `VecEnv`
        elif seed is not None:
            self.source.seed(seed)
        if options:
            self.source.set_options(options)
        observation = self.source.reset()
        return self._incoming(observation), Infos([dict(info) for info in self.unwrapped.reset_infos])

    def _step_vector(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        observation, reward, over, infos = self.source.step(action)
        cut = np.array([bool(info.get("TimeLimit.truncated")) for info in infos]) & over
        ended = over & ~cut
        form = self.form_inside
        if isinstance(form, ToSB3):
            last: Any = form.last
            reward = last.reward if reward is form.rewards else reward
            if np.array_equal(over, last.terminated | last.truncated):
                ended, cut = last.terminated, last.truncated
        lanes = [{key: value for key, value in info.items() if key not in _OWN} for info in infos]
        entries: dict[str, Any] = {"infos": lanes}
        if any("discount" in info for info in lanes):
            entries["discount"] = True
        if np.count_nonzero(over):
            for index in np.flatnonzero(over).tolist():
                if "terminal_observation" not in infos[index]:
                    raise SpecError(
                        f"step: expected info['terminal_observation'] of lane {index} of {self.source}, whose episode "
                        f"has ended, got {list(infos[index])}"
                    )
            each = zip(over, self.unwrapped.reset_infos, lanes, strict=True)
            begun = [dict(new if done else old) for done, new, old in each]
            entries.update(infos=begun, final_info=lanes, final_obs=[one.get("terminal_observation") for one in infos])
        return observation, reward, ended, cut, entries

    def _rewards(self, reward: Any) -> Any:
        return np.array(reward, self.reward_spec.dtype)

    def _read(self, entries: Mapping[Any, Any]) -> Infos:
        return Infos(entries["infos"])

    def _source_rng(self) -> None:
        return None

    def _replace_rng(self, generator: np.random.Generator) -> None:
        self.unwrapped._seeds = lane_seeds(int(deepcopy(generator).integers(2**63)), self.batch_size)

    def _check_copies(self) -> None:
        if isinstance(self.unwrapped, SubprocVecEnv):
            raise SnapshotUnsupported(f"{self.source}: cannot be copied, because its lanes are in other processes")

    def _parts(self) -> list[Any]:
        layers: list[Any] = [self.source]
        while isinstance(layers[-1], VecEnvWrapper):
            layers.append(layers[-1].venv)
        spaces = {id(space): space for one in layers for space in (one.observation_space, one.action_space)}
        return [*layers, *spaces.values()]


def loops_only(source: VecEnv) -> bool:
    """Returns True if a `VecEnv` is only a loop over sub-environments that can be accessed."""
    kind = type(source)
    names = ("reset", "step_async", "step_wait", "step", "seed", "set_options")
    return isinstance(source, DummyVecEnv) and all(getattr(kind, name) is getattr(DummyVecEnv, name) for name in names)


class FromDummyVecEnv(FromSyncVector):
    """A `DummyVecEnv` as a batch of its sub-environments. Rewards keep their precision; see `FromSyncVector`.

    If the source's own `seed` was called, the next reset without a seed uses these seeds.
    """

    _framework = NAME

    def reset(self, *, seed: Any = None, **rest: Any) -> Reset:
        source: Any = self.source
        if seed is None and any(one is not None for one in source._seeds):
            seed = source._seeds
        source._reset_seeds()
        return super().reset(seed=seed, **rest)
