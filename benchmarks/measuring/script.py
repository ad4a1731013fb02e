"""The command line of a benchmark: it measures its groups, prints the rows as they come, and writes a file."""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from envoi.atomic_write import write_atomically
from envoi.integrations.machine_facts import machine_facts

from .rows import Group, measure, rows_of
from .table import HEADING, lines

PEERS = (
    "numba", "torch", "bsuite", "Shimmy", "gym", "supersuit", "carl-bench", "envpool", "dm-control", "dm-acme",
    "tensorflow-cpu",
)  # fmt: skip
"""Distributions whose versions are stated, besides those of the frameworks."""


def run(
    doc: str | None,
    groups: Callable[[argparse.Namespace], Iterable[Group]],
    *,
    rounds: int = 15,
    quick: int = 7,
    clock: str = "CPU time of the thread",
    options: Callable[[argparse.ArgumentParser], Any] = lambda parser: None,
) -> None:
    """Runs a benchmark by its command line, to which `options` adds the script's own options.

    It measures what `groups` returns for these, in so many interleaved rounds unless the user names another number.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help=f"interleaved rounds (default {rounds})")
    parser.add_argument("--quick", action="store_true", help=f"fewer rounds ({quick}), and fewer lanes where there are")
    parser.add_argument("--only", default="", help="only rows whose title holds this")
    parser.add_argument("--peer", default="", help="only rows beside a peer whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options(parser)
    asked = parser.parse_args()
    asked.rounds = asked.rounds or (quick if asked.quick else rounds)
    if asked.rounds < 2:
        parser.error(f"--rounds: expected at least 2, got {asked.rounds}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")  # what frameworks say of themselves
    rows, missing = list[dict[str, Any]](), dict[str, str]()
    start = time.monotonic()
    print(HEADING, flush=True)
    try:
        for group in rows_of(iter(groups(asked)), asked.only, asked.peer):
            found = measure(group, asked.rounds)
            for line in lines(found.rows):
                print(line, flush=True)
            rows += found.rows
            missing |= found.missing
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "envoi":
            raise
        missing[error.name] = str(error)
    write_report(asked.json, clock, asked.rounds, rows, missing, start)


def lanes_option(parser: argparse.ArgumentParser) -> None:
    """Adds the numbers of lanes."""
    parser.add_argument("--lanes", type=lambda text: [int(n) for n in text.split(",")], help="such as 8,64")


def write_report(
    path: Path | None, clock: str, rounds: int, rows: list[dict[str, Any]], missing: dict[str, str], start: float
) -> None:
    """Names the peers that are missing, and writes the file of a benchmark."""
    for peer, why in missing.items():
        print(f"not measured: {peer}: {why}")
    if path is not None:
        seconds = round(time.monotonic() - start, 1)
        report = machine_facts(PEERS) | {"clock": clock, "rounds": rounds, "seconds": seconds}
        report |= {"missing": missing, "rows": rows}
        write_atomically(path, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
