"""Which leaves of an observation are images, and their conversion to arrays of shape (height, width, channels)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Array, Spec

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
    return spec.dtype.kind == "u" or (spec.dtype.kind == "f" and (_is_bounded(spec) or is_square_image(spec)))


def is_square_image(spec: Any) -> TypeGuard[Array]:
    """Returns True for an array that RLlib's own networks treat as an image: square, of a size in `IMAGE_SIZES`."""
    if not isinstance(spec, Array) or len(spec.shape) != 3 or spec.dtype.kind not in "uf":
        return False
    return spec.shape[0] == spec.shape[1] and spec.shape[0] in IMAGE_SIZES


def _is_bounded(spec: Array) -> bool:
    if spec.low is None or spec.high is None:
        return False
    return bool(np.isfinite(spec.low).all() and np.isfinite(spec.high).all())


def reorder(spec: Array) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns a function that puts the axes of an image, or of n images, in the order height, width, channels.

    Args:
        spec: The spec of an image, see `is_image`.
    """
    if len(spec.shape) == 2:
        return lambda pixels: pixels[..., None]
    channels, height, width = spec.shape
    if channels <= MAX_CHANNELS_FIRST and channels < min(height, width):
        return lambda pixels: np.moveaxis(pixels, -3, -1)
    return lambda pixels: pixels


def image_space(spec: Array) -> spaces.Box:
    """Returns the space of an image: (height, width, channels), uint8 as it is, and float32 for any other dtype.

    Args:
        spec: The spec of an image, see `is_image`.
    """
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
    """Returns a function that converts an image, or a batch of n images, to `image_space`.

    A uint8 image keeps its bytes, so that episodes and replay buffers take a quarter of the memory; the network scales
    them. Wider unsigned integers are divided by the largest one.

    Args:
        spec: The spec of an image, see `is_image`.
    """
    order = reorder(spec)
    if spec.dtype == np.uint8:
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
