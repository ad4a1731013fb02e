"""Requirements on the form of an environment in a framework: it can be made, and brought back unchanged."""

from __future__ import annotations

from typing import Any

from envoi import AgentLanes, Env, LossyConversion, MissingBackend, MultiEnv, SpecError, spec_equal
from envoi import batch as make_batch
from envoi.adapters import FRAMEWORKS, Loss, convert, losses
from envoi.adapters.shared.exported import several_agents

from ..drivers import framework_driver
from ..drivers.core import BatchDriver, core_driver
from ..env_under_test import EnvUnderTest, Extent
from ..requirement import PASSED, Outcome, failed, requirement, skipped
from ..transitions import Collector, Transition, traces_differ, values_differ
from .randomness import REPRODUCIBLE

LANES = 2
"""Lanes of the batch that a single-agent environment becomes where a framework has batches only."""
FLOAT32 = 1e-6
"""Largest relative difference of numbers that were rounded to float32."""


class FormUnderTest:
    """The form of an environment in one framework."""

    def __init__(self, framework: str, env: EnvUnderTest) -> None:
        self.framework, self.env = framework, env
        self.losses: list[Loss] = []
        self.is_env_itself = False

    def make(self, core: Env | MultiEnv | None = None, exact: bool = False) -> Any:
        """Makes a form, of a new environment where that is possible; an exact one keeps specs as they are."""
        core = self.env.new_driver().core_env() if core is None else core
        if FRAMEWORKS[self.framework].only_lanes and isinstance(core, Env) and core.batch_size is None:
            return convert(core, self.framework, n=LANES)
        if self.framework == "rllib":
            creator = convert(lambda: core, self.framework, **({"canonical": False} if exact else {}))
            # In evaluation the same seed gives the same episode.
            return creator({"in_evaluation": True})
        return convert(core, self.framework)

    def bring_back(self) -> tuple[Any, Any, Any]:
        """Returns a form, what imports it as if it were a foreign environment, and the core in the same shape."""
        form = self.make(exact=True)
        simultaneous = self.framework == "pettingzoo_aec" and not self.takes_turns()
        returned = _importer(self.framework, form)(form, **({"simultaneous": True} if simultaneous else {}))
        return form, returned, _in_shape_of(returned, self.env.new_driver().core_env())

    def takes_turns(self, together: bool = False) -> bool:
        """Returns True if sometimes not all agents act, and, if asked for, sometimes some `together`."""
        if self.env.driver.kind != "multi":
            return False
        replies = [(len(one.reply_copy.acting), len(one.reply_copy.agents)) for one in self.env.reference]
        return any(acting < agents for acting, agents in replies) and (not together or max(replies)[0] > 1)

    def as_env_under_test(self) -> EnvUnderTest | None:
        """Returns the form, for the requirements that a form could break; None where its API has no driver."""
        new_driver: Any = lambda: framework_driver(self.make())  # noqa: E731
        if self.is_env_itself or new_driver() is None:
            return None
        extent = self.env.extent
        smaller = Extent(extent.seed, min(2, extent.episodes), min(300, extent.steps))
        return EnvUnderTest(self.framework, new_driver, smaller, self.env.independent)


def _importer(framework: str, form: Any) -> Any:
    """Returns the class of core environments that represent a framework's environments of the shape of a form."""
    if framework == "rllib":
        if isinstance(form.core, MultiEnv):
            from envoi.adapters.rllib.multi_source import FromRLlibMulti

            return FromRLlibMulti
        framework = "gymnasium" if form.core.batch_size is None else "gymnasium_vector"
    adapter: Any = FRAMEWORKS[framework].load()
    return adapter.FromTFAgentsBatch if getattr(form, "batched", False) else adapter.IMPORTER


def _in_shape_of(returned: Env | MultiEnv, core: Env | MultiEnv) -> Env | MultiEnv:
    """Converts a core environment to the shape in which it was brought back: several agents, or lanes."""
    if isinstance(returned, MultiEnv):
        return several_agents(core)
    if returned.batch_size is None:
        return core
    if isinstance(core, MultiEnv):
        return AgentLanes(core)
    return core if core.batch_size is not None else make_batch(core, LANES)


