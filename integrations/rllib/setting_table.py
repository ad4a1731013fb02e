"""The table of RLlib's settings: the arguments of the methods of each `AlgorithmConfig`, with their kinds and defaults.

A typo in a setting must not cost the seconds that importing Ray takes, so the table is a file beside this module.
`python -m envoi.integrations.rllib.setting_table` writes it again from the installed Ray; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .algorithms import ALGORITHMS

FILE = Path(__file__).with_name("setting_table.json")
MODEL = "model."
"""Prefix of the settings of the default networks: the fields of RLlib's `DefaultModelConfig`."""
SHARED = "all"
"""Key of the settings that all algorithms have with the same default."""


KINDS = ("bool", "int", "float", "str", "list", "dict", "null")
"""The kinds of value that a setting can take."""


@dataclass(frozen=True)
class Setting:
    """A setting of RLlib that a plain value can be given for.

    Args:
        name: The argument's name, such as `clip_param`; `model.` and a field for the default networks.
        method: The method of `AlgorithmConfig` that takes it.
        kinds: The kinds of value that it takes, of `KINDS`.
        default: RLlib's default; None also where RLlib has none.
    """

    name: str
    method: str
    kinds: tuple[str, ...]
    default: Any = None


@cache
def table() -> Mapping[str, Mapping[str, Setting]]:
    """Returns the settings of each algorithm by name, in the order of RLlib's methods."""
    stored: dict[str, dict[str, list[Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
    shared = stored.pop(SHARED)
    return {
        algorithm: {
            name: Setting(name, method, tuple(kinds.split("|")), default)
            for name, (method, kinds, default) in (shared | own).items()
        }
        for algorithm, own in stored.items()
    }


def settings_of(algo: str) -> Mapping[str, Setting]:
    """Returns the settings of an algorithm by name; of one that the table lacks, those that all algorithms share."""
    known = table()
    if algo in known:
        return known[algo]
    common = set.intersection(*(set(settings) for settings in known.values()))
    return {name: setting for name, setting in next(iter(known.values())).items() if name in common}


def generate() -> dict[str, dict[str, list[Any]]]:
    """Returns the contents of the table's file, read from the installed Ray."""
    from importlib import import_module

    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.algorithms.registry import ALGORITHMS as REGISTERED

    found: dict[str, dict[str, _Row]] = {}
    for name in sorted({*REGISTERED, *ALGORITHMS} - {"DreamerV3"}):  # that one cannot be imported without Pillow
        algorithm = getattr(import_module(f"ray.rllib.algorithms.{name.lower()}"), name)
        found[name] = _config_settings(algorithm.get_default_config()) | _model_settings()
    # A setting takes what it takes in any algorithm, as some annotations are narrower than the code.
    kinds: dict[str, set[str]] = {}
    for rows in (_config_settings(AlgorithmConfig()), *found.values()):
        for name, row in rows.items():
            kinds.setdefault(name, set()).update(row.kinds)
    written = {
        algorithm: {
            name: [row.method, "|".join(kind for kind in KINDS if kind in kinds[name]), row.default]
            for name, row in rows.items()
            if kinds[name] - {"null"}
        }
        for algorithm, rows in found.items()
    }
    first, *others = written.values()
    shared = {name: row for name, row in first.items() if all(other.get(name) == row for other in others)}
    own = {
        algorithm: {name: row for name, row in rows.items() if name not in shared}
        for algorithm, rows in written.items()
    }
    return {SHARED: shared, **own}


class _Row(NamedTuple):
    method: str
    kinds: frozenset[str]
    default: Any


_EXCLUDED_METHODS = frozenset({"api_stack", "callbacks", "experimental", "framework", "python_environment"})
_EXCLUDED = frozenset(
    {
        "model", "q_model_config", "policy_model_config", "num_gpus", "exploration_config", "lr_schedule",
        "entropy_coeff_schedule", "local_tf_session_args", "enable_tf1_exec_eagerly", "preprocessor_pref",
        "observation_filter", "compress_observations", "remote_worker_envs", "remote_env_batch_wait_ms",
        "sampler_perf_stats_ema_coef", "use_worker_filter_stats", "update_worker_filter_stats", "fake_sampler",
        "num_multi_gpu_tower_stacks", "num_gpu_loader_threads", "simple_optimizer",
        "keep_per_episode_custom_metrics", "policy_map_capacity", "policy_states_are_swappable", "env",
        "policies", "model_config", "is_atari"
    }
)  # fmt: skip
"""Settings that options of envoi's own set, and those of RLlib's old stack, which the new one ignores or refuses."""


def _config_settings(config: Any) -> dict[str, _Row]:
    import inspect

    from ray.rllib.utils.from_config import NotProvided

    values, rows = vars(config), dict[str, _Row]()
    for owner in reversed(type(config).__mro__):
        for method, function in vars(owner).items():
            if not inspect.isfunction(function) or method.startswith("_") or method in _EXCLUDED_METHODS:
                continue
            parameters = inspect.signature(function).parameters
            names = [name for name, parameter in parameters.items() if parameter.default is NotProvided]
            hints = _hints(function) if names else {}
            for name in names:
                if name.startswith("_") or name in _EXCLUDED:
                    continue
                default = values.get(name, values.get(f"_{name}"))
                before = rows[name].method if name in rows else method
                rows[name] = _Row(before, _kinds(hints.get(name, Any), default), _plain(default))
    return rows


def _model_settings() -> dict[str, _Row]:
    from dataclasses import fields
    from typing import get_type_hints

    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    hints, default = get_type_hints(DefaultModelConfig), DefaultModelConfig()
    values = {field.name: getattr(default, field.name) for field in fields(DefaultModelConfig)}
    return {
        f"{MODEL}{name}": _Row("rl_module", _kinds(hints[name], value), _plain(value)) for name, value in values.items()
    }


class _Names(dict[str, Any]):
    """The names that a function's annotations use; those that only type checkers import are `Any`."""

    def __missing__(self, name: str) -> Any:
        import builtins
        import typing

        return getattr(builtins, name, getattr(typing, name, Any))


def _hints(function: Any) -> dict[str, Any]:
    import sys
    from typing import get_type_hints

    return get_type_hints(function, localns=_Names(vars(sys.modules[function.__module__])))


def _kinds(hint: Any, default: Any) -> frozenset[str]:
    """Returns the kinds of plain value that an annotation allows, and that of the default."""
    from types import UnionType
    from typing import Literal, Union, get_args, get_origin

    kind_of = {bool: "bool", int: "int", float: "float", str: "str", list: "list", tuple: "list", dict: "dict"}
    pending, found = [hint], {kind_of[type(default)]} if type(default) in kind_of else set[str]()
    while pending:
        one = pending.pop()
        origin = get_origin(one)
        if origin in (Union, UnionType):
            pending += get_args(one)
        elif origin is Literal:
            found |= {kind_of[type(value)] for value in get_args(one)}
        elif (origin or one) in kind_of:
            found.add(kind_of[origin or one])
    # `Optional` marks an argument that may be left out, so null is a value only where it is RLlib's default.
    return frozenset(found | {"null"} if default is None else found)


def _plain(value: Any) -> Any:
    """Returns a value as JSON holds it; None for one that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else None


def main() -> None:
    """Writes the table's file."""
    from envoi.atomic_write import write_atomically

    contents = generate()
    blocks = [
        f" {json.dumps(algorithm)}: {{\n"
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        + "\n }"
        for algorithm, rows in contents.items()
    ]
    write_atomically(FILE, "{\n" + ",\n".join(blocks) + "\n}\n")


if __name__ == "__main__":
    main()
