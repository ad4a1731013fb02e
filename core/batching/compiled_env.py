"""`compiled`: a model as an environment of one lane that steps by a kernel."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import tree
from ..authoring.model import Model
from ..compiling.choice import Compiled, check_compiled
from ..errors import NotCompilable
from ..lane_values import lane
from ..protocol.env import Env, Reset, Step, make_step
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
        self._has_default_discount = self.discount_spec == Env.discount_spec

    @property
    def _model(self) -> Any:
        """The model, without its episode."""
        return self.lanes.members[0]

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observation, info = self.lanes.reset(seed=None if seed is None else [seed], options=options)
        return Reset(lane(self.observation_spec, observation, 0), info[0])

    def step(self, action: Any) -> Step:
        values: Any = self.lanes.step_alone(action)
        if values is not None and self._has_default_discount:
            observation, reward, ends, cuts, discount, _ = values
            terminated, truncated = (False, False) if ends is None else (bool(ends[0]), bool(cuts[0]))
            discount = float(not terminated) if discount is None else discount.item()
            return make_step((observation[0], reward.item(), terminated, truncated, discount, {}))
        actions = tree.map_leaves(lambda _, leaf: np.asarray(leaf)[None], self.action_spec, action)
        step: Any = self.lanes.step(actions)
        observation, *numbers, infos = step
        specs = (self.reward_spec, None, None, self.discount_spec)
        each = [one[0] if spec is None else lane(spec, one, 0) for spec, one in zip(specs, numbers, strict=True)]
        each = [one.item() if isinstance(one, AnyScalar) else one for one in each]  # numbers of a model are Python's
        return make_step((lane(self.observation_spec, observation, 0), *each, infos[0]))

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
            read = "[0]" if getattr(self.reward_spec, "shape", ()) else ".item()"
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
        return Program((Stage(title, lines, VALUES, names, guarded=True),), self.step_record)

    # All else is the model's.

    @property
    def state(self) -> Any:
        """The state; can be set to any state of the model, see `Model.state`."""
        return self.lanes.state[0]

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
        self.lanes.envs[0].rng = generator

    @property
    def rewarder(self) -> Rewarder:
        """The reward function; can be set."""
        return self._model.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.lanes.rewarder = rewarder
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
        return {name: values[0] for name, values in self.lanes.context.items()}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        self.lanes.envs[0].context = context

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), self.lanes.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        self.lanes.restore(self._content(snapshot))

    def render(self) -> Any:
        return self.lanes.envs[0].render()

    @property
    def unwrapped(self) -> Any:
        return self.lanes.envs[0]


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
