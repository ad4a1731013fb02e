"""The suites that the ecosystems ship, on our forms of real environments: one test for each cell of the matrix.

A cell is a source, a form and a suite of that form's framework. What a form refuses (`REFUSED`) and what a suite cannot
take (`NOT_TAKEN`) are cells too: the refusal must come, and so must the suite's complaint.
"""

import contextlib
import copy
import importlib
import os
import pickle
import re
import unittest
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bsuite
import gymnasium
import numpy as np
import pytest
from absent import optional
from dm_env.test_utils import EnvironmentTestMixin
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match
from gymnasium.wrappers import TransformObservation
from scripted import TAXI
from traces import Player

import envoi
from envoi import LossyConversion, TimeLimit, Validated, models
from envoi.adapters import TARGETS, convert, from_env, load, losses
from envoi.adapters.dm_env import FromDmEnv, ToDmEnv
from envoi.adapters.gymnasium import FromGymnasium, ToGymnasium
from envoi.adapters.gymnasium.source import bare
from envoi.adapters.pettingzoo import ToPettingZoo
from envoi.adapters.pettingzoo_aec import ToPettingZooAEC
from envoi.adapters.rllib import bind_worker
from envoi.adapters.shared.loss import DroppedOptionsWarning, NarrowingWarning
from envoi.adapters.tf_agents.form import ToTFAgents
from envoi.tree import leaves

to_rllib = optional("envoi.adapters", "to_rllib")

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # for pygame

ADVICE = (
    # On what the source is, and not on how the form behaves.
    r"A Box observation space (minimum|maximum) value is -?infinity",
    r"Agent's (minimum|maximum) observation space value is -?infinity",
    r"Environment's (minimum|maximum) state space value is -?infinity",
    r"we recommend using a symmetric and normalized space",
    r"We recommend you to use a symmetric and normalized Box action space",
    r"Your action space has dtype float64",
    r"has an unconventional shape",
    r"The minimal resolution for an image is 36x36",
    r"It seems that your observation (space )?view is an image but",
    r"Observation (numpy array is all zeros|is not a NumPy array)",
    r"Observation space for each agent probably should be",
    r"The observation contains negative numbers",
    r"We recommend agents to be named in the format",
    r"State space for each environment probably should be",
    r"State (is not NumPy array|numpy array is all zeros)",
    r"No render fps was declared in the environment",
    # What sources and their libraries say of themselves.
    r"The system font .* couldn't be found",
    r"You are calling render method without specifying any render mode",
    r"The environment creator metadata doesn't include",
)


@contextlib.contextmanager
def advised(warned: type[Warning] | None = None):
    """Lets a suite give advice, expects one warning `warned` of envoi, and makes an error of any other."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [one.category for one in caught if one.category is warned] == ([] if warned is None else [warned])
    for one in caught:
        if one.category is not warned and not issubclass(one.category, (DeprecationWarning, NarrowingWarning)):
            assert re.search("|".join(ADVICE), str(one.message)), one.message


@dataclass(frozen=True)
class Source:
    """A row of the matrix: a real environment, made short.

    Attributes:
        name: The name for `envoi.adapters.load`.
        arguments: More arguments for `load`.
        several: True if it has several agents.
        cycles: The argument that limits its steps, if all episodes last that long.
        state: True if it has a `state_spec`.
        pictures: True if it renders without a graphics card.
        only: The suites that it runs, if it is slow; None for all.
        limit: The steps after which envoi's `TimeLimit` ends its episodes.
        wrap: The wrapper that its users put around it, by module and name.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    several: bool = False
    cycles: str | None = None
    state: bool = False
    pictures: bool = True
    only: tuple[str, ...] | None = None
    limit: int | None = None
    wrap: tuple[str, str] | None = None

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("envoi:")

    def __str__(self) -> str:
        return self.name + (f" {self.wrap[1]}" if self.wrap else "")

    def make(self, render_mode: str | None = None, limit: int | None = None, **arguments: Any) -> Any:
        """A core environment."""
        limit = limit or self.limit
        if "MiniGrid" in self.name:
            importlib.import_module("minigrid")  # registers
        arguments = {**self.arguments, **arguments}
        if render_mode is not None and not self.is_ours:
            arguments["render_mode"] = render_mode
        if self.wrap is not None:
            module, name = self.wrap
            inner = gymnasium.make(self.name.partition(":")[2], **arguments)
            return from_env(getattr(importlib.import_module(module), name)(inner))
        core = load(self.name, **arguments)
        if render_mode is not None and self.is_ours:
            core.render_mode = render_mode
        return core if limit is None else TimeLimit(core, limit)


