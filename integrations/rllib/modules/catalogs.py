"""RLlib's catalogs, which choose the networks of its modules, with encoders for images and nested observations.

                     image ── scaled to 0 … 1 ── convolutions ──┐
                     image ── scaled to 0 … 1 ── convolutions ──┼── concatenated ── fcnet_hiddens[-1] ── heads
    all other leaves, flat ── fcnet_hiddens[:-1] ───────────────┘

Without an image, it is RLlib's perceptron. Activations and initializers come from the user's `model_config`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.algorithms.bc.bc_catalog import BCCatalog
from ray.rllib.algorithms.dqn.dqn_catalog import DQNCatalog
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.sac.sac_catalog import SACCatalog
from ray.rllib.algorithms.tqc.tqc_catalog import TQCCatalog
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT, Encoder
from ray.rllib.core.models.catalog import Catalog
from ray.rllib.core.models.configs import CNNEncoderConfig, ModelConfig, RecurrentEncoderConfig
from ray.rllib.core.models.torch.base import TorchModel
from ray.rllib.core.models.torch.encoder import TorchLSTMEncoder
from ray.rllib.utils.torch_utils import one_hot
from torch import nn
from torch.utils import _pytree as pytree

import envoi
from envoi.adapters.rllib.masks import OBSERVATIONS, is_masked, unmasked

Path = tuple[Any, ...]
"""The keys that lead to a leaf of an observation."""


@dataclass(frozen=True)
class Part:
    """A leaf of an observation space."""

    path: Path
    space: spaces.Space[Any]
    size: int

    @property
    def is_image(self) -> bool:
        """True for an array of shape (height, width, channels)."""
        return not self.size


def is_flat(space: spaces.Space[Any]) -> bool:
    """Returns True for a `Box` of one axis, the only space that RLlib's own encoders take besides images."""
    return isinstance(space, spaces.Box) and len(space.shape) == 1


def parts(space: spaces.Space[Any]) -> list[Part]:
    """Returns the leaves of an observation space, without an action mask."""
    start: Path = (OBSERVATIONS,) if is_masked(space) else ()
    return list(_parts(unmasked(space), start))


