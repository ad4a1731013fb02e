"""RLlib, for environments of one agent, of several, and for batches.

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
| an environment of one agent | `RLlibEnv`, a gymnasium env |
| a `MultiEnv` | `RLlibMultiEnv`, a `MultiAgentEnv` (see `envoi.adapters.rllib_multi`) |
| a batch, or n lanes for `gym_env_vectorize_mode="vector_entry_point"` | `RLlibVectorEnv`, a gymnasium `VectorEnv` |

With `canonical=False` the spaces are gymnasium's, as `envoi.adapters.gymnasium` has them, and nothing is narrowed.

What is lost:

| what | field | how |
|---|---|---|
| `Text`, `Sequence`, `Graph`, `OneOf` leaves, complex arrays | type | refused |
| leaves that only another framework knows | type | refused |
| observations or actions of no numbers at all | size | refused |
| integer `Array` actions without bounds, or of more than `MAX_INTEGERS` values | bounds | refused |
| rewards that are not one number | shape | refused |
| float64 observations and actions | precision | narrowed |
| integer observations beyond 2²⁴ that are not one-hot | precision | narrowed |

RLlib itself ignores discounts: an episode that goes on after a discount of 0 is bootstrapped by it.

Seeds: RLlib gives lane i of worker k the seed s + k + i, so that lanes of different workers collide, and may send
the same seed again for each rollout. Here the seed of an episode follows from RLlib's seed *and* the worker and
whether it evaluates; in training a seed that comes again goes on instead of starting over.

Contexts: lane i of worker k, of n lanes each, is lane k · n + i of all (`Process.assign_lane`), so that what goes round
over a set of contexts begins at another one in each.

What RLlib tells a creator and what it keeps to itself:

| mode | a creator knows | `bind_worker` knows |
|---|---|---|
| `sync` | the worker; lanes are counted as they are made | worker, lanes, whether RLlib evaluates |
| `async` | the worker | the same |
| `vector_entry_point` | none of these | the same |

`bind_worker` is a callback, which `envoi.integrations.rllib.configure` sets; with a config of your own write
`config.callbacks(on_environment_created=bind_worker)`. Without it an evaluation is known by `env_config` alone
(`{"in_evaluation": True}`), and does not replay otherwise. RLlib sends a seed only where `config.debugging(seed=…)`
says one, and sends it again only for evaluations that are counted in episodes (its default), which alone replay.

A step calls the core's step; spaces, codecs, who sees a mask and which discounts can be unusual are decided when the
form is made.
"""

from __future__ import annotations

import copy
import sys
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv
from numpy.typing import NDArray

from envoi import BatchEnv, ContextError, Discrete, Env, LossyConversion, MultiEnv, Reset, SpecError, Step, batch
from envoi.protocol.env import full_step
from envoi.protocol.multi_env import MASK
from envoi.seeding import check_seed
from envoi.spec import SpecTree

from .codec import Codec, losses
from .discounts import is_default_discount
from .form import AnyForm
from .gymnasium import ToGymnasium, from_gymnasium
from .losses import warn_narrowed
from .registry import from_env, load
from .spaces import like_source

if TYPE_CHECKING:
    from .rllib_batch import RLlibVectorEnv
    from .rllib_multi import RLlibMultiEnv

__all__ = [
    "Codec",
    "EnvCreator",
    "RLlibEnv",
    "WorkerSeeds",
    "bind_worker",
    "from_rllib",
    "losses",
    "recognises",
    "to_rllib",
]

NAME = "rllib"

RESERVED = ("in_evaluation", "num_envs")
"""Entries of RLlib's `env_config` that are ours or RLlib's, and not arguments of the environment."""

OBSERVATIONS = "observations"
"""The key of the observation beside its mask, as RLlib's `ActionMaskingRLModule` expects it."""


class WorkerSeeds:
    """The seeds that core environments get for those of RLlib.

    Args:
        worker: The index of the env runner.
        in_evaluation: Whether it evaluates; then an equal seed replays, in training it goes on.
    """

    def __init__(self, worker: int = 0, in_evaluation: bool = False) -> None:
        self.worker, self.in_evaluation = worker, in_evaluation
        self._last: int | None = None

    def at_reset(self, seed: int) -> int | None:
        """The core's seed for a reset with `seed`; None where the same seed comes again and training goes on."""
        core_seed = self.core_seed(seed)
        repeated, self._last = seed == self._last, seed
        return None if repeated and not self.in_evaluation else core_seed

    def core_seed(self, seed: int) -> int:
        """The seed that the core environment gets for one of RLlib's: 31 bits, so that every framework takes it."""
        words = np.random.SeedSequence([cast("int", check_seed(seed)), self.worker, int(self.in_evaluation)])
        return int(words.generate_state(1)[0] >> 1)

    def forget(self) -> None:
        """Lets the next seed be a new one, whatever it is."""
        self._last = None


