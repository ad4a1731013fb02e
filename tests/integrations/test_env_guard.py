"""Guards of registered envs: each error of an env names env, worker, lane and step. No cluster is needed."""

import copy
import math
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from faulty import Failing, FailingBatch, FailingGame
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

import envoi
from envoi.integrations.errors import EnvFailure, describe
from envoi.integrations.rllib import configure, register
from envoi.integrations.rllib.callbacks import check_losses
from envoi.integrations.rllib.env_failures import CALM_SECONDS, in_a_row
from envoi.integrations.rllib.env_guard import EVERY, EnvGuard, Runner, has_nan

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*already in registry:UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)


MOVES = {"player_0": 0, "player_1": 1}


def play(env, steps):
    """Steps an env with random actions, or a game with the same moves, resetting it where it ends."""
    env.reset(seed=0)
    for _ in range(steps):
        game = hasattr(env.unwrapped, "possible_agents")
        *_, terminated, truncated, _ = env.step(MOVES if game else env.action_space.sample())
        if not game and np.ndim(terminated) == 0 and (terminated or truncated):
            env.reset()


def made(env, lanes=None, **options):
    return register("envoi-guarded", env, **options)({} if lanes is None else {"num_envs": lanes})


# Errors.


ats = iter([99, 99, 14, 99])


def broken():
    raise OSError("no licence")


@pytest.mark.parametrize(
    ("env", "options", "kind", "message", "where"),
    [
        (Failing, {}, ZeroDivisionError, "the pole has\nno length", "lane 3, step 5 of episode 3"),
        # Lanes are reset in a step of their own.
        (lambda: Failing(at=next(ats)), {"lanes": 4}, ZeroDivisionError, "the pole", "lane 2, step 4 of episode 2"),
        (FailingGame, {}, ValueError, "no such move", "lane 3, step 3 of episode 1"),
        (
            partial(FailingGame, "spec"),
            {},
            envoi.SpecError,
            r"observation\['player_1'\]",
            "lane 3, step 3 of",
        ),
        (partial(Failing, "nan"), {"check_specs": True}, envoi.SpecError, r"observation\['cart'\]\[2\]: .*nan", ""),
        (partial(Failing, "nan"), {}, envoi.SpecError, r"'cart'\]\[2\]: expected a finite", "step 5 of episode 3"),
        (partial(Failing, "nan", at=1234), {}, envoi.SpecError, r"\[2\]: expected a finite", "step 4 of episode 124"),
        (partial(Failing, "reward"), {}, envoi.SpecError, "reward: expected a finite number, got inf", "of episode 3"),
        (FailingBatch, {"lanes": 4}, envoi.SpecError, "reward: expected a finite number, got nan", "lane 2, step 4"),
    ],
)
def test_errors_of_envs_name_the_step(env, options, kind, message, where):
    env = made(env, **options)
    env.guard.lane = 3
    with pytest.raises(kind, match=message) as raised:
        play(env, 1300)
    (note,) = raised.value.__notes__
    assert "env 'envoi-guarded', worker 0, " in note
    assert where in note


def test_error_while_the_env_is_made_is_reported():
    with pytest.raises(OSError, match="no licence") as raised:
        register("envoi-broken", broken)({})
    assert raised.value.__notes__[0].endswith("env 'envoi-broken', worker 0, while it was made")


def test_guarded_env_is_copied_without_its_runner():
    env = made(envoi.models.Catch)
    env.guard.runner = Runner(threading.Lock())  # like an env runner, a lock cannot be copied
    env.reset(seed=1)
    env.step(0)
    for same in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert same.guard is not env.guard
        assert (same.step(1)[0] == copy.deepcopy(env).step(1)[0]).all()
        assert same.guard.steps == 2


# Values.


@pytest.mark.parametrize(
    ("at", "step"), [(1, "step 1 of episode 1"), (10, "step 10 of episode 1"), (20, "step 10 of episode 2")]
)
@pytest.mark.parametrize(("lanes", "lane"), [(None, ""), (3, " lane 0,")])
@pytest.mark.parametrize("check_specs", [True, "sample"])
def test_value_outside_its_spec_is_named_with_its_step_once(lanes, lane, check_specs, at, step):
    form = made(partial(Failing, "spec", at=at), lanes, check_specs=check_specs)
    with pytest.raises(envoi.SpecError, match=r"observation\['cart'\]\[2\]: 1.5 is above") as raised:
        play(form, 35)
    (message,) = raised.value.__notes__
    assert message.endswith(f"; env 'envoi-guarded', worker 0,{lane} {step}")
    assert message.count("step") == 1


@pytest.mark.parametrize("how", ["nan", "spec"])
def test_values_are_not_checked_where_the_user_says_so(how):
    play(made(partial(Failing, how), check_specs=False), 30)


def test_sample_checks_batches_at_once_and_few_steps(monkeypatch):
    checked, validate = [], envoi.Array.validate

    def noting(self, value, path="value"):
        checked.append(path)
        validate(self, value, path)

    monkeypatch.setattr(envoi.Array, "validate", noting)
    play(made(envoi.models.CartPole, lanes=64), 200)
    assert checked == []
    play(made(envoi.models.Pendulum), 20_000)
    assert 20_000 / EVERY / 2 < checked.count("observation") < 20_000 / EVERY * 2


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=5), st.sampled_from(["f4", "f8"]))
def test_nan_is_found_exactly_where_there_is_one(values, dtype):
    array = np.array(values, dtype)
    with np.errstate(over="ignore"):
        for nested in (array, {"a": (array, 1)}, array.reshape(-1, 1)):
            assert has_nan(nested) == bool(np.isnan(array).any())


# Time.


