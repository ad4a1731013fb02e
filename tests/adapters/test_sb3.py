"""Stable-Baselines3's `VecEnv`, both ways, beside its own `DummyVecEnv`."""

import copy

import gymnasium
import numpy as np
import pytest
from forms import PlainWalk
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from scripted import Ends, Shaped
from small_models import Count, Sums
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)
from traces import exact

import envoi
from envoi import Array, Discrete, EpisodeError, LossyConversion, SnapshotUnsupported, SpecError
from envoi.adapters import from_env, from_sb3, load, registry, to_gymnasium, to_gymnasium_vector, to_sb3
from envoi.adapters.sb3 import FromDummyVecEnv, FromSB3, ToSB3

pytestmark = [
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
    pytest.mark.filterwarnings("ignore:.*Evaluation environment is not wrapped.*:UserWarning"),
]

N = 3


class Rich(PlainWalk):
    """A walk that shows an image too, with an attribute and a method."""

    observation_spec = {**PlainWalk.observation_spec, "image": Array((2, 2, 1), "uint8", 0, 255)}
    speed = 1

    def observe(self, state, rng):
        return {**super().observe(state, rng), "image": np.full((2, 2, 1), state[0], np.uint8)}

    def reward(self, state, action, next_state):
        return self.speed * super().reward(state, action, next_state)

    def info(self, state):
        return {**super().info(state), 3: {"deep": [state[0]]}}

    def shout(self, word, times=1):
        return word * times * self.speed


class Pair(Ends):
    """Observations are a tuple."""

    observation_spec = (Array((3,), "float32"), Discrete(9))

    def observe(self, state, rng):
        return super().observe(state, rng), np.int64(state[1])


def gym_cartpole():
    return gymnasium.make("CartPole-v1", max_episode_steps=12)


def dummy(make, n=N):
    """Stable-Baselines3's own loop, over our gymnasium forms."""
    return DummyVecEnv([lambda: to_gymnasium(make())] * n)


def lanes(make, n=N):
    return to_sb3(envoi.Lanes([make() for _ in range(n)]))


def native(venv, steps=25, seed=5):
    """The values that a `VecEnv` returns, played by its own API."""
    venv.seed(seed)
    told, rng = [exact(venv.reset()), exact(list(venv.reset_infos))], np.random.default_rng(0)
    space = venv.action_space
    for _ in range(steps):
        space.seed(int(rng.integers(1000)))
        step = venv.step(np.array([space.sample() for _ in range(venv.num_envs)]))
        told += [exact(part) for part in step[:3]]
        for info in step[3]:
            if "discount" in info:
                info["discount"] = float(info["discount"])  # of an array here, of an environment alone there
            told.append(sorted(map(repr, exact(info))))
        told.append([sorted(map(repr, exact(info))) for info in venv.reset_infos])
    return told


def core(batch, steps=25, seed=5):
    """The values that a core batch returns, reset in the step of each end."""
    told, rng = [exact(batch.reset(seed=seed))], np.random.default_rng(0)
    for _ in range(steps):
        actions = [envoi.sample(batch.action_spec, rng) for _ in range(batch.batch_size)]
        step = batch.step(envoi.lane_values.stack(batch.action_spec, actions))
        told.append([exact(part) for part in step[:5]] + [sorted(map(repr, exact(info))) for info in step.info])
        over = step.terminated | step.truncated
        if over.any():
            begun = batch.reset(mask=over)
            told.append([exact(begun.observation), *(sorted(map(repr, exact(info))) for info in begun.info)])
    return told


# There.


@pytest.mark.parametrize("make", [Rich, Ends, Pair])
def test_the_form_returns_the_values_of_a_dummy_vec_env_over_gymnasium_forms(make):
    """Dicts, tuples, dtypes, rewards, infos, terminal observations, both flags, discounts, seeds of lanes."""
    assert native(lanes(make)) == native(dummy(make))


