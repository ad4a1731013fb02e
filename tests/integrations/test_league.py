"""The league of self-play: its ratings, its members, and the algorithm that plays in it."""

import json
import re

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from envoi.integrations.rllib import RunFolder, configure
from envoi.integrations.rllib.multi_agent.league import (
    GAMES,
    LEARNER,
    SLOTS,
    League,
    Match,
    Member,
    elo_ratings,
    matches,
    opponents,
)


@given(arrays(float, st.integers(2, 6), elements=st.floats(-400, 400)))
def test_ratings_are_those_by_which_the_games_were_scored(true):
    games = np.full((len(true), len(true)), 1e6)
    np.fill_diagonal(games, 0)
    points = games / (1 + 10 ** ((true[None, :] - true[:, None]) / 400))
    np.testing.assert_allclose(elo_ratings(games, points, 5000), true - true[0], atol=1)


def test_ratings_stay_finite_and_put_who_wins_first():
    games = np.array([[0, 50, 0, 0], [50, 0, 10, 0], [0, 10, 0, 0], [0, 0, 0, 0]], float)
    points = np.array([[0, 0, 0, 0], [50, 0, 0, 0], [0, 10, 0, 0], [0, 0, 0, 0]], float)
    ratings = elo_ratings(games, points)
    assert np.isfinite(ratings).all()
    assert ratings[0] == 0 < ratings[1] < ratings[2] == ratings[3]


def test_version_that_beats_all_slots_becomes_a_member():
    league = League([0] * 3)
    league.record({0: [1.0] * (GAMES - 1)})
    assert not league.is_due
    league.record({2: [0.0]})
    assert (league.is_due, league.score) == (True, pytest.approx((GAMES - 1) / GAMES))
    assert league.slots[league.admit(4, 8000)] == 1
    assert sorted(league.slots) == [0, 0, 1]
    assert (league.version, league.members[1]) == (2, Member(4, 8000))
    assert (league.score, league.is_due) == (None, False)
    while league.slots.count(0) > 1:
        league.record({slot: [1.0] * GAMES for slot in range(3)})
        league.admit(5, 9000)
    easy = league.slots.index(max(league.slots))
    league.record({slot: [1.0 if slot == easy else 0.5] * GAMES for slot in range(3)})
    before = list(league.slots)
    assert league.admit(6, 9000) == easy
    assert all(league.slots[slot] == member for slot, member in enumerate(before) if slot != easy)
    assert League.from_json(league.to_json()) == league


def test_version_that_loses_stays_out():
    league = League([0, 1], [Member(), Member(1, 100)])
    league.record({0: [1.0] * 10 * GAMES})
    assert not league.is_due  # as it has not met all members
    league.record({1: [0.0] * GAMES})
    assert (league.score, league.is_due) == (0.5, False)


def test_file_holds_every_trial_and_its_games(tmp_path):
    league = League([0] * 2)
    league.record({0: [1.0, 0.5], 1: [1.0, 1.0]})
    folder = RunFolder(tmp_path)
    folder.write_league(1, league.describe())
    folder.write_league(0, League([0] * 2).describe())
    held = folder.read_leagues()
    assert {*held} == {"0", "1"}
    assert (held["1"]["games"], held["1"]["points"]) == ([[0, 4], [4, 0]], [[0, 0.5], [3.5, 0]])
    learner = held["1"]["versions"][1]
    assert learner.pop("elo") > 0
    assert learner == {"version": 1, "name": "learning", "env_steps": None, "games": 4, "score": 0.875, "slots": []}
    assert [path.name for path in tmp_path.iterdir()] == ["league.json"]


