"""Processes and nodes that are killed under a job on a cluster."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytest.importorskip("ray")

HERE = Path(__file__).parent
MARK = "ENVOI_TEST_CLUSTER"


def marked(mark):
    """Returns the processes that have inherited a variable with this value, by id; of this user, on Linux."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found


@pytest.fixture
def cluster_job(tmp_path):
    """Runs cluster_job.py, and ends all processes that it has started, the nodes' and their workers'."""
    mark = uuid.uuid4().hex
    variables = {MARK: mark, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}

    def run():
        with (tmp_path / "errors").open("w") as errors:
            return subprocess.run(
                [sys.executable, "-W", "ignore", str(HERE / "cluster_job.py")],
                env=os.environ | variables, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=400, check=False,
            )  # fmt: skip

    yield run
    deadline = time.monotonic() + 10
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, (tmp_path / "errors").read_text()


@pytest.mark.deep
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds the processes to end in /proc")
def test_self_play_survives_the_loss_of_an_env_runner_and_of_a_node(cluster_job, tmp_path):
    done = cluster_job()
    assert done.returncode == 0, (tmp_path / "errors").read_text()
    stages = json.loads(done.stdout.splitlines()[-1])
    assert {name: stage["runners"] for name, stage in stages.items()} == {
        "whole": 2, "runner killed": 2, "node killed": 1, "node replaced": 2,
    }  # fmt: skip
    for key in ("steps", "games"):
        counts = [stage[key] for stage in stages.values()]
        assert counts == sorted(set(counts))
    # An env runner that was started again has the opponents of the league.
    assert not any(stage["differing"] for stage in stages.values())
