"""RLlib's form of environments of several agents, a real env runner that samples from it, and RLlib's own games."""

import copy
import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from scripted_games import AGENTS, Scene, ScriptedGame, TurnGame
from traces import exact

import envoi
from envoi import Array, EpisodeError, LossyConversion, SpecError
from envoi.adapters import load, losses, to_rllib
from envoi.adapters.rllib import from_rllib, recognises
from envoi.protocol.multi_env import COMMON, MASK, SYNTHETIC

rllib = pytest.importorskip("ray.rllib")
pytest.importorskip("torch")

from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402
from ray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402
from ray.rllib.examples.envs.classes import multi_agent as examples  # noqa: E402
from ray.rllib.examples.envs.classes.multi_agent.double_row_corridor_env import DoubleRowCorridorEnv  # noqa: E402
from ray.rllib.examples.envs.classes.multi_agent.rock_paper_scissors import RockPaperScissors  # noqa: E402
from ray.rllib.examples.envs.classes.multi_agent.tic_tac_toe import TicTacToe  # noqa: E402
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule  # noqa: E402
from ray.rllib.utils.pre_checks.env import check_multiagent_environments  # noqa: E402

from envoi.adapters.rllib.multi_form import RLlibMultiEnv  # noqa: E402
from envoi.adapters.rllib.multi_source import FromRLlibMulti  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

A, B, C = AGENTS[:3]

ALL_TRUNCATED = (Scene((A, B)), Scene((A, B)), Scene((), truncated=(A, B)))
DEATHS = (Scene((A, B, C)), Scene((A, B), truncated=(C,)), Scene((A,), terminated=(B,)), Scene((), truncated=(A,)))
LATE = (Scene((A,)), Scene((A, B)), Scene((A, B)), Scene((), terminated=(A, B)))
HAND_OVER = (Scene((A,)), Scene((B,), rewards={A: 2.0}, truncated=(A,)), Scene((B,)), Scene((), terminated=(B,)))
HAND_OVERS = (
    Scene((A,)),
    Scene((B,), rewards={A: 2.0}, terminated=(A,)),
    Scene((C,), rewards={B: 3.0}, truncated=(B,)),
    Scene((), rewards={C: 5.0}, terminated=(C,)),
)
ALONE_LAST = (Scene((A, B)), Scene((B,), terminated=(A,)), Scene((), truncated=(B,)))
BOTH_FLAGS = (Scene((A, B)), Scene((), terminated=(A, B), truncated=(A,)))
WAITING = (Scene((A, B), (A,)), Scene((A, B), (B,), rewards={A: 1.0, B: 4.0}), Scene((), truncated=(A, B)))

GAMES = {
    "nim": lambda: load("envoi:nim"),
    "rps": lambda: load("envoi:rps"),
    "pursuit": lambda: short_pursuit(),
    "play": ScriptedGame,
    "turns": TurnGame,
    "all truncated": lambda: ScriptedGame(*ALL_TRUNCATED),
    "deaths": lambda: ScriptedGame(*DEATHS),
    "late": lambda: ScriptedGame(*LATE),
    "hand-over": lambda: ScriptedGame(*HAND_OVER),
    "hand-overs": lambda: ScriptedGame(*HAND_OVERS),
    "alone last": lambda: ScriptedGame(*ALONE_LAST),
    "both flags": lambda: ScriptedGame(*BOTH_FLAGS),
    "waiting": lambda: TurnGame(*WAITING),
}


def short_pursuit():
    made = load("envoi:pursuit")
    made.context = {"max_steps": 20}
    return made


@pytest.fixture(params=GAMES)
def game(request):
    return GAMES[request.param]()


def form_of(env, **arguments):
    return to_rllib(env, **arguments)({})


def exactly(left, right):
    np.testing.assert_equal(left, right)
    if isinstance(right, tuple):
        for mine, other in zip(left, right, strict=True):
            assert list(mine) == list(other)


def played(env, seed, episodes=3, actions=0):
    """The trace of a core environment over whole episodes under random actions."""
    rng = np.random.default_rng(actions)
    for episode in range(episodes):
        said = env.reset(seed=seed if episode == 0 else None)
        yield said, env.agents, env.turn
        while env.agents:
            said = env.step({agent: envoi.sample(env.action_spec[agent], rng) for agent in env.acting})
            yield said, env.agents, env.turn