SHORT = {"max_episode_steps": 25}
SOURCES = (
    Source("gymnasium:CartPole-v1", SHORT, cycles="max_episode_steps"),
    Source("gymnasium:FrozenLake-v1", SHORT),
    Source("gymnasium:Blackjack-v1"),
    Source(f"gymnasium:{TAXI}", SHORT, cycles="max_episode_steps"),
    Source("gymnasium:Pendulum-v1", SHORT, cycles="max_episode_steps"),
    Source("gymnasium:MountainCar-v0", limit=25, cycles="limit"),
    Source("gymnasium:Acrobot-v1", limit=25, cycles="limit"),
    Source("gymnasium:MiniGrid-Empty-5x5-v0", SHORT),
    Source("gymnasium:MiniGrid-GoToDoor-5x5-v0", SHORT),
    Source("gymnasium:MiniGrid-GoToDoor-5x5-v0", SHORT, wrap=("minigrid.wrappers", "ImgObsWrapper")),
    Source("dm_control:cartpole/swingup", {"time_limit": 0.2}, pictures=False),
    Source("dm_control:point_mass/easy", {"time_limit": 0.4}, pictures=False),
    Source("bsuite:catch/0", pictures=False),
    Source("envoi:catch"),
    Source("envoi:cartpole", SHORT, pictures=False),
    Source("envoi:pendulum", pictures=False, limit=25, cycles="limit"),
    Source("envoi:gridworld", limit=25),
    Source("envoi:maze", limit=25),
    Source("pettingzoo:classic/tictactoe_v3", several=True),
    Source("pettingzoo:classic/connect_four_v3", several=True),
    Source("pettingzoo:classic/leduc_holdem_v4", several=True),
    Source("pettingzoo:classic/rps_v2", {"max_cycles": 12}, several=True, cycles="max_cycles"),
    Source("pettingzoo:mpe/simple_spread_v3", {"max_cycles": 12}, several=True, cycles="max_cycles", state=True),
    Source(
        "pettingzoo:butterfly/cooperative_pong_v6", {"max_cycles": 6}, several=True, cycles="max_cycles", state=True
    ),
    Source(
        "pettingzoo:butterfly/knights_archers_zombies_v11",
        {"max_cycles": 60, "spawn_delay": 4, "line_death": True},
        several=True,
        state=True,
        only=("parallel_api_test", "MultiAgentEnvRunner"),
    ),
    Source("envoi:nim", several=True, pictures=False),
    Source("envoi:rps", several=True, pictures=False),
    Source("envoi:pursuit", several=True, state=True),
)


# The suites.


