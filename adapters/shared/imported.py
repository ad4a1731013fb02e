"""The bases of the importers of all frameworks, and what they share with forms.

`docs/adding_a_framework.md` lists the hooks of an importer. A source may be a form of envoi, possibly inside wrappers
of its framework. State, generator, options and lanes are then those of its core, because the framework may not support
them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from inspect import signature
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from envoi import BatchEnv, Env, EpisodeError, Lanes, MultiEnv, Reset, Snapshot, SnapshotUnsupported, Spec, Step
from envoi.protocol.batch_env import Mask, as_mask, check_count
from envoi.protocol.env import NOT_RESET, as_step, refuse_masks
from envoi.protocol.process import Process
from envoi.rewards.rewarder import reward_step
from envoi.seeding import Streams, check_seed
from envoi.steps.flat import flat_step
from envoi.steps.program import VALUES, Program, Stage, library_name
from envoi.steps.record import NOT_BEGUN
from envoi.tree import map_leaves
from envoi.wrapping.delegate import set_once

from .arrival import Copy, fresh
from .introspection import Content, Generators, attributes, seed_hook
from .loss import DroppedOptionsWarning, Loss, UnseededWarning, warn_user


class CoreHolder:
    """Base of all forms, by which they are recognised: an environment of a framework with a core environment inside."""

    core: Any = set_once("core", "make a new form of it")
    _core_inside: Any


class MultiCoreHolder(CoreHolder):
    """Base of forms in multi-agent frameworks, which have the core environment as a `MultiEnv` too."""

    multi: MultiEnv
    """The core environment as a `MultiEnv`; `core` may be a single-agent `Env`."""


def declared_names(kind: type, attribute: str) -> tuple[str, ...]:
    """Returns the names that a class and its bases list in a class attribute, each once."""
    return tuple(dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base).get(attribute, ())))


class Planned:
    """An object whose `_plan` decides once what its hot methods need, such as functions that convert values.

    A class lists in `_planned` the names of the attributes that its `_plan` sets, apart from those of its bases.
    """

    _planned: ClassVar[tuple[str, ...]] = ()

    def _plan(self) -> None:
        """Sets the attributes of `_planned`, from the other ones."""

    def __getstate__(self) -> dict[str, Any]:
        planned = declared_names(type(self), "_planned")
        return {name: value for name, value in vars(self).items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # One by one: CPython reads the attributes of an object more slowly after its dict was asked for.
        for name, value in state.items():
            object.__setattr__(self, name, value)  # and not where a form may reach
        self._plan()


class FromSource(Process):
    """A core environment that represents an environment of a framework."""

    source: Any
    """The framework's environment, possibly wrapped."""

    _framework: ClassVar[str]
    """The framework's name in the registry."""

    _closed: bool = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> Any:
        return self.source.unwrapped

    def __repr__(self) -> str:
        return f"from_{self._framework}({self.source})"


def takes_options(reset: Any) -> bool:
    """Returns True if a `reset` has a parameter `options` or `**kwargs`."""
    try:
        parameters = signature(reset).parameters
    except (TypeError, ValueError):  # it is not written in Python
        return True
    return "options" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


