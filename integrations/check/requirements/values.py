"""Requirements on values: observations, rewards, discounts, flags, infos, actions and options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import describe
from ..outcome import PASSED, Outcome, failed, skipped
from ..requirement import Requirement, no_violation, of_rollout

if TYPE_CHECKING:
    from ..env_under_test import EnvUnderTest
    from ..rollout import Rollout


def plays(rollout: Rollout) -> Outcome:
    """Resets and steps raise no error."""
    if rollout.error is None:
        return PASSED
    error, when = rollout.error
    return failed(f"{describe(error)} (in {when})")


def _no_infos(rollout: Rollout) -> str:
    return "" if rollout.driver.returns_infos else f"{rollout.driver.api} does not return infos"


def _no_discounts(rollout: Rollout) -> str:
    return "" if rollout.driver.discount_specs else f"{rollout.driver.api} has no discounts"


def options_stay(env: EnvUnderTest) -> Outcome:
    """A reset does not change the options that are passed to it."""
    if not env.driver.takes_options:
        return skipped(f"{env.driver.api} takes no options")
    options: dict[str, Any] = {}
    with env.temporary_driver() as driver:
        collector = env.collector(driver)
        collector.reply = driver.reset(env.extent.seed, options)
        collector.advance(env.trace_limit)
    return failed(f"options: {{}} became {options!r}") if options else PASSED


PLAYS = Requirement("plays", "Resets and steps raise no error.", (), of_rollout(plays), on_forms=True)

VALUES = (
    PLAYS,
    Requirement(
        "observation-in-spec",
        "Every observation lies in its declared space, at resets, in episodes and at their ends.",
        (14, 16),
        no_violation("observation-in-spec"),
        on_forms=True,
    ),
    Requirement(
        "observation-dtype",
        "Every observation is of the declared type and dtype.",
        (14,),
        no_violation("observation-dtype"),
        on_forms=True,
    ),
    Requirement(
        "reward-given", "Every step gives a reward, never None and never nan.", (5,), no_violation("reward-given"),
        on_forms=True,
    ),
    Requirement(
        "reward-in-spec", "Every reward lies in its spec.", (4,), no_violation("reward-in-spec"), on_forms=True
    ),
    Requirement(
        "discount-in-spec",
        "Every discount is a number that lies in its spec.",
        (3,),
        no_violation("discount-in-spec", _no_discounts),
        on_forms=True,
    ),
    Requirement(
        "flags-are-bools",
        "`terminated` and `truncated` are bools.",
        (1,),
        no_violation("flags-are-bools"),
        on_forms=True,
    ),
    Requirement(
        "info-is-dict", "Every info is a dict.", (6,), no_violation("info-is-dict", _no_infos), on_forms=True
    ),
    Requirement(
        "info-stays",
        "Every info is a new dict, which later steps and resets do not change.",
        (8, 9),
        no_violation("info-stays", _no_infos),
        on_forms=True,
    ),
    Requirement(
        "observation-stays",
        "Later steps and resets do not change an observation that was returned, a final one included.",
        (9,),
        no_violation("observation-stays"),
        on_forms=True,
    ),
    Requirement(
        "action-stays",
        "The environment does not change the action that is passed to it.",
        (8,),
        no_violation("action-stays"),
        on_forms=True,
    ),
    Requirement(
        "options-stay",
        "The environment does not change the options that are passed to it.",
        (8, 25),
        options_stay,
        on_forms=True,
    ),
)  # fmt: skip

VALUE_KEYS = tuple(requirement.key for requirement in VALUES)
"""Keys of requirements whose violations an importer repairs or refuses."""
