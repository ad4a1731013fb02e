"""Benchmarks compare costs as they say, and the documentation shows the published run; nothing is timed here."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.append(str(ROOT / "benchmarks"))

import summary  # noqa: E402 (found there)
from measuring.rows import Group, Pair, layer, measure, rows_of  # noqa: E402
from measuring.table import lines  # noqa: E402

ROW = {"row", "lanes", "unit", "ours", "peer", "ratio", "goal", "met"}


def costs(*values):
    """A case with these costs, in turn; the first warms up."""
    return lambda: iter(values).__next__


def absent():
    raise ImportError("No module named 'peer'")


def test_ratios_are_those_of_single_rounds():
    base, ours, theirs = costs(9, 10, 20, 30), costs(9, 12, 24, 36), costs(9, 14, 36, 36)
    (row,) = measure(layer("a row", base, ours, {"a peer": theirs}, least=2, most=5, unit="ns"), 3).rows
    assert row.keys() == ROW
    assert row["ours"] == {"name": "envoi", "median": 4, "quartiles": [2, 6]}
    assert row["peer"] == {"name": "a peer", "median": 6, "quartiles": [4, 16]}
    assert row["ratio"] == {"median": 2, "quartiles": [1, 4]}  # 2, 4 and 1
    assert row["met"] is True


def test_cases_are_played_in_turn():
    played = []

    def case(name):
        return lambda: lambda: played.append(name) or 1.0

    measure(Group({"a": case("a"), "b": case("b")}, [Pair("row", "a", "b")]), 2)
    assert played == ["a", "b"] * 3


@pytest.mark.parametrize(
    ("least", "most", "met"),
    [(2, None, True), (2.1, None, False), (2, 3.9, False), (None, 4, True), (None, None, None)],
)
def test_a_goal_is_a_ratio_or_a_cost_or_both(least, most, met):
    cases = {"ours": costs(*[4] * 3), "peer": costs(*[8] * 3)}
    (row,) = measure(Group(cases, [Pair("row", "ours", "peer", least=least, most=most)]), 2).rows
    assert row["met"] is met


def test_what_adds_nothing_has_no_ratio():
    same = costs(5, 5, 5)
    (row,) = measure(layer("row", same, costs(5, 5, 5), {"peer": costs(7, 7, 7)}, least=2), 2).rows
    assert (row["ratio"], row["met"]) == ({"median": None, "quartiles": [None, None]}, True)
    assert "free" in "\n".join(lines([row]))
    (row,) = measure(layer("row", same, costs(6, 6, 6), {"peer": costs(5, 5, 5)}, least=2), 2).rows
    assert (row["ratio"], row["met"]) == (None, None)  # the peer costs nothing


def test_a_missing_peer_is_named_and_ours_is_measured():
    found = measure(layer("row", costs(1, 1, 1), costs(3, 3, 3), {"peer": absent}, least=2, most=5), 2)
    assert found.missing == {"peer": "No module named 'peer'"}
    (row,) = found.rows
    assert (row["peer"], row["ours"]["median"], row["met"]) == (None, 2, True)
    assert not measure(layer("row", costs(1, 1, 1), absent, {"peer": costs(1, 1, 1)}), 2).rows


def test_only_rows_that_are_asked_for_are_made():
    group = Group({"a": absent, "b": absent, "c": absent}, [Pair("Row one", "a", "b"), Pair("row two", "a", "c")])
    for asked, other, row, cases in (("row ONE", "", "Row one", {"a", "b"}), ("", "C", "row two", {"a", "c"})):
        (one,) = rows_of(iter([group]), asked, other)
        assert ([pair.row for pair in one.pairs], {*one.cases}) == ([row], cases)
    assert not list(rows_of(iter([group]), "three", ""))


def script(name, *arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments], capture_output=True, text=True
    )


def test_a_script_writes_a_file_that_the_summary_reads(tmp_path):
    done = script("wrappers", "--rounds", "2", "--only", "flat actions", "--json", str(tmp_path / "wrappers.json"))
    assert done.returncode == 0, done.stderr
    assert "flat actions" in done.stdout
    (tmp_path / "other.json").write_text("[1]")
    published = tmp_path / "figures" / "performance.json"
    done = script("summary", str(tmp_path), "--publish", str(published))
    assert done.returncode == 0, done.stderr
    document = json.loads(published.read_text())
    assert document == json.loads((tmp_path / "summary.json").read_text())
    assert [row["row"] for row in document["benchmarks"]["wrappers"]["rows"]] == ["flat actions"]
    assert document["benchmarks"].keys() == {"wrappers"}
    assert {"envoi", "numpy", "gymnasium"} <= document["versions"].keys()
    assert document["machine"].keys() == {"cpu", "cores", "system", "machine"}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("run", "batchs"), "no such benchmark; expected some of"),
        (("wrappers", "--rounds", "1"), "expected at least 2"),
        (("summary", "."), "no benchmark has written there"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, monkeypatch, command, message):
    monkeypatch.chdir(tmp_path)
    done = script(*command)
    assert done.returncode == 2
    assert message in done.stderr


RUN = {
    "date": "2026-01-02", "machine": {"cpu": "a", "cores": 2}, "versions": {"numpy": "2", "ray": "2"}, "clock": "c",
    "rounds": 3, "seconds": 1.0, "missing": {}, "rows": [],
}  # fmt: skip
LATER = RUN | {"date": "2026-01-03", "versions": {"numpy": "1"}, "seconds": 2.0}


def test_files_of_other_versions_keep_them(tmp_path):
    document = summary.merged({"one": RUN, "other": LATER})
    assert (document["versions"], document["date"], document["seconds"]) == (RUN["versions"], "2026-01-03", 3.0)
    assert "versions" not in document["benchmarks"]["one"]
    assert document["benchmarks"]["other"]["versions"] == {"numpy": "1"}
    assert summary.separate(document) == {"one": RUN, "other": LATER}
    published = tmp_path / "published.json"
    for name, contents in (("memory", RUN), ("loop", LATER)):  # what a run leaves out stays published
        (folder := tmp_path / name).mkdir()
        (folder / f"{name}.json").write_text(json.dumps(contents))
        assert script("summary", str(folder), "--publish", str(published)).returncode == 0
    assert summary.separate(json.loads(published.read_text())) == {"memory": RUN, "loop": LATER}


def test_memory_that_grows_is_found_with_the_line_that_allocates(tmp_path):
    script = tmp_path / "leak.py"  # a process of its own: this one may have the memory already
    script.write_text(
        f"""
