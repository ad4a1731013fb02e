"""Each extra alone, in a virtual environment of its own: it installs, and what it promises works.

Installs from a package index, several gigabytes in all: `make test-extras` asks for it by name.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

FRAMEWORK = "from envoi.adapters import load, {to}\nassert {to}(load('envoi:catch')).reset() is not None\n"
PROMISES = {
    "gymnasium": FRAMEWORK.format(to="to_gymnasium") + FRAMEWORK.format(to="to_gymnasium_vector"),
    "dm-control": "from envoi.adapters import load\nload('dm_control:cartpole/swingup').reset(seed=0)\n",
    "bsuite": "from envoi.adapters import load\nload('bsuite:catch/0').reset(seed=0)\n",
    "dm-env": FRAMEWORK.format(to="to_dm_env"),
    "pettingzoo": "from envoi.adapters import load, to_pettingzoo, to_pettingzoo_aec\n"
    "to_pettingzoo(load('envoi:nim')).reset(seed=0), to_pettingzoo_aec(load('envoi:nim')).reset(seed=0)\n"
    "load('pettingzoo:mpe/simple_spread').reset(seed=0)\n",
    "rllib": "from envoi.adapters import to_rllib\nto_rllib('envoi:catch')({}).reset(seed=0)\n"
    "from envoi.integrations.rllib import configure\nconfigure('envoi:catch', algo='PPO')\n",
    "sb3": "import warnings; warnings.simplefilter('ignore')\n" + FRAMEWORK.format(to="to_sb3"),
    "tf-agents": "import warnings; warnings.simplefilter('ignore')\n"
    "from tf_agents.environments import tf_py_environment\nfrom envoi.adapters import load, to_tf_agents\n"
    "tf_py_environment.TFPyEnvironment(to_tf_agents(load('envoi:catch'))).reset()\n",
    "envpool": "from envoi.adapters import load, to_gymnasium_vector\n"
    "to_gymnasium_vector(load('envpool:CartPole-v1', n=2)).reset()\n",
    "cli": "import subprocess, sys\n"
    "command = [sys.executable, '-m', 'envoi.integrations.cli', '--help']\n"
    "shown = subprocess.run(command, capture_output=True, text=True)\n"
    "assert 'train' in shown.stdout, shown\n",
    "numba": "import envoi\nenvoi.batch(envoi.models.Catch(), 4, compiled=True).reset(seed=0)\n",
    "curricula": "import envoi\nfrom envoi.curricula import SelfPaced\n"
    "start, target = ([envoi.NormalFloat('length', mean, 0.1)] for mean in (0.5, 0.6))\n"
    "curriculum = SelfPaced(start, target, bound=0, update_every=2)\n"
    "env = envoi.Contextual(envoi.models.CartPole(), context_selector=curriculum)\n"
    "for _ in range(4):\n    env.reset()\n    while not env.step(0).terminated:\n        pass\n"
    "assert curriculum.mean[0] > 0.5\n",
    "parquet": "from envoi.integrations.evaluation import evaluate\n"
    "evaluate(lambda _: 0, 'envoi:cartpole', contexts='length=0.3,0.5', out='found')\n",
    "play": "import pygame, typer, yaml\nfrom gymnasium.utils import play\n",
    "plots": "import matplotlib, tensorboardX\nfrom envoi.integrations.rllib import learning_curve\n",
    "docs": "import zensical, mkdocstrings\n",
    "": "import envoi\nenvoi.models.Catch().reset(seed=0)\n",
}
"""Code that each extra makes possible; without an extra, the core."""
FOR_DEVELOPERS = {"all", "dev", "peers"}
CONSTRAINTS = {"tf-agents": "constraints-tf.txt", "docs": "constraints-docs.txt"}

FROM_OUTSIDE = """
import numpy as np
import envoi
from envoi.adapters import load, to_gymnasium


class Corridor(envoi.Model):
    observation_spec = envoi.Array((1,), "float32", 0, 10)
    action_spec = envoi.Discrete(2)

    def initial(self, rng: np.random.Generator, context: object) -> int:
        return 0

    def transition(self, state: int, action: int, rng: np.random.Generator) -> int:
        return state + action

    def observe(self, state: int, rng: np.random.Generator) -> object:
        return np.array([state], np.float32)

    def reward(self, state: int, action: int, next_state: int) -> float:
        return 1.0

    def terminal(self, state: int) -> bool:
        return state == 10