# The form.


def test_each_agent_has_its_canonical_spaces():
    form = form_of(load("envoi:pursuit"))
    assert form.agents == form.possible_agents == list(form.core.possible_agents)
    assert all(space == spaces.Box(-4, 4, (4,), np.float32) for space in form.observation_spaces.values())
    assert [form.get_action_space(agent).n for agent in form.agents] == [4, 4, 5]
    assert list(form.observation_space.spaces) == form.agents


@pytest.mark.parametrize("canonical", [True, False])
def test_core_to_form_and_back_is_exact_in_all_values(game, canonical):
    form = RLlibMultiEnv(copy.deepcopy(game), canonical=canonical)
    back = FromRLlibMulti(form)
    # Both get the seed that the form makes of 5.
    mine, other = played(game, form.seeds.core_seed(5)), played(back, 5)
    for (said, agents, turn), (heard, *standing) in zip(mine, other, strict=not canonical):
        if not canonical:
            assert standing == [agents, turn]
        assert type(heard) is type(said)
        if canonical:  # the actions differ, so what follows from them may
            said = form.last._replace(observations=form.encode_observations(form.last.observations, form.last.infos))
        exactly(heard, said)


def test_a_form_of_envoi_that_is_read_back_replays_an_equal_seed():
    back = FromRLlibMulti(form_of(ScriptedGame()))
    begun = [back.reset(seed=seed).observations[A].tolist() for seed in (3, 3, None, 42, 42)]
    assert begun[0] == begun[1] != begun[2]
    assert begun[3] == begun[4]


def test_a_hand_over_does_not_end_the_episode_and_tells_the_end_one_step_later():
    form = form_of(ScriptedGame(*HAND_OVER), canonical=False)
    form.reset(seed=0)
    observations, rewards, terminateds, truncateds, infos = form.step({A: np.int64(5)})
    assert list(observations) == list(infos) == [B]
    assert rewards == {A: 2.0, B: 0.0}
    assert not any({**terminateds, **truncateds}.values())
    final = form.last.observations[A]
    observations, rewards, terminateds, truncateds, infos = form.step({B: np.int64(5)})
    np.testing.assert_array_equal(observations[A], final)
    assert truncateds == {A: True, B: False, "__all__": False}
    assert not any(terminateds.values())
    assert A not in rewards
    assert A in infos
    observations, _, terminateds, truncateds, _ = form.step({B: np.int64(5)})
    assert A not in {**observations, **terminateds, **truncateds}
    assert terminateds == {B: True, "__all__": True}


def test_a_mixed_end_tells_the_true_flags_in_infos():
    form = form_of(ScriptedGame(Scene((A, B)), Scene((), terminated=(A,), truncated=(B,))))
    form.reset(seed=0)
    _, _, terminateds, truncateds, infos = form.step({A: 0, B: 0})
    assert terminateds == {A: True, B: False, "__all__": False}
    assert truncateds == {A: False, "__all__": True}
    assert infos == {A: {"terminated": True, "truncated": False}, B: {"terminated": False, "truncated": True}}
    form = form_of(ScriptedGame(*ALL_TRUNCATED))
    form.reset(seed=0)
    form.step({A: 0, B: 0})
    _, _, terminateds, truncateds, infos = form.step({A: 0, B: 0})
    assert (terminateds["__all__"], truncateds) == (False, {"__all__": True})
    assert infos == {A: {}, B: {}}


def test_a_discount_is_reported_after_any_number_of_steps_without_one():
    form = form_of(ScriptedGame(Scene((A, B)), Scene((A, B)), Scene((A, B)), Scene((A, B), discounts={B: 0.5})))
    form.reset(seed=0)
    said = [form.step({A: 0, B: 0})[-1] for _ in range(3)]
    assert said == [{A: {}, B: {}}, {A: {}, B: {}}, {A: {}, B: {"discount": 0.5}}]