def test_seeds_go_to_the_lanes_of_the_next_reset_alone():
    venv, alone = lanes(Ends), [to_gymnasium(Ends()) for _ in range(N)]
    assert venv.seed(7) == [7, 8, 9]
    for seeds in ([7, 8, 9], [None] * N):
        expected = np.stack([env.reset(seed=seed)[0] for env, seed in zip(alone, seeds, strict=True)])
        assert np.array_equal(venv.reset(), expected)
    assert all(isinstance(seed, int) for seed in venv.seed())  # as Stable-Baselines3 chooses them


@pytest.mark.parametrize("options", [{"wind": 2}, [{"wind": 2}, {}, {"wind": 3}], [{"wind": np.arange(2)}] * 2 + [{}]])
@pytest.mark.parametrize("seed", [None, 4])
def test_options_go_to_the_lanes_of_the_next_reset_alone(options, seed):
    venv = lanes(Rich)
    given = copy.deepcopy(options)
    if seed is not None:
        venv.seed(seed)
    venv.set_options(options)
    observation = venv.reset()
    assert exact(options) == exact(given)
    each = options if isinstance(options, list) else [options] * N
    assert exact([env.contexts[-1] for env in venv.core.envs]) == exact(each)
    venv.reset()
    assert [env.contexts[-1] for env in venv.core.envs] == [{}] * N
    if seed is not None:
        same = dummy(Rich)
        same.seed(seed)
        assert exact(same.reset()) == exact(observation)


class WindyLanes(Sums):
    """Random numbers and the wind, of lanes that share one random stream."""

    observation_spec, action_spec = Array((2,), "float64"), Discrete(2)
    context_space = envoi.ContextSpace([envoi.UniformFloat("wind", -1, 1, default=0)])

    def initial(self, rng, context, n):
        return np.stack([rng.normal(size=n), np.broadcast_to(context["wind"], n)], 1)


def test_options_that_differ_leave_lanes_of_one_model_their_own_random_numbers():
    venv = to_sb3(envoi.batch(WindyLanes(), N))
    for _ in range(2):  # before the first reset, and after it
        venv.seed(4)
        venv.set_options([{"wind": 0.5}, {}, {"wind": 0.5}])
        seen = venv.reset()
        assert seen[:, 1].tolist() == [0.5, 0, 0.5]
        assert len(set(seen[:, 0])) == N


def test_a_step_has_two_halves():
    venv = lanes(Ends)
    with pytest.raises(EpisodeError, match="reset"):
        venv.step([0] * N)
    venv.reset()
    with pytest.raises(EpisodeError, match=r"step_wait: no step is under way; call step_async"):
        venv.step_wait()
    venv.step_async([0, 1, 0])
    with pytest.raises(EpisodeError, match=r"step_async: a step is under way; call step_wait"):
        venv.step_async([0, 1, 0])
    venv.step_wait()
    venv.step_async([0, 1, 0])
    venv.reset()  # which cancels it
    venv.step([0, 1, 0])
    with pytest.raises(SpecError, match="3 lanes"):
        venv.step([0, 1])


@pytest.mark.parametrize(
    ("seen", "done", "wrapper"),
    [
        (Array((3,)), {"a": Discrete(2), "b": Discrete(3)}, envoi.FlattenAction),
        (Array((3,)), Discrete(3, start=5), envoi.ActionOffset),
        ({"a": {"b": Array((3,))}}, Discrete(2), envoi.FlattenObservation),
        ({"a": Array(())}, Discrete(2), envoi.FlattenObservation),
        (Discrete(3, start=5), Discrete(2), envoi.FlattenObservation),
    ],
)
def test_what_policies_cannot_take_names_its_wrapper(seen, done, wrapper):
    env = Shaped(seen, done)
    with pytest.raises(LossyConversion, match=f"sb3.*envoi.{wrapper.__name__}"):
        to_sb3(env, 2)
    PPO("MlpPolicy", to_sb3(wrapper(env), 2), n_steps=4, batch_size=4, device="cpu").learn(8)


