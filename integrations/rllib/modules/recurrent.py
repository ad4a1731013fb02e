"""RLlib's LSTM for observations that are not one array, which its own does not take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT
from ray.rllib.core.models.configs import RecurrentEncoderConfig
from ray.rllib.core.models.torch.encoder import TorchLSTMEncoder
from torch.utils import _pytree as pytree


@dataclass
class NestedRecurrentConfig(RecurrentEncoderConfig):
    """RLlib's config of an LSTM whose tokenizer takes nested observations."""

    def build(self, framework: str = "torch") -> NestedLSTMEncoder:
        """Builds the encoder, with torch."""
        return NestedLSTMEncoder(self)


class NestedLSTMEncoder(TorchLSTMEncoder):
    """Encodes nested observations of shape (n, time, …) by a tokenizer, and the tokens by RLlib's LSTM.

    Args:
        config: RLlib's config, with a tokenizer.
    """

    def __init__(self, config: NestedRecurrentConfig) -> None:
        super().__init__(config)
        # RLlib's own step with a tokenizer reads the shape of the observation, which a dict does not have.
        tokenizer: Any = self.tokenizer
        self.observation_tokenizer, self.tokenizer = tokenizer, None

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        observation = inputs[Columns.OBS]
        n, time = pytree.tree_leaves(observation)[0].shape[:2]
        folded = pytree.tree_map(lambda leaf: leaf.reshape(n * time, *leaf.shape[2:]), observation)
        tokens: torch.Tensor = self.observation_tokenizer({Columns.OBS: folded})[ENCODER_OUT]
        return super()._forward({**inputs, Columns.OBS: tokens.reshape(n, time, -1)}, **kwargs)
