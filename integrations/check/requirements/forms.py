"""Requirements on the form of an environment in a framework: it can be made, comes back unchanged, passes suites."""

from __future__ import annotations

import contextlib
import importlib
import io
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from envoi import (
    AgentLanes,
    Array,
    Discrete,
    Env,
    LossyConversion,
    MissingBackend,
    MultiBinary,
    MultiDiscrete,
    MultiEnv,
    SpecError,
    sample,
    spec_equal,
)
from envoi import batch as make_batch
from envoi.adapters import FRAMEWORKS, Loss, convert, losses
from envoi.adapters.shared.exported import several_agents
from envoi.protocol.multi_env import MASK

from ..drivers import BatchDriver, NotAvailable, core_driver, framework_driver
from ..env_under_test import EnvUnderTest, Extent
from ..requirement import PASSED, Outcome, Requirement, failed, failed_if, requirement, skipped
from ..transitions import Collector, traces_differ
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
        """Makes a form of `core`, or of a new environment; if `exact`, an RLlib form keeps the specs unchanged."""
        core = self.env.make().core_env() if core is None else core
        if FRAMEWORKS[self.framework].only_lanes and isinstance(core, Env) and core.batch_size is None:
            return convert(core, self.framework, n=LANES)
        if self.framework == "rllib":
            creator = convert(lambda: core, self.framework, **({"canonical": False} if exact else {}))
            # In evaluation the same seed gives the same episode.
            return creator({"in_evaluation": True})
        return convert(core, self.framework)

    def bring_back(self) -> tuple[Any, Any, Any]:
        """Returns a form, an import of it like of a foreign environment, and a core environment of the same kind."""
        form = self.make(exact=True)
        simultaneous = self.framework == "pettingzoo_aec" and not self.takes_turns()
        returned = _importer(self.framework, form)(form, **({"simultaneous": True} if simultaneous else {}))
        return form, returned, _in_shape_of(returned, self.env.make().core_env())

    def takes_turns(self, together: bool = False) -> bool:
        """Returns True if some steps are not for all agents; with `together`, some must also be for several agents."""
        if self.env.driver.kind != "multi":
            return False
        replies = [(len(one.reply_copy.acting), len(one.reply_copy.agents)) for one in self.env.reference]
        return any(acting < agents for acting, agents in replies) and (not together or max(replies)[0] > 1)

    def as_env_under_test(self) -> EnvUnderTest | None:
        """Returns the form as an `EnvUnderTest`, or None if it is the environment itself or its API has no driver."""
        new_driver: Any = lambda: framework_driver(self.make())  # noqa: E731
        if self.is_env_itself or new_driver() is None:
            return None
        extent = self.env.extent
        smaller = Extent(extent.seed, min(2, extent.episodes), min(300, extent.steps))
        return EnvUnderTest(self.framework, new_driver, smaller)


def _importer(framework: str, form: Any) -> Any:
    """Returns the importer class for a form, which skips the shortcut from a form to its own core."""
    if framework == "rllib":
        if isinstance(form.core, MultiEnv):
            from envoi.adapters.rllib.multi_source import FromRLlibMulti

            return FromRLlibMulti
        framework = "gymnasium" if form.core.batch_size is None else "gymnasium_vector"
    adapter: Any = FRAMEWORKS[framework].load()
    return adapter.FromTFAgentsBatch if getattr(form, "batched", False) else adapter.IMPORTER


def _in_shape_of(returned: Env | MultiEnv, core: Env | MultiEnv) -> Env | MultiEnv:
    """Converts a core environment to the kind of `returned`: single-agent, multi-agent or batch."""
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
            return Outcome("refused", "agents: they take turns, and the lanes of a vector env act simultaneously")
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
    narrows = any(loss.field == "precision" for loss in form.losses)
    difference = traces_differ(expected, actual, driver, tolerance=FLOAT32 if narrows else 0.0)
    return failed_if(difference, "here against there")