env = envoi.TimeLimit(Corridor(), 50)
reset: envoi.Reset = Corridor().reset(seed=0)
step: envoi.Step = Corridor().step(1)
terminated: bool = step.terminated
"""
WRONG = "\nwrong: str = step.terminated\n"


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The wheel and the sdist of this tree."""
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in ("core", "adapters", "integrations", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tree)
    for hook in ("build_sdist", "build_wheel"):
        run(sys.executable, "-c", f"from setuptools import build_meta; build_meta.{hook}({str(folder)!r})", cwd=tree)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def fresh(folder, *requirements, constraints="constraints.txt"):
    """Makes a virtual environment with some requirements; returns its interpreter."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / constraints), *requirements, cwd=folder)
    return python


def test_every_extra_is_tried():
    assert set(PROMISES) - {""} == set(EXTRAS) - FOR_DEVELOPERS


def test_the_wheel_and_the_sdist_hold_the_package_and_no_tests(built):
    wheel, source = built
    held = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {"envoi"}
    assert "envoi/py.typed" in held
    assert any(name.endswith("/licenses/LICENSE") for name in held)
    modules = {name for name in held if name.endswith(".py")}
    folders = {"core": "envoi", "adapters": "envoi/adapters", "integrations": "envoi/integrations"}
    for folder, package in folders.items():
        assert {f"{package}/{path.relative_to(ROOT / folder)}" for path in (ROOT / folder).rglob("*.py")} <= modules
    with tarfile.open(source) as archive:
        parts = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {*folders, "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"} <= parts
    assert "tests" not in parts


@pytest.mark.parametrize("extra", PROMISES, ids=lambda extra: extra or "none")
def test_an_extra_alone_does_what_it_promises(extra, built, tmp_path):
    wheel, _ = built
    wanted = f"envoi[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    python = fresh(tmp_path / "venv", wanted, constraints=CONSTRAINTS.get(extra, "constraints.txt"))
    run(python, "-W", "error::SyntaxWarning", "-c", PROMISES[extra], cwd=tmp_path)
    run(python, "-m", "pip", "check", cwd=tmp_path)


def test_the_readme_installs_what_its_code_needs(built, tmp_path):
    text = (ROOT / "README.md").read_text()
    extras = re.search(r"^pip install '\.\[(.+?)\]'", text, re.MULTILINE)[1]
    python = fresh(tmp_path / "venv", f"envoi[{extras}] @ {built[0].as_uri()}")
    (tmp_path / "readme.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    run(python, "readme.py", cwd=tmp_path)
    run(python, "-m", "envoi.integrations.cli", "train", "--help", cwd=tmp_path)
    run(python, "-m", "pip", "check", cwd=tmp_path)


def test_libraries_that_take_gymnasium_environments_take_the_forms(built, tmp_path):
    page = (ROOT / "docs" / "coming_from" / "gymnasium.md").read_text()
    wanted = f"envoi[gymnasium,dm-control] @ {built[0].as_uri()}"
    python = fresh(tmp_path / "venv", wanted, "minari[create,hdf5]>=0.5", "pillow", "torchrl>=0.14", "numba")
    script = "import os\nos.environ['MINARI_DATASETS_PATH'] = os.path.abspath('data')\n"
    (tmp_path / "page.py").write_text(script + "\n".join(re.findall(r"```py\n(.*?)```", page, re.DOTALL)))
    shown = run(python, "page.py", cwd=tmp_path)
    assert shown.startswith("10 TimeLimit(")
    assert "torch.Size([100, 1])" in shown
    assert "torch.Size([16, 100])" in shown


def test_the_core_needs_only_numpy_also_from_the_sdist(built, tmp_path):
    _, source = built
    python = fresh(tmp_path / "venv", str(source), "setuptools")
    installed = run(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path).split()
    assert {name.split("==")[0] for name in installed} <= {"envoi", "numpy", "pip", "setuptools"}
    run(python, "-c", PROMISES[""], cwd=tmp_path)


def test_a_missing_framework_is_named_with_its_extra(built, tmp_path):
    python = fresh(tmp_path / "venv", str(built[0]))
    code = "import envoi\nfrom envoi.adapters import load\ntry:\n    load('gymnasium:CartPole-v1')\n"
    code += "except envoi.MissingBackend as error:\n    print(error)\n"
    assert "pip install 'envoi[gymnasium]'" in run(python, "-c", code, cwd=tmp_path)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_types_are_seen_from_outside(checker, built, tmp_path):
    wanted = {"mypy": ["mypy>=1.11"], "pyright": ["pyright[nodejs]"]}[checker]
    python = fresh(tmp_path / "venv", f"envoi[gymnasium] @ {built[0].as_uri()}", *wanted)
    command = {
        "mypy": [python, "-m", "mypy", "--strict"],
        "pyright": [python, "-m", "pyright", "--pythonpath", python],
    }[checker]
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(FROM_OUTSIDE)
    wrong.write_text(FROM_OUTSIDE + WRONG)
    run(*command, str(right), cwd=tmp_path)
    done = subprocess.run([*command, str(wrong)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "bool" in done.stdout  # the type that comes from envoi, rather than none