class Imported(Planned, FromSource):
    """Base of single-agent, multi-agent and batch importers.

    A class lists in `_memory` the names of the attributes that change during an episode, apart from those of its
    bases; snapshots contain them.
    """

    _memory: ClassVar[tuple[str, ...]] = ("_streams",)
    _form_kind: ClassVar[type[CoreHolder]] = CoreHolder

    has_place: bool = True
    """True if `reset` of the source takes options. If not, they go to a form of envoi inside, or are dropped."""

    _form_inside: Any  # of `_form_kind`, or None
    _warned_of_options: bool = False

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        self.source = source
        self._copy: Copy = copy
        # Attributes of the instance, because steps read these faster than attributes of the class.
        self._observation: Any = None
        self._rewarder = None
        self._closed = False
        self._find_form()
        self._describe()
        self._plan()

    @abstractmethod
    def _describe(self) -> None:
        """Sets the specs, `metadata` and `render_mode`, as the source has them."""

    def _find_form(self) -> None:
        """Finds the form of envoi inside the source; called again if the source is replaced."""
        native = self.unwrapped
        self._form_inside = native if isinstance(native, self._form_kind) else None

    @property
    def form_inside(self) -> Any:
        """The envoi form that the source is or wraps, or None."""
        return self._form_inside

    @property
    def core_inside(self) -> Any:
        """The core environment of `form_inside`, or None."""
        return None if self._form_inside is None else self._form_inside.core

    @abstractmethod
    def _check_begun(self, what: str) -> None:
        """Raises an EpisodeError before the first reset."""

    @property
    def state(self) -> Any:
        """The state of the source if it has one, else the observation; see the importer's module."""
        self._check_begun("state")
        core = self.core_inside
        return self._source_state() if core is None else core.state

    def _source_state(self) -> Any:
        return self._observation

    @property
    def rng(self) -> np.random.Generator:
        """The source's generator if it has one, else the import's own; settable."""
        core = self.core_inside
        return (self._source_rng() or self.streams.dynamics) if core is None else core.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        core = self.core_inside
        if core is None:
            self._replace_rng(generator)
        else:
            core.rng = generator

    def _source_rng(self) -> np.random.Generator | None:
        return None

    def _replace_rng(self, generator: np.random.Generator) -> None:
        """Replaces the source's generator, if it has one."""

    def snapshot(self) -> Snapshot:
        held = [getattr(self, name) for name in declared_names(type(self), "_memory")]
        return Snapshot(self._kind, (self._hold_source(), deepcopy(held)))

    def restore(self, snapshot: Snapshot) -> None:
        content, held = self._content(snapshot)
        self._put_back_source(content)
        for name, value in zip(declared_names(type(self), "_memory"), deepcopy(held), strict=True):
            setattr(self, name, value)

    def _hold_source(self) -> Any:
        """Returns a copy of all attributes of the source."""
        return Content(self._parts())

    def _put_back_source(self, content: Any) -> None:
        """Restores what `_hold_source` returned."""
        content.put_back(self._parts())

    def _parts(self) -> list[Any]:
        """Returns the layers of the source and their spaces, the objects that a restore does not replace."""
        return [self.source]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if any("_ezpickle_args" in attributes(part) for part in self._parts()):
            # The source's own copies are new ones (gymnasium's EzPickle), so what it holds goes along.
            try:
                state["_held"] = self._hold_source()
            except SnapshotUnsupported:
                state["_held"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("_held", self)
        super().__setstate__(state)
        if held is None:
            self._leave_episode()
        elif held is not self:
            self._put_back_source(held)

    def _leave_episode(self) -> None:
        """Continues as before the first reset, because the source is a copy in no episode."""
        self._halt = NOT_BEGUN

    def render(self) -> Any:
        return self.source.render()

    def assign_lane(self, number: int) -> None:
        if self.form_inside is not None:
            self.form_inside.assign_lane(number)

    # Reset options, which a form of envoi takes in any framework, even inside wrappers of that framework.

    @property
    def takes_options(self) -> bool:
        return self.has_place if self.form_inside is None else self.form_inside.core.takes_options

    def untaken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        if self.form_inside is None:
            return {} if self.has_place else dict(options)
        return self.form_inside.core.untaken(options)

    def _reset_source(self, seed: Any, options: Mapping[str, Any] | None) -> Any:
        """Resets a source whose `reset` takes a seed. Passes options to it, or to `_give_options` if it takes none."""
        if not self.has_place:
            self._give_options(options)
            return self.source.reset(seed=seed)
        return self.source.reset(seed=seed, options=None if options is None else fresh(options))

    def _give_options(self, options: Mapping[str, Any] | None) -> None:
        """Prepares the next reset of a source whose `reset` takes no options; called before the source is reset."""
        if not options:
            return
        if self.form_inside is not None:
            self.form_inside.reset_options = fresh(options)
        elif not self._warned_of_options:
            native = type(self.unwrapped)
            # The same text for all lanes of a batch, so that Python shows it once.
            warn_user(
                f"options: a reset of {native.__module__}.{native.__qualname__} takes no options, so "
                f"{', '.join(map(repr, options))} changed nothing, nor will others; validate=True makes them an error",
                DroppedOptionsWarning,
            )
            self._warned_of_options = True


class ImportedEnv(Imported, Env):
    """Base of single-agent importers."""

    _memory = ("_observation", "_halt")
    _planned = ("_written_step",)

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        self._halt = NOT_BEGUN
        super().__init__(source, copy)

    def _plan(self) -> None:
        self.step_record.stale()
        self._written_step = flat_step(ImportedEnv.step_program, as_step, self)

    def _check_begun(self, what: str) -> None:
        if self._halt is NOT_BEGUN:
            raise EpisodeError(f"{what}: {NOT_BEGUN}")

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        if options and not self.has_place:
            self._give_options(options)
        if seed is not None:
            seed = check_seed(seed)  # a Python integer, because sources may accept no other
            self.seed_source(seed)
            self._streams = Streams(seed)
        observation, info = self._begin(seed, options)
        self._observation, self.step_record.halt = observation, None
        return Reset(observation, info)

    def seed_source(self, seed: Any) -> None:
        """Seeds the source before its reset, in addition to the seed that its reset takes."""

    @abstractmethod
    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, dict[Any, Any]]:
        """Resets the source; returns the observation, converted for the core, and a new dict of the info."""

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        refuse_masks(restart, hold)
        return self._written_step(self, action)

    def step_program(self) -> Program:
        """Returns the program that steps the source, for the engine to run."""
        lines, names = self._lines_of_step()
        if self._rewarder is not None:  # setting one makes the written steps stale
            lines = f"_before = env._rewarded_state()\n{lines}\nreward = env._rewarded(reward, _before, action)"
        title = f"{library_name(type(self), 'an importer')}: a step of the source"
        return Program((Stage(title, lines, {**names, "env": self}, guarded=True),), self.step_record)

    def _lines_of_step(self) -> tuple[str, dict[str, Any]]:
        """Returns the lines of code that step the source, and the objects that they name besides `env`.

        They set the six values, with the source's own reward, and end the episode, because the source has ended even if
        a wrapper fails. A class that keeps these lines defines `_step_source(action)`, which returns the six values.
        """
        lines = f"""\
{", ".join(VALUES)} = env._step_source(action)
env._observation = observation
if terminated or truncated:
    record.halt = OVER"""
        return lines, {}

    def _rewarded(self, reward: Any, before: Any, action: Any) -> Any:
        """Computes a step's reward by the rewarder, from the source's reward and the state before the step."""
        return reward_step(cast("Any", self._rewarder), reward, before, action, self._rewarded_state())

    def _rewarded_state(self) -> Any:
        """Returns the state that rewarders get."""
        return self.state

    @property
    def observation(self) -> Any:
        self._check_begun("observation")
        return self._observation