def test_an_end_is_reported_at_once_if_an_agent_that_waited_long_continues():
    scenes = [Scene((A, B), (A,))] * 3 + [Scene((A, B), (B,)), Scene((B,), (B,), terminated=(A,))]
    form = form_of(TurnGame(*scenes))
    form.reset(seed=0)
    said = [form.step({agent: 0}) for agent in (A, A, A, B)]
    assert [terminateds[A] for _, _, terminateds, _, _ in said] == [False, False, False, True]


def test_flags_are_the_callers_to_change():
    form = form_of(ScriptedGame(*[Scene((A, B))] * 5))
    form.reset(seed=0)
    for _ in range(4):
        _, _, terminateds, truncateds, _ = form.step({A: 0, B: 0})
        assert terminateds == truncateds == {A: False, B: False, "__all__": False}
        terminateds["__all__"] = truncateds[A] = True


def test_masks_are_in_infos_and_beside_observations_where_asked_for():
    form = form_of(load("envoi:nim"), action_masks=True)
    for said in (form.reset(seed=0), form.step({"first": 1}), form.step({"second": 0})):
        observations, infos = said[0], said[-1]
        for agent, seen in observations.items():
            assert form.observation_spaces[agent].contains(seen)
            assert list(seen) == ["action_mask", "observations"]
            np.testing.assert_array_equal(seen["action_mask"], infos[agent].get(MASK, np.ones(3)))
    form.core.context = {"sticks": 4}
    assert (form.reset()[1]["first"][MASK] == 1).all()
    observations, *_, infos = form.step({"first": 1})
    assert observations["second"]["action_mask"].tolist() == infos["second"][MASK].tolist() == [1, 1, 0]


def test_agents_without_one_discrete_action_have_no_mask():
    class Mixed(ScriptedGame):
        action_spec = {**ScriptedGame.action_spec, A: Array((2,), "float32", -1, 1)}

    form = form_of(Mixed, action_masks=True)
    assert isinstance(form.observation_spaces[A], spaces.Box)
    assert list(form.observation_spaces[B].spaces) == ["action_mask", "observations"]

    class None_(Mixed):
        action_spec = dict.fromkeys(AGENTS, Array((2,), "float32", -1, 1))

    with pytest.raises(LossyConversion) as caught:
        form_of(None_, action_masks=True)
    assert (caught.value.path, caught.value.field) == ("action['zoe']", "mask")


def test_losses_and_refusals_name_the_agent():
    found = losses(ScriptedGame(), "rllib")
    assert [loss.path for loss in found] == [f"observation[{agent!r}]" for agent in AGENTS]
    assert {loss.field for loss in found} == {"precision"}

    class Speaking(ScriptedGame):
        observation_spec = {**ScriptedGame.observation_spec, C: {"word": envoi.Text(3)}}
        reward_spec = {**dict.fromkeys(AGENTS, Array((), "float64")), B: Array((2,), "float64")}

    refused = [loss for loss in losses(Speaking(), "rllib") if loss.refused]
    assert [loss.path for loss in refused] == ["reward['adam']", "observation['mia']['word']"]
    with pytest.raises(LossyConversion) as caught:
        form_of(Speaking)
    assert caught.value.path == "reward['adam']"
    form_of(Speaking, canonical=False)


# Seeds.


def start(form, **arguments):
    observations, _ = form.reset(**arguments)
    return tuple(np.concatenate([np.ravel(value) for value in observations.values()]).tolist())


def test_the_reset_of_rllibs_checker_does_not_make_all_environments_alike():
    forms = [form_of(ScriptedGame) for _ in range(3)]
    for form in forms:
        check_multiagent_environments(form)
    assert len({start(form) for form in forms}) == 3
    # A reset with that seed is a reset like any other later.
    assert len({start(form, seed=42, options={}) for form in forms}) == 1


# A real env runner.


@pytest.fixture
def run(env_runner):
    """Makes an env runner of RLlib's for the agents of an environment."""

    def make(env, worker=1, lanes=2, seed=11, check=False, module=None, **arguments):
        creator = to_rllib(env, validate=True, **arguments)
        return env_runner(
            creator,
            worker,
            creator({}).possible_agents,
            environment={"disable_env_checking": not check},
            env_runners={"num_envs_per_env_runner": lanes},
            debugging={"seed": seed},
            **({} if module is None else {"rl_module": {"rl_module_spec": module}}),
        )

    return make


