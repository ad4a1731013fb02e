"""Conversion of core observations for neural networks: to one float32 array, or to images and such an array.

With `structured_plan`, for networks with convolutions, images stay images, and all else is one flat vector:

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
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Array, Discrete, Foreign, LossyConversion, MultiDiscrete, Spec, SpecError, Text
from envoi.spec import SpecTree
from envoi.spec.arrays import ARRAYS
from envoi.tree import children, leaves

from ..shared.array_specs import array_form

IMAGE_SIZES = (42, 64, 84, 96)
"""The heights and widths of square images for which RLlib has default convolutions."""

MAX_CHANNELS_FIRST = 16
"""An array is (channels, height, width) if its first axis is the shortest, and at most this long."""

MIN_GRAY = 8
"""The least height and width of an array of two axes that is an image of one channel, and not a table of numbers."""


def is_image(spec: Spec) -> TypeGuard[Array]:
    """Returns True for an array that convolutions suit.

    These are arrays of three axes, (height, width, channels) or (channels, height, width), of unsigned integers or of
    floating-point numbers with finite bounds (or square ones of a size in `IMAGE_SIZES`, with any bounds); and uint8
    arrays of shape (height, width), both at least `MIN_GRAY`.
    """
    if not isinstance(spec, Array) or 0 in spec.shape:
        return False
    if len(spec.shape) == 2:
        return spec.dtype == np.uint8 and min(spec.shape) >= MIN_GRAY
    if len(spec.shape) != 3:
        return False
    if spec.dtype.kind != "f":
        return spec.dtype.kind == "u"
    return is_square_image(spec) or bool(np.isfinite(array_form(spec, "observation", NAME).bounds).all())


def is_square_image(spec: Any) -> TypeGuard[Array]:
    """Returns True for an array that RLlib's own networks treat as an image: square, of a size in `IMAGE_SIZES`."""
    if not isinstance(spec, Array) or len(spec.shape) != 3 or spec.dtype.kind not in "uf":
        return False
    return spec.shape[0] == spec.shape[1] and spec.shape[0] in IMAGE_SIZES


def reorder(spec: Array) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns a function that puts the axes of an image, or of n images, in the order height, width, channels."""
    if len(spec.shape) == 2:
        return lambda pixels: pixels[..., None]
    channels, height, width = spec.shape
    if channels <= MAX_CHANNELS_FIRST and channels < min(height, width):
        return lambda pixels: np.moveaxis(pixels, -3, -1)
    return lambda pixels: pixels


def image_space(spec: Array) -> spaces.Box:
    """Returns the space of an image: (height, width, channels), uint8 as it is, and float32 for any other dtype."""
    is_byte = spec.dtype == np.uint8
    least, most = (0, 255) if is_byte else (0, 1) if spec.dtype.kind == "u" else (-np.inf, np.inf)
    low, high = (spec.low, spec.high) if is_byte or spec.dtype.kind == "f" else (None, None)
    order, dtype = reorder(spec), np.uint8 if is_byte else np.float32
    with np.errstate(over="ignore"):  # a bound beyond float32's range becomes infinite
        ends = [
            order(np.broadcast_to(end if side is None else side, spec.shape)).astype(dtype)
            for side, end in ((low, least), (high, most))
        ]
    return spaces.Box(ends[0], ends[1], dtype=dtype)


def image_encoder(spec: Array) -> Callable[[Any], NDArray[Any]]:
    """Returns a function that converts an image, or a batch of n images, to `image_space`."""
    order = reorder(spec)
    if spec.dtype == np.uint8:  # episodes and replay buffers take a quarter of the memory; the network scales them
        return lambda value: order(np.asarray(value))
    numbers = scaled(spec)
    return lambda value: order(numbers(value))


def scaled(spec: Array) -> Callable[[Any], NDArray[np.float32]]:
    """Returns a function that converts an array to float32; unsigned integers to 0 … 1."""
    if spec.dtype.kind == "u":
        most = np.float32(np.iinfo(spec.dtype).max)
        return lambda value: np.divide(value, most, dtype=np.float32, casting="same_kind")

    def encode(value: Any) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):  # a number beyond float32's range becomes infinite
            return np.asarray(value, np.float32)

    return encode


NAME = "rllib"

MAX_ONE_HOT = 1024
"""An integer leaf with at most this many values becomes one-hot; one with more becomes numbers."""

_EXACT = 2**24
"""Integers up to this one are exact in float32."""


def _is_one_hot(spec: Spec) -> TypeGuard[Discrete | MultiDiscrete]:
    counts = spec.n if isinstance(spec, Discrete) else spec.nvec.sum() if isinstance(spec, MultiDiscrete) else np.inf
    return bool(counts <= MAX_ONE_HOT)


def flat(value: Any) -> NDArray[np.float32]:
    """Returns numbers of any shape as a float32 array of one axis."""
    with np.errstate(over="ignore"):  # a bound beyond float32's range becomes infinite
        return np.asarray(value, np.float32).ravel()


Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]
Encode = Callable[[Any], Any]


class _Leaf(NamedTuple):
    """A leaf as a part of one flat float32 vector: conversions of a value and of n lanes' values, and its bounds."""

    one: Encode
    lanes: Encode
    bounds: Bounds


