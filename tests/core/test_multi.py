"""Environments of several agents: turns, ends, joining, masks, snapshots, and one agent as one among several."""

import copy

import numpy as np
import pytest
from depth import examples
from hypothesis import example, given
from hypothesis import strategies as st
from small_models import Flock, Walk
from traces import exact

import envoi
from envoi import (
    AgentLanes,
    Array,
    Discrete,
    EpisodeError,
    MultiEnv,
    MultiModel,
    MultiWrapper,
    SpecError,
    ValidatedMulti,
    as_multi,
    as_single,
    models,
)
from envoi.models import Nim, RockPaperScissors

NAMES = ("c", "a", "b")


class Council(MultiModel):
    """Whatever a script says; noise in the dynamics and in what is seen, an observation of its own for each agent."""

    possible_agents = NAMES
    observation_spec = {name: Array((1 + i,), "float64") for i, name in enumerate(NAMES)}
    action_spec = {name: Discrete(3, start=i) for i, name in enumerate(NAMES)}
    context_space = envoi.ContextSpace([envoi.UniformFloat("bonus", 0, 1, default=0.5)])

    def __init__(self, **script):
        self.script, self.given = script, []

    def _at(self, name, state, default):
        return self.script.get(name, {}).get(state[0], default)

    def initial(self, rng, context):
        return (0, rng.random(), context["bonus"])

    def transition(self, state, actions, rng):
        self.given.append(actions)
        return (state[0] + 1, state[1] + rng.normal() + sum(int(a) for a in actions.values()), state[2])

    def observe(self, state, agent, rng):
        if agent in self._at("blind", state, ()):
            return None
        return np.full(1 + NAMES.index(agent), state[1] + rng.normal())

    def reward(self, state, actions, next_state):
        return dict.fromkeys(actions, next_state[2] * next_state[0])

    def terminal(self, state):
        return self._at("terminal", state, state[0] == 6)

    def truncated(self, state):
        return self._at("truncated", state, False)

    def live(self, state):
        return self._at("live", state, self.script.get("always"))

    def discount(self, state):
        return self._at("discount", state, None)

    def mask(self, state, agent):
        return self._at("mask", state, {}).get(agent)

    def info(self, state):
        return self._at("info", state, {})


class Turns(Council):
    """A council whose members speak in turn, as the script says or one after the other."""

    def turn(self, state):
        return self._at("turn", state, (NAMES[state[0] % 3],))


def act(env):
    return {agent: env.action_spec[agent].start for agent in env.acting}


def lived(env, seeds=(0, None, 1), rng=0, most=60):
    """Whole episodes under random actions, of one agent or of several, as values that compare exactly."""
    actions, said, several = np.random.default_rng(rng), [], isinstance(env, MultiEnv)
    for seed in seeds:
        said.append(exact(env.reset(seed=seed)))
        for _ in range(most):
            specs = {agent: env.action_spec[agent] for agent in env.acting} if several else env.action_spec
            step = env.step(envoi.sample(specs, actions))
            said.append((exact(step), (env.agents, env.turn) if several else exact(env.observation)))
            if not env.agents if several else step.terminated or step.truncated:
                break
    return said


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ({}, r"missing \['a'\]"),
        ({"b": 2}, r"missing \['a'\], not to act now \['b'\]"),
        ({"a": 1, "b": 2}, r"missing \[\], not to act now \['b'\]"),
        ({"A": 1}, r"not to act now \['A'\] \(did you mean 'a'\?\)"),
    ],
)
def test_the_wrong_agents_are_named_and_nothing_happens(actions, said):
    env = Turns(turn={0: ("a",)})
    env.reset(seed=0)
    with pytest.raises(EpisodeError, match=said):
        env.step(actions)
    assert env.given == []
    assert env.state[0] == 0


