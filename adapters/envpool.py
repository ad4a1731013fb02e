"""Imports the pools of envpool, whose lanes are stepped in C++ threads, as native batches.

    load("envpool:CartPole-v1", n=64)                 all lanes at a time
    load("envpool:Pong-v5", n=64, batch_size=16)      16 of them at a time, see `FromEnvpool.recv`

| envpool, gymnasium's interface | core |
|---|---|
| `observation_space`, `action_space`: those of one lane | specs, by gymnasium's |
| an observation or action in another dtype than its space | in the dtype of the spec |
| reward, float32 | float32, shape (n,) |
| `terminated`, `truncated` | the same, shape (n,) |
| none | discount: 0 if terminated, else 1 |
| a lane that has ended is reset in the following step | `step(actions, restart=over)` |
| `reset(env_id)` | `reset(mask=…)`, of any lanes |
| `step(actions, env_id)` | `step(actions, hold=…)`, if all lanes are stepped at a time |
| `send(actions, env_id)`, `recv()` | `send`, `recv` |
| infos as arrays | infos by lane, without `env_id` and `players`, which are indices of lanes |
| `seed=[…]` of the constructor | `reset(seed=…)`: the pool is made again, with a seed for each lane |

What is lost:

| what | how |
|---|---|
| that an episode terminates in the very step of its time limit | arrives as truncated alone |
| snapshots, copies and pickles of a pool | refused |
| `reset(seed=…)` of some of the lanes | refused |
| reset options | the first ones give a warning |
| pools with several players, and those of dm_env's interface | refused |
| rewarders of `(state, action, next_state)` | get observations, because a pool shows no states |

Without a seed, `load` gives each lane a random one; envpool itself gives each pool the seed 42.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from importlib import import_module
from typing import Any, cast

import gymnasium
import numpy as np
from envpool.python.envpool import EnvPoolMixin  # pyright: ignore[reportMissingImports]
from numpy.typing import ArrayLike, NDArray

from envoi import Array, BatchEnv, Infos, LossyConversion, Reset, SpecError
from envoi.errors import EpisodeError, MissingBackend, SnapshotUnsupported, UnknownName, nearest
from envoi.lane_values import put
from envoi.protocol import batch_env
from envoi.protocol.batch_env import LanesStep, Mask, as_mask, default_discounts
from envoi.protocol.env import ENDED_LANES
from envoi.seeding import batch_streams, lane_seeds
from envoi.spec import SpecTree
from envoi.spec.base import shown
from envoi.tree import children, map_leaves

from .conversion import imported
from .gymnasium.specs import from_space
from .gymnasium_vector.specs import VectorSpaces, read_infos
from .shared.imported import ImportedBatch

__all__ = ["IMPORTER", "FromEnvpool", "from_envpool", "load", "names", "recognises"]

NAME = "envpool"

_INDICES = ("env_id", "players")
"""Entries of infos that are indices of lanes."""


class FromEnvpool(VectorSpaces, ImportedBatch):
    """A pool of envpool as a core batch.

    A pool whose `batch_size` is below its number of lanes is asynchronous: `recv` returns the first `batch_size` lanes
    to finish. `step` then sends all lanes and receives as often as needed.

    Args:
        source: The pool.

    Attributes:
        source: The pool; `reset(seed=…)` replaces it, because a pool takes seeds only when it is constructed.
        count: The number of lanes that `recv` returns.

    Raises:
        SpecError: The pool has dm_env's interface.
        LossyConversion: The pool has several players in a lane.
    """

    _framework = NAME
    has_place = False  # for reset options
    restarts = frozenset({"step", "reset", "live"})
    lanes_can_wait = True

    def __init__(self, source: Any) -> None:
        if not isinstance(source, gymnasium.Env):
            raise SpecError(f"env: expected a pool of gymnasium's interface, by envpool.make_gymnasium, got {source}")
        config = cast("Any", source).config
        if config["max_num_players"] > 1:
            raise LossyConversion("max_num_players", "players", str(config["max_num_players"]), "a core batch")
        self._in_flight: NDArray[np.bool_] = np.zeros(config["num_envs"], bool)
        self._seeds: list[int] | None = None  # for the next reset, if the generator was set
        super().__init__(source, config["num_envs"])
        self.count: int = config["batch_size"] or self.batch_size
        self.lanes_can_wait = self.count == self.batch_size

    def _describe(self) -> None:
        pool = self.source
        self.observation_spec = from_space(pool.observation_space, "observation_space")
        self.action_spec = from_space(pool.action_space, "action_space")
        reward = pool.spec.state_array_spec["reward"]
        self.reward_spec = Array(_lane_shape(reward), reward.dtype, name="reward")
        self.metadata = {key: deepcopy(value) for key, value in pool.metadata.items() if key != "autoreset_mode"}
        self.render_mode = pool.render_mode
        self._sent_specs = {
            key: spec for key, spec in pool.spec.action_array_spec.items() if not key.endswith("env_id")
        }

    def native_lanes_space(self, what: str) -> Any:
        """Returns None, because a pool has no batched space."""
        return None

    # Values.

    def _encoded(self, action: Any, lanes: int, rows: Any = slice(None)) -> dict[str, NDArray[Any]]:
        """Returns the rows `rows` of the actions of `lanes` lanes, as the dict of arrays that the pool takes."""
        found = {".".join(path) or "action": value for path, value in _by_path(self.action_spec, action)}
        values = found if len(self._sent_specs) > 1 else dict(zip(self._sent_specs, found.values(), strict=True))
        result: dict[str, NDArray[Any]] = {}
        for key, spec in self._sent_specs.items():
            shape = (lanes, *_lane_shape(spec))
            array = np.asarray(values[key])
            if array.shape[:1] != (lanes,) or array.size != np.prod(shape):
                raise SpecError(f"action: expected one for each of {lanes} lanes, got {shown(array)}")
            result[key] = np.ascontiguousarray(array.reshape(shape)[rows], spec.dtype)
        return result

    # Episodes.

    def reset(self, *, seed: Any = None, options: Any = None, mask: Mask | None = None) -> Reset:
        n, chosen = self.batch_size, self._lanes_to_reset(mask)
        seeds = lane_seeds(seed, n)
        self._give_options(options)
        given = any(one is not None for one in seeds)
        if given and not chosen.all():
            raise SpecError("seed: expected none for some of the lanes, because envpool seeds all when a pool is made")
        self._drop_what_is_under_way()
        if given or (self._seeds is not None and chosen.all()):
            others = self._seeds or lane_seeds(int(self.streams.context.integers(2**63)), n)
            each = zip(seeds, others, strict=True)
            self._make_again([cast("int", other if one is None else one) for one, other in each])
            self._seeds = None
        self._streams = batch_streams(seed, n) or self._streams
        index = np.flatnonzero(chosen)
        observation, infos = self._observation, [{} for _ in range(n)]
        if len(index):
            self.source._reset(index.astype(np.int32))
            lanes, values = self._received(len(index), is_reset=True)
            observation = _scattered(observation, lanes, values[0], n)
            for lane, info in zip(lanes.tolist(), values[-1], strict=True):
                infos[lane] = info
        self._over, self._observation, self._begun = self._over & ~chosen, observation, True
        return batch_env.make_batch_reset((observation, Infos(infos)))

    def _check_lanes(self, restart: Mask, hold: Mask | None) -> None:
        if np.count_nonzero(live := restart & ~self._over):
            raise EpisodeError(
                f"step: lanes {np.flatnonzero(live).tolist()} of a pool have not ended, and only those that have begin "
                "a new episode within a step; use reset(mask=…) before it"
            )
        self._check("step", self._over & ~restart if hold is None else self._over & ~(restart | hold))

    def _step_source(self, action: Any, restart: Mask, hold: Mask | None) -> tuple[Any, Any, Mask, Mask, Any, Any]:
        n = self.batch_size
        if hold is not None and hold.all():
            rewards = np.zeros((n, *self.reward_spec.shape), self.reward_spec.dtype)
            return self._observation, rewards, ~hold, ~hold, None, Infos([{} for _ in range(n)])
        index = np.arange(n) if hold is None else np.flatnonzero(~hold)
        self.source.send(self._encoded(action, n, index), index.astype(np.int32))
        lanes, (observation, reward, terminated, truncated, infos) = self._received(len(index))
        if hold is not None:
            observation = _scattered(self._observation, lanes, observation, n)
            # The others get zeros.
            reward, terminated, truncated = (_scattered(None, lanes, one, n) for one in (reward, terminated, truncated))
            each = dict(zip(lanes.tolist(), infos, strict=True))
            infos = Infos([each.get(lane, {}) for lane in range(n)])
        return observation, reward, terminated, truncated, None, infos

    def _check(self, call: str, over: Mask) -> None:
        self._check_begun(call)
        if self._in_flight.any():
            lanes = np.flatnonzero(self._in_flight).tolist()
            raise EpisodeError(f"{call}: lanes {lanes} have been sent; receive them first, by recv()")
        if np.count_nonzero(over):
            raise EpisodeError(f"{call}: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")

    def _send(self, action: Any, lanes: NDArray[np.intp]) -> None:
        self.source.send(self._encoded(action, len(lanes)), lanes.astype(np.int32))

    def _received(self, count: int, is_reset: bool = False) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
        """Receives `count` lanes. Returns their sorted indices and their values; a reset has no reward and flags."""
        if self.count < self.batch_size and count % self.count:
            raise SpecError(f"{self!r}: expected a multiple of its batch_size {self.count} as lanes, got {count}")
        parts: list[tuple[Any, ...]] = []
        received = 0
        while received < count:
            parts.append(self.source.recv(reset=is_reset))
            received += len(parts[-1][-1]["env_id"])
        lanes = np.concatenate([part[-1]["env_id"] for part in parts]).astype(np.intp)
        order = np.argsort(lanes)
        seen, *middle, entries = [_joined(each, order) for each in zip(*parts, strict=True)]
        values = [np.array(one, bool) if one.dtype == bool else one for one in middle]
        infos = read_infos({key: value for key, value in entries.items() if key not in _INDICES}, count)
        return lanes[order], (map_leaves(partial(_as_declared, count), self.observation_spec, seen), *values, infos)

    # Some lanes at a time.

    def send(self, action: Any, lanes: ArrayLike, restart: Mask | None = None) -> None:
        """Sends actions to some lanes without waiting for their steps.

        Args:
            action: The actions, with leaves of shape (k, …).
            lanes: The indices of k lanes that are not being stepped already, shape (k,).
            restart: bool of shape (k,), True for the lanes that have ended; these begin a new episode instead.

        Raises:
            EpisodeError: A lane was sent but not yet received, has ended but does not restart, or restarts but has not
                ended.
        """
        self._check_begun("send")
        index = np.asarray(lanes, np.intp)
        begin = np.zeros(len(index), bool) if restart is None else as_mask(restart, len(index), "restart")
        if self._in_flight[index].any() or len(set(index.tolist())) < len(index):
            busy = np.flatnonzero(self._in_flight).tolist()
            raise EpisodeError(f"send: expected lanes that are not under way, as {busy} are, each once; got {lanes!r}")
        if (self._over[index] != begin).any():
            ended = np.flatnonzero(self._over).tolist()
            raise EpisodeError(f"send: expected restart to be True in lanes that have ended, {ended}, and only there")
        self._send(action, index)
        self._in_flight[index] = True

    def recv(self) -> LanesStep:
        """Returns the steps of the first `count` lanes that finish, or of all lanes that were sent if `count` is n.

        Returns:
            `(lanes, step)`: the indices of k lanes, in ascending order, and their steps, with leaves of shape (k, …).

        Raises:
            EpisodeError: Fewer than `count` lanes have been sent.
        """
        sent = int(np.count_nonzero(self._in_flight))
        wanted = self.count if self.count < self.batch_size else sent
        if not 0 < wanted <= sent:
            raise EpisodeError(f"recv: expected at least {max(wanted, 1)} lanes to be under way, got {sent}")
        lanes, (observation, reward, terminated, truncated, infos) = self._received(wanted)
        self._in_flight[lanes] = False
        self._over[lanes] = terminated | truncated
        self._observation = _scattered(self._observation, lanes, observation, self.batch_size)
        discount = default_discounts(self.discount_spec, terminated)
        return LanesStep(
            lanes, batch_env.make_batch_step((observation, reward, terminated, truncated, discount, infos))
        )

    def _drop_what_is_under_way(self) -> None:
        while np.count_nonzero(self._in_flight) >= (self.count if self.count < self.batch_size else 1):
            self.recv()
        if self._in_flight.any():  # fewer than the pool returns
            self._make_again([int(one) for one in self.streams.context.integers(2**31, size=self.batch_size)])

    # Seeds.

    def seeds_of_lanes(self, seed: int) -> list[int]:
        return cast("list[int]", lane_seeds(seed, self.batch_size))

    def _make_again(self, seeds: list[int]) -> None:
        """Replaces the pool by one with other seeds, one for each lane."""
        pool, kind = self.source, type(self.source.spec)
        config = {**pool.config, "seed": 0, "env_seed": [seed % 2**31 for seed in seeds]}
        new = type(pool)(kind(kind.gen_config(*config.values())))
        for name in ("_render_mode", "_render_env_id", "_render_width", "_render_height", "_render_camera_id"):
            if hasattr(pool, name):
                setattr(new, name, getattr(pool, name))
        pool.close()
        self.source = new
        self._in_flight[:] = False

    def _replace_rng(self, generator: np.random.Generator) -> None:
        self._seeds = cast("list[int]", lane_seeds(int(deepcopy(generator).integers(2**63)), self.batch_size))

    # Everything else.

    def render(self) -> Any:
        """Returns a picture of each lane, uint8 of shape (n, height, width, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        return self.source.render(np.arange(self.batch_size))

    def _hold_source(self) -> Any:
        raise SnapshotUnsupported(f"{self!r}: cannot be copied, because its lanes are in C++")

    def __getstate__(self) -> dict[str, Any]:
        raise SnapshotUnsupported(f"{self!r}: cannot be copied, because its lanes are in C++; make another one by name")

    @property
    def unwrapped(self) -> Any:
        return self.source

    def __repr__(self) -> str:
        return f"from_envpool({type(self.source).__name__}, n={self.batch_size})"


def _lane_shape(spec: Any) -> tuple[int, ...]:
    """Returns the shape of one lane's value, without the axis of players that a pool's spec may begin with."""
    shape = tuple(spec.shape)
    return shape[1:] if shape[:1] == (-1,) else shape


def _as_declared(lanes: int, leaf: Any, value: Any) -> NDArray[Any]:
    return np.asarray(value).reshape(lanes, *leaf.shape).astype(leaf.dtype, copy=False)


def _by_path(spec: SpecTree, values: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(spec, dict):
        return [(path, values)]
    return [one for _, key, sub in children(spec) for one in _by_path(sub, values[key], (*path, key))]


def _joined(parts: Sequence[Any], order: NDArray[np.intp]) -> Any:
    """Concatenates the nested arrays of several batches, and sorts their rows by `order`."""
    if len(parts) == 1 and (order[1:] > order[:-1]).all():
        return parts[0]
    return map_leaves(lambda *each: np.concatenate(each)[order], *parts)


def _scattered(before: Any, lanes: NDArray[np.intp], some: Any, n: int) -> Any:
    """Returns the values of all n lanes: `some` in the given lanes, `before` (or zeros) in the others."""
    if len(lanes) == n:
        return some
    if before is None:
        before = map_leaves(lambda leaf: np.zeros((n, *leaf.shape[1:]), leaf.dtype), some)
    return put(before, lanes, some)


IMPORTER = FromEnvpool


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, EnvPoolMixin)


def from_envpool(env: Any) -> BatchEnv:
    """Imports a pool of envpool.

    Args:
        env: The pool, made by `envpool.make_gymnasium`.

    Returns:
        A core batch with `.source`, which is replaced by `reset(seed=…)`.

    Raises:
        SpecError: The environment belongs to another framework, or has dm_env's interface.
        LossyConversion: The pool has several players in a lane.
    """
    return imported(env, NAME, FromEnvpool, FromEnvpool)


def load(scheme: str, name: str, n: int | None = None, num_envs: int | None = None, **arguments: Any) -> Any:
    """Makes a pool of envpool's registry.

    Args:
        scheme: `"envpool"`.
        name: The id, such as `"Pong-v5"`.
        n: The number of lanes; None for `num_envs`, or 1 without that.
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


def names(scheme: str) -> list[str]:
    """Returns the ids in envpool's registry.

    Args:
        scheme: `"envpool"`.
    """
    del scheme
    envpool: Any = import_module("envpool")
    return sorted(envpool.list_all_envs())