def _one_hot(spec: Discrete | MultiDiscrete) -> _Leaf:
    """Returns a leaf whose integers become concatenated one-hot vectors."""
    counts, first = np.ravel(spec.n if isinstance(spec, Discrete) else spec.nvec), np.ravel(spec.start)
    size, offsets = int(counts.sum()), np.cumsum(counts) - counts

    def places(integers: NDArray[Any], named: Iterable[tuple[str, Any]]) -> NDArray[np.int64]:
        index = (integers - first).astype(np.int64)
        if np.count_nonzero((index < 0) | (index >= counts)):  # would mark an element of another integer
            for path, value in named:
                spec.validate(np.asarray(value, spec.dtype)[()], path)
        return offsets + index

    def mark(value: Any) -> NDArray[np.float32]:
        lanes = np.asarray(value)
        named = ((f"observation of lane {lane}", integers) for lane, integers in enumerate(lanes))
        result = np.zeros((len(lanes), size), np.float32)
        result[np.arange(len(lanes))[:, None], places(lanes.reshape(len(lanes), -1), named)] = 1
        return result

    def mark_one(value: Any) -> NDArray[np.float32]:
        result = np.zeros(size, np.float32)
        if not isinstance(spec, Discrete):
            result[places(np.ravel(value), [("observation", value)])] = 1
            return result
        index = int(value) - spec.start
        if index < 0:  # numpy would count from the end; beyond the end it raises IndexError itself
            raise SpecError(f"observation: expected {spec.start} … {spec.start + size - 1}, got {value}")
        result[index] = 1
        return result

    return _Leaf(mark_one, mark, _unit(size))


def observation_leaf(spec: Spec, path: str) -> _Leaf:
    """Returns a leaf of an observation as a part of one flat vector."""
    if _is_one_hot(spec):
        return _one_hot(spec)
    if isinstance(spec, ARRAYS) and spec.dtype.kind in "biuf":
        size = int(np.prod(spec.shape))
        if is_image(spec) and spec.dtype.kind == "u":  # numbers from 0 to 1 even where an image is flattened
            numbers = scaled(spec)
            return _Leaf(
                lambda value: numbers(value).ravel(), lambda value: numbers(value).reshape(len(value), -1), _unit(size)
            )
        form = array_form(spec, path, NAME)
        least, most = (0, 1) if spec.dtype.kind == "b" else (-np.inf, np.inf)
        low = np.full(size, least, np.float32) if form.low is None else flat(form.low)
        high = np.full(size, most, np.float32) if form.high is None else flat(form.high)
        return _Leaf(flat, _rows, (low, high))
    raise LossyConversion(path, "type", repr(spec), NAME, "wrap the environment so that it shows an array")


def _rows(value: Any) -> NDArray[np.float32]:
    """Returns the numbers of n lanes as a float32 array of shape (n, size)."""
    with np.errstate(over="ignore"):
        return np.asarray(value, np.float32).reshape(len(value), -1)


def _unit(size: int) -> Bounds:
    return np.zeros(size, np.float32), np.ones(size, np.float32)


def _box(parts: Iterable[_Leaf], path: str) -> spaces.Box:
    low, high = (np.concatenate(side) for side in zip(_unit(0), *(part.bounds for part in parts), strict=True))
    if not low.size:
        raise LossyConversion(path, "size", "0 numbers", NAME, "RLlib trains on at least one")
    return spaces.Box(low, high, dtype=np.float32)