class ImportedBatch(Imported, BatchEnv):
    """Base of importers of batches whose lanes the source steps together."""

    _memory = ("_observation", "_over", "_begun")
    _planned = ("_written_step",)

    def __init__(self, source: Any, n: int, copy: Copy = "auto") -> None:
        BatchEnv.__init__(self, n)
        self._begun = False
        self._over: Any = np.zeros(n, bool)  # the lanes that have ended
        super().__init__(source, copy)

    def _lanes_to_reset(self, mask: Mask | None) -> Mask:
        """Returns the mask of the lanes that begin an episode, shape (n,); all of them for None."""
        given = as_mask(mask, self.batch_size, "mask")
        lanes = np.ones(self.batch_size, bool) if given is None else given.copy()
        if not self._begun and not lanes.all():
            raise EpisodeError(f"reset: {NOT_RESET} in all lanes first, without a mask")
        return lanes

    def _check_begun(self, what: str) -> None:
        if not self._begun:
            raise EpisodeError(f"{what}: {NOT_BEGUN}")

    def _leave_episode(self) -> None:
        self._begun = False

    def advance(self, action: Any, restart: Mask | None, hold: Mask | None, idle: Mask | None) -> tuple[Any, ...]:
        self._check_begun("step")
        begin = np.zeros(self.batch_size, bool) if restart is None else restart
        self._check_lanes(begin, hold)
        if isinstance(self.action_spec, Spec):
            check_count("action", action, self.batch_size)
        before = None if self._rewarder is None else self.state
        observation, reward, terminated, truncated, discount, infos = self._step_source(action, begin, hold)
        over = terminated | truncated
        self._observation, self._over = observation, over if hold is None else over | self._over & hold
        if self._rewarder is not None:
            reward = self._rewarded(reward, before, action, idle)
        return observation, reward, terminated, truncated, discount, infos

    @abstractmethod
    def _check_lanes(self, restart: Mask, hold: Mask | None) -> None:
        """Raises an error unless the source can step its lanes now, and restart these."""

    @abstractmethod
    def _step_source(self, action: Any, restart: Mask, hold: Mask | None) -> tuple[Any, Any, Mask, Mask, Any, Any]:
        """Steps the source. Returns the six values of a step, with the source's own rewards."""

    @property
    def observation(self) -> Any:
        self._check_begun("observation")
        return self._observation

    def _rewarded(self, reward: Any, before: Any, action: Any, idle: Mask | None) -> Any:
        """Computes the rewards by the rewarder; lanes that did not act (`idle`) get 0."""

        def fill(leaf: Any) -> NDArray[Any]:
            lanes = np.array(leaf) if np.ndim(leaf) else np.full(self.batch_size, leaf)
            if idle is not None:
                lanes[idle] = 0
            return lanes

        return map_leaves(fill, reward_step(cast("Any", self._rewarder), reward, before, action, self.state))


