"""The command `envoi report`: a page and tables of what evaluations of several seeds and variants show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

import envoi

from ..app import command
from ..console import output_console
from ..option_types import Debug, text, whole


@command("report")
def _report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="evaluation.csv, evaluation.parquet, or a folder that has one, such as a run's.",
            metavar="PATH...",
            show_default=False,
        ),
    ],
    out: Annotated[Path, text("The folder of the page and the tables.", metavar="DIR")] = Path("report"),
    seed: Annotated[int, whole("Seed of the resamples.")] = 0,
    resamples: Annotated[int, whole("Resamples of an interval.")] = 2000,
    bounds: Annotated[
        str | None,
        text("The returns that count as 0 and as 1, for the optimality gap.", metavar="LOW,HIGH", show_default="none"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Report what evaluations of several seeds and variants show, as a page and as tables.

    They are those of envoi evaluate --contexts. The figures are those of rliable: interquartile means with intervals
    from stratified resamples, gaps, profiles and probabilities of improvement, by region.
    """
    del debug
    from ...evaluation import report

    ends: tuple[float, float] | None = None
    if bounds is not None:
        try:
            low, high = map(float, bounds.split(","))
        except ValueError:
            raise envoi.EnvoiError(f"--bounds: expected LOW,HIGH, got {bounds!r}") from None
        ends = low, high
    tables = report(paths, out, seed=seed, resamples=resamples, bounds=ends)
    console = output_console()
    shown = Table("variant", "region", "IQM", "95 %", "gap", "95 %", box=None)
    for row in tables["regions"]:
        figures = (row[name] for name in ("iqm", "iqm_low", "iqm_high", "gap", "gap_low", "gap_high"))
        iqm, *ends_of_iqm, gap, gap_low, gap_high = ("n/a" if one is None else f"{one:.4g}" for one in figures)
        shown.add_row(row["variant"], row["region"], iqm, " to ".join(ends_of_iqm), gap, f"{gap_low} to {gap_high}")
    console.print(shown)
    page = out / "report.html"
    if "fewer than five seeds" in page.read_text(encoding="utf-8"):
        console.print("[yellow]note:[/yellow] fewer than five seeds: the intervals say little, and nothing is claimed")
    console.print(f"written to {escape(str(page))}")
