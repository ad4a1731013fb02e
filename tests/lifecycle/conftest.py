"""Makes the shared modules of these tests importable by name, so that their classes pickle."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "adapters")]