@pytest.fixture(scope="module")
def suites():
    """PettingZoo's suites."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they load environments in a way that is deprecated
        found = importlib.import_module("pettingzoo.test")
        importlib.import_module("pettingzoo.test.state_test")
    return found


@pytest.fixture(autouse=True)
def _nobody_waits_for_a_picture(monkeypatch):
    class Clock:
        def tick(self, framerate=0):
            return 0

        def get_fps(self):
            return 0.0

    monkeypatch.setattr(importlib.import_module("pygame").time, "Clock", Clock)


def gymnasiums_check(source, **_):
    """On a form that gymnasium registers and makes: it asks for equal seeds, every render mode and two closes then.

    It warns that a form's `unwrapped` is the native environment, as it does for wrappers.
    """
    made = lambda render_mode=None: ToGymnasium(source.make(render_mode))  # noqa: E731
    gymnasium.register("EnvoiForm-v0", entry_point=made)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*different from the unwrapped version")
            check_env(bare(gymnasium.make("EnvoiForm-v0")), skip_render_check=not source.pictures)
    finally:
        del gymnasium.registry["EnvoiForm-v0"]


def stable_baselines3s_check(source, **_):
    checker = importlib.import_module("stable_baselines3.common.env_checker")
    checker.check_env(ToGymnasium(source.make()), warn=True, skip_render_check=not source.pictures)


def dm_envs_mixin(source, **_):
    """On actions that lead to the end of an episode."""
    absltest = importlib.import_module("absl.testing.absltest")
    mixin = importlib.import_module("dm_env.test_utils").EnvironmentTestMixin
    seen = []

    class Case(mixin, absltest.TestCase):
        def make_object_under_test(self):
            form = ToDmEnv(source.make())
            form.seed(0)
            return form

        def make_action_sequence(self):
            spec, rng = self.environment.core.action_spec, np.random.default_rng(0)
            return (envoi.sample(spec, rng) for _ in range(60))

        def step_environment(self, action=None):
            step = super().step_environment(action)
            seen.append(step.step_type)
            return step

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert not result.errors + result.failures, result.errors + result.failures
    assert result.testsRun == 4
    assert sum(step_type.last() for step_type in seen) > 2


def tf_agents_validation(source, **_):
    """The checks of TF-Agents' `validate_py_environment`, which tests/tf calls itself: here on light types."""
    form, rng = ToTFAgents(source.make()), np.random.default_rng(0)
    specs, ends = list(leaves(form.time_step_spec())), 0
    step = form.reset()
    while ends < 3:
        values = list(leaves(step))
        assert [path for path, _ in values] == [path for path, _ in specs]
        for (path, spec), (_, value) in zip(specs, values, strict=True):
            assert isinstance(value, np.ndarray), path
            assert spec.check_array(value), path
        step = form.step(envoi.sample(form.core.action_spec, rng))
        ends += step.is_last()


def parallel_api_test(source, suites, **_):
    suites.parallel_api_test(ToPettingZoo(source.make()), 60)


def parallel_seed_test(source, suites, **_):
    suites.parallel_seed_test(lambda: ToPettingZoo(source.make()), 20)


def api_test(source, suites, **_):
    suites.api_test(ToPettingZooAEC(source.make()), 40)


def seed_test(source, suites, **_):
    suites.seed_test(lambda: ToPettingZooAEC(source.make()), 20)


def max_cycles_test(source, suites, **_):
    def made(kind):
        return lambda max_cycles: kind(source.make(**{source.cycles: max_cycles}))

    suites.max_cycles_test(SimpleNamespace(parallel_env=made(ToPettingZoo), env=made(ToPettingZooAEC)))


def render_test(source, suites, **_):
    suites.render_test(lambda render_mode: ToPettingZooAEC(source.make(render_mode)))


def state_test(source, suites, **_):
    suites.state_test(ToPettingZooAEC(source.make()), ToPettingZoo(source.make()), 10)


def gymnasiums_check_of_rllibs_form(source, **_):
    """RLlib ships a check for several agents only. In evaluation an equal seed replays, as gymnasium asks."""
    check_env(to_rllib(source.make)({"in_evaluation": True}), skip_render_check=True)


def rllibs_check(source, **_):
    check = importlib.import_module("ray.rllib.utils.pre_checks.env").check_multiagent_environments
    check(to_rllib(source.make)({}))


