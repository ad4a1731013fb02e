"""What these tests share must be importable by name, so that it pickles and other processes find it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "adapters")]