def test_steps_outside_of_an_episode_are_errors():
    env = Council(terminal={1: True})
    assert env.agents == ()
    for look in (lambda: env.step({}), lambda: env.state, lambda: env.observation("a")):
        with pytest.raises(EpisodeError, match="has not begun"):
            look()
    env.reset()
    env.step(act(env))
    assert env.agents == ()
    with pytest.raises(EpisodeError, match="has ended"):
        env.step({})
    assert env.observation("a") is not None
    env.reset()
    assert env.agents == NAMES


def test_an_end_without_a_last_look_repeats_the_last_one():
    env = Council(terminal={2: ("a",), 4: True}, blind={2: ("a",)})
    env.reset(seed=0)
    first = env.step(act(env))
    second = env.step(act(env))
    assert exact(second.observations["a"]) == exact(first.observations["a"])
    assert second.infos == {"c": {}, "a": {"synthetic_observation": True}, "b": {}}
    # Of who waited, it does not depend on who looked.
    script = {"terminal": {2: ("b",), 5: True}, "blind": {2: ("b",)}, "turn": {0: ("c",), 1: ("a",), 2: ("c",)}}
    pair = [Turns(**script) for _ in range(2)]
    for env in pair:
        env.reset(seed=0)
    for _ in range(2):
        pair[0].observation("b")
        step, other = (env.step(act(env)) for env in pair)
        assert exact(step) == exact(other)
    assert step.infos["b"] == {"synthetic_observation": True}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"terminal": {1: ("zoe",)}}, r"terminal: \['zoe'\]"),
        ({"terminal": {0: True}}, "initial"),
        ({"live": {0: ()}}, "initial"),
        ({"turn": {1: ("z",)}}, r"turn: expected some of \['c', 'a', 'b'\].*got \['z'\]"),
    ],
)
def test_what_a_model_may_not_say_is_refused(script, message):
    env = Turns(**script)

    def live():
        env.reset()
        while env.agents:
            before.append((env.state[0], env.agents))
            env.step(act(env))

    before = []
    with pytest.raises(SpecError, match=message):
        live()
    if before:
        assert (env.state[0], env.agents) == before[-1]


some = st.lists(st.sampled_from(NAMES), unique=True).map(tuple)


@examples(500)
@given(some.filter(bool), st.lists(st.tuples(st.none() | some, some, some, st.none() | some), max_size=5))
@example(NAMES, [(None, ("a",), (), None), (NAMES, (), (), None)])  # comes back
@example(("c",), [(("c", "a"), (), (), None), (("b",), ("a",), ("c",), None), (None, (), (), ("b",))])  # take over
def test_agents_join_end_and_take_turns_as_scripted(first, script):
    """The rules once more, in sets; a step of the script has the agents in play, the ended, the cut off, the turn."""
    columns = [dict(enumerate((None, *column))) for column in zip(*script, strict=True)] or [{}] * 4
    live, terminal, truncated, turns = columns
    env = Turns(
        live={**live, 0: first},
        terminal={**terminal, 0: ()},
        truncated={**truncated, 0: ()},
        turn={0: None, **turns},
        discount={2: {"c": 0.5}},
    )
    env.reset(seed=0)
    playing, gone = {*first}, set()
    for time, (listed, ended, cut, turn) in enumerate(script, 1):
        if not playing:
            break
        listed = playing if listed is None else {*listed}
        over = {*ended, *cut} & (playing | listed)
        now = listed - over
        wrong = "cannot come back" if now & gone else "left without an end" if playing - listed - over else None
        if now and turn is not None and not now & {*turn}:
            wrong = wrong or "turn: expected some of"
        before, actions = (env.state, env.agents, env.turn), act(env)
        if wrong is not None:
            with pytest.raises((EpisodeError, SpecError), match=wrong):
                env.step(actions)
            assert (env.state, env.agents, env.turn) == before
            break
        step = env.step(actions)
        assert env.given[-1] == actions
        assert env.given[-1] is not actions
        affected, playing, gone = playing | now | over - gone, now, gone | over
        affected = [agent for agent in NAMES if agent in affected]
        assert step.rewards == {agent: 0.5 * time if agent in actions else 0.0 for agent in affected}
        assert [*step.rewards] == [*step.infos] == affected
        assert step.terminated == {agent: agent in ended for agent in affected}
        assert step.truncated == {agent: agent in cut for agent in affected}
        special = {"c": 0.5} if time == 2 else {}
        assert step.discounts == {agent: special.get(agent, float(agent not in ended)) for agent in affected}
        assert env.agents == tuple(agent for agent in NAMES if agent in playing)
        assert env.acting == tuple(agent for agent in env.agents if turn is None or agent in turn)
        assert [*step.observations] == [agent for agent in affected if agent in env.acting or agent in over]
        assert all(exact(env.observation(agent)) == exact(step.observations[agent]) for agent in over & {*affected})
        for agent in {*NAMES} - playing - gone:
            with pytest.raises(EpisodeError, match=f"'{agent}' has not been in play|has ended"):
                env.observation(agent)


