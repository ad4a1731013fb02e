"""`ModelLane`, a single lane of a batch of models as an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from .. import tree
from ..lane_values import lane
from ..protocol.env import Env, Reset, Step, as_step, refuse_masks
from ..protocol.process import Snapshot
from ..rewards.rewarder import Rewarder, RewardFunction
from ..spec import Spec
from ..spec.arrays import ARRAYS
from ..steps.flat import flat_step
from ..steps.program import VALUES, Program, Stage


class ModelLane(Env):
    """A single lane of a batch as an environment of its own, which behaves like the model.

    Other attributes come from the lane's model: `lane.force = 12.0` sets `force` of the model. Resetting or stepping
    the lane does not affect the others.

    Attributes:
        lanes: The batch.
        index: The index of this lane.
        model: The lane's model.
    """

    _written_step: Any = None

    def __init__(self, lanes: Any, index: int) -> None:
        model = lanes.members[index]
        names = ("observation_spec", "action_spec", "discount_spec", "state_spec", "metadata", "render_mode", "made_by")
        vars(self).update({name: getattr(model, name) for name in names}, lanes=lanes, index=index, model=model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "lanes" not in vars(self):
            raise AttributeError(name)
        return getattr(self.lanes.lend(self.index), name)

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = name.startswith("_") or isinstance(getattr(type(self), name, None), property)
        if not is_own:
            setattr(self.unwrapped, name, value)
        if is_own or name in vars(self):
            object.__setattr__(self, name, value)

    @property
    def unwrapped(self) -> Any:
        """The model in its current state. Later steps and resets of the lane do not update it."""
        return self.lanes.lend(self.index)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        lanes, index = self.lanes, self.index
        n: int = lanes.batch_size
        seeds = None if seed is None else [seed if i == index else None for i in range(n)]
        mask = np.arange(n) == index if n > 1 and lanes.has_begun else None
        observation, info = lanes.reset(seed=seeds, options=options, mask=mask)
        return Reset(lane(self.observation_spec, observation, index), info[index])

    def hold_episode(self) -> Any:
        return self.lanes.hold_episode()

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        refuse_masks(restart, hold)
        if self._written_step is None:
            self._written_step = flat_step(ModelLane.step_program, as_step, self)
        return self._written_step(self, action)

    def step_program(self) -> Program:
        """Returns the program of a step: one stage that steps this lane while the others pause."""
        title = f"ModelLane: a step of {'a batch of one lane' if self.lanes.batch_size == 1 else 'all lanes'}"
        specs = (self.observation_spec, self.action_spec, self.reward_spec, self.discount_spec)
        if self.lanes.batch_size > 1 or not all(isinstance(spec, ARRAYS) for spec in specs):
            lines = f"{', '.join(VALUES)} = lane.step_alone(action)"
            names: dict[str, Any] = {"lane": self, "hold_step": self.lanes.hold_step}
            stage = Stage(title, lines, VALUES, names, guarded=True, save="_back0 = hold_step()", undo="_back0()")
            return Program((stage,), self.step_record)
        read = "[0]" if getattr(self.reward_spec, "shape", ()) else ".item()"
        lines = f"""\
_values = step_alone(action)
if _values is None:
    _values = advance(with_axis(action, action_dtype), None, None)
    commit()
observation, _rewards, _ends, _cuts, _discounts, _infos, _ = _values
observation = observation[0]
reward = _rewards{read}
terminated = False if _ends is None else bool(_ends[0])
truncated = False if _cuts is None else bool(_cuts[0])
discount = None if _discounts is None else _discounts[0]
info = {{}} if _infos is None else _infos[0]"""
        lanes: Any = self.lanes
        action: Any = self.action_spec
        names = {"step_alone": lanes.step_alone, "advance": lanes.advance, "commit": lanes.commit}
        names |= {"with_axis": _with_lane_axis, "action_dtype": action.dtype, "hold_step": lanes.hold_step}
        stage = Stage(title, lines, VALUES, names, guarded=True, save="_back0 = hold_step()", undo="_back0()")
        stage = replace(stage, source=lanes.kernel_source)
        return Program((stage,), self.step_record)

    def step_alone(self, action: Any) -> tuple[Any, ...]:
        """Steps this lane while the others pause, and returns the six values of the step."""
        lanes, index = self.lanes, self.index
        n: int = lanes.batch_size

        def in_all(spec: Spec, leaf: Any) -> Any:
            return np.repeat(np.asarray(leaf)[None], n, 0) if isinstance(spec, ARRAYS) else (leaf,) * n

        hold = None if n == 1 else np.arange(n) != index
        *values, infos = lanes.step(tree.map_leaves(in_all, self.action_spec, action), hold=hold)
        specs = (self.observation_spec, self.reward_spec, None, None, self.discount_spec)
        each = [one[index] if spec is None else lane(spec, one, index) for spec, one in zip(specs, values, strict=True)]
        # A model's numbers are Python's.
        numbers: list[Any] = [one.item() if isinstance(one, np.generic) else one for one in each[1:]]
        return each[0], *numbers, infos[index]

    # The lane's episode.

    @property
    def state(self) -> Any:
        """The state; settable as in `Model.state`."""
        return self.lanes.state[self.index]

    @state.setter
    def state(self, state: Any) -> None:
        self.unwrapped.state = state
        self.lanes.take_over(self.index)

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self.lanes.observation, self.index)

    @property
    def rng(self) -> np.random.Generator:
        """The random generator of the dynamics; settable."""
        return self.model.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.unwrapped.rng = generator

    @property
    def rewarder(self) -> Rewarder:
        """The reward function; settable."""
        return self.model.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.unwrapped.rewarder = rewarder
        if self.lanes.batch_size == 1:
            self.lanes.reward_spec = self.model.reward_spec
        self.step_record.stale()

    reward_spec: Any = property(attrgetter("model.reward_spec"))
    declared_reward_spec: Any = property(attrgetter("model.declared_reward_spec"))
    given_rewarder: Any = property(attrgetter("model.given_rewarder"))
    is_unchanged: Any = property(attrgetter("model.is_unchanged"))
    streams: Any = property(attrgetter("model.streams"))

    @property
    def context(self) -> Any:
        """The context of coming episodes; settable."""
        return dict(self.lanes._context_of(self.index))

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        self.lanes._set_contexts([context], [self.index], False)

    def spec_under(self, contexts: Any) -> Any:
        return self.model.spec_under(contexts)

    def snapshot(self) -> Snapshot:
        return self.unwrapped.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self.unwrapped.restore(snapshot)
        self.lanes.take_over(self.index)

    def render(self) -> Any:
        return self.unwrapped.render()

    def close(self) -> None:
        self.model.close()

    def __getstate__(self) -> dict[str, Any]:
        # Copies do not contain the step function, which refers to this lane.
        return {name: value for name, value in vars(self).items() if name != "_written_step"}


def _with_lane_axis(action: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Adds a lane axis to an action and keeps its dtype, which the batch checks."""
    array = np.asarray(action)
    plain = type(action) is bool or (type(action) in (list, tuple) and array.dtype.kind == dtype.kind == "f")
    return (array.astype(dtype) if plain else array)[None]
