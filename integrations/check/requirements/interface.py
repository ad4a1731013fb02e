"""Requirements on the interface beside episodes: spaces, metadata, closing and rendering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..differences import values_differ
from ..drivers.base import NotAvailable
from ..outcome import PASSED, Outcome, failed, skipped
from ..requirement import Requirement
from ..transition import copy_value

if TYPE_CHECKING:
    from ..env_under_test import EnvUnderTest


def same_spaces(env: EnvUnderTest) -> Outcome:
    """A space is the same object in each call."""
    driver = env.driver
    for name, get in driver.spaces().items():
        if not driver.same_space(get(), get()):
            return failed(f"{name} is a new object in each call; seeding it has no effect")
    return PASSED


def metadata_stays(env: EnvUnderTest) -> Outcome:
    """Building, playing and closing an environment do not change the metadata."""
    before = copy_value(env.driver.metadata)
    if env.independent:
        with env.temporary_driver() as driver:
            env.collector(driver).collect(1, 3)
    difference = values_differ(before, env.driver.metadata, "metadata")
    if difference is None:
        return PASSED
    return failed(f"{difference}, after another environment was built, played and closed")


def closes_twice(env: EnvUnderTest) -> Outcome:
    """A second call of close() raises no error."""
    if not env.independent:
        return skipped("the only environment stays open")
    driver = env.new_driver()
    driver.reset(env.extent.seed)
    driver.close()
    try:
        driver.close()
    except Exception as error:
        return failed(f"the second close() raises {type(error).__name__}: {error}")
    return PASSED


def renders(env: EnvUnderTest) -> Outcome:
    """render() returns a value of the render mode."""
    mode = env.driver.render_mode
    with env.temporary_driver() as driver:
        collector = env.collector(driver)
        for _ in range(3):
            collector.advance(env.trace_limit)
            try:
                image = driver.render()
            except NotAvailable:
                return skipped("a window would open" if mode == "human" else "it was made without a render mode")
            if mode == "rgb_array":
                if driver.kind != "batch" and not _is_rgb(image):
                    expected = "uint8 of shape (height, width, 3)"
                    return failed(f"render() in the mode rgb_array: expected {expected}, got {_described(image)}")
            elif image is None:
                return failed(f"render() in the mode {mode!r} returns None")
    return PASSED


def _is_rgb(image: Any) -> bool:
    return isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[-1] == 3 and image.dtype == np.uint8


def _described(image: Any) -> str:
    return f"{image.dtype} of shape {image.shape}" if isinstance(image, np.ndarray) else repr(image)


INTERFACE = (
    Requirement(
        "same-spaces", "A space is the same object in each call (in dm_env an equal one).", (18,), same_spaces,
        on_forms=True,
    ),
    Requirement(
        "metadata-stays", "Building, playing and closing an environment do not change the metadata.", (29,),
        metadata_stays,
    ),
    Requirement("closes-twice", "close() can be called again.", (26,), closes_twice, on_forms=True),
)  # fmt: skip

RENDERING = (Requirement("renders", "render() returns a value of the render mode.", (29,), renders),)
