"""Levels of `envoi:maze`: sampled ones, and some made by hand in the manner of the papers on environment design."""

from collections import deque

import numpy as np

from envoi.models import Maze
from envoi.models.maze import CELLS, ROWS, SIZE

PICTURES = {
    "four rooms": """
        >.....#......
        ......#......
        ......#......
        .............
        ......#......
        ......#......
        ###.#####.###
        ......#......
        ......#......
        ......#......
        .............
        ......#......
        ......#.....G
    """,
    "nine rooms": """
        >..#....#....
        ...#.........
        ........#....
        ...#....#....
        #.####.###.##
        ...#....#....
        ...#.........
        ........#....
        ##.###.###.##
        ...#....#....
        ........#....
        ...#.........
        ...#....#...G
    """,
    "corridors": """
        >............
        .###########.
        .#.........#.
        .#.#######.#.
        .#.#.....#.#.
        .#.#.###.#.#.
        .#.#.#G..#.#.
        .#.#.#####.#.
        .#.#.......#.
        .#.#########.
        .#...........
        .###########.
        .............
    """,
    "comb": """
        >............
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#.#.#.
        .#.#.#.#G#.#.
    """,
    "bends": """
        >............
        ############.
        .............
        .############
        .............
        ############.
        .............
        .############
        .............
        ############.
        .............
        .############
        ............G
    """,
    "labyrinth": """
        ...#.....#...
        .#.#.###.#.#.
        .#...#.#...#.
        .#####.#####.
        .....#.......
        ####.#.#####.
        >..#...#...#.
        .#.#####.#.#.
        .#.......#.#.
        .#########.#.
        .#.....#...#.
        .#.###.#.###.
        ...#G..#.....
    """,
}


def handmade():
    """Returns the levels made by hand, by their names."""
    return {name: Maze.level(picture) for name, picture in PICTURES.items()}


def sampled(n, seed, solvable=False):
    """Returns levels of 0 to 60 walls at random places, by id; of those that can be solved alone if asked for."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < n:
        walls = np.zeros(CELLS, int)
        walls[rng.permutation(CELLS)[: rng.integers(61)]] = 1
        agent, goal = rng.permutation(CELLS)[:2].tolist()
        rows = (walls.reshape(SIZE, SIZE) << np.arange(SIZE)).sum(1).tolist()
        level = {**dict(zip(ROWS, rows, strict=True)), "agent": agent, "heading": int(rng.integers(4)), "goal": goal}
        if not solvable or distance(level) is not None:
            found.append(level)
    return {f"{seed}-{number}": level for number, level in enumerate(found)}


def distance(level):
    """Returns the number of cells to the goal; None where no way leads there."""
    env = Maze()
    env.context = level
    env.reset(seed=0)
    state = env.state
    steps, waiting = {(state.row, state.column): 0}, deque([(state.row, state.column)])
    while waiting:
        row, column = waiting.popleft()
        for place in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if (
                place not in steps
                and min(place) >= 0
                and max(place) < SIZE
                and not state.walls[place[0]] >> place[1] & 1
            ):
                steps[place] = steps[row, column] + 1
                waiting.append(place)
    return steps.get(divmod(state.goal, SIZE))