def labels(episode):
    return {agent: (one.is_terminated, one.is_truncated) for agent, one in episode.agent_episodes.items()}


T, CUT, BOTH, GOES_ON = (True, False), (False, True), (True, True), (False, False)

LABELS = {
    "rps": dict.fromkeys(("player_0", "player_1"), CUT),
    # Of who is terminated while others are truncated RLlib can only say both; what counts then is the termination.
    "play": {A: BOTH, B: T, C: CUT, "bob": BOTH, "eve": CUT},
    "turns": {A: BOTH, B: T, C: CUT, "bob": BOTH, "eve": CUT},
    "all truncated": {A: CUT, B: CUT},
    "deaths": {A: CUT, B: T, C: CUT},
    "late": {A: T, B: T},
    "hand-over": {A: CUT, B: T},
    "hand-overs": {A: T, B: CUT, C: BOTH},
    "alone last": {A: T, B: CUT},
    "both flags": {A: BOTH, B: T},
    "waiting": {A: CUT, B: CUT},
}


@pytest.mark.parametrize("check", [False, True], ids=["unchecked", "checked"])
@pytest.mark.parametrize("name", LABELS)
def test_every_recorded_episode_is_labelled_as_it_ended(run, name, check):
    runner = run(GAMES[name], check=check)
    for options in ({"random_actions": True}, {}):
        for episode in runner.sample(num_episodes=3, **options):
            assert labels(episode) == LABELS[name]
    # A chunk may end anywhere, and the rest follows.
    chunks = [chunk for _ in range(36) for chunk in runner.sample(num_timesteps=1, random_actions=True)]
    done = [chunk for chunk in chunks if chunk.is_done]
    assert done
    for chunk in done:
        assert labels(chunk).items() <= LABELS[name].items()


def test_recorded_returns_and_lengths_are_the_cores(run):
    (episode,) = run(lambda: ScriptedGame(*HAND_OVERS), lanes=1).sample(num_episodes=1, random_actions=True)
    assert {agent: one.get_return() for agent, one in episode.agent_episodes.items()} == {A: 2.0, B: 3.0, C: 5.0}
    assert {agent: len(one) for agent, one in episode.agent_episodes.items()} == {A: 1, B: 1, C: 1}
    seen = {agent: one.get_observations()[:, 1].tolist() for agent, one in episode.agent_episodes.items()}
    assert seen == {A: [0, 1], B: [1, 2], C: [2, 3]}


def test_workers_record_different_episodes_and_a_repeated_run_the_same(run):
    def begun(worker, **arguments):
        episodes = run(ScriptedGame, worker, lanes=4, **arguments).sample(num_episodes=4, random_actions=True)
        return {float(episode.agent_episodes[A].get_observations(0)[0]) for episode in episodes}

    first = begun(1)
    assert len(first) == 4
    assert not first & begun(2)
    assert begun(1) == first
    # Without a seed and with RLlib's checks, which reset every environment with the same one.
    unseeded = [begun(worker, seed=None, check=True) for worker in (1, 2)]
    assert len(unseeded[0] | unseeded[1]) == 8


def test_rllibs_masking_module_plays_no_illegal_move(run):
    module = RLModuleSpec(module_class=ActionMaskingTorchRLModule, model_config={"head_fcnet_hiddens": [8]})
    runner = run("envoi:nim", action_masks=True, module=module)
    for episode in runner.sample(num_episodes=20):
        for one in episode.agent_episodes.values():
            *_, last = one.get_observations()["observations"]
            assert last.argmax() == 0  # the last stick was taken, and no agent took more than there were


# Registration, and a try beforehand.


