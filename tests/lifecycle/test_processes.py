"""Other processes continue environments with the values that they have here, and neither modules nor commands warn."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("other_processes.py")
ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Later Pythons warn if a process that is forked has threads."""


def run(*arguments):
    """Runs an interpreter of its own."""
    command, place = [sys.executable, *arguments], {**os.environ, **ALONE}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=place)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    return done


def test_a_fork_continues_as_this_process_does_and_neither_disturbs_the_other():
    assert not run("-W", "error", SCRIPT, "fork", "plain").stderr


@pytest.mark.deep
@pytest.mark.parametrize("envs", ["plain", "compiled"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_other_processes_continue_as_this_one_does(method, envs):
    assert not run("-W", "error", SCRIPT, method, envs).stderr


# Warnings about what the library does itself, as far as the interpreter can tell.

# A warning of deprecation names the file that calls what is deprecated, so those of other packages do not count here.
IMPORTS = """
import importlib, pkgutil, warnings
warnings.simplefilter("ignore")
warnings.filterwarnings("error", module=r"envoi(\\.|$)")
import envoi
for module in pkgutil.walk_packages(envoi.__path__, "envoi."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            assert not error.name.startswith("envoi"), error
"""

COMMANDS = """
import sys
from pathlib import Path
from envoi.integrations.cli import main
import envoi.integrations.cli.commands as commands
names = [command.name for command in commands.app.registered_commands]
assert len(names) > 8, names
for name in names:
    assert main([name, "--debug", "--help"]) == 0, name
assert main(["info", "envoi:catch", "--debug"]) == 0
"""


@pytest.mark.deep
def test_no_command_warns():
    run("-W", "error", "-c", COMMANDS)


@pytest.mark.deep
def test_no_module_warns_of_its_own_doing():
    run("-c", IMPORTS)
