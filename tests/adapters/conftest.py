"""Scripted environments must be importable by name, so that they pickle and other processes find them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
