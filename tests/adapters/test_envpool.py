"""Pools of envpool are batches: each lane is the pool of one with its seed, however it is stepped."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import exact, trace

import envoi
from envoi import EpisodeError, SnapshotUnsupported, SpecError, UnknownName
from envoi.adapters import from_env, load, losses, to_gymnasium_vector
from envoi.lane_values import lane

envpool = pytest.importorskip("envpool", reason="installed by pip install 'envoi[envpool]'")

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting", "ignore:.*Overriding environment")

N = 4
NAMES = ["CartPole-v1", "Pendulum-v1", "Taxi-v3", "Acrobot-v1", "Catch-v0", "Blackjack-v1"]


def pool(name="CartPole-v1", n=N, **arguments):
    return load(f"envpool:{name}", n=n, **arguments)


@pytest.mark.parametrize("name", NAMES)
def test_values_lie_in_the_specs(name):
    batch = pool(name)
    seen = batch.reset(seed=0).observation
    over = np.zeros(N, bool)
    for _ in range(30):
        for index in range(N):
            envoi.validate(batch.observation_spec, lane(batch.observation_spec, seen, index))
        step = batch.step(batch.sample_action(), restart=over)
        assert step.reward.dtype == batch.reward_spec.dtype
        assert step.reward.shape == (N,)
        assert step.discount.tolist() == [0.0 if end else 1.0 for end in step.terminated]
        seen, over = step.observation, step.terminated | step.truncated


@settings(max_examples=10, deadline=None)
@given(seeds=st.lists(st.integers(0, 2**31 - 1), min_size=N, max_size=N))
def test_each_lane_is_a_pool_of_one_with_its_seed(seeds):
    batch, alone = pool(), [pool(n=1) for _ in range(N)]
    first = batch.reset(seed=seeds)
    for index, (one, seed) in enumerate(zip(alone, seeds, strict=True)):
        own = one.reset(seed=[seed])
        assert exact(first.observation[index]) == exact(own.observation[0])
        assert exact(first.info[index]) == exact(own.info[0])
    over = np.zeros(N, bool)
    for time in range(30):
        actions = (np.arange(N) + time) % 2
        step = batch.step(actions, restart=over)
        for index, one in enumerate(alone):
            own = one.step(actions[[index]], restart=over[[index]])
            for part, mine in zip(step[:5], own[:5], strict=True):
                assert exact(part[index]) == exact(mine[0])
            assert exact(step.info[index]) == exact(own.info[0])
        over = step.terminated | step.truncated


@pytest.mark.parametrize("arguments", [{"batch_size": 2}, {"num_threads": 2}, {"batch_size": 1}])
def test_a_pool_has_the_same_traces_however_it_is_stepped(arguments):
    assert trace(pool(**arguments), 60, 3) == trace(pool(), 60, 3)


def test_a_batch_is_the_pool_itself():
    seeds = [3, 4, 5, 6]
    bare, batch = envpool.make_gymnasium("CartPole-v1", num_envs=N, seed=seeds), pool()
    seen, _ = bare.reset()
    assert exact(batch.reset(seed=seeds).observation) == exact(np.array(seen))
    over = np.zeros(N, bool)
    for time in range(40):
        actions = (np.arange(N) * time) % 2
        own, step = bare.step(actions.astype(np.int32)), batch.step(actions, restart=over)
        for mine, theirs in zip(step[:4], own[:4], strict=True):
            assert exact(mine) == exact(np.array(theirs))
        assert [info["elapsed_step"] for info in step.info] == own[4]["elapsed_step"].tolist()
        over = step.terminated | step.truncated


def test_without_a_seed_pools_differ_and_after_a_seed_they_agree():
    assert exact(pool().reset().observation) != exact(pool().reset().observation)
    batch = pool()
    assert exact(batch.reset(seed=1)) == exact(batch.reset(seed=1))
    other = envpool.make_gymnasium("CartPole-v1", num_envs=N)
    assert exact(from_env(other).reset(seed=1)) == exact(batch.reset(seed=1))


def test_a_time_limit_truncates():
    batch = pool("Pendulum-v1")
    batch.reset(seed=0)
    for _ in range(200):
        step = batch.step(np.zeros((N, 1), np.float32))
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.discount.tolist() == [1.0] * N


def ended(batch):
    """Steps until a lane has ended; returns the lanes that have."""
    batch.reset(seed=0)
    while True:
        step = batch.step(np.ones(N, int))
        over = step.terminated | step.truncated
        if over.any():
            return over, step


def test_lanes_are_reset_by_a_mask_and_not_again_in_the_next_step():
    batch = pool()
    over, step = ended(batch)
    with pytest.raises(EpisodeError, match="the episode has ended"):
        batch.step(np.ones(N, int))
    seen = batch.reset(mask=over)
    assert exact(seen.observation[~over]) == exact(step.observation[~over])
    assert np.abs(seen.observation[over]).max() < 0.06
    assert [info.get("elapsed_step") for info in seen.info] == [0 if new else None for new in over]
    step = batch.step(np.ones(N, int))
    assert [info["elapsed_step"] == 1 for info in step.info] == over.tolist()
    with pytest.raises(EpisodeError, match="have not ended"):
        batch.step(np.ones(N, int), restart=np.ones(N, bool))


def test_some_lanes_act_while_others_pause():
    batch, mask = pool(), np.array([True, False, False, True])
    first = batch.reset(seed=0).observation
    step = batch.step(np.ones(N, int), hold=~mask)
    assert exact(step.observation[~mask]) == exact(first[~mask])
    assert step.reward.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert [info.get("elapsed_step") for info in step.info] == [1, None, None, 1]
    assert exact(batch.step(np.ones(N, int), hold=~np.zeros(N, bool)).observation) == exact(step.observation)


@pytest.mark.parametrize("size", [2, N])
def test_lanes_are_sent_and_received_some_at_a_time(size):
    batch, alone = pool(batch_size=size), [pool(n=1) for _ in range(N)]
    seeds = [5, 6, 7, 8]
    batch.reset(seed=seeds)
    for one, seed in zip(alone, seeds, strict=True):
        one.reset(seed=[seed])
    over = np.zeros(N, bool)
    batch.send(np.ones(N, int), np.arange(N))
    with pytest.raises(EpisodeError, match="have been sent"):
        batch.step(np.ones(N, int))
    for _ in range(60):
        lanes, step = batch.recv()
        assert len(lanes) == size
        for index, one in enumerate(lanes.tolist()):
            own = alone[one].step(np.ones(1, int), restart=over[[one]])
            for part, mine in zip(step[:5], own[:5], strict=True):
                assert exact(part[index]) == exact(mine[0])
            over[one] = (own.terminated | own.truncated)[0]
        batch.send(np.ones(len(lanes), int), lanes, over[lanes])
    with pytest.raises(EpisodeError, match="not under way"):
        batch.send(np.ones(1, int), [0])
    assert exact(batch.reset(seed=seeds)) == exact(pool().reset(seed=seeds))


def test_what_was_returned_does_not_change():
    batch = pool()
    held = [batch.reset(seed=0), batch.step(np.ones(N, int))]
    before = exact(held)
    for _ in range(4):
        batch.step(np.ones(N, int))
    batch.reset(seed=4)
    assert exact(held) == before


def test_pools_are_recognised_and_wrong_ones_refused():
    assert type(from_env(envpool.make_gymnasium("CartPole-v1", num_envs=2))).__name__ == "FromEnvpool"
    assert load("envpool:CartPole-v1?num_envs=3").batch_size == 3
    assert load("envpool:CartPole-v1").batch_size == 1
    with pytest.raises(UnknownName, match="did you mean 'envpool:CartPole-v1'"):
        load("envpool:Cartpole-v1")
    with pytest.raises(SpecError, match="at least 1 lane"):
        load("envpool:CartPole-v1", n=0)
    with pytest.raises(SpecError, match="one number of lanes"):
        load("envpool:CartPole-v1", n=2, num_envs=3)
    with pytest.raises(SpecError, match="make_gymnasium"):
        from_env(envpool.make_dm("CartPole-v1", num_envs=2))
    with pytest.raises(SpecError, match="batch of 4"):
        envoi.batch(pool(), 2)


def test_losses_are_refused_or_listed():
    batch = pool()
    assert any("options" in str(loss) for loss in losses(batch, "gymnasium_vector"))
    batch.reset(seed=0)
    with pytest.raises(SnapshotUnsupported, match="C\\+\\+"):
        batch.snapshot()
    with pytest.raises(SnapshotUnsupported, match="C\\+\\+"):
        pickle.dumps(batch)
    with pytest.raises(SpecError, match="some of the lanes"):
        batch.reset(seed=0, mask=np.arange(N) < 2)
    with pytest.raises(SpecError, match="action: expected one for each of 4 lanes"):
        batch.step(np.ones(3, int))
    with pytest.warns(UserWarning, match="takes no options"):
        batch.reset(options={"gravity": 3})


def test_wrappers_rewarders_and_forms_go_around_a_pool():
    batch = envoi.TimeLimit(pool(), 3)
    form = to_gymnasium_vector(batch, autoreset_mode="SameStep")
    form.reset(seed=0)
    for _ in range(3):
        seen, _, _, truncated, info = form.step(np.ones(N, int))
    assert truncated.all()
    assert info["final_obs"][0].shape == (4,)
    assert np.abs(seen).max() < 0.06
    own = pool()
    own.rewarder = lambda state, action, next_state: 7.0
    own.reset(seed=0)
    assert own.step(np.ones(N, int)).reward.tolist() == [7.0] * N
