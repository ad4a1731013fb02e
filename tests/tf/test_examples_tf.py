"""The example that needs TensorFlow learns, and the page for users of TF-Agents is true with TF-Agents installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tf_agents_dqn.py"


def test_dqn_learns_catch(tmp_path):
    done = subprocess.run([sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    returns = [float(found) for found in re.findall(r"^ +480   ([+-]\d\.\d\d)$", done.stdout, re.MULTILINE)]
    assert len(returns) == 5
    assert returns[-1] > returns[0] + 0.3


@pytest.mark.filterwarnings("ignore:.*narrowed")
def test_the_page_runs_with_tf_agents(capsys):
    page = (ROOT / "docs" / "coming_from" / "tf_agents.md").read_text()
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    assert capsys.readouterr().out == shown
    assert type(names["step"]).__module__.startswith("tf_agents.")
