"""Checks that environments can be the lanes of one batch."""

from __future__ import annotations

from collections.abc import Sequence

from ..authoring.model import Model
from ..errors import SpecError
from ..protocol.env import Env
from ..spec import SpecTree, spec_difference
from ..spec.base import shown


def check_alike(envs: Sequence[Env]) -> None:
    """Checks that environments have equal specs, names apart.

    Raises:
        SpecError: The specs of a lane differ from those of the first.
    """
    found = lanes_difference(envs)
    if found is not None:
        index, path, expected, came = found
        raise SpecError(
            f"lane {index}: {path}: expected {expected!r} as in lane 0, got {came!r}; give all lanes equal specs"
        )


def lanes_difference(envs: Sequence[Env]) -> tuple[int, str, SpecTree, SpecTree] | None:
    """Returns the first lane whose specs differ from those of lane 0, and the difference; None if all are equal."""
    for index, env in enumerate(envs):
        for what in ("observation", "action", "reward", "discount"):
            found = spec_difference(getattr(envs[0], f"{what}_spec"), getattr(env, f"{what}_spec"), what)
            if found is not None:
                return index, *found
    return None


def check_models(envs: Sequence[Env]) -> None:
    """Checks that environments are models, possibly wrapped, so that they can share random streams.

    Raises:
        SpecError: One is not.
    """
    for env in envs:
        if not isinstance(env.unwrapped, Model):
            raise SpecError(
                f"streams='batch': expected models, which take their random numbers as an argument, got {shown(env)}; "
                "leave out streams"
            )