def test_matches_count_the_games_against_each_version_and_name_it():
    games = [
        ({"a": one, "b": other}, {"a": a, "b": b})
        for one, other, a, b in [
            ("main", "opponent_1", 1.0, -1.0),
            ("opponent_2", "main", 1.0, -1.0),
            ("opponent_2", "main", 0.0, 0.0),
            ("opponent_0", "main", 0.0, 0.5),
            ("main", "main", 1.0, -1.0),
        ]
    ]
    league = League([0, 0, 1], [Member(), Member(7, 12_000)])
    assert matches(games, league.describe()) == (
        Match("version 1 (frozen at 12,000 steps)", 0, 1, 1),
        Match("version 0 (untrained)", 2, 0, 0),
    )
    assert [match.points for match in matches(games, league.describe())] == [0.25, 1.0]
    assert {match.opponent for match in matches(games, None)} == {"opponent_0", "opponent_1", "opponent_2"}
    assert matches(games[-1:], None) == ()


def weights(module):
    return {name: np.asarray(value) for name, value in module.get_state(inference_only=True).items()}


def equal(one, other):
    one, other = weights(one), weights(other)
    return all((one[name] == other[name]).all() for name in one)


def test_algorithm_freezes_versions_and_continues_its_league(ray_session, tmp_path):
    gymnasium.registry.pop("rllib-multi-agent-env-v0", None)  # of another runner in this process
    config = configure("envoi:nim", policies="self-play", seed=0, training={"train_batch_size_per_learner": 512})
    algorithm = config.build_algo()
    learner = algorithm.learner_group._learner.module
    try:
        assert all(equal(learner[LEARNER], learner[slot]) for slot in opponents(SLOTS))
        before = {slot: weights(learner[slot]) for slot in opponents(SLOTS)}
        league = League.from_json(algorithm.train()["league"])
        assert sum(league.games.values()) > 20
        for slot in opponents(SLOTS):  # only the learning policy learns
            np.testing.assert_equal(weights(learner[slot]), before[slot])
            assert not equal(learner[LEARNER], learner[slot])
        # The next version wins enough to become a member.
        league.record({slot: [1.0] * GAMES for slot in range(SLOTS)})
        algorithm.metrics.log_value("league", league.to_json(), reduce="item")
        league = League.from_json(algorithm.train()["league"])
        (slot,) = (index for index, member in enumerate(league.slots) if member == 1)
        assert equal(learner[LEARNER], learner[opponents(SLOTS)[slot]])
        acting = algorithm.env_runner.module
        assert all(equal(learner[name], acting[name]) for name in (LEARNER, *opponents(SLOTS)))
        algorithm.save_to_path(tmp_path / "checkpoint")

        algorithm.train()
        algorithm.restore_from_path(tmp_path / "checkpoint")
        continued = League.from_json(algorithm.train()["league"])
        assert continued.members == league.members
        assert all(continued.games[pair] == count for pair, count in league.games.items())
        assert any(pair.startswith("2-") for pair in continued.games)
        assert all(equal(learner[name], acting[name]) for name in opponents(SLOTS))
    finally:
        algorithm.stop()


@pytest.mark.deep
def test_self_play_rises_in_elo_and_resumes(ray_session, cli, tmp_path):
    out = tmp_path / "run"
    code, text, err = cli("train", "envoi:nim", "--policies", "self-play", "--stop-steps", 20_000, "--out", out)
    assert (code, err) == (0, "")
    half = json.loads((out / "league.json").read_text())["trials"]["0"]
    code, text, err = cli("train", "--resume", "--stop-steps", 60_000, "--out", out)
    assert (code, err) == (0, "")
    whole = json.loads((out / "league.json").read_text())["trials"]["0"]
    assert whole["versions"][1]["env_steps"] == half["versions"][1]["env_steps"]
    elo = [float(row["elo"]) for row in RunFolder(out).read_progress()]
    assert min(elo[-1], elo[len(elo) // 2]) > elo[0] + 50  # once nim is solved, equals are rated
    assert len(whole["versions"]) > len(half["versions"]) > 2

    code, text, err = cli("evaluate", out, "--episodes", 2 * SLOTS)
    assert (code, err) == (0, "")
    assert re.search(r"policy main: return 0?\.?\d", text)
    found = json.loads((out / "evaluation.json").read_text())["matches"]
    assert sum(match["wins"] + match["ties"] + match["losses"] for match in found) == 2 * SLOTS
    assert re.search(r"against version \d+ \(.*\): \d+ won, \d+ tied, \d+ lost", text)