import sys
sys.path.append({str(ROOT / "benchmarks")!r})
import memory
kept = []
memory.cases = lambda: {{"leaks": ("numpy", lambda: lambda: kept.append(b"1" * 1_000_000), 1)}}
class Answers:
    def put(found):
        print(*found)
memory.grown("leaks", 20_000, Answers)
"""
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    added, line = run.stdout.split(maxsplit=1)
    assert float(added) == pytest.approx(100, abs=10)  # a hundred calls of 200 steps
    assert script.name in line


@pytest.mark.deep
def test_memory_is_flat_over_100000_steps(tmp_path):
    file = tmp_path / "memory.json"
    assert script("memory", "--steps", "100000", "--json", str(file)).returncode == 0
    grown = {row["row"]: row["ours"]["median"] for row in json.loads(file.read_text())["rows"]}
    assert {"gymnasium", "dm_env", "PettingZoo AEC", "RLlib, several agents", "lanes, compiled", "workers"} <= {*grown}
    assert {name: added for name, added in grown.items() if added >= 1} == {}


# What is published. That the tables are those of the run is in `test_docs.py`, with the other generated tables.

PUBLISHED = json.loads((DOCS / "figures" / "performance.json").read_text())
PAGES = runpy.run_path(str(DOCS / "performance.py"))


def test_the_overview_counts_every_comparison_and_missed_goal():
    compared = [row for one in PUBLISHED["benchmarks"].values() for row in one["rows"] if row["ratio"]]
    parts = re.findall(r"^\| \[.*?\]\(.*?\) \| (\d+) \| (\d+) \| (\d+) \|", PAGES["overview"](), re.MULTILINE)
    assert sum(int(count) for count, _, _ in parts) == len(compared)
    assert all(int(faster) + int(slower) <= int(count) for count, faster, slower in parts)
    missed = [row["row"] for one in PUBLISHED["benchmarks"].values() for row in one["rows"] if row["met"] is False]
    assert PAGES["missed"]().count("\n- ") == len(missed)
    assert all(row in PAGES["missed"]() for row in missed)


def test_pictures_show_the_published_run():
    for name, draw in PAGES["PICTURES"].items():
        picture = (DOCS / "figures" / name).read_text()
        assert picture == draw(), f"{name}: call `make bench-publish`"
        ElementTree.fromstring(picture)
        assert f"figures/{name}" in (DOCS / "performance.md").read_text()


def test_the_published_run_names_no_machine():
    described = {"imports", "conversion", "wrappers", "contexts", "batches", "loop", "workers"}
    assert described <= PUBLISHED["benchmarks"].keys()
    assert PUBLISHED["machine"].keys() == {"cpu", "cores", "system", "machine"}
    for name, one in PUBLISHED["benchmarks"].items():
        assert one["rows"], name
        assert all(row.keys() == ROW for row in one["rows"]), name
    assert "/home" not in (text := json.dumps(PUBLISHED))
    assert "/tmp" not in text
