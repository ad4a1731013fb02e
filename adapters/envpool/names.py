"""Makes pools of envpool's registry by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from envoi import MissingBackend, SpecError, UnknownName
from envoi.errors import nearest
from envoi.seeding import lane_seeds


def load(scheme: str, name: str, n: int | None = None, num_envs: int | None = None, **arguments: Any) -> Any:
    """Makes a pool of envpool's registry.

    Args:
        scheme: `"envpool"`.
        name: The id, such as `"Pong-v5"`.
        n: The number of lanes; None for that of `num_envs`, or 1.
        num_envs: The same, by envpool's name.
        **arguments: Arguments for `envpool.make_gymnasium`, such as `batch_size`, `num_threads` and `seed`.

    Raises:
        UnknownName: There is no such id; the message suggests similar ones.
        SpecError: The environment does not take these arguments.
        MissingBackend: A file or package that the environment needs is not installed.
    """
    if n is not None and num_envs is not None and n != num_envs:
        raise SpecError(f"{scheme}:{name}: expected one number of lanes, got n={n} and num_envs={num_envs}")
    lanes = n if n is not None else 1 if num_envs is None else num_envs
    if isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1:
        raise SpecError(f"n: expected at least 1 lane, got {lanes!r}")
    envpool: Any = import_module("envpool")
    known = envpool.list_all_envs()
    if name not in known:
        near = nearest(f"{scheme}:{name}", (f"{scheme}:{one}" for one in known))
        raise UnknownName(f"{scheme}:{name}: no such environment; {near}")
    if "seed" not in arguments and "env_seed" not in arguments:
        entropy = np.random.SeedSequence().generate_state(1)[0]
        arguments["seed"] = lane_seeds(int(entropy), lanes)
    try:
        return envpool.make_gymnasium(name, num_envs=lanes, **arguments)
    except ImportError as error:
        raise MissingBackend(f"{scheme}:{name}: {error}; pip install 'envoi[envpool]'") from error
    except (AssertionError, TypeError, ValueError, RuntimeError) as error:
        raise SpecError(f"{scheme}:{name}: {error}") from error