def observation_plan(spec: SpecTree, path: str) -> tuple[spaces.Box, Encode, Encode]:
    """Returns the space of an observation, and the functions that convert one, and those of n lanes, to it."""
    if is_square_image(spec):
        image = scaled(spec)
        if spec.dtype.kind == "u":
            return spaces.Box(0.0, 1.0, spec.shape, np.float32), image, image
        low = -np.inf if spec.low is None else flat(spec.low).reshape(spec.shape)
        high = np.inf if spec.high is None else flat(spec.high).reshape(spec.shape)
        return spaces.Box(low, high, spec.shape, np.float32), image, image
    parts = [observation_leaf(leaf, at) for at, leaf in leaves(spec, path)]
    space = _box(parts, path)
    if isinstance(spec, Spec):
        is_plain = isinstance(spec, Array) and len(spec.shape) == 1 and spec.dtype == np.float32
        return space, (lambda value: value) if is_plain else parts[0].one, parts[0].lanes

    def joined(encodes: list[Encode]) -> Encode:
        return lambda value: np.concatenate(
            [encode(leaf) for encode, leaf in zip(encodes, values_of(spec, value), strict=True)], -1
        )

    return space, joined([part.one for part in parts]), joined([part.lanes for part in parts])


def values_of(spec: SpecTree, value: Any) -> list[Any]:
    """Returns the leaves of a value, in the order of its spec."""
    if isinstance(spec, Spec):
        return [value]
    return [leaf for _, key, sub in children(spec) for leaf in values_of(sub, value[key])]


def is_wide(spec: Spec) -> bool:
    """Returns True if a spec has floating-point numbers that float32 rounds."""
    return isinstance(spec, Array) and spec.dtype.kind == "f" and spec.dtype.itemsize > 4 and 0 not in spec.shape


def narrows(spec: Spec) -> bool:
    """Returns True if some values of a spec are not exact in float32."""
    if not isinstance(spec, (Array, Discrete, MultiDiscrete)) or _is_one_hot(spec):
        return False
    if spec.dtype.kind not in "iu":
        return is_wide(spec)
    ends = np.array(array_form(spec, "observation", NAME).bounds, float)
    return bool((np.abs(ends) > _EXACT).any())


VECTOR = "vector"
"""The key of the flat rest beside images."""

WORD_BINS = 64
"""The number of bins for the words of a text. Words with equal CRC-32 modulo this number share a bin."""


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
    """Returns the space of an observation with its images, and the functions that convert core observations to it."""
    found = list(leaves(spec, path))
    if not any(is_image(leaf) or is_text(leaf) for _, leaf in found):
        return observation_plan(spec, path)
    names = _names(spec)
    images = [(names[index], index, leaf) for index, (_, leaf) in enumerate(found) if is_image(leaf)]
    rest = {
        index: _words_leaf() if is_text(leaf) else observation_leaf(leaf, at)
        for index, (at, leaf) in enumerate(found)
        if not is_image(leaf)
    }
    made: dict[str, spaces.Space[Any]] = {name: image_space(leaf) for name, _, leaf in images}
    if not images or any(part.bounds[0].size for part in rest.values()):
        made[VECTOR] = _box(rest.values(), path)
    image_encoders = [(name, index, image_encoder(leaf)) for name, index, leaf in images]
    is_one = len(made) == 1

    def encoder(vector_encoders: dict[int, Encode]) -> Encode:
        def encode(value: Any) -> Any:
            values = values_of(spec, value)
            result = {name: convert(values[index]) for name, index, convert in image_encoders}
            if VECTOR in made:
                parts = [convert(values[index]) for index, convert in vector_encoders.items()]
                result[VECTOR] = np.concatenate(parts, -1)
            return next(iter(result.values())) if is_one else result

        return encode

    one = encoder({index: part.one for index, part in rest.items()})
    lanes = encoder({index: part.lanes for index, part in rest.items()})
    return (next(iter(made.values())) if is_one else spaces.Dict(OrderedDict(made))), one, lanes


def _words_leaf() -> _Leaf:
    bounds = np.zeros(WORD_BINS, np.float32), np.full(WORD_BINS, np.inf, np.float32)
    return _Leaf(words, lambda texts: np.stack([words(str(text)) for text in texts]), bounds)


def _names(spec: SpecTree) -> list[str]:
    """Names each leaf by the keys on its path, joined by slashes. If these names are not unique, uses the paths."""
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