def single_agent_env_runner(mode):
    """A policy of RLlib's acts, and chance does; every value is validated."""

    def sample(source, run, **_):
        options = {"num_envs_per_env_runner": 2, "gym_env_vectorize_mode": mode}
        callback = {"on_environment_created": bind_worker}
        runner = run(to_rllib(source.make, validate=True), env_runners=options, callbacks=callback)
        space = runner.env.single_observation_space
        for arguments in ({}, {"random_actions": True}):
            episodes = runner.sample(num_episodes=3, **arguments)
            assert len(episodes) == 3
            for episode in episodes:
                assert episode.is_done
                assert all(space.contains(np.asarray(one)) for one in episode.get_observations())
        chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=25, random_actions=True)]
        assert sum(len(chunk) for chunk in chunks) >= 75

    return sample


def multi_agent_env_runner(source, run, **_):
    creator = to_rllib(source.make, validate=True)
    form, settings = creator({}), {"environment": {"disable_env_checking": False}}
    if max(np.prod(space.shape) for space in form.observation_spaces.values()) > 10_000:
        # The network that RLlib would make has a hundred million weights.
        settings["rl_module"] = {"rl_module_spec": chance()}
    runner = run(creator, 1, form.possible_agents, env_runners={"num_envs_per_env_runner": 2}, **settings)
    for arguments in ({}, {"random_actions": True}):
        episodes = runner.sample(num_episodes=3, **arguments)
        assert sum(episode.is_done for episode in episodes) >= 3
        for episode in episodes:
            for agent, one in episode.agent_episodes.items():
                assert one.is_done
                space = runner.env.envs[0].unwrapped.observation_spaces[agent]
                assert all(space.contains(np.asarray(seen)) for seen in one.get_observations())


def chance():
    """A module that acts at random."""
    specs = importlib.import_module("ray.rllib.core.rl_module.rl_module")
    module = importlib.import_module("ray.rllib.examples.rl_modules.classes.random_rlm").RandomRLModule
    return specs.RLModuleSpec(module_class=type("Chance", (module,), {"framework": "torch"}))


SUITES: dict[str, dict[str, Callable[..., None]]] = {
    **{name: {} for name in TARGETS},
    "gymnasium": {"check_env": gymnasiums_check, "Stable-Baselines3": stable_baselines3s_check},
    "dm_env": {"EnvironmentTestMixin": dm_envs_mixin},
    "tf_agents": {"light types": tf_agents_validation},
    "pettingzoo": {one.__name__: one for one in (parallel_api_test, parallel_seed_test)},
    "pettingzoo_aec": {one.__name__: one for one in (api_test, seed_test, max_cycles_test, render_test, state_test)},
    "rllib": {
        "check_env": gymnasiums_check_of_rllibs_form,
        "SingleAgentEnvRunner": single_agent_env_runner("sync"),
        "SingleAgentEnvRunner, vector_entry_point": single_agent_env_runner("vector_entry_point"),
        "check_multiagent_environments": rllibs_check,
        "MultiAgentEnvRunner": multi_agent_env_runner,
    },
}
"""The suites of each form; a framework that ships none has none."""


def asks(suite: str, source: Source) -> bool:
    """Returns True if a suite applies to such an environment; `test_no_suite_is_left_out` holds the reasons."""
    needed = {
        "max_cycles_test": source.cycles is not None,
        "render_test": source.pictures,
        "state_test": source.state,
        "check_multiagent_environments": source.several,
        "MultiAgentEnvRunner": source.several,
    }
    of_one = suite in ("check_env", "SingleAgentEnvRunner", "SingleAgentEnvRunner, vector_entry_point")
    return needed.get(suite, not (of_one and source.several)) and (source.only is None or suite in source.only)


# The exceptions, by name.

MINIGRID = [str(source) for source in SOURCES if "MiniGrid" in source.name and source.wrap is None]
MISSIONS = dict.fromkeys(MINIGRID, "mission")
SEVERAL = dict.fromkeys((str(source) for source in SOURCES if source.several), "agents")
UNLIKE_LANES = ("tictactoe_v3", "connect_four_v3", "leduc_holdem_v4", "nim", "pursuit")

