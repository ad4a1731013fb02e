"""Reports of evaluations: figures as rliable's, tables, the page, and what is refused."""

import csv
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import envoi
from envoi.integrations.evaluation import evaluate, report
from envoi.integrations.evaluation.estimates import (
    interquartile_mean,
    interval,
    interval_of_improvement,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
    share_above,
)
from envoi.integrations.evaluation.tables import read_rows, write_tables

PEER = json.loads(Path(__file__).with_name("rliable_figures.json").read_text())
SEED, RESAMPLES = PEER["seed"], PEER["resamples"]
FIGURES = {
    "iqm": interquartile_mean,
    "mean": mean,
    "median": median,
    "optimality_gap": lambda scores: optimality_gap(scores / 120),
}


@pytest.mark.parametrize("case", PEER["cases"], ids=lambda case: f"{len(case['x'])}x{len(case['x'][0])}")
def test_figures_are_those_of_rliable(case):
    x, y = (np.array(case[name], float) for name in "xy")
    for name, figure in FIGURES.items():
        found = [figure(x), *interval(figure, x, SEED, RESAMPLES)]
        np.testing.assert_allclose(found, case[name], rtol=0, atol=1e-9, err_msg=name)
    share = share_above(np.array(PEER["levels"]))
    found = [share(x), *interval(share, x, SEED, RESAMPLES)]
    np.testing.assert_allclose(found, case["profile"], rtol=0, atol=1e-9)
    found = [probability_of_improvement(x, y), *interval_of_improvement(x, y, SEED, RESAMPLES)]
    np.testing.assert_allclose(found, case["improvement"], rtol=0, atol=1e-9)


def test_resamples_do_not_depend_on_memory(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(6, 5))
    whole = interval(interquartile_mean, scores, 3, 500)
    monkeypatch.setattr("envoi.integrations.evaluation.estimates._CELLS", 210)
    assert interval(interquartile_mean, scores, 3, 500) == whole


def rows_of(scores, variant="a", region="train", env="envoi:cartpole", **more):
    """Returns the rows of an evaluation whose contexts have these mean returns, in two episodes each."""
    return [
        {
            "env": env,
            "variant": variant,
            "train_seed": seed,
            "region": region,
            "context_id": f"{region}-{place}",
            "context.length": 0.1 * place + (0.05 if region != "train" else 0.0),
            "context.gravity": 9.0 + (place % 3),
            "episode": episode,
            "seed": episode,
            "return": float(score) + (episode - 0.5),
            "length": 1,
            "terminated": True,
            "success": float(score > 100),
            **more,
        }
        for seed, row in enumerate(scores)
        for place, score in enumerate(row)
        for episode in range(2)
    ]


def write(folder, rows, kind=".csv"):
    write_tables(folder, {"evaluation": rows})
    return folder / f"evaluation{kind}"