def test_masks_are_in_the_infos_of_those_who_act():
    env = Turns(turn={0: ("a",), 1: ("b",)}, mask={s: {a: np.array([0, 1, 0], np.int8) for a in NAMES} for s in (0, 1)})
    infos = env.reset().infos
    assert infos["a"]["action_mask"].tolist() == [0, 1, 0]
    assert infos["b"] == infos["c"] == {}
    assert env.sample_actions(infos) == {"a": 2}  # a Discrete that starts at 1
    infos = env.step({"a": 2}).infos
    assert list(infos["b"]) == ["action_mask"]
    assert {int(env.sample_actions()["b"]) for _ in range(50)} == {2, 3, 4}


def test_infos_belong_to_an_agent_or_to_none():
    env = Council(info={0: {"__common__": {"day": 1}, "a": {"x": 1}}, 1: {"nobody": {"y": 2}}})
    assert env.reset().infos == {"c": {}, "a": {"x": 1}, "b": {}, "__common__": {"day": 1}}
    assert env.step(act(env)).infos == {"c": {}, "a": {}, "b": {}}


def test_contexts_are_checked_and_reach_the_state():
    env = Council()
    env.context = {"bonus": 1.0}
    env.reset()
    assert env.step(act(env)).rewards["a"] == 1.0
    env.reset(options={"bonus": 0.25})
    assert env.step(act(env)).rewards["a"] == 0.25
    for bad in ({"bonus": 7}, {"malus": 1}):
        with pytest.raises(envoi.ContextError):
            env.context = bad
    with pytest.raises(envoi.ContextError):
        env.reset(options={"bonus": 7})


def test_rewards_are_replaced_agent_by_agent():
    env = Council()
    native = env.rewarder
    env.rewarder = native + 2 * envoi.FunctionReward(lambda state, actions, after: {"a": 1.0}, 0, 1)
    env.reset()
    assert env.step(act(env)).rewards == {"c": 0.5, "a": 2.5, "b": 0.5}
    assert set(env.reward_spec) == set(NAMES)
    env.rewarder = lambda state, actions, after: {"b": -1.0}
    assert env.step(act(env)).rewards == {"c": 0.0, "a": 0.0, "b": -1.0}
    env.rewarder = native
    assert env.step(act(env)).rewards == dict.fromkeys(NAMES, 1.5)
    assert env.reward_spec == env.declared_reward_spec
    env.rewarder = lambda state, actions, after: 1.0
    with pytest.raises(SpecError, match="expected a mapping from agents"):
        env.step(act(env))


def test_recorded_transitions_can_be_relabelled():
    env = models.make("rps")
    env.reset(seed=0)
    transitions, rewards = [], []
    while env.agents:
        before, actions = env.state, env.sample_actions()
        rewards.append(env.step(actions).rewards)
        transitions.append((before, actions, env.state))
    assert env.rewarder.relabel(transitions).tolist() == rewards


SINGLE = {
    **{name: (lambda name=name: models.make(name)) for name in models.NAMES if name not in ("nim", "rps", "pursuit")},
    "walk": Walk,
    "flock": Flock,
}