def test_several_agents_and_batches_are_tried_beforehand():
    from envoi.integrations.rllib import preflight, register

    observations, actions = preflight("envoi:nim", steps=100)
    assert list(actions.spaces) == ["first", "second"]
    assert observations["first"].shape == (101,)
    observations, actions = preflight(lambda: envoi.batch(load("envoi:catch"), 4), steps=100)
    assert (observations.shape, actions.n) == ((50,), 3)

    class Wrong(ScriptedGame):
        def observe(self, state, agent, rng):
            return super().observe(state, agent, rng) if state[0] < 2 else np.zeros(1)

    with pytest.raises(SpecError, match=r"observation\['zoe'\].*--check-specs off"):
        preflight(Wrong)
    preflight(TurnGame, steps=60)
    made = register("envoi-registered", Wrong, check_specs=True)({})
    assert isinstance(made.unwrapped, RLlibMultiEnv)
    made.reset(seed=0)
    made.step({A: 0, B: 0})
    with pytest.raises(SpecError):
        made.step({A: 0, B: 0})


# RLlib's own games as core environments.


class Guided(examples.GuessTheNumberGame):
    def __init__(self):
        super().__init__({})


SOURCES = {
    "rock paper scissors": lambda: RockPaperScissors({}),
    "tic-tac-toe": TicTacToe,
    "two steps": lambda: examples.TwoStepGame({}),
    "two steps, one-hot": lambda: examples.TwoStepGame({"one_hot_state_encoding": True}),
    "two steps, a state": lambda: examples.TwoStepGame({"one_hot_state_encoding": True, "separate_state_space": True}),
    "guess the number": Guided,
    "corridor": lambda: DoubleRowCorridorEnv({"length": 4}),
    "cart-poles": lambda: examples.MultiAgentCartPole({"num_agents": 3}),
    "mountain cars": lambda: examples.MultiAgentMountainCar({"num_agents": 2}),
}


def begin(seed):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (some of them sample from it)


@pytest.mark.parametrize("name", SOURCES)
def test_a_game_of_rllib_plays_as_it_does_there(name):
    source, env = SOURCES[name](), from_rllib(SOURCES[name]())
    assert isinstance(env, FromRLlibMulti)
    assert set(env.possible_agents) == set(env.observation_spec) == set(env.action_spec)
    for episode in range(4):
        rng = np.random.default_rng(episode)
        begin(episode)
        observations, _ = source.reset(seed=episode)
        begin(episode)
        seen, _ = env.reset(seed=episode)
        ended = set()
        for _ in range(60):
            assert set(env.acting) == set(observations) - ended
            for agent, value in observations.items():
                np.testing.assert_equal(seen[agent], value)
                envoi.validate(env.observation_spec[agent], seen[agent])
            actions = {agent: envoi.sample(env.action_spec[agent], rng) for agent in env.acting}
            observations, rewards, terminateds, truncateds, _ = source.step(dict(actions))
            step = env.step(actions)
            seen = step.observations
            assert {k: v for k, v in step.rewards.items() if v} == {k: v for k, v in rewards.items() if v}
            assert all(key in env.possible_agents or key == COMMON for part in step for key in part)
            ended |= {agent for agent in step.terminated if step.terminated[agent] or step.truncated[agent]}
            assert ended >= {a for flags in (terminateds, truncateds) for a, on in flags.items() if on} - {"__all__"}
            over = terminateds["__all__"] or truncateds.get("__all__", False)
            assert (not env.agents) == bool(over)
            if over:
                assert set(step.observations) >= set(step.terminated)
                break


class Told(MultiAgentEnv):
    """Plays a script, in which a step is (observed, rewards, terminateds, truncateds, infos)."""

    def __init__(self, *steps, first=(A, B), agents=(A, B), possible=(A, B, C)):
        super().__init__()
        self.possible_agents, self.agents, self.first, self.steps = list(possible), list(agents), first, steps
        self.observation_spaces = dict.fromkeys(possible, spaces.Box(0, 1, (2,), np.float32))
        self.action_spaces = dict.fromkeys(possible, spaces.Discrete(3, start=5))
        self.at = 0
        self.buffer = np.zeros(2, np.float32)

    def look(self, agents):
        self.buffer[:] = [self.drawn, self.at / 100]
        return dict.fromkeys(agents, self.buffer)

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.at, self.drawn = 0, self.np_random.random()
        return self.look(self.first), {A: {"hello": 1}, "__common__": {"at": 0}}

    def step(self, actions):
        actions.clear()
        observed, rewards, terminateds, truncateds, infos = self.steps[self.at]
        self.at, self.drawn = self.at + 1, self.np_random.random()
        return self.look(observed), dict(rewards), dict(terminateds), dict(truncateds), dict(infos)


