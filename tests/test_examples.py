"""Every example runs, and so does the README's code."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OF_TF = "tf_agents_dqn.py"
"""The example that needs TensorFlow; `tests/tf/test_examples_tf.py` runs it."""
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name != OF_TF]


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


EXPECTED = {
    "acme_loop.py": r"episodes   arrived\n( +\d+00 +\d+%\n){5}$",
    "bring_yours.py": r"from 4 episodes of dm_control\nRLlib sampled 4 episodes of PettingZoo, each of 20 steps\n"
    r"from +to +lost\ndm_control +rllib +options: reach lost.*\n(dm_control +rllib .*narrowed.*\n){3}"
    r"PettingZoo +rllib +nothing\n +dm_env +agents: number refused",
    "compiled_batch.py": r"interpreted +[\d,]+   -\d\.\d+\ncompiled +[\d,]+   -\d\.\d+\nthe same bits: True\n$",
    "contexts.py": r"hidden +\(3,\)   light   heavy   light\nobserved +\(5,\)   g=10\.0 m=0\.5   g=10\.0 m=2\.0   .*\n"
    r"sampled +\(5,\)(   \d\.\d\d){3}\ngiven +\(5,\)(   4\.00){3}\n$",
    "corridor.py": r"(\| *o *\|  return -0\.\d\n){5}\| {10}o\|  return \+0\.5\n$",
    "frameworks.py": r"gymnasium +\(8, 1\) observations, [1-9]\d arrivals in 40 steps\ndm_env +LAST with discount 1, "
    r"\[10\.\]\nPettingZoo +\['agent_0'\] earned -0\.1\nRLlib +Box\(.*\), Discrete\(2\)\nand back +True\n$",
    "generalisation.py": r"pole +length +return\nshort +0\.1 m .*\ninside .*\nlong .*\nlongest +3\.0 m +\d",
    "own_tuner.py": r"error: None\niteration   episodes   return\n( +[12] +\d+   [+-]\d\.\d\d\n){2}$",
    "planning.py": r"seed   random   planned\n( +\d +[+-]1 +\+1\n){5}$",
    "representations.py": r"inside: a Room; outside:\n\[\[2 0 0 0\]\n( \[[01 ]{7}\]+\n){3}"
    r"1 coin taken; planes .*\n\[\[\[0 (.*\n)+ *\[0 0 0 0\]\]\]",
    "rewarders.py": r"its own +-\d+\.\d   -inf to 0\.0\nupright +1\d\d\.0   0\.0 to 1\.0\n"
    r"upright, shaped +1\d\d\.\d   0\.0 to 1\.1\n$",
    "rllib_pursuit.py": r"20 games of \d+ to \d+ steps\nagent .*\n(hunter_\d +hunter +\+0\.[3-5]\d\n){2}prey +prey +-0",
    "sb3_ppo.py": r"steps   return\n +0   [+-]0\.\d\d\n( +\d+   [+-]\d\.\d\d\n){4} +10240   \+(0\.[5-9]|1\.0)\d\n$",
    "self_play.py": r"start   \|{15}\n((first|second) +\|*\n)+"
    r"the first player gets -?1\.0\nversion +Elo\n +0 +0\n +1 +[1-9]\d*\n",
    "several_agents.py": r"(?s)(?=.*Parallel +5\.0   \[\]\n)(?=.*AEC +5\.0   \[\]\n).*RLlib +5\.0   \[\]\n$",
    "snapshots.py": r"random   planned\n( +\d +-\d{3} +-\d+\n)+$",
    "tictactoe.py": r"player_1 +3\d +\d+ +\d+\nplayer_2 +\d+ +3\d +\d+\n$",
    "train.py": r"trained in .*\n(\| *o *\|\n)+\| {10}o\|\n$",
    "vector_loop.py": r"return\n +40 +1280   -0\.\d\d\n( +\d+ +1280   [+-]0\.\d\d\n){4} +240 +1280   \+0\.[4-9]\d\n$",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(example: Path) -> None:
    text = example.read_text()
    assert len(text.splitlines()) <= 60
    assert f"\npython examples/{example.name}" in text


def test_every_example_is_run() -> None:
    assert {example.name for example in EXAMPLES} == set(EXPECTED)


TRAINS = ("generalisation.py", "rllib_pursuit.py", "self_play.py", "train.py")
"""The examples that train until they have learned something, each in a Ray of its own."""
SLOW = (*TRAINS, "own_tuner.py", "sb3_ppo.py")


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.deep] if path.name in SLOW else [], id=path.stem) for path in EXAMPLES],
)
def test_example_runs_from_any_folder_and_shows_what_it_promises(example: Path, tmp_path: Path) -> None:
    assert re.search(EXPECTED[example.name], run(sys.executable, str(example), cwd=tmp_path))


class Trained(Exception):
    """Raised where an example would train."""


@pytest.mark.parametrize("example", TRAINS)
def test_example_would_train(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from envoi.integrations import rllib
    from envoi.integrations.rllib.training import Job

    def train(settings: rllib.Settings, folder: Path) -> None:
        Job.new(settings, folder)  # all that is checked before Ray starts
        raise Trained(folder)

    monkeypatch.setattr(rllib, "train", train)
    monkeypatch.setattr(sys, "argv", [example, str(tmp_path)])
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    with pytest.raises(Trained):
        runpy.run_path(str(ROOT / "examples" / example), run_name="__main__")
    assert len(list(tmp_path.glob("*/config.yaml"))) == 1


def test_the_code_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks) + "\nprint(observation, step.observation, creator({}), lanes.reset().shape)\n")
    assert re.search(
        r"narrowed.*\n\[4\.\] \[4\.\] .*Corridor.* \(8, 10\)", run(sys.executable, str(script), cwd=tmp_path)
    )
