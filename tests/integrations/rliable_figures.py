"""Makes rliable_figures.json: what rliable 1.2.0 says of scores, for `test_report.py`.

rliable needs pandas below 3, so it runs in an environment of its own:

    python -m venv peer && peer/bin/pip install rliable "pandas<3"
    peer/bin/python tests/integrations/rliable_figures.py
"""

import json
from pathlib import Path

import numpy as np

RESAMPLES, SEED = 400, 7


def scores_of(seeds, contexts, number):
    """Returns scores with ties, of a few values."""
    rng = np.random.default_rng(number)
    return np.round(rng.normal(100, 30, (seeds, contexts)), number % 2)


def main():
    from rliable import library, metrics

    figures = {
        "iqm": metrics.aggregate_iqm,
        "mean": metrics.aggregate_mean,
        "median": metrics.aggregate_median,
        "optimality_gap": lambda x: metrics.aggregate_optimality_gap(x / 120),
    }
    levels = np.array([60.0, 100.0, 140.0])
    found = []
    for number, (seeds, more, contexts) in enumerate([(5, 5, 7), (10, 6, 4), (3, 8, 13), (7, 7, 1)]):
        x, y = scores_of(seeds, contexts, number), scores_of(more, contexts, 100 + number)
        case = {"x": x.tolist(), "y": y.tolist()}
        for name, figure in figures.items():
            np.random.seed(SEED)  # noqa: NPY002 (its random_state does nothing)
            point, ends = library.get_interval_estimates({"x": x}, lambda s, f=figure: np.array([f(s)]), reps=RESAMPLES)
            case[name] = [point["x"][0], *ends["x"][:, 0].tolist()]
        np.random.seed(SEED)  # noqa: NPY002
        point, ends = library.create_performance_profile({"x": x}, levels, reps=RESAMPLES)
        case["profile"] = [point["x"].tolist(), *ends["x"].tolist()]
        np.random.seed(SEED)  # noqa: NPY002
        pair = {"x,y": (x, y)}
        point, ends = library.get_interval_estimates(pair, metrics.probability_of_improvement, reps=RESAMPLES)
        case["improvement"] = [float(np.ravel(point["x,y"])[0]), *np.ravel(ends["x,y"]).tolist()]
        found.append(case)
    document = {"levels": levels.tolist(), "resamples": RESAMPLES, "seed": SEED, "cases": found}
    Path(__file__).with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