class Around(envoi.Wrapper):
    """Another layer, so that the embedding is not simply undone."""


@examples(40)
@given(st.sampled_from(sorted(SINGLE)), st.integers(0, 2**31), st.sampled_from(["agent", 0, ("a", 1)]))
def test_one_agent_is_exactly_one_among_several(name, seed, agent):
    env, seeds = SINGLE[name](), (seed, None)
    multi = as_multi(SINGLE[name](), agent)
    assert multi.possible_agents == (agent,)
    assert lived(env, seeds, seed) == lived(as_single(MultiWrapper(multi)), seeds, seed)
    assert as_single(multi) is multi.env
    assert envoi.spec_equal(multi.observation_spec, {agent: env.observation_spec})
    assert envoi.spec_equal(multi.reward_spec, {agent: env.reward_spec})
    other = as_multi(Around(as_single(MultiWrapper(as_multi(SINGLE[name](), agent)))), agent)
    assert lived(other, seeds, seed) == lived(as_multi(SINGLE[name](), agent), seeds, seed)


def test_the_embedding_says_what_a_multi_env_says():
    multi = as_multi(Walk(), "me")
    with pytest.raises(EpisodeError, match="has not begun"):
        multi.step({"me": 0})
    multi.reset(seed=0)
    with pytest.raises(EpisodeError, match=r"missing \['me'\], not to act now \['you'\]"):
        multi.step({"you": 0})
    with pytest.raises(EpisodeError, match="you"):
        multi.observation("you")
    snapshot = multi.snapshot()
    first = exact(multi.step({"me": 0}))
    multi.restore(snapshot)
    assert exact(multi.step({"me": 0})) == first
    while multi.agents:
        multi.step({"me": 1})
    with pytest.raises(EpisodeError, match="has ended"):
        multi.step({"me": 1})
    assert multi.unwrapped.__class__ is Walk


def test_rewarders_pass_through_the_embedding():
    env = Walk()
    multi = as_multi(env, "me")
    multi.rewarder = multi.rewarder + (lambda state, actions, after: {"me": 100.0})
    multi.reset(seed=0)
    assert multi.step({"me": 0}).rewards["me"] > 0
    env.reset(seed=0)
    assert env.step(0).reward > 0
    multi.rewarder = as_multi(Walk(), "me").rewarder
    assert env.rewarder == Walk().rewarder
    again = as_single(MultiWrapper(multi))
    again.rewarder = lambda state, action, after: float(action)
    again.reset()
    assert again.step(1).reward == 1.0
    assert multi.step({"me": -1}).rewards == {"me": -1.0}


class Alike(Council):
    observation_spec = dict.fromkeys(NAMES, Array((1,), "float64"))
    action_spec = dict.fromkeys(NAMES, Discrete(3))

    def observe(self, state, agent, rng):
        return np.full(1, state[1] + rng.normal())


def test_agents_are_lanes_of_one_episode():
    env, lanes = Alike(), AgentLanes(Alike())
    observations = env.reset(seed=0).observations
    seen = lanes.reset(seed=0)
    for _ in range(6):
        assert seen.observation.tolist() == [observations[name].tolist() for name in NAMES]
        assert exact(lanes.observation) == exact(seen.observation)
        step, seen = env.step({"c": 0, "a": 1, "b": 2}), lanes.step(np.array([0, 1, 2]))
        observations = step.observations
        assert seen.reward.tolist() == [step.rewards[name] for name in NAMES]
        assert seen.discount.tolist() == [step.discounts[name] for name in NAMES]
    assert seen.terminated.all()
    with pytest.raises(EpisodeError, match=r"lanes \[0, 1, 2\]"):
        lanes.step(np.zeros(3, int))
    step = lanes.step(np.zeros(3, int), restart=np.ones(3, bool))
    assert (step.reward.tolist(), step.discount.tolist(), step.terminated.any()) == ([0] * 3, [1] * 3, False)
    observations = env.reset().observations
    assert exact(step.observation) == exact(np.array([observations[name] for name in NAMES]))