@dataclass(frozen=True)
class Place:
    """Where RLlib steps an environment.

    Args:
        worker: The index of the env runner.
        lane: Which of the lanes of all workers it is; of a batch the first.
        in_evaluation: Whether the env runner evaluates.
    """

    worker: int = 0
    lane: int = 0
    in_evaluation: bool = False


class RLlibForm(AnyForm):
    """Base of RLlib's forms: RLlib says only after they were made where it steps them.

    Attributes:
        seeds: What becomes of RLlib's seeds.
        last: The latest reset or step of the core; None before the first.
    """

    seeds: WorkerSeeds
    last: Any

    _lane: int = 0

    def forget_seeds(self) -> None:
        """Lets the next seed replay, also one that comes again: for who resets the form in RLlib's place."""
        self.seeds.forget()

    @property
    def place(self) -> Place:
        """Where RLlib steps the form; settable, also by `set_attr` of gymnasium's vector environments."""
        return Place(self.seeds.worker, self._lane, self.seeds.in_evaluation)

    @place.setter
    def place(self, place: Place) -> None:
        self._lane = place.lane
        self.seeds.worker, self.seeds.in_evaluation = place.worker, place.in_evaluation
        self.assign_lane(place.lane)


class Masks:
    """Observations with the mask of the actions beside them: `{"action_mask", "observations"}`.

    Args:
        spec: The action spec.
        path: How messages name it.

    Attributes:
        size: How many actions a mask speaks of.

    Raises:
        LossyConversion: The actions are not one `Discrete`, which a mask could speak of.
    """

    def __init__(self, spec: SpecTree, path: str = "action") -> None:
        if not isinstance(spec, Discrete):
            raise LossyConversion(path, "mask", repr(spec), NAME, "leave action_masks=False; masks are for Discrete")
        self.size = spec.n

    def space(self, observations: spaces.Space[Any]) -> spaces.Dict:
        """The space of an observation with its mask."""
        mask = spaces.Box(0.0, 1.0, (self.size,), np.float32)
        return spaces.Dict(cast("Any", OrderedDict([(MASK, mask), (OBSERVATIONS, observations)])))

    def beside(self, observation: Any, info: Mapping[Any, Any]) -> dict[str, Any]:
        """An observation with the mask that its info holds; without one all actions are legal."""
        return {MASK: self._of(info), OBSERVATIONS: observation}

    def beside_all(self, observations: Any, infos: Any) -> dict[str, Any]:
        """The same for the lanes of a batch."""
        return {MASK: np.stack([self._of(info) for info in infos]), OBSERVATIONS: observations}

    def _of(self, info: Mapping[Any, Any]) -> NDArray[np.float32]:
        mask = info.get(MASK)
        return np.ones(self.size, np.float32) if mask is None else np.array(mask, np.float32)