def test_numbers_of_lanes_that_do_not_fit_are_refused():
    with pytest.raises(SpecError, match="expected a batch"):
        ToSB3(Ends())
    with pytest.raises(SpecError, match="n: expected None or 3"):
        to_sb3(envoi.batch(Ends(), 3), 2)


def test_attributes_of_lanes():
    venv = lanes(Rich)
    assert venv.get_attr("speed") == [1, 1, 1]
    assert venv.get_attr("speed", 1) == [1]
    venv.set_attr("speed", 3, [0, 2])
    assert venv.get_attr("speed") == [3, 1, 3]
    assert [env.speed for env in venv.core.envs] == [3, 1, 3]
    assert venv.env_method("shout", "a", times=2) == ["aaaaaa", "aa", "aaaaaa"]
    assert venv.env_method("shout", "a", indices=[1]) == ["a"]
    assert venv.has_attr("speed")
    assert not venv.has_attr("nothing")
    assert venv.get_attr("observation_space", [0]) == [venv.observation_space]
    assert venv.get_attr("render_mode") == [venv.render_mode] * N
    assert [unwrapped.core for unwrapped in venv.get_attr("unwrapped")] == list(venv.core.envs)


class Shouting(gymnasium.Wrapper):
    def shout(self, word):
        return word * self.get_wrapper_attr("loudness")


def shouting():
    env = Shouting(Monitor(gym_cartpole()))
    env.unwrapped.loudness = 2
    return env


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv, DummyVecEnv, SubprocVecEnv, "changed"])
def test_attributes_of_foreign_lanes(kind):
    if kind == "changed":
        source = SubprocVecEnv([shouting] * 2, start_method="fork")
        venv = to_sb3(envoi.ActionClip(from_env(source)))
        assert venv is not source
    else:
        fork = {"start_method": "fork"} if kind is SubprocVecEnv else {}
        venv = to_sb3(kind([shouting] * 2, **fork))
    try:
        assert venv.get_attr("loudness") == [2, 2]
        assert venv.env_method("shout", "a") == ["aa", "aa"]
        if kind is AsyncVectorEnv:
            with pytest.raises(SpecError, match="shout: expected all lanes"):
                venv.env_method("shout", "a", indices=[0])
        else:
            assert venv.env_method("shout", "a", indices=[0]) == ["aa"]
            assert venv.env_is_wrapped(Monitor) == [True, True]
            assert venv.env_is_wrapped(VecMonitor, [1]) == [False]
        venv.set_attr("loudness", 3, [1])
        if kind is SyncVectorEnv:
            assert venv.get_attr("loudness") == [2, 3]
    finally:
        venv.close()


# Anything goes there, and comes back the same object.


@pytest.mark.parametrize(
    "env",
    [
        lambda: envoi.batch(load("envoi:cartpole"), 2),
        lambda: load("envoi:cartpole"),
        lambda: gym_cartpole,
        gym_cartpole,
        lambda: SyncVectorEnv([gym_cartpole] * 2),
        lambda: to_gymnasium_vector(Ends(), 2),
        lambda: load("envoi:rps"),
    ],
    ids=["batch", "core", "factory", "gymnasium", "vector", "our vector", "agents"],
)
def test_any_environment_goes_there(env):
    source = env()
    takes_n = getattr(source, "num_envs", getattr(source, "batch_size", None)) is None
    venv = to_sb3(source, 2 if takes_n and not isinstance(source, envoi.MultiEnv) else None)
    assert venv.num_envs == 2
    assert to_sb3(venv) is venv
    assert from_sb3(venv) is venv.core
    assert to_sb3(from_sb3(venv)).core is venv.core
    assert registry.home(venv).name == "sb3"
    venv.reset()
    for _ in range(15):
        venv.step(np.array([venv.action_space.sample() for _ in range(2)]))