FORM_REQUIREMENTS = (constructs, loses_nothing, specs_come_back, trace_comes_back)
"""The requirements on each form."""


# The test suites of the ecosystems, run on the forms; their output and warnings are captured. PettingZoo's
# `render_test` opens windows, and its `max_cycles_test` needs a module of PettingZoo: both are left out.

CYCLES = 100
"""Most steps of PettingZoo's suites."""
LONGEST = 2000
"""Most actions in the sequence that dm_env's suite plays to the end of an episode."""

Masks = Literal["known", "observed", "ignored"]
"""Which action masks a suite obeys: all, only those in observations, or none."""


@contextlib.contextmanager
def captured_output() -> Iterator[list[str]]:
    """Discards output and captures warnings; the list has their messages at the end of the `with` block."""
    captured: list[str] = []
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield captured
        finally:
            captured += dict.fromkeys(_plain(str(one.message)) for one in recorded)


def _plain(text: str) -> str:
    """Returns a message as one line, without the colour codes of a terminal."""
    for code in ("\x1b[33m", "\x1b[31m", "\x1b[0m"):
        text = text.replace(code, "")
    return " ".join(text.split())


def _suite(
    key: str, name: str, package: str, run: Callable[[FormUnderTest], object], masks: Masks = "known"
) -> Requirement:
    """Makes a requirement of a test suite, which fails if the suite raises an error."""

    def check(form: FormUnderTest) -> Outcome:
        if find_spec(package) is None:
            return Outcome("not installed", f"{package} is not installed")
        status, reason = "passed", ""
        with captured_output() as captured:
            try:
                run(form)
            except NotAvailable as missing:
                status, reason = "skipped", str(missing)
            except Exception as error:
                limit = _limitation(form, name, masks, error)
                status, reason = ("refused", limit) if limit else ("failed", f"{name}: {_message(error)}")
        if package == "stable_baselines3" and status == "failed":
            limits = [note for note in captured if "not supported by Stable" in note or "should start at" in note]
            status, reason = ("refused", limits[0]) if limits else (status, reason)
        return Outcome(status, reason, tuple(captured))

    return Requirement(key, f"{name} reports no error.", (), check)


def _limitation(form: FormUnderTest, name: str, masks: Masks, error: Exception) -> str:
    """Returns the suite's limitation that explains an error, or an empty text."""
    text = str(error)
    if masks != "known" and form.env.rollout.error is None and _has_masks(form, masks == "observed"):
        return f"{name} takes actions that the masks forbid, and so raises: {_message(error)}"
    if isinstance(error, ValueError) and "truth value of an array" in text and form.framework == "gymnasium":
        return f"{name} compares the states of generators, and supports only PCG64"
    specs = form.env.driver.observation_specs.values()
    if "has no attribute 'dtype'" in text and not all(_is_arrays(spec) for spec in specs):
        return f"{name} supports only observations of arrays, and dicts of them"
    return ""


def _is_arrays(spec: Any) -> bool:
    if isinstance(spec, dict):
        return all(map(_is_arrays, spec.values()))
    return isinstance(spec, (Array, Discrete, MultiBinary, MultiDiscrete))


def _has_masks(form: FormUnderTest, in_infos_only: bool) -> bool:
    """Returns True if masks forbid actions."""
    driver = form.env.driver
    for reply in (transition.reply_copy for transition in form.env.reference):
        for agent in reply.acting:
            observation, mask = reply.observations.get(agent), driver.action_mask(agent, reply)
            if mask is None or not isinstance(driver.action_specs[agent], Discrete) or np.all(mask):
                continue
            if not (in_infos_only and isinstance(observation, dict) and MASK in observation):
                return True
    return False


def _message(error: BaseException) -> str:
    """Returns the message of a suite's error, as one line."""
    text = _plain(str(error))
    if isinstance(error, AssertionError):
        frames = traceback.extract_tb(error.__traceback__)
        return text or (f"`{frames[-1].line}` does not hold" if frames else "an assertion does not hold")
    return f"{type(error).__name__}: {text}"


