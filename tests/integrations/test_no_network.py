"""Nothing is fetched, and nothing is sent: imports and the commands that train nothing open no connection."""

import subprocess
import sys

CODE = """
import socket, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        raise RuntimeError(f"{event}: {arguments[1:]}")

sys.addaudithook(refuse)
try:
    socket.create_connection(("localhost", 9))
except RuntimeError as error:
    print(error)

import envoi, envoi.adapters, envoi.integrations.check
from envoi.integrations.cli import main

COMMANDS = (
    ["--help"],
    ["info", "envoi:catch"],
    ["envs", "envoi:"],
    ["check", "gymnasium:CartPole-v1", "--frameworks", "gymnasium", "--episodes", "1"],
)
for command in COMMANDS:
    assert main(command) == 0, command
"""


def test_imports_and_commands_open_no_connection(tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("socket.getaddrinfo")  # the first line: the hook refuses what it should
