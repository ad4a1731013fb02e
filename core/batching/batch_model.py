"""Models with a leading lane axis: dynamics written once, for a single lane and for thousands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from .. import tree
from ..authoring.model import Model
from ..errors import ContextError
from ..lane_values import lane, take
from ..protocol.env import Reset, Step
from ..protocol.process import Snapshot
from ..protocol.reset_options import CONTEXT
from ..rewards.rewarder import Rewarder, RewardFunction
from ..seeding import Streams
from ..tree import AnyMapping
from .model_batch import ModelBatch


class BatchModel(Model):
    """A model whose functions take a leading lane axis, so that one numpy call steps all lanes.

    States are arrays, or dicts, lists, tuples or named tuples of arrays, all of shape (n, …). The model itself is an
    `Env` of a single lane, whose values do not have the axis; `envoi.batch(model, n)` makes a batch of n lanes.
    Functions that index from the end (`state[..., 0]`) also accept a single state without the axis, such as
    `env.state`, from a planner or a rewarder.
    """

    _one: ModelBatch | None = None

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the states in which `size` episodes begin.

        Args:
            rng: The dynamics stream.
            context: As for `Model.initial`, with an array of shape (size,) for each feature: contexts may differ
                between lanes. What follows from them alone is computed once by `envoi.batching.lane_contexts.derived`.
            size: The number of lanes.
        """
        raise NotImplementedError

    # As an Env, it runs a batch of one lane, which knows where the episode is, and removes the lane axis.

    @property
    def lanes(self) -> ModelBatch:
        """The batch of one lane that runs the model as an `Env`."""
        if self._one is None:
            self._one = ModelBatch(self, 1)
        return self._one

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        lanes = self.lanes
        if seed is not None:
            lanes.use(Streams(seed))
        # The values for the single lane get the axis that the model's functions expect.
        options = options and {name: self._with_axis(name, value) for name, value in options.items()}
        observation, info = lanes.reset(options=options)
        return Reset(lane(self.observation_spec, observation, 0), info[0])

    def _with_axis(self, name: str, value: Any) -> Any:
        space = self.context_space
        if name != CONTEXT or space is None or name in space.features:
            return np.asarray(value)[None]
        if not isinstance(value, AnyMapping):
            return value  # the reset of the lanes raises the error
        return {feature: np.asarray(one)[None] for feature, one in value.items()}

    def step(self, action: Any) -> Step:
        actions = tree.map_leaves(lambda _, leaf: np.asarray(leaf)[None], self.action_spec, action)
        observation, reward, terminated, truncated, discount, info = cast("Any", self.lanes.step(actions))
        return Step(
            lane(self.observation_spec, observation, 0),
            lane(self.reward_spec, reward, 0),
            bool(terminated[0]),
            bool(truncated[0]),
            lane(self.discount_spec, discount, 0),
            info[0],
        )

    @property
    def context(self) -> dict[str, Any]:
        """The context of the coming episodes, with defaults filled in; can be set."""
        return super().context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        before = self._context
        self._context = {}  # features that `context` leaves out return to their defaults
        try:
            self.lanes.context = context
        except ContextError:
            self._context = before
            raise
        self._context = dict(context)

    @property
    def state(self) -> Any:
        """The state, without the lane axis; can be set, see `Model.state`."""
        return take(self.lanes.state, 0)

    @state.setter
    def state(self, state: Any) -> None:
        self.lanes.state = tree.map_leaves(lambda leaf: np.asarray(leaf)[None], state)

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self.lanes.observation, 0)

    @property
    def streams(self) -> Streams:
        return self.lanes.streams

    def use_streams(self, streams: Streams) -> None:
        self.lanes.use(streams)

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the dynamics; can be set."""
        return self.lanes.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.lanes.rng = generator

    @property
    def rewarder(self) -> Rewarder:
        """The reward function; can be set."""
        return super().rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        Model.rewarder.__set__(self, rewarder)
        self.lanes.rewarder = self.rewarder

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), (self._context, self.lanes.snapshot()))

    def restore(self, snapshot: Snapshot) -> None:
        self._context, lanes = self._content(snapshot)
        self.lanes.restore(lanes)
