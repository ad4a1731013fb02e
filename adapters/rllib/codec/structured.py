"""Observations for networks with convolutions: images stay images, and all else is one flat vector.

| observation | canonical form |
|---|---|
| no image | one flat float32 `Box` |
| one image and nothing else | a `Box` of shape (height, width, channels) |
| images, and possibly other leaves | a `Dict`: each image under its path (`"camera/left"`), the rest as `"vector"` |

Text, which has no canonical form otherwise, is a bag of words: the number of words in each of `WORD_BINS` bins.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Foreign, LossyConversion, Spec, Text
from envoi.spec import SpecTree
from envoi.tree import children, leaves

from .images import image_encoder, image_space, is_image
from .observations import (
    NAME,
    Bounds,
    batch_leaf,
    batch_observation_plan,
    observation_leaf,
    observation_plan,
    values_of,
)

VECTOR = "vector"
"""The key of the flat rest beside images."""

WORD_BINS = 64
"""The number of bins for the words of a text. Words with equal CRC-32 modulo this number share a bin."""

Encode = Callable[[Any], Any]


def is_text(spec: Spec) -> bool:
    """Returns True for strings, including those of spaces of another package, such as minigrid's missions."""
    if isinstance(spec, Foreign):
        dtype = getattr(spec.origin, "dtype", None)
        return dtype is not None and np.dtype(dtype).kind == "U"
    return isinstance(spec, Text)


def words(text: str) -> NDArray[np.float32]:
    """Returns the number of words of a text in each bin, of shape (WORD_BINS,); the order of words is lost."""
    bins = [zlib.crc32(word.encode()) % WORD_BINS for word in text.lower().split()]
    return np.bincount(bins, minlength=WORD_BINS).astype(np.float32)


def structured_plan(spec: SpecTree, path: str) -> tuple[spaces.Space[Any], Encode, Encode]:
    """Returns the space of an observation with its images, and the functions that convert core observations to it.

    Args:
        spec: The core's observation spec.
        path: The spec's path, for errors.

    Returns:
        The space; a function of one observation; and a function of the observations of n lanes.

    Raises:
        LossyConversion: A leaf has no canonical form, or the observation has no numbers at all.
    """
    found = list(leaves(spec, path))
    if not any(is_image(leaf) or is_text(leaf) for _, leaf in found):
        space, encode = observation_plan(spec, path)
        return space, encode, batch_observation_plan(spec)
    names = _names(spec)
    images = {index: leaf for index, (_, leaf) in enumerate(found) if is_image(leaf)}
    rest = [(index, leaf, *_vector_leaf(leaf, at)) for index, (at, leaf) in enumerate(found) if index not in images]
    made: dict[str, spaces.Space[Any]] = {names[index]: image_space(leaf) for index, leaf in images.items()}
    bounds = [bound for *_, bound in rest]
    if any(low.size for low, _ in bounds):
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        made[VECTOR] = spaces.Box(low, high, dtype=np.float32)
    if not made:
        raise LossyConversion(path, "size", "0 numbers", NAME, "RLlib trains on at least one")
    image_encoders = [(names[index], index, image_encoder(leaf)) for index, leaf in images.items()]
    is_one = len(made) == 1

    def encoder(vector_encoders: list[tuple[int, Encode]]) -> Encode:
        def encode(value: Any) -> Any:
            values = values_of(spec, value)
            result = {name: convert(values[index]) for name, index, convert in image_encoders}
            if VECTOR in made:
                result[VECTOR] = np.concatenate([convert(values[index]) for index, convert in vector_encoders], -1)
            return next(iter(result.values())) if is_one else result

        return encode

    one = encoder([(index, convert) for index, _, convert, _ in rest])
    lanes = encoder([(index, _batch_vector_leaf(leaf)) for index, leaf, _, _ in rest])
    return (next(iter(made.values())) if is_one else spaces.Dict(OrderedDict(made))), one, lanes


def _vector_leaf(spec: Spec, path: str) -> tuple[Encode, Bounds]:
    if is_text(spec):
        return words, (np.zeros(WORD_BINS, np.float32), np.full(WORD_BINS, np.inf, np.float32))
    return observation_leaf(spec, path)


def _batch_vector_leaf(spec: Spec) -> Encode:
    return (lambda texts: np.stack([words(str(text)) for text in texts])) if is_text(spec) else batch_leaf(spec)


def _names(spec: SpecTree) -> list[str]:
    """Returns a name for each leaf: the keys on its path, joined by slashes, or where that is not unique, its path."""
    plain = ["/".join(map(str, keys)) for keys in _keys(spec)]
    if len({*plain, VECTOR}) == len(plain) + 1:
        return plain
    return [path for path, _ in leaves(spec)]


def _keys(spec: SpecTree) -> Iterator[tuple[Any, ...]]:
    if isinstance(spec, Spec):
        yield ()
        return
    for _, key, sub in children(spec):
        for keys in _keys(sub):
            yield (key, *keys)