GO, STOP = {"__all__": False}, {"__all__": True}
ON = ((A, B), {A: 1.0, B: 2}, GO, GO, {})


def told(*steps, **arguments):
    env = from_rllib(Told(*steps, **arguments))
    env.reset(seed=0)
    return env


def act(env):
    return env.step({agent: np.int64(6) for agent in env.acting})


def test_who_acts_next_is_who_is_observed():
    env = told(((B,), {A: 1.0}, GO, GO, {}), ON, first=(A,))
    assert (env.agents, env.turn, env.acting) == ((A, B), (A,), (A,))
    step = act(env)
    assert (env.agents, env.turn) == ((A, B), (B,))
    assert list(step.observations) == [B]
    assert step.rewards == {A: 1.0, B: 0.0}
    act(env)
    assert env.turn is None
    with pytest.raises(EpisodeError, match="missing"):
        env.step({A: np.int64(5)})


FLAGS_OF_INFOS = {A: {"terminated": True, "truncated": True}}


@pytest.mark.parametrize(
    ("terminateds", "truncateds", "infos", "ends"),
    [
        (STOP, GO, {}, {A: T, B: T}),
        (GO, STOP, {}, {A: CUT, B: CUT}),
        (STOP, {}, {}, {A: T, B: T}),
        ({}, STOP, {}, {A: CUT, B: CUT}),
        (STOP, STOP, {}, {A: BOTH, B: BOTH}),
        ({A: True, B: False, **STOP}, {B: True, **GO}, {}, {A: T, B: CUT}),  # own flags win
        ({A: True, **GO}, {B: True, **GO}, {}, {A: T, B: CUT}),  # and end the episode without that of all
        ({A: True, **GO}, GO, {}, {A: T, B: GOES_ON}),
        (GO, GO, FLAGS_OF_INFOS, {A: GOES_ON, B: GOES_ON}),  # in infos of others they mean nothing
    ],
)
def test_flags_of_a_step_are_read_by_agent(terminateds, truncateds, infos, ends):
    env = told(((A, B), {}, terminateds, truncateds, infos))
    step = act(env)
    assert {agent: (step.terminated[agent], step.truncated[agent]) for agent in (A, B)} == ends
    assert step.discounts == {agent: 0.0 if ends[agent][0] else 1.0 for agent in (A, B)}
    assert env.agents == tuple(agent for agent in (A, B) if ends[agent] == GOES_ON)
    assert step.infos == {A: {}, B: {}, **infos}
    if not env.agents:
        with pytest.raises(EpisodeError, match="ended"):
            act(env)


def test_who_disappears_waits_until_the_end_and_collects_rewards():
    env = told(((A,), {B: 1.0}, GO, GO, {}), ((A,), {B: 2.0}, GO, GO, {}), ((A,), {B: 4.0}, STOP, GO, {}))
    seen = env.observation(B)
    total = 0
    for _ in range(3):
        step = act(env)
        total += step.rewards[B]
        np.testing.assert_array_equal(env.observation(B), seen)
    assert total == 7
    assert step.terminated[B]
    assert step.infos[B] == {SYNTHETIC: True}
    np.testing.assert_array_equal(step.observations[B], seen)


def test_who_was_never_observed_ends_with_zeros_marked_so():
    env = told(((A,), {}, GO, STOP, {}), first=(A,))
    with pytest.raises(EpisodeError, match="waits"):
        env.observation(B)
    step = act(env)
    assert step.truncated == {A: True, B: True}
    assert step.observations[B].tolist() == [0, 0]
    assert step.infos[B][SYNTHETIC]


def test_late_joiners_join_when_they_are_heard_of():
    env = told(((A, C), {C: 0.5}, GO, GO, {}), ON)
    assert env.agents == (A, B)
    step = act(env)
    assert env.agents == (A, B, C)
    assert env.turn == (A, C)
    assert step.rewards[C] == 0.5
    assert step.terminated == dict.fromkeys((A, B, C), False)


