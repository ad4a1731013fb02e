"""Requirements on the form of an environment in a framework: it can be made, and brought back unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envoi import AgentLanes, Env, LossyConversion, MissingBackend, MultiEnv, SpecError, spec_equal
from envoi import batch as make_batch
from envoi.adapters import FRAMEWORKS, Loss, convert, losses
from envoi.adapters.shared.agent_count import several_agents

from ..drivers import framework_driver
from ..drivers.base import Driver
from ..drivers.core import BatchDriver, core_driver
from ..env_under_test import EnvUnderTest, Extent
from ..requirement import PASSED, Outcome, Status, failed, skipped
from ..transitions import Collector, Transition, traces_differ, values_differ
from .randomness import REPRODUCIBLE

LANES = 2
"""Lanes of the batch that a single-agent environment becomes where a framework has batches only."""


def make_form(framework: str, core: Env | MultiEnv, exact: bool = False) -> Any:
    """Makes the form of a core environment."""
    if FRAMEWORKS[framework].only_lanes and isinstance(core, Env) and core.batch_size is None:
        return convert(core, framework, n=LANES)
    if framework == "rllib":
        creator = convert(lambda: core, framework, **({"canonical": False} if exact else {}))
        # In evaluation the same seed gives the same episode.
        return creator({"in_evaluation": True})
    return convert(core, framework)


def bring_back(framework: str, form: Any, simultaneous: bool = False) -> Env | MultiEnv:
    """Imports a form as if it were a foreign environment, rather than return its core."""
    if simultaneous and framework == "pettingzoo_aec":
        return _importer(framework, form)(form, simultaneous=True)
    return _importer(framework, form)(form)


def _importer(framework: str, form: Any) -> Any:
    """Returns the class of core environments that represent a framework's environments of the shape of a form."""
    if framework == "rllib":
        if isinstance(form.core, MultiEnv):
            from envoi.adapters.rllib.multi_source import FromRLlibMulti

            return FromRLlibMulti
        framework = "gymnasium" if form.core.batch_size is None else "gymnasium_vector"
    adapter: Any = FRAMEWORKS[framework].load()
    return adapter.FromTFAgentsBatch if getattr(form, "batched", False) else adapter.IMPORTER


def counterpart(returned: Env | MultiEnv, core: Env | MultiEnv) -> Env | MultiEnv:
    """Converts a core environment to the shape in which it was brought back: several agents, or lanes."""
    if isinstance(returned, MultiEnv):
        return several_agents(core)
    if returned.batch_size is None:
        return core
    if isinstance(core, MultiEnv):
        return AgentLanes(core)
    return core if core.batch_size is not None else make_batch(core, LANES)


FLOAT32 = 1e-6
"""Largest relative difference of numbers that were rounded to float32."""

WITH_REWARD_SPECS = ("dm_env", "tf_agents")
"""The frameworks that have specs of rewards and discounts."""

FORM_REQUIREMENTS = {
    "constructs": ("The environment takes the form of the framework.", (1, 2)),
    "loses-nothing": ("No value of it is refused, or narrowed.", (3, 4)),
    "specs-come-back": ("Brought back from there, its specs are equal.", (11,)),
    "trace-comes-back": ("Brought back from there, it gives the trace that it gives here.", (1, 2, 3, 4, 20)),
}
"""The requirements on each form by key: a sentence, and rows of the contract."""


