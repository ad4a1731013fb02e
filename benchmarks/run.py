"""Runs all benchmarks, one after the other, and ends in one table and one file.

    python benchmarks/run.py [--quick] [--rounds N] [--out build/bench] [batches conversion …]

A benchmark that fails is named at the end, and the others run on. What `make bench-tf` has written stays a part of the
table. On an idle machine of two cores all take about ten minutes, with `--quick` three.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = [
    *("imports", "conversion", "wrappers", "contexts", "batches", "loop"),
    *("workers", "rllib_multi_agent", "rllib_sampling"),
]
PEERS = HERE.parent / "build" / "peers"
"""Where `make bench` puts peers that nothing else needs."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and lanes")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each benchmark")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="a folder (default build/bench)")
    asked = parser.parse_args()
    names = asked.names or BENCHMARKS
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"{name}: no such benchmark; expected some of {', '.join(BENCHMARKS)}")
    asked.out.mkdir(parents=True, exist_ok=True)
    passed_on = ["--quick"] * asked.quick + ([f"--rounds={asked.rounds}"] if asked.rounds else [])
    paths = [str(PEERS)] * PEERS.exists() + [path for path in (os.environ.get("PYTHONPATH"),) if path]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    failed = []
    for number, name in enumerate(names, 1):
        file = asked.out / f"{name}.json"
        file.unlink(missing_ok=True)  # one that fails has no figures
        print(f"\n[{number}/{len(names)}] {name}", flush=True)
        start = time.monotonic()
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(file), *passed_on]
        if subprocess.run(command, env=env).returncode:
            failed.append(name)
        print(f"[{number}/{len(names)}] {name}: {time.monotonic() - start:.0f} s", flush=True)
    print()
    status = subprocess.run([sys.executable, str(HERE / "summary.py"), str(asked.out)]).returncode
    for name in failed:
        print(f"failed: {name}; `python benchmarks/{name}.py` alone shows why", file=sys.stderr)
    return 1 if failed else status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
