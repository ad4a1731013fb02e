"""The combinations of Python and dependencies that `make test-matrix` tests, each in an environment of its own.

nox looks for the interpreters, uv installs (and fetches an interpreter that is missing, where it can); a combination
without an interpreter is skipped, and named in the table at the end.
"""

import nox

nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = False

EXTRAS = "gymnasium,dm-env,pettingzoo,cli,plots,numba"
PEERS = ("bsuite>=0.3.6", "minigrid>=3.2", "mpe2>=1.1", "ConfigSpace>=1.2", "pygame-ce>=2.5")
TOOLS = ("pytest>=8", "pytest-xdist>=3.8", "hypothesis>=6.140")
# RLlib pins gymnasium, and PyTorch takes gigabytes: `make test` tests them, in the environment of constraints.txt. The
# others are peers without wheels for the newest interpreters, or against the newest gymnasium.
ABSENT = "ray torch stable_baselines3 pyarrow filelock dm_control mujoco Box2D carl qgym rlcard pyspiel"
TESTS = (
    "tests/core",
    "tests/adapters",
    *(f"tests/integrations/test_{name}.py" for name in ("check", "cli", "cli_looking", "step_times", "settings")),
    "tests/test_import_graph.py",
    "tests/test_boundaries.py",
)

OLDEST = ("--resolution", "lowest-direct")  # the oldest versions that are allowed
COMBINATIONS = {
    # name: the interpreter, and what is asked for beside the newest versions
    "3.11-oldest": ("3.11", OLDEST),
    "3.11-gymnasium-1.3": ("3.11", ("gymnasium==1.3.*",)),
    "3.11-newest": ("3.11", ()),
    "3.12-numpy-1.26": ("3.12", ("numpy==1.26.*", "gymnasium==1.2.*")),
    "3.12-newest": ("3.12", ()),
    "3.13-newest": ("3.13", ()),
    "3.14-newest": ("3.14", ()),
}

VERSIONS = """
import platform
from importlib.metadata import version
names = ("numpy", "gymnasium", "pettingzoo", "dm-env", "numba", "typer", "rich", "matplotlib")
print(f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in names), sep=", ")
"""


@nox.session
@nox.parametrize("python, asked", [nox.param(*row, id=name) for name, row in COMBINATIONS.items()])
def matrix(session: nox.Session, asked: tuple[str, ...]) -> None:
    """Tests what needs neither RLlib nor PyTorch.

    Args:
        session: The session, in an environment of its own.
        asked: Requirements, and options of the installation.
    """
    session.install("-e", f".[{EXTRAS}]", *PEERS, *TOOLS, *asked)
    session.run("python", "-c", VERSIONS)
    parallel = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadfile", "--no-loadscope-reorder")
    session.run("pytest", "-q", "-m", "not deep", *parallel, *(session.posargs or TESTS), env={"TESTS_WITHOUT": ABSENT})
