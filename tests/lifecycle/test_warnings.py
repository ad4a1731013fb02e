"""No module of the library and no command warns: about what it does itself, as far as the interpreter can tell."""

import subprocess
import sys

import pytest

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


def runs(script, *options):
    """Runs a script in an interpreter of its own."""
    done = subprocess.run([sys.executable, *options, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr


@pytest.mark.deep
def test_no_command_warns():
    runs(COMMANDS, "-W", "error")


@pytest.mark.deep
def test_no_module_warns_of_its_own_doing():
    runs(IMPORTS)
