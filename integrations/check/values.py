"""Requirements on the values of an environment: each reset's and step's, looked at as it comes, and again later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, Spec, SpecError, validate
from envoi.adapters.shared.arrival import incoming
from envoi.spec import SpecTree
from envoi.spec.base import shown
from envoi.tree import is_branch, leaves, rebuild

from ..errors import describe
from .hands import Hand
from .play import Moment, values_differ
from .requirement import PASSED, Found, Requirement, failed, skipped

if TYPE_CHECKING:
    from .subject import Subject

_ARRAYS = (Array, MultiDiscrete, MultiBinary)
_RECENT = 6
"""Values of so many last calls are looked at again at each step."""
_FOREVER = 24
"""Values of so many resets and ends are looked at again at the end."""


class Watch:
    """Looks at each call's values, and keeps the first complaint about each requirement.

    Args:
        hand: The environment.

    Attributes:
        complaints: By the key of the requirement.
        calls: How many calls were seen.
    """

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.complaints: dict[str, str] = {}
        self.calls = 0
        self._held: deque[_Held] = deque()
        self._forever: list[_Held] = []
        self._infos: dict[int, tuple[Any, str]] = {}

    def complain(self, key: str, reason: str, moment: Moment) -> None:
        """Notes a complaint, unless there is one about the requirement already."""
        self.complaints.setdefault(key, f"{reason} ({moment.where})")

    def see(self, moment: Moment) -> None:
        """Looks at a call's values."""
        self.calls += 1
        self._look_again(moment, self._held)
        self._see_observations(moment)
        self._see_numbers(moment)
        self._see_infos(moment)
        self._hold(moment)

    def finish(self) -> None:
        """Looks once more at what came long ago."""
        for held in self._forever:
            self._changed(held, "a later call")

    def _see_observations(self, moment: Moment) -> None:
        for agent, value in moment.beat.observations.items():
            path = self.hand.label("observation", agent)
            if agent not in self.hand.observation_specs:
                self.complain("observation-in-spec", f"{path}: nothing is declared for it", moment)
                continue
            wrong, key = fits(self.hand.observation_specs[agent], value, path, self.hand.exact_specs)
            if wrong is not None:
                self.complain(key, wrong, moment)

    def _see_numbers(self, moment: Moment) -> None:
        beat, hand = moment.beat, self.hand
        for agent, value in beat.rewards.items():
            path = hand.label("reward", agent)
            missing = _no_number(value, path)
            if missing is not None:
                self.complain("reward-given", missing, moment)
            elif agent in hand.reward_specs and agent not in beat.begun:
                wrong = _number_fits(hand.reward_specs[agent], value, path)
                if wrong is not None:
                    self.complain("reward-in-spec", wrong, moment)
        for agent, value in beat.discounts.items():
            if agent in hand.discount_specs and agent not in beat.begun:
                path = hand.label("discount", agent)
                wrong = _no_number(value, path) or _number_fits(hand.discount_specs[agent], value, path)
                if wrong is not None:
                    self.complain("discount-in-spec", wrong, moment)
        for name in ("terminated", "truncated"):
            for agent, value in getattr(beat, name).items():
                if not isinstance(value, (bool, np.bool_)):
                    path = hand.label(name, agent)
                    self.complain("flags-are-bools", f"{path}: expected a bool, got {shown(value)}", moment)

    def _see_infos(self, moment: Moment) -> None:
        for agent, info in moment.beat.infos.items():
            path = self.hand.label("info", agent)
            if not isinstance(info, dict):
                self.complain("info-is-dict", f"{path}: expected a dict, got {shown(info)}", moment)
            elif self.hand.says_infos and self.hand.fresh_infos:
                before = self._infos.get(id(info))
                if before is not None:
                    self.complain("info-stays", f"{path}: the very dict of {before[1]} again", moment)
                # Held, so that its address stays its own.
                self._infos[id(info)] = info, moment.where

    def _hold(self, moment: Moment) -> None:
        beat, at = moment.beat, moment.where
        kept = moment.kept
        held: list[_Held] = []
        if self.hand.kind == "several" and isinstance(beat.observations, dict):
            held.append(_Held("observation-stays", "observations", at, beat.observations, kept.observations))
        for agent, value in beat.observations.items():
            if _can_change(value):
                label = self.hand.label("observation", agent)
                held.append(_Held("observation-stays", label, at, value, kept.observations[agent]))
        if self.hand.says_infos:
            for agent, info in beat.infos.items():
                label = self.hand.label("info", agent)
                held.append(_Held("info-stays", label, at, info, kept.infos[agent]))
        for agent, value in moment.actions.items():
            if _can_change(value):
                one = _Held("action-stays", self.hand.label("action", agent), at, value, moment.given[agent])
                if not self._changed(one, at):
                    held.append(one)
        self._held.extend(held)
        while len(self._held) > _RECENT * max(1, 2 * len(self.hand.possible)):
            self._held.popleft()
        if (moment.step == 0 or beat.over) and len(self._forever) < _FOREVER:
            self._forever.extend(held)

    def _look_again(self, moment: Moment, held: deque[_Held]) -> None:
        for one in list(held):
            if self._changed(one, moment.where):
                held.remove(one)

    def _changed(self, held: _Held, when: str) -> bool:
        said = values_differ(held.kept, held.value, held.label)
        if said is None:
            return False
        reason = f"{said}: what {held.at} returned was changed by {when}"
        if held.key == "action-stays":
            reason = f"{said}: the action given in {held.at} was changed by {when}"
        self.complaints.setdefault(held.key, reason)
        return True


