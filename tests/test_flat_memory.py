"""Memory stays flat in every form and import."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = Path(__file__).parents[1] / "benchmarks" / "memory.py"


@pytest.mark.deep
def test_memory_is_flat_over_a_hundred_thousand_steps(tmp_path):
    file = tmp_path / "memory.json"
    subprocess.run([sys.executable, str(MEMORY), "--steps", "100000", "--json", str(file)], check=True)
    grown = {row["row"]: row["ours"]["median"] for row in json.loads(file.read_text())["rows"]}
    assert grown.keys() >= {
        "gymnasium",
        "dm_env",
        "PettingZoo AEC",
        "RLlib, several agents",
        "lanes, compiled",
        "workers",
    }
    assert {name: added for name, added in grown.items() if added >= 1} == {}
