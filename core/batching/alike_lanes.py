"""Checks that environments can be the lanes of one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..authoring.model import Model
from ..errors import SpecError
from ..protocol.env import Env
from ..spec import SpecTree, spec_difference
from ..spec.base import shown


def check_alike(envs: Sequence[Env]) -> None:
    """Checks that environments have equal specs, names apart."""
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


def check_separate(envs: Mapping[int, Env]) -> None:
    """Checks that no two lanes have the same environment inside, which would be stepped once for each."""
    first: dict[int, int] = {}
    for lane, env in envs.items():
        other = first.setdefault(id(env.unwrapped), lane)
        if other != lane:
            raise SpecError(
                f"lanes {other} and {lane} are the same environment, {shown(env.unwrapped)}; give a function that "
                "makes a new one at each call, or the environment itself, which is copied"
            )


def check_models(envs: Sequence[Env]) -> None:
    """Checks that environments are models, possibly wrapped, so that they can share random streams."""
    for env in envs:
        if not isinstance(env.unwrapped, Model):
            raise SpecError(
                f"streams='batch': expected models, which take their random numbers as an argument, got {shown(env)}; "
                "leave out streams"
            )
