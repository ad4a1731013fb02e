"""Requirements on the forms that an environment takes in the frameworks: made, played, brought back, compared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from envoi import AgentLanes, BatchEnv, Env, Lanes, LossyConversion, MissingBackend, MultiEnv, SpecError, spec_equal
from envoi import batch as make_batch
from envoi.adapters import FRAMEWORKS, Loss, convert, losses
from envoi.adapters.shared.agent_count import several_agents

from .foreign_hands import own_hand
from .hands import Hand, core_hand
from .play import Player, difference, values_differ
from .randomness import REPRODUCIBLE
from .requirement import PASSED, Found, failed, skipped
from .subject import Extent, Subject

LANES = 2
"""Lanes of the batch that an environment of one becomes where a framework has batches only."""
FLOAT32 = 1e-6
"""How much numbers may differ that went through a float32."""

WITH_REWARD_SPECS = ("dm_env", "tf_agents")
"""The frameworks that have a place for the specs of rewards and discounts."""

FORM_KEYS = {
    "constructs": ("The environment takes the form of the framework.", (1, 2)),
    "loses-nothing": ("Nothing of it is refused, or narrowed.", (3, 4)),
    "specs-come-back": ("Brought back from there, its specs are equal.", (11,)),
    "trace-comes-back": ("Brought back from there, it does exactly what it does here.", (1, 2, 3, 4, 20)),
}
"""What is required of each form: a sentence, and rows of the contract."""


def make_form(framework: str, core: Env | MultiEnv, exact: bool = False) -> Any:
    """The form of a core environment.

    Args:
        framework: The target.
        core: The environment, which becomes the form's own.
        exact: As it is, where a framework usually gets something more convenient.
    """
    if framework == "gymnasium_vector" and isinstance(core, Env) and core.batch_size is None:
        return convert(core, framework, n=LANES)
    if framework == "rllib":
        creator = convert(lambda: core, framework, **({"canonical": False} if exact else {}))
        # In evaluation the same seed gives the same episode.
        return creator({"in_evaluation": True})
    return convert(core, framework)


def come_back(framework: str, form: Any, at_once: bool = False) -> Env | MultiEnv:
    """A form brought back as a stranger's environment would be, without the way round.

    Args:
        framework: Its framework.
        form: The form.
        at_once: Whether all agents in play act at once, which an API of turns does not say.
    """
    if framework == "rllib":
        kind = _rllib_kind(form)
    else:
        kinds = _importers(framework)
        batched = bool(getattr(form, "batched", False)) or framework == "gymnasium_vector"
        kind = next(k for k in kinds if issubclass(k, BatchEnv) is batched)
    is_asked = at_once and "simultaneous" in inspect.signature(kind).parameters
    return kind(form, simultaneous=True) if is_asked else kind(form)


def _importers(framework: str) -> list[Any]:
    spoke = FRAMEWORKS[framework].load()
    found = [thing for name, thing in vars(spoke).items() if name.startswith("From") and inspect.isclass(thing)]
    kinds = [kind for kind in found if issubclass(kind, (Env, MultiEnv)) and not issubclass(kind, Lanes)]
    return [kind for kind in kinds if not inspect.isabstract(kind)]


def _rllib_kind(form: Any) -> Any:
    from envoi.adapters.gymnasium import FromGymnasium

    if isinstance(form.core, MultiEnv):
        from envoi.adapters.rllib.multi_source import FromRLlibMulti

        return FromRLlibMulti
    if form.core.batch_size is not None:
        return _importers("gymnasium_vector")[0]
    return FromGymnasium


def twin_of(returned: Env | MultiEnv, core: Env | MultiEnv) -> Env | MultiEnv:
    """A core environment in the shape in which it came back: with several agents, or lanes."""
    if isinstance(returned, MultiEnv):
        return several_agents(core)
    if returned.batch_size is None:
        return core
    if isinstance(core, MultiEnv):
        return AgentLanes(core)
    return core if core.batch_size is not None else make_batch(core, LANES)


class FormCheck:
    """Looks at the form in one framework.

    Args:
        framework: Its name.
        subject: The environment itself.
        env_failed: The requirements that it fails itself.
    """

    def __init__(self, framework: str, subject: Subject, statuses: dict[str, str]) -> None:
        self.framework, self.subject, self._statuses = framework, subject, statuses
        self.losses: list[Loss] = []
        self.is_itself = False

    def core(self) -> Env | MultiEnv:
        """A core environment, new where there can be a new one."""
        return self.subject.new().core()

    def make(self, exact: bool = False) -> Any:
        """A form, of a new environment where there can be a new one."""
        return make_form(self.framework, self.core(), exact)

    def constructs(self) -> Found:
        """Whether there is a form at all."""
        try:
            FRAMEWORKS[self.framework].load()
        except MissingBackend as error:
            return Found("not installed", str(error))
        try:
            core = self.subject.hand.core()
        except LossyConversion as error:
            return Found("refused", f"envoi cannot bring it here: {error}")
        try:
            self.losses = losses(core, self.framework)
            refused = [str(loss) for loss in self.losses if loss.refused]
            if refused:
                return Found("refused", "; ".join(refused))
            if self.framework == "gymnasium_vector" and self._take_turns():
                return Found("refused", "agents: they take turns, and the lanes of a vector env act at once")
            # Of the very environment, to see whether it is its own form.
            form = make_form(self.framework, core)
        except (LossyConversion, SpecError) as error:
            return Found("refused", str(error))
        except MissingBackend as error:
            return Found("not installed", str(error))
        self.is_itself = form is self.subject.hand.env
        return Found("passed", "it is the environment itself") if self.is_itself else PASSED

    def _take_turns(self) -> bool:
        several = self.subject.hand.kind == "several"
        return several and any(len(m.kept.acting) < len(m.kept.agents) for m in self.subject.reference)

    def _some_take_turns(self) -> bool:
        return self._take_turns() and any(len(m.kept.acting) > 1 for m in self.subject.reference)

    def loses_nothing(self) -> Found:
        """What is narrowed."""
        narrowed = [str(loss) for loss in self.losses if not loss.refused]
        return Found("narrowed", "; ".join(narrowed)) if narrowed else PASSED

    def specs_come_back(self) -> Found:
        """Whether the specs survive."""
        returned = come_back(self.framework, self.make(exact=True))
        twin = twin_of(returned, self.core())
        told = ("reward_spec", "discount_spec") if self.framework in WITH_REWARD_SPECS else ()
        for name in ("observation_spec", "action_spec", *told):
            one, two = getattr(twin, name), getattr(returned, name)
            if not spec_equal(dict(one), dict(two)) if isinstance(twin, MultiEnv) else not spec_equal(one, two):
                return failed(f"{name}: {one!r} came back as {two!r}")
        return PASSED

    def trace_comes_back(self) -> Found:
        """Whether what it does survives."""
        subject = self.subject
        if self._statuses.get(REPRODUCIBLE) != "passed":
            return skipped(f"see {REPRODUCIBLE}")
        form = self.make(exact=True)
        seed = subject.extent.seed
        if self.framework == "pettingzoo_aec" and self._some_take_turns():
            return skipped("some of its agents act together, of which AEC tells one by one")
        returned = come_back(self.framework, form, at_once=not self._take_turns())
        inner = form.seeds.core_seed(seed) if self.framework == "rllib" else seed
        episodes, limit = subject.extent.episodes, subject.limit
        hand = core_hand(returned)
        got = Player(hand, seed).play(episodes, limit)
        expected = Player(core_hand(twin_of(returned, self.core())), inner).play(episodes, limit)
        said = difference(expected, got, hand)
        narrows = any(loss.field == "precision" for loss in self.losses)
        if said is not None and narrows and _within(expected, got):
            said = None
        return PASSED if said is None else failed(f"here against there: {said}")

    def hands(self) -> Callable[[], Hand] | None:
        """How to play the form by its framework's own API; None where there is no hand for it."""
        if self.is_itself or own_hand(self.make()) is None:
            return None
        return lambda: own_hand(self.make())  # pyright: ignore[reportReturnType]

    def as_subject(self) -> Subject | None:
        """The form as a subject of the requirements that a form could break."""
        make = self.hands()
        if make is None:
            return None
        extent = self.subject.extent
        smaller = Extent(extent.seed, min(2, extent.episodes), min(300, extent.steps))
        return Subject(self.framework, make, smaller, self.subject.independent)


def _within(one: Any, two: Any) -> bool:
    """Whether two traces differ by no more than the rounding that was announced."""
    if len(one) != len(two):
        return False
    names = ("observations", "rewards", "terminated", "truncated", "discounts")
    return all(
        values_differ(dict(getattr(a.kept, name)), dict(getattr(b.kept, name)), name, FLOAT32) is None
        for a, b in zip(one, two, strict=True)
        for name in names
    )
