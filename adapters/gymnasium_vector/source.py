"""Imports vector environments of gymnasium whose lanes can only be stepped together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeGuard, cast

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from envoi import EpisodeError, Infos, LossyConversion, Reset, SnapshotUnsupported, SpecError
from envoi.lane_values import lane, put_lanes, stack
from envoi.protocol.batch_env import Mask, make_batch_reset
from envoi.protocol.env import ENDED_LANES
from envoi.seeding import batch_streams, check_seed, lane_seeds
from envoi.spec import zeros

from ..gymnasium import from_gymnasium
from ..gymnasium.source import NATIVE_REWARD, bare, layers_and_spaces, replay_seeds
from ..gymnasium.specs import from_space
from ..shared.arrival import Copy, fresh, incoming, is_number
from ..shared.imported import ImportedBatch, ImportedLanes
from .specs import NAME, VectorSpaces, batched_encoder, batched_space, batched_spec, read_infos


class FromGymnasiumVector(VectorSpaces, ImportedBatch):
    """A vector environment as a core batch, whose lanes can only be stepped together.

    Its lanes are reset only as its own auto-reset mode permits:

    | source | `step(actions, restart=…)` | `reset(mask=…)` |
    |---|---|---|
    | `NEXT_STEP` | the lanes that have ended, no more and no fewer | all lanes, or any if it takes masks |
    | `SAME_STEP` | no lane: all act | the lanes that have ended, or any if it takes masks |
    | `DISABLED` | no lane: all act | any |

    A source in mode `SAME_STEP` reports the end of an episode when it has already begun the next one. The import's step
    returns the end and keeps the new first observation, which `reset(mask=over)` then returns. It is kept only until
    the next step, because the source steps all lanes together.

    Args:
        source: The vector environment, possibly wrapped.
        copy: Which observations to copy, see `from_gymnasium_vector`.

    Attributes:
        mode: The auto-reset mode of the source.
        restarts: The ways in which its lanes can be reset, see `BatchEnv`.

    Raises:
        LossyConversion: A `Sequence` space stacks elements that are not arrays, or the lanes have different spaces.
    """

    _framework = NAME
    _planned = ("_incoming", "_incoming_one", "_encode")
    _memory = ("_kept", "_beginning")

    def __init__(self, source: VectorEnv[Any, Any, Any], copy: Copy = "auto") -> None:
        none = np.zeros(source.num_envs, bool)
        self._kept: Mask = none  # lanes of which the source has begun the next episode already
        self._beginning: Reset | None = None  # the beginnings of those episodes
        super().__init__(source, source.num_envs, copy)

    def _describe(self) -> None:
        source, base = self.source, self.unwrapped
        self.mode = mode_of(source)
        self.observation_spec = from_space(source.single_observation_space, "single_observation_space")
        self.action_spec = from_space(source.single_action_space, "single_action_space")
        # gymnasium's own classes permit different spaces per lane, with `observation_mode="different"`.
        if getattr(base, "observation_mode", "same") != "same" and source.observation_space != batched_space(
            source.single_observation_space, source.num_envs
        ):
            raise different("observation_space", source.observation_space)
        # MO-gymnasium's convention for rewards that are not one number.
        rewards = getattr(base, "reward_space", None)
        self.reward_spec = NATIVE_REWARD if rewards is None else from_space(rewards, "reward_space")
        self._form = self.form_inside
        if self._form is not None:
            self.reward_spec, self.discount_spec = self._form.core.reward_spec, self._form.core.discount_spec
        # A worker of gymnasium's that shares no memory resets an ended lane again in the step after its reset.
        self._resets_again = (
            isinstance(base, AsyncVectorEnv) and not base.shared_memory and self.mode is AutoresetMode.NEXT_STEP
        )
        self._takes_seeds = self._form is not None or isinstance(base, (SyncVectorEnv, AsyncVectorEnv))
        masks = (self._takes_seeds and not self._resets_again) or self.mode is AutoresetMode.DISABLED
        first = "step" if self.mode is AutoresetMode.NEXT_STEP else "reset"
        self.restarts = frozenset({first, "reset", "live"} if masks else {first})
        self.metadata = metadata_of(source)
        self.render_mode = source.render_mode

    def _plan(self) -> None:
        self._incoming = incoming(batched_spec(self.observation_spec, self.batch_size), self._copy)
        self._incoming_one = incoming(self.observation_spec, self._copy)
        self._encode = batched_encoder(self.action_spec, "action")

    def reset(self, *, seed: Any = None, options: Any = None, mask: Mask | None = None) -> Reset:
        n, chosen = self.batch_size, self._lanes_to_reset(mask)
        given = self._seed(seed)
        streams = batch_streams(seed, n) or self._streams
        # A reset without a seed and options returns the episode that the source has begun already.
        served = chosen & self._kept if given is None and not options else np.zeros(n, bool)
        rest = chosen & ~served
        wanted = None if options is None else fresh(options)
        if rest.all() or (chosen.all() and "live" not in self.restarts and rest.any()):
            observation, infos = self._reset_source(given, wanted)
        else:
            observation, infos = self._observation, [{} for _ in range(n)]
            if rest.any():
                if "live" not in self.restarts:
                    raise EpisodeError(
                        f"reset: lanes {np.flatnonzero(rest).tolist()} of {self.source}, in mode {self.mode.name}, "
                        "cannot be reset by themselves; reset all lanes, without a mask"
                    )
                begun, begun_infos = self._reset_source(given, {**(wanted or {}), "reset_mask": rest.copy()})
                observation, infos = self._put(observation, infos, rest, begun, begun_infos)
            if served.any() and self._beginning is not None:
                observation, infos = self._put(observation, infos, served, *self._beginning)
        self._over, self._kept = self._over & ~chosen, self._kept & ~chosen
        self._observation, self._streams, self._begun = observation, streams, True
        return make_batch_reset((observation, infos if isinstance(infos, Infos) else Infos(infos)))

    def _reset_source(self, seed: Any, options: dict[str, Any] | None) -> tuple[Any, Infos]:
        if self._resets_again and self._over.any():
            self.source.step(self._sent(stack(self.action_spec, [zeros(self.action_spec)] * self.batch_size)))
        if seed is not None:
            replay_seeds(self.unwrapped)
        observation, entries = self.source.reset(seed=seed, options=options)
        return self._incoming(observation), self._read(entries)

    def _put(self, observation: Any, infos: Any, lanes: Mask, new: Any, new_infos: Any) -> tuple[Any, Any]:
        """Replaces the observations and infos of some lanes by new ones."""
        index = np.flatnonzero(lanes)
        some = [lane(self.observation_spec, new, i) for i in index.tolist()]
        infos = [new_infos[i] if chosen else info for i, (info, chosen) in enumerate(zip(infos, lanes, strict=True))]
        return put_lanes(self.observation_spec, observation, index, some), infos

    def _seed(self, seed: Any) -> Any:
        """Returns a seed that the source accepts: one per lane only if the source supports it, else a single one."""
        if not isinstance(seed, (Sequence, np.ndarray)):
            return check_seed(seed)
        seeds = lane_seeds(cast("Any", seed), self.batch_size)
        if all(one is None for one in seeds):
            return None
        if self._takes_seeds:
            return seeds
        words = [0 if one is None else one for one in seeds]
        return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)

    def _step_source(self, action: Any, restart: Mask, hold: Mask | None) -> tuple[Any, Any, Mask, Mask, Any, Any]:
        observation, reward, terminated, truncated, entries = self._step_vector(self._sent(action))
        observation = self._incoming(observation)
        reward = self._rewards(reward)
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        over, infos = terminated | truncated, self._read(entries)
        self._kept, self._beginning = np.zeros(self.batch_size, bool), None
        if self.mode is AutoresetMode.SAME_STEP and np.count_nonzero(over):
            observation, infos = self._end(observation, infos, entries, over)
        discount = None
        if "discount" in entries or "discount" in entries.get("final_info", ()):
            discount, infos = self._discounts(infos, terminated)
        return observation, reward, terminated, truncated, discount, infos

    def _step_vector(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps the source and returns its five values."""
        return self.source.step(action)

    def _check_lanes(self, restart: Mask, hold: Mask | None) -> None:
        if self.mode is AutoresetMode.NEXT_STEP:
            ended, live = self._over & ~restart, restart & ~self._over
            if np.count_nonzero(live):
                raise EpisodeError(
                    f"step: lanes {np.flatnonzero(live).tolist()} of {self.source} cannot be reset, because they have "
                    "not ended; it resets only lanes that have, in the following step"
                )
        else:
            ended = self._over
            if np.count_nonzero(restart):
                raise EpisodeError(
                    f"step: {self.source}, in mode {self.mode.name}, resets no lane while others act; "
                    "use reset(mask=…) before the step"
                )
        if np.count_nonzero(ended):
            raise EpisodeError(f"step: in lanes {np.flatnonzero(ended).tolist()}, {ENDED_LANES}")

    def _sent(self, action: Any) -> Any:
        return action if self._encode is None else self._encode(action)

    def _rewards(self, reward: Any) -> Any:
        return reward if isinstance(reward, dict) else np.array(reward)

    def _read(self, said: Mapping[Any, Any]) -> Infos:
        if not said:
            return Infos(columns={}, n=self.batch_size)
        if self._form is not None:
            return read_infos(said, self.batch_size, self._form.returned_infos(), self._form.infos)
        return read_infos(said, self.batch_size)

    def _end(self, observation: Any, infos: Infos, entries: Mapping[Any, Any], over: Mask) -> tuple[Any, Infos]:
        """Returns the final observations and infos of lanes that ended; keeps the first ones of their new episodes."""
        n, index = self.batch_size, np.flatnonzero(over)
        if "final_obs" not in entries:
            raise SpecError(f"step: expected info['final_obs'] of a source in mode SAME_STEP, got {list(entries)}")
        mine = [{key: v for key, v in info.items() if key not in ("final_obs", "final_info")} for info in infos]
        self._kept, self._beginning = over.copy(), make_batch_reset((observation, Infos(mine)))
        final_info = entries.get("final_info", {})
        if isinstance(final_info, dict):
            form = self._form
            last = () if form is None else (form.returned_infos().get("final_info"), form.last.info)
            final_infos: Any = read_infos(final_info, n, *last)
        else:
            final_infos = final_info
        finals = [self._incoming_one(entries["final_obs"][i], held=True) for i in index.tolist()]
        merged = put_lanes(self.observation_spec, observation, index, finals)
        ended = [dict(final_infos[i] or {}) if over[i] else info for i, info in enumerate(mine)]
        return merged, Infos(ended)

    def _discounts(self, infos: Infos, terminated: Mask) -> tuple[Any, Infos]:
        """Reads the discounts from the infos; returns the discounts, and the infos without them."""
        lanes = [dict(info) for info in infos]
        discounts = [
            info.pop("discount") if "discount" in info and is_number(info["discount"]) else 0.0 if ended else 1.0
            for info, ended in zip(lanes, terminated, strict=True)
        ]
        return stack(self.discount_spec, discounts), Infos(lanes)

    @property
    def state(self) -> Any:
        """The state of the core batch inside, or the observation if there is none."""
        if self._form is None or self.mode is AutoresetMode.SAME_STEP:  # there it is already the next episode's
            return self.observation
        return self._form.core.state

    def _source_rng(self) -> np.random.Generator | None:
        generator = self.unwrapped.np_random
        return generator if isinstance(generator, np.random.Generator) else None  # not a tuple of one for each lane

    def _replace_rng(self, generator: np.random.Generator) -> None:
        base = self.unwrapped
        if self._source_rng() is not None:
            base.np_random = generator
        else:
            seeds = lane_seeds(int(deepcopy(generator).integers(2**63)), self.batch_size)
            base.set_attr("np_random", [np.random.default_rng(seed) for seed in seeds])

    def _hold_source(self) -> Any:
        self._check_copies()
        return super()._hold_source()

    def _check_copies(self) -> None:
        # A copy of a pipe closes the pipe when it is deleted.
        if isinstance(self.unwrapped, AsyncVectorEnv):
            raise SnapshotUnsupported(f"{self.source}: cannot be copied, because its lanes are in other processes")

    def _parts(self) -> list[Any]:
        names = ("observation_space", "action_space", "single_observation_space", "single_action_space")
        return layers_and_spaces(self.source, *names)

    @property
    def unwrapped(self) -> Any:
        return bare(self.source)

    def __getstate__(self) -> dict[str, Any]:
        self._check_copies()
        return super().__getstate__()


