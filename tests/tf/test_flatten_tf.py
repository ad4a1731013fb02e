"""Flat observations and actions beside TF-Agents' own wrappers, which sort keys and know one level of dicts."""

import numpy as np
import pytest
from tf_agents.environments import wrappers

import envoi
from envoi import Array, FlattenAction, FlattenObservation
from envoi.adapters import to_tf_agents


class Echo(envoi.Model):
    """Has random observations of its spec, and rewards a weighted sum of the action; four steps long."""

    reward_spec = Array((), "float32")
    discount_spec = Array((), "float32", 0, 1)

    def __init__(self, observation_spec, action_spec):
        self.observation_spec, self.action_spec = observation_spec, action_spec

    def initial(self, rng, context):
        return 0

    def transition(self, state, action, rng):
        return state + 1

    def observe(self, state, rng):
        return envoi.sample(self.observation_spec, rng)

    def reward(self, state, action, next_state):
        leaves = action.values() if isinstance(action, dict) else action
        return np.float32(sum(np.sum((i + 1) * np.asarray(leaf)) for i, leaf in enumerate(leaves)))

    def terminal(self, state):
        return state == 4


ARM = (Array((2,), "int32", -1, 1), Array((), "int32", 0, 3))


@pytest.mark.parametrize(
    ("spec", "allowlist", "k"),
    [
        ({"position": Array((4,)), "target": Array((5,))}, None, 9),
        ({"z": Array((2,)), "a": Array((5, 2)), "m": Array(())}, None, 13),
        ({"z": Array((2,)), "a": Array((3, 3)), "m": Array(())}, ["z", "m"], 3),
    ],
)
@pytest.mark.parametrize("n", [None, 4])
def test_observations_are_packed_as_tf_agents_packs_them(spec, allowlist, k, n):
    def made(wrap=lambda env: env):
        env = wrap(Echo(spec, ARM))
        return to_tf_agents(env if n is None else envoi.batch(env, n))

    theirs = wrappers.FlattenObservationsWrapper(made(), observations_allowlist=allowlist)
    ours = made(lambda env: FlattenObservation(env, observations_allowlist=allowlist, order="sorted"))
    assert ours.observation_spec().shape == theirs.observation_spec().shape == (k,)
    assert ours.observation_spec().dtype == theirs.observation_spec().dtype
    lead = () if n is None else (n,)
    ours.seed(3)
    theirs.seed(3)
    action = (np.zeros((*lead, 2), "int32"), np.zeros(lead, "int32"))
    for step in [lambda env: env.reset(), *[lambda env: env.step(action)] * 3]:
        mine, other = step(ours), step(theirs)
        assert mine.observation.shape == (*lead, k)
        assert np.array_equal(mine.observation, other.observation)
        assert mine.observation.dtype == other.observation.dtype


@pytest.mark.parametrize(
    "spec",
    [
        (Array((3,), "int32", -1, 1), Array((), "int32", -2, 2), Array((5,), "int32", -3, 3)),
        {"z": Array((2,), "float32", -1, 1), "a": Array((), "float32", -2, 2)},
        {"z": Array((2,)), "a": Array((1,))},
    ],
)
def test_flat_actions_mean_what_they_mean_to_tf_agents(spec):
    observation = {"x": Array((1,))}
    theirs = wrappers.FlattenActionWrapper(to_tf_agents(Echo(observation, spec)))
    core = FlattenAction(Echo(observation, spec), order="sorted")
    ours = to_tf_agents(core)
    mine, other = ours.action_spec(), theirs.action_spec()
    assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
    assert hasattr(mine, "minimum") == hasattr(other, "minimum")
    if hasattr(mine, "minimum"):
        low, high = (np.broadcast_to(bound, mine.shape) for bound in (mine.minimum, mine.maximum))
        assert np.array_equal(low, other.minimum)
        assert np.array_equal(high, other.maximum)
    ours.reset()
    theirs.reset()
    rng = np.random.default_rng(0)
    for _ in range(3):
        action = core.action_spec.sample(rng)
        assert ours.step(action).reward == theirs.step(action).reward


def theirs_of(env, allowlist):
    return wrappers.FlattenObservationsWrapper(to_tf_agents(env), observations_allowlist=allowlist)


@pytest.mark.parametrize("wrap", [theirs_of, FlattenObservation])
def test_the_errors_of_the_page_are_value_errors_here_too(wrap):
    with pytest.raises(ValueError, match="c"):
        wrap(Echo({"a": Array((1,)), "b": Array((1,))}, ARM), ["c"])
    with pytest.raises(ValueError, match="dict"):
        wrap(Echo(Array((2,)), ARM), ["a"])
