"""Environments that continue in another process have the values that they have here, by every start method."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("other_processes.py")


def run(method, envs):
    """Runs the script, with warnings as errors."""
    command = [sys.executable, "-W", "error", str(SCRIPT), method, envs]
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # later Pythons warn if a fork is not
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=alone)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_a_fork_continues_as_this_process_does_and_neither_disturbs_the_other():
    run("fork", "plain")


@pytest.mark.deep
@pytest.mark.parametrize("envs", ["plain", "compiled"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_other_processes_continue_as_this_one_does(method, envs):
    run(method, envs)
