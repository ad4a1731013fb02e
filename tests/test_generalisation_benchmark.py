"""The benchmark of generalisation repeats no complete training, and the page shows what was published."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import envoi

pytest.importorskip("torch")
pytest.importorskip("numba")

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks" / "generalisation"))

import experiments  # noqa: E402 (found there)
import mazes  # noqa: E402
import publish  # noqa: E402

DOCUMENT = json.loads(publish.DOCUMENT.read_text())


@pytest.fixture
def short(monkeypatch):
    """Trainings of an episode or two in each lane, judged on few contexts."""
    for name, settings in experiments.SETTINGS.items():
        monkeypatch.setitem(experiments.SETTINGS, name, replace(settings, steps=18_000, epochs=1))
    monkeypatch.setattr(experiments, "JUDGED", 2)
    monkeypatch.setattr(experiments, "LEVELS", 5)


@pytest.mark.parametrize(("name", "variants"), [("pendulum-B", ("visible", "history")), ("maze", ("random", "plr"))])
def test_trainings_that_are_complete_are_not_repeated(short, tmp_path, name, variants):
    folders = [tmp_path / f"{variant}-0" for variant in variants]
    for variant, folder in zip(variants, folders, strict=True):
        assert experiments.run(name, variant, 0, folder) > 0
        before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
        assert experiments.run(name, variant, 0, folder) == 0
        assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before
    tables = envoi.integrations.evaluation.report(folders, tmp_path / "report", resamples=10)
    assert {row["variant"] for row in tables["regions"]} == {*variants}
    if name == "maze":
        assert "Contexts in use" in (tmp_path / "report" / "report.html").read_text()


def test_equal_seeds_give_equal_policies(short, tmp_path):
    for folder in ("one", "other"):
        experiments.run("cartpole-A", "hidden", 3, tmp_path / folder)
    assert len({(tmp_path / folder / "evaluation.csv").read_text() for folder in ("one", "other")}) == 1


def test_every_maze_made_by_hand_can_be_solved():
    assert all(mazes.distance(level) > 12 for level in mazes.handmade().values())
    assert all(mazes.distance(level) for level in mazes.sampled(20, seed=1, solvable=True).values())


def test_the_page_shows_what_was_published():
    assert publish.page_with(publish.PAGE.read_text(), DOCUMENT) == publish.PAGE.read_text()
    for experiment in DOCUMENT["experiments"].values():
        assert len({row["variant"] for row in experiment["regions"]}) == 3
    for end in publish.PICTURES:
        ElementTree.parse(ROOT / "docs" / "figures" / f"generalisation-{end}.svg")


def test_the_page_says_how_long_it_took():
    text = publish.PAGE.read_text()
    assert DOCUMENT["trainings"] == 150
    assert f"{DOCUMENT['seconds'] / 60:.0f} minutes of one core" in text
    for kind, settings in DOCUMENT["settings"].items():
        assert f"{settings['steps']:,}" in text, kind
        assert settings["steps"] == experiments.SETTINGS[kind].steps