@pytest.mark.parametrize("how", ["sleep", "spin"])
def test_hanging_step_is_an_error_that_shows_where(how):
    env = made(partial(Failing, how), step_timeout=0.3)
    message = r"took longer than 0\.3 s; env 'envoi-guarded', worker 0, step 5 of(.|\n)*faulty.py"
    with pytest.raises(EnvFailure, match=message):
        play(env, 30)


def test_call_that_ends_as_it_is_interrupted_is_an_error_all_the_same():
    guard = EnvGuard("late", register("envoi-late", Failing, step_timeout=0.2).options)

    def swallowing(_):
        try:
            time.sleep(5)
        except BaseException:
            return None, 0.0, False, False, {}

    guard.reset(lambda: (None, {}))
    with pytest.raises(EnvFailure, match=r"took longer than 0\.2 s"):
        guard.step(swallowing, 0)


# Native code.

NATIVE = """
import ctypes, itertools, sys
from envoi.integrations.rllib import register
from envoi.integrations.rllib import env_guard as guard

class Native:
    def wait(self, _):
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):
            ctypes.CDLL(None).pthread_mutex_lock(mutex)

    def count(self, _):  # and keep Python's lock
        sum(itertools.repeat(0))

how = sys.argv[1]
guard.GRACE_SECONDS = 0.2
guard.LEAST_LOCKED = 1.0
watched = guard.EnvGuard("native", register("native", Native, step_timeout=0.3).options)
if how == "count":
    guard.records.own_actor = lambda: "actor"
watched.reset(lambda: (None, {}))
watched.step(getattr(Native(), how), 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="calls pthread_mutex_lock")
@pytest.mark.parametrize("how", ["wait", "count"])
def test_native_code_that_hangs_ends_the_process_with_its_stack(how):
    command = [sys.executable, "-W", "ignore", "-c", NATIVE, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert f" in {how}\n" in done.stderr
    if how == "count":  # which keeps the lock, so that nothing of Python's runs
        assert "Timeout" in done.stderr
        return
    message = "a call of the env took longer than 0.3 s; env 'native', worker 0, step 1 of episode 1"
    assert f"{message}; this process is ended" in done.stderr
    assert "Thread 0x" in done.stderr  # all of them


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_is_watched_too():
    """As gymnasium's AsyncVectorEnv forks; the timer of `faulthandler` does not survive that."""
    options = register("envoi-forked", Failing, step_timeout=0.3).options
    EnvGuard("forking", options).reset(lambda: (None, {}))

    def step(pipe):
        guard = EnvGuard("forked", options)
        guard.reset(lambda: (None, {}))
        try:
            guard.step(lambda _: time.sleep(1000), 0)
        except EnvFailure as error:
            pipe.send(str(error))

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=step, args=(there,), daemon=True)
    process.start()
    try:
        assert here.poll(60)
        assert "longer than 0.3 s; env 'forked'" in here.recv()
    finally:
        process.kill()


# Restarts.


@pytest.mark.parametrize(("on_env_error", "restarts"), [("stop", 0), ("restart", 2)])
def test_envs_of_a_runner_are_made_again_so_many_times(on_env_error, restarts, caplog):
    config = PPOConfig().env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=40)
    config.debugging(log_level="CRITICAL")
    config = configure(config, Failing, on_env_error=on_env_error, max_env_restarts=2)
    with pytest.raises(RuntimeError) as raised:
        SingleAgentEnvRunner(config=config, worker_index=0).sample(num_timesteps=400, random_actions=True)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    messages = [record.message for record in caplog.records if record.name == "envoi"]
    again = [f"its worker's envs are made again ({count} of 2)" for count in range(1, restarts + 1)]
    assert [message.rpartition("; ")[2] for message in messages] == again
    assert all("worker 0, lane 0, step 5 of episode 3" in message for message in messages)


def test_restarts_count_until_a_worker_has_run_for_long():
    assert in_a_row([]) == 0
    assert in_a_row([0.0, 1.0, 2.0]) == 3
    assert in_a_row([0.0, 1.0, 2.0 + CALM_SECONDS, 3.0 + CALM_SECONDS]) == 2


# Losses.


@pytest.mark.parametrize(
    ("metrics", "named"),
    [
        ({"total_loss": math.nan, "num_module_steps_trained": 10}, "policy 'p': total_loss is nan in iteration 3"),
        ({"vf_loss": np.float32(np.inf), "num_module_steps_trained": 10}, "vf_loss is inf"),
        ({"total_loss": math.nan, "num_module_steps_trained": math.nan}, None),  # nothing was learned
        ({"total_loss": math.nan}, None),
        # A policy that is certain of its actions.
        ({"mean_kl_loss": math.inf, "total_loss": math.inf, "vf_loss": 1.0, "num_module_steps_trained": 10}, None),
        ({"mean_kl_loss": math.inf, "gradients_x_global_norm": math.nan, "num_module_steps_trained": 10}, "mean_kl"),
        ({"mean_kl_loss": math.inf, "total_loss": math.nan, "num_module_steps_trained": 10}, "total_loss is nan"),
        ({"mean_kl_loss": math.nan, "num_module_steps_trained": 10}, "mean_kl_loss is nan"),
        ({"total_loss": 1.0, "vf_explained_var": math.nan, "num_module_steps_trained": 10}, None),
    ],
)
def test_losses_that_are_not_finite_are_named(metrics, named):
    result = {"training_iteration": 3, "learners": {"p": metrics, "__all_modules__": {}}}
    if named is None:
        check_losses(result)
        return
    with pytest.raises(EnvFailure, match=named):
        check_losses(result)


def test_failure_is_one_line_where_one_is_wanted():
    error = EnvFailure("first\n\nTraceback of the env:\nlast")
    assert describe(error) == error.line == "first"
    assert str(type(error)(str(error))) == str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
