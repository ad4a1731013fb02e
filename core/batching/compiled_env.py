"""`compiled`: a model as an environment of one lane that steps by a kernel."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from .. import tree
from ..authoring.model import Model
from ..compiling.choice import Compiled, check_compiled
from ..errors import NotCompilable
from ..lane_values import lane
from ..protocol.env import Env, Reset, Step
from ..protocol.process import Snapshot
from ..rewards.rewarder import Rewarder, RewardFunction
from ..seeding import Streams
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete
from ..steps.program import VALUES, Program, Stage
from ..tree import AnyScalar
from ..wrapping.wrapper import Wrapper
from .batch_model import BatchModel
from .compiled_lanes import CompiledLanes
from .loop import why_interpreted


class CompiledModel(Env):
    """A model whose steps are one call of a kernel, with the same values.

    Its functions, state, context and rewarder are those of the model.

    Args:
        model: The scalar model, which it keeps.
        compiled: True to compile before the first step; `"auto"` to compile when that is worth its time.

    Attributes:
        lanes: A batch of one lane.

    Raises:
        NotCompilable: `compiled` is True, and the model cannot be compiled.
    """

    def __init__(self, model: Model, compiled: Compiled = True) -> None:
        self.lanes = CompiledLanes([model], compiled)
        self.observation_spec, self.action_spec = model.observation_spec, model.action_spec
        self.reward_spec, self.discount_spec = model.reward_spec, model.discount_spec
        self.state_spec, self.metadata, self.render_mode = model.state_spec, model.metadata, model.render_mode
        self.made_by = model.made_by

    @property
    def _model(self) -> Any:
        return self.lanes.envs[0]

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observation, info = self.lanes.reset(seed=None if seed is None else [seed], options=options)
        return Reset(lane(self.observation_spec, observation, 0), info[0])

    def step(self, action: Any) -> Step:
        actions = tree.map_leaves(lambda _, leaf: np.asarray(leaf)[None], self.action_spec, action)
        observation, reward, terminated, truncated, discount, infos = cast("Any", self.lanes.step(actions))
        return Step(
            lane(self.observation_spec, observation, 0),
            self._number(lane(self.reward_spec, reward, 0)),
            bool(terminated[0]),
            bool(truncated[0]),
            self._number(lane(self.discount_spec, discount, 0)),
            infos[0],
        )

    def _number(self, value: Any) -> Any:
        """Returns a number of a scalar model as Python's."""
        return value.item() if isinstance(value, AnyScalar) else value

    def step_program(self) -> Program:
        """Returns `step` as a program: a call of a kernel."""
        title, kinds = "CompiledModel: one call of a kernel", (Array, Discrete, MultiDiscrete, MultiBinary)
        specs = (self.observation_spec, self.action_spec, self.reward_spec, self.discount_spec)
        names: dict[str, Any] = {"env": self}
        if not all(isinstance(spec, kinds) for spec in specs):
            lines = f"{', '.join(VALUES)} = env.step(action)"
        else:
            action: Any = self.action_spec
            lanes = self.lanes
            read = "[0]" if cast("Any", self.reward_spec).shape else ".item()"
            lines = f"""\
_values = step_alone(action)
if _values is None:
    _values = step_values(with_axis(action, action_dtype))
observation, _rewards, _ends, _cuts, _discounts, _infos = _values
observation = observation[0]
reward = _rewards{read}
terminated = False if _ends is None else bool(_ends[0])
truncated = False if _cuts is None else bool(_cuts[0])
discount = None if _discounts is None else _discounts[0]
info = {{}} if _infos is None else _infos[0]"""
            names = {"step_alone": lanes.step_alone, "step_values": lanes.step_values}
            names |= {"with_axis": _with_lane_axis, "action_dtype": action.dtype}
        return Program((Stage(title, lines, VALUES, "act", names, guarded=True),), self.step_record)

    # All else is the model's.

    @property
    def state(self) -> Any:
        """The state; can be set to any state of the model, see `Model.state`."""
        return self._model.state

    @state.setter
    def state(self, state: Any) -> None:
        self.lanes.resume([state])

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self.lanes.observation, 0)

    @property
    def streams(self) -> Streams:
        return self._model.streams

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the dynamics; can be set."""
        return self._model.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._model.rng = generator

    @property
    def rewarder(self) -> Rewarder:
        """The reward function; can be set."""
        return self._model.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self._model.rewarder = rewarder
        self.reward_spec = self._model.reward_spec

    @property
    def declared_reward_spec(self) -> Any:
        return self._model.declared_reward_spec

    @property
    def is_unchanged(self) -> bool:
        return self._model.is_unchanged

    @property
    def context_space(self) -> Any:
        """The features of the model's contexts."""
        return self._model.context_space

    @property
    def context(self) -> Any:
        """The context of the coming episodes; can be set."""
        return self._model.context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        self._model.context = context

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), self._model.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        self._model.restore(self._content(snapshot))
        if self._model.has_begun:
            self.lanes.resume([self._model.state], observe=False)

    def render(self) -> Any:
        return self._model.render()

    @property
    def unwrapped(self) -> Any:
        return self._model


def _with_lane_axis(action: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns an action of one lane as an array of all lanes, of its own dtype, for the batch to check."""
    array = np.asarray(action)
    plain = type(action) is bool or (type(action) in (list, tuple) and array.dtype.kind == dtype.kind == "f")
    return (array.astype(dtype) if plain else array)[None]


def compiled(model: Env, compiled: Compiled = True) -> Env:
    """Makes an environment of a model that steps by a kernel, with the same values; see `envoi.batch` for many lanes.

    Args:
        model: A scalar `Model`, also inside wrappers, which is copied and not changed.
        compiled: True to compile now; `"auto"` to do so where it can be compiled, when that is worth the time.

    Returns:
        A `CompiledModel`, or the same wrappers around one.

    Raises:
        NotCompilable: It is no scalar model, or cannot be compiled, or numba is not installed.
    """
    check_compiled(compiled)
    wrappers: list[Wrapper] = []
    while isinstance(model, Wrapper):
        wrappers.append(model)
        model = model.env
    if not isinstance(model, Model) or isinstance(model, BatchModel):
        raise NotCompilable(f"compiled: {why_interpreted(model)}")
    result: Env = CompiledModel(copy.deepcopy(model), compiled)
    for wrapper in reversed(wrappers):
        result = wrapper.over(result)
        result.made_by = wrapper.made_by
    return result