class _Held:
    __slots__ = ("at", "kept", "key", "label", "value")

    def __init__(self, key: str, label: str, at: str, value: Any, kept: Any) -> None:
        self.key, self.label, self.at, self.value, self.kept = key, label, at, value, kept


def _can_change(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return True
    return isinstance(value, (dict, list)) or (isinstance(value, tuple) and any(map(_can_change, value)))


# Values and their specs.


def fits(spec: SpecTree, value: Any, path: str, exact: bool = True) -> tuple[str | None, str]:
    """What is wrong with a value, or None, and the requirement that this is about.

    Args:
        spec: What it should be.
        value: As it came from the environment.
        path: How to call it.
        exact: Whether a Python number is no array of its dtype.
    """
    eased = _eased(spec, value, exact)
    try:
        validate(spec, eased, path)
    except SpecError as error:
        cast = _cast(spec, eased)
        try:
            validate(spec, cast, path)
        except SpecError as other:
            return str(other), "observation-in-spec"
        return str(error), "observation-dtype"
    return None, ""


def _eased(spec: SpecTree, value: Any, exact: bool) -> Any:
    """The value in the containers that the spec speaks of, which no framework but the core tells apart."""
    if not isinstance(spec, Spec):
        if isinstance(spec, dict) and isinstance(value, Mapping) and spec.keys() == value.keys():
            return {key: _eased(sub, value[key], exact) for key, sub in spec.items()}
        if isinstance(spec, (list, tuple)) and isinstance(value, (list, tuple)) and len(spec) == len(value):
            return rebuild(spec, [_eased(sub, part, exact) for sub, part in zip(spec, value, strict=True)])
        return value
    if isinstance(spec, (*_ARRAYS, Discrete)):
        if not exact and isinstance(spec, Array) and spec.shape == () and isinstance(value, (bool, int, float)):
            return np.asarray(value)
        return value
    try:
        return incoming(spec, True)(value)
    except Exception:
        return value


def _cast(spec: SpecTree, value: Any) -> Any:
    """The value in the dtypes of its spec, where only those were wrong."""
    if is_branch(spec):
        if isinstance(spec, dict) and isinstance(value, dict) and spec.keys() == value.keys():
            return {key: _cast(sub, value[key]) for key, sub in spec.items()}
        if not isinstance(spec, dict) and isinstance(value, (list, tuple)) and len(spec) == len(value):
            return rebuild(spec, [_cast(sub, part) for sub, part in zip(spec, value, strict=True)])
        return value
    if not isinstance(spec, (*_ARRAYS, Discrete)):
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            return value
        with np.errstate(all="ignore"):
            return array.astype(spec.dtype)
    except (TypeError, ValueError):
        return value


def _no_number(value: Any, path: str) -> str | None:
    """What is wrong with a reward or discount that is none, or not a number."""
    for where, leaf in leaves(value, path):
        if leaf is None:
            return f"{where}: None"
        try:
            array = np.asarray(leaf)
        except ValueError:
            return f"{where}: expected a number, got {shown(leaf)}"
        if array.dtype.kind not in "biufc":
            return f"{where}: expected a number, got {shown(leaf)}"
        if np.isnan(array).any():
            return f"{where}: nan"
    return None


def _number_fits(spec: SpecTree, value: Any, path: str) -> str | None:
    """What is wrong with a reward or discount; Python numbers stand for arrays there, in many environments."""
    if not isinstance(spec, Spec):
        if isinstance(spec, dict) != isinstance(value, dict) or not is_branch(value) or len(spec) != len(value):
            return f"{path}: expected a value of {spec!r}, got {shown(value)}"
        keys = list(spec) if isinstance(spec, dict) else range(len(spec))
        parts = (_number_fits(spec[key], value[key], f"{path}[{key!r}]") for key in keys)
        return next((said for said in parts if said is not None), None)
    if isinstance(spec, Array) and not is_branch(value):
        array = np.asarray(value)
        value = array.astype(spec.dtype) if np.can_cast(array.dtype, spec.dtype, "same_kind") else array
    try:
        validate(spec, value, path)
    except SpecError as error:
        return str(error)
    return None


# The requirements.


def plays(subject: Subject) -> Found:
    """Resets and steps raise nothing."""
    walk = subject.walk
    if walk.error is None:
        return PASSED
    error, when = walk.error
    return failed(f"{describe(error)} (in {when})")


def _watched(key: str, missing: Callable[[Subject], str] = lambda subject: "") -> Callable[[Subject], Found]:
    """The check that has a complaint of the walk's watch as its reason."""

    def check(subject: Subject) -> Found:
        watch = subject.walk.watch
        if key in watch.complaints:
            return failed(watch.complaints[key])
        why = missing(subject) or ("" if watch.calls else "no call succeeded")
        return skipped(why) if why else PASSED

    return check


def _no_infos(subject: Subject) -> str:
    return "" if subject.hand.says_infos else f"{subject.hand.api} does not return infos"


def _no_discounts(subject: Subject) -> str:
    return "" if subject.hand.discount_specs else f"{subject.hand.api} has no discounts"


def options_stay(subject: Subject) -> Found:
    """The options given to a reset are not written into."""
    if not subject.hand.takes_options:
        return skipped(f"{subject.hand.api} takes no options")
    options: dict[str, Any] = {}
    with subject.played() as hand:
        player = subject.player(hand)
        player.beat = hand.begin(subject.extent.seed, options)
        player.advance(subject.limit)
    return failed(f"options: {{}} became {options!r}") if options else PASSED


VALUES = (
    Requirement("plays", "Resets and steps raise no error.", (), plays, on_forms=True),
    Requirement(
        "observation-in-spec",
        "Every observation lies in its declared space, at resets, in episodes and at their ends.",
        (14, 16),
        _watched("observation-in-spec"),
        on_forms=True,
    ),
    Requirement(
        "observation-dtype",
        "Every observation is of the declared type and dtype.",
        (14,),
        _watched("observation-dtype"),
        on_forms=True,
    ),
    Requirement(
        "reward-given", "Every step gives a reward, never None and never nan.", (5,), _watched("reward-given"),
        on_forms=True,
    ),
    Requirement("reward-in-spec", "Every reward lies in its spec.", (4,), _watched("reward-in-spec"), on_forms=True),
    Requirement(
        "discount-in-spec",
        "Every discount is a number that lies in its spec.",
        (3,),
        _watched("discount-in-spec", _no_discounts),
        on_forms=True,
    ),
    Requirement(
        "flags-are-bools", "`terminated` and `truncated` are bools.", (1,), _watched("flags-are-bools"), on_forms=True
    ),
    Requirement(
        "info-is-dict", "Every info is a dict.", (6,), _watched("info-is-dict", _no_infos), on_forms=True
    ),
    Requirement(
        "info-stays",
        "Every info is a dict of its own, which later steps and resets do not change.",
        (8, 9),
        _watched("info-stays", _no_infos),
        on_forms=True,
    ),
    Requirement(
        "observation-stays",
        "An observation that was returned, a final one too, is not changed by later steps and resets.",
        (9,),
        _watched("observation-stays"),
        on_forms=True,
    ),
    Requirement(
        "action-stays",
        "The environment does not write into the action that it is given.",
        (8,),
        _watched("action-stays"),
        on_forms=True,
    ),
    Requirement(
        "options-stay",
        "The environment does not write into the options that it is given.",
        (8, 25),
        options_stay,
        on_forms=True,
    ),
)  # fmt: skip

VALUE_KEYS = tuple(requirement.key for requirement in VALUES)
"""Requirements on values, which an importer repairs or refuses."""