class RLlibEnv(RLlibForm, ToGymnasium):
    """A core environment in RLlib's canonical form: a gymnasium env that an env runner steps.

    Args:
        core: The core environment.
        worker: The index of the env runner.
        in_evaluation: Whether it evaluates; then an equal seed replays, in training it goes on.
        validate: Check every value against its spec.
        canonical: Give spaces that RLlib's networks train on; otherwise gymnasium's.
        action_masks: Put each observation beside the mask of its actions.

    Attributes:
        core: The core environment.
        codec: The maps between its values and RLlib's; None where the form is not canonical.
        seeds: What becomes of RLlib's seeds.
    """

    codec: Codec | None
    spec: Any = None  # which gymnasium's `make` may set; the core's would make a form with other spaces
    _last: Any = None  # a `Reset`, or what `raw_step` gave

    def __init__(
        self,
        core: Env,
        worker: int = 0,
        in_evaluation: bool = False,
        validate: bool = False,
        canonical: bool = True,
        action_masks: bool = False,
    ) -> None:
        self._canonical, self._action_masks = canonical, action_masks
        super().__init__(core, validate)
        self.seeds = WorkerSeeds(worker, in_evaluation)

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        if self.codec is None:
            seen, done = super()._spaces()
        else:
            seen = like_source(self.codec.observation_space, self.core, "observation")
            done = like_source(self.codec.action_space, self.core, "action")
        return (seen if self._masks is None else self._masks.space(seen)), done

    def _plan(self) -> None:
        super()._plan()
        self.codec = None
        if self._canonical:
            self.codec = Codec(self.core)
            self._encode, self._decode = self.codec.encode, self.codec.decode
        self._masks = Masks(self.core.action_spec) if self._action_masks else None

    @classmethod
    def _opens(cls, core: Any) -> bool:
        return True

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        """This form, of which RLlib reads the spaces. It has the public attributes of what lies inside."""
        return self

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Begins an episode. The core's seed follows from RLlib's, the worker and whether it evaluates."""
        if seed is not None:
            seed = self.seeds.at_reset(seed)
        self._last = begun = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        observation, info = begun
        if self._encode is not None:
            observation = self._encode(observation)
        return (observation if self._masks is None else self._masks.beside(observation, info)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
        """Acts once; see `gymnasium.Env.step`."""
        if self._decode is not None:
            action = self._decode(action)
        self._last = step = self._step(action)
        observation, reward, terminated, truncated, discount, info = step
        if self._encode is not None:
            observation = self._encode(observation)
        if self._masks is not None:
            observation = self._masks.beside(observation, info)
        if discount is not None and not is_default_discount(discount, terminated):
            info = {**info, "discount": discount}
        return observation, reward, terminated, truncated, info

    @property
    def last(self) -> Reset | Step | None:
        """What the core's last reset or step gave; None before."""
        last = self._last
        return last if last is None or isinstance(last, Reset) else full_step(last)

    def content(self) -> Any:
        """What a snapshot of an environment that this form is a part of holds of it."""
        return super().content(), self._last, copy.deepcopy(self.seeds)

    def put_back(self, held: Any) -> None:
        """Puts back what `content` gave."""
        snapshot, self._last, seeds = held
        super().put_back(snapshot)
        self.seeds = copy.deepcopy(seeds)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in ("codec", "_masks")}

    def __repr__(self) -> str:
        return f"to_rllib({self.core!r})"

    __str__ = __repr__


class _Made:
    """Record of what a creator has done in this process. A copy, here or in another process, knows nothing of it.

    Attributes:
        warned: Whether it has warned of what is narrowed.
    """

    def __init__(self) -> None:
        self.warned = False
        self._context: Any = None
        self._forms: list[weakref.ref[RLlibForm]] = []

    def place(self, form: RLlibForm, context: Any) -> None:
        """Numbers the forms that RLlib asks for one by one, by one context, before it resets the first of them."""
        before = [made for ref in self._forms if (made := ref()) is not None]
        if context is not self._context or any(made.last is not None for made in before):
            before = []
        lanes = [*before, form]
        self._context, self._forms = context, [weakref.ref(made) for made in lanes]
        for index, made in enumerate(lanes):
            worker, in_evaluation = made.seeds.worker, made.seeds.in_evaluation
            made.place = Place(worker, worker * len(lanes) + index, in_evaluation)

    def __reduce__(self) -> tuple[type[_Made], tuple[()]]:
        return _Made, ()