def test_lanes_that_ended_or_have_not_joined_wait():
    lanes = AgentLanes(Alike(live={0: ("c", "a"), 1: ("c", "a")}, terminal={1: ("a",), 3: True}, always=("c", "b")))
    first = lanes.reset(seed=0)
    assert [info.get("waiting", False) for info in first.info] == [False, False, True]
    assert first.observation[2].tolist() == [0.0]
    step = lanes.step(np.zeros(3, int), restart=None)
    assert step.terminated.tolist() == [False, True, False]
    with pytest.raises(EpisodeError, match=r"lanes \[1\]"):
        lanes.step(np.zeros(3, int))
    ended = step.observation[1].tolist()
    step = lanes.step(np.zeros(3, int), restart=np.array([False, True, False]))
    assert step.observation[1].tolist() == ended
    assert step.info[1] == {"waiting": True}
    assert not step.info[2].get("waiting", False)
    snapshot = lanes.snapshot()
    step = lanes.step(np.zeros(3, int))
    assert step.terminated.tolist() == [True, False, True]
    assert step.truncated.tolist() == [False, True, False]
    lanes.restore(snapshot)
    assert exact(lanes.step(np.zeros(3, int))) == exact(step)


def test_agents_that_differ_or_wait_for_turns_are_no_lanes():
    with pytest.raises(SpecError, match=r"observation_spec\['a'\]"):
        AgentLanes(Council())
    lanes = AgentLanes(models.make("nim"))
    with pytest.raises(SpecError, match="act simultaneously"):
        lanes.reset()


def test_validation_names_agent_leaf_step_and_episode():
    env = ValidatedMulti(Council())
    env.reset()
    with pytest.raises(SpecError, match=r"action\['b'\].*step 1 of episode 1"):
        env.step({"c": 0, "a": 1, "b": 9})
    env.step(act(env))  # nothing had happened

    class Broken(Council):
        def observe(self, state, agent, rng):
            return np.zeros(9) if agent == "a" and state[0] == 2 else super().observe(state, agent, rng)

    env = ValidatedMulti(Broken())
    env.reset()
    env.reset()
    env.step(act(env))
    with pytest.raises(SpecError, match=r"observation\['a'\].*step 2 of episode 2"):
        env.step(act(env))
    assert type(envoi.Validated(Council())) is ValidatedMulti
    assert lived(ValidatedMulti(Council())) == lived(Council())


@pytest.mark.parametrize("name", ["nim", "rps", "pursuit"])
def test_bundled_models_keep_their_specs_and_their_states(name):
    env = models.make(name)
    checked, kept = ValidatedMulti(env), []
    for seed in range(20):
        infos = checked.reset(seed=seed).infos
        while checked.agents:
            kept.append((env.state, copy.deepcopy(env.state)))
            assert env.state_spec is None or envoi.contains(env.state_spec, env.state)
            step = checked.step(checked.sample_actions(infos))
            infos = step.infos
            if name != "pursuit":
                assert sum(step.rewards.values()) == 0
    assert all(exact(state) == exact(before) for state, before in kept)
    assert lived(models.make(name), (0, None)) == lived(models.make(name), (0, None))


def test_nim_is_won_by_the_last_stick():
    env = models.make("nim")
    observations, infos = env.reset(options={"sticks": 5})
    assert env.turn == ("first",)
    assert int(observations["first"]) == 5
    assert infos["first"]["action_mask"].tolist() == [1, 1, 1]
    step = env.step({"first": 2})
    assert step.infos["second"]["action_mask"].tolist() == [1, 1, 0]
    assert step.infos["second"]["action_mask"].dtype == np.int8
    snapshot = env.snapshot()
    assert env.step({"second": 1}).rewards == {"first": -1.0, "second": 1.0}
    assert env.agents == ()
    env.restore(snapshot)
    step = env.step({"second": 2})
    assert step.rewards == {"first": 1.0, "second": -1.0}
    assert all(step.terminated.values())