def _gymnasium(form: FormUnderTest) -> None:
    from gymnasium.utils.env_checker import check_env

    with contextlib.closing(form.make()) as env:
        # The suite makes the environment again from its spec, which gymnasium refuses where a wrapper has no spec.
        once = env.spec is not None and any(entry.kwargs is None for entry in env.spec.additional_wrappers)
        check_env(env, skip_render_check=True, skip_close_check=once)


def _stable_baselines3(form: FormUnderTest) -> None:
    from stable_baselines3.common.env_checker import check_env

    with contextlib.closing(form.make()) as env:
        check_env(env, warn=True, skip_render_check=True)


def _dm_env(form: FormUnderTest) -> None:
    from dm_env.test_utils import EnvironmentTestMixin

    from envoi.adapters.dm_env import FromDmEnv
    from envoi.adapters.shared.array_specs import encoder

    length = min(LONGEST, 3 + max((end.step for end in form.env.rollout.ends), default=50))

    class Case(EnvironmentTestMixin, unittest.TestCase):
        def make_object_under_test(self) -> Any:
            return form.make()

        def make_action_sequence(self) -> Iterator[Any]:
            spec = FromDmEnv(self.environment).action_spec
            encode = encoder(spec, fresh=True)
            for number in range(length):
                action = sample(spec, np.random.default_rng([0, number]))
                yield action if encode is None else encode(action)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    for test, trace in result.failures + result.errors:
        raise AssertionError(f"{test.id().rpartition('.')[2]}: {trace.strip().splitlines()[-1]}")


def _tf_agents(form: FormUnderTest) -> None:
    from tf_agents.environments.utils import validate_py_environment  # pyright: ignore[reportMissingImports]

    validate_py_environment(form.make(), episodes=2)


def _pettingzoo(key: str, test: str, masks: Masks = "known", **settings: Any) -> Requirement:
    def run(form: FormUnderTest) -> None:
        made: Any = form.make if "seed" in test else form.make()
        getattr(importlib.import_module("pettingzoo.test"), test)(made, num_cycles=CYCLES, **settings)

    return _suite(key, f"PettingZoo's {test}", "pettingzoo", run, masks)


def _state(form: FormUnderTest) -> None:
    from pettingzoo.test.state_test import state_test

    env = form.make()
    if getattr(env, "state_space", None) is None:
        raise NotAvailable("it has no state space")
    state_test(env, FormUnderTest("pettingzoo", form.env).make(), num_cycles=10)


def _rllib(form: FormUnderTest) -> None:
    if not isinstance(form.env.driver.core_env(), MultiEnv):
        raise NotAvailable("RLlib has a suite for several agents only")
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    check_multiagent_environments(form.make())


SUITES = {
    "gymnasium": (
        _suite("suite-gymnasium", "gymnasium's check_env", "gymnasium", _gymnasium),
        _suite("suite-sb3", "Stable-Baselines3's check_env", "stable_baselines3", _stable_baselines3),
    ),
    "dm_env": (_suite("suite-dm-env", "dm_env's EnvironmentTestMixin", "dm_env", _dm_env),),
    "tf_agents": (_suite("suite-tf-agents", "TF-Agents' validate_py_environment", "tf_agents", _tf_agents),),
    "pettingzoo": (
        _pettingzoo("suite-parallel-api", "parallel_api_test", "observed"),
        _pettingzoo("suite-parallel-seed", "parallel_seed_test", "ignored"),
    ),
    "pettingzoo_aec": (
        _pettingzoo("suite-aec-api", "api_test", verbose_progress=False),
        _pettingzoo("suite-aec-seed", "seed_test"),
        _suite("suite-state", "PettingZoo's state_test", "pettingzoo", _state, "ignored"),
    ),
    "rllib": (_suite("suite-rllib", "RLlib's check_multiagent_environments", "ray", _rllib, "ignored"),),
}
"""The suites of each framework's form."""