@dataclass(frozen=True)
class EnvCreator:
    """What Tune registers: makes an environment in RLlib's form on a worker.

    Args:
        env: A name for `envoi.adapters.load`, something callable that makes an environment, or an environment, of
            which each lane gets a copy.
        validate: Check every value against its spec.
        arguments: For `load` or the callable; RLlib's `env_config` goes there too, and wins.
        canonical: Give spaces that RLlib's networks train on; otherwise gymnasium's.
        action_masks: Put each observation beside the mask of its actions.
        num_envs: Make a batch of so many lanes, also where RLlib does not ask for one.
    """

    env: Any
    validate: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    canonical: bool = True
    action_masks: bool = False
    num_envs: int | None = None
    _made: _Made = field(default_factory=_Made, init=False, repr=False, compare=False)

    def __call__(self, env_context: Mapping[str, Any] | None = None) -> RLlibEnv | RLlibMultiEnv | RLlibVectorEnv:
        config = dict(env_context or {})
        arguments = {
            **self.arguments,
            **{name: value for name, value in config.items() if name not in RESERVED},
        }
        core = self._core(arguments, self._lanes(config.get("num_envs")))
        if self.canonical and not self._made.warned:
            self._made.warned = True
            warn_narrowed(losses(core))
        worker = int(getattr(env_context, "worker_index", 0) or 0)
        in_evaluation = bool(config.get("in_evaluation", False))
        settings = (worker, in_evaluation, self.validate, self.canonical, self.action_masks)
        if isinstance(core, MultiEnv):
            from .rllib_multi import RLlibMultiEnv

            form = RLlibMultiEnv(core, *settings)
        elif core.batch_size is not None:
            from .rllib_batch import RLlibVectorEnv

            form = RLlibVectorEnv(cast("BatchEnv", core), *settings)
            form.place = Place(worker, worker * core.batch_size, in_evaluation)
            return form
        else:
            form = RLlibEnv(core, *settings)
        if hasattr(env_context, "worker_index"):
            self._made.place(form, env_context)
        return form

    def _lanes(self, asked: int | None) -> int | None:
        """How many lanes: as the creator says, or as RLlib asks where it makes vector environments."""
        if asked is not None and self.num_envs not in (None, asked):
            raise SpecError(f"num_envs: expected {self.num_envs}, as in to_rllib; RLlib asks for {asked} lanes")
        return self.num_envs if asked is None else asked

    def _core(self, arguments: Mapping[str, Any], lanes: int | None) -> Env | MultiEnv:
        core = self._make(arguments)
        if lanes is None:
            return core
        if isinstance(core, MultiEnv):
            raise SpecError(
                "num_envs: RLlib steps environments of several agents one by one; leave gym_env_vectorize_mode='sync'"
            )
        if core.batch_size is not None:
            if core.batch_size != lanes:
                raise SpecError(f"num_envs: expected {core.batch_size}, the lanes of the batch, got {lanes}")
            return core
        if not isinstance(self.env, str) and not callable(self.env):
            return batch(core, lanes)
        first = [core]
        return batch(lambda: first.pop() if first else cast("Env", self._make(arguments)), lanes)

    def _make(self, arguments: Mapping[str, Any]) -> Env | MultiEnv:
        if isinstance(self.env, str):
            return load(self.env, **arguments)
        if callable(self.env):
            return from_env(self.env(**arguments))
        if arguments:
            raise SpecError(f"env_config: expected nothing for a ready-made environment, got {list(arguments)}")
        made = copy.deepcopy(from_env(self.env))
        made.rng = np.random.default_rng()  # until RLlib seeds it, each copy goes its own way
        return made


def bind_worker(*, env: Any, env_context: Any, env_runner: Any = None, **_: Any) -> None:
    """A callback that says where RLlib steps an environment, `config.callbacks(on_environment_created=bind_worker)`.

    It is called when an env runner has made its environments, before the first reset, and reaches envoi's forms, in
    every `gym_env_vectorize_mode` and inside wrappers.

    Args:
        env: The environments of the env runner: a vector environment.
        env_context: Knows the index of the env runner.
        env_runner: Knows by its config whether it evaluates.

    Raises:
        ContextError: RLlib would add the training contexts in `env_config` to those of `evaluation_config`.
    """
    config = getattr(env_runner, "config", None)
    _refuse_merged_contexts(getattr(config, "env_config", None), getattr(config, "evaluation_config", None))
    worker = int(getattr(env_context, "worker_index", 0) or 0)
    evaluates = bool(getattr(config, "in_evaluation", False))

    def place(form: RLlibForm, lane: int) -> None:
        form.place = Place(worker, lane, evaluates or form.seeds.in_evaluation)

    native = getattr(env, "unwrapped", env)
    if isinstance(native, RLlibForm):
        place(native, worker * int(getattr(native, "num_envs", 1)))
    elif isinstance(native, AsyncVectorEnv):  # whose environments are in processes of their own
        if all(native.call("has_wrapper_attr", "place")):
            before, n = native.get_attr("place"), native.num_envs
            native.set_attr(
                "place", [Place(worker, worker * n + i, evaluates or before[i].in_evaluation) for i in range(n)]
            )
    else:
        envs = getattr(native, "envs", ())
        for index, one in enumerate(envs):
            if isinstance(one.unwrapped, RLlibForm):
                place(one.unwrapped, worker * len(envs) + index)


