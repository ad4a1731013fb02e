"""The maze: levels are contexts, the agent sees the cells before it, and curricula choose and make levels."""

import numpy as np
import pytest

import envoi
from envoi.curricula import PrioritizedLevelReplay
from envoi.models import Maze
from envoi.models.maze import ROWS

PICTURE = """
#############
#...........#
#.#########.#
#.#.......#.#
#.#.#####.#.#
#.#.#...#.#.#
#.#.#.G.#.#.#
#.#.#.#.#.#.#
#.#.#.#...#.#
#.#.#.#####.#
#...#.......#
#####.#####.#
>...........#
"""
LEFT, RIGHT, FORWARD = range(3)


def at(picture=PICTURE, **arguments):
    env = Maze(**arguments)
    env.context = Maze.level(picture)
    return env, env.reset(seed=0)[0]


def test_a_level_is_its_picture():
    context = Maze.level(PICTURE)
    assert [context["agent"], context["heading"], context["goal"]] == [156, 1, 84]
    assert [context["row0"], context["row1"], context["row12"]] == [2**13 - 1, 1 + 2**12, 2**12]
    env, _ = at()
    picture = env.render()
    assert picture.shape == (208, 208, 3)
    assert (picture[::16, ::16] == 60).all(-1).sum() == PICTURE.count("#")


@pytest.mark.parametrize("picture", ["#", PICTURE.replace("G", "."), PICTURE.replace(">", "."), PICTURE + PICTURE])
def test_a_picture_of_no_level_is_refused(picture):
    with pytest.raises(envoi.ContextError, match="13 lines of 13 cells with one agent and one goal"):
        Maze.level(picture)


def test_the_agent_sees_what_is_before_it():
    env, seen = at()
    assert seen["heading"] == 1
    ends, between = [1, 1, 0, 1, 1], [0, 1, 0, 1, 1]  # two rows of the maze, its last one, and the border
    assert seen["view"][0].tolist() == [ends, between, between, between, ends]
    assert not seen["view"][1].any()
    assert env.step(LEFT).observation["heading"] == 0
    upwards = [[1, 1, *(cell == "#" for cell in line[:3])] for line in PICTURE.replace(">", ".").split()[-5:]]
    assert env.observe(env.state, None)["view"][0].tolist() == upwards


def test_the_goal_is_seen_also_behind_walls():
    _, seen = at(("." * 13 + "\n") * 10 + "..G..........\n" + "###..........\n" + "^............")
    assert np.argwhere(seen["view"][1]).tolist() == [[2, 4]]


def test_walls_and_the_border_stop_the_agent():
    env, _ = at()
    for turns in (2, 1):  # out of the maze, and into the wall above
        for _ in range(turns):
            env.step(RIGHT)
        before = env.state
        after = env.step(FORWARD)
        assert (env.state.row, env.state.column) == (before.row, before.column) == (12, 0)
        assert after.reward == 0
    env.step(RIGHT)
    env.step(FORWARD)
    assert env.state.column == 1


def test_the_return_counts_the_steps_to_the_goal():
    env, _ = at(("." * 13 + "\n") * 12 + ">..G.........", limit=10)
    steps = [env.step(FORWARD) for _ in range(3)]
    assert [step.reward for step in steps] == [0, 0, 1 - 0.9 * 3 / 10]
    assert [bool(step.terminated) for step in steps] == [False, False, True]
    env.reset()
    ends = [env.step(LEFT) for _ in range(10)][-1]
    assert (bool(ends.terminated), bool(ends.truncated), ends.reward) == (False, True, 0)


def test_agent_and_goal_are_on_free_cells():
    env = Maze()
    env.context = {**dict.fromkeys(ROWS, 2**13 - 1), "agent": 168, "goal": 168, "heading": 0}
    env.reset(seed=0)
    assert env.state.goal == 0
    free = [(row, column) for row in range(13) for column in range(13) if not env.state.walls[row] >> column & 1]
    assert free == [(0, 0), (12, 12)]


def test_samples_have_walls_of_the_density():
    samples = Maze.context_space.sample(200, seed=0)
    walls = [sum(bin(sample[name]).count("1") for name in ROWS) / 169 for sample in samples]
    assert 0.18 < np.mean(walls) < 0.22


def test_a_mutant_is_another_level():
    parent = Maze.level(PICTURE)
    rng = np.random.default_rng(0)
    children = [Maze.mutate(parent, rng) for _ in range(50)]
    assert parent == Maze.level(PICTURE)
    for child in children:
        Maze.context_space.verify(child)
        changed = sum(bin(child[name] ^ parent[name]).count("1") for name in ROWS)
        assert 1 <= changed + sum(child[name] != parent[name] for name in ("agent", "goal")) <= 5


@pytest.mark.parametrize("compiled", [False, True])
def test_replay_samples_and_mutates_levels(compiled):
    if compiled:
        pytest.importorskip("numba")
    curriculum = PrioritizedLevelReplay(space=Maze.context_space, mutate=Maze.mutate, buffer=8, seed=0)
    env = envoi.Contextual(Maze(limit=6), context_selector=curriculum, hide_context=True)
    batch = envoi.batch(env, 4, compiled=compiled)
    batch.reset(seed=0)
    over = np.zeros(4, bool)
    for _ in range(80):
        step = batch.step(batch.sample_action(), restart=over)
        over = step.terminated | step.truncated
    assert len(curriculum.contexts) == 8
    assert curriculum.position["new"] > 8
    assert len({tuple(context.values()) for context in curriculum.contexts.values()}) == 8