def mode_of(source: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Returns the auto-reset mode of a vector environment."""
    # gymnasium's own classes write the mode into metadata that all environments of a class share.
    own = getattr(bare(source), "autoreset_mode", None)
    metadata = source.metadata or {}
    return AutoresetMode(metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP) if own is None else own)


def loops_only(source: VectorEnv[Any, Any, Any]) -> TypeGuard[SyncVectorEnv]:
    """Returns True if a vector environment is only a loop over sub-environments that can be accessed."""
    kind = type(source)
    return (
        isinstance(source, SyncVectorEnv)
        and kind.step is SyncVectorEnv.step  # pyright: ignore[reportUnknownMemberType]
        and kind.reset is SyncVectorEnv.reset  # pyright: ignore[reportUnknownMemberType]
    )


def metadata_of(source: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    """Returns a copy of a vector environment's metadata, without the auto-reset mode, which core batches lack."""
    return {key: deepcopy(value) for key, value in (source.metadata or {}).items() if key != "autoreset_mode"}


class FromSyncVector(VectorSpaces, ImportedLanes):
    """A `SyncVectorEnv` as a batch of its sub-environments. Infos keep their types, and every mode is supported.

    Seeds lanes as the source does: one seed s for all gives lane i the seed s + i.

    Args:
        source: The vector environment.
        copy: Which observations to copy, see `from_gymnasium_vector`.

    Attributes:
        mode: The auto-reset mode of the source.

    Raises:
        LossyConversion: The lanes have different spaces, or different reward specs.
    """

    _framework = NAME

    def __init__(self, source: SyncVectorEnv, copy: Copy = "auto") -> None:
        try:
            super().__init__(source, [from_gymnasium(env, copy=copy) for env in source.envs])
        except SpecError as error:
            raise LossyConversion("envs", "spec", str(error), "a core batch") from error
        self.mode = mode_of(source)
        self.metadata = metadata_of(source)

    def reset(self, *, seed: Any = None, options: Any = None, mask: Mask | None = None) -> Reset:
        if seed is not None and not isinstance(seed, (Sequence, np.ndarray)):
            seed = self.seeds_of_lanes(cast("int", check_seed(seed)))
        return super().reset(seed=cast("Any", seed), options=options, mask=mask)

    def seeds_of_lanes(self, seed: int) -> list[int]:
        return list(range(seed, seed + self.batch_size))

    @property
    def unwrapped(self) -> SyncVectorEnv:
        return self.source


def different(path: str, spec: Any) -> LossyConversion:
    """Returns the error for lanes with different spaces."""
    return LossyConversion(path, "spec", repr(spec), "a core batch", "give all lanes the same space")
