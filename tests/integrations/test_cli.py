"""The command line: fast help, one line for an error, no import of Ray before it is needed, and no connection."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from absent import ABSENT, needs

PROBE = """
import sys
from envoi.integrations.cli import main
code = main({arguments})
heavy = [name for name in {heavy} if name in sys.modules]
print("heavy:", heavy, file=sys.stderr)
sys.exit(code)
"""


HEAVY = ("ray", "torch", "gymnasium", "matplotlib", "scipy")


def probe(*arguments, heavy=HEAVY, before="", **options):
    code = before + PROBE.format(arguments=list(map(str, arguments)), heavy=heavy)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)


REFUSE = """
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
"""


CHECK = ["check", "gymnasium:CartPole-v1", "--episodes", "1", "--frameworks", "gymnasium"]
LIGHT = {"--help": HEAVY, "--version": HEAVY, "train --help": HEAVY, "evaluate --help": HEAVY, "": HEAVY}
LIGHT |= {"info envoi:catch": (), "envs envoi:": (), " ".join(CHECK): ("ray", "dm_env", "pettingzoo", "tensorflow")}


@pytest.mark.parametrize("command", LIGHT)
def test_commands_open_no_connection_and_import_nothing_heavy(tmp_path, command):
    done = probe(*command.split(), heavy=LIGHT[command], before=REFUSE if command else "", cwd=tmp_path)
    assert done.returncode == (0 if command else 2), done.stderr[-2000:]
    assert done.stderr.splitlines()[-1] == "heavy: []"
    # The first line: the hook refuses what it should.
    assert done.stdout.startswith("socket.getaddrinfo") if command else "Usage" in done.stdout + done.stderr


CATCH = ["train", "envoi:catch"]
LEARNING = ["train", "envoi:cartpole", "--contexts", "length=0.5", "--curriculum"]
BAD = {
    "unknown env": (["train", "gymnasium:CartPoel-v1"], "gymnasium:CartPole-v1"),
    "unknown scheme": (["train", "gymnasiun:CartPole-v1"], "gymnasium"),
    "scheme alone": (["train", "envoi:"], "expected 'scheme:name', such as 'envoi:catch'"),
    "scheme of Python alone": (["info", "python:"], "such as 'python:my_module:make_env'"),
    "unknown policies": (["train", "envoi:nim", "--policies", "sharde"], "did you mean 'shared'? There are: "),
    "policies of one agent": (["train", "envoi:catch", "--policies", "shared"], "is for several agents"),
    "no env": (["train"], "which env?"),
    "no folder to resume": (["train", "--resume"], "--out"),
    "samples": (["train", "envoi:catch", "--samples", "0"], "--samples: expected at least 1, got 0"),
    "option": (["train", "envoi:catch", "--stop-retrun", "3"], "--stop-return"),
    "option of another command": (["runs", "--jso"], "No such option: --jso (Possible options: --json)"),
    "command": (["trian"], "train"),
    "value": (["evaluate", "nowhere", "--form", "cor"], "--form: 'cor' is not one of 'core', 'gymnasium', 'both'"),
    "runner": (["train", "envoi:catch", "--runner", "bached"], "'bached' is not one of 'auto', 'sync', 'batched'"),
    "a million contexts": (
        ["train", "envoi:cartpole", "--contexts", "length=0.3..0.7:1000;gravity=9..10:1000"],
        "--contexts: 1,000,000 contexts; confirm so many by --yes",
    ),
    "number": (["train", "envoi:catch", "--gpus", "two"], "--gpus: expected a number, got 'two'"),
    "not a number": (["train", "envoi:catch", "--stop-return", "nan"], "--stop-return: expected a number, got nan"),
    "whole number": (["train", "envoi:catch", "--stop-steps", "1.5"], "--stop-steps: expected a whole number, got"),
    "algorithm of Python only": (["train", "envoi:catch", "--algo", "dreamerv3"], "configure(DreamerV3Config()"),
    "not a run": (["evaluate", "nowhere"], "does not exist"),
    "unfit algorithm": (["train", "gymnasium:Pendulum-v1", "--algo", "DQN"], "these can: PPO"),
    "near env": (["render", "envoi:cath"], "did you mean 'envoi:catch'"),
    "no env found": (["envs", "cartpoel"], "did you mean 'envoi:cartpole'"),
    "no picture": (["render", "envoi:nim"], "renders no picture (render modes: none)"),
    "no gif": (["render", "envoi:catch", "--gif", "out.png"], "expected a .gif file"),
    "no folder": (["render", "envoi:catch", "--gif", "gone/out.gif"], "there is no folder"),
    "no run": (["render", "envoi:catch", "--policy", "gone"], "--policy: gone does not exist"),
    "render: steps": (["render", "envoi:catch", "--steps", "0"], "--steps: expected at least 1"),
    "speed": (["play", "envoi:catch", "--random", "--fps", "0"], "--fps: expected a number above 0"),
    "check: env": (["check", "gymnasium:CartPoel-v1"], "gymnasium:CartPole-v1"),
    "check: framework": (["check", "envoi:catch", "--frameworks", "gymnasium,dm_evn"], "dm_env"),
    "check: episodes": (["check", "envoi:catch", "--episodes", "0"], "--episodes: expected an integer of at least 1"),
    "bench: rounds": (["bench", "envoi:catch", "--rounds", "1"], "--rounds: expected at least 2, got 1"),
    "contexts": (["train", "envoi:cartpole", "--contexts", "lenght=1"], "--contexts: features['lenght']: no such"),
    "held-out contexts": (["train", "envoi:cartpole", "--eval-contexts", "length=99"], "--eval-contexts['length']: "),
    "success": ([*LEARNING, "learning-progress"], "Contextual(success=…), or give the bounds of returns, (low, high)"),
    "no bounds": ([*LEARNING, "learning-progress:3"], "--curriculum: expected learning-progress:LOW,HIGH"),
    "return": ([*LEARNING, "learning-progress:0,1"], "--curriculum: context 0: expected a return within bounds="),
    "check: function": (["check", "python:wrong_envs:AliasedBufer"], "AliasedBuffer"),
    "check: folder": (["check", "envoi:catch", "--json", "nowhere/r.json"], "nowhere"),
    "check: no file": (["check", "envoi:catch", "--html", "."], "is a directory"),
    "setting without a value": ([*CATCH, "--set", "clip_param"], "NAME=VALUE"),
    "space": ([*CATCH, "--set", "lr=lguniform(1e-5,1e-3)"], "'loguniform'"),
    "spec checks": ([*CATCH, "--check-specs", "ful"], "'full'"),
    "env errors": ([*CATCH, "--on-env-error", "retsart"], "'restart'"),
    "timeout": ([*CATCH, "--step-timeout", "0"], "--step-timeout: expected"),
    "config": ([*CATCH, "--config", "gone.yaml"], "No such file"),
    "module": (
        [*CATCH, "--module", "python:no_such_module:Mine"],
        "cannot be imported: No module named",
    ),
    "contexts of none": ([*CATCH, "--contexts", "size=3,5"], "takes no contexts; give its model a context_space"),
    "several rates": ([*CATCH, "--lr", "1e-3", "--set", "lr=1e-4"], "set twice"),
    "folder in use": (["train", "envoi:catch", "--out", "."], "not empty"),
    "file for a folder": (["train", "envoi:catch", "--out", "note"], "is a file"),
    "below a file": (["train", "envoi:catch", "--out", "note/x"], "cannot"),
    "resume: no run": (["train", "--resume", "--out", "."], "holds no run"),
    "resume: no folder": (["train", "--resume", "--out", "gone"], "does not exist"),
    "evaluate: file": (["evaluate", "note"], "is a file, not a run's folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(cli, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    (note := tmp_path / "note").write_text("mine")
    arguments, hint = BAD[case]
    if arguments[0] in ("train", "evaluate") and "ray" in ABSENT:
        pytest.skip("needs ray")
    code, out, err = cli(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("envoi: ")
    assert hint in err
    assert list(tmp_path.iterdir()) == [note]


@pytest.mark.parametrize("written", ["1e5", "100_000", "100000"])
def test_whole_number_can_have_an_exponent(cli, tmp_path, monkeypatch, written):
    from envoi.integrations.cli.commands import train

    seen = {}
    monkeypatch.setattr(train.Job, "new", lambda settings, out: seen.update(steps=settings.stop_steps) or 1 / 0)
    cli("train", "envoi:catch", "--stop-steps", written, "--out", tmp_path / "run")
    assert seen == {"steps": 100_000}


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "gymnasium:CartPoel-v1"],
        ["train", "envoi:catch", "--algo", "PPOO"],
        ["train", "envoi:catch", "--out", "."],
        ["train", "--resume", "--out", "."],
        ["evaluate", "."],
    ],
)
def test_bad_input_is_an_error_before_ray_is_imported(tmp_path, arguments):
    (tmp_path / "note").write_text("mine")
    done = probe(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "'ray'" not in done.stderr


@needs("ray")
def test_debug_shows_the_traceback(cli):
    with pytest.raises(LookupError):
        cli("train", "gymnasium:CartPoel-v1", "--debug")


@pytest.mark.parametrize(
    ("missing", "extra"), [("typer", "cli"), ("rich", "cli"), ("ray", "rllib"), ("torch", "rllib")]
)
def test_missing_extra_names_the_install_command(tmp_path, missing, extra):
    done = probe(
        "train", "envoi:catch", "--out", tmp_path / "run", before=f"import sys; sys.modules[{missing!r}] = None"
    )
    (message,) = [line for line in done.stderr.splitlines() if line.startswith("envoi: ")]
    assert done.returncode == 2, done.stderr
    assert f"pip install 'envoi[{extra}]'" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("gymnasium:CartPole-v1", ("observation", "Discrete(2", "gymnasium", "rllib", "nothing")),
        ("envoi:nim", ("agents       first, second", "Discrete(101", "pettingzoo_aec", "several")),
        ("envoi:pursuit", ("hunter_0, hunter_1: Discrete(4", "prey: Discrete(5", "rgb_array")),
    ],
)
def test_info_shows_specs_seeds_and_losses(cli, env, words):
    code, out, err = cli("info", env)
    assert (code, err) == (0, "")
    assert all(word in out for word in words)
    assert "the same seed gives the same episode" in out
    # Equal losses of agents are listed together.
    assert "ray" in ABSENT or out.count("shape flattened") == (env == "envoi:pursuit")


def test_the_page_lists_every_command_and_real_options():
    import typer

    from envoi.integrations.cli.commands import app

    page = (Path(__file__).parents[2] / "docs/command_line.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands
    assert set(re.findall(r"^\| `envoi (\w+)", page, re.MULTILINE)) == set(commands)
    known = {name for one in commands.values() for param in one.params for name in (*param.opts, *param.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", page))
    assert named <= known | {"--help", "--install-completion"}