def _refuse_merged_contexts(training: Any, evaluation: Any) -> None:
    """Refuses plain sets of contexts, of which RLlib would make one: it merges mappings, at any depth.

    Only a training config holds both; the `env_config` that an evaluation env is made with is merged already.

    Args:
        training: The `env_config` of a training config.
        evaluation: Its `evaluation_config`; None in an evaluation config itself.

    Raises:
        ContextError: A training context, or a feature of one, would be in the evaluation environment too.
    """
    if not isinstance(evaluation, Mapping) or not isinstance(training, Mapping):
        return
    given: Mapping[str, Any] = cast("Mapping[str, Any]", evaluation).get("env_config") or {}
    for name, ours in cast("Mapping[str, Any]", training).items():
        theirs: Any = given.get(name)
        if not (_is_plain_set(ours) and _is_plain_set(theirs)):
            continue
        for key, context in ours.items():
            missing = [repr(key)] if key not in theirs else [f"{key!r}][{f!r}" for f in context if f not in theirs[key]]
            if missing:
                raise ContextError(
                    f"env_config[{name!r}][{missing[0]}]: expected in training alone, but RLlib merges the "
                    f"env_config[{name!r}] of evaluation_config into it, so that the evaluation env has it too; give "
                    "both as envoi.context.ContextSet(contexts), which RLlib replaces as a whole (or, if these are "
                    "no contexts, give evaluation_config every entry)"
                )


def _is_plain_set(value: Any) -> bool:
    """Whether a value looks like contexts by id, in dicts, which are all that RLlib merges."""
    if not isinstance(value, dict):
        return False
    contexts = cast("dict[Any, Any]", value).values()
    return all(isinstance(c, dict) and not any(isinstance(v, dict) for v in c.values()) for c in contexts)


def _is_multi_agent(env: object) -> bool:
    """Whether `env` is a `MultiAgentEnv`, also inside wrappers of gymnasium; imports nothing."""
    module = sys.modules.get("ray.rllib.env.multi_agent_env")
    if module is None or not isinstance(env, gymnasium.Env):
        return False
    return isinstance(env.unwrapped, module.MultiAgentEnv)


def recognises(env: object) -> bool:
    """Whether `env` is an environment in RLlib's form, one of RLlib's own, or a creator of ours."""
    if isinstance(env, (RLlibEnv, EnvCreator)) or _is_multi_agent(env):
        return True
    module = sys.modules.get(f"{__package__}.rllib_batch")
    return module is not None and isinstance(env, module.RLlibVectorEnv)


def to_rllib(
    env: Any,
    *,
    validate: bool = False,
    canonical: bool = True,
    action_masks: bool = False,
    num_envs: int | None = None,
    **arguments: Any,
) -> EnvCreator:
    """Any environment as an env creator for `ray.tune.register_env`.

    Args:
        env: A name for `envoi.adapters.load`, something callable that makes an environment of any framework, or
            an environment, of which each lane gets a copy. It may have one agent, several, or be a batch.
        validate: Check every value against its spec, with an error that names leaf, step and episode.
        canonical: Give spaces that RLlib's networks train on; False gives gymnasium's, for whoever brings connectors
            of their own.
        action_masks: Make of each observation a dict of `action_mask` and `observations`, as RLlib's
            `ActionMaskingRLModule` needs it.
        num_envs: Make batches of so many lanes. Where RLlib asks for some itself, under
            `gym_env_vectorize_mode="vector_entry_point"`, it may be left out.
        **arguments: For `load` or the callable.

    Returns:
        `creator(env_context) -> RLlibEnv | RLlibMultiEnv | RLlibVectorEnv`, each with `.core`; it pickles if `env`
        does. `from_rllib` of it gives `env` back.
    """
    return EnvCreator(env, validate, arguments, canonical, action_masks, num_envs)


def from_rllib(env: Any) -> Env | MultiEnv:
    """An environment that RLlib steps, of one agent, of several or of many lanes, as a core one.

    Args:
        env: A gymnasium env, a `MultiAgentEnv`, a vector env, or what `to_rllib` gave.

    Returns:
        A core environment; the very same object for what came from the core.
    """
    if isinstance(env, EnvCreator):
        is_ready = not isinstance(env.env, str) and not callable(env.env)
        return from_env(env.env) if is_ready else env().core
    if isinstance(env, RLlibEnv):
        return env.core
    if _is_multi_agent(env):
        from .rllib_source import from_multi_agent

        return from_multi_agent(env)
    if isinstance(env, gymnasium.vector.VectorEnv):
        from .gymnasium_vector import from_gymnasium_vector

        return from_gymnasium_vector(env)
    return from_gymnasium(env)