@pytest.mark.parametrize("wrap", [lambda venv: venv, VecMonitor], ids=["loop", "wrapped"])
def test_what_came_from_there_goes_back_as_itself(wrap):
    source = wrap(DummyVecEnv([gym_cartpole] * 2))
    batch = from_sb3(source)
    assert type(batch) is (FromDummyVecEnv if isinstance(source, DummyVecEnv) else FromSB3)
    assert to_sb3(batch) is source
    assert from_env(source).source is source
    assert repr(batch).startswith("from_sb3(")
    checked = to_sb3(from_sb3(source), validate=True)
    assert checked is not source
    assert checked.observation_space == source.observation_space
    # In gymnasium's form too, which is another object.
    vector = to_gymnasium_vector(batch, autoreset_mode="SameStep")
    assert isinstance(vector, gymnasium.vector.VectorEnv)
    vector.reset(seed=1)
    vector.step(np.zeros(2, int))
    with pytest.raises(SpecError, match="use from_sb3"):
        envoi.adapters.from_gymnasium_vector(source)


# Back.


def test_lanes_that_only_step_together_return_the_values_of_the_same_lanes_alone():
    with_processes = SubprocVecEnv([gym_cartpole] * N, start_method="fork")
    try:
        together = from_sb3(with_processes)
        assert type(together) is FromSB3
        assert together.restarts == {"reset"}
        expected = core(from_sb3(DummyVecEnv([gym_cartpole] * N)), 40)
        assert core(together, 40) == expected
        assert core(from_sb3(VecMonitor(DummyVecEnv([gym_cartpole] * N))), 1)[0] == expected[0]
        with pytest.raises(SnapshotUnsupported, match="other processes"):
            together.snapshot()
        with pytest.raises(SnapshotUnsupported, match="other processes"):
            copy.deepcopy(together)
        with pytest.raises(EpisodeError, match="cannot be reset by themselves"):
            together.reset(mask=np.array([True, False, False]))
        assert exact(together.reset(seed=[9, 3, 4])[0]) == exact(
            np.stack([gym_cartpole().reset(seed=seed)[0] for seed in (9, 3, 4)])
        )
        together.rng = np.random.default_rng(0)
        first = together.reset()[0]
        together.rng = np.random.default_rng(0)
        assert exact(together.reset()[0]) == exact(first)
    finally:
        with_processes.close()


class Silent(DummyVecEnv):
    """It forgets what an episode ended in."""

    def step_wait(self):
        *told, infos = super().step_wait()
        for info in infos:
            info.pop("terminal_observation", None)
        return *told, infos


def test_an_end_without_its_observation_is_an_error():
    batch = from_sb3(Silent([gym_cartpole] * 2))
    with pytest.raises(SpecError, match=r"expected info\['terminal_observation'\] of lane"):
        core(batch, 20)


def test_seeds_that_wait_in_a_loop_are_those_of_the_first_reset():
    source, other = DummyVecEnv([gym_cartpole] * 2), DummyVecEnv([gym_cartpole] * 2)
    source.seed(3)
    other.seed(3)
    batch = from_sb3(source)
    assert exact(batch.reset()[0]) == exact(other.reset())
    assert exact(batch.reset()[0]) == exact(other.reset())
    assert exact(batch.reset(seed=3)[0]) != exact(batch.reset(seed=4)[0])


def test_wrappers_around_a_form_read_it_exactly():
    """Rewards before they became float32, and a truncation beside a termination."""
    plain = envoi.Lanes([Rich() for _ in range(N)])
    batch = from_sb3(VecMonitor(lanes(Rich)))
    assert type(batch) is FromSB3
    assert batch.reward_spec == plain.reward_spec

    def without_episodes(told):
        return [[line for line in map(str, entry) if "episode" not in line] for entry in told]

    a, b = core(batch), core(plain, seed=[5, 6, 7])
    assert without_episodes(a[:1]) == without_episodes(b[:1])
    assert [entry[:5] for entry in a if len(entry) == 6] == [entry[:5] for entry in b if len(entry) == 6]