class FormUnderTest:
    """The form of an environment in one framework."""

    def __init__(self, framework: str, env: EnvUnderTest, statuses: Mapping[str, Status]) -> None:
        self.framework, self.env, self._statuses = framework, env, statuses
        self._losses: list[Loss] = []
        self._is_env_itself = False

    def make(self, exact: bool = False) -> Any:
        """Makes a form, of a new environment where that is possible."""
        return make_form(self.framework, self.env.new_driver().core_env(), exact)

    def constructs(self) -> Outcome:
        """Decides whether the form can be made."""
        try:
            FRAMEWORKS[self.framework].load()
        except MissingBackend as error:
            return Outcome("not installed", str(error))
        try:
            core = self.env.driver.core_env()
        except LossyConversion as error:
            return Outcome("refused", f"envoi cannot import it: {error}")
        try:
            self._losses = losses(core, self.framework)
            refused = [str(loss) for loss in self._losses if loss.refused]
            if refused:
                return Outcome("refused", "; ".join(refused))
            if self.framework == "gymnasium_vector" and self._takes_turns():
                return Outcome("refused", "agents: they take turns, and the lanes of a vector env act at once")
            # Of the very environment under test, to detect that the form is that environment itself.
            form = make_form(self.framework, core)
        except (LossyConversion, SpecError) as error:
            return Outcome("refused", str(error))
        except MissingBackend as error:
            return Outcome("not installed", str(error))
        self._is_env_itself = form is self.env.driver.env
        return Outcome("passed", "it is the environment itself") if self._is_env_itself else PASSED

    def _takes_turns(self) -> bool:
        if self.env.driver.kind != "multi":
            return False
        replies = (transition.reply_copy for transition in self.env.reference)
        return any(len(reply.acting) < len(reply.agents) for reply in replies)

    def _mixes_turns(self) -> bool:
        """Returns True if sometimes some of the agents act together, and not all."""
        replies = (transition.reply_copy for transition in self.env.reference)
        return self._takes_turns() and any(len(reply.acting) > 1 for reply in replies)

    def loses_nothing(self) -> Outcome:
        """Decides whether values are narrowed."""
        narrowed = [str(loss) for loss in self._losses if not loss.refused]
        return Outcome("narrowed", "; ".join(narrowed)) if narrowed else PASSED

    def specs_come_back(self) -> Outcome:
        """Decides whether the specs are equal after a round trip."""
        returned = bring_back(self.framework, self.make(exact=True))
        original = counterpart(returned, self.env.new_driver().core_env())
        more = ("reward_spec", "discount_spec") if self.framework in WITH_REWARD_SPECS else ()
        for name in ("observation_spec", "action_spec", *more):
            one, other = getattr(original, name), getattr(returned, name)
            if isinstance(original, MultiEnv):
                one, other = dict(one), dict(other)
            if not spec_equal(one, other):
                return failed(f"{name}: {one!r} came back as {other!r}")
        return PASSED

    def trace_comes_back(self) -> Outcome:
        """Decides whether the trace is equal after a round trip."""
        env = self.env
        if self._statuses.get(REPRODUCIBLE) != "passed":
            return skipped(f"see {REPRODUCIBLE}")
        if self.framework == "pettingzoo_aec" and self._mixes_turns():
            return skipped("some of its agents act together, which AEC cannot express")
        form = self.make(exact=True)
        seed, limit = env.extent.seed, env.trace_limit
        returned = bring_back(self.framework, form, simultaneous=not self._takes_turns())
        original = counterpart(returned, env.new_driver().core_env())
        core_seed: Any = form.seeds.core_seed(seed) if self.framework == "rllib" else seed
        episodes = env.extent.episodes
        if FRAMEWORKS[self.framework].resets_at_end and isinstance(returned, Env):
            episodes = 1  # a reset without seeds would begin another one than the core's
            # A seed for each lane, because a framework may make them of one seed in its own way.
            seeds = [seed + index for index in range(returned.batch_size or 1)]
            # Lanes that share an episode take the seed of the first.
            seed, core_seed = seeds, seed if isinstance(original, AgentLanes) else seeds
        driver, other = core_driver(returned), core_driver(original)
        if isinstance(driver, BatchDriver) and isinstance(other, BatchDriver):
            other.restarts_in_step = driver.restarts_in_step
        actual = Collector(driver, seed).collect(episodes, limit)
        expected = Collector(other, core_seed).collect(episodes, limit)
        difference = traces_differ(expected, actual, driver)
        narrows = any(loss.field == "precision" for loss in self._losses)
        if difference is None or (narrows and _equal_within_float32(expected, actual)):
            return PASSED
        return failed(f"here against there: {difference}")

    def as_env_under_test(self) -> EnvUnderTest | None:
        """Returns the form, for the requirements that a form could break; None where its API has no driver."""
        if self._is_env_itself or framework_driver(self.make()) is None:
            return None
        extent = self.env.extent
        smaller = Extent(extent.seed, min(2, extent.episodes), min(300, extent.steps))
        return EnvUnderTest(self.framework, self._new_driver, smaller, self.env.independent)

    def _new_driver(self) -> Driver:
        driver = framework_driver(self.make())
        assert driver is not None
        return driver


def _equal_within_float32(one: list[Transition], other: list[Transition]) -> bool:
    """Returns True if two traces differ by no more than rounding to float32."""
    if len(one) != len(other):
        return False
    names = ("observations", "rewards", "terminated", "truncated", "discounts")
    return all(
        values_differ(dict(getattr(a.reply_copy, name)), dict(getattr(b.reply_copy, name)), name, FLOAT32) is None
        for a, b in zip(one, other, strict=True)
        for name in names
    )
