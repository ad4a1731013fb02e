"""An encoder for images beside other leaves: convolutions for each image, a perceptron for the rest.

                     image ── scaled to 0 … 1 ── convolutions ──┐
                     image ── scaled to 0 … 1 ── convolutions ──┼── concatenated ── fcnet_hiddens[-1] ── heads
    all other leaves, flat ── fcnet_hiddens[:-1] ───────────────┘

Without an image it is the perceptron of RLlib. Activations and initializers are those of the user's `model_config`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT, Encoder
from ray.rllib.core.models.configs import ModelConfig
from ray.rllib.core.models.torch.base import TorchModel
from torch import nn

from .observation_parts import Part


@dataclass
class PartsEncoderConfig(ModelConfig):
    """The layers of a `PartsEncoder`.

    Args:
        parts: The leaves of the observation space.
        convolutions: RLlib's config of the convolutions of each image, in order.
        vector: RLlib's config of the layers for all other leaves; None for none.
        fusion: RLlib's config of the layer for all of them together; None if there are no images.
    """

    parts: list[Part] = field(default_factory=list[Part])
    convolutions: list[ModelConfig] = field(default_factory=list[ModelConfig])
    vector: ModelConfig | None = None
    fusion: ModelConfig | None = None

    @property
    def output_dims(self) -> Any:
        """The number of features, as a tuple of one."""
        last = self.fusion or self.vector
        assert last is not None
        return last.output_dims

    def build(self, framework: str = "torch") -> PartsEncoder:
        """Builds the encoder, with torch."""
        return PartsEncoder(self)


class PartsEncoder(TorchModel, Encoder):
    """Encodes observations of shape (n, …) as features of shape (n, k).

    Args:
        config: Its layers.
    """

    def __init__(self, config: PartsEncoderConfig) -> None:
        TorchModel.__init__(self, config)
        Encoder.__init__(self, config)
        images = [part for part in config.parts if part.is_image]
        self._images = [(part, *_scale(part.space)) for part in images]
        self._rest = [part for part in config.parts if part.size]
        self.convolutions = nn.ModuleList([one.build("torch") for one in config.convolutions])
        self.vector = None if config.vector is None else config.vector.build("torch")
        self.fusion = None if config.fusion is None else config.fusion.build("torch")

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        observation = inputs[Columns.OBS]
        found: list[torch.Tensor] = []
        for (part, low, span), convolutions in zip(self._images, self.convolutions, strict=True):
            pixels = (_leaf(observation, part).float() - low.to(_device(self))) / span.to(_device(self))
            found.append(convolutions({Columns.OBS: pixels})[ENCODER_OUT])
        if self._rest:
            flat = torch.cat([_flat(part, _leaf(observation, part)) for part in self._rest], -1)
            found.append(flat if self.vector is None else self.vector({Columns.OBS: flat})[ENCODER_OUT])
        if self.fusion is None:
            return {ENCODER_OUT: found[0]}
        return {ENCODER_OUT: self.fusion({Columns.OBS: torch.cat(found, -1)})[ENCODER_OUT]}


def _leaf(observation: Any, part: Part) -> torch.Tensor:
    for key in part.path:
        observation = observation[key]
    return observation


def _flat(part: Part, values: torch.Tensor) -> torch.Tensor:
    """Returns the values of a leaf as numbers, of shape (n, size); integers of a known count as one-hot vectors."""
    space, n = part.space, values.shape[0]
    if isinstance(space, spaces.Discrete):
        return nn.functional.one_hot(values.reshape(n).long() - int(space.start), int(space.n)).float()
    if isinstance(space, spaces.MultiDiscrete):
        integers = values.reshape(n, -1).long() - torch.as_tensor(space.start.ravel(), device=values.device)
        counts = space.nvec.ravel()
        return torch.cat([nn.functional.one_hot(integers[:, i], int(c)).float() for i, c in enumerate(counts)], -1)
    return values.reshape(n, -1).float()


def _scale(space: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what to subtract from an image and what to divide it by, so that it lies within 0 … 1."""
    low, high = (np.asarray(side, np.float32) for side in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return torch.zeros(()), torch.ones(())
    span = np.where(high > low, high - low, 1)
    if (low == low.flat[0]).all() and (span == span.flat[0]).all():
        low, span = low.flat[0], span.flat[0]
    return torch.as_tensor(low), torch.as_tensor(span)


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device