@requirement("constructs", 1, 2)
def constructs(form: FormUnderTest) -> Outcome:
    """The environment takes the form of the framework."""
    try:
        FRAMEWORKS[form.framework].load()
    except MissingBackend as error:
        return Outcome("not installed", str(error))
    try:
        core = form.env.driver.core_env()
    except LossyConversion as error:
        return Outcome("refused", f"envoi cannot import it: {error}")
    try:
        form.losses = losses(core, form.framework)
        refused = [str(loss) for loss in form.losses if loss.refused]
        if refused:
            return Outcome("refused", "; ".join(refused))
        if form.framework == "gymnasium_vector" and form.takes_turns():
            return Outcome("refused", "agents: they take turns, and the lanes of a vector env act at once")
        # Of the very environment under test, to detect that the form is that environment itself.
        made = form.make(core)
    except (LossyConversion, SpecError) as error:
        return Outcome("refused", str(error))
    except MissingBackend as error:
        return Outcome("not installed", str(error))
    form.is_env_itself = made is form.env.driver.env
    return Outcome("passed", "it is the environment itself") if form.is_env_itself else PASSED


@requirement("loses-nothing", 3, 4)
def loses_nothing(form: FormUnderTest) -> Outcome:
    """No value of it is refused, or narrowed."""
    narrowed = [str(loss) for loss in form.losses if not loss.refused]
    return Outcome("narrowed", "; ".join(narrowed)) if narrowed else PASSED


@requirement("specs-come-back", 11)
def specs_come_back(form: FormUnderTest) -> Outcome:
    """Brought back from there, its specs are equal."""
    _, returned, original = form.bring_back()
    more = ("reward_spec", "discount_spec") if form.framework in ("dm_env", "tf_agents") else ()
    for name in ("observation_spec", "action_spec", *more):
        one, other = getattr(original, name), getattr(returned, name)
        if isinstance(original, MultiEnv):
            one, other = dict(one), dict(other)
        if not spec_equal(one, other):
            return failed(f"{name}: {one!r} came back as {other!r}")
    return PASSED


@requirement("trace-comes-back", 1, 2, 3, 4, 20, needs=(REPRODUCIBLE,))
def trace_comes_back(form: FormUnderTest) -> Outcome:
    """Brought back from there, it gives the trace that it gives here."""
    env = form.env
    if form.framework == "pettingzoo_aec" and form.takes_turns(together=True):
        return skipped("some of its agents act together, which AEC cannot express")
    made, returned, original = form.bring_back()
    seed, episodes = env.extent.seed, env.extent.episodes
    core_seed: Any = made.seeds.core_seed(seed) if form.framework == "rllib" else seed
    if FRAMEWORKS[form.framework].resets_at_end and isinstance(returned, Env):
        episodes = 1  # a reset without seeds would begin another one than the core's
        # A seed for each lane, because a framework may make them of one seed in its own way.
        seeds = [seed + index for index in range(returned.batch_size or 1)]
        # Lanes that share an episode take the seed of the first.
        seed, core_seed = seeds, seed if isinstance(original, AgentLanes) else seeds
    driver, other = core_driver(returned), core_driver(original)
    if isinstance(driver, BatchDriver) and isinstance(other, BatchDriver):
        other.restarts_in_step = driver.restarts_in_step
    actual = Collector(driver, seed, env.trace_limit).collect(episodes)
    expected = Collector(other, core_seed, env.trace_limit).collect(episodes)
    difference = traces_differ(expected, actual, driver)
    narrows = any(loss.field == "precision" for loss in form.losses)
    if difference is None or (narrows and _equal_within_float32(expected, actual)):
        return PASSED
    return failed(f"here against there: {difference}")


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


FORM_REQUIREMENTS = (constructs, loses_nothing, specs_come_back, trace_comes_back)
"""The requirements on each form."""
