"""RLlib's catalogs, which choose the networks of its modules, with encoders for images and nested observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from ray.rllib.algorithms.bc.bc_catalog import BCCatalog
from ray.rllib.algorithms.dqn.dqn_catalog import DQNCatalog
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.sac.sac_catalog import SACCatalog
from ray.rllib.algorithms.tqc.tqc_catalog import TQCCatalog
from ray.rllib.core.models.catalog import Catalog
from ray.rllib.core.models.configs import CNNEncoderConfig, ModelConfig

import envoi

from .encoder import PartsEncoderConfig
from .filters import conv_filters
from .observation_parts import Part, is_flat, leaf_name, parts
from .recurrent import NestedRecurrentConfig


class StructuredCatalog(Catalog):
    """A catalog whose encoders take any observation of a fixed size: images, nested, beside an action mask.

    It honours all settings of RLlib's `DefaultModelConfig`; without `conv_filters` it computes them, see
    `conv_filters`. Observations of one flat array have the encoder of RLlib.
    """

    @classmethod
    def _get_encoder_config(
        cls, observation_space: Any, model_config_dict: dict[str, Any], action_space: Any = None
    ) -> ModelConfig:
        if is_flat(observation_space):
            return super()._get_encoder_config(observation_space, model_config_dict, action_space)
        settings = {**model_config_dict, "use_lstm": False}
        if model_config_dict["use_lstm"]:
            plain = super()._get_encoder_config(_vector_space(1), model_config_dict, action_space)
            tokens = cls._get_encoder_config(observation_space, settings, action_space)
            return NestedRecurrentConfig(**{**vars(plain), "input_dims": None, "tokenizer_config": tokens})
        found = parts(observation_space)
        images = [part for part in found if part.is_image]
        size, hidden = sum(part.size for part in found), list(settings["fcnet_hiddens"])

        def layers(inputs: int, sizes: list[int]) -> ModelConfig:
            return super(StructuredCatalog, cls)._get_encoder_config(
                _vector_space(inputs), {**settings, "fcnet_hiddens": sizes}, action_space
            )

        if not images:
            return PartsEncoderConfig(parts=found, vector=layers(size, hidden))
        convolutions: list[Any] = [cls._convolutions(part, settings) for part in images]
        vector = layers(size, hidden[:-1]) if size and hidden[:-1] else None
        inputs = (hidden[-2] if vector else size) + sum(one.output_dims[0] for one in convolutions)
        return PartsEncoderConfig(
            parts=found,
            convolutions=convolutions,
            vector=vector,
            fusion=layers(inputs, hidden[-1:]),
        )

    @classmethod
    def _convolutions(cls, part: Part, settings: dict[str, Any]) -> CNNEncoderConfig:
        shape: Any = part.space.shape
        height, width, _ = shape
        filters = settings["conv_filters"] or conv_filters(height, width)
        made: Any = super()._get_encoder_config(part.space, {**settings, "conv_filters": filters})
        if min(replace(made, flatten_at_end=False).output_dims) < 1:
            raise envoi.EnvoiError(
                f"{leaf_name(part.path)}: conv_filters {filters} leave nothing of {height} x {width} pixels; use "
                "smaller kernels or padding 'same', or leave conv_filters out"
            )
        return made


def _vector_space(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


class StructuredPPOCatalog(StructuredCatalog, PPOCatalog):
    """The catalog of PPO, APPO, IMPALA and MARWIL."""


class StructuredDQNCatalog(StructuredCatalog, DQNCatalog):
    """The catalog of DQN."""


class StructuredBCCatalog(StructuredCatalog, BCCatalog):
    """The catalog of BC."""


class StructuredSACCatalog(StructuredCatalog, SACCatalog):
    """The catalog of SAC and CQL."""


class StructuredTQCCatalog(StructuredCatalog, TQCCatalog):
    """The catalog of TQC."""