REFUSED = {
    "gymnasium": SEVERAL,
    "gymnasium_vector": {name: "agents" for name in SEVERAL if name.endswith(UNLIKE_LANES)},
    "dm_env": SEVERAL | MISSIONS,
    "tf_agents": SEVERAL | MISSIONS,
    "rllib": MISSIONS,
}
"""By form and source, what cannot be expressed: several agents, or ones that differ or take turns, and MiniGrid's own
space of texts."""

FROM_DM_ENV = ("dm_control:", "bsuite:")

NOT_TAKEN = {
    # It reads the `dtype` of an observation, and a tuple has none.
    ("gymnasium:Blackjack-v1", "api_test"): (AttributeError, "'tuple' object has no attribute 'dtype'"),
    # Its checks and policies know arrays and dicts of arrays, and no texts.
    **dict.fromkeys(
        ((name, "Stable-Baselines3") for name in MINIGRID), (AssertionError, "key=mission.* must be a numpy array")
    ),
    # Tuples pass its check, with the advice that its policies take none.
    ("gymnasium:Blackjack-v1", "Stable-Baselines3"): (AssertionError, "Tuple, this is currently not supported"),
}
"""By source and suite, what the suite itself cannot take, and its complaint."""

CELLS = [
    pytest.param(source, check, suite, id=f"{source} > {form} > {suite}")
    for form, suites in SUITES.items()
    for suite, check in suites.items()
    for source in SOURCES
    if asks(suite, source) and str(source) not in REFUSED.get(form, {})
]
REFUSALS = [
    pytest.param(source, form, REFUSED[form][str(source)], id=f"{source} > {form}")
    for form in SUITES
    for source in SOURCES
    if str(source) in REFUSED.get(form, {})
]


@pytest.mark.parametrize(("source", "check", "suite"), CELLS)
def test_a_suite_passes_on_a_form_of_a_real_environment(source, check, suite, suites, request):
    complaint = NOT_TAKEN.get((str(source), suite))
    expected = contextlib.nullcontext() if complaint is None else pytest.raises(complaint[0], match=complaint[1])
    # dm_env has no place for the options of a reset, and these suites reset with some.
    drops = source.name.startswith(FROM_DM_ENV) and suite in ("parallel_api_test", "api_test")
    with expected, advised(DroppedOptionsWarning if drops else None):
        check(source, suites=suites, run=request.getfixturevalue("env_runner") if "Runner" in suite else None)


@pytest.mark.parametrize(("source", "form", "path"), REFUSALS)
def test_what_a_form_cannot_express_is_refused_and_listed(source, form, path):
    core = source.make()
    assert any(loss.refused and path in loss.path for loss in losses(core, form))
    # RLlib's form is made by a creator.
    make = (lambda: to_rllib(core)({})) if form == "rllib" else (lambda: convert(core, form))
    with pytest.raises(LossyConversion) as caught:
        make()
    assert path in caught.value.path


def test_no_suite_is_left_out_of_the_matrix():
    assert set(SUITES) == set(TARGETS)
    for source in SOURCES:
        core = source.make()
        assert isinstance(core, envoi.MultiEnv) == source.several
        if source.only is None:
            assert (getattr(core, "state_spec", None) is not None) == source.state, source
        modes = core.metadata.get("render_modes", [])
        assert source.pictures == bool(modes) or source.name.startswith("dm_control:"), source
    assert {f"envoi:{name}" for name in models.NAMES} <= {source.name for source in SOURCES}
    known = {(str(source), suite) for source in SOURCES for suites in SUITES.values() for suite in suites}
    assert known >= NOT_TAKEN.keys()
    assert {str(source) for source in SOURCES} >= set().union(*REFUSED.values())