def test_a_revival_and_unknown_agents_are_refused_by_name():
    env = told(((A, B), {}, {A: True, **GO}, GO, {}), ((A, B), {}, GO, GO, {}))
    act(env)
    with pytest.raises(EpisodeError, match=rf"\[{A!r}\] ended before"):
        act(env)
    env = told((("stranger", A), {}, GO, GO, {}))
    with pytest.raises(SpecError, match="stranger"):
        act(env)


def test_infos_discounts_and_rewards_of_none():
    infos = {A: {"discount": 0.25, "x": 1}, "__common__": {"y": 2}, "__all__": {"z": 3}}
    env = told(((A, B), {A: None}, GO, GO, infos))
    assert env.reset().infos == {A: {"hello": 1}, B: {}, COMMON: {"at": 0}}
    step = act(env)
    assert step.discounts == {A: 0.25, B: 1.0}
    assert step.infos == {A: {"x": 1}, B: {}, COMMON: {"y": 2}}
    assert step.rewards == {A: 0.0, B: 0.0}
    assert infos[A] == {"discount": 0.25, "x": 1}


def test_a_mask_beside_the_observations_is_in_the_infos_too():
    class Masked(Told):
        def __init__(self, *steps):
            super().__init__(*steps)
            seen = spaces.Dict({"action_mask": spaces.Box(0, 1, (3,), np.float32), "observations": spaces.Discrete(2)})
            self.observation_spaces = dict.fromkeys((A, B, C), seen)

        def look(self, agents):
            return {a: {"action_mask": np.array([1, 0, 1], np.float32), "observations": np.int64(1)} for a in agents}

    env = from_rllib(Masked(ON))
    _, infos = env.reset(seed=0)
    assert infos[A][MASK].tolist() == [1, 0, 1]
    assert infos[A][MASK].dtype == np.int8
    assert act(env).infos[B][MASK].tolist() == [1, 0, 1]


def test_snapshots_of_a_form_of_envoi_contain_ends_that_are_held_back():
    env = FromRLlibMulti(RLlibMultiEnv(ScriptedGame(*HAND_OVERS)))
    env.reset(seed=1)
    act(env)
    snapshot, last = env.snapshot(), exact(env.source.last)
    rest = [act(env) for _ in range(2)]
    env.restore(snapshot)
    assert exact(env.source.last) == last
    for expected in rest:
        exactly(act(env), expected)


def test_an_environment_inside_wrappers_of_gymnasium_is_recognised():
    wrapped = gymnasium.Wrapper(Told(ON))
    assert recognises(wrapped)
    env = from_rllib(wrapped)
    assert isinstance(env, FromRLlibMulti)
    assert env.unwrapped is wrapped.unwrapped
    env.reset(seed=0)
    assert act(env).rewards == {A: 1.0, B: 2}
    ours = from_rllib(gymnasium.Wrapper(RLlibMultiEnv(ScriptedGame())))
    assert ours.reset(seed=0).infos[A] == {"hello": 1}
    assert ours.step({A: 0, B: 0}).discounts == {A: 0.5, B: 0}


def test_agents_are_in_the_order_of_their_declaration_or_sorted():
    assert from_rllib(Told(ON)).possible_agents == (A, B, C)

    class OfSpaces(Told):
        def __init__(self):
            super().__init__(ON)
            self.agents = self.possible_agents = []

    assert from_rllib(OfSpaces()).possible_agents == (A, B, C)

    class OfIds(Told):
        def __init__(self):
            self._agent_ids = {"b", "a", "d", "c"}
            MultiAgentEnv.__init__(self)  # makes lists of the set
            self.observation_space, self.action_space = spaces.Discrete(2), spaces.Discrete(2)

    assert from_rllib(OfIds()).possible_agents == ("a", "b", "c", "d")

    class Nothing(MultiAgentEnv):
        pass

    with pytest.raises(SpecError, match="possible_agents"):
        from_rllib(Nothing())

    class NoSpace(Told):
        def __init__(self):
            super().__init__(ON)
            del self.action_spaces[C]

    with pytest.raises(SpecError, match="action_spaces for the possible agent 'mia'"):
        from_rllib(NoSpace())