def _parts(space: Any, path: Path) -> Iterator[Part]:
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _parts(inner, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _parts(inner, (*path, index))
    elif isinstance(space, spaces.Box):
        is_image = len(space.shape) == 3 and 0 not in space.shape
        yield Part(path, space, 0 if is_image else int(np.prod(space.shape)))
    elif isinstance(space, spaces.Discrete):
        yield Part(path, space, int(space.n))
    elif isinstance(space, spaces.MultiDiscrete):
        yield Part(path, space, int(space.nvec.sum()))
    elif isinstance(space, spaces.MultiBinary):
        yield Part(path, space, int(np.prod(space.shape)))
    else:
        raise envoi.EnvoiError(
            f"{leaf_name(path)}: no network encodes {space}; register the environment with canonical=True, or wrap it "
            "so that it shows an array"
        )


def leaf_name(path: Path) -> str:
    """Returns the name of a leaf in messages, such as `observation['camera']`."""
    keys = path[1:] if path[:1] == (OBSERVATIONS,) else path
    return "observation" + "".join(f"[{key!r}]" for key in keys)


MAX_MAP = 11
"""The largest height and width of the map that the convolutions leave."""

_WIDE = 64
"""Images with a side of at least this length begin with a kernel of 8 and a stride of 4, as in Mnih et al. (2015)."""

_CHANNELS = (16, 32, 64)

Filter = list[int | list[int]]


def conv_filters(height: int, width: int) -> list[Filter]:
    """Returns convolutions that halve an image until both sides of the map are at most `MAX_MAP`.

    A side that is short enough keeps its length, so any aspect ratio works. With RLlib's padding "same", a stride s
    leaves ⌈n / s⌉ of n pixels. The last layer has a stride of 1, and a small image has two such layers.
    """
    layers: list[Filter] = []
    size = [height, width]
    while max(size) > MAX_MAP:
        kernel, most = (8, 4) if not layers and max(size) >= _WIDE else (4, 2)
        strides = [next(s for s in (most, 2, 1) if s <= most and (s == 1 or n > MAX_MAP * s // 2)) for n in size]
        layers.append([_channels(layers), [kernel, kernel], strides])
        size = [-(-n // stride) for n, stride in zip(size, strides, strict=True)]
    if not layers:
        layers.append([_CHANNELS[0], [3, 3], 1])
    layers.append([_channels(layers), [3, 3], 1])
    return layers


def _channels(before: list[Filter]) -> int:
    return _CHANNELS[min(len(before), len(_CHANNELS) - 1)]


@dataclass
class PartsEncoderConfig(ModelConfig):
    """The layers of a `PartsEncoder`."""

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
    """Encodes observations of shape (n, …) as features of shape (n, k)."""

    def __init__(self, config: PartsEncoderConfig) -> None:
        TorchModel.__init__(self, config)
        Encoder.__init__(self, config)
        self._images = [(part, *_scale(part.space)) for part in config.parts if part.is_image]
        self._rest = [part for part in config.parts if part.size]
        self.convolutions = nn.ModuleList([one.build("torch") for one in config.convolutions])
        self.vector = None if config.vector is None else config.vector.build("torch")
        self.fusion = None if config.fusion is None else config.fusion.build("torch")

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        observation = inputs[Columns.OBS]
        found: list[torch.Tensor] = []
        for (part, low, span), convolutions in zip(self._images, self.convolutions, strict=True):
            pixels = _leaf(observation, part).float()
            pixels = (pixels - low.to(pixels.device)) / span.to(pixels.device)
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


def _flat(part: Part, values: Any) -> torch.Tensor:
    """Converts a leaf's values to numbers of shape (n, size); integers with a known number of values become one-hot."""
    space = part.space
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        start = torch.as_tensor(space.start, device=values.device)
        values = one_hot(values.reshape(-1, *start.shape) - start, space)
    return values.reshape(len(values), -1).float()


def _scale(space: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what to subtract from an image and what to divide it by, so that it lies within 0 … 1."""
    low, high = (np.asarray(side, np.float32) for side in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return torch.zeros(()), torch.ones(())
    span = np.where(high > low, high - low, 1)
    if (low == low.flat[0]).all() and (span == span.flat[0]).all():
        low, span = low.flat[0], span.flat[0]
    return torch.as_tensor(low), torch.as_tensor(span)


@dataclass
class NestedRecurrentConfig(RecurrentEncoderConfig):
    """RLlib's config of an LSTM whose tokenizer takes nested observations."""

    def build(self, framework: str = "torch") -> NestedLSTMEncoder:
        """Builds the encoder, with torch."""
        return NestedLSTMEncoder(self)


class NestedLSTMEncoder(TorchLSTMEncoder):
    """Encodes nested observations of shape (n, time, …) by a tokenizer, and the tokens by RLlib's LSTM."""

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


class StructuredCatalog(Catalog):
    """A catalog whose encoders take any observation of fixed size: images, nested ones, and action masks.

    It honours all settings of RLlib's `DefaultModelConfig`; without `conv_filters` it computes them, see
    `conv_filters`. Flat observations use RLlib's own encoder.
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
            parts=found, convolutions=convolutions, vector=vector, fusion=layers(inputs, hidden[-1:])
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
    """Catalog for PPO, APPO, IMPALA and MARWIL."""


class StructuredDQNCatalog(StructuredCatalog, DQNCatalog):
    """Catalog for DQN."""


class StructuredBCCatalog(StructuredCatalog, BCCatalog):
    """Catalog for BC."""


class StructuredSACCatalog(StructuredCatalog, SACCatalog):
    """Catalog for SAC and CQL."""


class StructuredTQCCatalog(StructuredCatalog, TQCCatalog):
    """Catalog for TQC."""