# bsuite: each environment has a test of its own, dm_env's mixin with actions that suit it.

BSUITE = Path(bsuite.__file__).parent
DOWNLOADS = "mnist"
"""An environment whose data no wheel holds."""

WAYS = {
    "the core": lambda env: FromDmEnv(env),
    "gymnasium": lambda env: FromGymnasium(ToGymnasium(FromDmEnv(env))),
    "a wrapper": lambda env: Validated(FromDmEnv(env)),
}
"""The conversions of an environment before it is one of dm_env again."""


def bsuites_tests():
    """The classes of tests that bsuite ships for its environments, by the environment's name."""
    files = [*BSUITE.glob("environments/*_test.py"), *BSUITE.glob("experiments/*/*_test.py")]
    for path in sorted(files):
        name = path.stem.removesuffix("_test")
        if not name.startswith(DOWNLOADS):
            module = importlib.import_module(".".join(("bsuite", *path.relative_to(BSUITE).with_suffix("").parts)))
            for kind in vars(module).values():
                if (
                    isinstance(kind, type)
                    and issubclass(kind, EnvironmentTestMixin)
                    and "make_object_under_test" in vars(kind)
                ):
                    yield f"{name}, {kind.__name__}", kind


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    BSUITES_TESTS = dict(bsuites_tests())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BSUITES_TESTS)
def test_bsuites_own_tests_pass_on_its_environments_through_envoi(name, way):
    made = []

    class Case(BSUITES_TESTS[name]):
        def make_object_under_test(self):
            made.append(ToDmEnv(WAYS[way](super().make_object_under_test())))
            return made[-1]

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert not result.errors + result.failures, result.errors + result.failures
    assert result.testsRun >= 4
    assert len(made) == result.testsRun


def test_bsuites_tests_are_found():
    assert len(BSUITES_TESTS) == 21


# gymnasium: its comparison of two environments, on each environment that it registers and that can be made here.


def registered():
    """The ids of gymnasium's own environments that step on the CPU, the newest version of each."""
    newest = {}
    for spec in gymnasium.registry.values():
        family = str(spec.entry_point).partition(":")[0]
        if family.startswith("gymnasium.envs.") and "tabular" not in family and "phys2d" not in spec.id:
            known = newest.get(spec.name)
            newest[spec.name] = spec if known is None or (spec.version or 0) > (known.version or 0) else known
    return sorted(spec.id for spec in newest.values())


def as_declared(observation):
    """An observation in its space's dtype: toy-text environments give Python integers, which an importer casts."""
    if isinstance(observation, tuple):
        return tuple(map(as_declared, observation))
    return np.int64(observation) if isinstance(observation, (int, np.integer)) else observation


@pytest.mark.parametrize("name", registered())
def test_gymnasium_finds_no_difference_between_an_environment_and_its_form(name):
    alone, through = gymnasium.make(name), ToGymnasium(Validated(FromGymnasium(gymnasium.make(name))))
    alone = TransformObservation(alone, as_declared, None)
    check_environments_match(alone, through, num_steps=60, seed=5)
    alone.close()
    through.close()


# Snapshots and copies, which no suite tries.


ONE = [*(source for source in SOURCES if not source.several), Source("bsuite:catch_noise/3", pictures=False)]


@pytest.mark.parametrize("source", ONE, ids=str)
def test_a_snapshot_or_copy_of_a_real_environment_resumes_exactly(source):
    env = source.make()
    player = Player(env, 8)
    player.play(3)
    native, held, over = env.unwrapped, env.snapshot(), player.over
    # Its wrapper in bsuite cannot be copied.
    twins = [] if "noise" in source.name else [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    first = player.play(40)
    for _ in range(2):
        env.restore(held)
        assert player.play(40, env, over) == first
    assert env.unwrapped is native
    assert [player.play(40, twin, over) for twin in twins] == [first] * len(twins)