@pytest.mark.parametrize("gives", [VecNormalize, lambda venv: VecFrameStack(venv, 2), VecTransposeImage])
def test_wrappers_of_stable_baselines3_around_a_form(gives):
    class Image(Ends):
        observation_spec = Array((36, 36, 1), "uint8", 0, 255)

        def observe(self, state, rng):
            return np.full((36, 36, 1), 10 * state[1], np.uint8)

    ours, theirs = gives(lanes(Image)), gives(dummy(Image))
    assert native(ours) == native(theirs)
    batch = from_sb3(ours)
    assert batch.observation_spec.shape == ours.observation_space.shape
    batch.reset(seed=0)
    for _ in range(6):
        step = batch.step(np.zeros(N, int))
        assert envoi.contains(batch.observation_spec, step.observation[0])
        over = step.terminated | step.truncated
        if over.any():
            batch.reset(mask=over)


# Learning.


class Countdown(Count):
    """Takes one to three of the rest, never more than are left."""

    observation_spec = envoi.Array((1,), "float32", 0, 9)
    action_spec = envoi.Discrete(3)

    def initial(self, rng, context):
        return int(rng.integers(4, 10))

    def transition(self, state, action, rng):
        assert action < state, "an action that the mask forbids"
        return state - int(action) - 1

    def observe(self, state, rng):
        return np.array([state], np.float32)

    def terminal(self, state):
        return state == 0

    def info(self, state):
        return {"action_mask": np.arange(3) < state}


def test_learning_never_takes_a_masked_action():
    envs = to_sb3(Countdown(), 4)
    model = MaskablePPO("MlpPolicy", VecMonitor(envs), n_steps=64, batch_size=64, device="cpu", seed=0)
    model.learn(512)
    evaluate_policy(model, to_sb3(Countdown(), 2), n_eval_episodes=4, warn=False)
    assert model.num_timesteps == 512


@pytest.mark.parametrize("workers", [None, 2])
def test_masks_follow_automatic_resets(workers):
    envs = to_sb3(envoi.batch(Countdown, 3, workers=workers))
    envs.seed(0)
    observation, ends = envs.reset(), 0
    for _ in range(40):
        masks = get_action_masks(envs)
        assert masks.dtype == bool
        assert masks.tolist() == (np.arange(3) < observation).tolist()
        observation, _, over, _ = envs.step(masks.sum(1) - 1)
        ends += over.sum()
    assert ends > 9
    assert envs.env_method("action_masks", indices=1)[0].tolist() == (np.arange(3) < observation[1]).tolist()
    envs.close()


def test_asking_before_a_reset_changes_nothing():
    envs, other = to_sb3(Countdown(), 2), to_sb3(Countdown(), 2)
    envs.seed(0)
    other.seed(0)
    assert is_masking_supported(envs)
    assert envs.reset().tolist() == other.reset().tolist()


def test_has_no_masks_without_any():
    envs = to_sb3(load("envoi:catch"), 2)
    assert not is_masking_supported(envs)
    envs.reset()
    assert not envs.has_attr("action_masks")
    with pytest.raises(AttributeError, match="action_masks"):
        envs.env_method("action_masks")


@pytest.mark.parametrize("compiled", [False, True])
def test_later_steps_leave_returned_arrays_alone(compiled):
    form = to_sb3(envoi.batch(envoi.TimeLimit(envoi.models.CartPole(), 4), 2, compiled=compiled))
    returned = [form.reset()]
    for _ in range(9):
        returned += form.step(np.ones(2, int))[:3]
    held = copy.deepcopy(returned)
    for _ in range(9):
        form.step(np.zeros(2, int))
    assert all(map(np.array_equal, returned, held))
