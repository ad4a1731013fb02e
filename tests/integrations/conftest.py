"""One Ray per test process and one trained policy for all tests here; only Ray's warnings are no errors."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for what several tests share, and for envs that pickle by name
RAYS_WARNINGS = (
    "ignore::DeprecationWarning:ray",
    "ignore::FutureWarning:ray",
    "ignore::ResourceWarning",  # sockets and logs of Ray's processes
    r"ignore:.*RLModule\(config=:DeprecationWarning",
)

# Ray's workers take only the CPU time that other processes leave; test processes beside them leave little.
os.environ.setdefault("RAY_worker_niceness", "0")


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            for warning in RAYS_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def cli(capfd, monkeypatch):
    """Run the command line in this process: exit code, stdout, stderr."""
    from envoi.integrations.cli import main

    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        capfd.readouterr()
        code = main([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def spawn():
    """Run the command line in a process of its own, which is ended with the test."""
    started = []

    def run(*arguments):
        process = subprocess.Popen(
            [Path(sys.executable).with_name("envoi"), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=HERE,  # where `python:faulty:…` is found
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def ray_session():
    """A Ray on this machine that the jobs of this process share; limited, because each test process has its own."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), before]))
    import ray
    from ray.util.debug import disable_log_once_globally

    # RLlib greets once per process, and pytest's stderr is not the descriptor that a job redirects.
    disable_log_once_globally()
    quiet = {"include_dashboard": False, "logging_level": "ERROR", "log_to_driver": False}
    ray.init("local", num_cpus=2, object_store_memory=200 * 2**20, **quiet)
    yield
    ray.shutdown()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


def copy_of_run(name, tmp_path_factory, **goal):
    """Returns a copy of a finished job's folder; the first process of a test run that asks for it trains."""
    from filelock import FileLock

    from envoi.integrations.rllib import Settings, train

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # the folder that the processes of a test run have in common
    folder, whole = shared / name, shared / f"{name}-whole"
    with FileLock(shared / f"{name}.lock"):
        if not whole.exists():
            outcome = train(Settings("envoi:catch", **goal), folder)
            assert outcome.best == 0
            whole.touch()
    own = tmp_path_factory.mktemp("runs") / name
    shutil.copytree(folder, own, symlinks=True)
    return own


@pytest.fixture(scope="session")
def trained(ray_session, tmp_path_factory):
    """The folder of a job that reached its goal."""
    return copy_of_run("trained", tmp_path_factory, stop_return=0.2)


@pytest.fixture(scope="session")
def trained_in_two(ray_session, tmp_path_factory):
    """The folder of a job of two iterations, and of another seed."""
    return copy_of_run("trained-in-two", tmp_path_factory, stop_steps=4000, seed=3)