def read(folder, name):
    """Returns a table, after comparing its two files."""
    with (folder / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(folder / f"{name}.parquet")
    assert table.column_names == (list(rows[0]) if rows else table.column_names)
    for one, other in zip(rows, table.to_pylist(), strict=True):
        assert one == {key: "" if value is None else str(value) for key, value in other.items()}
    return rows


def test_table_has_the_figures_of_rliable(tmp_path, cli):
    """Of the case of equally many seeds, of which one is the training region and one another."""
    case = PEER["cases"][0]
    x, y = (np.array(case[name], float) for name in "xy")
    first = write(tmp_path / "one", rows_of(x) + rows_of(y, region="combinatorial"))
    second = write(tmp_path / "two", rows_of(y, "b"), ".parquet")
    out = tmp_path / "out"
    more = ["--seed", SEED, "--resamples", RESAMPLES, "--bounds", "0,200"]
    code, printed, err = cli("report", first, second.parent, "--out", out, *more)
    assert (code, err) == (0, "")
    assert "fewer than five seeds" not in printed
    table = read(out, "regions")
    places = [("a", "train"), ("a", "combinatorial"), ("b", "train")]
    assert [(row["variant"], row["region"]) for row in table] == places
    found = [float(table[0][name]) for name in ("iqm", "iqm_low", "iqm_high")]
    np.testing.assert_allclose(found, case["iqm"], rtol=0, atol=1e-9)
    gaps = x.mean(1) - y.mean(1)
    index = np.random.RandomState(SEED).randint(0, 5, (RESAMPLES, 5))
    expected = [gaps.mean(), *np.percentile(gaps[index].mean(1), [2.5, 97.5])]
    found = [float(table[1][name]) for name in ("gap", "gap_low", "gap_high")]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert float(table[0]["gap"]) == 0
    improvement = {(row["x"], row["y"]): row for row in read(out, "improvement")}
    assert {row["region"] for row in improvement.values()} == {"train"}
    found = [float(improvement["a", "b"][name]) for name in ("probability", "low", "high")]
    np.testing.assert_allclose(found, case["improvement"], rtol=0, atol=1e-9)
    assert float(improvement["b", "a"]["probability"]) == pytest.approx(1 - found[0])
    means = read(out, "contexts")
    assert [row["context_id"] for row in means[:7]] == [f"train-{place}" for place in range(7)]
    np.testing.assert_allclose([float(row["mean"]) for row in means[:7]], x.mean(0))
    latex = (out / "regions.tex").read_text()
    assert latex.startswith("\\begin{tabular}")
    assert f"a & combinatorial & {float(table[1]['iqm']):.4g} & " in latex


class Page(HTMLParser):
    """The headings, the texts and the outside references of a page."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.texts, self.outside, self.open = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def page_of(folder):
    page = Page((folder / "report.html").read_text())
    return page, " ".join(page.texts)


def test_page_has_ten_parts_and_needs_nothing_else(tmp_path):
    x, y = (np.array(PEER["cases"][1][name], float) for name in "xy")
    run = tmp_path / "run"
    write(run, rows_of(x) + rows_of(y[:, :3].repeat(2, 0)[:10], region="combinatorial"))
    (run / "progress.csv").write_text("trial,env_steps,return_mean,evaluation_return_mean\n0,100,1.5,\n0,200,2.5,3.0\n")
    shares = [{"iteration": i, "context_id": c, "share": 0.5 + 0.5 * (i * c)} for i in (0, 1) for c in (0, 1)]
    pq.write_table(pa.Table.from_pylist(shares), run / "contexts.parquet")
    report([run, rows_of(x + 20, "<b>")], tmp_path / "out", resamples=50, bounds=(0, 200))
    page, text = page_of(tmp_path / "out")
    assert [heading.partition(".")[0] for heading in page.headings] == [str(n) for n in range(1, 11)]
    assert page.outside == []
    assert "<b>" in text  # and no element of this name
    for said in (
        "optimality gap",
        "mean return; the training region is outlined",
        "a less <b>",
        "Return over length; the training range is shaded",
        "Return over env steps",
        "Contexts in use",
        "200 env steps",
        "<b> is likely better than a in train",
        "--resamples 50",
    ):
        assert said in text, said
    assert "fewer than five seeds" not in text


@pytest.mark.parametrize("seeds", [1, 4])
def test_few_seeds_claim_nothing(tmp_path, cli, seeds):
    rows = rows_of(np.ones((seeds, 4))) + rows_of(np.full((seeds, 4), 9.0), "b")
    file = write(tmp_path / "some", rows)
    code, printed, err = cli("report", file, "--out", tmp_path / "out", "--resamples", 20)
    assert (code, err) == (0, "")
    assert "fewer than five seeds: there are no intervals" in printed
    assert " to " not in printed.partition("note:")[0]
    _, text = page_of(tmp_path / "out")
    assert "fewer than five seeds" in text
    assert "likely better" not in text
    assert "[" not in text.partition("Returns by region")[2].partition("Performance profiles")[0]
    ends = [row[name] for row in read(tmp_path / "out", "regions") for name in row if name.endswith(("_low", "_high"))]
    ends += [row[name] for row in read(tmp_path / "out", "improvement") for name in ("low", "high")]
    assert ends == [""] * 12
    assert " & -- & -- & " in (tmp_path / "out" / "regions.tex").read_text()


def test_maps_have_the_cells_that_were_measured_of_few_features(tmp_path):
    many = rows_of(np.ones((5, 6)))
    report(many, tmp_path / "few", resamples=np.int64(10))
    text = (tmp_path / "few" / "report.html").read_text()
    assert len(re.findall(r"<title>1, 10 episodes</title>", text)) == 6  # of 18 cells
    for row in many:
        row |= {f"context.row{k}": hash((row["context_id"], k)) % 64 for k in range(8)}
    report(many, tmp_path / "out", resamples=10)
    _, text = page_of(tmp_path / "out")
    assert "The contexts differ in 10 numbers, too many for maps." in text


@pytest.mark.parametrize("keys", [[0, 1, 2, 3], ["0", "01", "'0'", "a"], [0, "0b", (1, 2), 3.5]])
def test_ids_are_the_same_in_both_files(tmp_path, keys):
    rows = [{**row, "context_id": keys[int(row["context_id"][-1])]} for row in rows_of(np.ones((5, 4)))]
    write_tables(tmp_path, {"evaluation": rows})
    plain = keys if {*map(type, keys)} == {int} else [*map(str, keys)]
    for kind in (".csv", ".parquet"):
        found = read_rows(tmp_path / f"evaluation{kind}")
        assert [str(row["context_id"]) for row in found] == [str(key) for _ in range(5) for key in plain for _ in "ab"]
    tables = report(tmp_path / "evaluation.csv", tmp_path / "out", resamples=10)
    assert tables == report(tmp_path / "evaluation.parquet", tmp_path / "of_parquet", resamples=10)
    for kind in (".csv", ".parquet"):
        assert [str(row["context_id"]) for row in read_rows(tmp_path / "out" / f"contexts{kind}")] == [*map(str, plain)]


def test_one_variant_has_an_empty_table_of_pairs(tmp_path):
    tables = report(rows_of(np.ones((5, 4)), region=None), tmp_path / "out", resamples=10)
    assert tables["improvement"] == read(tmp_path / "out", "improvement") == []
    header = (tmp_path / "out" / "improvement.csv").read_text()
    assert header == "region,x,y,probability,low,high\n"
    assert tables["regions"][0]["region"] == "all"
    assert tables["regions"][0]["gap"] is None


def test_variants_may_have_regions_of_their_own(tmp_path):
    alone = [row for row in rows_of(np.ones((5, 4)), "b", region="other") if row["context_id"] == "other-0"]
    report(rows_of(np.ones((5, 4))) + alone, tmp_path, resamples=10)
    assert "Return over length" in page_of(tmp_path)[1]


def test_training_contexts_among_others_are_named(tmp_path, cli):
    rows = rows_of(np.ones((5, 4))) + rows_of(np.ones((5, 4)), region="combinatorial", **{"context.length": 0.0})
    named = "test contexts that are also training contexts: combinatorial-0, combinatorial-3"
    with pytest.warns(UserWarning, match=named):
        report(rows, tmp_path / "out", resamples=10)
    assert named in page_of(tmp_path / "out")[1]
    code, printed, err = cli("report", write(tmp_path / "in", rows), "--out", tmp_path / "again", "--resamples", 10)
    assert (code, err) == (0, "")
    assert f"note: {named}" in " ".join(printed.split())


def test_report_reads_what_evaluate_returns(tmp_path):
    split = envoi.context.regions({"gravity": (9, 9.5, 10, 11), "length": (0.4, 0.5, 0.6, 0.8)}, "B", n=4)
    rows, asked = [], {"contexts": split, "episodes": 2, "variant": "tilt"}
    for seed in range(5):
        policy = lambda seen, way=seed: int(seen[2] + 0.1 * way * seen[3] > 0)  # noqa: E731
        rows += evaluate(policy, "envoi:cartpole", train_seed=seed, out=tmp_path / str(seed), **asked)
    found = report(rows, tmp_path / "of_rows", resamples=50)
    assert found == report([tmp_path / str(seed) for seed in range(5)], tmp_path / "of_files", resamples=50)
    assert {row["region"] for row in found["regions"]} == {*split}


GOOD = rows_of(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            GOOD + rows_of(np.ones((2, 2)), "b", env="envoi:catch"),
            "got 'envoi:cartpole' in .* and 'envoi:catch'",
        ),
        (GOOD + GOOD[:1], "occurs twice; name variants and seeds apart"),
        (GOOD[:-2], "variant 'a', train_seed 1 lacks the context 'train-1', which others have"),
        ([*GOOD[:-1], {**GOOD[-1], "return": math.nan}], "line 9: expected a finite return, got 'nan'"),
        ([{**row, "return": "much"} for row in GOOD], "line 2: expected a finite return, got 'much'"),
        ([{"env": "a"}], "none called 'variant'"),
    ],
)
def test_bad_evaluations_are_named_and_nothing_is_written(tmp_path, cli, rows, message):
    file = write(tmp_path / "in", rows)
    code, _, err = cli("report", file, "--out", tmp_path / "out")
    assert code == 2
    assert re.search(message, err), err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "none.csv: No such file"),
        (["empty"], "empty: expected evaluation.csv or evaluation.parquet"),
        (["bad.csv"], "bad.csv: expected a row for each episode, got none"),
        (["uneven.csv"], "uneven.csv: line 2 has another number of cells than the header"),
        (["bad.parquet"], "bad.parquet: not a parquet file"),
        (["good/evaluation.csv", "--bounds", "3"], "--bounds: expected LOW,HIGH, got '3'"),
        (["good/evaluation.csv", "--bounds", "3,1"], "bounds: expected low < high"),
        (["good/evaluation.csv", "--bounds", "500,900"], "bounds: expected returns from 500.0 to 900.0, got "),
        (["good/evaluation.csv", "--resamples", "0"], "resamples: expected at least 1, got 0"),
        (["good/evaluation.csv", "--seed", "-1"], "seed: expected 0"),
        (["good/evaluation.csv", "good"], "occurs twice"),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_written(tmp_path, cli, monkeypatch, arguments, message):
    write(tmp_path / "good", GOOD)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.csv").write_text("")
    (tmp_path / "uneven.csv").write_text("env,variant\na\n")
    (tmp_path / "bad.parquet").write_text("no")
    monkeypatch.chdir(tmp_path)
    code, _, err = cli("report", *arguments, "--out", "out")
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert not Path("out").exists()