@pytest.mark.parametrize(("first", "second", "gain"), [(0, 2, 1), (1, 0, 1), (2, 1, 1), (1, 1, 0), (0, 1, -1)])
def test_rock_paper_scissors_scores(first, second, gain):
    env = models.make("rps")
    observations, _ = env.reset(options={"rounds": 2})
    assert {int(seen) for seen in observations.values()} == {3}
    for is_last in (False, True):
        step = env.step({"player_0": first, "player_1": second})
        assert step.rewards == {"player_0": gain, "player_1": -gain}
        assert step.observations == {"player_0": second, "player_1": first}
        assert step.truncated == dict.fromkeys(env.possible_agents, is_last)
    assert not any(step.terminated.values())


def test_a_hunter_catches_the_prey_where_it_sees_it():
    env = models.make("pursuit")
    observations = env.reset(seed=0, options={"stumble": 1.0}).observations
    while env.agents:
        down, right = observations["hunter_0"][1]  # the other hunter, then the prey
        move = (2 if down > 0 else 0) if down else (1 if right > 0 else 3)
        step = env.step({"hunter_0": move, "hunter_1": 0, "prey": 4})
        observations = step.observations
    assert all(step.terminated.values())
    assert not any(step.truncated.values())
    assert step.rewards == {"hunter_0": 0.5, "hunter_1": 0.5, "prey": -1.0}
    assert env.render().shape == (144, 144, 3)
    assert env.metadata["render_modes"] == [env.render_mode] == ["rgb_array"]
    assert models.make("nim").render_mode is None


def test_ends_are_collections_or_flags_by_agent():
    class Ending(Nim):
        ends = ()

        def terminal(self, state):
            return self.ends

    env = Ending()
    env.reset(seed=0)
    env.ends = {"first": True, "second": False}
    step = env.step({"first": 0})
    assert step.terminated == {"first": True, "second": False}
    env.ends = "first"
    with pytest.raises(envoi.SpecError, match="terminal: expected a collection of agents, or True for all"):
        env.reset()


def test_a_turn_comes_from_any_class_below():
    class Later:
        def turn(self, state):
            return ("second",)

    class Mixed(Later, Nim):
        pass

    class Asking(Nim):
        def turn(self, state):
            return tuple(reversed(super().turn(state)))

    class More(Turns):
        pass

    assert Turns().turn is None
    for kind, acting in ((Mixed, ("second",)), (Asking, ("first",)), (More, ("c",))):
        env = kind()
        env.reset(seed=0)
        assert env.turn == env.acting == acting


def test_lanes_that_share_an_episode_are_reset_together():
    lanes = envoi.TimeLimit(envoi.AgentLanes(RockPaperScissors()), 2)
    lanes.reset(seed=0)
    rounds, restart = [], None
    for _ in range(6):
        step = lanes.step(np.array([0, 1]), restart)
        restart = step.terminated | step.truncated
        rounds.append(lanes.unwrapped.state.round)
    assert rounds == [1, 2, 0, 1, 2, 0]
    inner = lanes.env
    for wrong, message in (
        (lambda: inner.reset(mask=np.array([True, False])), "are in play, in an episode that all lanes share"),
        (lambda: inner.step(np.zeros(5, int)), "expected one for each of 2 lanes, got 5"),
        (lambda: inner.reset(seed=[1]), "one seed for each of 2 lanes"),
    ):
        with pytest.raises(envoi.EnvoiError, match=message):
            wrong()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda seen: seen.pop("player_0"), r"observations: expected an entry for each of \['player_0'\]"),
        (lambda seen: seen.update(nobody=0), "nobody"),
    ],
)
def test_validation_names_missing_and_strange_agents(spoil, message):
    class Wrong(RockPaperScissors):
        def step(self, actions):
            step = super().step(actions)
            spoil(step.observations)
            return step

    env = envoi.Validated(Wrong())
    env.reset(seed=0)
    with pytest.raises(envoi.SpecError, match=message):
        env.step({"player_0": 0, "player_1": 1})
