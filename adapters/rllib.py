"""RLlib, for environments of one agent.

RLlib's default networks train on few kinds of spaces, and silently train wrong on others (a `Discrete` that does not
start at 0 gets invalid actions). So the form that RLlib gets is canonical:

| core | RLlib |
|---|---|
| an image: `Array` of shape (h, w, c), h = w in `IMAGE_SIZES` | `Box` float32 of that shape; integers scaled to 0 … 1 |
| any other observation, nested or not | one flat `Box` float32; integers with few values one-hot |
| `Discrete` action | `Discrete(n)`, from 0 |
| `MultiDiscrete`, `MultiBinary`, narrow integer `Array` actions | one flat `MultiDiscrete`, from 0 |
| floating `Array` actions | one flat `Box` float32 |
| nested actions | one `Box` or `MultiDiscrete` of all leaves where they agree, else a `Tuple` of both |
| `discount` that is not the default | `info["discount"]` |

What is lost: float64 and integers beyond 2²⁴ are narrowed to float32 on their way to the network (reported by
`losses`); RLlib itself ignores discounts, so an episode that goes on after a discount of 0 is bootstrapped by it.

What is refused: `Text`, `Sequence`, `Graph`, `OneOf`, complex arrays, rewards that are not scalars, integer actions
without usable bounds.

Seeds: RLlib gives lane i of worker k the seed s + k + i, so that lanes of different workers collide, and may send
the same seed again for each rollout. Here the seed of an episode follows from RLlib's seed *and* the worker and
whether it evaluates; in training a seed that comes again goes on instead of starting over.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from envoi import Env, SpecError

from .codec import Codec, losses
from .gymnasium import ToGymnasium, from_gymnasium
from .registry import from_env, load

__all__ = ["Codec", "EnvCreator", "RLlibEnv", "from_rllib", "losses", "recognises", "to_rllib"]

RESERVED = ("in_evaluation",)
"""Entries of RLlib's `env_config` that are ours, and not arguments of the environment."""


class RLlibEnv(ToGymnasium):
    """A core environment in RLlib's canonical form: a gymnasium env that an env runner steps.

    Args:
        core: The core environment.
        worker: The index of the env runner.
        in_evaluation: Whether it evaluates; then an equal seed replays, in training it goes on.
        validate: Check every value against its spec.

    Attributes:
        core: The core environment.
        codec: The maps between its values and RLlib's.
    """

    def __init__(self, core: Env, worker: int = 0, in_evaluation: bool = False, validate: bool = False) -> None:
        super().__init__(core, validate)
        self._worker, self._in_evaluation = worker, in_evaluation
        self._last_seed: int | None = None

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        return self.codec.observation_space, self.codec.action_space

    def _plan(self) -> None:
        super()._plan()
        self.codec = Codec(self.core)
        self._encode, self._decode = self.codec.encode, self.codec.decode

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Begins an episode. The core's seed follows from RLlib's, the worker and whether it evaluates."""
        if seed is not None:
            repeated, self._last_seed = seed == self._last_seed, seed
            seed = None if repeated and not self._in_evaluation else self.core_seed(seed)
        return super().reset(seed=seed, options=options)

    def core_seed(self, seed: int) -> int:
        """The seed that the core environment gets for one of RLlib's: 31 bits, so that every framework takes it."""
        words = np.random.SeedSequence([seed, self._worker, int(self._in_evaluation)])
        return int(words.generate_state(1)[0] >> 1)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "codec"}


@dataclass(frozen=True)
class EnvCreator:
    """What Tune registers: makes an environment in RLlib's form on a worker.

    Args:
        env: A name for `envoi.adapters.load`, something callable that makes an environment, or an environment, of
            which each lane gets a copy.
        validate: Check every value against its spec.
        arguments: For `load` or the callable; RLlib's `env_config` goes there too, and wins.
    """

    env: Any
    validate: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, env_context: Mapping[str, Any] | None = None) -> RLlibEnv:
        config = dict(env_context or {})
        in_evaluation = bool(config.get("in_evaluation", False))
        worker = int(getattr(env_context, "worker_index", 0) or 0)
        arguments = {
            **self.arguments,
            **{name: value for name, value in config.items() if name not in RESERVED},
        }
        return RLlibEnv(self._make(arguments), worker, in_evaluation, self.validate)

    def _make(self, arguments: Mapping[str, Any]) -> Env:
        if isinstance(self.env, str):
            return load(self.env, **arguments)
        if callable(self.env):
            return from_env(self.env(**arguments))
        if arguments:
            raise SpecError(f"env_config: expected nothing for a ready-made environment, got {list(arguments)}")
        made = copy.deepcopy(from_env(self.env))
        made.rng = np.random.default_rng()  # until RLlib seeds it, each copy goes its own way
        return made


def recognises(env: object) -> bool:
    """Whether `env` is an environment in RLlib's form."""
    return isinstance(env, RLlibEnv)


def to_rllib(env: Any, *, validate: bool = False, **arguments: Any) -> EnvCreator:
    """Any environment as an env creator for `ray.tune.register_env`.

    Args:
        env: A name for `envoi.adapters.load`, something callable that makes an environment of any framework, or
            an environment, of which each lane gets a copy.
        validate: Check every value against its spec, with an error that names leaf, step and episode.
        **arguments: For `load` or the callable.

    Returns:
        `creator(env_context) -> gymnasium.Env`, with `.core` and `.codec`; it pickles if `env` does.
    """
    return EnvCreator(env, validate, arguments)


def from_rllib(env: gymnasium.Env[Any, Any]) -> Env:
    """An environment that RLlib steps as a core one: RLlib's environments of one agent are gymnasium's."""
    return from_gymnasium(env)
