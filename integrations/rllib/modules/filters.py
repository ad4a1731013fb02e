"""Convolutions for images of any size, in RLlib's notation `[channels, kernel, stride]`."""

from __future__ import annotations

MAX_MAP = 11
"""The largest height and width of the map that the convolutions leave."""

_WIDE = 64
"""Images with a side of at least this length begin with a kernel of 8 and a stride of 4, as in Mnih et al. (2015)."""

_CHANNELS = (16, 32, 64)

Filter = list[int | list[int]]


def conv_filters(height: int, width: int) -> list[Filter]:
    """Returns convolutions that halve an image until both sides of the map are at most `MAX_MAP`.

    A side that is short enough keeps its length, so any proportions will do. With RLlib's padding "same", a stride s
    leaves ⌈n / s⌉ of n pixels. The last layer has a stride of 1, and a small image has two such layers.

    Args:
        height: The height of the image in pixels, at least 1.
        width: The width of the image in pixels, at least 1.
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