class ImportedLanes(FromSource, Lanes):
    """Base of importers of batches whose lanes can be accessed and stepped one by one."""

    def __init__(self, source: Any, lanes: list[Any]) -> None:
        Lanes.__init__(self, lanes)
        self.source = source
        self._closed = False

    @property
    def is_unchanged(self) -> bool:
        """True until a lane is changed; until then the source behaves like this batch."""
        return all(lane.is_unchanged for lane in self.envs)


class SeedsSource(Imported):
    """Base of importers for frameworks whose `reset` takes no seed.

    The source is seeded in the first way that is available: by the user's function; by a method `seed` of the source;
    through the random generators of the source, its task and its wrappers. Without any, the first seed gives a warning.
    """

    has_place = False

    _layer: ClassVar[type]
    """The class that every layer of a source is an instance of."""

    _most_seeds: ClassVar[int] = 2**32
    """The upper bound (exclusive) of the seeds that the source takes."""

    _seeder: Callable[[Any], Any] | None = None
    _warned_of_seeds: bool = False

    def _generators(self) -> Generators:
        return Generators(self.source, self._layer)

    @property
    def _has_seeder(self) -> bool:
        return self._seeder is not None

    @property
    def unseeded(self) -> bool:
        """True if no way to seed the source is known; then a seed affects only the sampled actions."""
        return not (self._has_seeder or self._has_seed_method or self._generators())

    @property
    def _has_seed_method(self) -> bool:
        return seed_hook(self.source, self._layer) is not None

    def _call_seed_method(self, seed: Any) -> bool:
        """Calls the source's method `seed`; returns False if it has none."""
        hook = seed_hook(self.source, self._layer)
        if hook is not None:
            hook(seed)
        return hook is not None

    def seed_source(self, seed: Any) -> None:
        if self._seeder is not None:
            self._seeder(seed)
        elif self._call_seed_method(seed):
            pass
        elif generators := self._generators():
            generators.seed(seed)
        elif not self._warned_of_seeds:
            self._warned_of_seeds = True
            hint = f"pass from_{self._framework}(env, seed=function of an integer)"
            warn_user(f"seed: nothing is known that seeds {self.source}; {hint}", UnseededWarning)

    def _source_rng(self) -> np.random.Generator | None:
        """Returns the source's innermost generator, or None if it has none or uses a `RandomState`."""
        return self._generators().first()

    def _replace_rng(self, generator: np.random.Generator) -> None:
        """Makes all randomness of the source follow from a generator.

        A source's `RandomState` copies the state of an `MT19937` generator, and is seeded from any other.
        """
        generators = None if self._has_seeder else self._generators()
        if generators:
            generators.replace(generator)
        else:
            self.seed_source(int(deepcopy(generator).integers(self._most_seeds)))

    @property
    def arrival_losses(self) -> list[Loss]:
        """A list with the loss of seeds if the source cannot be seeded, else an empty list."""
        if not self.unseeded:
            return []
        hint = f"pass from_{self._framework}(env, seed=function of an integer), which seeds it"
        return [Loss("seed", "reach", f"{self.source!r}", "the core", False, hint)]
