"""The example that needs TensorFlow learns."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "tf_agents_dqn.py"


def test_dqn_learns_catch(tmp_path):
    done = subprocess.run([sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    returns = [float(found) for found in re.findall(r"^ +480   ([+-]\d\.\d\d)$", done.stdout, re.MULTILINE)]
    assert len(returns) == 5
    assert returns[-1] > returns[0] + 0.3
